// Threads that copy between the program's memory and staging memory, together with the thread that asked.
//
// A job is cut into pieces; whoever is free takes the next one that has a place. The caller gives places as it gets
// them, a few in advance, and works too, so a job ends even when no thread could be started. Workers sleep while there
// is nothing to do, take no signals of the program's, and call no CUDA.
//
// To wake a thread costs the one that wakes it 1 to 2 us, and the one that is woken runs 15 us later (measured in a
// virtual machine with an H200; through one condition variable for all of them seven took their caller 45 us, and 127
// one time in ten). So the caller wakes three, each of which wakes three more while there are pieces left, and each
// sleeps by itself; and a caller that waits for the last pieces looks for them for 20 us before it sleeps.
//
// Threading: Run from any thread, several at a time. No lock.
// Hazard: a bad source address faults in whichever thread reads it. Where the program has a handler for that, it has been
// read before (S77). A destination is looked at before it is written (kOut), or was (kFill).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "transfer/host_pages.h"
#include "transfer/streaming_copy.h"

namespace slipstream::transfer {

// What is done with a piece of the program's memory.
enum class PieceWork : uint8_t {
  kIn,     // it is copied to its place
  kOut,    // its place is copied to it, if it may be written
  kFill,   // its place is copied to it; it is known that it may be written
  kTouch,  // its pages are made
};

// How the bytes are written.
enum class Stores : uint8_t {
  kCached,     // whoever wrote them soon reads them
  kStreaming,  // past the caches (streaming_copy.h), where the processor can
};

// One copy: pieces of piece_bytes, one behind the other, of which the first one may be shorter so that the others begin
// where it suits them, and the places that they were given.
class CopyJob {
 public:
  // Pieces that have a place and are not handed over yet, at most.
  static constexpr uint32_t kMostAhead = 256;

  // `ahead`: how many pieces are to have a place in front of the one that is handed over next, 1 to kMostAhead.
  // `first_bytes`: of the first piece, 1 to piece_bytes.
  CopyJob(PieceWork work, Stores stores, char* memory, size_t bytes, size_t piece_bytes, uint32_t ahead,
          size_t first_bytes)
      : work_(work),
        stores_(stores == Stores::kStreaming && CanStream() ? stores : Stores::kCached),
        memory_(memory),
        bytes_(bytes),
        piece_bytes_(piece_bytes),
        missing_(piece_bytes - first_bytes),
        ahead_(std::clamp(ahead, 1u, kMostAhead)) {}
  CopyJob(PieceWork work, Stores stores, char* memory, size_t bytes, size_t piece_bytes, uint32_t ahead)
      : CopyJob(work, stores, memory, bytes, piece_bytes, ahead, piece_bytes) {}
  CopyJob(const CopyJob&) = delete;
  CopyJob& operator=(const CopyJob&) = delete;

