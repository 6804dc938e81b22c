// What the tests of the transfer rules share (rules/rules.h says how they are run).
//
// Threading: one fixture, one main thread.
// Hazard: in the simulator's adversarial mode nothing runs before somebody waits for it, and a query lets a little run.
//   Backlog() puts enough work in front that a few queries do not get through it.
#pragma once

#include <cstdint>
#include <future>
#include <thread>
#include <vector>

#include "tests/preload/rules/rules.h"

namespace rules {

using simtest::LaunchFill;
using simtest::LaunchMove;

inline constexpr size_t kMiB = size_t{1} << 20;

inline constexpr size_t kSmall = 4096;             // the driver takes it at once
inline constexpr size_t kLarge = size_t{1} << 20;  // staged in the ring, and read at the call by CUDA too
inline constexpr size_t kHuge = size_t{4} << 20;   // CUDA reads what lies behind the first 2 MiB in stream order
inline constexpr size_t kReadAtCall = size_t{2} << 20;

// Functions whose signature is another one in CUDA 12.
cudaError_t CopyBatch(void* destination, const void* source, size_t bytes, cudaStream_t stream);
cudaError_t PrefetchToDevice(const void* memory, size_t bytes, cudaStream_t stream);
cudaError_t AdviseReadMostly(const void* memory, size_t bytes);

// Buffers and streams; no CUDA call before SetUp, so that a test can set variables in its constructor.
class Rule : public ::testing::Test {
 protected:
  void SetUp() override;
  // Buffers and streams, without a copy: the engine has not started.
  void Prepare(int device = 0);
  // A first copy, after which the engine has started.
  void WarmUp();

  // Work that lies in front of what follows on the stream.
  void Backlog(cudaStream_t stream, int kernels = 64);

  static cudaError_t CopyUp(void* destination, const void* source, size_t bytes, cudaStream_t stream) {
    return cudaMemcpyAsync(destination, source, bytes, cudaMemcpyHostToDevice, stream);
  }
  // What a blocking copy is made of. The engine stages it and skips the wait.
  void CopyAndSynchronize(cudaStream_t stream, size_t bytes = kSmall);
  // Afterwards the calling thread has deferred a wait on a_, behind which a backlog lies; a program without the engine
  // has deferred nothing, for it has waited.
  void DeferOnA();

  // Another thread waits for the stream, so that what the calling thread has deferred is not settled.
  void WaitElsewhere(cudaStream_t stream, int device = 0);

  uint8_t* device_ = nullptr;  // kHuge bytes each
  uint8_t* other_ = nullptr;
  uint8_t* third_ = nullptr;
  uint8_t* scratch_ = nullptr;   // of Backlog()
  uint8_t* pinned_ = nullptr;    // kLarge bytes
  std::vector<uint8_t> source_;  // pageable, kHuge bytes
  cudaStream_t a_ = nullptr;
  cudaStream_t b_ = nullptr;
};

// Another thread has deferred. Until then the calling thread has submitted nothing to any other stream (S74).
class AnotherDefers : public Rule {
 protected:
  ~AnotherDefers() override { LetGo(); }
  void SetUp() override;

  // What Backlog() does, by a thread that ends with it.
  void EarlierBacklog(cudaStream_t stream);
  // A thread that has waited for the stream as far as it knows, and lives on: it settles nothing. The calling thread
  // works on that stream too (S65).
  void AnotherDefersOn(cudaStream_t stream);
  // It ends.
  void LetGo();

 private:
  std::promise<void> end_;
  std::thread other_thread_;
};

// The engine has not started when the test begins.
class Cold : public Rule {
 protected:
  void SetUp() override { Prepare(); }
};

}  // namespace rules
