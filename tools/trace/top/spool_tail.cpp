#include "tools/trace/top/spool_tail.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "policy/number.h"
#include "tools/text/text.h"
#include "tools/trace/db/bounded.h"
#include "tools/trace/report/decision_text.h"
#include "tracer/base/python_lines.h"
#include "tracer/spool/device_work.h"
#include "tracer/spool/process_facts.h"

namespace slipstream::top {
namespace {

using tracer::NameTable;
using tracer::RecordKind;
using tracer::TraceRecord;

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kWindowNs = kWindowSeconds * kSecondNs;
// Between two readings of a clock, for more than their error; and from them, for a line through them to mean anything.
constexpr uint64_t kLeastApartNs = 10'000'000;
constexpr int64_t kFarNs = 60'000'000'000;
// Devices of a process; numbers from a damaged file are not.
constexpr size_t kMostDevices = 64;

uint64_t Duration(const TraceRecord& record) {
  return record.end_ns > record.start_ns ? record.end_ns - record.start_ns : 0;
}

// A wait has a number of CUPTI's too, and no work that might still come.
bool AsksForNothing(const std::string& function) {
  const std::string_view plain = report::PlainName(function);
  return report::KindOf(function) == report::CallKind::kSynchronize || plain == "cudaStreamWaitEvent" ||
         plain == "cuStreamWaitEvent";
}

}  // namespace

SpoolTail::SpoolTail(const std::string& path, std::unique_ptr<tracer::SpoolReader> reader)
    : path_(path), reader_(std::move(reader)), lines_(*reader_), steps_(*reader_) {
  reader_->Follow(true);
}

std::unique_ptr<SpoolTail> SpoolTail::Open(const std::string& path, std::string* error) {
  auto reader = tracer::SpoolReader::Open(path, error);
  if (reader == nullptr) return nullptr;
  return std::unique_ptr<SpoolTail>(new SpoolTail(path, std::move(reader)));
}

std::string SpoolTail::Fact(const char* key) const {
  const auto found = reader_->facts().find(key);
  return found != reader_->facts().end() ? found->second : "";
}

int32_t SpoolTail::Number(const char* key, int32_t missing) const {
  return policy::NumberIn<int32_t>(Fact(key)).value_or(missing);
}

bool SpoolTail::ReadOn(uint64_t most_bytes) {
  if (ended_) return true;
  const uint64_t stop = reader_->end().read_bytes + most_bytes;
  tracer::SpoolRecord record;
  at_end_ = true;
  while (reader_->Next(&record)) {
    Add(record);
    if (reader_->end().read_bytes < stop) continue;
    at_end_ = false;
    break;
  }
  if (at_end_ && reader_->end().complete) ended_ = true;
  const uint64_t oldest = complete_ns_ > kWindowNs ? complete_ns_ - kWindowNs : 0;
  for (auto& [device, busy] : busy_) busy.Settle(oldest);
  if (devices_recorded_) ahead_.Advance(complete_ns_);
  steps_.Find();
  return at_end_;
}

void SpoolTail::End() {
  reader_->Follow(false);
  ReadOn(~uint64_t{0} >> 1U);
  ended_ = true;
}

void SpoolTail::Add(const tracer::SpoolRecord& spooled) {
  const TraceRecord& record = spooled.record;
  switch (record.kind) {
    case RecordKind::kCall:
      AddCall(spooled);
      break;
    case RecordKind::kDriverCall:
      if (devices_recorded_) ahead_.Add(CallFor(spooled));
      break;
    case RecordKind::kActivity:
      AddDeviceWork(spooled.activity);
      break;
    case RecordKind::kDecision:
      AddDecision(spooled);
      break;
    case RecordKind::kDeviceClock:
      AddClock(record);
      break;
    case RecordKind::kMemory:
      if (memory_.size() < kMostDevices || memory_.count(record.device) != 0) {
        memory_[record.device] = tracer::MemoryOf(record);
      }
      break;
    default:
      break;
  }
  steps_.Add(spooled);
}

void SpoolTail::AddCall(const tracer::SpoolRecord& spooled) {
  const TraceRecord& record = spooled.record;
  first_ns_ = std::min(first_ns_.value_or(record.start_ns), record.start_ns);
  newest_ns_ = std::max(newest_ns_, record.end_ns);
  const uint64_t second = record.end_ns / kSecondNs;
  const uint64_t newest = newest_ns_ / kSecondNs;
  if (second + kWindowSeconds >= newest) {
    Second& lines = seconds_[second];
    const uint32_t line = lines_.LineOf(record.site);
    LineSum& sum = lines.size() < kMostLines || lines.count(line) != 0 ? lines[line] : lines[0];
    ++sum.calls;
    sum.time_ns += Duration(record);
    while (seconds_.begin()->first + kWindowSeconds < newest) seconds_.erase(seconds_.begin());
  }
  if (devices_recorded_) ahead_.Add(CallFor(spooled));
}

AheadWatch::Call SpoolTail::CallFor(const tracer::SpoolRecord& spooled) {
  const TraceRecord& record = spooled.record;
  AheadWatch::Call call = {.thread = spooled.thread,
                           .start_ns = record.start_ns,
                           .end_ns = std::max(record.start_ns, record.end_ns),
                           .correlation = record.correlation,
                           .hooked = record.kind == RecordKind::kCall};
  if (!call.hooked) {
    const std::string* const driver = reader_->NameOf(tracer::NameTable::kDriverFunctions, record.hook);
    if (driver != nullptr && AsksForNothing(*driver)) call.correlation = 0;
    return call;
  }
  const auto [function, is_new] = functions_.try_emplace(record.hook);
  if (is_new) {
    const std::string* const found = reader_->NameOf(NameTable::kHooks, record.hook);
    const std::string name = found != nullptr ? *found : "";
    const std::string_view plain = report::PlainName(name);
    function->second = {
        .kind = report::KindOf(name),
        .names_its_stream = report::NamesItsStream(name),
        .is_stream_synchronize = report::IsStreamSynchronize(name) || report::IsStreamSynchronize(plain),
        .asks_for_nothing = AsksForNothing(name),
        .is_blocking_copy = report::IsBlockingCopy(name),
        .destroys = plain == "cudaStreamDestroy" || plain == "cuStreamDestroy"};
  }
  if (function->second.asks_for_nothing) call.correlation = 0;
  const auto [decision, is_new_decision] = decisions_.try_emplace(record.decision);
  if (is_new_decision) {
    const std::string* const name = reader_->NameOf(NameTable::kDecisions, record.decision);
    if (name != nullptr && record.decision != 0) {
      decision->second = {.makes_it_return = report::MakesItReturn(*name),
                          .skips_the_wait = report::SkipsTheWait(*name),
                          .uses_other_streams = report::UsesOtherStreams(*name)};
    }
  }
  const bool staged = function->second.kind == report::CallKind::kCopy && decision->second.makes_it_return;
  call.bytes = record.bytes;
  call.stream = record.stream;
  const auto saved = saved_by_.find(spooled.thread);
  if (saved != saved_by_.end() && saved->second.call == record.number) call.saved_ns = saved->second.ns;
  call.kind = function->second.kind;
  call.names_its_stream = function->second.names_its_stream && !decision->second.uses_other_streams;
  call.makes_it_return = decision->second.makes_it_return;
  call.destroys_its_stream = function->second.destroys;
  call.skips_a_wait = (function->second.is_stream_synchronize && decision->second.skips_the_wait) ||
                      (function->second.is_blocking_copy && staged && record.bytes > report::kMayReturnEarly);
  return call;
}

// Of a call that is to come in the records of the thread.
void SpoolTail::AddDecision(const tracer::SpoolRecord& spooled) {
  const tracer::DecisionMade made = tracer::DecisionOf(spooled.record);
  if (!devices_recorded_ || made.call == 0) return;
  if (saved_by_.size() >= kMostThreads && saved_by_.count(spooled.thread) == 0) saved_by_.clear();
  Saved& saved = saved_by_[spooled.thread];
  if (saved.call != made.call) saved = {.call = made.call};
  saved.ns = trace_db::Sum(saved.ns, made.saved_ns);
}

void SpoolTail::AddDeviceWork(const tracer::ActivityRecord& record) {
  if (record.kind == tracer::ActivityKind::kSynchronization) return;  // no work
  const tracer::DeviceWork work = tracer::DeviceWorkOf(record);
  const uint64_t start = Monotonic(work.start_ns);
  const uint64_t end = Monotonic(work.end_ns);
  if (record.kind == tracer::ActivityKind::kKernel &&
      (busy_.size() < kMostDevices || busy_.count(record.device) != 0)) {
    busy_[record.device].Add(start, end);
  }
  if (!devices_recorded_) return;
  ahead_.Add(AheadWatch::Work{.correlation = work.correlation,
                              .context = work.context,
                              .stream = work.stream,
                              .of_graph = work.graph_node != 0,
                              .end_ns = end});
}

// By the line through the last two readings: work is written soon after it has ended, so most of it lies between them.
uint64_t SpoolTail::Monotonic(uint64_t recorded_ns) const {
  if (!last_) return recorded_ns;
  const uint64_t plain = recorded_ns - last_->recorded_ns + last_->monotonic_ns;
  if (!before_) return plain;
  // Whatever is far from them is a damaged time, or the readings are too near each other to tell how clocks run.
  const auto back = static_cast<int64_t>(last_->recorded_ns - recorded_ns);
  const uint64_t apart = last_->recorded_ns - before_->recorded_ns;
  if (apart < kLeastApartNs || back > kFarNs || back < -kFarNs) return plain;
  const double rate = static_cast<double>(last_->monotonic_ns - before_->monotonic_ns) / static_cast<double>(apart);
  if (rate < 0.9 || rate > 1.1) return plain;
  return last_->monotonic_ns - static_cast<uint64_t>(static_cast<int64_t>(static_cast<double>(back) * rate));
}

// Work that had ended when the clock was read has been written by the time of the next reading: CUPTI is asked for it
// in between (tracer/device/device_tracer.cpp).
void SpoolTail::AddClock(const TraceRecord& clock) {
  if (clock.end_ns < clock.start_ns) return;
  const uint64_t middle = clock.start_ns + (clock.end_ns - clock.start_ns) / 2;
  const Reading now = {.recorded_ns = clock.bytes - clock.stream, .monotonic_ns = middle};
  const bool goes_on = last_ && now.recorded_ns > last_->recorded_ns && now.monotonic_ns > last_->monotonic_ns;
  before_ = goes_on ? last_ : std::nullopt;
  last_ = now;
  const auto reading = static_cast<tracer::DeviceReading>(clock.status);
  if (reading == tracer::DeviceReading::kBegins) {
    devices_recorded_ = true;
    begins_ns_ = complete_ns_ = clock.end_ns;
    busy_.clear();
    ahead_.Restart();
  } else if (devices_recorded_) {
    complete_ns_ = std::max(complete_ns_, last_clock_ns_);
  }
  last_clock_ns_ = clock.start_ns;
  if (reading == tracer::DeviceReading::kEnds) devices_recorded_ = false;
}

std::vector<tracer::MemoryFigures> SpoolTail::Memory() const {
  std::vector<tracer::MemoryFigures> all;
  for (const auto& [device, figures] : memory_) all.push_back(figures);
  return all;
}

void SpoolTail::LookAtDevices(uint64_t end_ns, TraceView* view) const {
  if (!devices_recorded_) return;
  // One that has stopped writing is not looked at for ever.
  const uint64_t from = std::max(begins_ns_, complete_ns_ > kWindowNs ? complete_ns_ - kWindowNs : 0);
  if (complete_ns_ <= from || end_ns > complete_ns_ + kWindowNs) return;
  view->has_device_work = true;
  for (const auto& [device, busy] : busy_) {
    const uint64_t since = std::max(from, busy.known_from());
    if (complete_ns_ <= since) continue;
    view->devices.push_back(
        {.device = device,
         .busy = static_cast<double>(busy.Within(since, complete_ns_)) / static_cast<double>(complete_ns_ - since)});
  }
  view->ahead = ahead_.Look(kWindowNs);
}

TraceView SpoolTail::Look(std::optional<uint64_t> now_ns) const {
  TraceView view;
  const std::string lines = Fact(tracer::kFactPythonLines);
  if (!lines.empty() && !lines.starts_with(tracer::kLinesRead)) view.no_lines = text::PythonLinesText(lines);
  const tracer::SpoolReader::End& end = reader_->end();
  view.ended = ended_;
  view.dropped = end.dropped;
  view.damaged = end.damaged_bytes != 0 || end.missing_chunks != 0;
  // A chunk that is not whole is usual in a file that is being written; one that never becomes whole shows by the rest.
  if (end.left_bytes > uint64_t{2} * tracer::kMaxPayloadBytes || (ended_ && !end.left_why.empty())) {
    view.trouble = end.left_why;
  } else if (ended_ && end.complete && end.reason == tracer::EndReason::kLimit) {
    view.trouble = "the trace has the size that tracer.max_file allows";
  } else if (ended_ && end.complete && end.reason == tracer::EndReason::kError) {
    view.trouble = "the trace could not be written any further";
  }
  if (!at_end_) {
    std::error_code ignored;
    const auto bytes = std::filesystem::file_size(path_, ignored);
    view.read =
        ignored || bytes == 0 ? 0.0 : std::min(1.0, static_cast<double>(end.read_bytes) / static_cast<double>(bytes));
  }
  const uint64_t now = std::max(now_ns.value_or(newest_ns_), newest_ns_);
  const uint64_t oldest_second = now / kSecondNs - std::min(now / kSecondNs, kWindowSeconds - 1);
  const uint64_t from = std::max(oldest_second * kSecondNs, first_ns_.value_or(now));
  std::unordered_map<uint32_t, LineSum> sums;
  for (auto second = seconds_.lower_bound(oldest_second); second != seconds_.end(); ++second) {
    for (const auto& [line, sum] : second->second) {
      sums[line].calls += sum.calls;
      sums[line].time_ns += sum.time_ns;
    }
  }
  if (!sums.empty() && now > from) view.seconds = static_cast<double>(now - from) / 1e9;
  for (const auto& [site, sum] : sums) {
    LineView line = {.calls = sum.calls, .time_ns = sum.time_ns};
    if (const tracer::SpoolSite* const known = reader_->SiteOf(site)) {
      line.file = known->file;
      line.function = known->function;
      line.line = known->line;
    }
    view.lines.push_back(std::move(line));
  }
  std::sort(view.lines.begin(), view.lines.end(), [](const LineView& a, const LineView& b) {
    if (a.time_ns != b.time_ns) return a.time_ns > b.time_ns;
    return std::tie(b.calls, a.file, a.line) < std::tie(a.calls, b.file, b.line);
  });
  if (const StepHistory* const steps = steps_.Steps()) {
    view.steps = steps->Look();
    if (view.steps) {
      view.steps->how = steps_.How();
      if (now_ns && now >= steps->last_end_ns()) view.steps->since_last_ns = now - steps->last_end_ns();
      if (view.seconds > 0) view.steps_in_window = steps->Between(from, now);
    }
  }
  LookAtDevices(now, &view);
  return view;
}

}  // namespace slipstream::top
