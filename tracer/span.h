// Records one hooked call.
#pragma once

#include "tracer/base/call_clock.h"
#include "tracer/ranges/nvtx_domain.h"
#include "tracer/tracer.h"

namespace slipstream::tracer {

// Opens at construction, is counted at Close; a span that is never closed (a thread cancelled inside the call) only
// ends its NVTX range. It is on the stack of the calling thread, one at a time.
class Span {
 public:
  // `stream` returns the call's stream; it is asked for by a trace alone.
  template <typename Stream>
  Span(Tracer& tracer, HookId id, uint64_t nvtx_bytes, const Stream& stream)
      : tracer_(tracer), recording_(Before(tracer, id)), id_(id) {
    if (recording_ & kRecordNvtx) tracer_.nvtx()->Push(id_, nvtx_bytes);
    if (recording_ & kRecordTrace) [[unlikely]] {
      start_.at = tracer_.BeginCall(stream());
    } else if (recording_ & kRecordTime) {
      start_ = g_call_clock.Now();
    }
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  ~Span() {
    if (recording_ & kRecordNvtx) tracer_.nvtx()->Pop();
  }

  void Close(const CallDetail& detail, bool failed, int32_t status) {
    if (recording_ & kRecordSteps) [[unlikely]]
      tracer_.AfterCall(id_, detail, failed);
    if (recording_ & kRecordTrace) [[unlikely]] {
      tracer_.EndCall(id_, detail, failed, status, start_.at);
      return;
    }
    if (!(recording_ & kRecordCalls)) return;
    const uint64_t time_ns = recording_ & kRecordTime ? g_call_clock.NsSince(start_) : 0;
    tracer_.Count(id_, detail, failed, time_ns);
  }

 private:
  static uint32_t Before(Tracer& tracer, HookId id) {
    const uint32_t recording = tracer.recording();
    return recording & kRecordSteps ? tracer.BeforeCall(id) : recording;
  }

  Tracer& tracer_;
  const uint32_t recording_;
  const HookId id_;
  CallClock::Moment start_;
};

}  // namespace slipstream::tracer
