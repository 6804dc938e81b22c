#include "tools/trace/report/text.h"

#include <algorithm>

#include "policy/text.h"
#include "tools/text/text.h"
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

std::string Run(const Report& report) {
  std::string text = "slipstream report";
  const ProcessReport* const shown = report.processes.empty() ? nullptr : &report.processes[report.shown];
  if (shown != nullptr) {
    text += ": " + Cut(Escape(shown->command.empty() ? NameOf(*shown) : shown->command), kColumns - text.size() - 2);
  }
  text += "\n  " + Counted(report.processes.size(), "process", "processes");
  if (!report.hosts.empty()) {
    text += report.hosts.size() == 1 ? " on " + Cut(Escape(report.hosts.front()), 40)
                                     : " on " + Counted(report.hosts.size(), "host", "hosts");
  }
  const std::string wall = WallTime(report.start_unix_ns);
  if (!wall.empty()) text += ", from " + wall;
  text += " for " + Time(report.last - report.first) + ", " + Counted(report.calls, "CUDA call", "CUDA calls") + "\n";
  return text + MissingText(report);
}

std::string Row(const std::string& label, const Distribution& of, double whole) {
  return PadRight(label, kRowLabel) + Figure(Time(of.mean())) + PadLeft(Percent(of.mean(), whole), 9) +
         Figure(Time(of.median)) + Figure(Time(of.p10)) + Figure(Time(of.p90)) + Figure(Time(of.min)) +
         Figure(Time(of.max)) + "\n";
}

// Without ranks, which one of anything has not.
std::string WholeRow(const std::string& label, int64_t time, int64_t whole) {
  return PadRight(label, kRowLabel) + Figure(Time(time)) +
         PadLeft(Percent(static_cast<double>(time), static_cast<double>(whole)), 9) + "\n";
}

std::string StepsTitle(const ProcessReport& process) {
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
    left += "; " + Counted(process.unwatched_steps, "step", "steps") +
            " in which another profiler had the devices, left out";
  }
  if (process.drops_everywhere) left += "; RECORDS WERE DROPPED IN ALL OF THEM" + whose + ": calls are missing below";
  const std::string of = process.steps_found
                             ? ", each from " + Cut(Escape(process.step_site), 70) + " to the next time there"
                             : ", as recorded";
  return Wrapped("", "STEPS of " + FullName(process) + ": " + Counted(process.measured_steps, "step", "steps") + of +
                         PauseText(process) + left);
}

// Where the thread comes from when it was outside CUDA calls for long: what it does next tells what it was waiting for.
std::string Gaps(const ProcessReport& process) {
  std::vector<const SiteReport*> sites;
  for (const SiteReport& site : process.sites) {
    if (site.gap > 0 && site.known) sites.push_back(&site);
  }
  std::stable_sort(sites.begin(), sites.end(),
                   [](const SiteReport* a, const SiteReport* b) { return a->gap > b->gap; });
  if (sites.empty()) return "";
  std::string text;
  const auto row = [&](const std::string& label, int64_t time) {
    const auto gap = static_cast<double>(time);
    text += PadRight("      " + label, kRowLabel) + Figure(Time(gap / process.divisor())) +
            PadLeft(Percent(gap, static_cast<double>(process.measured_time)), 9) + "\n";
  };
  // They add up to the part above them.
  int64_t rest = process.parts[static_cast<size_t>(Part::kOutside)].total;
  for (size_t i = 0; i < sites.size() && i < kGapsShown; ++i) {
    row("before " + SiteLabel(*sites[i], kRowLabel - 14), sites[i]->gap);
    rest -= sites[i]->gap;
  }
  if (rest > 0) row("before other calls, or none", rest);
  return text;
}

