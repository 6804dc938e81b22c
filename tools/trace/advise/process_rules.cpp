#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/trace/advise/changes.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/stalls.h"
#include "tools/trace/advise/sums.h"
#include "tools/trace/report/kernel_name.h"

namespace slipstream::advise {
namespace {

Verdict DataParallel(const Facts& facts) {
  std::set<int64_t> devices;
  for (const report::DeviceReport& device : facts.process->devices) {
    if (device.kernels != 0) devices.insert(device.device);
  }
  if (!facts.devices_recorded) return Verdict::Abstain(kNeedsDevices);
  if (devices.size() < 2 || facts.process->world_size.value_or(1) > 1) return Verdict::Nothing();
  const auto is_broadcast = [](const WorkGroup& group) {
    return group.kernel.find("ncclDevKernel_Broadcast") != std::string::npos;
  };
  const auto sums = ByPlace(facts.work, is_broadcast);
  const auto [place, broadcasts, bytes, time] = SumOf(sums);
  if (broadcasts == 0) return Verdict::Abstain("several devices compute in one process, and nothing tells what for");
  Advice advice;
  advice.finding = "One process drives several devices and copies the model to all of them in each step.";
  advice.evidence = {
      std::to_string(devices.size()) + " devices in one process",
      EachStepText(facts, broadcasts, {"broadcast", "broadcasts"}) + ", " + report::Time(facts.PerStep(time))};
  advice.places = PlacesOf(sums);
  advice.cost = facts.PerStep(time) / static_cast<int64_t>(devices.size());
  ShrinkWork(facts, is_broadcast, 0, &advice.what_if);
  advice.gains = Gains::kBusy;
  advice.change = "A process for each device: DistributedDataParallel instead of DataParallel.";
  advice.snippet = "torchrun --nproc-per-node=8 train.py\nmodel = DistributedDataParallel(model)";
  advice.confidence = Confidence::kHigh;
  return Verdict::Say(advice);
}

bool Communicates(const WorkGroup& group) { return report::NamesCommunication(group.kernel); }

// Kernels that communicate take so much less of a step.
void ShortenCommunication(const Facts& facts, int64_t less, WhatIf* what_if) {
  const int64_t all = facts.PerStep(SumOf(ByPlace(facts.work, Communicates)).time);
  if (all <= 0) return;
  const double gone = std::min(1.0, static_cast<double>(less) / static_cast<double>(all));
  ShrinkWork(facts, Communicates, 1 - gone, what_if);
}

// Where the thread that makes the steps of one rank spends more time of a step than that of another, in calls that do
// not wait and before calls: the lines, those with most of it first.
void NameLines(const report::ProcessReport& late, const report::ProcessReport& than, Advice* advice) {
  struct Line {
    Place place;
    double more = 0;  // ns of a step
  };
  std::vector<Line> lines;
  const auto add = [&](const report::ProcessReport& process, double sign) {
    for (const report::SiteReport& site : process.sites) {
      if (!site.known || !site.of_step_thread) continue;
      const Place place = {site.file, site.line, site.function};
      auto at = std::find_if(lines.begin(), lines.end(), [&](const Line& line) { return line.place == place; });
      if (at == lines.end()) at = lines.insert(lines.end(), {place});
      const int64_t time = report::Sum(site.gap, site.waiting == 0 ? site.time : 0);
      at->more += sign * static_cast<double>(time) / process.divisor();
    }
  };
  add(late, 1);
  add(than, -1);
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.more > b.more; });
  for (size_t i = 0; i < lines.size() && i < 3; ++i) {
    if (lines[i].more < 0.01 * static_cast<double>(late.pace_of_work().median)) break;
    report::SiteReport site;
    site.known = true;
    site.file = lines[i].place.file;
    site.line = lines[i].place.line;
    site.function = lines[i].place.function;
    advice->places.push_back(lines[i].place);
    advice->evidence.push_back(report::Time(lines[i].more) + " more than there, at and right before " +
                               report::SiteLabel(site, 50));
  }
}

