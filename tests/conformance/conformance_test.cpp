#include "tests/conformance/conformance_test.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

namespace conformance {

std::vector<Window> WindowsOf(size_t bytes) {
  if (bytes <= 2 * kEnd) return {{0, bytes}};
  return {{0, kEnd}, {bytes - kEnd, kEnd}};
}

::testing::AssertionResult Fill(void* memory, size_t bytes, uint32_t salt, cudaStream_t stream) {
  for (const Window& window : WindowsOf(bytes)) {
    const cudaError_t result =
        LaunchFill(static_cast<uint8_t*>(memory) + window.offset, window.bytes, salt + window.offset, stream);
    if (result != cudaSuccess) return ::testing::AssertionFailure() << "launch: " << cudaGetErrorString(result);
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult Holds(const void* memory, size_t bytes, uint32_t salt, cudaStream_t stream) {
  for (const Window& window : WindowsOf(bytes)) {
    std::vector<uint8_t> found(window.bytes);
    const auto* const from = static_cast<const uint8_t*>(memory) + window.offset;
    cudaError_t result = cudaMemcpyAsync(found.data(), from, found.size(), cudaMemcpyDeviceToHost, stream);
    if (result == cudaSuccess) result = cudaStreamSynchronize(stream);
    if (result != cudaSuccess) return ::testing::AssertionFailure() << "read: " << cudaGetErrorString(result);
    const auto [wrong, first] = WrongBytes(found.data(), found.size(), salt + window.offset);
    if (wrong != 0) {
      return ::testing::AssertionFailure()
             << wrong << " of " << found.size() << " bytes are not the owner's, the first at offset "
             << window.offset + first << " of " << bytes << ": " << static_cast<int>(found[first]);
    }
  }
  return ::testing::AssertionSuccess();
}

uint32_t NewSalt() {
  static std::atomic<uint32_t> last{0};
  // Far enough apart that the windows of one block have salts of their own.
  return last.fetch_add(1, std::memory_order_relaxed) * 0x01000193U + 1;
}

void ExpectNoLastError() { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }

void ExpectLastError(cudaError_t code) {
  EXPECT_EQ(cudaPeekAtLastError(), code);
  EXPECT_EQ(cudaGetLastError(), code);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

void OnAnotherThread(const std::function<void()>& work) { std::thread(work).join(); }

bool OverThePool() {
  const char* const mode = std::getenv("SLIPSTREAM_ALLOCATOR_MODE");
  return mode != nullptr && std::string_view(mode) == "segments";
}

void Device::SetUp() {
  OK(cudaSetDevice(0));
  MakeStreams();
}

void Device::TearDown() {
  EXPECT_OK(cudaSetDevice(0));
  EXPECT_OK(cudaDeviceSynchronize());
  DestroyStreams();
  ExpectNoLastError();
}

void Device::MakeStreams() {
  for (cudaStream_t* const stream : {&a_, &b_, &home_}) OK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
  OK(cudaStreamCreate(&blocking_));
}

void Device::DestroyStreams() {
  for (cudaStream_t* const stream : {&a_, &b_, &home_, &blocking_}) {
    if (*stream != nullptr) {
      EXPECT_OK(cudaStreamDestroy(*stream));
    }
    *stream = nullptr;
  }
}

std::vector<NamedStream> Device::AllStreams() const {
  return {{"non-blocking stream", a_},
          {"another non-blocking stream", b_},
          {"blocking stream", blocking_},
          {"default stream", nullptr},  // legacy or per-thread, as the program was compiled
          {"legacy default stream", cudaStreamLegacy},
          {"per-thread default stream", cudaStreamPerThread}};
}

void Device::Order(cudaStream_t before, cudaStream_t behind) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaEventRecord(event, before));
  OK(cudaStreamWaitEvent(behind, event, 0));
  OK(cudaEventDestroy(event));
}

size_t Device::FreeMemory() {
  size_t free = 0;
  size_t total = 0;
  EXPECT_OK(cudaMemGetInfo(&free, &total));
  EXPECT_LE(free, total);
  return free;
}

}  // namespace conformance
