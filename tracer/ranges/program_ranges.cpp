#include "tracer/ranges/program_ranges.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "tracer/base/clock.h"

namespace slipstream::tracer {

void ProgramRanges::SetRecorder(Recorder* recorder) {
  recorder->SetNames(NameTable::kRanges, &names_);
  recorder->SetLostRanges(&lost_);
  recorder_.store(recorder, std::memory_order_release);
}

// Null while nothing is recorded; a forked child's recorder does not record.
Recorder* ProgramRanges::Recording() const {
  Recorder* const recorder = recorder_.load(std::memory_order_acquire);
  return recorder != nullptr && recorder->recording() ? recorder : nullptr;
}

void ProgramRanges::Record(const Open& open, uint64_t end_ns, RangeKind kind, uint32_t thread) const {
  Recorder* const recorder = Recording();
  if (recorder == nullptr || open.start_ns == 0) return;
  recorder->Record(RecordOf({.start_ns = open.start_ns,
                             .end_ns = end_ns,
                             .kind = kind,
                             .name = open.range.name,
                             .domain = open.domain,
                             .category = open.range.category,
                             .color = open.range.color,
                             .payload = open.range.payload,
                             .payload_bits = open.range.payload_bits,
                             .thread = thread}));
}

// For a window of steps; none where there is no such window.
bool ProgramRanges::IsStep(const Stack& stack, const RangeDetail& range) {
  Recorder* const recorder = recorder_.load(std::memory_order_acquire);
  if (recorder == nullptr || recorder->window().unit() != policy::RecordWindow::Unit::kSteps) return false;
  const auto end = stack.open.begin() + stack.count;
  if (std::any_of(stack.open.begin(), end, [](const Open& open) { return open.is_step; })) return false;
  std::string_view name;
  return names_.Describe(range.name, &name) && steps_.Begins(name, recorder);
}

int ProgramRanges::Push(uint32_t domain, const RangeDetail& range) {
  Stack* const here = Here::Get();
  if (here == nullptr) {
    lost_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  Stack& stack = *here;
  const auto end = stack.open.begin() + stack.count;
  const auto level =
      static_cast<int>(std::count_if(stack.open.begin(), end, [=](const Open& o) { return o.domain == domain; }));
  if (stack.count == kOpen) {
    lost_.fetch_add(1, std::memory_order_relaxed);
    return level + static_cast<int>(stack.beyond++);
  }
  const bool is_step = IsStep(stack, range);  // may begin to record
  const uint64_t start_ns = Recording() != nullptr ? NowNs() : 0;
  stack.open[stack.count++] = {.start_ns = start_ns, .domain = domain, .range = range, .is_step = is_step};
  return level;
}

int ProgramRanges::Pop(uint32_t domain) {
  const uint64_t end_ns = NowNs();
  Stack* const here = Here::Find();
  if (here == nullptr) return -1;
  Stack& stack = *here;
  const auto end = stack.open.begin() + stack.count;
  const auto of_domain = [=](const Open& open) { return open.domain == domain; };
  const auto level = static_cast<int>(std::count_if(stack.open.begin(), end, of_domain));
  if (stack.beyond != 0) return level + static_cast<int>(--stack.beyond);
  if (level == 0) return -1;
  const auto last = std::find_if(std::make_reverse_iterator(end), stack.open.rend(), of_domain);
  Record(*last, end_ns, RangeKind::kPushed, 0);
  std::copy(last.base(), end, last.base() - 1);
  --stack.count;
  return level - 1;
}

uint64_t ProgramRanges::Start(uint32_t domain, const RangeDetail& range) {
  const uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  // A place that a range of long ago still has is passed over.
  for (uint64_t i = 0; i < kStarted; ++i) {
    Started& place = started_[(number + i) % kStarted];
    uint64_t is_free = 0;
    if (!place.id.compare_exchange_strong(is_free, kBusy, std::memory_order_acquire, std::memory_order_relaxed))
      continue;
    place.thread = static_cast<uint32_t>(syscall(SYS_gettid));
    place.open = {.start_ns = Recording() != nullptr ? NowNs() : 0, .domain = domain, .range = range};
    const uint64_t id = number * kStarted + (number + i) % kStarted;
    place.id.store(id, std::memory_order_release);
    return id;
  }
  lost_.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

void ProgramRanges::End(uint64_t range) {
  const uint64_t end_ns = NowNs();
  Started& place = started_[range % kStarted];
  uint64_t expected = range;
  // 0 and kBusy are no range's; one that has ended is no place's any more.
  if (range < kStarted ||
      !place.id.compare_exchange_strong(expected, kBusy, std::memory_order_acquire, std::memory_order_relaxed)) {
    return;
  }
  const Open open = place.open;
  const uint32_t thread = place.thread;
  place.id.store(0, std::memory_order_release);
  Record(open, end_ns, RangeKind::kStarted, thread);
}

void ProgramRanges::Mark(uint32_t domain, const RangeDetail& mark) {
  const uint64_t now_ns = NowNs();
  Record({.start_ns = now_ns, .domain = domain, .range = mark}, now_ns, RangeKind::kMark, 0);
}

}  // namespace slipstream::tracer
