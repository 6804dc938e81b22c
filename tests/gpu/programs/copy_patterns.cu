// Copies from and to pageable memory, of many sizes, among kernels on several streams and threads. The program knows
// what every byte must be, checks it, and prints one checksum that is the same on every run.
//
//   copy_patterns [--few | --out-of-bounds | --race]
//
// --few: one thread, five sizes, one way each. compute-sanitizer's racecheck does not always come to the end of the
// whole, with nothing of slipstream in the process.
// --out-of-bounds lets a kernel write past its memory, which a memory checker has to find, and --race lets the threads
// of a block not wait for each other, which a race checker has to find. Exit status: 0 all bytes as
// expected, 1 not so, 2 a CUDA call failed.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}
#define CHECK(call) Check((call), #call)

constexpr unsigned kBlocks = 64;
constexpr unsigned kThreads = 256;
// Around every size at which a copy may be made in another way.
constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kSizes[] = {1,
                             3,
                             4,
                             255,
                             4 * kKiB,
                             64 * kKiB - 1,
                             64 * kKiB,
                             64 * kKiB + 1,
                             1 * kMiB + 3,
                             2 * kMiB,
                             4 * kMiB + 1,
                             9 * kMiB + 5,
                             24 * kMiB + 7};

__host__ __device__ inline uint8_t Changed(uint8_t value, size_t index, uint8_t salt) {
  return static_cast<uint8_t>(value * 3 + salt + (index & 0x7F));
}

// Changes every byte, and leaves what each thread found in `parts`, kBlocks * kThreads of them.
__global__ void Change(uint8_t* data, size_t size, uint8_t salt, unsigned long long* parts) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  unsigned long long mine = 0;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += stride) {
    mine += data[i];
    data[i] = Changed(data[i], i, salt);
  }
  parts[blockIdx.x * blockDim.x + threadIdx.x] = mine;
}

// Adds the parts to `sum`, the threads of the one block by way of shared memory: few accesses, because a race checker
// follows each.
template <bool kWaits = true>
__global__ void AddUp(const unsigned long long* parts, unsigned long long* sum) {
  __shared__ unsigned long long found[kThreads];
  unsigned long long mine = 0;
  for (unsigned i = threadIdx.x; i < kBlocks * kThreads; i += kThreads) mine += parts[i];
  found[threadIdx.x] = mine;
  if (kWaits) __syncthreads();
  if (threadIdx.x != 0) return;
  unsigned long long all = 0;
  for (unsigned i = 0; i < kThreads; ++i) all += found[i];
  *sum += all;
}

// Keeps a stream busy, so that what is queued behind it really waits.
__global__ void Spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

struct Expected {
  unsigned long long sum = 0;
  bool same = true;
};

void Fill(std::vector<uint8_t>& memory, size_t size, uint32_t seed) {
  for (size_t i = 0; i < size; ++i) memory[i] = static_cast<uint8_t>((i * 2654435761U + seed * 40503U) >> 13);
}

// One thread's streams, memory and running checksum.
class Worker {
 public:
  Worker(int number, bool non_blocking, bool few) : number_(number), few_(few) {
    CHECK(cudaStreamCreateWithFlags(&stream_, non_blocking ? cudaStreamNonBlocking : cudaStreamDefault));
    CHECK(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    CHECK(cudaMalloc(&sum_, sizeof(*sum_)));
    CHECK(cudaMemset(sum_, 0, sizeof(*sum_)));
    CHECK(cudaMalloc(&parts_, kBlocks * kThreads * sizeof(*parts_)));
    CHECK(cudaDeviceSynchronize());
    source_.resize(kSizes[std::size(kSizes) - 1]);
    result_.resize(source_.size());
  }

  void Run() {
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      if (few_ && i % 3 != 0) continue;
      for (int way = 0; way < 4; ++way) {
        if (!few_ || way == static_cast<int>(i / 3 + 2) % 4) Round(kSizes[i], way);
      }
    }
    unsigned long long sum = 0;
    CHECK(cudaMemcpy(&sum, sum_, sizeof(sum), cudaMemcpyDeviceToHost));
    if (sum != expected_.sum) expected_.same = false;
    CHECK(cudaFree(parts_));
    CHECK(cudaFree(sum_));
    CHECK(cudaEventDestroy(event_));
    CHECK(cudaStreamDestroy(other_));
    CHECK(cudaStreamDestroy(stream_));
  }

  const Expected& expected() const { return expected_; }

