// A fuzzer for device allocators: random steps of several threads over several streams, with a model in host memory of
// what each live block holds and where it lies. Every read is compared.
//
//   fuzz [--seed N] [--steps N] [--threads N] [--streams N] [--ordered 0] [--wait 0]
//
// With --ordered 0 the program uses no stream-ordered memory, and its threads end while their default streams have work
// to do; with --wait 0 they do so too, and it does use some. Steps are of each thread. A thread's steps follow from the
// seed and its number; how threads meet does not. Prints the seed, and at the first thing that is wrong the thread and
// the step. Exit status: 0, 1 something was wrong, 2 wrong usage.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/allocators.h"
#include "tests/conformance/device.h"
#include "tests/conformance/stuck.h"

namespace conformance {
namespace {

struct Options {
  uint64_t seed = 1;
  uint64_t steps = 2000;
  uint64_t threads = 4;
  uint64_t streams = 3;  // of each thread, its default stream included
  uint64_t ordered = 1;  // 1: stream-ordered memory too
  uint64_t wait = 1;     // 1: then a thread waits for its default stream before it ends
};

// ---- allocators: those of allocators.h as a table
struct Functions {
  const char* name;
  bool stream_ordered;
  size_t alignment;
  cudaError_t (*allocate)(void** memory, size_t bytes, cudaStream_t stream);
  cudaError_t (*free)(void* memory, cudaStream_t stream);
};

template <typename List>
struct TableOf;
template <typename... Allocator>
struct TableOf<::testing::Types<Allocator...>> {
  static constexpr Functions kRows[] = {
      {Allocator::kName, Allocator::kStreamOrdered, Allocator::kAlignment, &Allocator::Allocate, &Allocator::Free}...};
};
constexpr auto& kAllocators = TableOf<Allocators>::kRows;

// ---- the model
constexpr size_t kEnd = size_t{16} << 10;  // what is written and read at either end of a block

struct Block {
  const Functions* allocator = nullptr;
  uint8_t* memory = nullptr;
  size_t bytes = 0;
  std::optional<uint32_t> salt;  // none: nothing was written yet
  cudaEvent_t last = nullptr;    // behind the last work on it
};

// What the driver takes of the device for a block: pieces of 2 MiB where it is larger than 1 MiB (queries_test.cpp).
constexpr uint64_t Taken(size_t bytes) {
  constexpr uint64_t kPiece = uint64_t{2} << 20;
  return bytes > kPiece / 2 ? (bytes + kPiece - 1) / kPiece * kPiece : bytes;
}

// What the threads share.
struct Shared {
  Options options;
  size_t total = 0;
  std::vector<size_t> sizes;  // that come again and again, so that a freed block fits the next request
  std::mutex mutex;
  std::map<uintptr_t, size_t> live;  // of all threads: begin, bytes
  std::vector<Block> handed;         // from one thread to another
  std::atomic<uint64_t> wanted{0};   // bytes of the device for what is live or being asked for
  std::atomic<uint32_t> salts{1};
  // Held shared by a capture, alone by what no capture survives.
  std::shared_mutex captures;
  std::atomic<uint32_t> capturing{0};  // threads
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> allocated{0};
};

class Worker {
 public:
  Worker(Shared& shared, uint64_t index)
      : shared_(shared), index_(index), random_(shared.options.seed * 1000003 + index) {}

  void Run() {
    for (uint64_t i = 0; i + 1 < std::max<uint64_t>(shared_.options.streams, 2); ++i) {
      streams_.push_back(nullptr);
      // The first is blocking: it meets the legacy default stream.
      Must(cudaStreamCreateWithFlags(&streams_.back(), i == 0 ? cudaStreamDefault : cudaStreamNonBlocking), "a stream");
    }
    capturing_ = streams_.back();
    streams_.push_back(cudaStreamPerThread);
    for (step_ = 0; step_ < shared_.options.steps; ++step_) Step();
    what_ = "end";
    while (!mine_.empty()) Free(Remove(mine_.size() - 1));
    for (size_t i = 0; i + 1 < streams_.size(); ++i) {
      Must(cudaStreamSynchronize(streams_[i]), "the end of a stream");
      Must(cudaStreamDestroy(streams_[i]), "a stream's destruction");
    }
    // The driver may hang where a thread ends before the work of its default stream does and there is stream-ordered
    // memory (README.md).
    if (shared_.options.ordered != 0 && shared_.options.wait != 0)
      Must(cudaStreamSynchronize(cudaStreamPerThread), "the end of a stream");
    Must(cudaGetLastError(), "no error is left");
  }

