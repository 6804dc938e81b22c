// What the kernel says of memory that was written, by every door there is; and what it must not be asked about.
#include "policy/write_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace slipstream::policy {
namespace {

using Pages = WriteWatch::Pages;

constexpr size_t kWatched = size_t{4} << 20;
constexpr size_t kHuge = size_t{2} << 20;

WriteWatch& Watch() {
  static WriteWatch watch;
  return watch;
}

class WriteWatchTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (const char* const why_not = Watch().Open()) GTEST_SKIP() << why_not;
    memory_ = Map();
    std::memset(memory_, 1, kWatched);
    pages_ = Pages::Inside(memory_, kWatched);
    ASSERT_TRUE(Watch().Add(pages_));
    EXPECT_EQ(Written(true), kWatched) << "what was never protected counts as written";
    ASSERT_EQ(Written(), 0U);
  }
  void TearDown() override {
    if (memory_ == nullptr) return;
    Watch().Remove(pages_);
    munmap(memory_, kWatched);
  }

  // On huge pages, or not.
  char* Map() const {
    void* const all = mmap(nullptr, kWatched + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(all) + kHuge - 1) / kHuge * kHuge;
    auto* const memory = static_cast<char*>(all) + (begin - reinterpret_cast<uintptr_t>(all));
    madvise(memory, kWatched, GetParam() ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return memory;
  }

  // Bytes of the pages that were written; UINT64_MAX: that is lost.
  size_t Written(bool protect = false) {
    std::vector<Pages> written;
    if (!Watch().Look(pages_, protect, &written)) return SIZE_MAX;
    size_t bytes = 0;
    for (const Pages& some : written) {
      EXPECT_GE(some.begin, pages_.begin);
      EXPECT_LE(some.end, pages_.end);
      bytes += some.bytes();
    }
    return bytes;
  }

  char* memory_ = nullptr;
  Pages pages_;
};

INSTANTIATE_TEST_SUITE_P(, WriteWatchTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "HugePages" : "SmallPages"; });

TEST_P(WriteWatchTest, S80_ByThreads) {
  memory_[12345] = 9;
  EXPECT_EQ(Written(true), 4096U);
  EXPECT_EQ(Written(), 0U);
  std::thread([this] { memory_[99999] = 9; }).join();
  EXPECT_EQ(Written(), 4096U);
  EXPECT_EQ(Written(), 4096U) << "asking alone changes nothing";
  EXPECT_EQ(memory_[99999], 9);
}

TEST_P(WriteWatchTest, S80_ByTheKernel) {
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(pread(file, memory_ + 8192, 4096, 0), 4096);
  close(file);
  EXPECT_EQ(Written(true), 4096U);
  EXPECT_EQ(std::memcmp(memory_ + 8192, "\177ELF", 4), 0);

  char letter = 'x';
  iovec from = {&letter, 1};
  iovec to = {memory_ + 70000, 1};
  ASSERT_EQ(process_vm_writev(getpid(), &from, 1, &to, 1, 0), 1);
  EXPECT_EQ(Written(true), 4096U);

  const int own = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(pwrite(own, &letter, 1, static_cast<off_t>(reinterpret_cast<uintptr_t>(memory_ + 5000))), 1);
  close(own);
  EXPECT_EQ(Written(true), 4096U);
}

TEST_P(WriteWatchTest, S80_ThrownAway) {
  ASSERT_EQ(madvise(memory_, kWatched, MADV_DONTNEED), 0);
  EXPECT_EQ(Written(), kWatched);
  for (size_t at = 0; at < kWatched; at += 4096) EXPECT_EQ(static_cast<volatile char*>(memory_)[at], 0);
  EXPECT_EQ(Written(), kWatched);
}

TEST_P(WriteWatchTest, S80_MappedAnew) {
  ASSERT_EQ(mmap(memory_, kWatched, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), memory_);
  EXPECT_EQ(Written(), SIZE_MAX);
}

TEST_P(WriteWatchTest, S80_AnotherMappingMovedThere) {
  char* const other = Map();
  std::memset(other, 7, kWatched);
  ASSERT_EQ(mremap(other, kWatched, kWatched, MREMAP_MAYMOVE | MREMAP_FIXED, memory_), memory_);
  EXPECT_EQ(Written(), SIZE_MAX);
}

