// What the tests of the transfer rules share. Each test is an ordinary CUDA program that CUDA's documentation allows,
// and is run bare and under the preloaded library: what it observes must be the same. Where the library is there, it
// also says which decision the library must have taken, so that nothing passes because nothing was tried.
//
// Names: S07_... tests rule S07; run_rules.cpp runs every test in a process of its own, for some rules stay broken for
// the rest of a process ("never once the program has used managed memory"). Threading: one fixture, one main thread;
// where a test needs another thread it makes it. Hazard: in the simulator's adversarial mode nothing runs before
// somebody waits for it, and a query lets a little run.
//   Backlog() puts enough work in front that a few queries do not get through it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/sim_test.h"

namespace rules {

using simtest::LaunchFill;
using simtest::LaunchMove;

inline constexpr size_t kSmall = 4096;             // staged in the slab
inline constexpr size_t kLarge = size_t{1} << 20;  // staged in the ring, and read at the call by CUDA too
inline constexpr size_t kHuge = size_t{4} << 20;   // CUDA reads what lies behind the first 2 MiB in stream order
inline constexpr size_t kReadAtCall = size_t{2} << 20;

// Whether the preloaded library is there (run_rules.cpp says so).
bool Engine();

// How often the library has taken each decision since the tally was made. Without the library all are 0.
class Tally {
 public:
  Tally();
  // `name` without "transfer." in front. A name that the library does not know fails the test.
  uint64_t Of(const std::string& name) const;
  // Sum of those whose names begin so.
  uint64_t OfAll(const std::string& prefix) const;
  // Those that are not 0, for messages.
  std::string Text() const;

 private:
  std::map<std::string, uint64_t> before_;
};

// The library must have decided so, `times` times.
#define DECIDED(tally, name, times)                                           \
  if (::rules::Engine()) {                                                    \
    EXPECT_EQ((tally).Of(name), uint64_t{times}) << (name) << (tally).Text(); \
  }
#define DECIDED_AT_LEAST(tally, name, times)                                  \
  if (::rules::Engine()) {                                                    \
    EXPECT_GE((tally).Of(name), uint64_t{times}) << (name) << (tally).Text(); \
  }
// None of the decisions whose names begin so.
#define NEVER_DECIDED(tally, prefix) EXPECT_EQ((tally).OfAll(prefix), 0U) << (tally).Text()

// Operations submitted to the stream that have not run. 0 right after a synchronise that was made.
inline int Pending(cudaStream_t stream) { return simPendingOperations(stream); }

// Bytes that differ from place to place and from one `salt` to the other.
std::vector<uint8_t> Pattern(size_t bytes, uint32_t salt);

// Whether device memory holds these bytes now: nothing is run, waited for or paid.
::testing::AssertionResult Holds(const void* device, const std::vector<uint8_t>& bytes, size_t count = SIZE_MAX);
::testing::AssertionResult HoldsOnly(const void* device, uint8_t value, size_t count);

// Runs `work` on a thread of its own with device 0, to its end.
void OnAnotherThread(const std::function<void()>& work, int device = 0);

// Functions whose signature is another one in CUDA 12.
cudaError_t CopyBatch(void* destination, const void* source, size_t bytes, cudaStream_t stream);
cudaError_t PrefetchToDevice(const void* memory, size_t bytes, cudaStream_t stream);
cudaError_t AdviseReadMostly(const void* memory, size_t bytes);

// Buffers and streams; no CUDA call before SetUp, so that a test can set variables in its constructor.
class Rule : public ::testing::Test {
 protected:
  void SetUp() override;
  // Buffers and streams, without a copy: the engine has not started.
  void Prepare();
  // A first copy, after which the engine has started and small staging memory is there.
  void WarmUp();

  // Work that lies in front of what follows on the stream.
  void Backlog(cudaStream_t stream, int kernels = 64);

  static cudaError_t CopyUp(void* destination, const void* source, size_t bytes, cudaStream_t stream) {
    return cudaMemcpyAsync(destination, source, bytes, cudaMemcpyHostToDevice, stream);
  }
  // What a blocking copy is made of. The engine stages it and skips the wait.
  void CopyAndSynchronize(cudaStream_t stream, size_t bytes = kSmall);
  // Afterwards the calling thread owes a wait on a_, behind which a backlog lies; a program without the engine owes
  // nothing, for it has waited.
  void OweOnA();

  // Another thread waits for the stream, so that what the calling thread owes is not paid.
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

// The engine has not started when the test begins.
class Cold : public Rule {
 protected:
  void SetUp() override { Prepare(); }
};

}  // namespace rules
