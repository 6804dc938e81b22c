// S36, S36b: memory that the program has freed is there for whoever needs it. S37: captures.
#include <dlfcn.h>

#include <future>
#include <string>
#include <thread>

#include "tests/preload/allocator/pool_test.h"

namespace rules {
namespace {

class Pressure : public Pool {};

TEST_F(Pressure, S36_IdleMemoryIsGivenBackForALargerBlock) {
  for (int i = 0; i < 3; ++i) {
    OK(cudaFree(Malloc((40 + 10 * static_cast<size_t>(i)) * kMiB)));
  }
  LeaveFree(200 * kMiB);
  const Tally tally("allocator");
  uint8_t* const memory = Malloc(180 * kMiB);
  OK(cudaMemset(memory, 0x31, 180 * kMiB));
  // A failed attempt on the way is nobody's error.
  RETURNS(cudaSuccess, cudaGetLastError());
  OK(cudaFree(memory));
}

TEST_F(Pressure, S36_WhatIsPendingIsGivenBackToo) {
  uint8_t* const old = Malloc(100 * kMiB);
  LeaveFree(120 * kMiB);
  Backlog(a_);
  OK(LaunchFill(old, 4096, 0x11, a_));
  OK(cudaFree(old));
  (void)Malloc(200 * kMiB);
}

// Memory that does not come from cudaMalloc is not to be missing because of what is idle.
TEST_F(Pressure, S36others_ForOtherAllocations) {
  IdleAndLittleElse();
  void* pitched = nullptr;
  size_t pitch = 0;
  RETURNS(cudaSuccess, cudaMallocPitch(&pitched, &pitch, kMiB, 150));
  RETURNS(cudaSuccess, cudaPeekAtLastError());
  OK(cudaFree(pitched));
  OK(cudaFree(ballast_));
  IdleAndLittleElse();
  void* ordered = nullptr;
  RETURNS(cudaSuccess, cudaMallocAsync(&ordered, 150 * kMiB, a_));
  RETURNS(cudaSuccess, cudaPeekAtLastError());
  // What is too much for the device stays so.
  void* more = nullptr;
  RETURNS(cudaErrorMemoryAllocation, cudaMallocAsync(&more, size_t{2} << 30, a_));
  RETURNS(cudaErrorMemoryAllocation, cudaGetLastError());
}

// The first call of a thread finds the pool without knowing a device.
TEST_F(Pressure, S36others_ForTheFirstCallOfAThread) {
  IdleAndLittleElse();
  std::thread([] {
    void* memory = nullptr;
    RETURNS(cudaSuccess, cudaMalloc(&memory, 150 * kMiB));
    RETURNS(cudaSuccess, cudaPeekAtLastError());
  }).join();
}

// The ways by which a program comes to a function of the driver's.
using Create = decltype(&cuMemCreate);
Create Looked() {
  return reinterpret_cast<Create>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), "cuMemCreate"));
}
Create Asked() {
  void* function = nullptr;
  EXPECT_EQ(cuGetProcAddress_v2("cuMemCreate", &function, 13000, 0, nullptr), CUDA_SUCCESS);
  return reinterpret_cast<Create>(function);
}
Create AskedOfTheRuntime() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemCreate", &function, 12000, cudaEnableDefault, &found), cudaSuccess);
  return reinterpret_cast<Create>(function);
}

// Physical memory, as PyTorch's expandable segments and other virtual memory get it, whatever the level of
// interception.
TEST_F(Pressure, S36others_ForPhysicalMemory) {
  CUmemAllocationProp of_device = {};
  of_device.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  of_device.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const auto ways = {Create{&cuMemCreate}, Looked(), Asked(), AskedOfTheRuntime()};
  for (const Create create : ways) {
    SCOPED_TRACE(std::to_string(&create - ways.begin()));
    ASSERT_NE(create, nullptr);
    IdleAndLittleElse();
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(create(&handle, 150 * kMiB, &of_device, 0), CUDA_SUCCESS);
    RETURNS(cudaSuccess, cudaPeekAtLastError());
    // What is too much for the device stays so.
    CUmemGenericAllocationHandle more = 0;
    EXPECT_EQ(create(&more, size_t{2} << 30, &of_device, 0), CUDA_ERROR_OUT_OF_MEMORY);
    RETURNS(cudaSuccess, cudaPeekAtLastError());
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    OK(cudaFree(ballast_));
  }
}