  // Blocks that nobody took.
  void FreeHanded() {
    what_ = "left over";
    streams_.push_back(cudaStreamPerThread);
    for (const Block& block : shared_.handed) Free(block);
    shared_.handed.clear();
  }

 private:
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  cudaStream_t AnyStream() { return streams_[Below(streams_.size())]; }

  [[noreturn]] void Fail(const std::string& text) const {
    std::fprintf(stderr, "fuzz: seed %llu, thread %llu, step %llu (%s): %s\n",
                 static_cast<unsigned long long>(shared_.options.seed), static_cast<unsigned long long>(index_),
                 static_cast<unsigned long long>(step_), what_, text.c_str());
    std::_Exit(1);
  }
  void Must(cudaError_t result, const char* what) const {
    if (result != cudaSuccess) Fail(std::string(what) + ": " + cudaGetErrorName(result));
  }

  static std::string Text(const Block& block) {
    char text[96];
    std::snprintf(text, sizeof text, "%s block of %zu bytes at %p", block.allocator->name, block.bytes,
                  static_cast<void*>(block.memory));
    return text;
  }

  void Step() {
    const uint64_t kind = Below(100);
    if (kind < 34 || mine_.empty()) {
      Allocate();
    } else if (kind < 50) {
      what_ = "write";
      Write(&Any(), AnyStream());
    } else if (kind < 60) {
      what_ = "read";
      Read(Any(), AnyStream());
    } else if (kind < 86) {
      what_ = "free";
      Free(Remove(Below(mine_.size())));
    } else if (kind < 90) {
      HandOver();
    } else if (kind < 93) {
      Capture();
    } else if (kind < 95) {
      what_ = "order";
      Order();
    } else if (kind < 97) {
      what_ = "wait";
      Must(cudaStreamSynchronize(AnyStream()), "a stream's synchronization");
    } else if (kind < 99) {
      Ask();
    } else {
      what_ = "wait for the device";
      const std::unique_lock lock(shared_.captures);
      Must(cudaDeviceSynchronize(), "the device's synchronization");
      shared_.wanted.fetch_sub(unreturned_);
      unreturned_ = 0;
    }
  }

  Block& Any() { return mine_[Below(mine_.size())]; }
  Block Remove(size_t index) {
    std::swap(mine_[index], mine_.back());
    Block block = mine_.back();
    mine_.pop_back();
    return block;
  }

  // A few sizes that come again and again; the others anything from a byte to more than there is.
  size_t AnySize() {
    if (Below(4) != 0) return shared_.sizes[Below(shared_.sizes.size())];
    const double most = static_cast<double>(shared_.total) * 1.5;
    const double power = std::uniform_real_distribution<double>(0, std::log2(most))(random_);
    const auto bytes = static_cast<size_t>(std::exp2(power));
    // Large ones seldom, or nothing but errors would happen.
    return bytes > shared_.total / 16 && Below(16) != 0 ? bytes / 64 + 1 : bytes + 1;
  }