// Ranks that train together end their steps together: whom they wait for shows in kernels that communicate.
Verdict Stragglers(const Facts& facts) {
  size_t with_steps = 0;
  for (const report::ProcessReport& process : facts.report->processes) with_steps += process.has_steps ? 1 : 0;
  if (with_steps < 2) return Verdict::Abstain("the run has one process with steps");
  const auto& spread = *facts.report->spread;
  if (const auto& waits = facts.report->communication) {
    const report::ProcessReport& late = facts.report->processes[waits->waited_for];
    if (static_cast<double>(waits->wait) >= 0.05 * static_cast<double>(late.pace_of_work().median)) {
      Advice advice;
      advice.finding = "One rank comes last to the others, which wait for it in kernels that communicate.";
      advice.evidence = {report::FullName(late) + " is " + report::Time(waits->wait) + " a step shorter in them than " +
                             report::FullName(facts.report->processes[waits->waits_most]),
                         report::Time(static_cast<double>(late.communication()) / late.divisor()) + " of its step of " +
                             report::Time(late.pace_of_work().median)};
      NameLines(late, facts.report->processes[waits->waits_most], &advice);
      advice.cost = waits->wait;
      // The late rank itself waits for nobody.
      if (facts.process == &facts.report->processes[waits->waits_most]) {
        ShortenCommunication(facts, waits->wait, &advice.what_if);
      }
      advice.gains = Gains::kBusy;
      advice.change = "Look at that rank's report: its share of the data, its machine, what else runs there.";
      advice.snippet = "slipstream report RUN  # shows the rank that is waited for";
      advice.confidence = Confidence::kHigh;
      return Verdict::Say(advice);
    }
  }
  const auto& slowest = facts.report->processes[spread.longest];
  if (static_cast<double>(spread.difference) < 0.05 * static_cast<double>(slowest.pace_of_work().median))
    return Verdict::Nothing();
  Advice advice;
  advice.finding = "One rank is slower than the others, which wait for it.";
  advice.evidence = {report::FullName(slowest) + " takes " + report::Time(slowest.pace_of_work().median) +
                     " for a step, " + report::FullName(facts.report->processes[spread.shortest]) + " " +
                     report::Time(facts.report->processes[spread.shortest].pace_of_work().median)};
  NameLines(slowest, facts.report->processes[spread.shortest], &advice);
  advice.cost = spread.difference;
  advice.gains = Gains::kBusy;
  advice.change = "Look at that rank's report: its share of the data, its machine, what else runs there.";
  advice.snippet = "slipstream report RUN  # shows the slowest rank";
  advice.confidence = Confidence::kHigh;
  return Verdict::Say(advice);
}

