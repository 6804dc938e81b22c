// S22: nothing is skipped when somebody outside of this process and this device may look.
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/preload/transfer/rule_test.h"

// The other process: exports memory, then says what is in it when it is told to look.
int ExportAndWait() {
  void* memory = nullptr;
  cudaIpcMemHandle_t handle = {};
  char line[8] = {};
  uint8_t byte = 0;
  const bool ready = cudaMalloc(&memory, rules::kSmall) == cudaSuccess &&
                     cudaIpcGetMemHandle(&handle, memory) == cudaSuccess &&
                     write(STDOUT_FILENO, &handle, sizeof handle) == static_cast<ssize_t>(sizeof handle);
  if (!ready || read(STDIN_FILENO, line, 1) != 1 ||
      cudaMemcpy(&byte, memory, 1, cudaMemcpyDeviceToHost) != cudaSuccess) {
    return 1;
  }
  const bool told = write(STDOUT_FILENO, &byte, 1) == 1;
  return told && read(STDIN_FILENO, line, 1) >= 0 ? 0 : 1;  // lives until the importer is done
}

namespace rules {
namespace {

class Sharing : public Rule {
 protected:
  void ExpectKept(void* destination, const char* decision = "sync.kept.shared", size_t bytes = kSmall) {
    const Tally tally("transfer");
    Backlog(a_);
    OK(CopyUp(destination, source_.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_EQ(Pending(a_), 0);
    EXPECT_TRUE(HoldsOnly(destination, 0x11, bytes));
    DECIDED(tally, bytes == kSmall ? "h2d.promoted.small" : "h2d.promoted.large", 1);
    DECIDED(tally, decision, 1);
  }
};

TEST_F(Sharing, S22_ExportedMemory) {
  cudaIpcMemHandle_t handle;
  OK(cudaIpcGetMemHandle(&handle, device_));
  ExpectKept(device_);
}

TEST_F(Sharing, S22_AnExportedEvent) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  cudaIpcEventHandle_t handle;
  OK(cudaIpcGetEventHandle(&handle, event));
  ExpectKept(device_);
}

// Another process reads what was copied into its memory, as soon as it is told that it is there.
TEST_F(Sharing, S22_ImportedMemory) {
  int to_child[2];
  int from_child[2];
  ASSERT_EQ(pipe2(to_child, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(from_child, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
  char program[] = "/proc/self/exe";
  char role[] = "--exporter";
  char* const arguments[] = {program, role, nullptr};
  char seed[] = "SIMCUDA_SEED=0";
  char* const variables[] = {seed, nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, program, &actions, nullptr, arguments, variables), 0);
  posix_spawn_file_actions_destroy(&actions);
  cudaIpcMemHandle_t handle;
  ASSERT_EQ(read(from_child[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  void* imported = nullptr;
  OK(cudaIpcOpenMemHandle(&imported, handle, cudaIpcMemLazyEnablePeerAccess));
  const Tally tally("transfer");
  Backlog(a_);
  OK(CopyUp(imported, source_.data(), kSmall, a_));
  OK(cudaStreamSynchronize(a_));
  uint8_t seen = 0;
  ASSERT_EQ(write(to_child[1], "?", 1), 1);
  ASSERT_EQ(read(from_child[0], &seen, 1), 1);
  EXPECT_EQ(seen, 0x11);
  EXPECT_EQ(Pending(a_), 0);
  NEVER_DECIDED(tally, "sync.skipped");
  OK(cudaIpcCloseMemHandle(imported));
  close(to_child[1]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Sharing, S22_AnExportedPool) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  int file = -1;
  OK(cudaMemPoolCreate(&pool, &properties));
  OK(cudaMemPoolExportToShareableHandle(&file, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  close(file);
  ExpectKept(device_);
}

TEST_F(Sharing, S22_AnExportedPointerOfAPool) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  void* block = nullptr;
  cudaMemPoolPtrExportData data = {};
  OK(cudaMemPoolCreate(&pool, &properties));
  OK(cudaMallocFromPoolAsync(&block, kSmall, pool, a_));
  OK(cudaStreamSynchronize(a_));
  OK(cudaMemPoolExportPointer(&data, block));
  ExpectKept(block);
}

// Memory mapped by hand may be shared by calls that no hook sees.
TEST_F(Sharing, S22_MemoryMappedByHand) {
  constexpr size_t kGranule = size_t{2} << 20;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle handle = 0;
  OK(cuMemAddressReserve(&range, 2 * kGranule, 0, 0, 0));
  OK(cuMemCreate(&handle, kGranule, &properties, 0));
  OK(cuMemMap(range, kGranule, 0, handle, 0));
  OK(cuMemSetAccess(range, kGranule, &access, 1));
  ExpectKept(reinterpret_cast<void*>(range + kGranule - kSmall));
  // Of the reserved range only this part is mapped.
  const Tally tally("transfer");
  RETURNS(cudaErrorInvalidValue,
          CopyUp(reinterpret_cast<void*>(range + kGranule - kSmall + 1), source_.data(), kSmall, a_));
  RETURNS(cudaErrorInvalidValue, cudaGetLastError());
  NEVER_DECIDED(tally, "h2d.promoted");
  // Other memory of the process is not concerned.
  CopyAndSynchronize(a_);
  DECIDED(tally, "sync.skipped", 1);
}

TEST_F(Sharing, S22_SynchronousMemory) {
  const unsigned on = 1;
  OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, reinterpret_cast<CUdeviceptr>(device_)));
  const Tally tally("transfer");
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  EXPECT_TRUE(HoldsOnly(device_, 0x11, kSmall));  // as the attribute says, before any synchronization
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(Pending(a_), 0);
  NEVER_DECIDED(tally, "sync.skipped");
}

class Rdma : public Sharing {
 protected:
  void Load(const char* library) { ASSERT_NE(dlopen(library, RTLD_NOW), nullptr) << dlerror(); }
  // The list of what is loaded is not walked at every copy, so the engine hears of a transport a moment later.
  void ExpectKeptSoon(const char* decision, size_t bytes) {
    const Tally tally("transfer");
    while (Engine() && tally.Of(decision) == 0) {
      OK(CopyUp(device_, source_.data(), bytes, a_));
      OK(cudaStreamSynchronize(a_));
    }
    ExpectKept(device_, decision, bytes);
  }
};

// UCX loads its modules when it is initialized. A program that is merely linked to it has not.
TEST_F(Rdma, S22_UcxIsInUse) {
  Load(FAKE_UCX_MODULE);
  ExpectKeptSoon("sync.kept.rdma", kLarge);
}
TEST_F(Rdma, S22_UcxIsLinkedAndNotUsed) {
  Load(FAKE_UCX);
  DeferOnA();
}

TEST_F(Rdma, S22_MpiIsInUseOnceItIsInitialized) {
  void* const mpi = dlopen(FAKE_MPI, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(mpi, nullptr) << dlerror();
  const Tally tally("transfer");
  CopyAndSynchronize(a_, kLarge);
  DECIDED(tally, "sync.skipped", 1);
  auto* const initialize = reinterpret_cast<int (*)(int*, char***)>(dlsym(mpi, "MPI_Init"));
  ASSERT_NE(initialize, nullptr);
  EXPECT_EQ(initialize(nullptr, nullptr), 0);
  ExpectKept(device_, "sync.kept.rdma");  // nothing was loaded meanwhile
}

TEST_F(Rdma, S22_ALibraryThatUsesVerbsItself) {
  Load(FAKE_VERBS_USER);
  ExpectKeptSoon("sync.kept.rdma", kLarge);
}
// What it sends lies behind a kernel of its own.
TEST_F(Rdma, S22_NcclUsesVerbsInTheOrderOfAStream) {
  Load(FAKE_NCCL_VERBS);
  DeferOnA();
}

// GPUDirect Storage reads and writes device memory beside every stream, from the first file on that is registered.
TEST_F(Rdma, S22_AFileThatIsReadAndWrittenByTheDisk) {
  struct CuFileError {
    int error;
    int cuda_error;
  };
  ASSERT_NE(dlopen(FAKE_CUFILE, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  auto* const registers = reinterpret_cast<CuFileError (*)(void**, void*)>(dlsym(RTLD_DEFAULT, "cuFileHandleRegister"));
  ASSERT_NE(registers, nullptr);
  DeferOnA();
  void* handle = nullptr;
  const CuFileError answer = registers(&handle, reinterpret_cast<void*>(0x1234));
  EXPECT_EQ(handle, reinterpret_cast<void*>(0x1234));
  EXPECT_EQ(answer.error, 7);
  EXPECT_EQ(answer.cuda_error, 0x1234);
  EXPECT_EQ(Pending(a_), 0);  // what was deferred is settled
  ExpectKept(device_);
}
// (a small copy does not look every time)
TEST_F(Rdma, S22_AnNvshmemTransportIsLoadedLater) {
  DeferOnA();
  Load(FAKE_NVSHMEM);
  ExpectKeptSoon("sync.kept.rdma", kLarge);
}

// Small copies ask a thread of the engine's to look, and hear of it later; they are not asked to wait.
class RdmaInBackground : public Rdma {
 protected:
  RdmaInBackground() { StartWith("SLIPSTREAM_TRANSFER_START", "background"); }
  void SetUp() override {
    Rdma::SetUp();
    // Staging memory is there when a copy is promoted.
    const Tally tally("transfer");
    while (Engine() && tally.Of("h2d.promoted.small") == 0) {
      OK(CopyUp(device_, source_.data(), kSmall, a_));
      OK(cudaStreamSynchronize(a_));
    }
  }
};
TEST_F(RdmaInBackground, S22_ATransportIsFoundBySmallCopies) {
  Load(FAKE_UCX_MODULE);
  ExpectKeptSoon("sync.kept.rdma", kSmall);  // within a fifth of a second, and what the thread takes
}

// S64: NCCL's proxy thread moves the data of a running collective by copies of its own, which nobody sees.
class NcclByProxy : public Sharing {
 protected:
  NcclByProxy() { setenv("NCCL_P2P_USE_CUDA_MEMCPY", "1", 1); }
};
TEST_F(NcclByProxy, S64_TheSynchronizationIsMade) { ExpectKept(device_, "sync.kept.threads"); }

class NcclByKernels : public Sharing {
 protected:
  NcclByKernels() { setenv("NCCL_P2P_USE_CUDA_MEMCPY", "0", 1); }
};
TEST_F(NcclByKernels, S64_OrNot) { DeferOnA(); }

class NcclLater : public Rdma {};
TEST_F(NcclLater, S64_TheProgramSetsItAndLoadsNccl) {
  DeferOnA();
  setenv("NCCL_P2P_USE_CUDA_MEMCPY", "1", 1);
  Load(FAKE_NCCL);
  ExpectKeptSoon("sync.kept.threads", kLarge);
}

class RdmaAllowed : public Rdma {
 protected:
  RdmaAllowed() { StartWith("SLIPSTREAM_TRANSFER_SKIP_WITH_RDMA", "true"); }
};
TEST_F(RdmaAllowed, S22_UnlessThePolicyAllowsIt) {
  Load(FAKE_UCX_MODULE);
  DeferOnA();
}
TEST_F(RdmaAllowed, S64_ThatIsNotAboutNccl) {
  Load(FAKE_UCX_MODULE);
  DeferOnA();
  setenv("NCCL_P2P_USE_CUDA_MEMCPY", "1", 1);
  Load(FAKE_NCCL);
  ExpectKeptSoon("sync.kept.threads", kLarge);
}

}  // namespace
}  // namespace rules
