// The process around the simulator: fork, environment, counts at exit, idle watch, timed mode. Children that need their
// own environment are this program again.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

// ---- what the children do; the result is their exit status
int Allocate(int times) {
  int last = 0;
  for (int i = 0; i < times; ++i) {
    void* block = nullptr;
    last = cudaMalloc(&block, 1 << 20);
  }
  return last;
}

// Waits for its own host function without calling CUDA again.
int WaitForOwnHostFunction() {
  std::atomic<bool> ran{false};
  if (cudaLaunchHostFunc(
          nullptr, [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }, &ran) != cudaSuccess) {
    return 2;
  }
  const auto start = Clock::now();
  while (!ran.load()) {
    if (Milliseconds(start) > 20000) {
      return 3;
    }
    std::this_thread::yield();
  }
  return 0;
}

void Gate() {}  // only an address to launch

// Two kernels of 150 ms on one stream, a copy of 210 ms beside them; all of it behind a kernel of 450 ms, so that the
// device has its work in time however slowly a busy host submits it.
int Timed() {
  simRegisterKernel(
      Address(&Fill), "slow", [](const simLaunch*, void**) {}, nullptr, 0, 150000000);
  simRegisterKernel(
      Address(&Gate), "gate", [](const simLaunch*, void**) {}, nullptr, 0, 450000000);
  void* device = nullptr;
  void* pinned = nullptr;
  cudaStream_t compute = nullptr;
  cudaStream_t copy = nullptr;
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  const size_t bytes = size_t{2} << 20;  // at 0.01 GB/s: 210 ms
  if (cudaMalloc(&device, bytes) != cudaSuccess || cudaMallocHost(&pinned, bytes) != cudaSuccess ||
      cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking) != cudaSuccess ||
      cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking) != cudaSuccess ||
      cudaEventCreate(&start) != cudaSuccess || cudaEventCreate(&end) != cudaSuccess) {
    return 2;
  }
  const auto begin = Clock::now();
  cudaLaunchKernel(Address(&Gate), dim3(1), dim3(1), nullptr, 0, compute);
  cudaEventRecord(start, compute);
  cudaStreamWaitEvent(copy, start, 0);
  cudaLaunchKernel(Address(&Fill), dim3(1), dim3(1), nullptr, 0, compute);
  cudaLaunchKernel(Address(&Fill), dim3(1), dim3(1), nullptr, 0, compute);
  cudaEventRecord(end, compute);
  cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, copy);
  if (cudaEventQuery(start) != cudaErrorNotReady) {
    return 3;  // submitting does not wait
  }
  if (cudaStreamQuery(copy) != cudaErrorNotReady) {
    return 4;
  }
  cudaDeviceSynchronize();
  const double took = Milliseconds(begin);
  float ms = 0;
  cudaEventElapsedTime(&ms, start, end);
  // The device's own clock is exact whatever the host is busy with; of the host's only a lower bound holds.
  if (took < 749 || ms < 299 || ms > 301) {
    return 5;
  }
  return simPendingOperations(nullptr) == 0 ? 0 : 6;
}

const std::map<std::string, std::function<int()>>& Roles() {
  static const std::map<std::string, std::function<int()>> roles = {
      {"allocate3", [] { return Allocate(3); }},
      {"allocate2", [] { return Allocate(2); }},
      {"host_function", &WaitForOwnHostFunction},
      {"timed", &Timed},
      {"nothing", [] { return 0; }},
      {"attribute",
       [] {
         int value = 0;
         return cudaDeviceGetAttribute(&value, cudaDevAttrPageableMemoryAccess, 1) == cudaSuccess ? value : 99;
       }},
  };
  return roles;
}

const int kChildVerdict = [] {
  if (const char* role = std::getenv("SIM_PROCESS_ROLE")) {
    std::exit(Roles().at(role)());  // exit: what is written at the end is part of the test
  }
  return 0;
}();

int RunChild(const std::string& role, const std::map<std::string, std::string>& environment) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("SIM_PROCESS_ROLE", role.c_str(), 1);
    for (const auto& [name, value] : environment) {
      setenv(name.c_str(), value.c_str(), 1);
    }
    execl("/proc/self/exe", "process_child", nullptr);
    _exit(98);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