std::string Steps(const ProcessReport& process) {
  if (!process.has_steps) {
    const std::string why = process.why_no_steps.empty() ? "" : " (" + Escape(process.why_no_steps) + ")";
    const int64_t whole = process.step_time.total;
    const int64_t recorded = process.last - process.first;
    const std::string what = whole >= recorded
                                 ? "all of it"
                                 : Time(whole) + " of " + Time(recorded) + ", in which " +
                                       (process.devices_recorded ? "its devices were" : "it was") + " recorded";
    std::string text = Wrapped("", "TIME of " + FullName(process) + ": no steps were found" + why + ", so this is " +
                                       what + ", as the thread with most calls spent it");
    if (process.drops_everywhere) text += "  records were dropped: calls are missing below\n";
    text += PadRight("", kRowLabel) + Figure("time") + PadLeft("share", 9) + "\n";
    text += WholeRow("  recorded", whole, whole);
    for (size_t i = 0; i < kParts; ++i) {
      text += WholeRow(std::string("    ") + Label(static_cast<Part>(i)), process.parts[i].total, whole);
    }
    return text + Gaps(process);
  }
  std::string text = StepsTitle(process);
  text += PadRight("", kRowLabel) + Figure("mean") + PadLeft("share", 9) + Figure("median") + Figure("p10") +
          Figure("p90") + Figure("min") + Figure("max") + "\n";
  const double whole = process.step_time.mean();
  if (process.pause_time.total != 0) {
    text += Row("  from one step to the next", process.pace, 0) + Row("  between two steps", process.pause_time, 0);
  }
  text += Row("  a step", process.step_time, whole);
  for (size_t i = 0; i < kParts; ++i) {
    text += Row(std::string("    ") + Label(static_cast<Part>(i)), process.parts[i], whole);
  }
  return text + Gaps(process) + SlowStepsText(process);
}

const DeviceReport* Busiest(const ProcessReport& process) {
  const DeviceReport* busiest = nullptr;
  for (const DeviceReport& device : process.devices) {
    if (busiest == nullptr || device.times.kernels > busiest->times.kernels) busiest = &device;
  }
  return busiest;
}

// With one column more, what is named is a rank.
size_t RankLabel(const Report& report) { return report.communication ? 14 : 22; }

std::string RankRow(const Report& report, const ProcessReport& process) {
  constexpr size_t kColumn = 8;
  const auto mean = [&](std::initializer_list<Part> parts) {
    double sum = 0;
    for (const Part part : parts) sum += process.parts[static_cast<size_t>(part)].mean();
    return PadLeft(Time(sum), kColumn);
  };
  std::string text = PadRight("  " + Cut(ShortName(process), RankLabel(report) - 2), RankLabel(report)) +
                     PadLeft(process.has_steps ? WithThousands(process.measured_steps) : "none", 7);
  text += PadLeft(process.has_steps ? Time(process.step_time.median) : "-", kColumn) +
          PadLeft(process.has_steps ? Time(process.step_time.p90) : "-", kColumn);
  text += mean({Part::kCopies}) + mean({Part::kSynchronizes}) + mean({Part::kAllocator}) + mean({Part::kLaunches}) +
          mean({Part::kOtherCalls}) + mean({Part::kElsewhere}) + mean({Part::kOutside});
  const DeviceReport* const device = Busiest(process);
  if (report.kernels_recorded) {
    text += PadLeft(device == nullptr ? "-"
                                      : Percent(static_cast<double>(device->times.kernels),
                                                static_cast<double>(process.measured_time)),
                    kColumn);
  }
  if (report.communication) {
    const auto time = static_cast<double>(process.communication());
    text += PadLeft(time == 0 ? "-" : Time(time / process.divisor()), kColumn);
  }
  return text + "\n";
}

std::string SlowestText(const Report& report) {
  if (!report.spread) return "";
  return Wrapped("  ", SlowestSentence(report) + (report.slowest ? "; what follows is of it" : ""));
}

std::string Ranks(const Report& report) {
  if (report.processes.size() < 2) return "";
  std::string text = "PROCESSES: median and p90 of a step, means of its parts";
  if (report.kernels_recorded) text += "; GPU: time with kernels";
  text += report.communication ? "; comm.: in such that communicate\n" : "\n";
  text += PadRight("", RankLabel(report)) + PadLeft("steps", 7);
  for (const char* const title :
       {"median", "p90", "copies", "synchr.", "allocs", "launch", "other", "elsewh.", "outside"}) {
    text += PadLeft(title, 8);
  }
  text += (report.kernels_recorded ? PadLeft("GPU", 8) : "") + (report.communication ? PadLeft("comm.", 8) : "") + "\n";
  // The slowest is among them.
  std::vector<size_t> order;
  for (size_t i = 0; i < report.processes.size(); ++i) {
    if (order.size() < kRanksShown) order.push_back(i);
  }
  if (report.shown >= kRanksShown) order.back() = report.shown;
  for (const size_t i : order) text += RankRow(report, report.processes[i]);
  if (order.size() < report.processes.size()) {
    text += "  and " + Counted(report.processes.size() - order.size(), "more process", "more processes") +
            " (--json has all)\n";
  }
  return text + SlowestText(report);
}

