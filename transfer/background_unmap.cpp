#include "transfer/background_unmap.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include "cuda/mutant.h"
#include "policy/system_file.h"
#include "transfer/host_pages.h"
#include "transfer/kept_errno.h"

namespace slipstream::transfer {
namespace {

constexpr const char* kSharedMemory = "/dev/shm";
// The system moves page tables as a whole where source and destination lie alike in such a piece.
constexpr size_t kTableBytes = size_t{2} << 20;
// The address space is locked while pages go: a quarter of a millisecond for so many.
constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr uint64_t kShareOfMemory = 64;
constexpr uint64_t kMostBytes = uint64_t{512} << 20;
// Of what is held, so much must be free beside it in /dev/shm.
constexpr uint64_t kRoomTimes = 4;

cuda::AddressRange PagesOf(const void* address, size_t bytes) {
  return cuda::AddressRange::Of(address, RoundUp(bytes, PageBytes()));
}

}  // namespace

BackgroundUnmap::BackgroundUnmap(uint64_t most_bytes, const Parts& parts) : most_bytes_(most_bytes), parts_(parts) {
  struct stat folder = {};
  struct statfs system = {};
  has_shared_device_ =
      stat(kSharedMemory, &folder) == 0 && statfs(kSharedMemory, &system) == 0 && system.f_type == TMPFS_MAGIC;
  shared_device_ = folder.st_dev;
}

uint64_t BackgroundUnmap::MostBytes() {
  uint64_t memory = UINT64_MAX;
  struct sysinfo info = {};
  if (sysinfo(&info) == 0) memory = uint64_t{info.totalram} * info.mem_unit;
  // A number, or "max" (cgroup v2); of version 1 a number.
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::istringstream limit(policy::ReadSystemFile(file));
    uint64_t bytes = 0;
    if (limit >> bytes) memory = std::min(memory, bytes);
  }
  return std::min(kMostBytes, memory / kShareOfMemory);
}

uint64_t BackgroundUnmap::FreeSharedMemory() {
  struct statfs system = {};
  if (statfs(kSharedMemory, &system) != 0) return 0;
  if (system.f_blocks == 0) return UINT64_MAX;
  return uint64_t{system.f_bavail} * static_cast<uint64_t>(system.f_bsize);
}

void BackgroundUnmap::Mapped(const void* address, size_t bytes, int flags, int fd) noexcept {
  const KeptErrno kept;
  bool candidate = false;
  if ((flags & MAP_TYPE) != MAP_PRIVATE && (flags & MAP_ANONYMOUS) == 0 && has_shared_device_) {
    struct stat file = {};
    candidate = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
                ((file.st_dev == shared_device_ && file.st_nlink == 0) || Broken(Mutant::kU2));
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!Enter(lock) || (!candidate && mapping_count_ == 0)) return;
  const cuda::AddressRange range = PagesOf(address, bytes);
  Forget(range);  // a mapping that went without our seeing it
  if (candidate && mapping_count_ < mappings_.size()) mappings_[mapping_count_++] = range;
}

bool BackgroundUnmap::Enter(const std::unique_lock<std::mutex>& lock) {
  if (!lock) {
    missed_.store(true);
    return false;
  }
  if (missed_.exchange(false)) mapping_count_ = 0;
  return true;
}

bool BackgroundUnmap::Forget(const cuda::AddressRange& range) {
  bool found = false;
  for (size_t i = 0; i < mapping_count_;) {
    if (!mappings_[i].Overlaps(range)) {
      ++i;
      continue;
    }
    found = mappings_[i].begin == range.begin && mappings_[i].end == range.end;
    mappings_[i] = mappings_[--mapping_count_];
  }
  return found;
}

bool BackgroundUnmap::Room(size_t bytes, uint64_t free_bytes) const {
  if (Broken(Mutant::kU3)) return job_count_ + moving_ < jobs_.size();
  const uint64_t held = held_bytes_ + bytes;
  return held <= most_bytes_ && job_count_ + moving_ < jobs_.size() && free_bytes / kRoomTimes >= held;
}

