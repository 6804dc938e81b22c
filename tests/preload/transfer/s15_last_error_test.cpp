// S15: the runtime's last error is what it would be without the engine.
#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

// In CUDA 12 "not ready" becomes the last error; PyTorch throws on what it finds there.
constexpr cudaError_t kNotReadyLeaves = RULES_CUDART == 12 ? cudaErrorNotReady : cudaSuccess;

TEST_F(Rule, S15_AStreamQueryThatIsPaid) {
  DeferOnA();
  RETURNS(cudaSuccess, cudaStreamQuery(a_));
  RETURNS(cudaSuccess, cudaPeekAtLastError());
  RETURNS(cudaSuccess, cudaGetLastError());
}

TEST_F(Rule, S15_AnEventQueryThatIsPaid) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreate(&event));
  Backlog(a_);
  OK(cudaEventRecord(event, a_));
  DeferOnA();
  RETURNS(cudaSuccess, cudaEventQuery(event));
  RETURNS(cudaSuccess, cudaGetLastError());
}

TEST_F(Rule, S15_AnElapsedTimeThatIsPaid) {
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&end));
  OK(cudaEventRecord(start, a_));
  Backlog(a_);
  OK(cudaEventRecord(end, a_));
  DeferOnA();
  float ms = 0;
  RETURNS(cudaSuccess, cudaEventElapsedTime(&ms, start, end));
  RETURNS(cudaSuccess, cudaGetLastError());
}

TEST_F(Rule, S15_AQueryThatIsNotReadyIsTheRuntimesOwn) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreate(&event));
  DeferOnA();
  Backlog(a_);
  OK(cudaEventRecord(event, a_));
  RETURNS(cudaErrorNotReady, cudaEventQuery(event));
  RETURNS(kNotReadyLeaves, cudaPeekAtLastError());
  RETURNS(kNotReadyLeaves, cudaGetLastError());
  RETURNS(cudaSuccess, cudaGetLastError());
}

// Nothing that goes well, and nothing that the engine asks the driver in between, takes away an error or adds one.
TEST_F(Rule, S15_AnErrorThatIsThereStays) {
  void* memory = nullptr;
  RETURNS(cudaErrorMemoryAllocation, cudaMalloc(&memory, size_t{1} << 45));
  for (const size_t bytes : {kSmall, kLarge, kHuge}) {
    Backlog(a_, 4);
    CopyAndSynchronize(a_, bytes);
    RETURNS(cudaErrorMemoryAllocation, cudaPeekAtLastError());
  }
  OK(cudaDeviceSynchronize());
  RETURNS(cudaErrorMemoryAllocation, cudaGetLastError());
  RETURNS(cudaSuccess, cudaGetLastError());
}

TEST_F(Rule, S15_ACopyThatFailsLeavesItsError) {
  DeferOnA();
  RETURNS(cudaErrorInvalidValue, CopyUp(nullptr, source_.data(), kSmall, a_));
  RETURNS(cudaErrorInvalidValue, cudaPeekAtLastError());
  RETURNS(cudaErrorInvalidValue, cudaGetLastError());
  RETURNS(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(source_.data())));
  RETURNS(cudaErrorInvalidResourceHandle, cudaGetLastError());
}

// What fails inside the engine is not the program's error.
TEST_F(Rule, S15_TheEnginesOwnFailuresLeaveNothing) {
  OK(simFailCall("cuCtxWaitEvent", cudaErrorUnknown, 1, 1));
  Backlog(a_);
  CopyAndSynchronize(a_);
  EXPECT_EQ(Pending(a_), 0);
  RETURNS(cudaSuccess, cudaGetLastError());
  simClearFailures();
}

}  // namespace
}  // namespace rules
