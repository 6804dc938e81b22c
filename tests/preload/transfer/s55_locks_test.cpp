// S55: nobody waits for a thread that is in a function of the driver's that waits for the device.
#include <chrono>
#include <future>
#include <thread>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

// The other thread's calls are those that wait for nothing.
TEST_F(Rule, S55_C15_OthersGoOnWhileAThreadWaits) {
  for (const char* const function : {"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize", "cuMemFree_v2"}) {
    SCOPED_TRACE(function);
    void* memory = nullptr;
    cudaEvent_t event = nullptr;
    OK(cudaMalloc(&memory, kHuge));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    Backlog(a_);
    simHoldCalls(function);
    std::thread waits([&] {
      OK(cudaSetDevice(0));
      OK(CopyUp(device_, source_.data(), kLarge, a_));
      OK(cudaEventRecord(event, a_));
      OK(cudaStreamSynchronize(a_));
      OK(cudaEventSynchronize(event));
      OK(cudaDeviceSynchronize());
      OK(cudaFree(memory));
    });
    const auto deadline = std::chrono::steady_clock::now() + Patience();
    while (simHeldCalls() == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_NE(simHeldCalls(), 0);
    std::promise<void> done;
    std::future<void> use = done.get_future();
    std::thread other([&] {
      OK(cudaSetDevice(0));
      for (const size_t bytes : {kSmall, kLarge, kHuge}) {
        OK(CopyUp(other_, source_.data(), bytes, b_));
        OK(LaunchFill(third_, 64, 0x55, b_));
        const cudaError_t query = cudaStreamQuery(b_);
        EXPECT_TRUE(query == cudaSuccess || query == cudaErrorNotReady);
      }
      (void)cudaGetLastError();
      done.set_value();
    });
    EXPECT_EQ(use.wait_for(Patience()), std::future_status::ready) << "it waits as well";
    simReleaseCalls();
    other.join();
    waits.join();
    OK(cudaDeviceSynchronize());
    OK(cudaEventDestroy(event));
  }
}

}  // namespace
}  // namespace rules
