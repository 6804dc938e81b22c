#include "tracer/spool/own_files.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "policy/helper_thread.h"
#include "policy/number.h"
#include "tracer/base/futex.h"

namespace slipstream::tracer {
namespace {

// What getdents64 writes; the C library's dirent need not be the same. Linux, getdents(2).
struct Entry {
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[1];
};

int Opened(const char* path, int flags) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags));
}

// Calls `use` with each name that is a number. 0 or an errno.
template <typename Use>
int ForEachNumber(int directory, const Use& use) {
  alignas(Entry) char bytes[4096];
  for (;;) {
    const long got = syscall(SYS_getdents64, directory, bytes, sizeof(bytes));
    if (got <= 0) return got == 0 ? 0 : errno;
    for (long at = 0; at < got;) {
      const auto* const entry = reinterpret_cast<const Entry*>(bytes + at);
      if (const auto number = policy::NumberIn<uint32_t>(entry->name)) use(*number);
      at += entry->size;
    }
  }
}

// Every descriptor of the calling thread's own table. False: nobody says which there are.
bool CloseAll() {
  const int list = Opened("/proc/thread-self/fd", O_DIRECTORY);
  if (list < 0) return false;
  const int error = ForEachNumber(list, [list](uint32_t fd) {
    if (static_cast<int>(fd) != list) syscall(SYS_close, fd);
  });
  syscall(SYS_close, list);
  return error == 0;
}

}  // namespace

// In one call where that can be: a copy of the table, even for a moment, keeps the program's pipes open. Before Linux
// 5.9, and where a filter forbids it, it does for as long as that takes.
int LeaveDescriptors() {
  if (syscall(SYS_close_range, 0, ~0U, CLOSE_RANGE_UNSHARE) == 0) return 0;
  const int error = errno;
  return syscall(SYS_unshare, CLONE_FILES) == 0 && CloseAll() ? 0 : error;
}

ssize_t ReadFile(const char* path, std::span<char> to) {
  const int file = Opened(path, 0);
  if (file < 0) return -errno;
  ssize_t used = 0;
  while (static_cast<size_t>(used) < to.size()) {
    const long got = syscall(SYS_read, file, to.data() + used, to.size() - static_cast<size_t>(used));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) used = -errno;
    if (got <= 0) break;
    used += got;
  }
  syscall(SYS_close, file);
  return used;
}

OwnFiles::~OwnFiles() {
  if (state_.load(std::memory_order_relaxed) == kGone) return;
  Become(kEnding);
  WaitWhile(kEnding);
}

OwnFiles::Started OwnFiles::Start(int* error) {
  state_.store(kStarting, std::memory_order_relaxed);
  if (!policy::StartHelperThread("slipstream-file", ThreadMain, this)) {
    state_.store(kGone, std::memory_order_relaxed);
    *error = EAGAIN;
    return Started::kNoThread;
  }
  const bool started = WaitWhile(kStarting) == kIdle;
  *error = error_;
  return started ? Started::kYes : Started::kNoDescriptors;
}

int OwnFiles::ListNumbers(const char* path, std::vector<uint32_t>* numbers) {
  return Do([=] {
    const int directory = Opened(path, O_DIRECTORY);
    if (directory < 0) return errno;
    const int error = ForEachNumber(directory, [numbers](uint32_t number) {
      if (numbers->size() < numbers->capacity()) numbers->push_back(number);  // allocates nothing
    });
    syscall(SYS_close, directory);
    return error;
  });
}

void* OwnFiles::ThreadMain(void* self) {
  static_cast<OwnFiles*>(self)->Serve();
  return nullptr;
}

void OwnFiles::Serve() {
  error_ = LeaveDescriptors();
  if (error_ == 0) {
    Become(kIdle);
    while (WaitWhile(kIdle) == kAsked) {
      call_(what_);
      Become(kIdle);
    }
  }
  Become(kGone);
}

void OwnFiles::Ask(void (*call)(void*), void* what) {
  call_ = call;
  what_ = what;
  Become(kAsked);
  WaitWhile(kAsked);
}

// Whoever waits may then end this object: only the word's address is used behind it, and that of memory that is gone
// wakes nobody.
void OwnFiles::Become(State state) {
  std::atomic<uint32_t>& word = state_;
  word.store(state, std::memory_order_release);
  FutexWake(word);
}

OwnFiles::State OwnFiles::WaitWhile(State state) {
  constexpr uint64_t kLongNs = 3'600'000'000'000;
  for (;;) {
    const uint32_t now = state_.load(std::memory_order_acquire);
    if (now != state) return static_cast<State>(now);
    FutexWait(state_, state, kLongNs);
  }
}

}  // namespace slipstream::tracer