// A graph with memory of its own takes it when it is instantiated, uploaded or launched.
TEST_F(Pressure, S36others_ForAGraphsOwnMemory) {
  IdleAndLittleElse();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  void* inside = nullptr;
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal));
  OK(cudaMallocAsync(&inside, 150 * kMiB, a_));
  OK(cudaMemsetAsync(inside, 7, kMiB, a_));
  OK(cudaFreeAsync(inside, a_));
  OK(cudaStreamEndCapture(a_, &graph));
  RETURNS(cudaSuccess, cudaGraphInstantiateWithFlags(&executable, graph, 0));
  RETURNS(cudaSuccess, cudaGraphLaunch(executable, a_));
  RETURNS(cudaSuccess, cudaStreamSynchronize(a_));
  RETURNS(cudaSuccess, cudaPeekAtLastError());
  OK(cudaGraphExecDestroy(executable));
  OK(cudaGraphDestroy(graph));
}

// The device's heap is taken at the first launch after its size was set: so much is left to the driver from then on.
TEST_F(Pressure, S36others_ForTheDevicesHeap) {
  IdleAndLittleElse();
  OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 150 * kMiB));
  EXPECT_GE(DriverFree(), 150 * kMiB);
  OK(cudaFree(Malloc(100 * kMiB)));
  EXPECT_GE(DriverFree(), 150 * kMiB) << "it is idle again";
}

// The program's own way out of "out of memory" is what it was: the error, cleared by asking, and smaller steps.
TEST_F(Pressure, S36_OutOfMemory) {
  void* memory = nullptr;
  RETURNS(cudaErrorMemoryAllocation, cudaMalloc(&memory, size_t{2} << 30));
  RETURNS(cudaErrorMemoryAllocation, cudaGetLastError());
  RETURNS(cudaSuccess, cudaGetLastError());
  uint8_t* const all = Malloc(900 * kMiB);
  RETURNS(cudaErrorMemoryAllocation, cudaMalloc(&memory, 200 * kMiB));
  RETURNS(cudaErrorMemoryAllocation, cudaGetLastError());
  OK(cudaFree(all));
  OK(cudaFree(Malloc(200 * kMiB)));
  OK(cudaFree(Malloc(900 * kMiB)));
}

// Others, who do not come through the library, get memory at once up to what the pool may keep...
TEST_F(Pressure, S36cap_TheRestIsTheDriversAtOnce) {
  std::vector<uint8_t*> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(Malloc(100 * kMiB));
  }
  for (uint8_t* const block : blocks) {
    OK(cudaFree(block));
  }
  EXPECT_GE(DriverFree(), 700 * kMiB);
}

class Capped : public Pool {
 protected:
  Capped() { StartWith("SLIPSTREAM_ALLOCATOR_MAX_IDLE", "64MiB"); }
};

TEST_F(Capped, S36cap_ByThePolicy) {
  uint8_t* const first = Malloc(60 * kMiB);
  uint8_t* const second = Malloc(60 * kMiB);
  const size_t before = DriverFree();
  const Tally tally("allocator");
  OK(cudaFree(first));
  OK(cudaFree(second));
  EXPECT_GE(DriverFree(), before + 56 * kMiB);
  DECIDED(tally, "parked", 1);
  DECIDED(tally, "freed.cap", 1);
}

class Decaying : public Pool {
 protected:
  Decaying() { StartWith("SLIPSTREAM_ALLOCATOR_DECAY", "1"); }
};

// ...and all of it within seconds.
TEST_F(Decaying, S36decay_AllOfItIsTheDriversSoon) {
  uint8_t* const memory = Malloc(64 * kMiB);
  const size_t before = DriverFree();
  OK(cudaFree(memory));
  EXPECT_TRUE(DriverHasSoon(before + 64 * kMiB));
  OK(cudaFree(Malloc(64 * kMiB)));
}

// Memory that is taken in advance is there for the program, and nobody's when others need it.
class PreReserving : public Pool {
 protected:
  static constexpr size_t kBlocks = 5;
  static constexpr size_t kBytes = 20 * kMiB;
  PreReserving() {
    StartWith("SLIPSTREAM_ALLOCATOR_PRE_RESERVE", "101MiB");
    StartWith("SLIPSTREAM_ALLOCATOR_DECAY", "1");
  }
  // In MiB, of which a few bytes of SetUp's may be one moment more and the next moment less.
  static size_t Idle() { return (Free() - DriverFree()) / kMiB; }
  static size_t MadeInAdvance() { return Engine() ? kBlocks * kBytes / kMiB : 0; }
};

