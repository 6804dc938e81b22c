// How long the host waits in a blocking copy of pageable memory to the device, behind a queue of work (T5): the two
// calls that PyTorch's `.cuda()` makes, cudaMemcpyAsync and cudaStreamSynchronize, without PyTorch around them.
//
//   blocking_copies [--pinned | --unwaited | --parts] [--complete] [--repetitions N] [--queue BYTES]
//
// With --pinned the source is pinned memory and nothing is waited for: the least that a copy can cost on this machine.
// With --unwaited it is pageable, and the call alone is timed: the part of it that no skipped wait can save.
//
// With --parts it is one copy of 4 B and the driver calls that slipstream makes around such a copy (S55), each timed by
// itself, and the same again at once: the time of each where the processor's caches have other things in them, and
// where they have it. Prints {"NAME": [seconds, ...], "NAME again": ...}.
//
// With --complete it is how long until the bytes are on a device with nothing else to do (T3), of 1 MiB to 256 MiB.
//
// The queue is device-to-device copies of BYTES in all (default 160 GiB: some 80 ms on an H200). The device is
// synchronized before each repetition, and what arrived is compared with what the source held. Prints {"bytes":
// [seconds, ...], ...}. Exit status: 0, 1 wrong bytes, 2 a CUDA call failed or wrong usage.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBlockingSizes[] = {4, 64 << 10, 4 * kMiB, 64 * kMiB};
constexpr size_t kCompleteSizes[] = {kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB};
constexpr size_t kQueuePiece = 2048 * kMiB;

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "blocking_copies: %s: error %d\n", what, static_cast<int>(error));
  std::exit(2);
}
#define CHECK(call) Check((call), #call)

struct Queue {
  void* from = nullptr;
  void* to = nullptr;
  size_t piece = 0;
  size_t bytes = 0;

  void Fill(cudaStream_t stream) const {
    for (size_t enqueued = 0; enqueued < bytes; enqueued += piece) {
      CHECK(cudaMemcpyAsync(to, from, piece, cudaMemcpyDeviceToDevice, stream));
    }
  }
};

// What is copied: ordinary memory, or pinned memory.
class Source {
 public:
  Source(size_t bytes, bool pinned) : bytes_(bytes) {
    if (pinned) {
      CHECK(cudaHostAlloc(&pinned_, bytes, cudaHostAllocDefault));
    } else {
      pageable_.resize(bytes);
    }
  }
  ~Source() {
    if (pinned_ != nullptr) CHECK(cudaFreeHost(pinned_));
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  void* data() { return pinned_ != nullptr ? pinned_ : pageable_.data(); }
  size_t size() const { return bytes_; }

 private:
  const size_t bytes_;
  void* pinned_ = nullptr;
  std::vector<unsigned char> pageable_;
};

enum class Until { kCalled, kReturned, kArrived };

double Seconds(const Queue& queue, cudaStream_t stream, void* device, Source& source, Until until) {
  CHECK(cudaDeviceSynchronize());
  queue.Fill(stream);
  const auto start = std::chrono::steady_clock::now();
  CHECK(cudaMemcpyAsync(device, source.data(), source.size(), cudaMemcpyHostToDevice, stream));
  if (until != Until::kCalled) CHECK(cudaStreamSynchronize(stream));
  if (until == Until::kArrived) CHECK(cudaDeviceSynchronize());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The driver's own functions.
template <typename Function>
Function* Driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void* const found = library != nullptr ? dlsym(library, name) : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "blocking_copies: no %s\n", name);
    std::exit(2);
  }
  return reinterpret_cast<Function*>(found);
}