TEST_P(WriteWatchTest, S80_MovedAwayAndBack) {
  char* const other = Map();
  void* const away = mremap(memory_, kWatched, kWatched, MREMAP_MAYMOVE | MREMAP_FIXED, other);
  ASSERT_EQ(away, other);
  other[1] = 5;
  ASSERT_EQ(mremap(other, kWatched, kWatched, MREMAP_MAYMOVE | MREMAP_FIXED, memory_), memory_);
  EXPECT_EQ(Written(), SIZE_MAX);
}

TEST_P(WriteWatchTest, S80_Unmapped) {
  ASSERT_EQ(munmap(memory_, kWatched), 0);
  EXPECT_EQ(Written(), SIZE_MAX);
}

TEST_P(WriteWatchTest, S80_BehindAFork) {
  const pid_t child = fork();
  if (child == 0) {
    std::memset(memory_, 6, kWatched);  // its own copy
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(Written(), 0U);
  const pid_t other = fork();
  if (other == 0) pause();
  memory_[4097] = 8;
  EXPECT_EQ(Written(), 4096U);
  kill(other, SIGKILL);
  ASSERT_EQ(waitpid(other, &status, 0), other);
}

TEST_P(WriteWatchTest, S80_BehindMprotect) {
  mprotect(memory_, kWatched, PROT_READ);
  mprotect(memory_, kWatched, PROT_READ | PROT_WRITE);
  memory_[3] = 4;
  EXPECT_EQ(Written(), 4096U);
}

TEST_P(WriteWatchTest, WhatOnlyReadsIsNotTold) {
  volatile long sum = 0;
  for (size_t at = 0; at < kWatched; at += 64) sum = sum + memory_[at];
  const int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(write(file, memory_, kWatched), static_cast<ssize_t>(kWatched));
  close(file);
  EXPECT_EQ(Written(), 0U);
}

// Every second page: more regions than are asked for at a time.
TEST_P(WriteWatchTest, ManyPagesApart) {
  for (size_t at = 0; at < kWatched; at += 8192) memory_[at] = 2;
  EXPECT_EQ(Written(true), kWatched / 2);
  EXPECT_EQ(Written(), 0U);
}

// To write to a protected page must not take what another thread writes.
TEST_P(WriteWatchTest, S80_NoWriteIsLostBesideProtecting) {
  constexpr size_t kPages = kWatched / 4096;
  std::vector<char> seen(memory_, memory_ + kWatched);
  std::thread writer([this] {
    for (int round = 0; round < 20; ++round) {
      for (size_t page = 0; page < kPages; ++page) memory_[page * 4096 + page % 4096] += 1;
    }
  });
  const auto look = [&] {
    std::vector<Pages> written;
    ASSERT_TRUE(Watch().Look(pages_, true, &written));
    for (const Pages& some : written) {
      const size_t offset = some.begin - pages_.begin;
      for (size_t at = 0; at < some.bytes(); ++at) {
        seen[offset + at] = static_cast<volatile char*>(memory_)[offset + at];
      }
    }
  };
  for (int round = 0; round < 50; ++round) look();
  writer.join();
  look();
  EXPECT_EQ(std::memcmp(seen.data(), memory_, kWatched), 0);
}

// Memory that is not the process's alone is not watched.
TEST(WriteWatchOf, S80_PrivateMemoryWithoutAFileAlone) {
  if (const char* const why_not = Watch().Open()) GTEST_SKIP() << why_not;
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  const auto refused = [](void* memory, size_t bytes) {
    ASSERT_NE(memory, MAP_FAILED);
    EXPECT_FALSE(Watch().Add(Pages::Inside(memory, bytes)));
    munmap(memory, bytes);
  };
  refused(mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 65536);
  refused(mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0), 65536);
  // One that is, up to its last page.
  auto* const memory =
      static_cast<char*>(mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mmap(memory + 61440, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0), memory + 61440);
  refused(memory, 65536);
  close(file);
  // Nor is a part of which nothing is there.
  auto* const hole =
      static_cast<char*>(mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  munmap(hole + 32768, 4096);
  EXPECT_FALSE(Watch().Add(Pages::Inside(hole, 65536)));
  EXPECT_FALSE(Watch().Add(Pages::Inside(hole + 1, 4096))) << "no whole page";
  munmap(hole, 65536);
}

// Its mapping is a file's from then on, which others may write.
TEST(WriteWatchOf, S80_AFileThatIsMappedOverCountsAsLost) {
  if (const char* const why_not = Watch().Open()) GTEST_SKIP() << why_not;
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  auto* const memory =
      static_cast<char*>(mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const Pages pages = Pages::Inside(memory, 65536);
  ASSERT_TRUE(Watch().Add(pages));
  ASSERT_EQ(mmap(memory + 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0), memory + 4096);
  std::vector<Pages> written;
  EXPECT_FALSE(Watch().Look(pages, true, &written));
  close(file);
  munmap(memory, 65536);
}

TEST(WriteWatchOf, S80_WhoCouldHavePagesPinnedIsFound) {
  if (const char* const why_not = Watch().Open()) GTEST_SKIP() << why_not;
  EXPECT_FALSE(Watch().PinsPages());
  io_uring_params params = {};
  const int ring = static_cast<int>(syscall(SYS_io_uring_setup, 4, &params));
  if (ring < 0) GTEST_SKIP() << "no io_uring here";
  EXPECT_TRUE(Watch().PinsPages());
  close(ring);
  EXPECT_FALSE(Watch().PinsPages());
}

TEST(WriteWatchOf, SaysWhyNotBeforeItIsUsed) {
  const char* const why_not = WhyNoWriteWatch();
  WriteWatch watch;
  if (why_not == nullptr) {
    EXPECT_EQ(watch.Open(), nullptr);
  } else {
    EXPECT_STREQ(watch.Open(), why_not);
  }
}

// Those by which write-protection is asked for.
std::vector<int> Descriptors() {
  std::vector<int> numbers;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string name = std::filesystem::read_symlink(entry.path(), error).string();
    if (name == "anon_inode:[userfaultfd]") numbers.push_back(std::stoi(entry.path().filename()));
  }
  return numbers;
}

// A program that closes descriptors which are not its own: everything is lost, and nothing is told wrong. The number
// may be another file's then, which nobody touches.
TEST(WriteWatchOf, S80_ADescriptorThatTheProgramCloses) {
  const std::vector<int> before = Descriptors();
  WriteWatch watch;
  if (const char* const why_not = watch.Open()) GTEST_SKIP() << why_not;
  void* const memory = mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const Pages pages = Pages::Inside(memory, 65536);
  ASSERT_TRUE(watch.Add(pages));
  std::vector<Pages> written;
  ASSERT_TRUE(watch.Look(pages, true, &written));
  int closed = 0;
  for (const int number : Descriptors()) {
    if (std::find(before.begin(), before.end(), number) != before.end()) continue;
    EXPECT_GE(number, 512);
    const int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(dup2(other, number), number);
    close(other);
    ++closed;
  }
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(watch.Open(), nullptr) << "what was opened once stays what is looked for";
  // The program watches the memory itself, and protects it: that says nothing of what was written before.
  const int other = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | 1));
  ASSERT_GE(other, 0);
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = uint64_t{1} << 15 | uint64_t{1} << 13;
  ASSERT_EQ(ioctl(other, UFFDIO_API, &api), 0);
  uffdio_register range = {};
  range.range = {pages.begin, pages.bytes()};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  ASSERT_EQ(ioctl(other, UFFDIO_REGISTER, &range), 0);
  uffdio_writeprotect protect = {};
  protect.range = range.range;
  protect.mode = 1;  // to protect
  ASSERT_EQ(ioctl(other, UFFDIO_WRITEPROTECT, &protect), 0);
  EXPECT_FALSE(watch.Look(pages, false, &written));
  EXPECT_FALSE(watch.Add(pages));
  close(other);
  munmap(memory, 65536);
}

// The C library reads in /proc/self/maps where the main thread's stack ends.
TEST(WriteWatchOf, TheStackIsNotWatched) {
  if (const char* const why_not = Watch().Open()) GTEST_SKIP() << why_not;
  volatile char memory[65536];
  memory[0] = 1;
  EXPECT_FALSE(Watch().Add(Pages::Inside(const_cast<char*>(memory), sizeof(memory))));
}

// Below the number that is out of the program's way there is none.
TEST(WriteWatchOf, FewDescriptorsAreLeftToTheProgram) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit before = limit;
  limit.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const size_t open = Descriptors().size();
  WriteWatch watch;
  EXPECT_NE(watch.Open(), nullptr);
  EXPECT_EQ(Descriptors().size(), open);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace slipstream::policy