  void Allocate() {
    what_ = "allocate";
    if (mine_.size() > 60) return Free(Remove(Below(mine_.size())));
    Block block;
    block.allocator = &kAllocators[Below(3) != 0 ? 0 : Below(std::size(kAllocators))];
    if (block.allocator->stream_ordered && shared_.options.ordered == 0) block.allocator = kAllocators;
    block.bytes = AnySize();
    const cudaStream_t stream = AnyStream();
    const uint64_t wanted = shared_.wanted.fetch_add(Taken(block.bytes)) + Taken(block.bytes);
    void* memory = nullptr;
    const uint32_t before = shared_.capturing.load();
    const cudaError_t result = block.allocator->allocate(&memory, block.bytes, stream);
    if (result != cudaSuccess) {
      shared_.wanted.fetch_sub(Taken(block.bytes));
      if (result != cudaErrorMemoryAllocation) Fail(Text(block) + ": " + cudaGetErrorName(result));
      if (cudaGetLastError() != cudaErrorMemoryAllocation) Fail("the refusal is not the last error");
      if (cudaGetLastError() != cudaSuccess) Fail("the refusal cannot be cleared");
      // What nobody wants must be there for who wants it, by cudaMalloc. Blocks may be larger than asked for by an
      // eighth.
      if (block.allocator == kAllocators && wanted < shared_.total / 4 * 3) {
        Fail(Text(block) + ": refused, with " + std::to_string(wanted) + " bytes wanted of " +
             std::to_string(shared_.total) + ", " + std::to_string(before) + " and " +
             std::to_string(shared_.capturing.load()) + " threads capturing before and after");
      }
      shared_.refused.fetch_add(1);
      if (!mine_.empty()) Free(Remove(Below(mine_.size())));
      return;
    }
    shared_.allocated.fetch_add(1);
    block.memory = static_cast<uint8_t*>(memory);
    if (memory == nullptr) Fail(Text(block) + ": no address");
    const size_t alignment = block.bytes >= block.allocator->alignment ? block.allocator->alignment : kLeastAlignment;
    if (reinterpret_cast<uintptr_t>(memory) % alignment != 0) Fail(Text(block) + ": not aligned");
    BecomesLive(block);
    Must(cudaEventCreateWithFlags(&block.last, cudaEventDisableTiming), "an event");
    Must(cudaEventRecord(block.last, stream), "an event's record");
    // Now and then it is written much later, or never.
    if (Below(8) != 0) Write(&block, Below(2) == 0 ? stream : AnyStream());
    mine_.push_back(block);
  }

  void BecomesLive(const Block& block) {
    const auto begin = reinterpret_cast<uintptr_t>(block.memory);
    const std::lock_guard lock(shared_.mutex);
    const auto behind = shared_.live.lower_bound(begin);
    if (behind != shared_.live.end() && begin + block.bytes > behind->first) Fail(Text(block) + ": overlaps the next");
    if (behind != shared_.live.begin() && std::prev(behind)->first + std::prev(behind)->second > begin) {
      Fail(Text(block) + ": overlaps the one before");
    }
    shared_.live[begin] = block.bytes;
  }
  void BecomesFree(const Block& block) {
    const std::lock_guard lock(shared_.mutex);
    shared_.live.erase(reinterpret_cast<uintptr_t>(block.memory));
  }

  template <typename Visit>
  static void ForEnds(const Block& block, const Visit& visit) {
    if (block.bytes <= 2 * kEnd) return visit(block.memory, block.bytes, 0U);
    visit(block.memory, kEnd, 0U);
    visit(block.memory + (block.bytes - kEnd), kEnd, 1U);
  }

  void LaunchFills(const Block& block, uint32_t salt, cudaStream_t stream) {
    ForEnds(block, [&](uint8_t* memory, size_t bytes, uint32_t end) {
      Must(LaunchFill(memory, bytes, salt + end, stream), "a kernel");
    });
  }
  uint32_t NewSalt() { return shared_.salts.fetch_add(2); }

  // In the stream, behind the last work on the block.
  void Write(Block* block, cudaStream_t stream) {
    Must(cudaStreamWaitEvent(stream, block->last, 0), "a wait for an event");
    if (Below(4) == 0) Must(LaunchDelay(stream), "a kernel");
    block->salt = NewSalt();
    LaunchFills(*block, *block->salt, stream);
    Must(cudaEventRecord(block->last, stream), "an event's record");
  }

  static std::string Bytes(const std::vector<uint8_t>& bytes, size_t from) {
    std::string text;
    for (size_t i = from; i < bytes.size() && i < from + 8; ++i) text += " " + std::to_string(bytes[i]);
    return text;
  }