Verdict ExposedCommunication(const Facts& facts) {
  if (!facts.devices_recorded) return Verdict::Abstain(kNeedsDevices);
  const auto sums = ByPlace(facts.work, Communicates);
  const int64_t exposed = facts.PerStep(facts.process->communication_alone());
  if (ShareOfStep(facts, exposed) < 0.02) return Verdict::Nothing();
  Advice advice;
  advice.finding = "The device waits for other ranks: it communicates while it computes nothing.";
  advice.evidence = {report::Time(facts.PerStep(SumOf(sums).time)) + " of kernels that communicate" + EachStep(facts) +
                     ", " + report::Time(exposed) + " of it beside no other kernel"};
  advice.places = PlacesOf(sums);
  advice.cost = exposed;
  ShortenCommunication(facts, exposed, &advice.what_if);
  advice.gains = Gains::kBusy;
  advice.scope = Scope::kGeneral;  // a late rank has a rule of its own
  advice.change =
      "Send gradients while the backward pass still runs, in buckets that suit; where a rank is late, see stragglers.";
  advice.snippet = "DistributedDataParallel(model, bucket_cap_mb=50, gradient_as_bucket_view=True)";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

// More of the time than this, ready and without a processor, is no accident.
constexpr double kWaitsForProcessor = 0.03;

// All processes with steps on this machine.
struct AtWork {
  int64_t threads = 0;
  int64_t workers = 0;
  double threads_want = 0;  // processors, on average
  double workers_want = 0;
  int64_t throttled = 0;
  bool has_times = false;
  // Nearly all processors: what runs beside this job's threads is then its own.
  bool Fills(const std::optional<double>& processors) const {
    return processors && threads_want + workers_want >= 0.9 * *processors;
  }
};

AtWork OnThisMachine(const Facts& facts) {
  AtWork all;
  for (const TasksOfProcess& tasks : facts.machine) {
    const TaskSum threads = tasks.threads.value_or(TaskSum());
    const TaskSum workers = tasks.workers.value_or(TaskSum());
    report::AddTo(&all.threads, threads.most);
    report::AddTo(&all.workers, workers.most);
    report::AddTo(&all.throttled, tasks.throttled.value_or(0));
    all.threads_want += threads.wanted();
    all.workers_want += workers.wanted();
    all.has_times = all.has_times || threads.time > 0;
  }
  return all;
}

// Of one step, the time in which the thread that makes the steps is ready to run and has no processor.
std::optional<int64_t> WaitsForProcessor(const Facts& facts) {
  const auto& thread = facts.tasks.step_thread;
  if (!thread || thread->time == 0 || !facts.process->has_steps) return std::nullopt;
  return static_cast<int64_t>(thread->waiting() * StepOf(facts));
}

std::string CountText(int64_t count, const char* one, const char* many) {
  return report::Counted(static_cast<uint64_t>(std::max<int64_t>(0, count)), one, many);
}

// The time before uploads is what the loader's rules are about, and what they say of it holds for all of it.
int64_t AtMostOtherIdle(const Facts& facts, int64_t per_step) {
  const int64_t gap = facts.PerStep(GapBefore(facts, UploadLines(facts)));
  const bool is_loaders = ShareOfStep(facts, gap) >= 0.05;
  const auto idle = facts.IdlePerStep();
  const int64_t most = idle ? *idle : static_cast<int64_t>(StepOf(facts));
  return std::clamp<int64_t>(per_step, 0, std::max<int64_t>(0, is_loaders ? most - gap : most));
}

// Workers want more than the training itself does.
bool WorkersAreToBlame(const AtWork& all) { return all.workers_want > all.threads_want; }

std::string WaitText(const Facts& facts, int64_t waits) {
  return "the thread that makes the steps is ready to run and has no processor for " + report::Time(waits) +
         " of a step (" + report::Percent(ShareOfStep(facts, waits), 1) + ")";
}

Verdict TooManyWorkers(const Facts& facts) {
  const auto processors = facts.ProcessorsToUse();
  if (!facts.tasks.workers) return Verdict::Abstain("how many worker processes there were is not recorded");
  if (!processors) return Verdict::Abstain("how many processors the program may use is not recorded");
  const TaskSum& workers = *facts.tasks.workers;
  const AtWork all = OnThisMachine(facts);
  const bool more_than_processors = static_cast<double>(workers.most) > *processors;
  const std::optional<int64_t> waits = WaitsForProcessor(facts);
  const bool step_waits =
      waits && ShareOfStep(facts, *waits) >= kWaitsForProcessor && WorkersAreToBlame(all) && all.Fills(processors);
  if (workers.most == 0 || (!more_than_processors && !step_waits)) return Verdict::Nothing();
  Advice advice;
  advice.finding = "There are more loader workers than processors to run them.";
  if (!more_than_processors) advice.finding = "The loader's workers take the processors that the training needs.";
  advice.evidence = {CountText(workers.most, "worker process", "worker processes") + " of this process, " +
                     ProcessorsText(*processors) + " to use"};
  if (facts.machine.size() > 1) {
    advice.evidence.push_back(std::to_string(all.workers) + " worker processes of " +
                              std::to_string(facts.machine.size()) + " ranks on this machine");
  }
  if (workers.time > 0) {
    advice.evidence.push_back(report::Number(workers.wanted()) + " of them wanted a processor on average, and " +
                              report::Number(workers.waiting()) + " had to wait for one");
  }
  advice.change = "Fewer workers: a processor each, and one or two left for every rank's own threads.";
  advice.snippet = FewerWorkers(facts, *processors);
  if (step_waits) {
    advice.evidence.push_back(WaitText(facts, *waits));
    advice.cost = AtMostOtherIdle(facts, *waits);
    advice.confidence = Confidence::kMedium;
    return Verdict::Say(advice);
  }
  // They wait for something else than a processor, such as storage: more of them would be quicker.
  if (workers.time > 0 && workers.began == 0 && !all.Fills(processors)) return Verdict::Nothing();
  // Nobody waits for them, and they do not disturb: no time is lost.
  const int64_t gap = facts.PerStep(GapBefore(facts, UploadLines(facts)));
  if (waits && ShareOfStep(facts, gap) < 0.05) return Verdict::Nothing();
  advice.why_unknown = "how much sooner fewer workers would hand over their batches is not in the trace";
  advice.at_stake = AtMostIdle(facts, gap);
  advice.confidence = Confidence::kLow;
  return Verdict::Say(advice);
}

// Where the trace does not say what waits: each rank wants a processor for the thread that makes the steps, one for
// autograd's, and more for its loader.
Verdict FewProcessors(const Facts& facts, double processors) {
  int64_t ranks = 0;
  for (const report::ProcessReport& process : facts.report->processes) {
    ranks += process.has_steps && process.host == facts.process->host ? 1 : 0;
  }
  if (processors >= static_cast<double>(2 * ranks)) return Verdict::Nothing();
  Advice advice;
  advice.evidence = {ProcessorsText(processors) + " for " + CountText(ranks, "process", "processes") +
                     " that make steps on this machine"};
  advice.why_unknown = "what waits for a processor is not in the trace";
  advice.confidence = Confidence::kLow;
  return Verdict::Say(advice);
}

Verdict OversubscribedByTimes(const Facts& facts, const std::optional<double>& processors, const AtWork& all) {
  const std::optional<int64_t> waits = WaitsForProcessor(facts);
  const bool is_throttled = facts.tasks.throttled.value_or(0) > 0;
  const bool step_waits = waits && ShareOfStep(facts, *waits) >= kWaitsForProcessor;
  if (!step_waits && !is_throttled) return Verdict::Nothing();
  const bool fills = all.Fills(processors);
  // That is the rule too-many-workers.
  if (!is_throttled && facts.tasks.workers && fills && WorkersAreToBlame(all)) return Verdict::Nothing();
  Advice advice;
  if (!is_throttled && processors && !fills) {
    advice.finding = "The training waits for processors that something else on this machine has.";
    advice.change = "Look at what else runs there, and give the job processors of its own.";
    advice.snippet = "top  # on the machine\n#SBATCH --exclusive";
  }
  std::string line = report::Number(all.threads_want + all.workers_want) + " threads and workers of " +
                     CountText(static_cast<int64_t>(facts.machine.size()), "process", "processes") +
                     " with steps want to run at once";
  if (processors) line += ", on " + ProcessorsText(*processors);
  advice.evidence = {line, CountText(all.threads, "thread", "threads") + " and " +
                               CountText(all.workers, "worker process", "worker processes") + " are there"};
  if (is_throttled) {
    std::string limit = "a limit of processors stopped all of them " +
                        CountText(*facts.tasks.throttled, "time", "times") + " (nr_throttled of the control group)";
    if (facts.processor_limit) limit += ": " + ProcessorsText(*facts.processor_limit);
    advice.evidence.push_back(limit);
  }
  if (waits) {
    advice.evidence.push_back(WaitText(facts, *waits));
    advice.cost = AtMostOtherIdle(facts, *waits);
  } else {
    advice.why_unknown = "how long the thread that makes the steps waited for a processor is not in the trace";
  }
  advice.confidence = is_throttled ? Confidence::kHigh : Confidence::kMedium;
  return Verdict::Say(advice);
}

Verdict Oversubscribed(const Facts& facts) {
  const auto processors = facts.ProcessorsToUse();
  const AtWork all = OnThisMachine(facts);
  if (!all.has_times && !facts.tasks.throttled && !processors) {
    return Verdict::Abstain("how many processors the program may use is not recorded");
  }
  const bool is_known = all.has_times || facts.tasks.throttled.value_or(0) > 0;
  Verdict verdict = is_known     ? OversubscribedByTimes(facts, processors, all)
                    : processors ? FewProcessors(facts, *processors)
                                 : Verdict::Nothing();
  if (verdict.kind != Verdict::Kind::kAdvice) return verdict;
  if (!verdict.advice.finding.empty()) return verdict;
  verdict.advice.finding = "More threads want to run at once than there are processors.";
  verdict.advice.change =
      "Give the job more processors, or fewer ranks a machine; keep libraries from starting a thread for each "
      "processor.";
  verdict.advice.snippet = "OMP_NUM_THREADS=1 torchrun ...\n#SBATCH --cpus-per-task=8";
  return verdict;
}

// Loader workers hand batches over through /dev/shm: those that wait to be taken have to fit.
Verdict SharedMemory(const Facts& facts) {
  constexpr int64_t kBatches = 16;  // 8 workers, 2 batches each in advance
  if (!facts.shared_memory) return Verdict::Abstain("the size of /dev/shm is not recorded");
  int64_t bytes = 0;
  for (const CallGroup& group : facts.calls) {
    if (IsCopyCall(group) && group.most >= 1 << 16 && group.of_step_thread) report::AddTo(&bytes, group.bytes);
  }
  const int64_t batch = facts.PerStep(bytes);
  if (!facts.process->has_steps || batch == 0 || *facts.shared_memory / kBatches >= batch) return Verdict::Nothing();
  Advice advice;
  advice.finding =
      "Shared memory is too small for the batches of a loader with workers, which then die of a bus error.";
  advice.evidence = {"/dev/shm has " + Bytes(*facts.shared_memory) + ", and a step copies " + Bytes(batch) + ": " +
                     std::to_string(*facts.shared_memory / batch) + " batches fit"};
  advice.why_unknown = "a run that dies costs no time of a step";
  advice.change = "Give the container more.";
  advice.snippet = "docker run --shm-size=8g ...  # or --ipc=host";
  advice.confidence = Confidence::kLow;
  return Verdict::Say(advice);
}

using report::VerdictKind;

constexpr Rule kProcessRules[] = {
    {"data-parallel", "DataParallel", "devices", DataParallel,
     About(VerdictKind::kExposedCommunication, VerdictKind::kGpuBound)},
    {"stragglers", "Ranks that the others wait for", "several ranks", Stragglers,
     About(VerdictKind::kExposedCommunication)},
    {"stalls", "Steps that take far longer", "steps", Stalls,
     About(VerdictKind::kOutsideCalls, VerdictKind::kAllocating, VerdictKind::kLaunching)},
    {"exposed-communication", "Communication that nothing hides", "devices", ExposedCommunication,
     About(VerdictKind::kExposedCommunication)},
    {"loader-remade", "A loader that is made anew for each epoch", "steps, processes", LoaderRemade,
     About(VerdictKind::kOutsideCalls, VerdictKind::kBetweenSteps)},
    {"too-many-workers", "More loader workers than processors", "processes", TooManyWorkers,
     About(VerdictKind::kOutsideCalls, VerdictKind::kBetweenSteps)},
    {"cpu-oversubscribed", "More threads than processors", "the machine", Oversubscribed,
     About(VerdictKind::kOutsideCalls, VerdictKind::kBetweenSteps, VerdictKind::kLaunching)},
    {"small-shared-memory", "/dev/shm too small for the loader", "the machine", SharedMemory},
};

}  // namespace

std::span<const Rule> ProcessRules() { return kProcessRules; }

}  // namespace slipstream::advise
