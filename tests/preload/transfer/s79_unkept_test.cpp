// S79: what a program observes of a copy's wait at the end of its process, or by what its kernels print. What is not
// kept, and the keys that keep it, are shown by tests/gpu/programs/unkept.cu.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/preload/rules/doors.h"
#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

void Print() {}
void PrintBody(const simLaunch* launch, void**) { simPrint(launch, "from the device\n"); }

class Unkept : public Rule {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Rule::SetUp());
    simRegisterKernel(Address(&Print), "print", &PrintBody, nullptr, 0, 5000);
  }
  static const void* Address(void (*function)()) { return reinterpret_cast<const void*>(function); }
  static void LaunchPrint(cudaStream_t stream) {
    OK(cudaLaunchKernel(Address(&Print), dim3(1), dim3(1), nullptr, 0, stream));
  }
  // What goes to stdout is what a death test looks at.
  static void ToStandardError() {
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    (void)setvbuf(stdout, nullptr, _IONBF, 0);
  }
  cudaError_t BlockingCopy() {
    const cudaError_t copied = CopyUp(device_, source_.data(), kLarge, a_);
    return copied != cudaSuccess ? copied : cudaStreamSynchronize(a_);
  }
};

TEST_F(Unkept, S79_WhatAKernelPrintsComesBeforeTheEnd) {
  EXPECT_EXIT(
      {
        ToStandardError();
        Backlog(a_);
        LaunchPrint(a_);
        (void)BlockingCopy();
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "from the device\n");
}

// The wait was seen to be paid by a call that is no synchronization, which would have written it out.
TEST_F(Unkept, S79_AndWhereNothingIsOwedAnyMore) {
  EXPECT_EXIT(
      {
        ToStandardError();
        LaunchPrint(a_);
        (void)BlockingCopy();
        OK(simQuiesce());
        (void)cudaFree(third_);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "from the device\n");
}

TEST_F(Unkept, S79_WhatAnExitHandlerDoesCounts) {
  EXPECT_EXIT(
      {
        ToStandardError();
        LaunchPrint(a_);
        (void)BlockingCopy();
        // A handler of the program's may do the same once more, before slipstream's.
        (void)std::atexit([] {
          cudaStream_t stream = nullptr;
          (void)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
          LaunchPrint(stream);
          (void)cudaStreamSynchronize(stream);
        });
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "from the device\nfrom the device\n");
}

// Bare, the copy returns the error, and so the program's status is another one. Where the kernel has run by then, so it
// is with the engine.
TEST_F(Unkept, S79_AFailureThatNoCallCouldReturnIsSaid) {
  const auto end = [this] {
    ToStandardError();
    Backlog(a_);
    OK(cudaLaunchKernel(Address(&simtest::Crash), dim3(1), dim3(1), nullptr, 0, a_));
    const bool well = BlockingCopy() == cudaSuccess;
    if (!well) (void)std::fputs("told\n", stderr);
    std::exit(well ? 0 : 1);
  };
  const bool nothing_runs_early =
      std::getenv("SIMCUDA_SEED") == nullptr || std::getenv("SIMCUDA_SEED") == std::string("0");
  const std::string unsaid = "failed with error 700, which no call has returned since";
  if (!Engine()) {
    EXPECT_EXIT(end(), ::testing::ExitedWithCode(1), "told");
  } else if (nothing_runs_early) {
    EXPECT_EXIT(end(), ::testing::ExitedWithCode(0), unsaid);
  } else {
    EXPECT_EXIT(
        end(), [](int) { return true; }, "told|" + unsaid);
  }
}

// A program that was told says so itself.
TEST_F(Unkept, S79_AFailureThatTheProgramKnowsOfIsNotSaidAgain) {
  const auto end = [this] {
    ToStandardError();
    OK(cudaLaunchKernel(Address(&simtest::Crash), dim3(1), dim3(1), nullptr, 0, a_));
    (void)BlockingCopy();
    (void)std::fputs(cudaDeviceSynchronize() == cudaSuccess ? "well\n" : "told\n", stderr);
    std::exit(3);
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(3), "^told\n$");
}

TEST_F(Unkept, S79_WhateverContextTheThreadHasByThen) {
  EXPECT_EXIT(
      {
        ToStandardError();
        LaunchPrint(a_);
        (void)BlockingCopy();
        (void)cuCtxSetCurrent(nullptr);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "from the device\n");
}

// As when a signal has stopped the thread inside the driver, and its handler calls exit().
TEST_F(Unkept, S79_ADriverThatDoesNotAnswerIsNotWaitedFor) {
  EXPECT_EXIT(
      {
        ToStandardError();
        Backlog(a_);
        (void)BlockingCopy();
        simHoldCalls("cuEventQuery");
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

// Bare, that thread would still be in its wait.
class UnkeptByAnother : public AnotherDefers {};
TEST_F(UnkeptByAnother, S79_WhatAnotherThreadHasDeferredIsNotWaitedFor) {
  const auto end = [this] {
    std::atomic<bool> deferred{false};
    std::thread([this, &deferred] {
      EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
      EXPECT_EQ(cuStreamWaitValue32(b_, reinterpret_cast<CUdeviceptr>(pinned_), 1, CU_STREAM_WAIT_VALUE_EQ),
                CUDA_SUCCESS);
      EXPECT_EQ(CopyUp(device_, source_.data(), kLarge, b_), cudaSuccess);
      EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
      deferred = true;
      while (true) pause();
    }).detach();
    while (!deferred && simStuckWaits() == 0) std::this_thread::yield();
    std::exit(deferred == Engine() ? 0 : 1);
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(0), "");
}

TEST_F(Unkept, S79_WhoSizesTheBufferOfPrintfPrints) {
  OK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, kMiB));
  const Tally tally("transfer");
  Backlog(a_);
  CopyAndSynchronize(a_, kLarge);
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "sync.kept.printf", 1);
}

constexpr const char* kPrints = ".version 8.0\n.extern .func (.param .b32 func_retval0) vprintf\n";
constexpr const char* kPrintsNothing = ".version 8.0\n.visible .entry kernel()\n";

class Loaded : public Unkept {
 protected:
  // Behind a load of code that prints nothing, by each door, and of code that prints, by one.
  template <typename Function, typename Call>
  void KeptAfter(const std::vector<Door<Function>>& doors, const Call& load) {
    for (const Door<Function>& door : doors) {
      SCOPED_TRACE(door.how);
      EXPECT_EQ(load(door, kPrintsNothing), CUDA_SUCCESS);
    }
    const Tally tally("transfer");
    CopyAndSynchronize(a_, kLarge);
    DECIDED(tally, "sync.skipped", 1);
    OK(cudaDeviceSynchronize());
    // Once for all: the last door.
    EXPECT_EQ(load(doors.back(), kPrints), CUDA_SUCCESS);
    Backlog(a_);
    CopyAndSynchronize(a_, kLarge);
    EXPECT_EQ(Pending(a_), 0);
    DECIDED(tally, "sync.kept.printf", 1);
  }
};

TEST_F(Loaded, S79_AModule) {
  KeptAfter(DOORS_TO(cuModuleLoadData), [](const auto& door, const char* image) {
    CUmodule module = nullptr;
    return door(&module, image);
  });
}
TEST_F(Loaded, S79_AModuleWithOptions) {
  KeptAfter(DOORS_TO(cuModuleLoadDataEx), [](const auto& door, const char* image) {
    CUmodule module = nullptr;
    return door(&module, image, 0U, nullptr, nullptr);
  });
}
TEST_F(Loaded, S79_AFatBinary) {
  KeptAfter(DOORS_TO(cuModuleLoadFatBinary), [](const auto& door, const char* image) {
    CUmodule module = nullptr;
    return door(&module, image);
  });
}
TEST_F(Loaded, S79_ALibrary) {
  KeptAfter(DOORS_TO(cuLibraryLoadData), [](const auto& door, const char* image) {
    CUlibrary library = nullptr;
    return door(&library, image, nullptr, nullptr, 0U, nullptr, nullptr, 0U);
  });
}
TEST_F(Loaded, S79_ALibraryOfTheRuntimes) {
  cudaLibrary_t library = nullptr;
  OK(cudaLibraryLoadData(&library, kPrints, nullptr, nullptr, 0, nullptr, nullptr, 0));
  const Tally tally("transfer");
  CopyAndSynchronize(a_, kLarge);
  DECIDED(tally, "sync.kept.printf", 1);
}

TEST_F(Unkept, S79_AnotherLimitIsNoReason) {
  OK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  const Tally tally("transfer");
  Backlog(a_);
  CopyAndSynchronize(a_, kLarge);
  DECIDED(tally, "sync.skipped", 1);
  OK(cudaDeviceSynchronize());
}

}  // namespace
}  // namespace rules
