// S80: a copy is sent out of a mirror only if its source has not been written since before the mirror was filled.
// Where the kernel does not say what was written there are none.
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "policy/write_watch.h"
#include "tests/preload/transfer/rule_test.h"
#include "tests/support/plain_build.h"

namespace rules {
namespace {

constexpr size_t kPageBytes = 4096;
// Three copies that are alike, one for which memory is pinned, and the mirror is filled with the fourth.
constexpr int kUntilMirrored = 4;

class Mirror : public Rule {
 protected:
  Mirror() { StartWith("SLIPSTREAM_TRANSFER_MAX_MIRRORED", "64MiB"); }

  void SetUp() override {
    Rule::SetUp();
    if (const char* const why_not = slipstream::policy::WhyNoWriteWatch()) GTEST_SKIP() << why_not;
    memory_ = Map();
    Fill(1);
  }

  static uint8_t* Map() {
    void* const memory = mmap(nullptr, kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    return static_cast<uint8_t*>(memory);
  }
  void Fill(uint32_t seed) {
    const std::vector<uint8_t> bytes = Pattern(kHuge, seed);
    std::copy(bytes.begin(), bytes.end(), memory_);
  }

  // A copy whose bytes must be those that the source has now.
  void CopyRight(const uint8_t* source, size_t bytes) {
    OK(CopyUp(device_, source, bytes, a_));
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(Holds(device_, std::vector<uint8_t>(source, source + bytes)));
  }
  void CopyRight() { CopyRight(memory_, kHuge); }
  // Afterwards the source has a mirror.
  void HaveMirror(const uint8_t* source, size_t bytes) {
    for (int i = 0; i < kUntilMirrored; ++i) CopyRight(source, bytes);
    const Tally tally("transfer");
    CopyRight(source, bytes);
    DECIDED(tally, "h2d.mirrored", 1);
  }
  void HaveMirror() { HaveMirror(memory_, kHuge); }
  uint8_t* memory_ = nullptr;
};

TEST_F(Mirror, S80_FromTheFourthCopyOn) {
  const Tally tally("transfer");
  for (int i = 0; i < 3; ++i) CopyRight();
  DECIDED(tally, "h2d.mirrored", 0);
  for (int i = 0; i < 5; ++i) CopyRight();
  DECIDED(tally, "h2d.mirrored", 5);
  DECIDED(tally, "h2d.promoted.large", 8);
}

TEST_F(Mirror, S80_WhatIsWrittenIsCopied) {
  HaveMirror();
  const Tally tally("transfer");
  for (const size_t at : {size_t{0}, kPageBytes, kHuge / 2 + 17, kHuge - 1}) {
    memory_[at] = static_cast<uint8_t>(memory_[at] + 1);
    CopyRight();
  }
  CopyRight();
  DECIDED(tally, "h2d.mirrored", 5);
}

TEST_F(Mirror, S80_WhateverWritesIt) {
  HaveMirror();
  std::thread([this] { memory_[99999] = static_cast<uint8_t>(memory_[99999] + 1); }).join();
  CopyRight();
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(pread(file, memory_ + 2 * kPageBytes, kPageBytes, 0), static_cast<ssize_t>(kPageBytes));
  close(file);
  CopyRight();
  uint8_t byte = static_cast<uint8_t>(memory_[70000] + 1);
  iovec from = {&byte, 1};
  iovec to = {memory_ + 70000, 1};
  ASSERT_EQ(process_vm_writev(getpid(), &from, 1, &to, 1, 0), 1);
  CopyRight();
  ASSERT_EQ(madvise(memory_ + kHuge / 4, kPageBytes, MADV_DONTNEED), 0);
  CopyRight();
  OK(cudaMemcpyAsync(memory_, device_ + kPageBytes, kLarge, cudaMemcpyDeviceToHost, a_));
  OK(cudaStreamSynchronize(a_));
  CopyRight();
}

TEST_F(Mirror, S80_OtherMemoryAtThatAddress) {
  HaveMirror();
  ASSERT_EQ(mmap(memory_, kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), memory_);
  Fill(2);
  CopyRight();
  HaveMirror();
  // Moved there, with other bytes.
  uint8_t* const other = Map();
  std::memset(other, 3, kHuge);
  ASSERT_EQ(mremap(other, kHuge, kHuge, MREMAP_MAYMOVE | MREMAP_FIXED, memory_), memory_);
  CopyRight();
  // Memory that others may write has no mirror.
  ASSERT_EQ(mmap(memory_, kHuge, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0), memory_);
  Fill(4);
  const Tally tally("transfer");
  for (int i = 0; i < 12; ++i) {
    memory_[kHuge / 2] = static_cast<uint8_t>(i);
    CopyRight();
  }
  DECIDED(tally, "h2d.mirrored", 0);
}

// In front of the first whole page, and behind the last one.
TEST_F(Mirror, S80ends_BytesOfPagesThatAreNotTheSourcesAlone) {
  const size_t begin = kPageBytes - 100;
  const size_t bytes = 2 * kMiB + 200;
  HaveMirror(memory_ + begin, bytes);
  for (const size_t at : {begin, begin + 99, begin + bytes - 1, begin + bytes - 100}) {
    memory_[at] = static_cast<uint8_t>(memory_[at] + 1);
    CopyRight(memory_ + begin, bytes);
  }
  const Tally tally("transfer");
  memory_[begin - 1] = 1;
  memory_[begin + bytes] = 1;
  CopyRight(memory_ + begin, bytes);
  DECIDED(tally, "h2d.mirrored", 1);
}

// A mirror that is on its way to the device is not written.
TEST_F(Mirror, S80pending_ACopyThatHasNotRunYet) {
  HaveMirror();
  const std::vector<uint8_t> before(memory_, memory_ + kHuge);
  for (cudaStream_t const stream : {a_, b_}) {
    Backlog(stream);
    OK(CopyUp(device_, memory_, kHuge, stream));
    memory_[kHuge / 2] = static_cast<uint8_t>(memory_[kHuge / 2] + 1);
    OK(CopyUp(other_, memory_, kHuge, stream));
    OK(cudaDeviceSynchronize());
    std::vector<uint8_t> now(memory_, memory_ + kHuge);
    EXPECT_TRUE(Holds(other_, now));
    now[kHuge / 2] = static_cast<uint8_t>(now[kHuge / 2] - 1);
    EXPECT_TRUE(Holds(device_, now));
  }
}

// Two copies of memory that is partly the same: what one of them was told, the other one is not.
TEST_F(Mirror, S80shared_SourcesThatOverlap) {
  for (int i = 0; i < 8; ++i) {
    CopyRight(memory_, kHuge);
    CopyRight(memory_ + kMiB, 2 * kMiB);
  }
  for (int i = 0; i < 4; ++i) {
    memory_[kMiB + 5000] = static_cast<uint8_t>(memory_[kMiB + 5000] + 1);
    CopyRight(memory_ + kMiB, 2 * kMiB);
    CopyRight(memory_, kHuge);
  }
}

// What is written while the mirror is filled is told the next time. A fifth of the pages is written in front of each
// copy, so that there is something to read, and beside it one of them again.
TEST_F(Mirror, S80late_BytesThatAreWrittenMeanwhile) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the program writes what is being copied, on purpose";
#endif
  HaveMirror();
  std::atomic<int> turn{0};
  std::atomic<bool> copies{false};
  constexpr int kRounds = 100;
  auto* const memory = static_cast<volatile uint8_t*>(memory_);
  const auto last = kHuge / kPageBytes / 5 * 5 - 5;
  std::thread writer([&] {
    for (int round = 1; round <= kRounds; ++round) {
      while (turn.load() != round) std::this_thread::yield();
      for (int i = 0; copies.load(); ++i) {
        memory[(last - static_cast<size_t>(i) * 5 % last) * kPageBytes] = static_cast<uint8_t>(i + round);
      }
      turn.store(-round);
    }
  });
  int wrong = 0;
  for (int round = 1; round <= kRounds; ++round) {
    for (size_t page = 0; page <= last; page += 5) memory[page * kPageBytes] = static_cast<uint8_t>(round);
    copies.store(true);
    turn.store(round);
    OK(CopyUp(device_, memory_, kHuge, a_));
    copies.store(false);
    while (turn.load() != -round) std::this_thread::yield();
    OK(CopyUp(other_, memory_, kHuge, a_));
    OK(cudaDeviceSynchronize());
    if (!Holds(other_, std::vector<uint8_t>(memory_, memory_ + kHuge))) ++wrong;
  }
  writer.join();
  EXPECT_EQ(wrong, 0) << "of " << kRounds;
}

// A source that changes for the most part each time is left alone, and so it costs nothing to write it.
TEST_F(Mirror, S80_ASourceThatChangesEachTime) {
  HaveMirror(memory_, kLarge);
  const Tally tally("transfer");
  for (uint32_t seed = 2; seed < 12; ++seed) {
    Fill(seed);
    CopyRight(memory_, kLarge);
  }
  DECIDED(tally, "h2d.mirrored", 1);
  for (int i = 0; i < 40; ++i) CopyRight(memory_, kLarge);
  DECIDED(tally, "h2d.mirrored", 1);
  for (int i = 0; i < 40; ++i) CopyRight(memory_, kLarge);
  DECIDED_AT_LEAST(tally, "h2d.mirrored", 20);
}

// Work that is still to write the source is waited for by nobody: the copy is the program's own (S04).
TEST_F(Mirror, S80_BehindACopyThatIsStillToWriteIt) {
  HaveMirror();
  OK(cudaMemset(third_, 0x77, kHuge));
  OK(cudaDeviceSynchronize());
  OK(cudaHostRegister(memory_, kHuge, cudaHostRegisterDefault));
  Backlog(a_);
  OK(cudaMemcpyAsync(memory_, third_, kHuge, cudaMemcpyDeviceToHost, a_));
  OK(CopyUp(device_, memory_, kHuge, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(HoldsOnly(device_, 0x77, kHuge));
  OK(cudaHostUnregister(memory_));
  CopyRight();
  memory_[4711] = 1;
  CopyRight();
}

// The order of the stream, and one operation there, as of any other copy (S07, S62); also where that is busy.
TEST_F(Mirror, S80_InTheOrderOfTheStream) {
  HaveMirror();
  const Tally tally("transfer");
  for (int i = 0; i < 3; ++i) {
    Backlog(a_);
    OK(LaunchFill(device_, kHuge, 0x42, a_));
    OK(CopyUp(device_, memory_, kHuge, a_));
    OK(LaunchMove(other_, device_, kHuge, a_));
    OK(LaunchFill(device_, kHuge, 0x43, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_TRUE(Holds(other_, std::vector<uint8_t>(memory_, memory_ + kHuge)));
    EXPECT_TRUE(HoldsOnly(device_, 0x43, kHuge));
  }
  DECIDED(tally, "h2d.mirrored", 3);
  DECIDED(tally, "h2d.ahead", 3);
}

// Who has pages pinned may write to them by the page.
TEST_F(Mirror, S80_BesideAnIoUringThereAreNone) {
  io_uring_params params = {};
  const int ring = static_cast<int>(syscall(SYS_io_uring_setup, 4, &params));
  if (ring < 0) GTEST_SKIP() << "no io_uring here";
  const Tally tally("transfer");
  for (int i = 0; i < 12; ++i) CopyRight();
  DECIDED(tally, "h2d.mirrored", 0);
  close(ring);
}

// What the process may map is the program's.
TEST_F(Mirror, S80_WhereMappingsAreLimitedThereAreNone) {
  NEEDS_NO_SANITIZER("a sanitizer maps more than any limit");
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &limit), 0);
  limit.rlim_cur = size_t{1} << 40;
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
  const Tally tally("transfer");
  for (int i = 0; i < 12; ++i) CopyRight();
  DECIDED(tally, "h2d.mirrored", 0);
}

// One that comes later: nothing is read again.
TEST_F(Mirror, S80_BesideAnIoUringNoneIsFilledAgain) {
  HaveMirror();
  io_uring_params params = {};
  const int ring = static_cast<int>(syscall(SYS_io_uring_setup, 4, &params));
  if (ring < 0) GTEST_SKIP() << "no io_uring here";
  const Tally tally("transfer");
  CopyRight();
  DECIDED(tally, "h2d.mirrored", 1);
  for (int i = 0; i < 12; ++i) {
    memory_[kHuge / 2] = static_cast<uint8_t>(i);
    CopyRight();
  }
  DECIDED(tally, "h2d.mirrored", 1);
  close(ring);
}

// The memory that is pinned in all is bounded; what has not been used since goes to another source.
TEST_F(Mirror, S80_NoMoreThanThePolicySays) {
  constexpr size_t kSources = 40;
  std::vector<uint8_t*> sources;
  for (size_t i = 0; i < kSources; ++i) {
    sources.push_back(Map());
    const std::vector<uint8_t> bytes = Pattern(kLarge, static_cast<uint32_t>(100 + i));
    std::copy(bytes.begin(), bytes.end(), sources.back());
  }
  for (int i = 0; i < 6; ++i) {
    for (const uint8_t* const source : sources) CopyRight(source, kLarge);
  }
  const Tally first("transfer");
  for (const uint8_t* const source : sources) CopyRight(source, kLarge);
  DECIDED(first, "h2d.mirrored", 32);
  for (int i = 0; i < 20; ++i) CopyRight(sources.back(), kLarge);
  const Tally second("transfer");
  CopyRight(sources.back(), kLarge);
  DECIDED(second, "h2d.mirrored", 1);
}

// S36: it is given back where the program can pin no more.
TEST_F(Mirror, S80_GivenBackForPinnedMemory) {
  HaveMirror();
  Backlog(a_);
  OK(CopyUp(other_, memory_, kHuge, a_));
  const size_t limit = 48 * kMiB;
  OK(simSetPinnedMemory(limit));
  const Tally tally("transfer");
  void* wanted = nullptr;
  OK(cudaHostAlloc(&wanted, limit - 2 * kMiB, cudaHostAllocDefault));
  DECIDED(tally, "unpinned", 1);
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(other_, std::vector<uint8_t>(memory_, memory_ + kHuge)));
  memory_[0] = static_cast<uint8_t>(memory_[0] + 1);
  for (int i = 0; i < 6; ++i) CopyRight();
  DECIDED(tally, "h2d.mirrored", 0);
}

// A mirror for which nothing can be pinned is no reason to have no more staging memory.
TEST_F(Mirror, S80_WhereNoneCanBePinnedStagingGoesOn) {
  CopyRight();
  OK(simSetPinnedMemory(34 * kMiB));  // as much as there is
  const Tally without("transfer");
  for (int i = 0; i < 8; ++i) CopyRight();
  DECIDED(without, "h2d.mirrored", 0);
  DECIDED(without, "h2d.promoted.large", 8);

  OK(simSetPinnedMemory(SIZE_MAX));
  constexpr size_t kLong = 80 * kMiB;  // there is less than that of the device's yet
  uint8_t* device = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&device), kLong));
  const std::vector<uint8_t> source = Pattern(kLong, 5);
  const Tally tally("transfer");
  OK(CopyUp(device, source.data(), kLong, a_));
  OK(CopyUp(device, source.data(), kLong, a_));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(device, source));
  DECIDED_AT_LEAST(tally, "h2d.promoted.large", 1);
}

