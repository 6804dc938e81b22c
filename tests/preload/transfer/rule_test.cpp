#include "tests/preload/transfer/rule_test.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tracer/counter_reader.h"

#if RULES_CUDART == 12
// As cuda_runtime_api.h of CUDA 12 declares them.
extern "C" {
cudaError_t Batch12(void**, void**, size_t*, size_t, cudaMemcpyAttributes*, size_t*, size_t, size_t*,
                    cudaStream_t) __asm__("cudaMemcpyBatchAsync");
cudaError_t Prefetch12(const void*, size_t, int, cudaStream_t) __asm__("cudaMemPrefetchAsync");
cudaError_t Advise12(const void*, size_t, cudaMemoryAdvise, int) __asm__("cudaMemAdvise");
}
#endif

namespace rules {
namespace {

const char* const kPrefix = "transfer.";

std::map<std::string, uint64_t> Decisions() {
  const char* const directory = std::getenv("SLIPSTREAM_RUN_DIRECTORY");
  std::map<std::string, uint64_t> decisions;
  if (!Engine() || directory == nullptr) {
    return decisions;
  }
  std::vector<std::string> problems;
  for (const auto& process : slipstream::tracer::ReadRunDirectory(directory, &problems)) {
    if (process.pid != getpid()) {
      continue;
    }
    for (const auto& decision : process.decisions) {
      decisions[decision.name] = decision.count;
    }
  }
  return decisions;
}

}  // namespace

bool Engine() {
  static const bool there = std::getenv("RULES_ENGINE") != nullptr;
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

uint64_t Tally::OfAll(const std::string& prefix) const {
  uint64_t sum = 0;
  for (const auto& [name, count] : Decisions()) {
    if (name.rfind(kPrefix + prefix, 0) == 0) {
      const auto before = before_.find(name);
      sum += count - (before != before_.end() ? before->second : 0);
    }
  }
  return sum;
}

std::string Tally::Text() const {
  std::string text = "; decided:";
  for (const auto& [name, count] : Decisions()) {
    const auto before = before_.find(name);
    if (const uint64_t since = count - (before != before_.end() ? before->second : 0); since != 0) {
      text += " " + name.substr(std::string(kPrefix).size()) + "=" + std::to_string(since);
    }
  }
  return text;
}

std::vector<uint8_t> Pattern(size_t bytes, uint32_t salt) {
  std::vector<uint8_t> pattern(bytes);
  uint32_t state = salt * 2654435761U + 12345;
  for (uint8_t& byte : pattern) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return pattern;
}

::testing::AssertionResult Holds(const void* device, const std::vector<uint8_t>& bytes, size_t count) {
  count = std::min(count, bytes.size());
  const auto* now = static_cast<const uint8_t*>(simDevicePointer(device, count));
  if (now == nullptr) {
    return ::testing::AssertionFailure() << "no device memory";
  }
  for (size_t i = 0; i < count; ++i) {
    if (now[i] != bytes[i]) {
      return ::testing::AssertionFailure()
             << "byte " << i << " of " << count << " is " << int{now[i]} << " and not " << int{bytes[i]};
    }
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult HoldsOnly(const void* device, uint8_t value, size_t count) {
  return Holds(device, std::vector<uint8_t>(count, value));
}

void OnAnotherThread(const std::function<void()>& work, int device) {
  std::thread thread([&work, device] {
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    work();
  });
  thread.join();
}

cudaError_t CopyBatch(void* destination, const void* source, size_t bytes, cudaStream_t stream) {
  size_t start = 0;
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
#if RULES_CUDART == 12
  void* from = const_cast<void*>(source);
  size_t failed = 0;
  return Batch12(&destination, &from, &bytes, 1, &attributes, &start, 1, &failed, stream);
#else
  return cudaMemcpyBatchAsync(&destination, &source, &bytes, 1, &attributes, &start, 1, stream);
#endif
}

cudaError_t PrefetchToDevice(const void* memory, size_t bytes, cudaStream_t stream) {
#if RULES_CUDART == 12
  return Prefetch12(memory, bytes, 0, stream);
#else
  cudaMemLocation device = {};
  device.type = cudaMemLocationTypeDevice;
  return cudaMemPrefetchAsync(memory, bytes, device, 0, stream);
#endif
}

cudaError_t AdviseReadMostly(const void* memory, size_t bytes) {
#if RULES_CUDART == 12
  return Advise12(memory, bytes, cudaMemAdviseSetReadMostly, 0);
#else
  cudaMemLocation device = {};
  device.type = cudaMemLocationTypeDevice;
  return cudaMemAdvise(memory, bytes, cudaMemAdviseSetReadMostly, device);
#endif
}

void Rule::Prepare() {
  simtest::RegisterKernels();
  if (std::getenv("SIMCUDA_SEED") == nullptr) {
    OK(simSetSeed(0));
  }
  OK(cudaSetDevice(0));
  for (uint8_t** buffer : {&device_, &other_, &third_}) {
    OK(cudaMalloc(reinterpret_cast<void**>(buffer), kHuge));
  }
  OK(cudaMalloc(reinterpret_cast<void**>(&scratch_), kSmall));
  OK(cudaMallocHost(reinterpret_cast<void**>(&pinned_), kLarge));
  std::memset(pinned_, 0, kLarge);
  source_.assign(kHuge, 0x11);
  OK(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&b_, cudaStreamNonBlocking));
}

void Rule::WarmUp() {
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  OK(cudaDeviceSynchronize());
  OK(simQuiesce());
  OK(cudaGetLastError());
}

void Rule::SetUp() {
  ASSERT_NO_FATAL_FAILURE(Prepare());
  ASSERT_NO_FATAL_FAILURE(WarmUp());
}

void Rule::Backlog(cudaStream_t stream, int kernels) {
  for (int i = 0; i < kernels; ++i) {
    OK(LaunchFill(scratch_, kSmall, i, stream));
  }
}

void Rule::CopyAndSynchronize(cudaStream_t stream, size_t bytes) {
  OK(CopyUp(device_, source_.data(), bytes, stream));
  OK(cudaStreamSynchronize(stream));
}

void Rule::OweOnA() {
  const Tally tally;
  Backlog(a_);
  CopyAndSynchronize(a_);
  DECIDED(tally, "skipped", 1);
}

void Rule::WaitElsewhere(cudaStream_t stream, int device) {
  OnAnotherThread([stream] { EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess); }, device);
}

}  // namespace rules

int ExportAndWait();  // s22_sharing_test.cpp: the other process of some tests

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
  if (argc == 2 && std::strcmp(argv[1], "--exporter") == 0) {
    return ExportAndWait();
  }
  ::testing::InitGoogleTest(&argc, argv);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  LimitTime();
  return RUN_ALL_TESTS();
}
