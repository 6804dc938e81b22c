// S62: a copy is one operation of its stream. What another thread enqueues there while the call runs comes before or
// after all of its bytes. The simulator lets the other thread have its turn at each of the engine's calls of the
// driver.
#include <cstdlib>
#include <cstring>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

constexpr size_t kMost = 12 * kMiB + 4711;
constexpr size_t kSizes[] = {kSmall,       size_t{65536}, size_t{65537}, kLarge, 2 * kMiB,
                             2 * kMiB + 1, kHuge,         8 * kMiB + 1,  kMost};

// Of the bytes that are looked at, the last one too.
template <typename Look>
void EachOf(size_t bytes, const Look& look) {
  constexpr size_t kOften = size_t{64} << 10;  // a byte of so many; pieces are longer
  for (size_t at = 0; at < bytes - 1; at += kOften) look(at);
  look(bytes - 1);
}

struct Seen {
  int old_ones = 0;
  int new_ones = 0;
  int torn = 0;
};

void See() {}   // (const uint8_t* memory, size_t bytes, Seen*)
void Bump() {}  // (uint8_t* memory, size_t bytes): adds 1 to each byte that is looked at

void SeeBody(const simLaunch*, void** args) {
  const size_t bytes = *static_cast<size_t*>(args[1]);
  auto* const seen = *static_cast<Seen**>(args[2]);
  const auto* const memory = static_cast<const uint8_t*>(simDevicePointer(*static_cast<void**>(args[0]), bytes));
  if (memory == nullptr) return;
  bool differs = false;
  EachOf(bytes, [&](size_t at) { differs |= memory[at] != memory[0]; });
  ++(differs ? seen->torn : memory[0] == 1 ? seen->old_ones : seen->new_ones);
}

void BumpBody(const simLaunch*, void** args) {
  const size_t bytes = *static_cast<size_t*>(args[1]);
  auto* const memory = static_cast<uint8_t*>(simDevicePointer(*static_cast<void**>(args[0]), bytes));
  if (memory == nullptr) return;
  EachOf(bytes, [&](size_t at) { ++memory[at]; });
}

// The other thread: a kernel on the same memory and the same stream, whenever it has its turn.
struct Other {
  const void* kernel;
  uint8_t* memory;
  size_t bytes;
  cudaStream_t stream;
  Seen* seen;
  bool waits = false;  // until somebody has asked whether the stream is idle
  int launched = 0;

  static void Turn(const char* function, void* data) {
    auto* const other = static_cast<Other*>(data);
    if (other->waits) {
      other->waits = std::strcmp(function, "cuStreamQuery") != 0;
      return;
    }
    void* args[] = {&other->memory, &other->bytes, &other->seen};
    if (simLaunchUnseen(other->kernel, 1, 1, args, other->stream) == 0) ++other->launched;
  }
};

class Whole : public Rule {
 protected:
  Whole() {
    StartWith("SLIPSTREAM_TRANSFER_D2H", "on");
    StartWith("SLIPSTREAM_TRANSFER_DEVICE_STAGING", "256MiB");
  }
  // Staging memory for all sizes.
  void SetUp() override {
    Rule::SetUp();
    const size_t see[] = {sizeof(void*), sizeof(size_t), sizeof(void*)};
    simRegisterKernel(simtest::Address(&See), "see", &SeeBody, see, 3, 5000);
    simRegisterKernel(simtest::Address(&Bump), "bump", &BumpBody, see, 2, 5000);
    OK(cudaMalloc(reinterpret_cast<void**>(&far_), kMost));
    OK(cudaStreamCreate(&blocking_));
    source_.assign(kMost, 2);
    for (int i = 0; i < 2; ++i) {
      OK(CopyUp(far_, source_.data(), kMost, a_));
      OK(cudaDeviceSynchronize());
      OK(cudaMemcpyAsync(source_.data(), far_, kMost, cudaMemcpyDeviceToHost, a_));
    }
  }
  void TearDown() override { simBetweenCalls(nullptr, nullptr); }

