#include "tools/trace/advise/stalls.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/trace/advise/slow_step_facts.h"
#include "tools/trace/advise/sums.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/steps.h"

namespace slipstream::advise {
namespace {

using report::Part;

enum class Cause : uint8_t { kMemory, kCode, kClock, kKernels, kHost, kOtherThread, kWaits, kUnknown };
constexpr size_t kCauses = 8;

struct CauseText {
  const char* finding;
  const char* change;
  const char* snippet;
  Confidence confidence;
};
constexpr std::array<CauseText, kCauses> kTexts = {{
    {"Some steps take far longer than the rest: they take device memory from the driver, or give it back.",
     "Keep the memory: let slipstream pool it, and begin with the largest shapes.", "[allocator]\nmode = \"segments\"",
     Confidence::kHigh},
    {"Some steps take far longer than the rest: they load or compile code.",
     "Load and compile before the loop: run each shape once, and keep shapes as they are or declare them dynamic.",
     "CUDA_MODULE_LOADING=EAGER python train.py\nmodel = torch.compile(model, dynamic=True)", Confidence::kMedium},
    {"Some steps take far longer than the rest: all of their kernels do, by one factor.",
     "Look at the clock of the device, which falls when it is hot or at its power limit, and at who else uses it.",
     "nvidia-smi -q -d CLOCK,PERFORMANCE,POWER", Confidence::kMedium},
    {"Some steps take far longer than the rest: more kernels run in them, or longer ones.",
     "Look at what those steps compute: longer sequences, an evaluation, work that is done every so many steps.",
     "batches = sorted(batches, key=len)  # lengths that are alike in one batch", Confidence::kMedium},
    {"Some steps take far longer than the rest: the host is outside CUDA calls.",
     "Look at what runs there: garbage collection, a checkpoint or log that is written, a batch that comes late, "
     "another "
     "program on the processors.",
     "gc.disable()  # and gc.collect() every so many steps", Confidence::kMedium},
    {"Some steps take far longer than the rest: another thread of the process is in a CUDA call.",
     "Look at that call: the thread that makes the steps waits for it, or is held up by it.",
     "slipstream report RUN  # lines of other threads", Confidence::kMedium},
    {"Some steps take far longer than the rest: the host waits, and not for longer kernels.",
     "Look at who else uses the device or the bus, and at ranks that come late.", "nvidia-smi pmon",
     Confidence::kMedium},
    {"Some steps take far longer than the rest.",
     "Look at one of them in the timeline, and at what else the machine does.",
     "slipstream export RUN --perfetto trace.gz", Confidence::kLow},
}};

// `by_idle`: the time that is lost is known to be the device's idle time, for which more work of it is no reason.
Cause CauseOf(const SlowStepFacts& slow, bool by_idle) {
  if (!slow.step.part) return Cause::kUnknown;
  if (*slow.step.part == Part::kAllocator) return Cause::kMemory;
  // A kernel's code is loaded when it is launched first.
  if (slow.loads > 0 || *slow.step.part == Part::kLaunches) return Cause::kCode;
  if (slow.kernels_grew >= slow.step.grew / 2) {
    if (slow.all_kernels && slow.kernels_factor > 1) return Cause::kClock;
    if (!by_idle) return Cause::kKernels;
  }
  switch (*slow.step.part) {
    case Part::kOutside:
      return Cause::kHost;
    case Part::kElsewhere:
      return Cause::kOtherThread;
    case Part::kCopies:
    case Part::kSynchronizes:
      return Cause::kWaits;
    default:
      return Cause::kUnknown;
  }
}

// "step 7: 100 ms longer, most of it in allocations and frees (cudaMalloc), at train.py:30 (main)"
std::string Evidence(const SlowStepFacts& slow, int64_t median) {
  std::string text =
      "step " + std::to_string(slow.step.number) + ": " + report::Time(slow.step.time - median) + " longer";
  if (slow.step.part) text += ", " + report::Time(slow.step.grew) + " of it in: " + report::Label(*slow.step.part);
  if (slow.step.part != Part::kOutside && !slow.function.empty()) text += " (" + slow.function + ")";
  if (slow.step.place) text += (slow.step.place->before ? ", " : ", at ") + report::PlaceLabel(*slow.step.place, 50);
  if (slow.loads > 0) text += "; " + report::Counted(slow.loads, "call", "calls") + " that load code";
  return text;
}

std::string AboutKernels(const SlowStepFacts& slow) {
  return "kernels of step " + std::to_string(slow.step.number) + " take " + report::Number(slow.kernels_factor) +
         " times as long as those of the same names in the median step; the trace has no reading of the device's clock";
}

// What most of the extra time went to, and its place in kTexts.
Cause MostOf(const std::vector<SlowStepFacts>& steps, bool by_idle) {
  std::array<int64_t, kCauses> times{};
  for (const SlowStepFacts& slow : steps)
    report::AddTo(&times[static_cast<size_t>(CauseOf(slow, by_idle))], slow.step.grew);
  return static_cast<Cause>(std::max_element(times.begin(), times.end()) - times.begin());
}

bool KnowsIdle(const Facts& facts) { return facts.step_idle.size() == facts.step_times.size(); }

struct Loss {
  uint64_t slow = 0;   // steps
  int64_t longer = 0;  // than the median, together
  int64_t lost = 0;    // of that
};

// A step that waits for what earlier ones have asked for is long, and nothing is lost: only that is in which the device
// is idle, beyond what is usual, or works more slowly.
Loss LossOf(const Facts& facts, Cause cause) {
  const auto median = static_cast<int64_t>(facts.process->pace_of_work().median);
  const bool by_idle = cause != Cause::kClock && KnowsIdle(facts);
  const int64_t usual = by_idle ? report::DistributionOf(facts.step_idle).median : 0;
  Loss loss;
  for (size_t i = 0; i < facts.step_times.size(); ++i) {
    if (!report::IsSlow(facts.step_times[i], facts.process->pace_of_work())) continue;
    const int64_t longer = facts.step_times[i] - median;
    ++loss.slow;
    report::AddTo(&loss.longer, longer);
    report::AddTo(&loss.lost, by_idle ? std::clamp<int64_t>(facts.step_idle[i] - usual, 0, longer) : longer);
  }
  return loss;
}

// Of the slow steps that are looked into: those that come late to a line that uploads batches.
size_t LateForABatch(const Facts& facts) {
  const std::vector<Place> uploads = UploadLines(facts);
  return static_cast<size_t>(
      std::count_if(facts.slow_steps.begin(), facts.slow_steps.end(), [&](const SlowStepFacts& slow) {
        const auto& place = slow.step.place;
        return place && place->before && Has(uploads, {place->file, place->line, place->function});
      }));
}

// The loop's workers are others than those that it began with, twice over, and what it is late for is a batch.
bool IsRemade(const Facts& facts, Cause cause) {
  const auto& workers = facts.tasks.workers;
  return cause == Cause::kHost && workers && workers->most != 0 && workers->began >= 2 * workers->most &&
         LateForABatch(facts) > 0;
}

// `cause`: of most of it, where this is advice.
Verdict SlowSteps(const Facts& facts, Cause* cause_of_most) {
  constexpr size_t kListed = 3;
  if (facts.step_times.size() < 20) return Verdict::Abstain("needs twenty measured steps");
  const auto median = static_cast<int64_t>(facts.process->pace_of_work().median);
  const bool by_idle = KnowsIdle(facts);
  const Cause cause = facts.slow_steps.empty() ? Cause::kUnknown : MostOf(facts.slow_steps, by_idle);
  *cause_of_most = cause;
  const auto [slow, longer, lost] = LossOf(facts, cause);
  const int64_t per_step = lost / static_cast<int64_t>(facts.step_times.size());
  // What a quarter of the steps do is the loop's own way.
  if (slow == 0 || 4 * slow > facts.step_times.size()) return Verdict::Nothing();
  if (ShareOfStep(facts, per_step) < 0.02) return Verdict::Nothing();
  const CauseText& text = kTexts[static_cast<size_t>(cause)];
  Advice advice;
  advice.finding = text.finding;
  advice.evidence = {std::to_string(slow) + " of " + std::to_string(facts.step_times.size()) +
                         " steps took more than one and a half times the median of " + report::Time(median),
                     report::Time(longer) + " in all above it"};
  if (lost < longer) {
    advice.evidence.push_back(report::Time(lost) +
                              " of that with an idle device: the rest is work, which the steps before had left to it");
  }
  for (const SlowStepFacts& one : facts.slow_steps) {
    if (CauseOf(one, by_idle) != cause) continue;
    if (advice.evidence.size() < 2 + kListed) advice.evidence.push_back(Evidence(one, median));
    if (!one.step.place) continue;
    const Place place = {one.step.place->file, one.step.place->line, one.step.place->function};
    if (!Has(advice.places, place)) advice.places.push_back(place);
  }
  if (cause == Cause::kClock) {
    const auto one = std::find_if(facts.slow_steps.begin(), facts.slow_steps.end(),
                                  [&](const SlowStepFacts& of) { return CauseOf(of, by_idle) == Cause::kClock; });
    advice.evidence.push_back(AboutKernels(*one));
  }
  advice.cost = per_step;
  advice.gains = Gains::kSlowSteps;
  advice.change = text.change;
  advice.snippet = text.snippet;
  advice.confidence = text.confidence;
  return Verdict::Say(advice);
}

}  // namespace

LateBatches LateBatchesOf(const Facts& facts) {
  Cause cause = Cause::kUnknown;
  const Verdict verdict = SlowSteps(facts, &cause);
  if (verdict.kind != Verdict::Kind::kAdvice || cause != Cause::kHost) return {};
  if (IsRemade(facts, cause)) return {.of_others = *verdict.advice.cost};
  if (2 * LateForABatch(facts) <= facts.slow_steps.size()) return {};
  const auto [slow, longer, lost] = LossOf(facts, cause);
  const int64_t usual = GapBefore(facts, UploadLines(facts)) - lost;
  if (ShareOfStep(facts, facts.PerStep(usual)) < kLateShare) return {};
  return {.steps = slow, .per_step = *verdict.advice.cost};
}

Verdict Stalls(const Facts& facts) {
  Cause cause = Cause::kUnknown;
  Verdict verdict = SlowSteps(facts, &cause);
  if (verdict.kind != Verdict::Kind::kAdvice) return verdict;
  return IsRemade(facts, cause) || LateBatchesOf(facts).steps > 0 ? Verdict::Nothing() : verdict;
}

Verdict LoaderRemade(const Facts& facts) {
  if (!facts.tasks.workers) return Verdict::Abstain("how many worker processes there were is not recorded");
  Cause cause = Cause::kUnknown;
  Verdict verdict = SlowSteps(facts, &cause);
  if (verdict.kind != Verdict::Kind::kAdvice) return verdict;
  if (!IsRemade(facts, cause)) return Verdict::Nothing();
  Advice& advice = verdict.advice;
  advice.finding =
      "The loader's workers are started anew, again and again, and the first batch of each time comes late.";
  advice.evidence.push_back(
      "at least " +
      report::Counted(static_cast<uint64_t>(facts.tasks.workers->began), "worker process", "worker processes") +
      " began in the loop, and there were " + std::to_string(facts.tasks.workers->most) + " at most at a time");
  advice.change = "Keep the workers from epoch to epoch, and make the loader once, before the loop over epochs.";
  advice.snippet =
      "loader = DataLoader(..., persistent_workers=True)\nfor epoch in range(epochs):\n    for x, y in loader:";
  advice.confidence = Confidence::kHigh;
  return verdict;
}

}  // namespace slipstream::advise
