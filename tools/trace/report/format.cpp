#include "tools/trace/report/format.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "policy/text.h"
#include "tools/text/text.h"

namespace slipstream::report {

using policy::Escape;
using text::HumanBytes;
using text::HumanTime;
using text::PadLeft;
using text::PadRight;
using text::WithThousands;

namespace {

// Columns of a file name that is left, and of "...".
constexpr size_t kLeastFile = 4;
constexpr size_t kDots = 3;
constexpr size_t kLeastFunction = 8;

}  // namespace

std::string Figure(const std::string& text) { return PadLeft(text, kFigure); }

std::string Time(double ns) {
  const auto rounded = static_cast<uint64_t>(std::llround(std::min(std::abs(ns), 9e18)));
  return (ns < 0 && rounded != 0 ? "-" : "") + HumanTime(rounded);
}

std::string Time(int64_t ns) { return Time(static_cast<double>(ns)); }

std::string Number(double number) {
  if (number >= 999.5) return WithThousands(static_cast<uint64_t>(std::llround(std::min(number, 9e18))));
  char text[32];
  const int decimals = number == std::floor(number) ? 0 : number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof(text), "%.*f", decimals, number);
  return text;
}

std::string Percent(double part, double whole) {
  if (!(whole > 0)) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100 * part / whole);
  return text;
}

std::string Counted(uint64_t count, const char* one, const char* many) {
  return WithThousands(count) + " " + (count == 1 ? one : many);
}

std::string Wrapped(size_t columns, const std::string& text) { return text::Wrapped(text, columns, 0, 6); }

std::string Labeled(const std::string& label, size_t width) {
  if (text::Columns(label) <= width) return PadRight(label, width);
  return label + "\n" + std::string(width, ' ');
}

std::string Described(const std::string& figures, const std::string& text, size_t columns) {
  constexpr size_t kBetween = 3;
  constexpr size_t kLeastRoom = 34;
  constexpr size_t kBelow = 12;
  const size_t margin = text::Columns(figures) + kBetween;
  const size_t room = columns > margin ? columns - margin : 0;
  if (text::Columns(text) <= room) return figures + std::string(kBetween, ' ') + text + "\n";
  if (room < kLeastRoom) return figures + "\n" + text::Wrapped(text, columns, kBelow, kBelow);
  return figures + text::Wrapped(text, columns, margin, margin).substr(margin - kBetween);
}

const char* Label(Part part) {
  constexpr const char* kLabels[kParts] = {"copies",
                                           "synchronizations",
                                           "allocations and frees",
                                           "launches",
                                           "other CUDA calls",
                                           "outside, other thread in a CUDA call",
                                           "outside CUDA calls"};
  return kLabels[static_cast<size_t>(part)];
}

const char* ShortLabel(Part part) {
  constexpr const char* kLabels[kParts] = {"copies",           "synchronizations",     "allocations, frees", "launches",
                                           "other CUDA calls", "other thread in CUDA", "outside CUDA calls"};
  return kLabels[static_cast<size_t>(part)];
}

const char* HostLabel(size_t host) {
  constexpr const char* kLabels[kHostStates] = {"in a copy", "synchronizing",        "allocating or freeing",
                                                "launching", "in another CUDA call", "outside CUDA calls"};
  return kLabels[host];
}

std::string SiteLabel(const SiteReport& site, size_t columns) {
  if (!site.known) return site.of_step_thread ? "(no line known)" : "(other threads, no line known)";
  const std::string line = site.line ? ":" + std::to_string(*site.line) : "";
  std::string behind = site.function.empty() ? "" : " (" + site.function + ")";
  if (!site.of_step_thread) behind += " [other threads]";
  std::string whole = Escape(site.file + line + behind);
  if (text::Columns(whole) <= columns) return whole;
  // The line stays, whatever has to go.
  const std::string file = Escape(std::filesystem::path(site.file).filename().string());
  std::string place = text::CutFront(file, std::max(columns, line.size() + kLeastFile) - line.size()) + line;
  if (text::Columns(place) + kDots > columns) return place;
  return Cut(place + Escape(behind), columns);
}

std::string PlaceLabel(const Place& place, size_t columns) {
  const std::string before = place.before ? "before " : "";
  SiteReport site;
  site.known = true;
  site.file = place.file;
  site.line = place.line;
  site.function = place.function;
  return before + SiteLabel(site, columns - before.size());
}

