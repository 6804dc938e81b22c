#include "transfer/copy_workers.h"

#include <algorithm>
#include <cstring>

#include "transfer/helper_thread.h"

namespace slipstream::transfer {

bool CopyJob::CopyNext() {
  const uint32_t piece = next_.fetch_add(1, std::memory_order_relaxed);
  if (piece >= pieces()) return false;
  std::memcpy(PlaceOf(piece), source_ + OffsetOf(piece), BytesOf(piece));
  // Sequentially consistent, as is what WaitFor does: either the caller sees the piece or the worker sees the caller.
  copied_[piece].store(1, std::memory_order_seq_cst);
  return true;
}

void CopyWorkers::Start(int count) {
  const std::lock_guard lock(mutex_);
  jobs_.reserve(64);
  while (threads_ < count && StartHelperThread("slipstream-copy", ThreadMain, this)) ++threads_;
}

void* CopyWorkers::ThreadMain(void* self) {
  static_cast<CopyWorkers*>(self)->Work();
  return nullptr;
}

void CopyWorkers::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    offered_.wait(lock, [this] { return !jobs_.empty(); });
    CopyJob& job = *jobs_.front();
    ++job.workers_;
    lock.unlock();
    CopyPieces(job);
    lock.lock();
    std::erase(jobs_, &job);  // nothing left to take in it
    --job.workers_;
    changed_.notify_all();
  }
}

void CopyWorkers::CopyPieces(CopyJob& job) {
  while (job.CopyNext()) {
    if (!job.caller_waits_.load(std::memory_order_seq_cst)) continue;
    { const std::lock_guard lock(mutex_); }  // the caller is in wait() or has yet to look
    changed_.notify_all();
  }
}

void CopyWorkers::Offer(CopyJob& job) {
  const uint32_t pieces = job.pieces();
  if (pieces < 2) return;
  int helpers = 0;
  {
    const std::lock_guard lock(mutex_);
    if (threads_ == 0) return;
    jobs_.push_back(&job);
    helpers = std::min(threads_, static_cast<int>(pieces) - 1);
  }
  for (; helpers > 0; --helpers) offered_.notify_one();
}

void CopyWorkers::WaitFor(CopyJob& job, uint32_t piece) {
  std::unique_lock lock(mutex_);
  job.caller_waits_.store(true, std::memory_order_seq_cst);
  changed_.wait(lock, [&] { return job.copied_[piece].load(std::memory_order_seq_cst) != 0; });
  job.caller_waits_.store(false, std::memory_order_relaxed);
}

void CopyWorkers::TakeBack(CopyJob& job) {
  if (job.pieces() < 2) return;
  job.next_.store(job.pieces(), std::memory_order_relaxed);  // where the caller gave up, nobody takes another piece
  std::unique_lock lock(mutex_);
  std::erase(jobs_, &job);
  changed_.wait(lock, [&job] { return job.workers_ == 0; });
}

}  // namespace slipstream::transfer