  void Read(const Block& block, cudaStream_t stream) {
    Must(cudaStreamWaitEvent(stream, block.last, 0), "a wait for an event");
    if (!block.salt) return;
    ForEnds(block, [&](uint8_t* memory, size_t bytes, uint32_t end) {
      found_.resize(bytes);
      Must(cudaMemcpyAsync(found_.data(), memory, bytes, cudaMemcpyDeviceToHost, stream), "a copy");
      Must(cudaStreamSynchronize(stream), "a stream's synchronization");
      for (size_t i = 0; i < bytes; ++i) {
        if (found_[i] == PatternByte(*block.salt + end, i)) continue;
        std::vector<uint8_t> wanted(bytes);
        for (size_t k = 0; k < bytes; ++k) wanted[k] = PatternByte(*block.salt + end, k);
        Fail(Text(block) + ": its " + (end == 0 ? "first " : "last ") + std::to_string(bytes) + " bytes, from byte " +
             std::to_string(i) + " on, are" + Bytes(found_, i) + ", must be" + Bytes(wanted, i));
      }
    });
  }

  // Read first, mostly; then mostly under work that is pending.
  void Free(Block block) {
    const cudaStream_t stream = AnyStream();
    if (Below(4) != 0) {
      Read(block, stream);
    } else {
      Must(cudaStreamWaitEvent(stream, block.last, 0), "a wait for an event");
    }
    const uint64_t how = Below(4);
    if (how != 0) {
      if (how == 1) Must(LaunchDelay(stream), "a kernel");
      LaunchFills(block, NewSalt(), stream);
    }
    BecomesFree(block);
    const cudaError_t result = block.allocator->free(block.memory, stream);
    if (result != cudaSuccess) Fail(Text(block) + ": its free: " + cudaGetErrorName(result));
    // A stream-ordered free gives nothing back before the stream comes to it.
    if (block.allocator->stream_ordered) {
      unreturned_ += Taken(block.bytes);
    } else {
      shared_.wanted.fetch_sub(Taken(block.bytes));
    }
    Must(cudaEventDestroy(block.last), "an event's destruction");
  }

  void HandOver() {
    what_ = "hand over";
    const std::lock_guard lock(shared_.mutex);
    shared_.handed.push_back(Remove(Below(mine_.size())));
    std::swap(shared_.handed[Below(shared_.handed.size())], shared_.handed.back());
    if (shared_.handed.size() > 2) {
      mine_.push_back(shared_.handed.back());
      shared_.handed.pop_back();
    }
  }

  void Order() {
    cudaEvent_t event = nullptr;
    Must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
    Must(cudaEventRecord(event, AnyStream()), "an event's record");
    Must(cudaStreamWaitEvent(AnyStream(), event, 0), "a wait for an event");
    const cudaError_t state = cudaEventQuery(event);
    if (state == cudaErrorNotReady) {
      (void)cudaGetLastError();  // in CUDA 12 it is one
    } else {
      Must(state, "a query of an event");
    }
    Must(cudaEventDestroy(event), "an event's destruction");
  }

  // Work without allocations in a graph; around it this thread allocates and frees if the mode lets it, and others do.
  void Capture() {
    what_ = "capture";
    Block& block = Any();
    // The graph's work comes behind the block's: a capture may not wait for an event of before it.
    Must(cudaStreamWaitEvent(capturing_, block.last, 0), "a wait for an event");
    const uint32_t salt = NewSalt();
    const bool relaxed = Below(2) == 0;
    cudaGraph_t graph = nullptr;
    {
      const std::shared_lock lock(shared_.captures);
      shared_.capturing.fetch_add(1);
      Must(
          cudaStreamBeginCapture(capturing_, relaxed ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeThreadLocal),
          "the begin of a capture");
      LaunchFills(block, salt, capturing_);
      if (relaxed) {
        void* memory = nullptr;
        const size_t bytes = shared_.sizes[Below(shared_.sizes.size())];
        shared_.wanted.fetch_add(Taken(bytes));
        if (cudaMalloc(&memory, bytes) == cudaSuccess) {
          Must(cudaFree(memory), "a free in a relaxed capture");
        } else if (cudaGetLastError() != cudaErrorMemoryAllocation) {
          Fail("an allocation in a relaxed capture was refused");
        }
        shared_.wanted.fetch_sub(Taken(bytes));
      }
      Must(cudaStreamEndCapture(capturing_, &graph), "the end of a capture");
      shared_.capturing.fetch_sub(1);
    }
    cudaGraphExec_t executable = nullptr;
    Must(cudaGraphInstantiate(&executable, graph, 0), "a graph's instantiation");
    Must(cudaGraphLaunch(executable, capturing_), "a graph's launch");
    block.salt = salt;
    Must(cudaEventRecord(block.last, capturing_), "an event's record");
    Must(cudaGraphExecDestroy(executable), "a graph's destruction");
    Must(cudaGraphDestroy(graph), "a graph's destruction");
  }