TEST_F(PreReserving, Policy_ServesBlocksMadeInAdvance) {
  // SetUp has allocated, so they are there.
  EXPECT_EQ(Idle(), MadeInAdvance());
  const Tally tally("allocator");
  std::vector<uint8_t*> blocks;
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(Malloc(kBytes));
    OK(cudaMemset(blocks.back(), 0x41, kBytes));
  }
  EXPECT_EQ(Idle(), 0U);
  DECIDED(tally, "reused", kBlocks);
  NEVER_DECIDED(tally, "reserved");
  (void)Malloc(kBytes);
  DECIDED(tally, "grown", 1);
}

// They do not grow old before they are used: only what was freed goes, though it lies beside them.
TEST_F(PreReserving, Policy_WhatIsMadeInAdvanceStays) {
  uint8_t* const other = Malloc(64 * kMiB);
  const size_t before = DriverFree();
  OK(cudaFree(other));
  EXPECT_TRUE(DriverHasSoon(before + 64 * kMiB));
  EXPECT_EQ(Idle(), MadeInAdvance());
}

TEST_F(PreReserving, S36_WhatIsMadeInAdvanceIsGivenBackForALargerBlock) {
  const size_t bytes = Free() - 20 * kMiB;
  ASSERT_TRUE(!Engine() || bytes > DriverFree());
  (void)Malloc(bytes);
}

TEST_F(PreReserving, S35_AgainAfterAReset) {
  OK(cudaDeviceReset());
  const Tally tally("allocator");
  (void)Malloc(kBlock);  // makes the context
  (void)Malloc(kBlock);
  DECIDED(tally, "reserved", kBlocks);
}

class PreReservingMuch : public Pool {
 protected:
  PreReservingMuch() { StartWith("SLIPSTREAM_ALLOCATOR_PRE_RESERVE", "1024GiB"); }
};

// A quarter of the device, as all that is idle.
TEST_F(PreReservingMuch, S36cap_OfWhatIsMadeInAdvance) {
  const size_t idle = Free() - DriverFree();
  EXPECT_LE(idle, 256 * kMiB);
  EXPECT_GE(idle, Engine() ? 236 * kMiB : 0);
}

class Reserving : public Pool {
 protected:
  Reserving() { StartWith("SLIPSTREAM_ALLOCATOR_KEEP_FREE", "256MiB"); }
};

TEST_F(Reserving, S36reserve_NothingIsKeptWhenTheDriverHasLittle) {
  uint8_t* const memory = Malloc(100 * kMiB);
  LeaveFree(100 * kMiB);
  const size_t before = DriverFree();
  const Tally tally("allocator");
  OK(cudaFree(memory));
  EXPECT_GE(DriverFree(), before + 100 * kMiB);
  DECIDED(tally, "freed.reserve", 1);
}

// What is idle already is given back when the driver runs low.
TEST_F(Reserving, S36reserve_IdleMemoryIsGivenBackWhenTheDriverRunsLow) {
  OK(cudaFree(Malloc(100 * kMiB)));
  ballast_ = Malloc(700 * kMiB);
  EXPECT_TRUE(DriverHasSoon(256 * kMiB));
}

class Captures : public Pool {
 protected:
  // A capture of another thread's, during which this one allocates and frees.
  void Around(cudaStreamCaptureMode mode) {
    uint8_t* const idle = Malloc(kBlock);
    uint8_t* const live = Malloc(2 * kBlock);
    OK(cudaFree(idle));
    std::promise<void> captures;
    std::promise<void> done;
    cudaGraph_t graph = nullptr;
    std::thread other([&] {
      EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
      EXPECT_EQ(cudaStreamBeginCapture(a_, mode), cudaSuccess);
      EXPECT_EQ(cudaMemsetAsync(scratch_, 0x51, 64, a_), cudaSuccess);
      captures.set_value();
      done.get_future().wait();
      EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
    });
    captures.get_future().wait();
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, kBlock), cudaSuccess);
    EXPECT_EQ(cudaFree(live), cudaSuccess);
    done.set_value();
    other.join();
    ASSERT_NE(graph, nullptr);
    Run(graph, b_);
    EXPECT_TRUE(HoldsOnly(scratch_, 0x51, 64));
  }
  static void Run(cudaGraph_t graph, cudaStream_t stream) {
    cudaGraphExec_t executable = nullptr;
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
  }
};

