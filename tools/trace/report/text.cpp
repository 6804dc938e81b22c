#include "tools/trace/report/text.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "policy/number.h"
#include "policy/text.h"
#include "tools/text/columns.h"
#include "tools/text/text.h"
#include "tools/trace/report/busiest.h"
#include "tools/trace/report/decision_text.h"
#include "tools/trace/report/device_text.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/gains_text.h"
#include "tools/trace/report/lines_text.h"
#include "tools/trace/report/memory_text.h"
#include "tools/trace/report/missing_text.h"
#include "tools/trace/report/verdict_text.h"
#include "tools/trace/report/wall_text.h"

namespace slipstream::report {
namespace {

using policy::Escape;
using text::HumanBytes;
using text::PadLeft;
using text::PadRight;
using text::WithThousands;

constexpr size_t kSitesShown = 12;
constexpr size_t kGapsShown = 3;
constexpr size_t kDecisionsShown = 10;
constexpr size_t kRanksShown = 16;
constexpr size_t kHoldersShown = 8;
constexpr size_t kHeldSumsShown = 4;

// The columns of the table of steps: all of it is as wide as the screen.
struct StepColumns {
  explicit StepColumns(size_t columns)
      : narrow(columns < kNarrow),
        figure(narrow ? 8 : kFigure),
        share(narrow ? 8 : 9),
        label(narrow ? std::min<size_t>(columns - 6 * figure - share, 41) : RowLabel(columns)) {}

  static constexpr size_t kNarrow = 110;
  bool narrow;
  size_t figure;
  size_t share;
  size_t label;

