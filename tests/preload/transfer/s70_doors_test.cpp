// S70: what is deferred is settled before a function of the driver's that could show it, by whatever door the program
// comes to it. S71: what is submitted by such a door ends a copy's claim to the next synchronization.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/preload/rules/doors.h"
#include "tests/preload/transfer/rule_test.h"
#include "tracer/base/hook_id.h"

namespace rules {
namespace {

class Doors : public Rule {
 protected:
  void SetUp() override {
    Rule::SetUp();
    OK(cudaEventCreate(&event_));
    OK(cudaEventCreate(&later_));
  }

  // After a call by each door all that the copy's synchronization had to wait for is done. `before` is what the program
  // does on the stream in front of the copy.
  template <typename Function>
  void SettledBy(
      const std::vector<Door<Function>>& doors, const std::function<CUresult(const Door<Function>&)>& call,
      const std::function<void()>& before = [] {}) {
    for (const Door<Function>& door : doors) {
      SCOPED_TRACE(door.how);
      Backlog(a_);
      before();
      CopyAndSynchronize(a_);
      EXPECT_EQ(call(door), CUDA_SUCCESS);
      EXPECT_EQ(Pending(a_), 0);
      EXPECT_TRUE(HoldsOnly(device_, 0x11, kSmall));
      OK(cudaDeviceSynchronize());
    }
  }