std::string Sites(const ProcessReport& process) {
  if (process.sites.empty()) return "";
  const double divisor = process.divisor();
  const double whole = static_cast<double>(process.measured_time);
  std::string text =
      process.has_steps
          ? "CALL SITES: time in CUDA calls, a step (* synchronizations and blocking copies that were not skipped)\n"
          : "CALL SITES: time in CUDA calls (* synchronizations and blocking copies that were not skipped)\n";
  text += Figure("time") + PadLeft("share", 9) + PadLeft("calls", 9) + "   where\n";
  const auto row = [&](int64_t time, uint64_t calls, bool waits, const std::string& where) {
    return Figure(Time(static_cast<double>(time) / divisor)) + PadLeft(Percent(static_cast<double>(time), whole), 9) +
           PadLeft(Number(static_cast<double>(calls) / divisor), 9) + (waits ? " * " : "   ") + where + "\n";
  };
  constexpr size_t kWhere = 44;
  const size_t shown = process.sites.size() <= kSitesShown + 1 ? process.sites.size() : kSitesShown;
  for (size_t i = 0; i < shown; ++i) {
    const SiteReport& site = process.sites[i];
    // Where no line is known, the functions are all there is to say.
    const std::string where = SiteLabel(site, kWhere);
    const size_t columns = site.known ? kWhere : where.size();
    text += row(site.time, site.calls, site.waiting != 0,
                PadRight(where, columns) + " " + FunctionsLabel(site, kColumns - 32 - columns));
  }
  if (shown < process.sites.size()) {
    int64_t time = 0;
    uint64_t calls = 0;
    for (size_t i = shown; i < process.sites.size(); ++i) {
      AddTo(&time, process.sites[i].time);
      calls += process.sites[i].calls;
    }
    text += row(time, calls, false, Counted(process.sites.size() - shown, "more line", "more lines"));
  }
  return text;
}

// What the decisions were good for, as far as the devices' records tell.
std::string Ahead(const ProcessReport& process) {
  const bool any = std::any_of(process.decisions.begin(), process.decisions.end(), [](const DecisionReport& decision) {
    return SkipsTheWait(decision.name) || MakesItReturn(decision.name);
  });
  if (!any) return "";
  if (!process.ahead) {
    return Wrapped("  ", process.unwatched_everywhere
                             ? "what was gained is not known: another profiler had the devices in every step"
                             : "what was gained is not known: a recording of the devices would tell");
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
  return Wrapped("  ", text + ". This is not by how much a step is shorter.");
}

// Beside each other, and not multiplied: nobody knows what a call would have taken that was served.
std::string Pool(const ProcessReport& process) {
  std::string text;
  const auto say = [&](const PoolCalls& calls, const char* function, const char* served) {
    if (calls.served == 0) return;
    text +=
        Wrapped("  ", "pool: " + Counted(calls.served, "call", "calls") + " of " + function + served +
                          Time(calls.served_time) + " (median " + Time(calls.served_median) + "); " +
                          (calls.real == 0 ? std::string("none of this run reached the driver")
                                           : WithThousands(calls.real) + " in this run reached the driver, median " +
                                                 Time(calls.real_median)));
  };
  say(process.allocations, "cudaMalloc", " served in ");
  say(process.frees, "cudaFree", " kept in ");
  return text;
}

std::string Decisions(const ProcessReport& process) {
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
    text += Figure(WithThousands(decision.calls)) + Figure(HumanBytes(static_cast<uint64_t>(decision.bytes)));
    if (steps) {
      text += PadLeft(Number(static_cast<double>(decision.measured_calls) / divisor), 9) +
              Figure(HumanBytes(static_cast<uint64_t>(bytes)));
    }
    if (saved) text += Figure(Time(decision.saved));
    if (lost) text += Figure(Time(decision.lost));
    const size_t room = kColumns - 23 - (steps ? 19 : 0) - (saved ? kFigure : 0) - (lost ? kFigure : 0);
    text += "   " + Cut(Escape(decision.meaning.empty() ? decision.name : decision.meaning), room) + "\n";
  }
  if (process.decisions.size() > kDecisionsShown + 1) {
    text += "  and " + std::to_string(process.decisions.size() - kDecisionsShown) + " more (--json has all)\n";
  }
  return text + Ahead(process) + Pool(process);
}