  // A copy while another thread reads the destination. How often that had its turn.
  int CopyWhileItIsRead(size_t bytes, cudaStream_t stream, bool busy, bool blocking) {
    EXPECT_EQ(LaunchFill(far_, bytes, 1, stream), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    if (busy) Backlog(stream);
    Seen seen;
    Other other = {simtest::Address(&See), far_, bytes, stream, &seen};
    Other::Turn("", &other);
    EXPECT_EQ(busy ? 0 : simQuiesce(), 0);
    other.waits = !busy && bytes > 65536;
    simBetweenCalls(&Other::Turn, &other);
    EXPECT_EQ(blocking ? cudaMemcpy(far_, source_.data(), bytes, cudaMemcpyHostToDevice)
                       : CopyUp(far_, source_.data(), bytes, stream),
              cudaSuccess);
    if (!blocking) {
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    }
    simBetweenCalls(nullptr, nullptr);
    other.waits = false;
    Other::Turn("", &other);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(seen.torn, 0) << "of " << other.launched;
    EXPECT_GE(seen.old_ones, 1);
    EXPECT_GE(seen.new_ones, 1);
    EXPECT_EQ(seen.old_ones + seen.new_ones + seen.torn, other.launched);
    EXPECT_TRUE(HoldsOnly(far_, 2, bytes));
    return other.launched - 2;
  }

  // A copy while another thread writes the source.
  int CopyWhileItIsWritten(size_t bytes, cudaStream_t stream, bool busy, bool blocking) {
    EXPECT_EQ(LaunchFill(far_, bytes, 1, stream), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    if (busy) Backlog(stream);
    std::vector<uint8_t> back(bytes, 0);
    Other other = {simtest::Address(&Bump), far_, bytes, stream, nullptr};
    other.waits = !busy && bytes > 65536;
    simBetweenCalls(&Other::Turn, &other);
    EXPECT_EQ(blocking ? cudaMemcpy(back.data(), far_, bytes, cudaMemcpyDeviceToHost)
                       : cudaMemcpyAsync(back.data(), far_, bytes, cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    simBetweenCalls(nullptr, nullptr);
    EXPECT_GE(back[0], 1);
    size_t torn = 0;
    EachOf(bytes, [&](size_t at) { torn += back[at] != back[0] ? 1 : 0; });
    EXPECT_EQ(torn, 0U) << "of " << other.launched;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return other.launched;
  }

  uint8_t* far_ = nullptr;
  cudaStream_t blocking_ = nullptr;
};

TEST_F(Whole, S62_C16_ToTheDevice) {
  const Tally tally("transfer");
  uint64_t small = 0;
  uint64_t large = 0;
  for (cudaStream_t const stream : {a_, cudaStream_t{nullptr}, blocking_, cudaStreamPerThread}) {
    for (const size_t bytes : kSizes) {
      if (stream != a_ && bytes != kSmall && bytes != kHuge) continue;
      for (const bool busy : {false, true}) {
        SCOPED_TRACE(std::to_string(bytes) + (busy ? " busy" : " idle"));
        const int turns = CopyWhileItIsRead(bytes, stream, busy, false);
        if (Engine()) {
          EXPECT_GE(turns, 3);
        }
        ++(bytes <= 65536 ? small : large);
      }
    }
  }
  DECIDED(tally, "h2d.promoted.small", small);
  DECIDED(tally, "h2d.promoted.large", large);
}

TEST_F(Whole, S62_BlockingToTheDevice) {
  const Tally tally("transfer");
  for (const size_t bytes : kSizes) {
    SCOPED_TRACE(bytes);
    const int turns = CopyWhileItIsRead(bytes, nullptr, false, true);
    if (Engine()) {
      EXPECT_GE(turns, 3);
    }
  }
  NEVER_DECIDED(tally, "h2d.declined");
}

TEST_F(Whole, S62_C16_ToTheHost) {
  const Tally tally("transfer");
  uint64_t fetched = 0;
  for (const bool blocking : {false, true}) {
    for (cudaStream_t const stream : {cudaStream_t{nullptr}, a_, blocking_, cudaStreamPerThread}) {
      if (blocking && stream != nullptr) continue;
      for (const size_t bytes : kSizes) {
        if (stream != nullptr && bytes != kHuge) continue;
        for (const bool busy : {false, true}) {
          SCOPED_TRACE(std::to_string(bytes) + (busy ? " busy" : " idle"));
          (void)CopyWhileItIsWritten(bytes, stream, busy, blocking);
          if (bytes > 65536) ++fetched;
        }
      }
    }
  }
  // Some go the program's own way, so that it is known which is faster.
  if (Engine()) {
    EXPECT_GE(tally.Of("d2h.promoted"), fetched / 2) << tally.Text();
    EXPECT_EQ(tally.Of("d2h.promoted") + tally.Of("d2h.declined.slower"), fetched) << tally.Text();
  }
}

// Where staging memory is short: on the host, on the device, on both.
// S16 has a fixture of this name for copies to the host.
namespace both_ways {

class ShortOfStaging : public Whole, public ::testing::WithParamInterface<std::pair<const char*, const char*>> {
 protected:
  ShortOfStaging() {
    StartWith("SLIPSTREAM_TRANSFER_MAX_PINNED", GetParam().first);
    StartWith("SLIPSTREAM_TRANSFER_DEVICE_STAGING", GetParam().second);
  }
};

TEST_P(ShortOfStaging, S62_BothWays) {
  constexpr size_t kTooLong = 80 * kMiB;
  OK(cudaFree(far_));
  OK(cudaMalloc(reinterpret_cast<void**>(&far_), kTooLong));
  source_.assign(kTooLong, 2);
  for (const size_t bytes : {kLarge, kMost, kTooLong}) {
    SCOPED_TRACE(bytes);
    (void)CopyWhileItIsRead(bytes, a_, true, false);
    (void)CopyWhileItIsWritten(bytes, a_, false, false);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ShortOfStaging,
                         ::testing::Values(std::pair("32MiB", "256MiB"), std::pair("512MiB", "64MiB"),
                                           std::pair("512MiB", "0"), std::pair("32MiB", "64MiB")));

}  // namespace both_ways

// Where one of the engine's calls fails, the program's own call makes all of the copy.
TEST_F(Whole, S62_WhereACallFails) {
  for (const char* const function :
       {"own:cuMemcpyHtoDAsync_v2", "own:cuMemcpyDtoDAsync_v2", "own:cuStreamWaitEvent", "own:cuEventRecord"}) {
    for (const uint64_t nth : {1, 3}) {
      for (const size_t bytes : {kLarge, kHuge}) {
        SCOPED_TRACE(std::string(function) + " " + std::to_string(nth) + " " + std::to_string(bytes));
        OK(simFailCall(function, CUDA_ERROR_OUT_OF_MEMORY, nth, 0));
        (void)CopyWhileItIsRead(bytes, a_, true, false);
        simClearFailures();
        OK(simFailCall(function, CUDA_ERROR_OUT_OF_MEMORY, nth, 0));
        (void)CopyWhileItIsWritten(bytes, a_, true, false);
        simClearFailures();
      }
    }
  }
}

}  // namespace
}  // namespace rules