  std::string Part(report::Part part) const { return std::string("    ") + (narrow ? ShortLabel(part) : Label(part)); }
};

std::string Row(const StepColumns& at, const std::string& label, const Distribution& of, double whole) {
  const auto time = [&](auto ns) { return PadLeft(Time(ns), at.figure); };
  return Labeled(label, at.label) + time(of.mean()) + PadLeft(Percent(of.mean(), whole), at.share) + time(of.median) +
         time(of.p10) + time(of.p90) + time(of.min) + time(of.max) + "\n";
}

// Without ranks, which one of anything has not.
std::string WholeRow(const std::string& label, int64_t time, int64_t whole, size_t columns) {
  return Labeled(label, RowLabel(columns)) + Figure(Time(time)) +
         PadLeft(Percent(static_cast<double>(time), static_cast<double>(whole)), 9) + "\n";
}

// Of "file:line (function)".
std::string StepSiteLabel(const std::string& site) {
  constexpr size_t kMost = 70;
  const size_t function = site.rfind(" (");
  const size_t colon = site.rfind(':', function);
  if (colon == std::string::npos) return Cut(Escape(site), kMost);
  SiteReport of;
  of.known = true;
  of.file = site.substr(0, colon);
  of.line = policy::NumberIn<int64_t>(std::string_view(site).substr(colon + 1, function - colon - 1));
  if (!of.line) return Cut(Escape(site), kMost);
  if (function != std::string::npos) of.function = site.substr(function + 2, site.size() - function - 3);
  return SiteLabel(of, kMost);
}

// How long they are: by so much less that it says what recording the devices costs.
std::string BeforeDevices(const ProcessReport& process) {
  const std::optional<int64_t> median = process.median_before_devices();
  return median ? " (in the median " + Time(*median) + " before they first were)" : "";
}

std::string StepsTitle(const ProcessReport& process, size_t columns) {
  std::string left;
  if (process.warm_up_steps != 0) {
    int64_t time = 0;
    for (const Step& step : process.steps) {
      if (step.use == StepUse::kWarmUp) AddTo(&time, step.time());
    }
    left += "; before them " + Counted(process.warm_up_steps, "slower step", "slower steps") +
            " of warm-up, left out (" + Time(time) + ")";
  }
  const std::string whose = " (" + WithThousands(process.dropped_of_step_thread) + " of this thread, " +
                            WithThousands(process.dropped_of_others) + " of other threads)";
  if (process.dropped_steps != 0) {
    left += "; " + Counted(process.dropped_steps, "step", "steps") + " with dropped records, left out" + whose;
  }
  if (process.unfinished_steps != 0) {
    left += "; " + Counted(process.unfinished_steps, "step whose end is not known", "steps whose ends are not known") +
            ", left out";
  }
  if (process.paused_steps != 0) {
    left += "; " + Counted(process.paused_steps, "step", "steps") + " in which the recording was paused, left out";
  }
  if (process.unwatched_steps != 0) {
    left += "; " + Counted(process.unwatched_steps, "step", "steps") + " in which devices were not recorded, left out" +
            BeforeDevices(process);
  }
  if (process.ahead_steps != 0) {
    left +=
        "; " + Counted(process.ahead_steps, "step", "steps") + " in which the host ran ahead of the devices, left out";
  }
  if (process.waited_after) {
    left += "; THE HOST RAN AHEAD of the devices: after these steps it waited " + Time(*process.waited_after) +
            " for them, and with that a step takes about " + Time(process.work_time.mean()) +
            "; what it takes on the host is below";
  } else if (process.ran_ahead) {
    left += "; THE HOST RAN AHEAD of the devices in all of them: a step takes " + Time(process.work_time.mean()) +
            ", the pace at which the work of one ends, and what it takes on the host is " + "below";
  }
  if (process.drops_everywhere) left += "; RECORDS WERE DROPPED IN ALL OF THEM" + whose + ": calls are missing below";
  const std::string by_launches =
      process.step_launches
          ? ", each about " +
                Counted(static_cast<uint64_t>(*process.step_launches), "launch, copy or set",
                        "launches, copies and sets") +
                " that come again" +
                (process.step_site.empty() ? "" : ", the first of them at " + StepSiteLabel(process.step_site))
          : "";
  const std::string of = process.step_launches ? by_launches
                         : process.steps_found
                             ? ", each from " + StepSiteLabel(process.step_site) + " to the next time there"
                             : ", as recorded";
  return Wrapped(columns, "STEPS of " + FullName(process) + ": " + Counted(process.measured_steps, "step", "steps") +
                              of + PauseText(process) + left);
}

// A row below a part of a step: behind its label, or in a narrow table, behind its figures, where there is room.
std::string GapRow(const StepColumns& at, const std::string& what, int64_t time, const ProcessReport& process) {
  const auto gap = static_cast<double>(time);
  const std::string mean = Time(gap / process.divisor());
  const std::string share = Percent(gap, static_cast<double>(process.measured_time));
  if (at.narrow && process.has_steps) {
    return std::string(at.label, ' ') + PadLeft(mean, at.figure) + PadLeft(share, at.share) + "  " + what + "\n";
  }
  return PadRight("      " + what, at.label) + Figure(mean) + PadLeft(share, 9) + "\n";
}

// Where the thread comes from when it was outside CUDA calls for long: what it does next tells what it was waiting for.
std::string Gaps(const ProcessReport& process, size_t columns) {
  std::vector<const SiteReport*> sites;
  for (const SiteReport& site : process.sites) {
    if (site.gap > 0 && site.known) sites.push_back(&site);
  }
  std::stable_sort(sites.begin(), sites.end(),
                   [](const SiteReport* a, const SiteReport* b) { return a->gap > b->gap; });
  if (sites.empty()) return "";
  StepColumns at(columns);
  if (!process.has_steps) at.label = RowLabel(columns);
  constexpr std::string_view kBefore = "before ";
  const size_t room = at.narrow && process.has_steps ? columns - at.label - at.figure - at.share - 2 : at.label - 7;
  std::string text;
  // They add up to the part above them.
  int64_t rest = process.parts[static_cast<size_t>(Part::kOutside)].total;
  for (size_t i = 0; i < sites.size() && i < kGapsShown; ++i) {
    text += GapRow(at, std::string(kBefore) + SiteLabel(*sites[i], room - kBefore.size()), sites[i]->gap, process);
    rest -= sites[i]->gap;
  }
  if (rest > 0) text += GapRow(at, "before other calls, or none", rest, process);
  return text;
}

std::string NoSteps(const ProcessReport& process, size_t columns) {
  const std::string why = process.why_no_steps.empty() ? "" : " (" + Escape(process.why_no_steps) + ")";
  const int64_t whole = process.step_time.total;
  const int64_t recorded = process.last - process.first;
  const std::string what = whole >= recorded
                               ? "all of it"
                               : Time(whole) + " of " + Time(recorded) + ", in which " +
                                     (process.devices_recorded ? "its devices were" : "it was") + " recorded";
  std::string text = Wrapped(columns, "TIME of " + FullName(process) + ": no steps were found" + why + ", so this is " +
                                          what + ", as the thread with most calls spent it");
  if (process.drops_everywhere) text += "  records were dropped: calls are missing below\n";
  text += PadRight("", RowLabel(columns)) + Figure("time") + PadLeft("share", 9) + "\n";
  text += WholeRow("  recorded", whole, whole, columns);
  for (size_t i = 0; i < kParts; ++i) {
    text += WholeRow(std::string("    ") + Label(static_cast<Part>(i)), process.parts[i].total, whole, columns);
  }
  return text + Gaps(process, columns);
}

std::string Steps(const ProcessReport& process, size_t columns) {
  if (!process.has_steps) return NoSteps(process, columns);
  const StepColumns at(columns);
  std::string text = StepsTitle(process, columns);
  text += PadRight("", at.label) + PadLeft("mean", at.figure) + PadLeft("share", at.share);
  for (const char* const title : {"median", "p10", "p90", "min", "max"}) text += PadLeft(title, at.figure);
  text += "\n";
  const double whole = process.step_time.mean();
  if (process.pause_time.total != 0) {
    text +=
        Row(at, "  from one step to the next", process.pace, 0) + Row(at, "  between two steps", process.pause_time, 0);
  }
  if (process.ran_ahead)
    text += Row(at, process.waited_after ? "  a step's work, about" : "  a step's work, from end to end",
                process.work_time, 0);
  text += Row(at, process.ran_ahead ? "  a step on the host" : "  a step", process.step_time, whole);
  for (size_t i = 0; i < kParts; ++i) text += Row(at, at.Part(static_cast<Part>(i)), process.parts[i], whole);
  return text + Gaps(process, columns) + SlowStepsText(process, columns);
}

constexpr size_t kRankSteps = 7;
constexpr size_t kRankFigure = 8;

// The table of processes: on a narrow screen each has two lines.
struct RankColumns {
  RankColumns(const Report& report, size_t columns) : two_lines(columns < StepColumns::kNarrow) {
    const size_t beside = 2 + (report.kernels_recorded ? 1 : 0) + (report.communication ? 1 : 0);
    const size_t figures = kRankSteps + kRankFigure * (two_lines ? kParts : kParts + beside);
    label = std::clamp<size_t>(columns - std::min(columns, figures), 14, 40);
  }
  bool two_lines;
  size_t label = 0;
};

// `front` and `devices` stand beside each other, the parts of a step between them or below.
std::string RankLine(const RankColumns& at, const std::string& label, const std::string& front,
                     const std::string& parts, const std::string& devices) {
  const std::string line = Labeled(label, at.label) + front;
  if (!at.two_lines) return line + parts + devices + "\n";
  return line + devices + "\n" + std::string(at.label + kRankSteps, ' ') + parts + "\n";
}

std::string RankRow(const Report& report, const ProcessReport& process, const RankColumns& at) {
  const auto cell = [](const std::string& text) { return PadLeft(text, kRankFigure); };
  std::string front = PadLeft(process.has_steps ? WithThousands(process.measured_steps) : "none", kRankSteps);
  front += cell(process.has_steps ? Time(process.step_time.median) : "-") +
           cell(process.has_steps ? Time(process.step_time.p90) : "-");
  std::string parts;
  for (size_t i = 0; i < kParts; ++i) parts += cell(Time(process.parts[i].mean()));
  std::string devices;
  if (report.kernels_recorded) {
    const std::optional<size_t> device = Busiest(process);
    devices += cell(!device ? "-"
                            : Percent(static_cast<double>(process.devices[*device].times.kernels),
                                      static_cast<double>(process.measured_time)));
  }
  if (report.communication) {
    const auto time = static_cast<double>(process.communication());
    devices += cell(time == 0 ? "-" : Time(time / process.device_divisor()));
  }
  return RankLine(at, "  " + Cut(ShortName(process), at.two_lines ? 60 : at.label - 2), front, parts, devices);
}

std::string SlowestText(const Report& report, size_t columns) {
  if (!report.spread) return "";
  return Wrapped(columns, "  " + SlowestSentence(report) + (report.slowest ? "; what follows is of it" : ""));
}

std::string Ranks(const Report& report, size_t columns) {
  if (report.processes.size() < 2) return "";
  std::string title = "PROCESSES: median and p90 of a step, means of its parts";
  if (report.kernels_recorded) title += "; GPU: time with kernels";
  if (report.communication) title += "; comm.: in such that communicate";
  const RankColumns at(report, columns);
  std::string parts;
  for (const char* const part : {"copies", "synchr.", "allocs", "launch", "other", "elsewh.", "outside"}) {
    parts += PadLeft(part, kRankFigure);
  }
  std::string text =
      Wrapped(columns, title) +
      RankLine(at, "", PadLeft("steps", kRankSteps) + PadLeft("median", kRankFigure) + PadLeft("p90", kRankFigure),
               parts,
               (report.kernels_recorded ? PadLeft("GPU", kRankFigure) : "") +
                   (report.communication ? PadLeft("comm.", kRankFigure) : ""));
  // The slowest is among them.
  std::vector<size_t> order;
  for (size_t i = 0; i < report.processes.size(); ++i) {
    if (order.size() < kRanksShown) order.push_back(i);
  }
  if (report.shown >= kRanksShown) order.back() = report.shown;
  for (const size_t i : order) text += RankRow(report, report.processes[i], at);
  if (order.size() < report.processes.size()) {
    text += "  and " + Counted(report.processes.size() - order.size(), "more process", "more processes") +
            " (--json has all)\n";
  }
  return text + SlowestText(report, columns);
}

// The line of a site and its functions, which stand below where there is no room behind it. Where no line is known, the
// functions are all there is to say.
std::string WhereText(const SiteReport& site, size_t columns) {
  constexpr size_t kFront = 31;
  constexpr size_t kBehind = 35;
  const size_t room = columns - kFront;
  const size_t wide = std::clamp<size_t>(room - std::min(room, kBehind), 30, 80);
  const std::string where = SiteLabel(site, wide);
  const std::string padded = PadRight(where, site.known ? wide : text::Columns(where)) + " ";
  const size_t left = room - text::Columns(padded);
  const bool below = columns < StepColumns::kNarrow && FunctionsLabel(site, room) != FunctionsLabel(site, left);
  if (!below) return padded + FunctionsLabel(site, left) + "\n";
  return SiteLabel(site, room) + "\n" + std::string(kFront + 2, ' ') + FunctionsLabel(site, room - 2) + "\n";
}

std::string Sites(const ProcessReport& process, size_t columns) {
  if (process.sites.empty()) return "";
  const double divisor = process.divisor();
  const double whole = static_cast<double>(process.measured_time);
  std::string text =
      Wrapped(columns, std::string("CALL SITES: time in CUDA calls") + (process.has_steps ? ", a step" : "") +
                           " (* synchronizations and blocking copies that were not skipped)");
  text += Figure("time") + PadLeft("share", 9) + PadLeft("calls", 9) + "   where\n";
  const auto row = [&](int64_t time, uint64_t calls, bool waits, const std::string& where) {
    return Figure(Time(static_cast<double>(time) / divisor)) + PadLeft(Percent(static_cast<double>(time), whole), 9) +
           PadLeft(Number(static_cast<double>(calls) / divisor), 9) + (waits ? " * " : "   ") + where;
  };
  const size_t shown = process.sites.size() <= kSitesShown + 1 ? process.sites.size() : kSitesShown;
  for (size_t i = 0; i < shown; ++i) {
    const SiteReport& site = process.sites[i];
    text += row(site.time, site.calls, site.waiting != 0, WhereText(site, columns));
  }
  if (shown < process.sites.size()) {
    int64_t time = 0;
    uint64_t calls = 0;
    for (size_t i = shown; i < process.sites.size(); ++i) {
      AddTo(&time, process.sites[i].time);
      calls += process.sites[i].calls;
    }
    text += row(time, calls, false, Counted(process.sites.size() - shown, "more line", "more lines") + "\n");
  }
  return text;
}

// What the decisions were good for, as far as the devices' records tell.
std::string Ahead(const ProcessReport& process, size_t columns) {
  const bool any = std::any_of(process.decisions.begin(), process.decisions.end(), [](const DecisionReport& decision) {
    return SkipsTheWait(decision.name) || MakesItReturn(decision.name);
  });
  if (!any) return "";
  if (!process.ahead) {
    return Wrapped(columns, process.unwatched_everywhere
                                ? "  what was gained is not known: devices were recorded in no step to its end"
                                : "  what was gained is not known: a recording of the devices would tell");
  }
  const AheadReport& ahead = *process.ahead;
  const double divisor = process.divisor();
  const char* const a_step = process.has_steps ? " a step" : "";
  const auto time = [&](int64_t sum) { return Time(static_cast<double>(sum) / divisor); };
  const AheadTimes& own = ahead.step_thread;
  std::string text = "the host went on for " + time(own.all_went_on()) + a_step +
                     " while work was still running that it would have waited for (" +
                     WithThousands(ahead.behind_work) + " of " +
                     Counted(ahead.skipped, "skipped wait", "skipped waits") + ")";
  if (own.waited_later != 0) text += "; for another " + time(own.waited_later) + " it waited in a later call";
  if (own.added != 0) {
    text += "; besides, slipstream made it wait for " + time(own.added) + ", which leaves " + time(own.net());
  }
  if (ahead.other_threads.all_went_on() != 0) {
    text += "; other threads went on for " + time(ahead.other_threads.all_went_on());
  }
  if (ahead.stream_unknown != 0) {
    text += "; of " + Counted(ahead.stream_unknown, "wait", "waits") + " the stream is not known";
  }
  return Wrapped(columns, "  " + text + ". This is not by how much a step is shorter.");
}

// Beside each other, and not multiplied: nobody knows what a call would have taken that was served.
std::string Pool(const ProcessReport& process, size_t columns) {
  std::string text;
  const auto say = [&](const PoolCalls& calls, const char* function, const char* served) {
    if (calls.served == 0) return;
    text +=
        Wrapped(columns, "  pool: " + Counted(calls.served, "call", "calls") + " of " + function + served +
                             Time(calls.served_time) + " (median " + Time(calls.served_median) + "); " +
                             (calls.real == 0 ? std::string("none of this run reached the driver")
                                              : WithThousands(calls.real) + " in this run reached the driver, median " +
                                                    Time(calls.real_median)));
  };
  say(process.allocations, "cudaMalloc", " served in ");
  say(process.frees, "cudaFree", " kept in ");
  return text;
}

std::string Decisions(const ProcessReport& process, size_t columns) {
  if (process.decisions.empty()) return "";
  const double divisor = process.divisor();
  const bool saved = std::any_of(process.decisions.begin(), process.decisions.end(),
                                 [](const DecisionReport& decision) { return decision.saved != 0; });
  const bool lost = std::any_of(process.decisions.begin(), process.decisions.end(),
                                [](const DecisionReport& decision) { return decision.lost != 0; });
  const bool steps = process.has_steps;
  std::string text = std::string("WHAT SLIPSTREAM DECIDED: in the whole run") + (steps ? ", and in a step" : "") +
                     "\n" + Figure("times") + Figure("bytes") + (steps ? PadLeft("a step", 9) + Figure("bytes") : "");
  text += (saved ? Figure("saved") : "") + (lost ? Figure("lost") : "") + "   what\n";
  size_t shown = 0;
  for (const DecisionReport& decision : process.decisions) {
    if (++shown > kDecisionsShown && process.decisions.size() > kDecisionsShown + 1) break;
    const double bytes = static_cast<double>(decision.measured_bytes) / divisor;
    std::string row = Figure(WithThousands(decision.calls)) + Figure(HumanBytes(static_cast<uint64_t>(decision.bytes)));
    if (steps) {
      row += PadLeft(Number(static_cast<double>(decision.measured_calls) / divisor), 9) +
             Figure(HumanBytes(static_cast<uint64_t>(bytes)));
    }
    if (saved) row += Figure(Time(decision.saved));
    if (lost) row += Figure(Time(decision.lost));
    text += Described(row, Escape(decision.meaning.empty() ? decision.name : decision.meaning), columns);
  }
  if (process.decisions.size() > kDecisionsShown + 1) {
    text += "  and " + std::to_string(process.decisions.size() - kDecisionsShown) + " more (--json has all)\n";
  }
  return text + Ahead(process, columns) + Pool(process, columns);
}

std::string Memory(const ProcessReport& process, size_t columns) {
  std::string text;
  const auto bytes = [](int64_t size) { return HumanBytes(static_cast<uint64_t>(size)); };
  for (const MemoryReport& pool : process.memory) {
    text += Wrapped(columns, "MEMORY of device " + std::to_string(pool.device) + ", the highest of " +
                                 Counted(pool.readings, "reading", "readings") +
                                 " of its pool: " + bytes(pool.peak_live) + " live, " + bytes(pool.peak_idle) +
                                 " idle, " + bytes(pool.peak) + " together " + PlaceOf(process, pool.peak_point.time) +
                                 "; at the end " + bytes(pool.last_live) + " and " + bytes(pool.last_idle));
    text += FragmentationText(process, pool, columns);
  }
  return text.empty() ? "MEMORY: no figures of the pool were recorded\n" : text;
}

// "a 3 GiB, b 2 GiB, 3 more"
template <typename Sums, typename Name>
std::string HeldSums(const Sums& sums, const Name& name) {
  std::string text;
  size_t shown = 0;
  for (const auto& [key, sum] : sums) {
    if (++shown > kHeldSumsShown && sums.size() > kHeldSumsShown + 1) {
      return text + ", " + std::to_string(sums.size() - kHeldSumsShown) + " more (--json has all)";
    }
    text += (text.empty() ? "" : ", ") + name(key) + " " + HumanBytes(static_cast<uint64_t>(sum.bytes)) + " in " +
            WithThousands(sum.blocks);
  }
  return text;
}

template <typename Key>
std::vector<std::pair<Key, HeldSum>> ByBytes(const std::map<Key, HeldSum>& sums) {
  std::vector<std::pair<Key, HeldSum>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  return sorted;
}

// PyTorch's own allocator makes one line of many tensors.
bool HasSegments(const HeldReport& held) {
  const auto any = [](const auto& sums, const auto& is) {
    return std::any_of(sums.begin(), sums.end(), [&](const auto& sum) { return is(sum.first); });
  };
  return any(held.libraries, [](const std::string& path) { return path.ends_with("/libc10_cuda.so"); }) &&
         any(held.functions,
             [](const std::string& name) { return name == "cudaMalloc" || name.starts_with("cudaMalloc_v"); });
}

std::string HeldMemory(const ProcessReport& process, size_t columns) {
  std::string text;
  const auto bytes = [](int64_t size) { return HumanBytes(static_cast<uint64_t>(size)); };
  for (const HeldReport& held : process.held) {
    const std::string device = held.device >= 0 ? "device " + std::to_string(held.device) : "an unknown device";
    std::string pool;
    if (held.pool) {
      pool = "; its pool held " + bytes(Sum(held.pool->live, held.pool->idle)) + " then, " + bytes(held.pool->idle) +
             " of it idle";
    }
    text += Wrapped(columns, "WHO HAD MEMORY of " + device +
                                 " at the peak of what the program's calls got: " + bytes(held.peak) + " in " +
                                 Counted(held.peak_blocks, "block", "blocks") + " " + PlaceOf(process, held.peak_time) +
                                 pool + "; at the end " + bytes(held.last) + " in " + WithThousands(held.last_blocks) +
                                 "; " + Counted(held.allocations, "allocation", "allocations") + " in all");
    text += Figure("bytes") + PadLeft("share", 9) + Figure("blocks") + "   who\n";
    HeldSum rest;
    for (size_t i = 0; i < held.holders.size(); ++i) {
      const HolderReport& holder = held.holders[i];
      if (i >= kHoldersShown && held.holders.size() > kHoldersShown + 1) {
        AddTo(&rest.bytes, holder.sum.bytes);
        rest.blocks += holder.sum.blocks;
        continue;
      }
      text += Figure(bytes(holder.sum.bytes)) +
              PadLeft(Percent(static_cast<double>(holder.sum.bytes), static_cast<double>(held.peak)), 9) +
              Figure(WithThousands(holder.sum.blocks)) + "   " + HolderLabel(holder, columns - 32) + "\n";
    }
    if (rest.blocks != 0) {
      text += Figure(bytes(rest.bytes)) +
              PadLeft(Percent(static_cast<double>(rest.bytes), static_cast<double>(held.peak)), 9) +
              Figure(WithThousands(rest.blocks)) + "   " + std::to_string(held.holders.size() - kHoldersShown) +
              " more (--json has all)\n";
    }
    const auto file = [](const std::string& path) {
      return path.empty() ? std::string("(not known)")
                          : Cut(Escape(path.substr(path.rfind('/') + 1)), 44) + WorkspaceOf(path);
    };
    text += DeviceUseText(process, held, columns);
    text += MemoryColumnsText(held, columns);
    text += Wrapped(columns, "  called from: " + HeldSums(held.libraries, file));
    text += Wrapped(columns, "  streams: " + HeldSums(ByBytes(held.streams), StreamLabel));
    text += Wrapped(columns, "  blocks of at least: " + HeldSums(ByBytes(held.sizes), [&](int exponent) {
                               return bytes(int64_t{1} << exponent) + ":";
                             }));
    if (HasSegments(held)) {
      text +=
          Wrapped(columns,
                  "  PyTorch asks cudaMalloc for segments and cuts tensors out of them: the line of one is the line "
                  "that made it ask. Each tensor has its own with PYTORCH_ALLOC_CONF=backend:cudaMallocAsync.");
    }
  }
  if (text.empty()) return text;
  const auto say = [&](uint64_t count, const char* one, const char* many, const char* what) {
    if (count != 0) text += Wrapped(columns, "  " + Counted(count, one, many) + what);
  };
  say(process.unknown_frees, "block was", "blocks were",
      " given back and not seen allocated: from before the recording, or imported from another process");
  say(process.unseen_frees, "block was", "blocks were",
      " there until its address was allocated again: the call that gave it back is not in the trace");
  say(process.unknown_resets, "reset", "resets", " of one of several devices: what was on it still counts");
  if (process.pauses != 0) text += Wrapped(columns, "  the recording was paused: blocks may be missing, or too many");
  if (process.dropped != 0 || process.missing_records != 0 || process.given_up_records != 0) {
    text += Wrapped(columns, std::string("  records ") +
                                 (process.dropped != 0           ? "were dropped"
                                  : process.missing_records != 0 ? "are missing"
                                                                 : "were given up") +
                                 ": blocks may be missing, or too many");
  }
  return text;
}

}  // namespace

std::string RunText(const Report& report, size_t columns) {
  std::string text = "slipstream report";
  const ProcessReport* const shown = report.processes.empty() ? nullptr : &report.processes[report.shown];
  if (shown != nullptr) {
    text += ": " + Cut(Escape(shown->command.empty() ? NameOf(*shown) : shown->command), columns - text.size() - 2);
  }
  std::string about = "  " + Counted(report.processes.size(), "process", "processes");
  if (!report.hosts.empty()) {
    about += report.hosts.size() == 1 ? " on " + text::CutMiddle(Escape(report.hosts.front()), 40)
                                      : " on " + Counted(report.hosts.size(), "host", "hosts");
  }
  const std::string wall = WallTime(report.start_unix_ns);
  if (!wall.empty()) about += ", from " + wall;
  about += " for " + Time(report.last - report.first) + ", " + Counted(report.calls, "CUDA call", "CUDA calls");
  return text + "\n" + Wrapped(columns, about) + MissingText(report, columns);
}

std::string FormatReport(const Report& report, const text::Page& page) {
  const size_t columns = page.columns;
  const std::string text = VerdictText(report, columns) + RunText(report, columns);
  if (report.processes.empty()) return text + "  there are no processes in it\n";
  const ProcessReport& shown = report.processes[report.shown];
  return text::BoldHeadings(text + Ranks(report, columns) + WallText(shown, columns) + Steps(shown, columns) +
                                DevicesText(report, shown, columns) + Sites(shown, columns) +
                                RangesText(shown, columns) + Decisions(shown, columns) + GainsText(shown, columns) +
                                Memory(shown, columns) + HeldMemory(shown, columns) +
                                NotSeenText(report, shown, columns),
                            page);
}

}  // namespace slipstream::report
