// Threads that copy from the program's memory into staging memory, together with the thread that asked.
//
// A job is cut into pieces; whoever is free takes the next one that has a place. The caller gives places as it gets
// them, a few in advance, and works too, so a job ends even when no thread could be started. Workers sleep while there
// is nothing to do, take no signals of the program's, and call no CUDA.
// Threading: Run from any thread, several at a time.
// Hazard: a bad source address faults in whichever thread reads it, as it may in the driver (S21).
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

namespace slipstream::transfer {

// One copy: piece i goes from source + i * piece_bytes to the place that it was given.
class CopyJob {
 public:
  // Pieces that have a place and are not handed over yet, at most.
  static constexpr uint32_t kMostAhead = 256;

  // `ahead`: how many pieces are to have a place in front of the one that is handed over next, 1 to kMostAhead.
  CopyJob(const char* source, size_t bytes, size_t piece_bytes, uint32_t ahead)
      : source_(source), bytes_(bytes), piece_bytes_(piece_bytes), ahead_(std::clamp(ahead, 1u, kMostAhead)) {}
  CopyJob(const CopyJob&) = delete;
  CopyJob& operator=(const CopyJob&) = delete;

  uint32_t pieces() const { return static_cast<uint32_t>((bytes_ + piece_bytes_ - 1) / piece_bytes_); }
  size_t OffsetOf(uint32_t piece) const { return piece * piece_bytes_; }
  size_t BytesOf(uint32_t piece) const { return std::min(piece_bytes_, bytes_ - OffsetOf(piece)); }
  // Of a piece that is not handed over yet.
  char* PlaceOf(uint32_t piece) const { return places_[piece % kMostAhead]; }

 private:
  friend class CopyWorkers;

  // Copies the next piece that nobody has taken, and calls between() after every kStepBytes of it; false: there is none
  // that has a place.
  template <typename Between>
  bool CopyNext(const Between& between) {
    uint32_t piece = 0;
    if (!TakeNext(&piece)) return false;
    const size_t bytes = BytesOf(piece);
    for (size_t at = 0; at < bytes; at += kStepBytes) {
      std::memcpy(PlaceOf(piece) + at, source_ + OffsetOf(piece) + at, std::min(kStepBytes, bytes - at));
      between();
    }
    // Sequentially consistent, as is what WaitFor does: either the caller sees the piece or the worker sees the caller.
    copied_[piece % kMostAhead].store(piece + 1, std::memory_order_seq_cst);
    return true;
  }
  bool TakeNext(uint32_t* piece);
  bool HasNext() const { return next_.load(std::memory_order_relaxed) < given_.load(std::memory_order_seq_cst); }
  // Under its number, because the entry was another piece's before.
  bool Copied(uint32_t piece) const { return copied_[piece % kMostAhead].load(std::memory_order_seq_cst) == piece + 1; }
  void Give(uint32_t piece, char* place) {
    places_[piece % kMostAhead] = place;
    given_.store(piece + 1, std::memory_order_seq_cst);
  }

  // Some ten microseconds.
  static constexpr size_t kStepBytes = size_t{128} << 10;

  const char* const source_;
  const size_t bytes_;
  const size_t piece_bytes_;
  const uint32_t ahead_;
  char* places_[kMostAhead];
  std::atomic<uint32_t> given_{0};
  std::atomic<uint32_t> next_{0};
  std::atomic<uint32_t> copied_[kMostAhead] = {};
  std::atomic<bool> caller_waits_{false};
  uint32_t workers_ = 0;  // inside; under the lock of CopyWorkers
};

class CopyWorkers {
 public:
  // Starts `count` threads; as many as the system gives.
  void Start(int count);

  // On the calling thread: place(piece) says where a piece goes, in order; null ends the job in front of it. Then
  // pieces_are_in(first, end), in order, as soon as they are copied; false ends the job. No thread touches the job or
  // its memory any more when this returns, or a call throws.
  template <typename Place, typename PiecesAreIn>
  void Run(CopyJob& job, const Place& place, const PiecesAreIn& pieces_are_in) {
    std::optional<Offer> offer;
    if (job.pieces() > 1) offer.emplace(*this, job);
    uint32_t given = 0;
    uint32_t end = job.pieces();
    for (uint32_t in_order = 0; in_order < end;) {
      const uint32_t before = given;
      for (; given < end && given - in_order < job.ahead_; ++given) {
        char* const memory = place(given);
        if (memory == nullptr) {
          end = given;
          break;
        }
        job.Give(given, memory);
      }
      // The caller copies one of the first itself.
      if (given != before) Wake(given - before - (before == 0 ? 1 : 0));
      if (in_order == end) break;
      // What others have copied is handed over while this thread copies.
      bool wanted = true;
      const auto hand_over = [&] {
        const uint32_t first = in_order;
        while (in_order < given && job.Copied(in_order)) ++in_order;
        if (in_order != first && wanted) wanted = pieces_are_in(first, in_order);
      };
      if (!job.Copied(in_order) && !job.CopyNext(hand_over)) WaitFor(job, in_order);
      hand_over();
      if (!wanted) break;
    }
  }

 private:
  // What workers find while it lives.
  class Offer {
   public:
    Offer(CopyWorkers& workers, CopyJob& job) : workers_(workers), job_(job) {
      const std::lock_guard lock(workers_.mutex_);
      workers_.jobs_.push_back(&job_);
    }
    ~Offer() { workers_.TakeBack(job_); }
    Offer(const Offer&) = delete;
    Offer& operator=(const Offer&) = delete;

   private:
    CopyWorkers& workers_;
    CopyJob& job_;
  };

  static void* ThreadMain(void* self);
  void Work();
  CopyJob* FindJob();

  // So many pieces more have a place.
  void Wake(uint32_t pieces);
  void WaitFor(CopyJob& job, uint32_t piece);
  void TakeBack(CopyJob& job);
  void CopyPieces(CopyJob& job);

  std::mutex mutex_;
  std::condition_variable offered_;
  std::condition_variable changed_;  // a piece that a caller waits for is in, or a worker left a job
  std::vector<CopyJob*> jobs_;
  std::atomic<uint32_t> asleep_{0};  // workers
  int threads_ = 0;
};

}  // namespace slipstream::transfer