  void Ask() {
    what_ = "ask";
    size_t free = 0;
    size_t total = 0;
    Must(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    if (free > total || total != shared_.total) {
      Fail(std::to_string(free) + " bytes are free of " + std::to_string(total));
    }
    const Block& block = Any();
    cudaPointerAttributes attributes = {};
    Must(cudaPointerGetAttributes(&attributes, block.memory + Below(block.bytes)), "cudaPointerGetAttributes");
    if (attributes.type != cudaMemoryTypeDevice || attributes.device != 0) Fail(Text(block) + ": not device memory");
    uintptr_t base = 0;
    size_t bytes = 0;
    if (AddressRange(block.memory + Below(block.bytes), &base, &bytes) != CUDA_SUCCESS ||
        base != reinterpret_cast<uintptr_t>(block.memory) || bytes < block.bytes) {
      Fail(Text(block) + ": its range is another one");
    }
  }

  Shared& shared_;
  const uint64_t index_;
  std::mt19937_64 random_;
  uint64_t step_ = 0;
  const char* what_ = "start";
  std::vector<cudaStream_t> streams_;
  cudaStream_t capturing_ = nullptr;  // non-blocking where there are several streams
  std::vector<Block> mine_;
  uint64_t unreturned_ = 0;  // bytes freed in a stream
  std::vector<uint8_t> found_;
};

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    uint64_t* value = nullptr;
    if (name == "--seed") value = &options->seed;
    if (name == "--steps") value = &options->steps;
    if (name == "--threads") value = &options->threads;
    if (name == "--streams") value = &options->streams;
    if (name == "--ordered") value = &options->ordered;
    if (name == "--wait") value = &options->wait;
    if (value == nullptr || i + 1 == argc) return false;
    char* end = nullptr;
    *value = std::strtoull(argv[i + 1], &end, 10);
    if (*end != '\0') return false;
  }
  return options->threads != 0;
}

int Run(const Options& options) {
  Shared shared;
  shared.options = options;
  std::printf("fuzz: seed %llu, %llu threads of %llu steps, %s\n", static_cast<unsigned long long>(options.seed),
              static_cast<unsigned long long>(options.threads), static_cast<unsigned long long>(options.steps),
              Simulated() ? "simulated device" : "GPU");
  std::fflush(stdout);
  size_t free = 0;
  if (cudaMemGetInfo(&free, &shared.total) != cudaSuccess) {
    std::fputs("fuzz: no device\n", stderr);
    return 1;
  }
  std::mt19937_64 random(options.seed);
  for (int i = 0; i < 10; ++i) shared.sizes.push_back(1 + random() % (size_t{1} << (6 + 2 * i)));
  // So large that now and then what was just freed is all that there is.
  shared.sizes.push_back(shared.total / 20 + random() % 4096);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < options.threads; ++i) {
    threads.emplace_back([&shared, i] { Worker(shared, i).Run(); });
  }
  for (std::thread& thread : threads) thread.join();
  Worker(shared, options.threads).FreeHanded();
  if (cudaDeviceSynchronize() != cudaSuccess) {
    std::fputs("fuzz: the device has failed\n", stderr);
    return 1;
  }
  std::printf("fuzz: %llu allocations, %llu refused\n", static_cast<unsigned long long>(shared.allocated.load()),
              static_cast<unsigned long long>(shared.refused.load()));
  return 0;
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  conformance::Options options;
  if (!conformance::Parse(argc, argv, &options)) {
    std::fputs("fuzz [--seed N] [--steps N] [--threads N] [--streams N] [--ordered 0] [--wait 0]\n", stderr);
    return 2;
  }
  conformance::EndIfStuck();
  return conformance::Run(options);
}