using ProcessTest = Sim;

TEST_F(ProcessTest, AForkedChildHasNoDevice) {
  const pid_t child = fork();
  if (child == 0) {
    void* block = nullptr;
    int count = 0;
    int version = 0;
    const bool as_measured =
        cudaGetDeviceCount(&count) == cudaSuccess && count == 2 &&
        cudaMalloc(&block, 16) == cudaErrorInitializationError && cudaGetLastError() == cudaErrorInitializationError &&
        cudaFree(nullptr) == cudaErrorInitializationError && cudaSetDevice(0) == cudaErrorInitializationError &&
        cudaStreamSynchronize(a_) == cudaErrorInitializationError && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
        cudaDriverGetVersion(&version) == cudaSuccess;
    _exit(as_measured ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  OK(cudaStreamSynchronize(a_));  // the parent goes on
}

TEST_F(ProcessTest, AProgramExecutedByAChildStartsAfresh) { EXPECT_EQ(RunChild("allocate3", {}), 0); }

TEST_F(ProcessTest, FailuresByEnvironment) {
  EXPECT_EQ(RunChild("allocate3", {{"SIMCUDA_FAIL", "cudaMalloc:2@3"}}), cudaErrorMemoryAllocation);
  EXPECT_EQ(RunChild("allocate2", {{"SIMCUDA_FAIL", "cudaMalloc:2@3"}}), 0);
  EXPECT_EQ(RunChild("allocate3", {{"SIMCUDA_FAIL", "cudaFree:1@1,cuMemAlloc_v2:46@2+"}}), 46);
}

TEST_F(ProcessTest, MemoryAndAttributesByEnvironment) {
  EXPECT_EQ(RunChild("allocate3", {{"SIMCUDA_MEMORY", "2MiB"}}), cudaErrorMemoryAllocation);
  EXPECT_EQ(RunChild("allocate2", {{"SIMCUDA_MEMORY", "2MiB"}}), 0);
  EXPECT_EQ(RunChild("attribute", {{"SIMCUDA_ATTRIBUTES", "88=1"}}), 1);
  EXPECT_EQ(RunChild("attribute", {}), 0);
}

TEST_F(ProcessTest, CountsAreWrittenAtExit) {
  const std::string path = ::testing::TempDir() + "/sim_counts_" + std::to_string(getpid());
  EXPECT_EQ(RunChild("allocate3", {{"SIMCUDA_COUNTS", path}}), 0);
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("\"libcudart.so.13\": {\"cudaMalloc\": 3}"), std::string::npos) << text.str();
  EXPECT_EQ(text.str().find("libcuda.so.1"), std::string::npos) << text.str();
  std::remove(path.c_str());
  EXPECT_EQ(RunChild("nothing", {{"SIMCUDA_COUNTS", path}}), 0);
  EXPECT_FALSE(std::ifstream(path).good());
}

TEST_F(ProcessTest, AnIdleProgramGetsOnOnlyWhenAskedTo) {
  EXPECT_EQ(RunChild("host_function", {{"SIMCUDA_IDLE_PROGRESS_MS", "5"}}), 0);
}

TEST_F(ProcessTest, TimedModeTakesTheTimeItSays) {
  EXPECT_EQ(RunChild("timed", {{"SIMCUDA_MODE", "timed"}, {"SIMCUDA_BANDWIDTH", "0.01"}}), 0);
}

TEST_F(ProcessTest, TimedModeCanBeSwitchedOnAndOff) {
  OK(simSetMode(SIM_TIMED));
  OK(LaunchFill(device_, kBytes, 7, a_));
  OK(LaunchMove(other_, device_, kBytes, a_));
  OK(cudaMemcpyAsync(pinned_, other_, kBytes, cudaMemcpyDeviceToHost, a_));
  bool called = false;
  OK(cudaLaunchHostFunc(
      a_, [](void* flag) { *static_cast<bool*>(flag) = true; }, &called));
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(called);
  EXPECT_EQ(pinned_[9], 7);
  OK(simSetMode(SIM_ADVERSARIAL));
  OK(LaunchFill(device_, kBytes, 8, a_));
  EXPECT_EQ(simPendingOperations(a_), 1);
}

}  // namespace
}  // namespace simtest
