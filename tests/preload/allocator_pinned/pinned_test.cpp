#include "tests/preload/allocator_pinned/pinned_test.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tracer/counter_reader.h"

namespace pinned {
namespace {

const std::string kPrefix = "allocator.";

std::map<std::string, uint64_t> Decisions() {
  const char* const directory = std::getenv("SLIPSTREAM_RUN_DIRECTORY");
  std::map<std::string, uint64_t> decisions;
  if (!Pool() || directory == nullptr) return decisions;
  std::vector<std::string> problems;
  for (const auto& process : slipstream::tracer::ReadRunDirectory(directory, &problems)) {
    if (process.pid != getpid()) continue;
    for (const auto& decision : process.decisions) decisions[decision.name] = decision.count;
  }
  return decisions;
}

}  // namespace

bool Pool() {
  // With a broken rule the runner says that the rule is broken; what the library says of itself proves nothing then.
  static const bool there = std::getenv("RULES_ENGINE") != nullptr && std::getenv("ALLOCATOR_BROKEN_RULE") == nullptr;
  return there;
}

Tally::Tally() : before_(Decisions()) {}

uint64_t Tally::Of(const std::string& name) const {
  const auto now = Decisions();
  const auto found = now.find(kPrefix + name);
  if (found == now.end()) {
    ADD_FAILURE() << "the library counts no decision named " << name;
    return 0;
  }
  const auto before = before_.find(found->first);
  return found->second - (before != before_.end() ? before->second : 0);
}

std::string Tally::Text() const {
  std::string text = "; decided:";
  for (const auto& [name, count] : Decisions()) {
    const auto before = before_.find(name);
    const uint64_t since = count - (before != before_.end() ? before->second : 0);
    if (since != 0) text += " " + name + "=" + std::to_string(since);
  }
  return text;
}

::testing::AssertionResult HoldsOnly(const uint8_t* host, uint8_t value, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (host[i] != value) {
      return ::testing::AssertionFailure()
             << "byte " << i << " of " << count << " is " << int{host[i]} << " and not " << int{value};
    }
  }
  return ::testing::AssertionSuccess();
}

cudaMemoryType TypeOf(const void* address) {
  cudaPointerAttributes attributes = {};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, address), cudaSuccess);
  return attributes.type;
}

void Pinned::SetUp() {
  simtest::RegisterKernels();
  if (std::getenv("SIMCUDA_SEED") == nullptr) {
    OK(simSetSeed(0));
  }
  OK(cudaSetDevice(0));
  OK(cudaMalloc(reinterpret_cast<void**>(&device_), kMade));
  OK(cudaMalloc(reinterpret_cast<void**>(&scratch_), 4096));
  OK(cudaMemset(device_, kOnDevice, kMade));
  OK(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking));
  // The transfer engine tracks work from its first question on; what was submitted before counts as anything.
  uint8_t* first = Allocate(4096, 0);
  OK(cudaFreeHost(first));
  Settle();
}

void Pinned::Settle() {
  OK(cudaDeviceSynchronize());
  OK(simQuiesce());
}

uint8_t* Pinned::Allocate(size_t bytes, uint8_t value, unsigned flags) {
  void* memory = nullptr;
  EXPECT_EQ(flags == cudaHostAllocDefault ? cudaMallocHost(&memory, bytes) : cudaHostAlloc(&memory, bytes, flags),
            cudaSuccess);
  if (memory != nullptr) std::memset(memory, value, bytes);
  return static_cast<uint8_t*>(memory);
}

void Pinned::Backlog(cudaStream_t stream) {
  for (int i = 0; i < 64; ++i) {
    OK(LaunchFill(scratch_, 4096, i, stream));
  }
}

void Pinned::DownUnseen(uint8_t* host, size_t bytes, cudaStream_t stream) {
  ASSERT_NO_FATAL_FAILURE(Backlog(stream));
  OK(cuMemcpyDtoHAsync(host, reinterpret_cast<CUdeviceptr>(device_), bytes, stream));
}

void Pinned::UpUnseen(const uint8_t* host, size_t bytes, cudaStream_t stream) {
  ASSERT_NO_FATAL_FAILURE(Backlog(stream));
  OK(cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(device_), host, bytes, stream));
}

}  // namespace pinned

namespace {

// A breach of a rule may be a hang. Prints and leaves as a failed test does.
void LimitTime() {
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::seconds(60));
    std::fputs("stuck for a minute\n", stderr);
    _exit(1);
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  LimitTime();
  return RUN_ALL_TESTS();
}