bool BackgroundUnmap::Started() {
  Thread none = Thread::kNone;
  if (thread_.compare_exchange_strong(none, Thread::kStarts)) {
    thread_.store(parts_.start_thread("slipstream-free", ThreadMain, this) ? Thread::kRuns : Thread::kRefused);
  }
  return thread_.load() == Thread::kRuns;
}

// Reserves addresses and moves the mapping there. False: it is where it was; *broken: and will stay there next time
// too.
bool BackgroundUnmap::MoveAway(char* memory, size_t bytes, Job* job, bool* broken) {
  if (!Broken(Mutant::kU4) && madvise(memory, bytes, MADV_DONTFORK) != 0) return false;  // goes with the mapping
  const size_t reserved = bytes + kTableBytes;
  void* const reservation = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reservation == MAP_FAILED) return false;
  char* const begin = static_cast<char*>(reservation);
  const size_t lies = reinterpret_cast<uintptr_t>(memory) % kTableBytes;
  const size_t ahead = (lies + kTableBytes - reinterpret_cast<uintptr_t>(begin) % kTableBytes) % kTableBytes;
  if (mremap(memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, begin + ahead) == MAP_FAILED) {
    // What the mapping would have replaced may be unmapped already, and then be somebody else's: it is left alone.
    if (ahead != 0) munmap(begin, ahead);
    if (ahead != kTableBytes) munmap(begin + ahead + bytes, kTableBytes - ahead);
    *broken = true;
    return false;
  }
  *job = {begin + ahead, bytes, begin, reserved};
  return true;
}

bool BackgroundUnmap::Unmap(void* address, size_t bytes) noexcept {
  const KeptErrno kept;
  const cuda::AddressRange range = PagesOf(address, bytes);
  const size_t length = range.end - range.begin;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!Enter(lock) || mapping_count_ == 0 || !Forget(range) || off_) return false;
  }
  if (parts_.watched()) return false;
  const uint64_t free_bytes = parts_.free_bytes();
  std::unique_lock lock(mutex_);
  if (!Room(length, free_bytes)) {
    lock.unlock();
    parts_.count(Decision::kUnmappedByCaller, length, 0);
    return false;
  }
  held_bytes_ += length;
  ++moving_;
  lock.unlock();

  Job job = {static_cast<char*>(address), length, static_cast<char*>(address), length};
  bool broken = false;
  const bool moved = Started() && (Broken(Mutant::kU1) || MoveAway(static_cast<char*>(address), length, &job, &broken));
  lock.lock();
  --moving_;
  off_ |= broken;
  if (moved) {
    jobs_[(first_job_ + job_count_++) % jobs_.size()] = job;
  } else {
    held_bytes_ -= length;
  }
  lock.unlock();
  if (moved) offered_.notify_one();
  return moved;
}

void* BackgroundUnmap::ThreadMain(void* self) {
  static_cast<BackgroundUnmap*>(self)->Work();
  return nullptr;
}

void BackgroundUnmap::Work() {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  for (;;) {
    offered_.wait(lock, [this] { return job_count_ != 0; });
    const Job job = jobs_[first_job_];
    first_job_ = (first_job_ + 1) % jobs_.size();
    --job_count_;
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    // In pieces: who maps or unmaps meanwhile waits for one of them at the most. Where a piece stays (it is locked in
    // memory), munmap takes it.
    for (size_t at = 0; at < job.bytes; at += kPieceBytes) {
      madvise(job.memory + at, std::min(kPieceBytes, job.bytes - at), MADV_DONTNEED);
    }
    munmap(job.reservation, job.reserved);
    const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin);
    parts_.count(Decision::kUnmapped, job.bytes, static_cast<uint64_t>(time.count()));
    lock.lock();
    held_bytes_ -= job.bytes;
  }
}

}  // namespace slipstream::transfer
