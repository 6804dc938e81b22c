// Allocations and frees while a stream is captured into a graph, and graphs whose memory came before.
#include "tests/conformance/conformance_test.h"

namespace conformance {
namespace {

template <typename Allocator>
class Capture : public Conformance<Allocator> {
 protected:
  void Begin(cudaStreamCaptureMode mode) { OK(cudaStreamBeginCapture(this->a_, mode)); }

  // Ends the capture, which must have held, and launches what it holds.
  void EndAndLaunch() {
    cudaGraph_t graph = nullptr;
    OK(cudaStreamEndCapture(this->a_, &graph));
    cudaGraphExec_t executable = nullptr;
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphLaunch(executable, this->a_));
    OK(cudaStreamSynchronize(this->a_));
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
  }

  // The call broke the capture.
  void EndBroken() {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(this->a_, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    (void)cudaGetLastError();
  }

  void ExpectWorks(size_t bytes) {
    uint8_t* const block = this->Take(bytes);
    const uint32_t salt = NewSalt();
    EXPECT_TRUE(Fill(block, bytes, salt, this->b_));
    EXPECT_TRUE(Holds(block, bytes, salt, this->b_));
    this->Give(block);
  }
};
TYPED_TEST_SUITE(Capture, Allocators, AllocatorNames);

// In a relaxed capture the program may allocate and free; the captured stream's graph stays whole.
TYPED_TEST(Capture, ARelaxedCaptureAllowsAll) {
  for (const size_t bytes : kSizes) {
    uint8_t* const captured = this->Take(bytes);
    uint8_t* const before = this->Take(bytes);
    const uint32_t salt = NewSalt();
    this->Begin(cudaStreamCaptureModeRelaxed);
    EXPECT_TRUE(Fill(captured, bytes, salt, this->a_));
    void* during = nullptr;
    OK(TypeParam::Allocate(&during, bytes, this->b_));
    this->live_.insert(during);
    const uint32_t during_salt = NewSalt();
    EXPECT_TRUE(Fill(during, bytes, during_salt, this->b_));
    EXPECT_OK(TypeParam::Free(before, this->b_));
    this->live_.erase(before);
    void* again = nullptr;
    OK(TypeParam::Allocate(&again, bytes, this->b_));
    this->live_.insert(again);
    EXPECT_NE(again, during);
    EXPECT_NE(again, captured);
    const uint32_t again_salt = NewSalt();
    EXPECT_TRUE(Fill(again, bytes, again_salt, this->b_));
    this->EndAndLaunch();
    EXPECT_TRUE(Holds(captured, bytes, salt, this->a_));
    EXPECT_TRUE(Holds(during, bytes, during_salt, this->b_));
    EXPECT_TRUE(Holds(again, bytes, again_salt, this->b_));
  }
}

TYPED_TEST(Capture, FreedUnderPendingWorkInARelaxedCapture) {
  for (const size_t bytes : kSizes) {
    uint8_t* const captured = this->Take(bytes);
    uint8_t* const block = this->Take(bytes);
    OK(LaunchDelay(this->b_));
    EXPECT_TRUE(Fill(block, bytes, NewSalt(), this->b_));
    const uint32_t salt = NewSalt();
    this->Begin(cudaStreamCaptureModeRelaxed);
    EXPECT_TRUE(Fill(captured, bytes, salt, this->a_));
    this->live_.erase(block);
    EXPECT_OK(TypeParam::Free(block, this->b_));
    void* again = nullptr;
    OK(TypeParam::Allocate(&again, bytes, this->home_));
    this->live_.insert(again);
    const uint32_t again_salt = NewSalt();
    EXPECT_TRUE(Fill(again, bytes, again_salt, this->home_));
    this->EndAndLaunch();
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(Holds(again, bytes, again_salt, this->home_));
    EXPECT_TRUE(Holds(captured, bytes, salt, this->a_));
  }
}

// In the other modes the capturing thread may do neither, and loses its capture by trying.
TYPED_TEST(Capture, AStrictCaptureRefusesTheAllocation) {
  if (TypeParam::kStreamOrdered) GTEST_SKIP() << "stream-ordered calls are no unsafe ones";
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    for (const size_t bytes : kSizes) {
      this->Give(this->Take(bytes));  // a pool has one to give
      this->Begin(mode);
      void* memory = nullptr;
      EXPECT_EQ(TypeParam::Allocate(&memory, bytes, this->b_), cudaErrorStreamCaptureUnsupported);
      ExpectLastError(cudaErrorStreamCaptureUnsupported);
      this->EndBroken();
      this->ExpectWorks(bytes);
    }
  }
}

TYPED_TEST(Capture, AStrictCaptureRefusesTheFree) {
  if (TypeParam::kStreamOrdered) GTEST_SKIP() << "stream-ordered calls are no unsafe ones";
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    for (const size_t bytes : kSizes) {
      uint8_t* const block = this->Take(bytes);
      const uint32_t salt = NewSalt();
      EXPECT_TRUE(Fill(block, bytes, salt, this->b_));
      OK(cudaStreamSynchronize(this->b_));
      this->Begin(mode);
      EXPECT_EQ(TypeParam::Free(block, this->b_), cudaErrorStreamCaptureUnsupported);
      ExpectLastError(cudaErrorStreamCaptureUnsupported);
      this->EndBroken();
      this->ExpectWorks(bytes);
      EXPECT_TRUE(Holds(block, bytes, salt, this->b_));  // it is the program's still
      this->Give(block);
      this->ExpectWorks(bytes);
    }
  }
}

