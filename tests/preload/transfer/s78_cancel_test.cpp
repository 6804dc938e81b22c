// S78: a thread may be cancelled wherever it calls CUDA: it ends, and what it had in its hands is there for the others.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

struct Loop {
  std::function<void()> body;
  std::atomic<int> rounds{0};
};

void* Run(void* argument) {
  auto* const loop = static_cast<Loop*>(argument);
  for (;;) {
    loop->body();
    loop->rounds.fetch_add(1, std::memory_order_release);
    pthread_testcancel();  // a program that calls nothing else has no other
  }
}

// Threads that do nothing but this, each of them cancelled after a while.
void CancelIn(const char* what, const std::function<void()>& body) {
  SCOPED_TRACE(what);
  std::mt19937 random(42);
  for (int i = 0; i < 12; ++i) {
    Loop loop{body};
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, nullptr, Run, &loop), 0);
    while (loop.rounds.load(std::memory_order_acquire) == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    ASSERT_EQ(pthread_cancel(thread), 0);
    void* result = nullptr;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
  }
}

TEST_F(Rule, S78_AThreadMayBeCancelledInAnyCall) {
  WarmUp();
  std::vector<uint8_t> back(kHuge);
  for (const size_t bytes : {kSmall, kHuge}) {
    SCOPED_TRACE(bytes);
    CancelIn("up", [&] { OK(cudaMemcpy(device_, source_.data(), bytes, cudaMemcpyHostToDevice)); });
    CancelIn("down", [&] { OK(cudaMemcpy(back.data(), device_, bytes, cudaMemcpyDeviceToHost)); });
    CancelIn("wait", [&] {
      OK(LaunchFill(third_, 64, 0x55, a_));
      OK(CopyUp(device_, source_.data(), bytes, a_));
      OK(cudaStreamSynchronize(a_));
      (void)cudaStreamQuery(a_);
    });
    CancelIn("memory", [&] {
      void* memory = nullptr;
      OK(cudaMalloc(&memory, bytes));
      OK(cudaFree(memory));
    });
  }
  // Nobody holds anything that another thread needs.
  std::vector<uint8_t> expected(kHuge, 0x3c);
  OK(cudaMemcpy(device_, expected.data(), kHuge, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(back.data(), device_, kHuge, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back, expected);
}

}  // namespace
}  // namespace rules
