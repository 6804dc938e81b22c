#include "transfer/copy_workers.h"

#include <algorithm>

#include "transfer/helper_thread.h"

namespace slipstream::transfer {

namespace {
char g_later;
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
  const std::lock_guard lock(mutex_);
  jobs_.reserve(64);
  while (threads_ < count && StartHelperThread("slipstream-copy", ThreadMain, this)) ++threads_;
}

void* CopyWorkers::ThreadMain(void* self) {
  static_cast<CopyWorkers*>(self)->Work();
  return nullptr;
}

CopyJob* CopyWorkers::FindJob() {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(), [](const CopyJob* job) { return job->HasNext(); });
  return found != jobs_.end() ? *found : nullptr;
}

void CopyWorkers::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    // Said before looking: whoever gives a place after that sees it, and wakes a worker.
    asleep_.fetch_add(1, std::memory_order_seq_cst);
    CopyJob* job = nullptr;
    offered_.wait(lock, [&] { return (job = FindJob()) != nullptr; });
    asleep_.fetch_sub(1, std::memory_order_seq_cst);
    ++job->workers_;
    lock.unlock();
    CopyPieces(*job);
    lock.lock();
    --job->workers_;
    changed_.notify_all();
  }
}

void CopyWorkers::CopyPieces(CopyJob& job) {
  while (job.CopyNext([] {})) {
    if (!job.caller_waits_.load(std::memory_order_seq_cst)) continue;
    { const std::lock_guard lock(mutex_); }  // the caller is in wait() or has yet to look
    changed_.notify_all();
  }
}

void CopyWorkers::Wake(uint32_t pieces) {
  uint32_t wanted = std::min(pieces, asleep_.load(std::memory_order_seq_cst));
  if (wanted == 0) return;
  { const std::lock_guard lock(mutex_); }  // whoever was about to sleep does
  for (; wanted > 0; --wanted) offered_.notify_one();
}

void CopyWorkers::WaitFor(CopyJob& job, uint32_t piece) {
  std::unique_lock lock(mutex_);
  job.caller_waits_.store(true, std::memory_order_seq_cst);
  changed_.wait(lock, [&] { return job.Copied(piece); });
  job.caller_waits_.store(false, std::memory_order_relaxed);
}

void CopyWorkers::TakeBack(CopyJob& job) {
  job.next_.store(UINT32_MAX, std::memory_order_relaxed);  // where the caller gave up, nobody takes another piece
  std::unique_lock lock(mutex_);
  std::erase(jobs_, &job);
  changed_.wait(lock, [&job] { return job.workers_ == 0; });
}

}  // namespace slipstream::transfer
