#include "transfer/copy_workers.h"

#include <algorithm>
#include <bit>

#include "cuda/clock.h"
#include "policy/helper_thread.h"

namespace slipstream::transfer {

namespace {

char g_later;

constexpr uint32_t kWokenByOne = 3;
// For what is about to happen; to sleep and to be woken again takes as long.
constexpr uint64_t kSpinNs = 20'000;

template <typename Happened>
bool LookFor(const Happened& happened) {
  if (happened()) return true;
  const uint64_t start = cuda::NowNs();
  while (cuda::NowNs() - start < kSpinNs) {
    for (int i = 0; i < 8; ++i) {
      if (happened()) return true;
      __builtin_ia32_pause();
    }
  }
  return false;
}

}  // namespace

char* const CopyWorkers::kLater = &g_later;

bool CopyJob::TakeNext(uint32_t* piece) {
  *piece = next_.load(std::memory_order_relaxed);
  do {
    if (*piece >= given_.load(std::memory_order_acquire)) return false;
  } while (!next_.compare_exchange_weak(*piece, *piece + 1, std::memory_order_relaxed));
  return true;
}

void CopyWorkers::Start(int count) {
  for (; threads_ < std::min(count, kMostThreads); ++threads_) {
    Worker& worker = workers_[static_cast<size_t>(threads_)];
    worker.all = this;
    worker.bit = uint64_t{1} << threads_;
    if (!policy::StartHelperThread("slipstream-copy", ThreadMain, &worker)) return;
  }
}

void* CopyWorkers::ThreadMain(void* worker) {
  auto* const self = static_cast<Worker*>(worker);
  self->all->Work(*self);
  return nullptr;
}

CopyWorkers::Offer::Offer(CopyWorkers& workers, CopyJob& job) : job_(job) {
  for (Seat& seat : workers.seats_) {
    if (seat.taken.load(std::memory_order_relaxed) || seat.taken.exchange(true, std::memory_order_acquire)) continue;
    seat_ = &seat;
    seat.job.store(&job, std::memory_order_seq_cst);
    return;
  }
}

CopyWorkers::Offer::~Offer() {
  job_.next_.store(UINT32_MAX, std::memory_order_relaxed);  // where the caller gave up, nobody takes another piece
  if (seat_ == nullptr) return;
  seat_->job.store(nullptr, std::memory_order_seq_cst);
  const auto left = [this] { return seat_->inside.load(std::memory_order_seq_cst) == 0; };
  if (!LookFor(left)) {
    for (uint32_t inside; (inside = seat_->inside.load(std::memory_order_seq_cst)) != 0;) seat_->inside.wait(inside);
  }
  seat_->taken.store(false, std::memory_order_release);
}

// Whether visit() said so of a job; no other is visited then.
template <typename Visit>
bool CopyWorkers::AnyJob(const Visit& visit) {
  return std::any_of(seats_.begin(), seats_.end(), [&visit](Seat& seat) {
    if (seat.job.load(std::memory_order_seq_cst) == nullptr) return false;
    // Said before looking again: the caller takes its job away first, and then waits for those inside.
    seat.inside.fetch_add(1, std::memory_order_seq_cst);
    CopyJob* const job = seat.job.load(std::memory_order_seq_cst);
    const bool found = job != nullptr && visit(*job);
    if (seat.inside.fetch_sub(1, std::memory_order_seq_cst) == 1) seat.inside.notify_one();
    return found;
  });
}

void CopyWorkers::Work(Worker& self) {
  for (;;) {
    const bool helped = AnyJob([this](CopyJob& job) {
      const uint32_t left = job.Left();
      if (left == 0) return false;
      Wake(left - 1);
      while (job.CopyNext([] {})) {
      }
      return true;
    });
    if (helped) continue;
    // Said before looking once more: whoever gives a place after that sees it, and wakes somebody.
    asleep_.fetch_or(self.bit, std::memory_order_seq_cst);
    const bool any = AnyJob([](const CopyJob& job) { return job.Left() != 0; });
    if (any && (asleep_.fetch_and(~self.bit, std::memory_order_seq_cst) & self.bit) != 0) continue;
    self.called.wait(0, std::memory_order_acquire);
    self.called.store(0, std::memory_order_relaxed);
  }
}

bool CopyWorkers::WakeOne() {
  uint64_t asleep = asleep_.load(std::memory_order_seq_cst);
  while (asleep != 0) {
    // The first ones, so that some sleep long and the others' caches are warm.
    const uint64_t bit = asleep & -asleep;
    if (!asleep_.compare_exchange_weak(asleep, asleep & ~bit, std::memory_order_seq_cst)) continue;
    Worker& worker = workers_[static_cast<size_t>(std::countr_zero(bit))];
    worker.called.store(1, std::memory_order_seq_cst);  // before notify_one looks whether anybody waits
    worker.called.notify_one();
    return true;
  }
  return false;
}

void CopyWorkers::Wake(uint32_t pieces) {
  for (uint32_t wanted = std::min(pieces, kWokenByOne); wanted > 0 && WakeOne(); --wanted) {
  }
}

void CopyWorkers::WaitFor(const CopyJob& job, uint32_t piece) {
  if (LookFor([&] { return job.Copied(piece); })) return;
  const std::atomic<uint32_t>& copied = job.copied_[piece % CopyJob::kMostAhead];
  for (uint32_t seen; (seen = copied.load(std::memory_order_seq_cst)) != piece + 1;) copied.wait(seen);
}

}  // namespace slipstream::transfer