 private:
  // Copy in, change twice (on two streams), copy out. `way` says how the copy in is made.
  void Round(size_t size, int way) {
    const auto salt = static_cast<uint8_t>(number_ * 16 + way);
    const size_t offset = way == 3 ? 1 : 0;  // Now and then nothing is aligned.
    uint8_t* memory = nullptr;
    CHECK(cudaMalloc(&memory, size + offset));
    uint8_t* data = memory + offset;
    Fill(source_, size, static_cast<uint32_t>(number_ * 1000 + size + way));
    Expect(size, salt);
    if (way != 0) Spin<<<1, 1, 0, stream_>>>(200000);
    if (way == 1) {
      CHECK(cudaMemcpy(data, source_.data(), size, cudaMemcpyHostToDevice));
      // It may return when the source is read; only this says that the bytes are there, for every stream.
      CHECK(cudaStreamSynchronize(nullptr));
    } else {
      CHECK(cudaMemcpyAsync(data, source_.data(), size, cudaMemcpyHostToDevice, stream_));
    }
    if (way != 2) {
      // The source belongs to the program again, which makes use of it at once.
      if (way != 1) CHECK(cudaStreamSynchronize(stream_));
      std::memset(source_.data(), 0xEE, size);
    }
    ChangeOn(stream_, data, size, salt);
    CHECK(cudaEventRecord(event_, stream_));
    CHECK(cudaStreamWaitEvent(other_, event_, 0));
    ChangeOn(other_, data, size, static_cast<uint8_t>(salt + 1));
    CHECK(cudaMemcpyAsync(result_.data(), data, size, cudaMemcpyDeviceToHost, other_));
    CHECK(cudaStreamSynchronize(other_));
    if (std::memcmp(result_.data(), wanted_.data(), size) != 0) {
      std::fprintf(stderr, "thread %d: %zu bytes copied in way %d are not as expected\n", number_, size, way);
      expected_.same = false;
    }
    CHECK(cudaFree(memory));
  }

  void ChangeOn(cudaStream_t stream, uint8_t* data, size_t size, uint8_t salt) {
    Change<<<kBlocks, kThreads, 0, stream>>>(data, size, salt, parts_);
    CHECK(cudaGetLastError());
    AddUp<<<1, kThreads, 0, stream>>>(parts_, sum_);
    CHECK(cudaGetLastError());
  }

  // What the device must make of source_.
  void Expect(size_t size, uint8_t salt) {
    wanted_.assign(source_.begin(), source_.begin() + static_cast<std::ptrdiff_t>(size));
    for (int time = 0; time < 2; ++time) {
      for (size_t i = 0; i < size; ++i) {
        expected_.sum += wanted_[i];
        wanted_[i] = Changed(wanted_[i], i, static_cast<uint8_t>(salt + time));
      }
    }
  }

  int number_;
  bool few_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t other_ = nullptr;
  cudaEvent_t event_ = nullptr;
  unsigned long long* sum_ = nullptr;
  unsigned long long* parts_ = nullptr;
  std::vector<uint8_t> source_, result_, wanted_;
  Expected expected_;
};

// Writes past its memory, or, with `races`, reads what other threads may not have written yet.
void DoWrong(bool races) {
  unsigned long long* sum = nullptr;
  unsigned long long* parts = nullptr;
  uint8_t* data = nullptr;
  CHECK(cudaMalloc(&sum, sizeof(*sum)));
  CHECK(cudaMemset(sum, 0, sizeof(*sum)));
  CHECK(cudaMalloc(&parts, kBlocks * kThreads * sizeof(*parts)));
  CHECK(cudaMalloc(&data, 512));
  Change<<<kBlocks, kThreads>>>(data, races ? 512 : 512 + 64, 0, parts);
  if (races) {
    AddUp<false><<<1, kThreads>>>(parts, sum);
  } else {
    AddUp<<<1, kThreads>>>(parts, sum);
  }
  CHECK(cudaDeviceSynchronize());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string wrong = argc > 1 ? argv[1] : "";
  const bool few = wrong == "--few";
  if (wrong == "--out-of-bounds" || wrong == "--race") {
    DoWrong(wrong == "--race");
    std::puts("did wrong");
    return 0;
  }
  const int workers = few ? 1 : 3;
  std::vector<Expected> found(static_cast<size_t>(workers));
  const auto start = [&found, few](int number) {
    return std::thread([&found, number, few] {
      Worker worker(number, number != 0, few);
      worker.Run();
      found[static_cast<size_t>(number)] = worker.expected();
    });
  };
  // The first by itself: beside a thread that works on other streams no synchronization is skipped.
  start(0).join();
  std::vector<std::thread> threads;
  for (int number = 1; number < workers; ++number) threads.push_back(start(number));
  for (std::thread& thread : threads) thread.join();
  unsigned long long sum = 0;
  bool same = true;
  for (const Expected& expected : found) {
    sum = sum * 31 + expected.sum;
    same = same && expected.same;
  }
  std::printf("checksum %016llx, %s\n", sum, same ? "all bytes as expected" : "WRONG BYTES");
  return same ? 0 : 1;
}
