#include "tools/trace/top/step_watch.h"

#include <algorithm>

#include "tools/trace/db/step_names.h"
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
    default:
      break;
  }
}

void StepWatch::AddCall(const tracer::SpoolRecord& record) {
  const auto [copy, is_new] = copies_.try_emplace(record.record.hook);
  if (is_new) {
    const std::string* const name = reader_.NameOf(NameTable::kHooks, record.record.hook);
    copy->second = name != nullptr && trace_db::IsCopy(*name);
  }
  const uint32_t line = lines_.LineOf(record.record);
  finder_.AddCall(record.thread, line, copy->second, record.record.start_ns);
  const Call call = {.thread = record.thread,
                     .line = line,
                     .start = static_cast<int64_t>(record.record.start_ns),
                     .end = static_cast<int64_t>(record.record.end_ns),
                     .copied = copy->second ? record.record.bytes : 0};
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
  const size_t visits = finder_.visits();
  if (visits < find_at_ || visits == 0) return;
  find_at_ = visits + visits / 4 + 16;
  const auto found = finder_.Find();
  if (!found || (cutter_ && cutter_->thread() == found->thread && cutter_->site() == found->site)) return;
  cutter_.emplace(*found);
  cut_ = StepHistory();
  for (const Call& call : recent_) Cut(call);
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
  return cut_.seen() != 0 ? &cut_ : nullptr;
}

std::string StepWatch::How() const {
  if (recorded_.seen() != 0) return "as recorded";
  if (const auto range = StepRanges(); range != ranges_.end()) return "NVTX ranges \"" + range->first.first + "\"";
  const tracer::SpoolSite* const line = cutter_ ? reader_.SiteOf(cutter_->site()) : nullptr;
  return line != nullptr ? "each from " + line->file + ":" + std::to_string(line->line) : "";
}

}  // namespace slipstream::top
