// Copies of memory that mostly stays as it is, and is written now and then by every means that a process has: by this
// thread and another, by read(2) and process_vm_writev(2), thrown away, unmapped and mapped again, moved, replaced by
// memory with a file, copied to by CUDA itself; beside forked children that go on living. What each copy brings to the
// device must be what the source had when the call was made.
//
//   changing_sources [COPIES [SEED]]        default: 2000 1
//
// Exit status: 0 all bytes as expected, 1 wrong bytes, 2 something failed.
#include <cuda_runtime_api.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kMapped = size_t{3} << 20;
constexpr size_t kSources = 6;

void Check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
  std::exit(2);
}
#define CHECK(call) Check(call, #call)

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::exit(2);
}

// As numpy and PyTorch have it: not at the beginning of a page.
struct Source {
  unsigned char* mapping = nullptr;
  size_t begin = 0;
  size_t bytes = 0;
  bool has_file = false;  // a part of it

  unsigned char* memory() const { return mapping + begin; }
};

class Program {
 public:
  explicit Program(unsigned seed) : random_(seed) {
    noise_.resize(kMapped);
    for (unsigned char& byte : noise_) byte = static_cast<unsigned char>(random_());
    file_ = memfd_create("noise", MFD_CLOEXEC);
    if (file_ < 0 || write(file_, noise_.data(), kMapped) != static_cast<ssize_t>(kMapped)) Die("memfd_create");
    for (size_t i = 0; i < kSources; ++i) {
      Source& source = sources_[i];
      source.mapping = Map();
      source.begin = i % 2 == 0 ? 64 + i * 1000 : i * kPageBytes;
      source.bytes = (size_t{1} << 20) + i * 200'001;
      Renew(source);
    }
    CHECK(cudaMalloc(reinterpret_cast<void**>(&device_), kMapped));
    CHECK(cudaMalloc(reinterpret_cast<void**>(&other_), kMapped));
    CHECK(cudaMallocHost(reinterpret_cast<void**>(&pinned_), kMapped));
    CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CHECK(cudaMemcpy(other_, noise_.data(), kMapped, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
  }

  // Whether all bytes were right.
  bool Copy() {
    Source& source = sources_[Below(kSources)];
    // Of most copies, nothing has changed.
    if (Below(6) == 0) Change(source);
    std::vector<unsigned char> expected(source.memory(), source.memory() + source.bytes);
    // What a blocking copy brings may be on its way still; behind it on its own stream it is there.
    cudaStream_t const stream = Below(4) == 0 ? nullptr : stream_;
    if (stream == nullptr) {
      CHECK(cudaMemcpy(device_, source.memory(), source.bytes, cudaMemcpyHostToDevice));
    } else {
      CHECK(cudaMemcpyAsync(device_, source.memory(), source.bytes, cudaMemcpyHostToDevice, stream));
    }
    // The source is the program's again.
    if (Below(24) == 0) source.memory()[Below(source.bytes)] ^= 0x55;
    CHECK(cudaMemcpyAsync(pinned_, device_, source.bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (std::memcmp(pinned_, expected.data(), source.bytes) == 0) return true;
    size_t at = 0;
    while (pinned_[at] == expected[at]) ++at;
    std::printf("WRONG byte %zu of %zu, behind %s\n", at, source.bytes, last_);
    return false;
  }

  void End() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    while (wait(nullptr) > 0) {
    }
    CHECK(cudaDeviceSynchronize());
  }

 private:
  static unsigned char* Map() {
    void* const memory = mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) Die("mmap");
    return static_cast<unsigned char*>(memory);
  }
  size_t Below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }
  void Renew(const Source& source) {
    const size_t from = Below(kMapped - source.bytes);
    std::memcpy(source.memory(), noise_.data() + from, source.bytes);
  }

  void MapAnew(Source& source) {
    if (munmap(source.mapping, kMapped) != 0) Die("munmap");
    if (mmap(source.mapping, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
        source.mapping)
      Die("mmap");
    source.has_file = false;
    Renew(source);
  }

  void Change(Source& source) {
    if (source.has_file) {
      last_ = "mapped anew in place of a file";
      MapAnew(source);
      return;
    }
    unsigned char* const memory = source.memory();
    const size_t at = Below(source.bytes - 3 * kPageBytes);
    const size_t length = 1 + Below(2 * kPageBytes);
    unsigned char* const page = memory + at - reinterpret_cast<uintptr_t>(memory + at) % kPageBytes + kPageBytes;
    switch (Below(14)) {
      case 0:
      case 1:
        last_ = "a write";
        for (size_t i = 0; i < length; ++i) memory[at + i] ^= 0xa5;
        break;
      case 2:
        last_ = "a write at its end";
        memory[source.bytes - 1] ^= 0xa5;
        memory[0] ^= 0x5a;
        break;
      case 3:
        last_ = "another thread's write";
        std::thread([&] { memory[at] ^= 0x5a; }).join();
        break;
      case 4:
        last_ = "read(2)";
        if (pread(file_, memory + at, length, static_cast<off_t>(Below(kMapped - length))) !=
            static_cast<ssize_t>(length))
          Die("pread");
        break;
      case 5: {
        last_ = "process_vm_writev";
        iovec from = {noise_.data() + Below(kMapped - length), length};
        iovec to = {memory + at, length};
        if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) < 0) last_ = "nothing";  // a container may forbid it
        break;
      }
      case 6:
        last_ = "MADV_DONTNEED";
        if (madvise(page, kPageBytes, MADV_DONTNEED) != 0) Die("madvise");
        break;
      case 7:
        last_ = "munmap and mmap";
        MapAnew(source);
        break;
      case 8: {
        last_ = "mremap";
        unsigned char* const moved = Map();
        std::memcpy(moved, noise_.data() + Below(kPageBytes), kMapped - kPageBytes);
        if (mremap(moved, kMapped, kMapped, MREMAP_MAYMOVE | MREMAP_FIXED, source.mapping) != source.mapping)
          Die("mremap");
        break;
      }
      case 9:
        last_ = "a page of a file mapped over";
        if (mmap(page, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file_,
                 static_cast<off_t>(Below(kMapped / kPageBytes) * kPageBytes)) != page)
          Die("mmap");
        source.has_file = true;
        break;
      case 10:
        last_ = "a child's write, and a write";
        Fork(source);
        memory[at] ^= 0x11;
        break;
      case 11:
        last_ = "mprotect";
        if (mprotect(page, kPageBytes, PROT_READ) != 0) Die("mprotect");
        if (mprotect(page, kPageBytes, PROT_READ | PROT_WRITE) != 0) Die("mprotect");
        *page ^= 0x22;
        break;
      case 12:
        last_ = "a copy from the device";
        CHECK(cudaMemcpy(memory + at, other_, length, cudaMemcpyDeviceToHost));
        break;
      default:
        last_ = "all of it written";
        Renew(source);
    }
  }

