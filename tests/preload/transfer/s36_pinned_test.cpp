// S36: staging memory in host memory is never why a program can pin none.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/preload/transfer/rule_test.h"
#include "tests/sim/simcuda.h"

namespace {

using rules::Holds;
using rules::kHuge;
using rules::kLarge;
using rules::kMiB;
using rules::kSmall;
using rules::Pattern;
using rules::Tally;

// Of the program's own, behind which no segment of the ring (32 MiB) finds room below the limit.
constexpr size_t kWanted = 40 * kMiB;
constexpr size_t kLimit = 48 * kMiB;

class Pinned : public rules::Rule {
 protected:
  void SetUp() override {
    Rule::SetUp();
    OK(CopyUp(device_, source_.data(), kHuge, a_));
    OK(cudaStreamSynchronize(a_));
    OK(simSetPinnedMemory(kLimit));
  }
};

TEST_F(Pinned, S36host_ItIsGivenBackForPinnedMemory) {
  const Tally tally("transfer");
  void* memory = nullptr;
  OK(cudaHostAlloc(&memory, kWanted, cudaHostAllocDefault));
  OK(cudaGetLastError());
  DECIDED(tally, "unpinned", 1);
  // None is pinned again; large copies go their own way, and small ones need none.
  OK(cudaFreeHost(memory));
  OK(CopyUp(device_, source_.data(), kLarge, a_));
  OK(CopyUp(other_, source_.data(), kSmall, a_));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(device_, source_, kLarge));
  EXPECT_TRUE(Holds(other_, source_, kSmall));
  DECIDED(tally, "h2d.declined.no_memory", 1);
  DECIDED(tally, "h2d.promoted.small", 1);
  OK(cudaMallocHost(&memory, kWanted));
  DECIDED(tally, "unpinned", 1);
}

TEST_F(Pinned, S36host_ByItsOtherName) {
  const Tally tally("transfer");
  void* memory = nullptr;
  OK(cudaMallocHost(&memory, kWanted));
  OK(cudaGetLastError());
  DECIDED(tally, "unpinned", 1);
}

TEST_F(Pinned, S36host_ForMemoryThatIsRegistered) {
  const Tally tally("transfer");
  std::vector<uint8_t> memory(kWanted);
  OK(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault));
  OK(cudaGetLastError());
  DECIDED(tally, "unpinned", 1);
}

// What is on its way arrives.
TEST_F(Pinned, S36host_BehindCopiesThatItHolds) {
  const Tally tally("transfer");
  source_ = Pattern(kHuge, 7);
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  const std::vector<uint8_t> expected = source_;
  source_ = Pattern(kHuge, 8);
  void* memory = nullptr;
  OK(cudaHostAlloc(&memory, kWanted, cudaHostAllocDefault));
  DECIDED(tally, "unpinned", 1);
  OK(cudaDeviceSynchronize());
  if (rules::Engine()) {
    EXPECT_TRUE(Holds(device_, expected, kHuge));  // staged at the call
  }
}

TEST_F(Pinned, S36host_NoMoreThanThereIs) {
  void* memory = nullptr;
  RETURNS(cudaErrorMemoryAllocation, cudaHostAlloc(&memory, 2 * kLimit, cudaHostAllocDefault));
  RETURNS(cudaErrorMemoryAllocation, cudaGetLastError());
  RETURNS(cudaSuccess, cudaGetLastError());
  OK(cudaMalloc(&memory, kSmall));
}

// While another stream is being captured in global mode, which the engine's own calls must not break (S05).
TEST_F(Pinned, S36host_BesideACapture) {
  OK(cudaStreamBeginCapture(b_, cudaStreamCaptureModeRelaxed));
  void* memory = nullptr;
  OK(cudaHostAlloc(&memory, kWanted, cudaHostAllocDefault));
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(b_, &graph));
  OK(cudaGraphDestroy(graph));
}

// Where the driver does not let go of it, nothing else comes of it.
TEST_F(Pinned, S17_ADriverThatKeepsIt) {
  OK(simFailCall("cuMemHostUnregister", cudaErrorUnknown, 1, 1));
  void* memory = nullptr;
  const cudaError_t result = cudaHostAlloc(&memory, kWanted, cudaHostAllocDefault);
  simClearFailures();
  if (rules::Engine()) {
    EXPECT_EQ(result, cudaErrorMemoryAllocation);
    (void)cudaGetLastError();
  }
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(device_, source_, kHuge));
}

}  // namespace
