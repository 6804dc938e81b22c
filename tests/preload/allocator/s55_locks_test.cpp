// S55: nobody waits for a call of the driver's that another thread is in. With NCCL the one who waits may be the one
// whom the driver waits for.
#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "tests/preload/allocator/pool_test.h"

namespace rules {
namespace {

class Locks : public Pool {
 protected:
  Locks() { StartWith("SLIPSTREAM_ALLOCATOR_MAX_IDLE", "160MiB"); }

  // While a thread does `held`, and stands in the driver's function because of it, another one uses CUDA as programs
  // do. Without the library `held` may not get there at all.
  void OthersGoOnWhileHeld(const char* function, const std::function<void()>& held) {
    simHoldCalls(function);
    std::promise<void> ended;
    std::future<void> end = ended.get_future();
    std::thread holder([&] {
      OK(cudaSetDevice(0));
      held();
      ended.set_value();
    });
    const auto deadline = std::chrono::steady_clock::now() + Patience();
    bool over = false;
    while (simHeldCalls() == 0 && !over && std::chrono::steady_clock::now() < deadline) {
      over = end.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
      std::this_thread::yield();
    }
    EXPECT_TRUE(simHeldCalls() != 0 || (over && !Engine())) << "nobody came to " << function;
    std::promise<void> used;
    std::future<void> use = used.get_future();
    std::thread other([&] {
      UseCuda();
      used.set_value();
    });
    EXPECT_EQ(use.wait_for(Patience()), std::future_status::ready)
        << "somebody waits for a thread that is in " << function;
    simReleaseCalls();
    other.join();
    holder.join();
  }

  void UseCuda() {
    OK(cudaSetDevice(0));
    std::vector<uint8_t> source(kMiB, 0x51);
    std::vector<uint8_t> back(kMiB);
    // Without a library, broken or not, they would come to the same function, and stand there too.
    uint8_t* const memory = std::getenv("LD_PRELOAD") != nullptr ? Malloc(bytes_) : memory_;
    OK(cudaMemcpyAsync(memory, source.data(), 4096, cudaMemcpyHostToDevice, b_));
    OK(cudaMemcpyAsync(memory + 4096, source.data(), kMiB, cudaMemcpyHostToDevice, b_));
    OK(LaunchFill(memory + kMiB + 4096, 64, 0x52, b_));
    OK(cudaMemcpyAsync(back.data(), memory, kMiB, cudaMemcpyDeviceToHost, b_));
    OK(cudaStreamSynchronize(b_));
    if (memory != memory_) {
      OK(cudaFree(memory));
    }
    size_t free = 0;
    size_t total = 0;
    OK(cudaMemGetInfo(&free, &total));
    RETURNS(cudaSuccess, cudaGetLastError());
  }

  // The engines have their own memory by then, and the pool a block for those who go on.
  void SetUp() override {
    Pool::SetUp();
    memory_ = Malloc(bytes_);
    UseCuda();
    OK(simQuiesce());
  }

  size_t bytes_ = 2 * kMiB;
  uint8_t* memory_ = nullptr;
};

TEST_F(Locks, S55_C15_AFreeThatIsMadeAtOnce) {
  uint8_t* const memory = Malloc(200 * kMiB);  // more than may be idle
  const Tally tally("allocator");
  OthersGoOnWhileHeld("cuMemFree_v2", [memory] { OK(cudaFree(memory)); });
  DECIDED(tally, "freed.cap", 1);
}

// Nor is there memory of the transfer engine's that would do.
class LocksOfThePoolAlone : public Locks {
 protected:
  LocksOfThePoolAlone() {
    StartWith("SLIPSTREAM_TRANSFER_H2D", "off");
    StartWith("SLIPSTREAM_TRANSFER_D2H", "off");
  }
};

TEST_F(LocksOfThePoolAlone, S55_C15_IdleMemoryThatIsGivenBack) {
  for (int i = 0; i < 3; ++i) {
    OK(cudaFree(Malloc((40 + 10 * static_cast<size_t>(i)) * kMiB)));
  }
  LeaveFree(200 * kMiB);
  bytes_ = 5 * kMiB;  // a block that the pool does not have yet
  const Tally tally("allocator");
  OthersGoOnWhileHeld("cuMemFreeAsync", [] { OK(cudaFree(Malloc(180 * kMiB))); });
  DECIDED_AT_LEAST(tally, "reclaimed", 1);
}

TEST_F(Locks, S55_C15_AnAllocation) {
  const Tally tally("allocator");
  OthersGoOnWhileHeld("cuMemAlloc_v2", [] { OK(cudaFree(Malloc(50 * kMiB))); });
  DECIDED(tally, "reused", 1);
}

}  // namespace
}  // namespace rules