  // A child that writes its copy, and lives for a while.
  void Fork(const Source& source) {
    if (children_.size() == 4) {
      for (const pid_t child : children_) kill(child, SIGKILL);
      for (const pid_t child : children_) waitpid(child, nullptr, 0);
      children_.clear();
    }
    const pid_t child = fork();
    if (child < 0) Die("fork");
    if (child == 0) {
      std::memset(source.memory(), 0, source.bytes);
      pause();
      _exit(0);
    }
    children_.push_back(child);
  }

  std::mt19937 random_;
  std::vector<unsigned char> noise_;
  int file_ = -1;
  Source sources_[kSources];
  std::vector<pid_t> children_;
  unsigned char* device_ = nullptr;
  unsigned char* other_ = nullptr;
  unsigned char* pinned_ = nullptr;
  cudaStream_t stream_ = nullptr;
  const char* last_ = "nothing";
};

}  // namespace

int main(int argc, char** argv) {
  const long copies = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 2000;
  const auto seed = static_cast<unsigned>(argc > 2 ? std::strtol(argv[2], nullptr, 10) : 1);
  Program program(seed);
  long wrong = 0;
  for (long i = 0; i < copies; ++i) wrong += program.Copy() ? 0 : 1;
  program.End();
  std::printf("changing sources: %ld copies, %ld wrong\n", copies, wrong);
  return wrong == 0 ? 0 : 1;
}
