#include "tools/trace/top/step_watch.h"

#include <algorithm>

#include "tools/trace/db/step_names.h"
#include "tracer/spool/device_work.h"
#include "tracer/spool/range_record.h"
#include "tracer/spool/trace_record.h"

namespace slipstream::top {

using tracer::NameTable;
using tracer::RecordKind;

void StepWatch::Add(const tracer::SpoolRecord& record) {
  switch (record.record.kind) {
    case RecordKind::kCall:
      AddCall(record);
      break;
    case RecordKind::kStep:
      recorded_.Add(record.record.start_ns, record.record.end_ns);
      break;
    case RecordKind::kRange:
      AddRange(record);
      break;
    case RecordKind::kActivity:
      if (record.activity.kind != tracer::ActivityKind::kKernel) break;
      kernels_.emplace_back(record.activity.correlation, tracer::KernelOf(record.activity).name);
      if (kernels_.size() > kMostRecent) kernels_.pop_front();
      break;
    default:
      break;
  }
}

void StepWatch::AddCall(const tracer::SpoolRecord& record) {
  const auto [known, is_new] = functions_.try_emplace(record.record.hook);
  Function& function = known->second;
  const std::string* const name = is_new ? reader_.NameOf(NameTable::kHooks, record.record.hook) : nullptr;
  if (name != nullptr) {
    function = {.copies = trace_db::IsCopy(*name),
                .asks_for_work = trace_db::AsksForWork(*name),
                .is_graph = name->find("GraphLaunch") != std::string::npos};
  }
  const uint32_t line = lines_.LineOf(record.record);
  finder_.AddCall(record.thread, line, function.copies, record.record.start_ns);
  const Call call = {.thread = record.thread,
                     .line = line,
                     .start = static_cast<int64_t>(record.record.start_ns),
                     .end = static_cast<int64_t>(record.record.end_ns),
                     .copied = function.copies ? record.record.bytes : 0,
                     .function = record.record.hook,
                     .correlation = record.record.correlation};
  recent_.push_back(call);
  if (recent_.size() > kMostRecent) recent_.pop_front();
  if (cutter_) Cut(call);
}

void StepWatch::Cut(const Call& call) {
  if (call.thread != cutter_->thread()) return;
  const auto ended = cutter_->Add(call.line, call.start, call.end, call.copied);
  if (ended) cut_.Add(static_cast<uint64_t>(ended->start), static_cast<uint64_t>(ended->end));
}

void StepWatch::AddRange(const tracer::SpoolRecord& record) {
  const tracer::RangeRecord range = tracer::RangeOf(record.record);
  if (range.kind == tracer::RangeKind::kMark || range.name == 0) return;
  const auto [base, is_new] = bases_.try_emplace(range.name);
  if (is_new) {
    const std::string* const text = reader_.NameOf(NameTable::kRanges, range.name);
    const auto name = text != nullptr ? trace_db::StepNameOf(*text) : std::nullopt;
    if (name) base->second = name->base;
  }
  if (base->second.empty()) return;
  const std::pair<std::string, uint32_t> key(base->second, record.thread);
  auto found = ranges_.find(key);
  if (found == ranges_.end()) {
    if (ranges_.size() == kMostNames) return;
    found = ranges_.try_emplace(key).first;
  }
  found->second.Add(range.start_ns, range.end_ns);
}

void StepWatch::Find() {
  FindLine();
  FindLaunches();
}

void StepWatch::FindLine() {
  const size_t visits = finder_.visits();
  if (visits < find_at_ || visits == 0) return;
  find_at_ = visits + visits / 4 + 16;
  const auto found = finder_.Find();
  if (found) line_copies_ = found->copies;
  if (!found || (cutter_ && cutter_->thread() == found->thread && cutter_->site() == found->site)) return;
  cutter_.emplace(*found);
  cut_ = StepHistory();
  for (const Call& call : recent_) Cut(call);
}

void StepWatch::FindLaunches() {
  constexpr int64_t kBetween = 1'000'000'000;  // ns
  if (recent_.empty() || (cutter_ && line_copies_) || recent_.back().start < launches_at_) return;
  launches_at_ = recent_.back().start + kBetween;
  trace_db::LaunchSequence sequence;
  for (const auto& [correlation, kernel] : kernels_) sequence.Ran(correlation, kernel);
  for (const Call& call : recent_) {
    const Function& function = functions_[call.function];
    if (!function.asks_for_work) continue;
    sequence.Add(call.thread, {.site = call.line,
                               .function = call.function,
                               .is_graph = function.is_graph,
                               .correlation = call.correlation,
                               .start_ns = static_cast<uint64_t>(call.start),
                               .end_ns = static_cast<uint64_t>(call.end)});
  }
  const auto found = sequence.Find();
  if (!found) return;
  launched_.site = found->site;
  launched_.launches = found->launches;
  for (const trace_db::LaunchSequence::Step& step : found->steps) {
    if (step.is_unfinished || step.start_ns < launched_.until) continue;
    launched_.steps.Add(step.start_ns, step.end_ns);
    launched_.until = step.end_ns;
  }
}

bool StepWatch::ByLaunches() const {
  const auto launched = launched_.steps.Look();
  if (!launched || (cutter_ && line_copies_)) return false;
  const auto cut = cut_.Look();
  return !cut || !trace_db::LineTellsMore(launched->median_ns, cut->median_ns);
}

// Those of PyTorch's profiler, if there are any, else the most. One is no loop.
StepWatch::Ranges::const_iterator StepWatch::StepRanges() const {
  const auto rank = [](const auto& entry) {
    return std::pair(entry.first.first == "profilerstep", entry.second.seen());
  };
  const auto most =
      std::max_element(ranges_.begin(), ranges_.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return most != ranges_.end() && most->second.seen() < 2 ? ranges_.end() : most;
}

const StepHistory* StepWatch::Steps() const {
  if (recorded_.seen() != 0) return &recorded_;
  if (const auto range = StepRanges(); range != ranges_.end()) return &range->second;
  if (ByLaunches()) return &launched_.steps;
  return cut_.seen() != 0 ? &cut_ : nullptr;
}

std::string StepWatch::How() const {
  if (recorded_.seen() != 0) return "as recorded";
  if (const auto range = StepRanges(); range != ranges_.end()) return "NVTX ranges \"" + range->first.first + "\"";
  const bool by_launches = ByLaunches();
  const uint32_t site = by_launches ? launched_.site : cutter_ ? cutter_->site() : 0;
  const tracer::SpoolSite* const line = site != 0 ? reader_.SiteOf(site) : nullptr;
  const std::string place = line != nullptr ? line->file + ":" + std::to_string(line->line) : "";
  if (!by_launches) return place.empty() ? "" : "each from " + place;
  return "each about " + std::to_string(launched_.launches) + " launches, copies and sets that come again" +
         (place.empty() ? "" : ", the first of them at " + place);
}

}  // namespace slipstream::top