// Several threads, of the same source and of others.
TEST_F(Mirror, S80_Threads) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  const std::vector<uint8_t> shared(memory_, memory_ + kHuge);
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      uint8_t* device = nullptr;
      cudaStream_t stream = nullptr;
      if (cudaMalloc(reinterpret_cast<void**>(&device), kHuge) != cudaSuccess) ++wrong;
      if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) ++wrong;
      uint8_t* const own = Map();
      std::memset(own, number + 1, kHuge);
      std::vector<uint8_t> back(kHuge);
      for (int i = 0; i < 20; ++i) {
        own[static_cast<size_t>(i) * 7 * kPageBytes % kHuge] = static_cast<uint8_t>(i);
        const uint8_t* const source = i % 2 == 0 ? own : memory_;
        if (cudaMemcpyAsync(device, source, kHuge, cudaMemcpyHostToDevice, stream) != cudaSuccess) ++wrong;
        if (cudaMemcpyAsync(back.data(), device, kHuge, cudaMemcpyDeviceToHost, stream) != cudaSuccess) ++wrong;
        if (cudaStreamSynchronize(stream) != cudaSuccess) ++wrong;
        if (std::memcmp(back.data(), source, kHuge) != 0) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(std::memcmp(memory_, shared.data(), kHuge), 0);
}

}  // namespace
}  // namespace rules