// Another thread is bound by a global capture only, unless it says that it is not.
TYPED_TEST(Capture, AnotherThreadAllocatesDuringTheCapture) {
  for (const auto mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    for (const size_t bytes : kSizes) {
      uint8_t* const captured = this->Take(bytes);
      const uint32_t salt = NewSalt();
      this->Begin(mode);
      EXPECT_TRUE(Fill(captured, bytes, salt, this->a_));
      OnAnotherThread([&] {
        cudaStreamCaptureMode mine = cudaStreamCaptureModeRelaxed;
        if (mode == cudaStreamCaptureModeGlobal) {
          EXPECT_OK(cudaThreadExchangeStreamCaptureMode(&mine));
        }
        for (int round = 0; round < 3; ++round) {
          void* memory = nullptr;
          ASSERT_EQ(TypeParam::Allocate(&memory, bytes, this->b_), cudaSuccess);
          const uint32_t other_salt = NewSalt();
          EXPECT_TRUE(Fill(memory, bytes, other_salt, this->b_));
          EXPECT_OK(TypeParam::Free(memory, this->b_));
        }
      });
      this->EndAndLaunch();
      EXPECT_TRUE(Holds(captured, bytes, salt, this->a_));
      this->Give(captured);
    }
  }
}

TYPED_TEST(Capture, AGlobalCaptureRefusesAnotherThread) {
  if (TypeParam::kStreamOrdered) GTEST_SKIP() << "stream-ordered calls are no unsafe ones";
  this->Give(this->Take(3 * kMiB));
  this->Begin(cudaStreamCaptureModeGlobal);
  OnAnotherThread([&] {
    void* memory = nullptr;
    EXPECT_EQ(TypeParam::Allocate(&memory, 3 * kMiB, this->b_), cudaErrorStreamCaptureUnsupported);
    ExpectLastError(cudaErrorStreamCaptureUnsupported);
  });
  this->EndBroken();
  this->ExpectWorks(3 * kMiB);
}

// A graph keeps addresses: its memory is the program's as long as the program does not free it.
TYPED_TEST(Capture, AGraphWritesMemoryOfBefore) {
  for (const size_t bytes : kSizes) {
    uint8_t* const from = this->Take(bytes);
    uint8_t* const to = this->Take(bytes);
    const uint32_t salt = NewSalt();
    this->Begin(cudaStreamCaptureModeGlobal);
    EXPECT_TRUE(Fill(from, bytes, salt, this->a_));
    OK(LaunchMove(to, from, bytes, this->a_));
    cudaGraph_t graph = nullptr;
    OK(cudaStreamEndCapture(this->a_, &graph));
    cudaGraphExec_t executable = nullptr;
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphDestroy(graph));
    for (int round = 0; round < 4; ++round) {
      // Memory comes, is used and goes between the launches, and under them.
      uint8_t* const other = this->TakeFor(bytes, this->b_);
      EXPECT_TRUE(Fill(to, bytes, NewSalt(), this->a_));
      OK(LaunchDelay(this->a_));
      OK(cudaGraphLaunch(executable, this->a_));
      this->GiveBehind(other, this->b_);
      uint8_t* const third = this->Take(bytes);
      const uint32_t third_salt = NewSalt();
      EXPECT_TRUE(Fill(third, bytes, third_salt, this->b_));
      EXPECT_TRUE(Holds(to, bytes, salt, this->a_)) << "launch " << round;
      EXPECT_TRUE(Holds(third, bytes, third_salt, this->b_)) << "launch " << round;
      this->Give(third);
    }
    OK(cudaGraphExecDestroy(executable));
  }
}

// Memory of the graph's own: a stream-ordered allocation in the captured stream.
TYPED_TEST(Capture, ACapturedAllocationIsTheGraphs) {
  if (!TypeParam::kStreamOrdered) GTEST_SKIP() << "stream-ordered calls only";
  uint8_t* const result = this->Take(4 * kKiB);
  const uint32_t salt = NewSalt();
  this->Begin(cudaStreamCaptureModeGlobal);
  void* memory = nullptr;
  OK(TypeParam::Allocate(&memory, 4 * kKiB, this->a_));
  EXPECT_TRUE(Fill(memory, 4 * kKiB, salt, this->a_));
  OK(LaunchMove(result, memory, 4 * kKiB, this->a_));
  OK(TypeParam::Free(memory, this->a_));
  this->EndAndLaunch();
  EXPECT_TRUE(Holds(result, 4 * kKiB, salt, this->a_));
  this->ExpectWorks(4 * kKiB);
}

}  // namespace
}  // namespace conformance
