#include <algorithm>
#include <set>
#include <string>

#include "tools/trace/advise/rules.h"
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
  uint64_t broadcasts = 0;
  int64_t time = 0;
  for (const WorkGroup& group : facts.work) {
    if (group.kernel.find("ncclDevKernel_Broadcast") == std::string::npos) continue;
    broadcasts += group.count;
    report::AddTo(&time, group.time);
  }
  if (broadcasts == 0) return Verdict::Abstain("several devices compute in one process, and nothing tells what for");
  Advice advice;
  advice.finding = "One process drives several devices and copies the model to all of them in each step.";
  advice.evidence = {std::to_string(devices.size()) + " devices in one process",
                     PerStepText(facts.CountPerStep(broadcasts)) + " broadcasts, " + report::Time(facts.PerStep(time))};
  advice.cost = facts.PerStep(time) / static_cast<int64_t>(devices.size());
  advice.change = "A process for each device: DistributedDataParallel instead of DataParallel.";
  advice.snippet = "torchrun --nproc-per-node=8 train.py\nmodel = DistributedDataParallel(model)";
  advice.confidence = Confidence::kHigh;
  return Verdict::Say(advice);
}

// Ranks that train together end their steps together: whom they wait for shows in kernels that communicate.
Verdict Stragglers(const Facts& facts) {
  size_t with_steps = 0;
  for (const report::ProcessReport& process : facts.report->processes) with_steps += process.has_steps ? 1 : 0;
  if (with_steps < 2) return Verdict::Abstain("the run has one process with steps");
  const auto& spread = *facts.report->spread;
  if (const auto& waits = facts.report->communication) {
    const report::ProcessReport& late = facts.report->processes[waits->waited_for];
    if (static_cast<double>(waits->wait) >= 0.05 * static_cast<double>(late.step_time.median)) {
      Advice advice;
      advice.finding = "One rank comes last to the others, which wait for it in kernels that communicate.";
      advice.evidence = {report::FullName(late) + " is " + report::Time(waits->wait) + " a step shorter in them than " +
                             report::FullName(facts.report->processes[waits->waits_most]),
                         report::Time(static_cast<double>(late.communication()) / late.divisor()) + " of its step of " +
                             report::Time(late.step_time.median)};
      advice.cost = waits->wait;
      advice.change = "Look at that rank's report: its share of the data, its machine, what else runs there.";
      advice.snippet = "slipstream report RUN  # shows the rank that is waited for";
      advice.confidence = Confidence::kHigh;
      return Verdict::Say(advice);
    }
  }
  const auto& slowest = facts.report->processes[spread.longest];
  if (static_cast<double>(spread.difference) < 0.05 * static_cast<double>(slowest.step_time.median))
    return Verdict::Nothing();
  Advice advice;
  advice.finding = "One rank is slower than the others, which wait for it.";
  advice.evidence = {report::FullName(slowest) + " takes " + report::Time(slowest.step_time.median) + " for a step, " +
                     report::FullName(facts.report->processes[spread.shortest]) + " " +
                     report::Time(facts.report->processes[spread.shortest].step_time.median)};
  advice.cost = spread.difference;
  advice.change = "Look at that rank's report: its share of the data, its machine, what else runs there.";
  advice.snippet = "slipstream report RUN  # shows the slowest rank";
  advice.confidence = Confidence::kHigh;
  return Verdict::Say(advice);
}

// Steps that take far longer than the others: garbage collection, compilation, another program, a hot device.
Verdict Stalls(const Facts& facts) {
  if (facts.step_times.size() < 20) return Verdict::Abstain("needs twenty measured steps");
  const auto median = static_cast<int64_t>(facts.process->step_time.median);
  uint64_t slow = 0;
  int64_t lost = 0;
  for (const int64_t time : facts.step_times) {
    if (time < median * 3 / 2) continue;
    ++slow;
    report::AddTo(&lost, time - median);
  }
  const int64_t per_step = lost / static_cast<int64_t>(facts.step_times.size());
  if (slow == 0 || static_cast<double>(per_step) < 0.02 * static_cast<double>(median)) return Verdict::Nothing();
  Advice advice;
  advice.finding = "Some steps take far longer than the rest.";
  advice.evidence = {std::to_string(slow) + " of " + std::to_string(facts.step_times.size()) +
                         " steps took more than one and a half times the median of " + report::Time(median),
                     report::Time(lost) + " in all above it"};
  advice.cost = per_step;
  advice.change =
      "Collect garbage when it suits, compile before the loop (shapes that change compile again), and look at "
      "what else the machine does.";
  advice.snippet = "gc.disable()  # and gc.collect() every so many steps";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

Verdict ExposedCommunication(const Facts& facts) {
  if (!facts.devices_recorded) return Verdict::Abstain(kNeedsDevices);
  const auto sums =
      ByPlace(facts.work, [](const WorkGroup& group) { return report::NamesCommunication(group.kernel); });
  const int64_t exposed = facts.PerStep(facts.process->communication_alone());
  if (ShareOfStep(facts, exposed) < 0.02) return Verdict::Nothing();
  Advice advice;
  advice.finding = "The device waits for other ranks: it communicates while it computes nothing.";
  advice.evidence = {report::Time(facts.PerStep(SumOf(sums).time)) + " of kernels that communicate per step, " +
                     report::Time(exposed) + " of it beside no other kernel"};
  advice.places = PlacesOf(sums);
  advice.cost = exposed;
  advice.change =
      "Send gradients while the backward pass still runs, in buckets that suit; where a rank is late, see stragglers.";
  advice.snippet = "DistributedDataParallel(model, bucket_cap_mb=50, gradient_as_bucket_view=True)";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

// Each rank wants a processor for the thread that makes the steps, one for autograd's, and more for its loader.
Verdict FewProcessors(const Facts& facts) {
  if (!facts.processors) return Verdict::Abstain("how many processors the program may use is not recorded");
  int64_t ranks = 0;
  for (const report::ProcessReport& process : facts.report->processes) {
    ranks += process.has_steps && process.host == facts.process->host ? 1 : 0;
  }
  if (*facts.processors >= 2 * ranks) return Verdict::Nothing();
  Advice advice;
  advice.finding = "There are fewer processors than threads that have to run at once.";
  advice.evidence = {report::Counted(static_cast<uint64_t>(*facts.processors), "processor", "processors") + " for " +
                     report::Counted(static_cast<uint64_t>(ranks), "process", "processes") +
                     " that make steps on this machine"};
  advice.why_unknown = "what waits for a processor is not in the trace";
  advice.change =
      "Give the job more processors, or fewer ranks a machine; keep libraries from starting a thread for each "
      "processor.";
  advice.snippet = "OMP_NUM_THREADS=1 torchrun ...\n#SBATCH --cpus-per-task=8";
  advice.confidence = Confidence::kLow;
  return Verdict::Say(advice);
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

constexpr Rule kRules[] = {
    {"data-parallel", "DataParallel", "devices", DataParallel},
    {"stragglers", "Ranks that the others wait for", "several ranks", Stragglers},
    {"stalls", "Steps that take far longer", "steps", Stalls},
    {"exposed-communication", "Communication that nothing hides", "devices", ExposedCommunication},
    {"cpu-oversubscribed", "More threads than processors", "the machine", FewProcessors},
    {"small-shared-memory", "/dev/shm too small for the loader", "the machine", SharedMemory},
};

}  // namespace

std::span<const Rule> ProcessRules() { return kRules; }

}  // namespace slipstream::advise
