// Threads that copy from the program's memory into staging memory, together with the thread that asked.
//
// A job is cut into pieces; whoever is free takes the next one. The caller works too, so a job ends even when no thread
// could be started. Workers sleep while there is nothing to do, take no signals of the program's, and call no CUDA.
// Threading: Run from any thread, several at a time.
// Hazard: a bad source address faults in whichever thread reads it, as it may in the driver (S21).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace slipstream::transfer {

// One copy, or the part of it that fits into the slots: piece i goes from source + i * piece_bytes to its place there.
class CopyJob {
 public:
  static constexpr size_t kMaxPieces = 256;

  // `slots` of `slot_bytes` each, a multiple of `piece_bytes`, hold `bytes` together.
  CopyJob(const char* source, size_t bytes, size_t piece_bytes, char* const* slots, size_t slot_bytes)
      : source_(source), bytes_(bytes), piece_bytes_(piece_bytes), slots_(slots), slot_bytes_(slot_bytes) {}

  uint32_t pieces() const { return static_cast<uint32_t>((bytes_ + piece_bytes_ - 1) / piece_bytes_); }
  size_t OffsetOf(uint32_t piece) const { return piece * piece_bytes_; }
  size_t BytesOf(uint32_t piece) const {
    const size_t offset = OffsetOf(piece);
    return offset + piece_bytes_ <= bytes_ ? piece_bytes_ : bytes_ - offset;
  }
  char* PlaceOf(uint32_t piece) const {
    const size_t offset = OffsetOf(piece);
    return slots_[offset / slot_bytes_] + offset % slot_bytes_;
  }

 private:
  friend class CopyWorkers;

  // Copies the next piece that nobody has taken; false when there is none.
  bool CopyNext();

  const char* const source_;
  const size_t bytes_;
  const size_t piece_bytes_;
  char* const* const slots_;
  const size_t slot_bytes_;
  std::atomic<uint32_t> next_{0};
  std::atomic<uint8_t> copied_[kMaxPieces] = {};
  std::atomic<bool> caller_waits_{false};
  uint32_t workers_ = 0;  // inside; under the lock of CopyWorkers
};

class CopyWorkers {
 public:
  // Starts `count` threads; as many as the system gives.
  void Start(int count);

  // Calls piece_is_in(piece) on the calling thread for every piece in order, as soon as it is copied, until one call
  // returns false. No thread touches the job or its memory any more when this returns.
  template <typename PieceIsIn>
  void Run(CopyJob& job, const PieceIsIn& piece_is_in) {
    Offer(job);
    const uint32_t pieces = job.pieces();
    bool wanted = true;
    for (uint32_t in_order = 0; wanted && in_order < pieces;) {
      if (!job.CopyNext() && job.copied_[in_order].load(std::memory_order_acquire) == 0) WaitFor(job, in_order);
      while (wanted && in_order < pieces && job.copied_[in_order].load(std::memory_order_acquire) != 0) {
        wanted = piece_is_in(in_order++);
      }
    }
    TakeBack(job);
  }

 private:
  static void* ThreadMain(void* self);
  void Work();

  void Offer(CopyJob& job);
  void WaitFor(CopyJob& job, uint32_t piece);
  void TakeBack(CopyJob& job);
  void CopyPieces(CopyJob& job);

  std::mutex mutex_;
  std::condition_variable offered_;
  std::condition_variable changed_;  // a piece that a caller waits for is in, or a worker left a job
  std::vector<CopyJob*> jobs_;
  int threads_ = 0;
};

}  // namespace slipstream::transfer
