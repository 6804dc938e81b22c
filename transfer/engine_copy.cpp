// Copies: which are promoted, and how.

#include <algorithm>
#include <chrono>
#include <cstring>

#include "cuda/clock.h"
#include "cuda/own_work.h"
#include "transfer/engine.h"
#include "transfer/fingerprint.h"
#include "transfer/host_pages.h"
#include "transfer/pieces.h"

namespace slipstream::transfer {
namespace {

constexpr Decision kPromote = Decision::kCount;  // no reason not to
constexpr uintptr_t kPageBytes = 4096;           // the smallest there are

// In which a slot is read while the engine's own stream moves. Where that is held behind other work, it may be waiting
// for the host (S08).
constexpr std::chrono::milliseconds kLongestForASlot{5};

}  // namespace

cudaError_t Engine::Real::operator()(const Request& request) const {
  const auto kind = static_cast<cudaMemcpyKind>(request.kind);
  return async != nullptr ? async(request.destination, request.source, request.bytes, kind, request.given)
                          : blocking(request.destination, request.source, request.bytes, kind);
}

Engine::Request Engine::RequestOf(const Real& real, void* destination, const void* source, size_t bytes,
                                  cudaMemcpyKind kind, cudaStream_t stream, bool per_thread) {
  const CUstream handle = cuda::Explicit(stream, per_thread);
  return {static_cast<char*>(destination),
          static_cast<const char*>(source),
          bytes,
          static_cast<int>(kind),
          stream,
          handle,
          cuda::KeyOf(handle, cuda::Ledger::ThreadId()),
          real};
}

cudaError_t Engine::OtherCopy(Request& request, bool per_thread) {
  if (ReturnsEarlyByMutant(request)) return cudaSuccess;
  if (request.real.async == nullptr) {
    LookAtVerified();
    ledger_.Settle(cuda::Before::kCopy);
  } else {
    ledger_.BeforeCopyTo(request.destination);
  }
  Stopwatch watch;
  if (Fetch(request, &watch)) return cudaSuccess;
  const cudaError_t result = request.real(request);
  if (result != cudaSuccess) return result;
  if (watch.learner != nullptr) watch.learner->Took(1, request.bytes, cuda::NowNs() - watch.start);
  if (request.real.async != nullptr) {
    ledger_.Touches({request.destination, request.bytes, request.source, request.bytes}, request.given, per_thread);
  }
  return result;
}

// Whether the copy's memory on the host is pinned as far as is known, and nothing else would be looked at first that is
// counted by another name: then nobody is asked anything.
bool Engine::LeavesPinned(const void* memory) {
  return !policy_has_more_to_say_ && ledger_.WasPinned(memory) && Serving() && !captures_.live() &&
         !ledger_.UsesSystemMemory() && !Broken(Mutant::kS01);
}

// Whether the copy was promoted; *fence is then behind one that was staged, if it could be had. The synchronization
// behind it may be skipped if the thread's candidate is valid.
bool Engine::CopyPromoted(Request& request, cuda::FenceRef* fence) {
  const bool possible = considers_to_device_ &&
                        (request.kind == cudaMemcpyHostToDevice || request.kind == cudaMemcpyDefault) &&
                        request.bytes != 0 && request.source != nullptr && request.destination != nullptr && Alive();
  if (!possible) return false;
  if (LeavesPinned(request.source)) {
    if (request.kind == cudaMemcpyHostToDevice) Count(Decision::kH2dDeclinedSource, request.bytes);
    return false;
  }
  ThreadState& thread = State();
  cuda::Destination where;
  policy::TransferPlan plan;
  bool promoted = false;
  bool left = false;
  const bool small = request.bytes <= kSmallCopyBytes;
  LookAtVerified();
  try {
    if (ledger_.Unbegun()) ledger_.BeginIfPossible();
    Decision why_not = WhyNotNow(request, &plan);
    if (why_not == kPromote) why_not = WhyNotThis(request, &where);
    if (why_not == kPromote) {
      FaultHere(request);
      const uint64_t sum = policy_.verify ? Verifier::SumOf(request.source, request.bytes) : 0;
      left = small && !ledger_.DeviceReadsPageable();
      promoted = left ? LeaveToDriver(request) : Stage(request, fence);
      if (promoted && policy_.verify) ExpectToFind(request, sum);
    }
    if (why_not != kPromote && request.kind == cudaMemcpyHostToDevice) Count(why_not, request.bytes);
  } catch (...) {
    // Whatever was enqueued, the whole copy behind it writes the same bytes.
    TurnOff(Decision::kH2dDeclinedError);
    return false;
  }
  if (promoted && (left || *fence)) thread.candidate = {true, where.shareable_only, small, plan, request.key};
  return promoted;
}

cudaError_t Engine::CopyAsync(RealCopyAsync* real, void* destination, const void* source, size_t bytes,
                              cudaMemcpyKind kind, cudaStream_t stream, bool per_thread) {
  State().candidate.valid = false;
  Request request = RequestOf({real, nullptr}, destination, source, bytes, kind, stream, per_thread);
  cuda::FenceRef fence;
  return CopyPromoted(request, &fence) ? cudaSuccess : OtherCopy(request, per_thread);
}

cudaError_t Engine::Copy(RealCopy* real, void* destination, const void* source, size_t bytes, cudaMemcpyKind kind,
                         bool per_thread) {
  State().candidate.valid = false;
  Request request = RequestOf({nullptr, real}, destination, source, bytes, kind, nullptr, per_thread);
  cuda::FenceRef fence;
  if (!CopyPromoted(request, &fence)) return OtherCopy(request, per_thread);
  if (SkipStreamSynchronize(nullptr, per_thread)) return cudaSuccess;
  LookAtVerified();
  ledger_.Settle(cuda::Before::kCopy);
  if (!fence) {
    const cuda::RelaxedCapture relaxed(driver_);
    fence = fences_.Record(request.in.context, request.stream);
  }
  // Where something went wrong, the program's own call has the error that it gets.
  return fence && fence.Wait() == CUDA_SUCCESS ? cudaSuccess : request.real(request);
}

// Where the source cannot be read, that is found while this thread has nothing in its hands, and before any other
// thread reads it: a handler of the program's may leave by siglongjmp (S77). Without a handler the process ends,
// whoever reads.
void Engine::FaultHere(const Request& request) {
  if (request.bytes > kSmallCopyBytes && !HandlesFaults()) return;
  const cuda::MayFault may_fault;
  ReadEveryPage(request.source, request.bytes);
}

// What needs no question about the copy's own memory.
Decision Engine::WhyNotNow(Request& request, policy::TransferPlan* plan) {
  if (!Serving()) return WhyOff();
  if (captures_.live() && !Broken(Mutant::kS05)) return Decision::kH2dDeclinedCapture;
  if (ledger_.UsesSystemMemory() && !Broken(Mutant::kS02)) return Decision::kH2dDeclinedSystemMemory;
  if (!ledger_.ServesCurrent(&request.in)) return Decision::kH2dDeclinedContext;
  *plan = PlanFor(policy::Direction::kHostToDevice, request);
  // The driver's own small copies wait for nothing: what is to be gained is the synchronization, which is made then.
  if (plan->promote && request.bytes <= kSmallCopyBytes && ledger_.OthersHaveTheirOwn(request.stream)) {
    ledger_.NextTurn();
    return Decision::kH2dDeclinedThreads;
  }
  if (plan->promote) return kPromote;
  if (plan->promote_by == policy::Decider::kStagingKey) return Decision::kH2dDeclinedDevice;
  return plan->promote_by == policy::Decider::kRule ? Decision::kH2dDeclinedRule : Decision::kH2dDeclinedOff;
}

// All that it asks the driver is allowed beside any capture, of this thread's or another one's (measured on an H200,
// driver of CUDA 13).
Decision Engine::WhyNotThis(const Request& request, cuda::Destination* destination) {
  const cuda::AddressRange source = cuda::AddressRange::Of(request.source, request.bytes);
  if (!Broken(Mutant::kS01)) {
    // Memory is pinned by whole pages.
    const char* const last = request.source + request.bytes - 1;
    const bool one_page = source.begin / kPageBytes == (source.end - 1) / kPageBytes;
    const bool pageable = ledger_.KindOfOrPinned(request.source) == cuda::MemoryKind::kPageable &&
                          (one_page || cuda::KindOf(driver_, last) == cuda::MemoryKind::kPageable) &&
                          !ledger_.Registered(source);
    if (!pageable) return Decision::kH2dDeclinedSource;
  } else if (cuda::KindOf(driver_, request.source) == cuda::MemoryKind::kDevice) {
    return Decision::kH2dDeclinedSource;
  }
  *destination = cuda::DestinationAt(driver_, reinterpret_cast<CUdeviceptr>(request.destination), request.bytes,
                                     request.in.device, request.in.context);
  if (!destination->plain && !Broken(Mutant::kS06)) return Decision::kH2dDeclinedDestination;

  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  const bool known = driver_.cuStreamIsCapturing(request.stream, &status) == CUDA_SUCCESS;
  const bool capturing = !known || status != CU_STREAM_CAPTURE_STATUS_NONE;
  return capturing && !Broken(Mutant::kS05) ? Decision::kH2dDeclinedCapture : kPromote;
}

// Whether the program's own call could find other bytes than there are now (S03, S04).
bool Engine::SourceMayChange(const Request& request) {
  if (!ledger_.MayBeWritten(cuda::AddressRange::Of(request.source, request.bytes))) return false;
  Count(Decision::kH2dDeclinedHostEffect, request.bytes);
  return true;
}

// Of a copy's source, all of which has just been read.
void Engine::TakeFingerprint(const char* memory, size_t bytes) {
  ThreadState& thread = State();
  thread.fingerprint = thread.wants_fingerprints ? FingerprintOf(memory, bytes) : 0;
}

// The driver waits for nothing before a copy of so little (CUDA programming guide, Asynchronous Concurrent Execution:
// "a memory block of 64 KB or less"), and has read its source when it returns (measured on an H100, behind a kernel
// too). So the copy is its own, made as the program would have made it, and all that is gained is the wait behind it.
bool Engine::LeaveToDriver(const Request& request) {
  ledger_.WatchEffects();  // whose first fence is better in front of the copy than behind it
  // A blocking one would wait for its stream before it reads.
  if (request.real.async == nullptr) {
    const cuda::RelaxedCapture relaxed(driver_);
    if (SourceMayChange(request)) return false;
  }
  if (!MayBegin()) {
    Count(WhyNoStaging(), request.bytes);
    return false;
  }
  const auto destination = reinterpret_cast<CUdeviceptr>(request.destination);
  if (cuda::CopyHtoD(driver_, destination, request.source, request.bytes, request.stream) != CUDA_SUCCESS) {
    Count(Decision::kH2dDeclinedError, request.bytes);
    return false;
  }
  TakeFingerprint(request.source, request.bytes);
  Count(Decision::kH2dPromotedSmall, request.bytes);
  return true;
}

bool Engine::Stage(const Request& request, cuda::FenceRef* fence) {
  const cuda::RelaxedCapture relaxed(driver_);
  if (SourceMayChange(request)) return false;
  const bool busy = driver_.cuStreamQuery(request.stream) == CUDA_ERROR_NOT_READY;
  if (const Mirrored mirrored = SendMirrored(request, busy, fence); mirrored != Mirrored::kNot) {
    return mirrored == Mirrored::kSent;
  }
  WantStaging(request.bytes);
  const size_t piece_bytes = PieceBytesOf(request.bytes);
  const auto pieces_a_slot = static_cast<uint32_t>(Ring::kSlotBytes / piece_bytes);
  CopyJob job(PieceWork::kIn, Stores::kStreaming, const_cast<char*>(request.source), request.bytes, piece_bytes,
              kPiecesAhead * static_cast<uint32_t>(threads_));
  const bool one_dma = request.bytes <= policy::kOneDmaBytes;
  CUdeviceptr lease = 0;
  if (!one_dma || (busy && request.bytes >= policy::kAheadFrom)) lease = TakeDeviceStaging(request);
  if (lease == 0 && !one_dma) {
    Count(WhyNoLease(request), request.bytes);
    return false;
  }
  Delivery delivery(driver_, fences_, ToOf(request), device_staging_, lease);
  // A slot is read while the copy still goes on, and can be used again: a long copy goes through a few slots.
  const bool soon_read = request.bytes > 2 * Ring::kSlotBytes;
  SlotLease slots(ring_);
  char* slot = nullptr;
  uint32_t in = 0;
  uint32_t sent = 0;
  const auto place = [&](uint32_t piece, bool must) -> char* {
    if (piece % pieces_a_slot == 0) slot = slots.Take();
    if (slot == nullptr && soon_read) {
      if (!must) return CopyWorkers::kLater;
      slot = slots.TakeWithin(kLongestForASlot);
    }
    return slot != nullptr ? slot + piece % pieces_a_slot * piece_bytes : nullptr;
  };
  const auto send = [&](bool all) {
    while (sent < in) {
      const uint32_t next = std::min(in, (sent / pieces_a_slot + 1) * pieces_a_slot);
      const size_t bytes = job.OffsetOf(next - 1) + job.BytesOf(next - 1) - job.OffsetOf(sent);
      if (!all && (lease == 0 || (next == in && bytes < kLeastSent && next % pieces_a_slot != 0))) break;
      if (!delivery.Add(job.OffsetOf(sent), job.PlaceOf(sent), bytes)) return false;
      sent = next;
      if (soon_read && sent % pieces_a_slot == 0) slots.ReadUpTo(delivery.Read());
    }
    return true;
  };
  const auto pieces_are_in = [&](uint32_t, uint32_t end) {
    in = end;
    return send(false);
  };
  const bool choose = threads_ > 1 && request.bytes < policy::kLongCopyBytes;
  const size_t way = choose ? staging_ways_.Choose(request.bytes) : 0;
  const uint64_t start = choose ? cuda::NowNs() : 0;
  workers_.Run(job, way == 1, place, pieces_are_in);
  const bool all_in = in == job.pieces();
  if (!delivery.failed() && (all_in || lease != 0)) send(true);
  const bool whole = all_in && !delivery.failed();
  if (choose && whole) staging_ways_.Took(way, request.bytes, cuda::NowNs() - start);
  if (sent == 0 && !delivery.failed()) {
    delivery.Cancel();
    slots.End(cuda::FenceRef());
  } else {
    const Delivery::Ends ends = delivery.End(whole);
    // Without a fence the slots are lost: nobody can say when they have been read.
    if (ends.read) slots.End(ends.read);
    *fence = ends.delivered;
  }
  if (!whole || delivery.failed()) {
    // S17: the real call, behind whatever was enqueued, writes all of it and has the error that the program gets.
    const Decision no_room = ring_.capacity() == 0 ? WhyNoStaging() : Decision::kH2dDeclinedFull;
    Count(delivery.failed() ? Decision::kH2dDeclinedError : no_room, request.bytes);
    *fence = cuda::FenceRef();
    return false;
  }
  if (busy && lease != 0) Count(Decision::kH2dAhead, request.bytes);
  TakeFingerprint(request.source, request.bytes);
  Count(request.bytes <= kSmallCopyBytes ? Decision::kH2dPromotedSmall : Decision::kH2dPromotedLarge, request.bytes);
  return true;
}

// The mutant of S16: a copy to pageable memory that returns before its bytes are there. Nothing in other builds.
bool Engine::ReturnsEarlyByMutant(const Request& request) {
  if (!Broken(Mutant::kS16) || !Serving() || request.bytes > kSmallCopyBytes) return false;
  if (request.destination == nullptr || cuda::KindOf(driver_, request.destination) != cuda::MemoryKind::kPageable)
    return false;
  if (cuda::KindOf(driver_, request.source) != cuda::MemoryKind::kDevice) return false;
  CUcontext const context = ledger_.context();
  WantStaging(request.bytes);
  SlotLease slots(ring_);
  char* const slot = slots.Take();
  if (slot == nullptr) return false;
  const auto source = reinterpret_cast<CUdeviceptr>(request.source);
  (void)cuda::CopyDtoH(driver_, slot, source, request.bytes, request.stream);
  slots.End(fences_.Record(context, request.stream));
  std::memcpy(request.destination, slot, request.bytes);
  return true;
}

}  // namespace slipstream::transfer
