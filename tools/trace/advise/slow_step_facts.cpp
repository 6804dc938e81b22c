#include "tools/trace/advise/slow_step_facts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <string_view>

#include "tools/trace/db/bounded.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/steps.h"

namespace slipstream::advise {
namespace {

using trace_db::DatabaseReader;
using trace_db::Question;

struct Sum {
  uint64_t count = 0;
  int64_t time = 0;
};
using Functions = std::map<std::string, Sum>;  // by name
using Kernels = std::map<int64_t, Sum>;        // by the number of the name

bool LoadsCode(std::string_view function) {
  return function.find("ModuleLoad") != std::string_view::npos ||
         function.find("LibraryLoad") != std::string_view::npos;
}

class SlowStepReading {
 public:
  SlowStepReading(DatabaseReader* reader, int64_t process) : process_(process) {
    // CROSS: in this order, so that the calls of a few steps are found by their starts.
    calls_ = std::make_unique<Question>(
        *reader,
        "SELECT n.value, count(*), sum(r.\"end\" - r.start) FROM CUPTI_ACTIVITY_KIND_RUNTIME r CROSS JOIN "
        "SLIPSTREAM_CALLS c ON c.correlationId = r.correlationId CROSS JOIN StringIds n ON n.id = r.nameId "
        "WHERE r.start >= ?1 AND r.start < ?2 AND c.processId = ?3 GROUP BY n.value");
    if (!reader->HasTable("CUPTI_ACTIVITY_KIND_KERNEL")) return;
    kernels_ = std::make_unique<Question>(
        *reader,
        "SELECT w.shortName, count(*), sum(w.\"end\" - w.start) FROM CUPTI_ACTIVITY_KIND_KERNEL w CROSS JOIN "
        "SLIPSTREAM_CALLS c ON c.correlationId = w.correlationId "
        "WHERE w.start >= ?1 AND w.start < ?2 AND c.processId = ?3 GROUP BY w.shortName");
  }

  Functions FunctionsOf(int64_t start, int64_t end) {
    Functions sums;
    for (Ask(calls_.get(), start, end); calls_->Next();) {
      Sum& sum = sums[std::string(report::PlainName(calls_->Text(0)))];
      sum.count += static_cast<uint64_t>(trace_db::BoundedCount(calls_->Number(1)));
      report::AddTo(&sum.time, trace_db::BoundedTime(calls_->Number(2)));
    }
    return sums;
  }
  Kernels KernelsOf(int64_t start, int64_t end) {
    Kernels sums;
    if (kernels_ == nullptr) return sums;
    for (Ask(kernels_.get(), start, end); kernels_->Next();) {
      sums[kernels_->Number(0)] = {static_cast<uint64_t>(trace_db::BoundedCount(kernels_->Number(1))),
                                   trace_db::BoundedTime(kernels_->Number(2))};
    }
    return sums;
  }

 private:
  void Ask(Question* question, int64_t start, int64_t end) const {
    question->Again();
    question->Bind(1, start).Bind(2, end).Bind(3, process_);
  }

  int64_t process_;
  std::unique_ptr<Question> calls_;
  std::unique_ptr<Question> kernels_;  // null: none are recorded
};

uint64_t LoadsOf(const Functions& functions) {
  uint64_t loads = 0;
  for (const auto& [name, sum] : functions) loads += LoadsCode(name) ? sum.count : 0;
  return loads;
}

void CompareCalls(const Functions& usual, const Functions& slow, SlowStepFacts* facts) {
  for (const auto& [name, sum] : slow) {
    const auto at = usual.find(name);
    const int64_t grew = sum.time - (at != usual.end() ? at->second.time : 0);
    if (grew <= facts->function_grew) continue;
    facts->function = name;
    facts->function_grew = grew;
  }
  facts->loads = LoadsOf(slow) - std::min(LoadsOf(slow), LoadsOf(usual));
}

void CompareKernels(const Kernels& usual, const Kernels& slow, SlowStepFacts* facts) {
  constexpr double kMost = 0.8;
  constexpr double kAlike = 0.1;
  double all = 0;
  double before = 0;  // of those that can be compared
  double now = 0;
  int64_t usual_time = 0;
  for (const auto& [name, sum] : usual) report::AddTo(&usual_time, sum.time);
  const auto same = [&](int64_t name, const Sum& sum) {
    const auto at = usual.find(name);
    return at != usual.end() && at->second.count == sum.count && at->second.time > 0 ? &at->second : nullptr;
  };
  for (const auto& [name, sum] : slow) {
    all += static_cast<double>(sum.time);
    const Sum* const of_usual = same(name, sum);
    if (of_usual == nullptr) continue;
    before += static_cast<double>(of_usual->time);
    now += static_cast<double>(sum.time);
  }
  facts->kernels_grew = static_cast<int64_t>(all) - usual_time;
  if (before <= 0 || now < kMost * all) return;
  facts->kernels_factor = now / before;
  double alike = 0;
  for (const auto& [name, sum] : slow) {
    const Sum* const of_usual = same(name, sum);
    if (of_usual == nullptr) continue;
    const double factor = static_cast<double>(sum.time) / static_cast<double>(of_usual->time);
    if (std::abs(factor / facts->kernels_factor - 1) <= kAlike) alike += static_cast<double>(sum.time);
  }
  facts->all_kernels = alike >= kMost * all;
}

}  // namespace

std::vector<SlowStepFacts> ReadSlowSteps(DatabaseReader* reader, const report::ProcessReport& process) {
  std::vector<SlowStepFacts> list;
  std::vector<const report::Step*> measured;
  std::vector<int64_t> times;
  for (const report::Step& step : process.steps) {
    if (step.use != report::StepUse::kMeasured) continue;
    measured.push_back(&step);
    times.push_back(step.time());
  }
  if (measured.empty() || process.slow_steps.empty()) return list;
  const report::Step& median = *measured[report::IndexOfMedian(times)];
  SlowStepReading reading(reader, process.process);
  const Functions usual_functions = reading.FunctionsOf(median.start, median.end);
  const Kernels usual_kernels = reading.KernelsOf(median.start, median.end);
  for (const report::SlowStep& step : process.slow_steps) {
    SlowStepFacts& facts = list.emplace_back();
    facts.step = step;
    CompareCalls(usual_functions, reading.FunctionsOf(step.start, step.start + step.time), &facts);
    CompareKernels(usual_kernels, reading.KernelsOf(step.start, step.start + step.time), &facts);
  }
  return list;
}

}  // namespace slipstream::advise