TEST_F(Captures, S37_RelaxedElsewhere) { Around(cudaStreamCaptureModeRelaxed); }

TEST_F(Captures, S37_ThreadLocalElsewhere) { Around(cudaStreamCaptureModeThreadLocal); }

TEST_F(Captures, S37_InTheCapturingThread) {
  uint8_t* const live = Malloc(kBlock);
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  OK(cudaMemsetAsync(scratch_, 0x52, 64, a_));
  uint8_t* const memory = Malloc(kBlock);
  OK(cudaMemsetAsync(memory, 0x53, kBlock, a_));
  const Tally tally("allocator");
  OK(cudaFree(live));
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(a_, &graph));
  Run(graph, a_);
  EXPECT_TRUE(HoldsOnly(memory, 0x53, kBlock));
  DECIDED(tally, "freed.capture", 1);
}

// What was freed before a capture is there for an allocation in it: PyTorch empties its cache right in front of one.
TEST_F(Captures, S36_IdleMemoryIsGivenBackDuringACapture) {
  IdleAndLittleElse();
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  OK(cudaMemsetAsync(scratch_, 0x54, 64, a_));
  void* memory = nullptr;
  RETURNS(cudaSuccess, cudaMalloc(&memory, 150 * kMiB));
  RETURNS(cudaSuccess, cudaPeekAtLastError());
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(a_, &graph));
  Run(graph, a_);
  EXPECT_TRUE(HoldsOnly(scratch_, 0x54, 64));
}

// The same for a thread beside one that captures.
TEST_F(Captures, S36_IdleMemoryIsGivenBackBesideACapture) {
  IdleAndLittleElse();
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal));
  OK(cudaMemsetAsync(scratch_, 0x55, 64, a_));
  OnAnotherThread([] {
    void* memory = nullptr;
    RETURNS(cudaSuccess, cudaMalloc(&memory, 150 * kMiB));
    RETURNS(cudaSuccess, cudaPeekAtLastError());
  });
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(a_, &graph));
}

// A capture in global mode refuses the call and is broken by it, with the library as without.
TEST_F(Captures, S37_AGlobalCaptureElsewhere) {
  OK(cudaFree(Malloc(kBlock)));
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  OnAnotherThread([&] {
    void* memory = nullptr;
    RETURNS(cudaErrorStreamCaptureUnsupported, cudaMalloc(&memory, kBlock));
  });
  cudaGraph_t graph = nullptr;
  RETURNS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(a_, &graph));
}

class Off : public Pool {
 protected:
  Off() { StartWith("SLIPSTREAM_ALLOCATOR_MODE", "off"); }
};

TEST_F(Off, Policy_OffIsTheProgramsOwnCalls) {
  uint8_t* const memory = Malloc(kBlock);
  const size_t before = DriverFree();
  const Tally tally("allocator");
  OK(cudaFree(memory));
  EXPECT_GE(DriverFree(), before + kBlock);
  NEVER_DECIDED(tally, "");
}

class WithoutTransfer : public Pool {
 protected:
  WithoutTransfer() {
    StartWith("SLIPSTREAM_TRANSFER_H2D", "off");
    StartWith("SLIPSTREAM_TRANSFER_D2H", "off");
  }
};

// The pool does not need the other engine's service, only its knowledge.
TEST_F(WithoutTransfer, Policy_ServesWithoutTransfer) {
  std::vector<uint8_t> source(4096, 0x61);
  uint8_t* const memory = Malloc(kBlock);
  const Tally pool("allocator");
  const Tally transfer("transfer");
  OK(cudaMemcpyAsync(memory, source.data(), source.size(), cudaMemcpyHostToDevice, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(Pending(a_), 0);
  FreeWhenIdle(memory);
  (void)Malloc(kBlock);
  DECIDED(pool, "parked", 1);
  DECIDED(pool, "reused", 1);
  NEVER_DECIDED(transfer, "h2d.promoted");
  NEVER_DECIDED(transfer, "sync.skipped");
}

}  // namespace
}  // namespace rules