  uint32_t pieces() const { return static_cast<uint32_t>((bytes_ + missing_ + piece_bytes_ - 1) / piece_bytes_); }
  size_t OffsetOf(uint32_t piece) const { return piece == 0 ? 0 : piece * piece_bytes_ - missing_; }
  size_t BytesOf(uint32_t piece) const {
    return std::min((piece + 1) * piece_bytes_ - missing_, bytes_) - OffsetOf(piece);
  }
  // Whether some of the program's memory cannot be written. What there is of the pieces is then unknown.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
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
    char* const memory = memory_ + OffsetOf(piece);
    const bool asks = work_ == PieceWork::kOut || work_ == PieceWork::kTouch;
    if (asks && !MakeWritable(memory, bytes)) failed_.store(true, std::memory_order_release);
    const bool out = work_ == PieceWork::kOut || work_ == PieceWork::kFill;
    const bool copies = work_ != PieceWork::kTouch && !failed();
    for (size_t at = 0; copies && at < bytes; at += kStepBytes) {
      char* const place = PlaceOf(piece) + at;
      Write(out ? memory + at : place, out ? place : memory + at, std::min(kStepBytes, bytes - at));
      between();
    }
    copied_[piece % kMostAhead].store(piece + 1, std::memory_order_seq_cst);
    copied_[piece % kMostAhead].notify_one();
    return true;
  }
  void Write(char* to, const char* from, size_t bytes) const {
    if (stores_ == Stores::kStreaming) {
      CopyStreaming(to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  }
  bool TakeNext(uint32_t* piece);
  // Pieces that have a place and that nobody has taken.
  uint32_t Left() const {
    const uint32_t next = next_.load(std::memory_order_relaxed);
    const uint32_t given = given_.load(std::memory_order_seq_cst);
    return given - std::min(next, given);
  }
  // Under its number, because the entry was another piece's before.
  bool Copied(uint32_t piece) const { return copied_[piece % kMostAhead].load(std::memory_order_seq_cst) == piece + 1; }
  void Give(uint32_t piece, char* place) {
    places_[piece % kMostAhead] = place;
    given_.store(piece + 1, std::memory_order_seq_cst);
  }

  // Some ten microseconds.
  static constexpr size_t kStepBytes = size_t{128} << 10;

  const PieceWork work_;
  const Stores stores_;
  char* const memory_;
  const size_t bytes_;
  const size_t piece_bytes_;
  const size_t missing_;  // of the first piece
  const uint32_t ahead_;
  char* places_[kMostAhead];
  std::atomic<uint32_t> given_{0};
  std::atomic<uint32_t> next_{0};
  std::atomic<uint32_t> copied_[kMostAhead] = {};
  std::atomic<bool> failed_{false};
};

class CopyWorkers {
 public:
  static constexpr int kMostThreads = 64;
  // That workers help with at the same time; the callers of others copy alone.
  static constexpr int kMostJobs = 16;

  // Starts `count` threads, kMostThreads at most; as many as the system gives. By one thread at a time.
  void Start(int count);

  // On the calling thread: place(piece, must) says which place a piece has, in order; null ends the job in front of it,
  // and where it need not answer yet (not `must`) kLater is one. Then pieces_are_in(first, end), in order, as soon as
  // they are copied; false ends the job. No thread touches the job or its memory any more when this returns, or a call
  // throws.
  static char* const kLater;
  // `alone`: no worker is woken for it.
  template <typename Place, typename PiecesAreIn>
  void Run(CopyJob& job, bool alone, const Place& place, const PiecesAreIn& pieces_are_in) {
    std::optional<Offer> offer;
    if (job.pieces() > 1 && !alone) offer.emplace(*this, job);
    uint32_t given = 0;
    uint32_t in_order = 0;
    uint32_t end = job.pieces();
    bool wanted = true;
    const auto advance = [&](bool must) {
      const uint32_t first = in_order;
      while (in_order < given && job.Copied(in_order)) ++in_order;
      if (in_order != first && wanted) wanted = pieces_are_in(first, in_order);
      const uint32_t before = given;
      while (wanted && given < end && given - in_order < job.ahead_) {
        char* const memory = place(given, must && given == in_order);
        if (memory == kLater) break;
        if (memory == nullptr) {
          end = given;
        } else {
          job.Give(given++, memory);
        }
      }
      // The caller copies one of the first itself.
      if (given != before && offer) Wake(given - before - (before == 0 ? 1 : 0));
    };
    for (;;) {
      advance(true);
      if (!wanted || in_order == end) break;
      // What others have done is handed over, and more given to them, while this thread copies.
      if (!job.Copied(in_order) && !job.CopyNext([&] { advance(false); })) WaitFor(job, in_order);
    }
  }

  // Workers go through the job's pieces while work() runs on the calling thread; what is not begun then is left.
  template <typename Work>
  void Meanwhile(CopyJob& job, const Work& work) {
    const Offer offer(*this, job);
    const uint32_t pieces = std::min(job.pieces(), CopyJob::kMostAhead);
    for (uint32_t piece = 0; piece < pieces; ++piece) job.Give(piece, nullptr);
    Wake(pieces);
    work();
  }

 private:
  // Where workers find a job.
  struct alignas(64) Seat {
    std::atomic<bool> taken{false};
    std::atomic<CopyJob*> job{nullptr};
    std::atomic<uint32_t> inside{0};  // workers that may have seen it
  };

  // What workers find while it lives, if there is a seat for it.
  class Offer {
   public:
    Offer(CopyWorkers& workers, CopyJob& job);
    ~Offer();
    Offer(const Offer&) = delete;
    Offer& operator=(const Offer&) = delete;

   private:
    CopyJob& job_;
    Seat* seat_ = nullptr;
  };

  struct alignas(64) Worker {
    CopyWorkers* all = nullptr;
    uint64_t bit = 0;
    std::atomic<uint32_t> called{0};
  };

  static void* ThreadMain(void* worker);
  void Work(Worker& self);
  template <typename Visit>
  bool AnyJob(const Visit& visit);

  // So many pieces more have a place.
  void Wake(uint32_t pieces);
  bool WakeOne();
  static void WaitFor(const CopyJob& job, uint32_t piece);

  std::array<Seat, kMostJobs> seats_;
  std::array<Worker, kMostThreads> workers_;
  alignas(64) std::atomic<uint64_t> asleep_{0};  // a bit for each worker
  int threads_ = 0;
};

}  // namespace slipstream::transfer