std::string Memory(const ProcessReport& process) {
  std::string text;
  const auto bytes = [](int64_t size) { return HumanBytes(static_cast<uint64_t>(size)); };
  for (const MemoryReport& pool : process.memory) {
    text += Wrapped("", "MEMORY of device " + std::to_string(pool.device) + ", the highest of " +
                            Counted(pool.readings, "reading", "readings") + " of its pool: " + bytes(pool.peak_live) +
                            " live, " + bytes(pool.peak_idle) + " idle, " + bytes(pool.peak) + " together " +
                            PlaceOf(process, pool.peak_point.time) + "; at the end " + bytes(pool.last_live) + " and " +
                            bytes(pool.last_idle));
    text += FragmentationText(process, pool);
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

std::string HeldMemory(const ProcessReport& process) {
  std::string text;
  const auto bytes = [](int64_t size) { return HumanBytes(static_cast<uint64_t>(size)); };
  for (const HeldReport& held : process.held) {
    const std::string device = held.device >= 0 ? "device " + std::to_string(held.device) : "an unknown device";
    std::string pool;
    if (held.pool) {
      pool = "; its pool held " + bytes(Sum(held.pool->live, held.pool->idle)) + " then, " + bytes(held.pool->idle) +
             " of it idle";
    }
    text += Wrapped("", "WHO HAD MEMORY of " + device +
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
              Figure(WithThousands(holder.sum.blocks)) + "   " + HolderLabel(holder, kColumns - 32) + "\n";
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
    text += DeviceUseText(process, held);
    text += MemoryColumnsText(held);
    text += Wrapped("  ", "called from: " + HeldSums(held.libraries, file));
    text += Wrapped("  ", "streams: " + HeldSums(ByBytes(held.streams), StreamLabel));
    text += Wrapped("  ", "blocks of at least: " + HeldSums(ByBytes(held.sizes), [&](int exponent) {
                            return bytes(int64_t{1} << exponent) + ":";
                          }));
    if (HasSegments(held)) {
      text += Wrapped("  ",
                      "PyTorch asks cudaMalloc for segments and cuts tensors out of them: the line of one is the line "
                      "that made it ask. Each tensor has its own under allocator.mode = \"stream_ordered\".");
    }
  }
  if (text.empty()) return text;
  const auto say = [&](uint64_t count, const char* one, const char* many, const char* what) {
    if (count != 0) text += Wrapped("  ", Counted(count, one, many) + what);
  };
  say(process.unknown_frees, "block was", "blocks were",
      " given back and not seen allocated: from before the recording, or imported from another process");
  say(process.unseen_frees, "block was", "blocks were",
      " there until its address was allocated again: the call that gave it back is not in the trace");
  say(process.unknown_resets, "reset", "resets", " of one of several devices: what was on it still counts");
  if (process.pauses != 0) text += Wrapped("  ", "the recording was paused: blocks may be missing, or too many");
  if (process.dropped != 0 || process.missing_records != 0 || process.given_up_records != 0) {
    text += Wrapped("  ", std::string("records ") +
                              (process.dropped != 0           ? "were dropped"
                               : process.missing_records != 0 ? "are missing"
                                                              : "were given up") +
                              ": blocks may be missing, or too many");
  }
  return text;
}

}  // namespace

std::string FormatReport(const Report& report) {
  std::string text = VerdictText(report) + Run(report);
  if (report.processes.empty()) return text + "  there are no processes in it\n";
  const ProcessReport& shown = report.processes[report.shown];
  return text + Ranks(report) + WallText(shown) + Steps(shown) + DevicesText(report, shown) + Sites(shown) +
         RangesText(shown) + Decisions(shown) + GainsText(shown) + Memory(shown) + HeldMemory(shown) +
         NotSeenText(report, shown);
}

}  // namespace slipstream::report
