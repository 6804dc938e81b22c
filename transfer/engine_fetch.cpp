// Copies to the host: from the device into staging memory in the caller's stream order, and from there by several
// threads. They are complete when the call returns, as without the engine (S16).

#include <algorithm>
#include <vector>

#include "cuda/clock.h"
#include "cuda/own_work.h"
#include "transfer/engine.h"
#include "transfer/host_pages.h"
#include "transfer/pieces.h"

namespace slipstream::transfer {
namespace {

constexpr Decision kFetch = Decision::kCount;  // no reason not to
static_assert(kHugePageBytes == Ring::kSlotBytes);

// From `memory` to the next huge page.
size_t FirstPiece(const char* memory) { return kHugePageBytes - reinterpret_cast<uintptr_t>(memory) % kHugePageBytes; }

}  // namespace

// Whether the copy was made. What is deferred was settled.
bool Engine::Fetch(Request& request, Stopwatch* watch) {
  const bool possible = (request.kind == cudaMemcpyDeviceToHost || request.kind == cudaMemcpyDefault) &&
                        request.bytes != 0 && request.source != nullptr && request.destination != nullptr;
  if (!considers_to_host_ || !possible || !Alive()) return false;
  if (request.bytes <= kSmallCopyBytes) {
    if (Serving() && request.kind == cudaMemcpyDeviceToHost) Count(Decision::kD2hDeclinedSmall, request.bytes);
    return false;
  }
  if (LeavesPinned(request.destination)) {
    if (request.kind == cudaMemcpyDeviceToHost) Count(Decision::kD2hDeclinedMemory, request.bytes);
    return false;
  }
  try {
    if (ledger_.Unbegun()) ledger_.BeginIfPossible();
    if (!Serving()) return false;
    const cuda::RelaxedCapture relaxed(driver_);
    Decision decision = WhyNotFetch(request);
    if (decision == kFetch) {
      PathChooser& ways = HasPages(request.destination, request.bytes) ? filled_fetch_ways_ : fresh_fetch_ways_;
      // What a copy takes says something about its way if the device has nothing else to do first.
      const bool idle = driver_.cuStreamQuery(request.stream) == CUDA_SUCCESS;
      const uint64_t start = cuda::NowNs();
      if (ways.Choose(request.bytes, idle) == 1) {
        decision = Decision::kD2hDeclinedSlower;
        if (idle) *watch = {&ways, start};
      } else {
        decision = FetchStaged(request, idle);
        if (idle && decision == Decision::kD2hPromoted) ways.Took(0, request.bytes, cuda::NowNs() - start);
      }
    }
    const bool fetched = decision == Decision::kD2hPromoted;
    if (fetched || request.kind == cudaMemcpyDeviceToHost) Count(decision, request.bytes);
    return fetched;
  } catch (...) {
    // The real call, behind whatever was enqueued, writes all of the destination.
    TurnOff(Decision::kH2dDeclinedError);
    return false;
  }
}

Decision Engine::WhyNotFetch(Request& request) {
  if (captures_.live()) return Decision::kD2hDeclinedCapture;
  if (!ledger_.ServesCurrent(&request.in)) return Decision::kD2hDeclinedContext;
  if (const policy::TransferPlan plan = PlanFor(policy::Direction::kDeviceToHost, request); !plan.promote) {
    if (plan.promote_by == policy::Decider::kStagingKey) return Decision::kD2hDeclinedDevice;
    return plan.promote_by == policy::Decider::kRule ? Decision::kD2hDeclinedRule : Decision::kD2hDeclinedOff;
  }
  if (!CanMakeWritable()) return Decision::kD2hDeclinedKernel;
  const bool pageable = ledger_.KindOfOrPinned(request.destination) == cuda::MemoryKind::kPageable &&
                        cuda::KindOf(driver_, request.destination + request.bytes - 1) == cuda::MemoryKind::kPageable &&
                        !ledger_.Registered(cuda::AddressRange::Of(request.destination, request.bytes));
  if (!pageable) return Decision::kD2hDeclinedMemory;
  const cuda::Destination source = cuda::DestinationAt(driver_, reinterpret_cast<CUdeviceptr>(request.source),
                                                       request.bytes, request.in.device, request.in.context);
  if (!source.plain) return Decision::kD2hDeclinedMemory;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  const bool known = driver_.cuStreamIsCapturing(request.stream, &status) == CUDA_SUCCESS;
  return known && status == CU_STREAM_CAPTURE_STATUS_NONE ? kFetch : Decision::kD2hDeclinedCapture;
}

// A copy that is longer than one DMA is taken as it is in its turn, into device memory of its own, and travels from
// there: what others enqueue on the caller's stream meanwhile comes behind all of it (S62). The first pieces travel on
// that stream too, right behind. By the time that a place is used again the first of them have arrived, so the others
// need not wait for the caller's stream, nor for what others have enqueued there since: they go on a stream of the
// engine's own, on which nothing waits for anybody.
Decision Engine::FetchStaged(const Request& request, bool idle) {
  // What is to be compared is kept until then.
  const bool wants_lease = request.bytes > policy::kOneDmaBytes || policy_.verify;
  DeviceLease lease(device_staging_, wants_lease ? TakeDeviceStaging(request) : 0);
  const bool one_dma = request.bytes <= policy::kOneDmaBytes && lease.memory() == 0;
  if (lease.memory() == 0 && !one_dma) {
    return WhyNoLease(request) == Decision::kH2dDeclinedDevice ? Decision::kD2hDeclinedDevice
                                                               : Decision::kD2hDeclinedStaging;
  }
  // A few slots do: each is free again when it was copied out.
  WantStaging(std::min(request.bytes, static_cast<size_t>(threads_) * Ring::kSlotBytes));
  // Of memory that may get huge pages each piece is one: two threads that make the same page would both fill it.
  const size_t piece_bytes = policy::FetchedPieceBytesOf(request.bytes);
  const bool huge = piece_bytes == kHugePageBytes;
  const auto pieces_a_slot = static_cast<uint32_t>(Ring::kSlotBytes / piece_bytes);
  const uint32_t ahead = kPiecesAhead * static_cast<uint32_t>(threads_);
  SlotLease places(ring_);
  std::vector<char*> slots;
  const size_t useful = one_dma ? 1 : std::min<size_t>(request.bytes / piece_bytes + 2, huge ? ahead : 2 * ahead);
  while (slots.size() * pieces_a_slot < useful) {
    char* const slot = places.Take();
    if (slot == nullptr) break;
    slots.push_back(slot);
  }
  if (slots.empty()) {
    lease.Cancel();
    return Decision::kD2hDeclinedStaging;
  }

  const auto window = static_cast<uint32_t>(slots.size()) * pieces_a_slot;
  // Where pages are huge their making is what takes the time.
  const bool known = huge && IsWritableMemory(request.destination, request.bytes);
  // No thread gets a piece that is not on its way yet: its place still has another one's bytes. The program reads its
  // memory soon, and streaming into pages that exist gained nothing (64 MiB: 1.54 ms and 1.56).
  CopyJob job(known ? PieceWork::kFill : PieceWork::kOut, Stores::kCached, request.destination, request.bytes,
              piece_bytes, std::min(ahead, window), huge ? FirstPiece(request.destination) : piece_bytes);
  const auto place_of = [&](uint32_t piece) {
    return slots[piece / pieces_a_slot % slots.size()] + piece % pieces_a_slot * piece_bytes;
  };
  std::vector<cuda::FenceRef> arrived(window);
  bool failed = false;

  const auto source = reinterpret_cast<CUdeviceptr>(request.source);
  const bool snapshot = !one_dma && !Broken(Mutant::kS62);
  const CUdeviceptr from = snapshot ? lease.memory() : source;
  if (snapshot) {
    failed = cuda::CopyDtoD(driver_, from, source, request.bytes, request.stream) != CUDA_SUCCESS;
  }
  uint32_t enqueued = 0;
  uint32_t copied_out = 0;
  // A place is used again when the piece that was there has been copied out.
  const auto enqueue = [&] {
    const uint32_t end = std::min(job.pieces(), copied_out + (Broken(Mutant::kS08Early) ? 2 * window : window));
    while (enqueued < end && !failed) {
      const uint32_t first = enqueued;
      const uint32_t next = one_dma ? job.pieces() : first + 1;
      const size_t bytes = job.OffsetOf(next - 1) + job.BytesOf(next - 1) - job.OffsetOf(first);
      CUstream const stream = snapshot && first >= window ? device_staging_.fetch_stream() : request.stream;
      failed = cuda::CopyDtoH(driver_, place_of(first), from + job.OffsetOf(first), bytes, stream) != CUDA_SUCCESS;
      const cuda::FenceRef fence = failed ? cuda::FenceRef() : fences_.Record(request.in.context, stream);
      failed = failed || !fence;
      for (; enqueued < next && !failed; ++enqueued) arrived[enqueued % window] = fence;
    }
  };
  const auto place = [&](uint32_t piece, bool must) -> char* {
    const cuda::FenceRef& fence = arrived[piece % window];
    if (failed || job.failed()) return nullptr;
    if (piece >= enqueued) return must ? nullptr : CopyWorkers::kLater;
    if (Broken(Mutant::kS16) || fence.Done()) return place_of(piece);
    if (!must) return CopyWorkers::kLater;
    failed = fence.Wait() != CUDA_SUCCESS;
    return failed ? nullptr : place_of(piece);
  };
  const auto pieces_are_out = [&](uint32_t, uint32_t end) {
    copied_out = end;
    enqueue();
    return !failed && !job.failed();
  };

  enqueue();
  AskForHugePages(request.destination, request.bytes);
  if (!failed && !idle && !arrived[0].Done()) {
    // The device is at something else: pages are made meanwhile.
    CopyJob touch(PieceWork::kTouch, Stores::kCached, request.destination, request.bytes, kHugePageBytes, 1,
                  FirstPiece(request.destination));
    workers_.Meanwhile(touch, [&] { failed = !Broken(Mutant::kS16) && arrived[0].Wait() != CUDA_SUCCESS; });
    failed = failed || touch.failed();
  }
  if (!failed) workers_.Run(job, false, place, pieces_are_out);
  if (!failed && !job.failed() && copied_out == job.pieces()) {
    const bool right = !policy_.verify || one_dma || ArrivedRight(request, lease.memory(), slots[0]);
    if (policy_.verify && one_dma) Count(Decision::kUnverified, request.bytes);
    if (right) {
      lease.End(arrived[(job.pieces() - 1) % window]);
      places.End(cuda::FenceRef());
      return Decision::kD2hPromoted;
    }
  }
  // The real call has the error that the program gets, or writes all of it. What is on the engine's own stream waits
  // for nobody, and is waited for. Where no fence can be had the slots are lost: nobody can say when they have been
  // written.
  cuda::FenceRef last;
  const bool own_stream = lease.memory() != 0 && (enqueued >= window || policy_.verify);
  const cuda::FenceRef own =
      own_stream ? fences_.Record(request.in.context, device_staging_.fetch_stream()) : cuda::FenceRef();
  if (!own_stream || (own && own.Wait() == CUDA_SUCCESS)) last = fences_.Record(request.in.context, request.stream);
  if (last) places.End(last);
  lease.End(last);
  return Decision::kD2hDeclinedError;
}

}  // namespace slipstream::transfer
