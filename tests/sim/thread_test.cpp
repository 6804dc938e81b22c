// Many threads at once, in both modes: for the sanitizers, and for lost wake-ups.
#include <pthread.h>

#include <atomic>
#include <thread>

#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

using ThreadTest = Sim;

// Every thread moves its own bytes through the device, with events, host functions, frees and queries in between.
void Work(int seed, int rounds, int* wrong) {
  cudaStream_t stream = nullptr;
  cudaStream_t second = nullptr;
  cudaEvent_t event = nullptr;
  uint8_t* pinned = nullptr;
  cudaSetDevice(seed % 2);
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaMallocHost(reinterpret_cast<void**>(&pinned), 256);
  for (int round = 0; round < rounds; ++round) {
    const auto value = static_cast<uint8_t>(seed * 31 + round);
    uint8_t* device = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&device), 256, stream);
    LaunchFill(device, 256, value, stream);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(second, event, 0);
    cudaMemcpyAsync(pinned, device, 256, cudaMemcpyDeviceToHost, second);
    int called = 0;
    cudaLaunchHostFunc(
        second, [](void* flag) { *static_cast<int*>(flag) = 1; }, &called);
    cudaEventRecord(event, second);
    cudaStreamWaitEvent(stream, event, 0);
    cudaFreeAsync(device, stream);
    if (round % 3 == 0) {
      while (cudaEventQuery(event) == cudaErrorNotReady) {
        std::this_thread::yield();
      }
    } else {
      cudaEventSynchronize(event);
    }
    *wrong += pinned[255] != value || called != 1 ? 1 : 0;
    void* block = nullptr;
    cudaMalloc(&block, 64);
    cudaFree(block);
  }
  cudaFreeHost(pinned);
  cudaStreamDestroy(stream);
  cudaStreamDestroy(second);
  cudaEventDestroy(event);
}

void RunAll(int rounds) {
  int wrong[4] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(Work, i, rounds, &wrong[i]);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const int count : wrong) {
    EXPECT_EQ(count, 0);
  }
}

TEST_F(ThreadTest, AdversarialMode) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    OK(simSetSeed(seed));
    RunAll(20);
  }
}

TEST_F(ThreadTest, TimedMode) {
  OK(simSetMode(SIM_TIMED));
  RunAll(30);
  OK(simSetMode(SIM_ADVERSARIAL));
}

TEST_F(ThreadTest, AHeldCallStandsAtItsEntry) {
  simHoldCalls("cuMemHostAlloc");
  std::atomic<bool> done{false};
  std::thread other([&done] {
    void* pinned = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&pinned, 64, 0), CUDA_ERROR_INVALID_CONTEXT);  // its thread has none
    done = true;
  });
  while (simHeldCalls() == 0) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(done);
  void* memory = nullptr;
  OK(cudaMalloc(&memory, 64));  // others pass
  simReleaseCalls();
  other.join();
  EXPECT_TRUE(done);
  EXPECT_EQ(simHeldCalls(), 0);
}

TEST_F(ThreadTest, AWaitThatOnlyTheHostCanEndIsSeen) {
  uint32_t* word = nullptr;
  OK(cudaMallocHost(reinterpret_cast<void**>(&word), sizeof *word));
  __atomic_store_n(word, 0, __ATOMIC_RELEASE);
  OK(cuStreamWaitValue32(a_, reinterpret_cast<CUdeviceptr>(word), 1, CU_STREAM_WAIT_VALUE_GEQ));
  OK(cudaStreamSynchronize(b_));
  EXPECT_EQ(simStuckWaits(), 0);
  std::thread other([this] { EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess); });
  while (simStuckWaits() == 0) {
    std::this_thread::yield();
  }
  __atomic_store_n(word, 1, __ATOMIC_RELEASE);
  other.join();
  EXPECT_EQ(simStuckWaits(), 0);
  OK(cudaFreeHost(word));
}

// Handlers of a thread's end call CUDA, some of them after every C++ destructor.
TEST_F(ThreadTest, CallsWhileAThreadEnds) {
  static cudaStream_t stream = nullptr;
  static std::atomic<int> answers{0};
  stream = a_;
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, [](void*) { answers += cudaStreamSynchronize(stream) == cudaSuccess ? 1 : 100; }),
            0);
  struct AtExit {
    ~AtExit() { answers += cudaStreamSynchronize(stream) == cudaSuccess ? 10 : 100; }
  };
  Log log;
  OK(LaunchAppend(&log, 1, a_));
  std::thread([key] {
    static thread_local AtExit at_exit;
    (void)at_exit;
    pthread_setspecific(key, &answers);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  }).join();
  EXPECT_EQ(answers, 11);
  EXPECT_EQ(log.entries.size(), 1u);
  pthread_key_delete(key);
}

}  // namespace
}  // namespace simtest