  cudaEvent_t event_ = nullptr;
  cudaEvent_t later_ = nullptr;
};

#if !RULES_STATIC
// Each function of the runtime's that is hooked is the linked one for whoever looks it up by its name.
TEST_F(Doors, S70_TheRuntimesFunctionsByTheirNames) {
  int version = 0;
  OK(cudaRuntimeGetVersion(&version));
  const std::string library = "libcudart.so." + std::to_string(version / 1000);
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  int seen = 0;
  for (size_t index = 0; index < slipstream::tracer::kHookCount; ++index) {
    const auto id = static_cast<slipstream::tracer::HookId>(index);
    const char* const name = slipstream::tracer::NameOf(id);
    if (slipstream::tracer::IsOfDriver(id) || name[0] == '_') continue;
    void* const found = dlsym(handle, name);
    EXPECT_EQ(found, dlsym(RTLD_DEFAULT, name)) << name;
    seen += found != nullptr ? 1 : 0;
  }
  EXPECT_GT(seen, 150);
}
#endif

// ---- questions

TEST_F(Doors, S70_AnEventsQuery) {
  SettledBy<CUresult(CUevent)>(
      DOORS_TO(cuEventQuery), [this](const auto& query) { return query(event_); },
      [this] { OK(cudaEventRecord(event_, a_)); });
}
TEST_F(Doors, S70_AStreamsQuery) {
  SettledBy<CUresult(CUstream)>(DOORS_TO(cuStreamQuery), [this](const auto& query) { return query(a_); });
}
TEST_F(Doors, S70_TheTimeBetweenEvents) {
  SettledBy<decltype(::cuEventElapsedTime)>(
      DOORS_TO(cuEventElapsedTime),
      [this](const auto& ask) {
        float milliseconds = -1;
        const CUresult result = ask(&milliseconds, event_, later_);
        EXPECT_GE(milliseconds, 0);
        return result;
      },
      [this] {
        OK(cudaEventRecord(event_, a_));
        OK(cudaEventRecord(later_, a_));
      });
}
// One that the driver recorded is known as the runtime's are: one behind the copy is not waited for.
TEST_F(Doors, S70_AnEventThatTheDriverRecorded) {
  for (const auto& record : DOORS_TO(cuEventRecord)) {
    SCOPED_TRACE(record.how);
    Backlog(a_);
    EXPECT_EQ(record(event_, a_), CUDA_SUCCESS);
    CopyAndSynchronize(a_);
    OK(cudaEventQuery(event_));
    EXPECT_EQ(Pending(a_), 0);
    CopyAndSynchronize(a_);
    OK(cudaDeviceSynchronize());
    Backlog(b_);
    EXPECT_EQ(record(later_, b_), CUDA_SUCCESS);
    RETURNS(cudaErrorNotReady, cudaEventQuery(later_));
    (void)cudaGetLastError();
    OK(cudaDeviceSynchronize());
  }
}

// ---- what a kernel in front of the copy may still use

TEST_F(Doors, S70_ATexture) {
  SettledBy<CUresult(CUtexObject)>(DOORS_TO(cuTexObjectDestroy), [](const auto& end) { return end(0x100); });
}
TEST_F(Doors, S70_ASurface) {
  SettledBy<CUresult(CUsurfObject)>(DOORS_TO(cuSurfObjectDestroy), [](const auto& end) { return end(0x100); });
}
TEST_F(Doors, S70_AModule) {
  SettledBy<CUresult(CUmodule)>(DOORS_TO(cuModuleUnload), [](const auto& end) {
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, ".version 8.0"), CUDA_SUCCESS);
    return end(module);
  });
}
TEST_F(Doors, S70_ALibraryOfCode) {
  SettledBy<CUresult(CUlibrary)>(DOORS_TO(cuLibraryUnload), [](const auto& end) {
    CUlibrary library = nullptr;
    EXPECT_EQ(cuLibraryLoadData(&library, ".version 8.0", nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
    return end(library);
  });
}

// ---- synchronizations

TEST_F(Doors, S70_AnotherStreamsSynchronization) {
  SettledBy<CUresult(CUstream)>(DOORS_TO(cuStreamSynchronize), [this](const auto& wait) { return wait(b_); });
}
TEST_F(Doors, S70_TheStreamsOwnSynchronization) {
  SettledBy<CUresult(CUstream)>(DOORS_TO(cuStreamSynchronize), [this](const auto& wait) { return wait(a_); });
}
TEST_F(Doors, S70_AnEventsSynchronization) {
  OK(cudaEventRecord(event_, b_));
  SettledBy<CUresult(CUevent)>(DOORS_TO(cuEventSynchronize), [this](const auto& wait) { return wait(event_); });
}
TEST_F(Doors, S70_ADevicesSynchronization) {
  SettledBy<CUresult()>({{"linked", &cuCtxSynchronize}}, [](const auto& wait) { return wait(); });
}
// A promoted copy is the runtime's, and its synchronization is too: the driver's is the program's own.
TEST_F(Doors, S70_ASynchronizationOfTheDriverIsMade) {
  const char* const level = std::getenv("SLIPSTREAM_INTERCEPT_LEVEL");
  if (level != nullptr && std::string(level) == "driver") GTEST_SKIP() << "there it may be a copy's";
  for (const auto& wait : DOORS_TO(cuStreamSynchronize)) {
    SCOPED_TRACE(wait.how);
    Backlog(a_);
    OK(CopyUp(device_, source_.data(), kSmall, a_));
    EXPECT_EQ(wait(a_), CUDA_SUCCESS);
    EXPECT_EQ(Pending(a_), 0);
  }
}

// ---- frees, and what is unmapped

TEST_F(Doors, S70_AFree) {
  SettledBy<decltype(::cuMemFree)>(DOORS_TO(cuMemFree), [](const auto& free) {
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAlloc(&memory, kSmall), CUDA_SUCCESS);
    return free(memory);
  });
}
TEST_F(Doors, S70_AFreeOfPinnedMemory) {
  SettledBy<CUresult(void*)>(DOORS_TO(cuMemFreeHost), [](const auto& free) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMallocHost(&memory, kSmall), cudaSuccess);
    return free(memory);
  });
}
TEST_F(Doors, S70_MemoryThatIsUnmapped) {
  constexpr size_t kGranule = size_t{2} << 20;
  CUmemAllocationProp of_device = {};
  of_device.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  of_device.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemAccessDesc access = {of_device.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  for (const auto& unmap : DOORS_TO(cuMemUnmap)) {
    SCOPED_TRACE(unmap.how);
    CUdeviceptr range = 0;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemAddressReserve(&range, kGranule, 0, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemCreate(&handle, kGranule, &of_device, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemMap(range, kGranule, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemSetAccess(range, kGranule, &access, 1), CUDA_SUCCESS);
    OK(cudaDeviceSynchronize());
    // A kernel in front of the copy uses the mapping, and is over when the copy has been waited for.
    Backlog(a_);
    OK(simtest::LaunchFill(reinterpret_cast<void*>(range), kSmall, 3, a_));
    CopyAndSynchronize(a_);
    EXPECT_EQ(unmap(range, kGranule), CUDA_SUCCESS);
    OK(cudaDeviceSynchronize());  // else an illegal address
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  }
}

// ---- memory and work that are shared

// Once something is shared no wait is deferred any more, so a process tries one door.
class SharingByDoors : public Doors, public ::testing::WithParamInterface<size_t> {
 protected:
  template <typename Function>
  static std::vector<Door<Function>> One(const std::vector<Door<Function>>& doors) {
    return {doors.at(GetParam())};
  }
};
INSTANTIATE_TEST_SUITE_P(Doors, SharingByDoors, ::testing::Range<size_t>(0, 4));

TEST_P(SharingByDoors, S70_ExportedMemory) {
  SettledBy<decltype(::cuIpcGetMemHandle)>(One(DOORS_TO(cuIpcGetMemHandle)), [this](const auto& share) {
    CUipcMemHandle handle = {};
    return share(&handle, reinterpret_cast<CUdeviceptr>(device_));
  });
}
TEST_P(SharingByDoors, S70_MemoryThatIsExportedAsADescriptor) {
  constexpr size_t kGranule = size_t{2} << 20;
  CUmemAllocationProp shareable = {};
  shareable.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  shareable.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  shareable.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, kGranule, &shareable, 0), CUDA_SUCCESS);
  SettledBy<decltype(::cuMemExportToShareableHandle)>(
      One(DOORS_TO(cuMemExportToShareableHandle)), [handle](const auto& share) {
        int descriptor = -1;
        return share(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
      });
}

// ---- what must be known before a wait is deferred

TEST_F(Doors, S70_HostCodeThatTheDriverEnqueued) {
  static std::atomic<int> g_ran{0};
  for (const auto& enqueue : DOORS_TO(cuLaunchHostFunc)) {
    SCOPED_TRACE(enqueue.how);
    g_ran = 0;
    Backlog(a_);
    EXPECT_EQ(enqueue(
                  a_, [](void*) { g_ran = 1; }, nullptr),
              CUDA_SUCCESS);
    CopyAndSynchronize(a_);
    EXPECT_EQ(g_ran, 1);
    OK(cudaDeviceSynchronize());
  }
}
TEST_F(Doors, S70_ACaptureThatTheDriverBeginsStaysWhole) {
  for (const auto& begin : DOORS_TO(cuStreamBeginCapture)) {
    SCOPED_TRACE(begin.how);
    EXPECT_EQ(begin(a_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    OK(simtest::LaunchFill(scratch_, kSmall, 1, a_));
    Backlog(b_);
    OK(CopyUp(device_, source_.data(), kSmall, b_));
    OK(cudaStreamSynchronize(b_));
    EXPECT_EQ(Pending(b_), 0);
    cudaGraph_t graph = nullptr;
    OK(cudaStreamEndCapture(a_, &graph));
    EXPECT_NE(graph, nullptr);
  }
}

// ---- S71

TEST_F(Doors, S71_ALaunchByTheDriver) {
  cudaFunction_t fill = nullptr;
  OK(cudaGetFuncBySymbol(&fill, simtest::Address(&simtest::Fill)));
  for (const auto& launch : DOORS_TO(cuLaunchKernel)) {
    SCOPED_TRACE(launch.how);
    OK(CopyUp(device_, source_.data(), kSmall, a_));
    void* memory = scratch_;
    size_t bytes = 64;
    int value = 1;
    void* arguments[] = {&memory, &bytes, &value};
    for (int i = 0; i < 64; ++i) {
      EXPECT_EQ(launch(fill, 1, 1, 1, 1, 1, 1, 0, a_, arguments, nullptr), CUDA_SUCCESS);
    }
    // The program's own synchronization, which is not the copy's.
    OK(cudaStreamSynchronize(a_));
    EXPECT_EQ(Pending(a_), 0);
  }
}
TEST_F(Doors, S71_AMemsetByTheDriver) {
  for (const auto& set : DOORS_TO(cuMemsetD8Async)) {
    SCOPED_TRACE(set.how);
    Backlog(a_);
    OK(CopyUp(device_, source_.data(), kSmall, a_));
    EXPECT_EQ(set(reinterpret_cast<CUdeviceptr>(other_), 7, kSmall, a_), CUDA_SUCCESS);
    OK(cudaStreamSynchronize(a_));
    EXPECT_EQ(Pending(a_), 0);
  }
}

}  // namespace
}  // namespace rules