std::string HolderLabel(const HolderReport& holder, size_t columns) {
  const std::string library = std::filesystem::path(holder.library).filename().string();
  if (!holder.known) return Cut(Escape(library.empty() ? "(no line known)" : library + " (no line known)"), columns);
  SiteReport site;
  site.known = true;
  site.file = holder.file;
  site.line = holder.line;
  site.function = holder.function;
  return SiteLabel(site, columns);
}

std::string StreamLabel(int64_t handle) {
  constexpr int64_t kLegacy = 1;
  constexpr int64_t kPerThread = 2;
  if (handle == 0 || handle == kLegacy) return "default stream";
  if (handle == kPerThread) return "default streams of threads";
  char text[32];
  std::snprintf(text, sizeof(text), "stream %#llx", static_cast<unsigned long long>(handle));
  return text;
}

std::string FunctionsLabel(const SiteReport& site, size_t columns) {
  std::string text;
  for (size_t i = 0; i < site.functions.size(); ++i) {
    const size_t left = site.functions.size() - i - 1;
    const std::string rest = left == 0 ? "" : ", " + std::to_string(left) + " more";
    const std::string next = (text.empty() ? "" : ", ") + Escape(site.functions[i].name);
    if (text::Columns(text + next + rest) > columns) {
      if (text.empty()) return Cut(next, std::max(columns, rest.size() + kLeastFunction) - rest.size()) + rest;
      return text + ", " + std::to_string(left + 1) + " more";
    }
    text += next;
  }
  return text;
}

std::string FullName(const ProcessReport& process) { return Cut(Escape(NameOf(process)), 60); }

std::string ShortName(const ProcessReport& process) {
  if (process.rank) return "rank " + std::to_string(*process.rank);
  return FullName(process);
}

std::string WallTime(int64_t unix_ns) {
  if (unix_ns <= 0) return "";
  const auto seconds = static_cast<time_t>(unix_ns / 1'000'000'000);
  tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "";
  char text[64];
  return {text, strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

std::string PlaceOf(const ProcessReport& process, int64_t time) {
  const std::optional<int64_t> step = StepNumberAt(process, time);
  return "at " + Time(time) + (step ? ", step " + std::to_string(*step) : "");
}

namespace {

// Of a process whose recording ended by itself.
std::string LaterCalls(const ProcessReport& process) {
  if (!process.later_calls) return "; nobody knows how many calls came later";
  const auto calls = static_cast<uint64_t>(std::max<int64_t>(*process.later_calls, 0));
  return calls == 0 ? "" : "; " + Counted(calls, "later call", "later calls") + " not in it";
}

}  // namespace

std::string Missing(const ProcessReport& process) {
  std::string text;
  const auto say = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (process.dropped != 0) {
    say(Counted(process.dropped, "record", "records") + " dropped in " +
        (process.drop_gaps == 0 ? "a gap at the end" : Counted(process.drop_gaps, "gap", "gaps")));
  }
  if (process.left_bytes != 0) {
    say(Cut(Escape(process.left_why), 80) + ", " + HumanBytes(static_cast<uint64_t>(process.left_bytes)) + " left out");
  } else if (!process.complete) {
    say("no end: it was killed or still runs");
  } else if (process.end_reason == "limit") {
    say("recorded up to the size that its file may have: its first " + Time(process.last - process.first) +
        LaterCalls(process));
  } else if (process.end_reason == "error") {
    say("its file could not be written to the end: there are its first " + Time(process.last - process.first) +
        LaterCalls(process));
  }
  if (process.damaged_bytes != 0 || process.missing_chunks != 0) {
    say("its file is damaged: " + HumanBytes(static_cast<uint64_t>(process.damaged_bytes)) + " passed over, " +
        Counted(static_cast<uint64_t>(process.missing_chunks), "chunk", "chunks") + " missing");
  }
  if (process.missing_records != 0) {
    say(Counted(static_cast<uint64_t>(process.missing_records), "record", "records") + " missing");
  }
  if (process.malformed_chunks != 0) {
    say(Counted(static_cast<uint64_t>(process.malformed_chunks), "malformed chunk", "malformed chunks"));
  }
  if (process.skipped_records != 0) say("records of a newer slipstream left out");
  for (const auto& [fact, count] : process.refused) say(Counted(count, fact->one, fact->many));
  return text;
}

}  // namespace slipstream::report
