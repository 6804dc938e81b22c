// S01: what may be read early is unregistered pageable memory only. S18: copies of other shapes. S19, S20, S21: odd
// kinds, sizes, pointers, sources.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

constexpr size_t kPage = 4096;
const size_t kSourceSizes[] = {1, 7, kSmall, 65535, 65536, 65537, kLarge, kLarge + 13, (size_t{3} << 20) + 5};
constexpr uint64_t kSmallSizes = 5;  // of those, up to 64 KiB

// Pages at whose end nothing can be read, freed with the test.
class Pages {
 public:
  Pages(size_t bytes, int flags, int file) : bytes_((bytes + kPage - 1) / kPage * kPage) {
    begin_ = static_cast<uint8_t*>(
        mmap(nullptr, bytes_ + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    void* const memory = mmap(begin_, bytes_, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0);
    EXPECT_EQ(memory, begin_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { munmap(begin_, bytes_ + kPage); }

  // `bytes` of them, of which the last one is the last readable one.
  uint8_t* Last(size_t bytes) const { return begin_ + bytes_ - bytes; }
  void MakeReadOnly() const { EXPECT_EQ(mprotect(begin_, bytes_, PROT_READ), 0); }
  void Unmap() const {
    EXPECT_NE(mmap(begin_, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), MAP_FAILED);
  }

 private:
  size_t bytes_;
  uint8_t* begin_ = nullptr;
};

TEST_F(Rule, S01_C16_APageableSourceIsFreeAtReturn) {
  const Tally tally("transfer");
  for (const size_t bytes : kSourceSizes) {
    SCOPED_TRACE(bytes);
    const auto pattern = Pattern(bytes, static_cast<uint32_t>(bytes));
    std::memcpy(source_.data() + 1, pattern.data(), bytes);
    Backlog(a_, 4);
    OK(CopyUp(device_ + 3, source_.data() + 1, bytes, a_));
    std::memset(source_.data(), 0, source_.size());
    OK(cudaStreamSynchronize(a_));
    std::vector<uint8_t> back(bytes);
    OK(cudaMemcpy(back.data(), device_ + 3, bytes, cudaMemcpyDeviceToHost));
    EXPECT_EQ(back, pattern);
  }
  DECIDED(tally, "h2d.promoted.small", kSmallSizes);
  DECIDED(tally, "h2d.promoted.large", std::size(kSourceSizes) - kSmallSizes);
}

// A kernel writes the pinned source, and the copy behind it in the same stream must read what it wrote.
TEST_F(Rule, S01_C16_APinnedSourceIsReadInStreamOrder) {
  const Tally tally("transfer");
  for (const size_t bytes : {kSmall, kLarge}) {
    std::memset(pinned_, 1, kLarge);
    Backlog(a_);
    OK(LaunchFill(pinned_, bytes, 7, a_));
    OK(CopyUp(device_, pinned_, bytes, a_));
    OK(cudaStreamSynchronize(a_));
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(HoldsOnly(device_, 7, bytes));
  }
  DECIDED(tally, "h2d.declined.source", 2);
  NEVER_DECIDED(tally, "h2d.promoted");
}

TEST_F(Rule, S01_ARegisteredSourceIsReadInStreamOrder) {
  const Tally tally("transfer");
  OK(cudaHostRegister(source_.data(), kLarge, 0));
  for (const size_t bytes : {kSmall, kLarge}) {
    std::memset(source_.data(), 1, kLarge);
    Backlog(a_);
    OK(LaunchFill(source_.data(), bytes, 7, a_));
    OK(CopyUp(device_, source_.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(HoldsOnly(device_, 7, bytes));
  }
  OK(cudaHostUnregister(source_.data()));
  NEVER_DECIDED(tally, "h2d.promoted");
}

TEST_F(Rule, S01_AManagedSourceIsReadInStreamOrder) {
  const Tally tally("transfer");
  uint8_t* managed = nullptr;
  OK(cudaMallocManaged(reinterpret_cast<void**>(&managed), kSmall));
  Backlog(a_);
  OK(LaunchFill(managed, kSmall, 7, a_));
  OK(cudaMemcpyAsync(device_, managed, kSmall, cudaMemcpyDefault, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(HoldsOnly(device_, 7, kSmall));
  NEVER_DECIDED(tally, "h2d.promoted");
}

TEST_F(Rule, S01_WhatWasUnregisteredIsPageableAgain) {
  OK(cudaHostRegister(source_.data(), kLarge, 0));
  OK(cudaHostUnregister(source_.data()));
  const Tally tally("transfer");
  source_ = Pattern(kHuge, 1);
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  OK(CopyUp(other_, source_.data(), kLarge, a_));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(device_, source_, kSmall));
  EXPECT_TRUE(Holds(other_, source_, kLarge));
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "h2d.promoted.large", 1);
}

// ---- S19: the default kind is resolved by the pointers.
TEST_F(Rule, S19_TheDefaultKindFindsItsDirection) {
  const Tally tally("transfer");
  source_ = Pattern(kHuge, 2);
  OK(cudaMemcpyAsync(device_, source_.data(), kSmall, cudaMemcpyDefault, a_));
  OK(cudaStreamSynchronize(a_));
  DECIDED(tally, "h2d.promoted.small", 1);
  OK(cudaMemcpyAsync(other_, device_, kSmall, cudaMemcpyDefault, a_));
  OK(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDefault, a_));
  OK(cudaMemcpyAsync(third_, pinned_, kSmall, cudaMemcpyDefault, a_));
  std::vector<uint8_t> back(kSmall);
  OK(cudaMemcpyAsync(back.data(), third_, kSmall, cudaMemcpyDefault, a_));
  EXPECT_TRUE(Holds(third_, source_, kSmall));
  EXPECT_EQ(std::memcmp(back.data(), source_.data(), kSmall), 0);
  DECIDED(tally, "h2d.promoted.small", 1);
}

// Measured: the pointers count and not the kind.
TEST_F(Rule, S19_AKindThatContradictsThePointers) {
  const Tally tally("transfer");
  OK(LaunchFill(other_, kSmall, 5, a_));
  RETURNS(cudaSuccess, CopyUp(device_, other_, kSmall, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(HoldsOnly(device_, 5, kSmall));
  RETURNS(cudaErrorInvalidValue, CopyUp(source_.data(), source_.data() + kLarge, kSmall, a_));
  RETURNS(cudaErrorInvalidValue, cudaGetLastError());
  NEVER_DECIDED(tally, "h2d.promoted");
}

// ---- S20: what is nothing, or wrong, ends as the real call ends it.
TEST_F(Rule, S20_NothingAndNonsense) {
  const Tally tally("transfer");
  const auto bad_kind = static_cast<cudaMemcpyKind>(7);  // a value that the type can have
  RETURNS(cudaSuccess, CopyUp(device_, source_.data(), 0, a_));
  RETURNS(cudaSuccess, CopyUp(nullptr, nullptr, 0, a_));
  RETURNS(cudaSuccess, cudaStreamSynchronize(a_));
  RETURNS(cudaSuccess, cudaGetLastError());
  for (const size_t bytes : {kSmall, kLarge}) {
    RETURNS(cudaErrorInvalidValue, CopyUp(nullptr, source_.data(), bytes, a_));
    RETURNS(cudaErrorInvalidValue, cudaPeekAtLastError());
    RETURNS(cudaErrorInvalidValue, cudaGetLastError());
    RETURNS(cudaErrorInvalidMemcpyDirection, cudaMemcpyAsync(device_, source_.data(), bytes, bad_kind, a_));
    RETURNS(cudaErrorInvalidMemcpyDirection, cudaGetLastError());
  }
  RETURNS(cudaSuccess, cudaGetLastError());
  NEVER_DECIDED(tally, "h2d.promoted");
  NEVER_DECIDED(tally, "sync.skipped");
  CopyAndSynchronize(a_);
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(device_, 0x11, kSmall));
  DECIDED(tally, "h2d.promoted.small", 1);
}

TEST_F(Rule, S20_AStreamThatIsNone) {
  cudaStream_t gone = nullptr;
  OK(cudaStreamCreate(&gone));
  OK(cudaStreamDestroy(gone));
  for (const size_t bytes : {kSmall, kLarge}) {
    RETURNS(cudaErrorInvalidResourceHandle, CopyUp(device_, source_.data(), bytes, gone));
    RETURNS(cudaErrorInvalidResourceHandle, cudaGetLastError());
  }
}

// ---- S18: copies of other shapes are the program's own calls, and what follows them is too.
char g_symbol;

TEST_F(Rule, S18_CopiesOfOtherShapesAreTheProgramsOwn) {
  const Tally tally("transfer");
  OK(simRegisterVariable(&g_symbol, "symbol", kSmall));
  void* symbol = nullptr;
  OK(cudaGetSymbolAddress(&symbol, &g_symbol));
  cudaMemcpy3DParms box = {};
  box.srcPtr = {source_.data(), 64, 64, 8};
  box.dstPtr = {device_, 64, 64, 8};
  box.extent = {64, 8, kSmall / 512};
  box.kind = cudaMemcpyHostToDevice;
  const std::function<cudaError_t()> copies[] = {
      [&] { return cudaMemcpy2DAsync(device_, 64, source_.data(), 64, 64, kSmall / 64, cudaMemcpyHostToDevice, a_); },
      [&] { return cudaMemcpy2D(device_, 64, source_.data(), 64, 64, kSmall / 64, cudaMemcpyHostToDevice); },
      [&] { return cudaMemcpy3DAsync(&box, a_); },
      [&] { return cudaMemcpyToSymbolAsync(&g_symbol, source_.data(), kSmall, 0, cudaMemcpyHostToDevice, a_); },
      [&] { return cudaMemcpyPeerAsync(device_, 0, other_, 0, kSmall, a_); },
  };
  uint8_t value = 0;
  for (const auto& copy : copies) {
    SCOPED_TRACE(std::to_string(value));
    ++value;
    std::memset(source_.data(), value, kSmall);
    OK(cudaMemset(other_, value, kSmall));
    OK(cudaDeviceSynchronize());  // the stream does not wait for the default one
    OK(copy());
    OK(cudaStreamSynchronize(a_));
    EXPECT_EQ(Pending(a_), 0) << "the synchronization was made";
    OK(cudaDeviceSynchronize());  // a blocking copy returns when its source has been read
    EXPECT_TRUE(HoldsOnly(&copy == &copies[3] ? symbol : device_, value, kSmall));
  }
  NEVER_DECIDED(tally, "h2d.promoted");
  NEVER_DECIDED(tally, "sync.skipped");
}

// ---- S21: sources of every sort. Each ends where nothing can be read any more.
TEST_F(Rule, S21_ReadOnlyFileAndSharedSources) {
  const Tally tally("transfer");
  const int file = memfd_create("source", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(kHuge)), 0);
  uint32_t salt = 10;
  for (const int flags : {MAP_PRIVATE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED, MAP_PRIVATE}) {
    for (const size_t bytes : {size_t{1}, size_t{4097}, size_t{65537}, kLarge + 1}) {
      SCOPED_TRACE(std::to_string(flags) + " " + std::to_string(bytes));
      const Pages pages(bytes, flags, (flags & MAP_ANONYMOUS) != 0 ? -1 : file);
      const auto pattern = Pattern(bytes, ++salt);
      std::memcpy(pages.Last(bytes), pattern.data(), bytes);
      pages.MakeReadOnly();
      OK(CopyUp(device_ + 1, pages.Last(bytes), bytes, a_));
      OK(cudaStreamSynchronize(a_));
      OK(cudaDeviceSynchronize());
      EXPECT_TRUE(Holds(device_ + 1, pattern));
    }
  }
  close(file);
  DECIDED(tally, "h2d.promoted.small", 8);
  DECIDED(tally, "h2d.promoted.large", 8);
}

TEST_F(Rule, S21_TheSourceMayBeUnmappedAtReturn) {
  const Tally tally("transfer");
  for (const size_t bytes : {kSmall, kLarge, kHuge}) {
    const Pages pages(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    const auto pattern = Pattern(bytes, 3);
    std::memcpy(pages.Last(bytes), pattern.data(), bytes);
    OK(CopyUp(device_, pages.Last(bytes), bytes, a_));
    pages.Unmap();
    OK(cudaStreamSynchronize(a_));
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(Holds(device_, pattern));
  }
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "h2d.promoted.large", 2);
}

TEST_F(Rule, S21_ABadAddressFaultsAndDoesNotHang) {
  for (const size_t bytes : {kSmall, kLarge, kHuge}) {
    const Pages pages(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    std::memset(pages.Last(bytes), 1, bytes);
    EXPECT_DEATH({ (void)CopyUp(device_, pages.Last(bytes) + 1, bytes, a_); }, "") << bytes;
  }
}

}  // namespace
}  // namespace rules