void Parts(const Queue& queue, cudaStream_t stream, void* device, size_t repetitions) {
  CUcontext context = nullptr;
  CUevent event = nullptr;
  CUevent passed = nullptr;
  std::vector<unsigned char> source(4);
  // Of host memory the first two are asked.
  std::array attributes = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
                           CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                           CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT,
                           CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                           CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<uint64_t, attributes.size()> answers = {};
  std::array<void*, attributes.size()> values = {};
  for (size_t i = 0; i < values.size(); ++i) values[i] = &answers[i];
  unsigned flags = 0;
  int active = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  auto* const current = Driver<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent");
  auto* const state = Driver<decltype(cuDevicePrimaryCtxGetState)>("cuDevicePrimaryCtxGetState");
  auto* const attribute = Driver<decltype(cuPointerGetAttributes)>("cuPointerGetAttributes");
  auto* const capturing = Driver<decltype(cuStreamIsCapturing)>("cuStreamIsCapturing");
  auto* const exchange = Driver<decltype(cuThreadExchangeStreamCaptureMode)>("cuThreadExchangeStreamCaptureMode");
  auto* const create = Driver<decltype(cuEventCreate)>("cuEventCreate");
  auto* const record = Driver<decltype(cuEventRecord)>("cuEventRecord");
  auto* const query = Driver<decltype(cuEventQuery)>("cuEventQuery");
  auto* const wait = Driver<decltype(cuCtxWaitEvent)>("cuCtxWaitEvent");
  const auto attributes_of = [&](const void* memory, unsigned count) {
    return attribute(count, attributes.data(), values.data(), reinterpret_cast<CUdeviceptr>(memory));
  };
  if (current(&context) != CUDA_SUCCESS || create(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
      create(&passed, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS || record(passed, nullptr) != CUDA_SUCCESS) {
    std::fputs("blocking_copies: no context\n", stderr);
    std::exit(2);
  }
  // In the order of a copy and its skipped synchronization.
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const std::vector<std::pair<const char*, std::function<int()>>> calls = {
      {"cuCtxGetCurrent", [&] { return current(&context); }},
      {"cuDevicePrimaryCtxGetState", [&] { return state(0, &flags, &active); }},
      {"cuPointerGetAttributes(host)", [&] { return attributes_of(source.data(), 2); }},
      {"cuPointerGetAttributes(device)", [&] { return attributes_of(device, attributes.size()); }},
      {"cuStreamIsCapturing", [&] { return capturing(stream, &status); }},
      {"cuEventQuery(passed)", [&] { return query(passed); }},
      {"cudaMemcpyAsync",
       [&] { return cudaMemcpyAsync(device, source.data(), source.size(), cudaMemcpyHostToDevice, stream); }},
      {"cuThreadExchangeStreamCaptureMode", [&] { return exchange(&mode); }},
      {"cuEventRecord", [&] { return record(event, stream); }},
      {"cuCtxWaitEvent", [&] { return wait(context, event); }},
      {"cuEventQuery(pending)",
       [&] { return query(event) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN; }},
  };
  std::map<std::string, std::vector<double>> seconds;
  for (size_t i = 0; i < repetitions; ++i) {
    CHECK(cudaDeviceSynchronize());
    queue.Fill(stream);
    for (const char* const suffix : {"", " again"}) {
      for (const auto& [name, call] : calls) {
        const auto start = std::chrono::steady_clock::now();
        const int answer = call();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        if (answer != 0) {
          std::fprintf(stderr, "blocking_copies: %s answered %d\n", name, answer);
          std::exit(2);
        }
        seconds[name + std::string(suffix)].push_back(took.count());
      }
    }
  }
  const char* separator = "{";
  for (const auto& [name, values_of] : seconds) {
    std::printf("%s\"%s\": [", separator, name.c_str());
    separator = ", ";
    for (size_t i = 0; i < values_of.size(); ++i) std::printf("%s%.9f", i == 0 ? "" : ", ", values_of[i]);
    std::printf("]");
  }
  std::printf("}\n");
}

}  // namespace

int main(int argc, char** argv) {
  size_t repetitions = 16;
  Queue queue;
  queue.bytes = 163840 * kMiB;
  bool pinned = false;
  bool unwaited = false;
  bool complete = false;
  bool parts = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--pinned") {
      pinned = true;
    } else if (option == "--unwaited") {
      unwaited = true;
    } else if (option == "--parts") {
      parts = true;
    } else if (option == "--complete") {
      complete = true;
    } else if (option == "--repetitions" && i + 1 < argc) {
      repetitions = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--queue" && i + 1 < argc) {
      queue.bytes = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "blocking_copies: unknown option %s, or its value is missing\n", argv[i]);
      return 2;
    }
  }
  if (complete) queue.bytes = 0;
  const Until until = complete ? Until::kArrived : pinned || unwaited ? Until::kCalled : Until::kReturned;
  const std::span<const size_t> sizes = complete ? std::span<const size_t>(kCompleteSizes) : kBlockingSizes;
  queue.piece = queue.bytes < kQueuePiece ? queue.bytes : kQueuePiece;
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void* device = nullptr;
  CHECK(cudaMalloc(&device, sizes.back()));
  if (queue.piece != 0) {
    CHECK(cudaMalloc(&queue.from, queue.piece));
    CHECK(cudaMalloc(&queue.to, queue.piece));
  }
  if (parts) {
    Parts(queue, stream, device, repetitions);
    return 0;
  }
  const char* separator = "{";
  for (const size_t size : sizes) {
    Source source(size, pinned);
    std::vector<unsigned char> arrived(size);
    std::printf("%s\"%zu\": [", separator, size);
    separator = ", ";
    // The first ones find staging memory not there yet, and memory that was never touched.
    const size_t warm_up = 4;
    for (size_t i = 0; i < repetitions + warm_up; ++i) {
      std::memset(source.data(), static_cast<int>(i % 251 + 1), size);
      const double seconds = Seconds(queue, stream, device, source, until);
      // The device reads the source itself, or the driver may still do so.
      if (pinned || unwaited) CHECK(cudaStreamSynchronize(stream));
      std::memset(source.data(), 0, size);  // the copy must have what the source held at the call
      CHECK(cudaMemcpy(arrived.data(), device, size, cudaMemcpyDeviceToHost));
      for (const unsigned char byte : arrived) {
        if (byte != i % 251 + 1) {
          std::fprintf(stderr, "blocking_copies: wrong bytes after a copy of %zu\n", size);
          return 1;
        }
      }
      if (i >= warm_up) std::printf("%s%.9f", i == warm_up ? "" : ", ", seconds);
    }
    std::printf("]");
  }
  std::printf("}\n");
  return 0;
}
