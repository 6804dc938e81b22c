// Copies whose source does not change: out of a mirror in pinned memory (mirrors.h).

#include "transfer/engine.h"
#include "transfer/fingerprint.h"
#include "transfer/pieces.h"

namespace slipstream::transfer {

Engine::Mirrored Engine::SendMirrored(const Request& request, bool busy, cuda::FenceRef* fence) {
  // A device that reads pageable memory may write there too, by means of its own.
  if (!mirrors_.Considers(request.bytes) || ledger_.DeviceReadsPageable()) return Mirrored::kNot;
  const auto copy_in = [this](char* to, const char* from, size_t bytes) {
    CopyJob job(PieceWork::kIn, Stores::kStreaming, const_cast<char*>(from), bytes, PieceBytesOf(bytes),
                kPiecesAhead * static_cast<uint32_t>(threads_));
    workers_.Run(
        job, false, [&](uint32_t piece, bool) { return to + job.OffsetOf(piece); },
        [](uint32_t, uint32_t) { return true; });
  };
  const auto transport = [this] { return ledger_.TransportFound(kTransportLookNs, [] { return false; }); };
  Mirrors::Held mirror =
      mirrors_.Find(request.source, request.bytes, FingerprintOf(request.source, request.bytes), copy_in, transport);
  if (!mirror) {
    if (mirrors_.AnyWanted() && !growth_failed_.load(std::memory_order_relaxed)) AskForGrowth();
    return Mirrored::kNot;
  }
  const CUdeviceptr lease = busy && request.bytes >= policy::kAheadFrom ? TakeDeviceStaging(request) : 0;
  Delivery delivery(driver_, fences_, ToOf(request), device_staging_, lease);
  delivery.Add(0, mirror.memory(), request.bytes);
  const Delivery::Ends ends = delivery.End(!delivery.failed());
  mirrors_.Sent(std::move(mirror), ends.read);
  if (delivery.failed()) {
    // S17: as where a copy out of the ring fails.
    Count(Decision::kH2dDeclinedError, request.bytes);
    return Mirrored::kFailed;
  }
  *fence = ends.delivered;
  if (busy && lease != 0) Count(Decision::kH2dAhead, request.bytes);
  TakeFingerprint(request.source, request.bytes);
  Count(Decision::kH2dMirrored, request.bytes);
  Count(Decision::kH2dPromotedLarge, request.bytes);
  return Mirrored::kSent;
}

}  // namespace slipstream::transfer
