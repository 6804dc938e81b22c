// Copies: which are promoted, and how.

#include <algorithm>
#include <cstring>

#include "transfer/engine.h"
#include "transfer/pieces.h"

namespace slipstream::transfer {
namespace {

constexpr Decision kPromote = Decision::kCount;  // no reason not to
constexpr uintptr_t kPageBytes = 4096;           // the smallest there are

}  // namespace

void Engine::BeforeCopyTo(const void* destination) {
  if (State().owed_count == 0 || !Alive()) return;
  if (KindOf(driver_, destination) == MemoryKind::kPageable) Pay(Decision::kPaidCopy);
}

cudaError_t Engine::OtherCopy(RealCopyAsync* real, const Request& request, bool per_thread) {
  if (ReturnsEarlyByMutant(request)) return cudaSuccess;
  BeforeCopyTo(request.destination);
  if (Fetch(request)) return cudaSuccess;
  const cudaError_t result = real(request.destination, request.source, request.bytes, request.kind, request.given);
  if (result == cudaSuccess) {
    Touches({request.destination, request.bytes, request.source, request.bytes}, request.given, per_thread);
  }
  return result;
}

cudaError_t Engine::CopyAsync(RealCopyAsync* real, void* destination, const void* source, size_t bytes,
                              cudaMemcpyKind kind, cudaStream_t stream, bool per_thread) {
  ThreadState& thread = Identified();
  thread.candidate.valid = false;
  const CUstream handle = Explicit(stream, per_thread);
  const Request request = {
      static_cast<char*>(destination), static_cast<const char*>(source), bytes, kind, stream, handle,
      KeyOf(handle, thread.id)};
  const bool possible = considers_to_device_ && (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDefault) &&
                        bytes != 0 && source != nullptr && destination != nullptr && Alive();
  if (!possible) return OtherCopy(real, request, per_thread);

  FenceRef fence;
  Destination where;
  policy::TransferPlan plan;
  cudaError_t result = cudaSuccess;
  bool promoted = false;
  try {
    if (phase() == Phase::kUnstarted) StartIfPossible();
    if (const Decision why_not = WhyNotNow(request, &plan); why_not == kPromote) {
      const RelaxedCapture relaxed(driver_);
      const Decision why_not_this = WhyNotThis(request, &where);
      promoted = why_not_this == kPromote && Promote(real, request, &fence, &result);
      if (why_not_this != kPromote && kind == cudaMemcpyHostToDevice) Count(why_not_this, bytes);
    } else if (kind == cudaMemcpyHostToDevice) {
      Count(why_not, bytes);
    }
  } catch (...) {
    // Whatever was enqueued, the whole copy behind it writes the same bytes.
    TurnOff(Decision::kAsideError);
    promoted = false;
  }
  if (!promoted) return OtherCopy(real, request, per_thread);
  if (result == cudaSuccess && fence) {
    thread.candidate = {true, where.shareable_only, bytes <= kSmallCopyBytes, plan, request.key};
  }
  return result;
}

// What needs no question about the copy's own memory.
Decision Engine::WhyNotNow(const Request& request, policy::TransferPlan* plan) {
  switch (phase()) {
    case Phase::kServing:
      break;
    case Phase::kOff:
      return off_reason_.load(std::memory_order_relaxed);
    default:
      return captures_.live() ? Decision::kAsideCapture : Decision::kAsideStarting;
  }
  if (captures_.live() && !Broken(Mutant::kS05)) return Decision::kAsideCapture;
  if (system_memory_.load(std::memory_order_acquire) && !Broken(Mutant::kS02)) return Decision::kAsideSystemMemory;
  CUcontext context = nullptr;
  if (driver_.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context != context_) return Decision::kAsideContext;
  // The context is ours, and so is the device that a rule may name.
  *plan = PlanFor(policy::Direction::kHostToDevice, request.bytes);
  if (!plan->promote) return plan->promote_by == policy::Decider::kRule ? Decision::kAsideRule : Decision::kAsideOff;
  return SeveralContexts() ? Decision::kAsideContext : kPromote;
}

Decision Engine::WhyNotThis(const Request& request, Destination* destination) {
  const AddressRange source = AddressRange::Of(request.source, request.bytes);
  if (!Broken(Mutant::kS01)) {
    // Memory is pinned by whole pages.
    const char* const last = request.source + request.bytes - 1;
    const bool one_page = source.begin / kPageBytes == (source.end - 1) / kPageBytes;
    const bool pageable = KindOf(driver_, request.source) == MemoryKind::kPageable &&
                          (one_page || KindOf(driver_, last) == MemoryKind::kPageable) && !registered_.Overlap(source);
    if (!pageable) return Decision::kAsideSource;
  } else if (KindOf(driver_, request.source) == MemoryKind::kDevice) {
    return Decision::kAsideSource;
  }
  *destination =
      DestinationAt(driver_, reinterpret_cast<CUdeviceptr>(request.destination), request.bytes, device_, context_);
  if (!destination->plain && !Broken(Mutant::kS06)) return Decision::kAsideDestination;

  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  const bool known = driver_.cuStreamIsCapturing(request.stream, &status) == CUDA_SUCCESS;
  if ((!known || status != CU_STREAM_CAPTURE_STATUS_NONE) && !Broken(Mutant::kS05)) return Decision::kAsideCapture;
  if ((effects_.MayWrite(HostEffectKind::kHostCode, source) && !Broken(Mutant::kS03)) ||
      (effects_.MayWrite(HostEffectKind::kWrite, source) && !Broken(Mutant::kS04))) {
    return Decision::kAsideHostEffect;
  }
  return kPromote;
}

bool Engine::Promote(RealCopyAsync* real, const Request& request, FenceRef* fence, cudaError_t* result) {
  WantStaging(request.bytes);
  return request.bytes <= kSmallCopyBytes ? PromoteSmall(request, fence) : PromoteLarge(real, request, fence, result);
}

// In the caller's stream, so that the destination is written when the program's own copy would have written it (S07).
CUresult Engine::Enqueue(const Request& request, size_t offset, const char* staged, size_t bytes) {
  CUstream stream = request.stream;
  if (Broken(Mutant::kS07)) {
    static CUstream own = nullptr;
    if (own == nullptr) driver_.cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
    stream = own;
  }
  const auto destination = reinterpret_cast<CUdeviceptr>(request.destination + offset);
  const CUresult result = driver_.cuMemcpyHtoDAsync_v2(destination, staged, bytes, stream);
  return Broken(Mutant::kS17) ? CUDA_SUCCESS : result;
}

bool Engine::PromoteSmall(const Request& request, FenceRef* fence) {
  SmallStaging::Place place = small_.Take(request.key, Identified().id, request.bytes);
  while (place.memory == nullptr && small_.ready() && Broken(Mutant::kS08)) {
    const FenceRef oldest = small_.AnyInFlight();
    if (oldest) (void)oldest.Wait();
    place = small_.Take(request.key, Identified().id, request.bytes);
  }
  if (place.memory == nullptr) {
    Count(small_.ready() ? Decision::kAsideFull : Decision::kAsideStarting, request.bytes);
    return false;
  }
  std::memcpy(place.memory, request.source, request.bytes);
  if (Enqueue(request, 0, place.memory, request.bytes) != CUDA_SUCCESS) {
    small_.Cancel(place);
    Count(Decision::kAsideError, request.bytes);
    return false;
  }
  *fence = fences_.Record(context_, request.stream);
  // Without a fence nobody can say when the copy has read its place: it is never used again, and the copy, enqueued as
  // it is, gets no synchronise skipped.
  if (*fence) small_.Commit(place, *fence);
  Count(Decision::kPromotedSmall, request.bytes);
  return true;
}

bool Engine::PromoteLarge(RealCopyAsync* real, const Request& request, FenceRef* fence, cudaError_t* result) {
  const size_t piece_bytes = PieceBytesOf(request.bytes);
  const auto pieces_a_slot = static_cast<uint32_t>(Ring::kSlotBytes / piece_bytes);
  CopyJob job(PieceWork::kIn, const_cast<char*>(request.source), request.bytes, piece_bytes,
              kPiecesAhead * static_cast<uint32_t>(threads_));
  // On a stream with nothing to do a slot is read while the copy still goes on, and can be used again: then all of it
  // goes through a few slots that stay in the processors' caches.
  const bool soon_read = request.bytes > 2 * Ring::kSlotBytes && driver_.cuStreamQuery(request.stream) == CUDA_SUCCESS;
  SlotLease slots(ring_);
  char* slot = nullptr;
  size_t staged = 0;
  bool failed = false;
  const auto place = [&](uint32_t piece, bool) -> char* {
    if (piece % pieces_a_slot == 0) slot = slots.Take();
    return slot != nullptr ? slot + piece % pieces_a_slot * piece_bytes : nullptr;
  };
  // What lies in one slot side by side is one DMA.
  const auto pieces_are_in = [&](uint32_t first, uint32_t end) {
    while (first < end) {
      const uint32_t next = std::min(end, (first / pieces_a_slot + 1) * pieces_a_slot);
      const size_t bytes = job.OffsetOf(next - 1) + job.BytesOf(next - 1) - job.OffsetOf(first);
      failed = Enqueue(request, job.OffsetOf(first), job.PlaceOf(first), bytes) != CUDA_SUCCESS;
      if (failed) return false;
      staged += bytes;
      first = next;
      if (soon_read && first % pieces_a_slot == 0) slots.ReadUpTo(fences_.Record(context_, request.stream));
    }
    return true;
  };
  workers_.Run(job, place, pieces_are_in);
  *fence = staged != 0 ? fences_.Record(context_, request.stream) : FenceRef();
  if (*fence || staged == 0) {
    slots.End(*fence);
  } else {
    failed = true;  // and the slots are lost: nobody can say when they have been read
  }
  if (staged == request.bytes && !failed) {
    Count(Decision::kPromotedLarge, request.bytes);
    return true;
  }
  if (staged == 0 || failed) {
    // S17: the real call, behind what was enqueued, writes the whole again and has the error that the program gets.
    const Decision starting = ring_.capacity() == 0 ? Decision::kAsideStarting : Decision::kAsideFull;
    Count(failed ? Decision::kAsideError : starting, request.bytes);
    *fence = FenceRef();
    return false;
  }
  // The rest by the real call, behind what was staged. It may wait for the stream, as it does without us.
  *result =
      real(request.destination + staged, request.source + staged, request.bytes - staged, request.kind, request.given);
  *fence = *result == cudaSuccess ? fences_.Record(context_, request.stream) : FenceRef();
  Count(Decision::kPromotedPart, staged);
  return true;
}

// The mutant of S16: a copy to pageable memory that returns before its bytes are there. Nothing in other builds.
bool Engine::ReturnsEarlyByMutant(const Request& request) {
  if (!Broken(Mutant::kS16) || !Serving() || !small_.ready() || request.bytes > kSmallCopyBytes) return false;
  if (request.destination == nullptr || KindOf(driver_, request.destination) != MemoryKind::kPageable) return false;
  if (KindOf(driver_, request.source) != MemoryKind::kDevice) return false;
  const SmallStaging::Place place = small_.Take(request.key, Identified().id, request.bytes);
  if (place.memory == nullptr) return false;
  const auto source = reinterpret_cast<CUdeviceptr>(request.source);
  (void)driver_.cuMemcpyDtoHAsync_v2(place.memory, source, request.bytes, request.stream);
  small_.Commit(place, fences_.Record(context_, request.stream));
  std::memcpy(request.destination, place.memory, request.bytes);
  return true;
}

}  // namespace slipstream::transfer
