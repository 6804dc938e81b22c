// Memory and events between two processes. The second one is this program again, started with SIM_IPC_CHILD set.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

struct Letter {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t event;
};

// The importer: waits for the exporter's event, reads, writes an answer, records the event. Its exit status is the
// verdict.
int Child() {
  const int in = std::atoi(std::getenv("SIM_IPC_CHILD"));
  Letter letter = {};
  if (read(in, &letter, sizeof letter) != static_cast<ssize_t>(sizeof letter)) {
    return 10;
  }
  RegisterKernels();
  uint8_t* shared = nullptr;
  cudaEvent_t event = nullptr;
  cudaStream_t stream = nullptr;
  if (cudaIpcOpenMemHandle(reinterpret_cast<void**>(&shared), letter.memory, cudaIpcMemLazyEnablePeerAccess) !=
      cudaSuccess) {
    return 11;
  }
  if (cudaIpcOpenEventHandle(&event, letter.event) != cudaSuccess) {
    return 12;
  }
  void* again = nullptr;
  if (cudaIpcOpenMemHandle(&again, letter.memory, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess || again != shared ||
      cudaIpcCloseMemHandle(again) != cudaSuccess) {
    return 13;
  }
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  uint8_t* mine = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&mine), 64);
  // In adversarial mode the exporter has run nothing: this wait is what makes it.
  if (cudaStreamWaitEvent(stream, event, 0) != cudaSuccess || LaunchMove(mine, shared + 1, 1, stream) != cudaSuccess) {
    return 14;
  }
  uint8_t seen = 0;
  if (cudaMemcpyAsync(&seen, mine, 1, cudaMemcpyDeviceToHost, stream) != cudaSuccess) {
    return 15;
  }
  if (seen != 7) {
    return 16;
  }
  if (LaunchFill(shared, 1, 9, stream) != cudaSuccess || cudaEventRecord(event, stream) != cudaSuccess) {
    return 17;
  }
  const char done = 'd';
  if (write(std::atoi(std::getenv("SIM_IPC_OUT")), &done, 1) != 1) {
    return 18;
  }
  char go = 0;
  if (read(in, &go, 1) != 1) {  // the exporter has seen it
    return 19;
  }
  return cudaIpcCloseMemHandle(shared) == cudaSuccess ? 0 : 20;
}

// In a constructor, before gtest has its say.
const int child_verdict = [] {
  if (std::getenv("SIM_IPC_CHILD") != nullptr) {
    std::_Exit(Child());
  }
  return 0;
}();

using IpcTest = Sim;

TEST_F(IpcTest, AnotherProcessSeesTheBytesBehindTheEvent) {
  int to_child[2];
  int from_child[2];
  ASSERT_EQ(pipe(to_child), 0);
  ASSERT_EQ(pipe(from_child), 0);
  uint8_t* exported = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&exported), 1000));
  Letter letter = {};
  OK(cudaIpcGetMemHandle(&letter.memory, exported + 100));  // interior: the handle is of the whole block
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  OK(cudaIpcGetEventHandle(&letter.event, event));
  OK(LaunchFill(exported, 1000, 7, a_));
  OK(cudaEventRecord(event, a_));
  const pid_t child = fork();
  if (child == 0) {
    setenv("SIM_IPC_CHILD", std::to_string(to_child[0]).c_str(), 1);
    setenv("SIM_IPC_OUT", std::to_string(from_child[1]).c_str(), 1);
    execl("/proc/self/exe", "ipc_child", nullptr);
    _exit(99);
  }
  ASSERT_EQ(write(to_child[1], &letter, sizeof letter), static_cast<ssize_t>(sizeof letter));
  close(from_child[1]);
  char done = 0;
  ASSERT_EQ(read(from_child[0], &done, 1), 1);
  // The other process's record: waiting for it makes that process run its kernel.
  OK(cudaStreamWaitEvent(b_, event, 0));
  OK(LaunchMove(device_, exported, 1, b_));
  OK(cudaStreamSynchronize(b_));
  EXPECT_EQ(Byte(device_), 9);
  OK(cudaEventSynchronize(event));
  OK(cudaEventQuery(event));
  ASSERT_EQ(write(to_child[1], "g", 1), 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(IpcTest, HandlesThatAreRefused) {
  cudaIpcMemHandle_t memory;
  void* opened = nullptr;
  OK(cudaIpcGetMemHandle(&memory, device_));
  RETURNS(cudaErrorDeviceUninitialized, cudaIpcOpenMemHandle(&opened, memory, cudaIpcMemLazyEnablePeerAccess));
  RETURNS(cudaErrorInvalidValue, cudaIpcGetMemHandle(&memory, pinned_));
  RETURNS(cudaErrorInvalidValue, cudaIpcCloseMemHandle(device_));
  cudaEvent_t plain = nullptr;
  cudaEvent_t shared = nullptr;
  cudaIpcEventHandle_t handle;
  OK(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
  RETURNS(cudaErrorInvalidResourceHandle, cudaIpcGetEventHandle(&handle, plain));
  RETURNS(cudaErrorInvalidValue, cudaEventCreateWithFlags(&shared, cudaEventInterprocess));
  OK(cudaEventCreateWithFlags(&shared, cudaEventInterprocess | cudaEventDisableTiming));
  OK(cudaIpcGetEventHandle(&handle, shared));
  RETURNS(cudaErrorDeviceUninitialized, cudaIpcOpenEventHandle(&plain, handle));
}

}  // namespace
}  // namespace simtest
