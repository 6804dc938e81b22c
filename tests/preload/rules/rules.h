// What the tests of the engines' rules share. Each test is an ordinary CUDA program that CUDA's documentation allows,
// and is run bare and under the preloaded library: what it observes must be the same. Where the library is there, it
// also says which decision the library must have taken, so that nothing passes because nothing was tried.
//
// Names: S07_... tests rule S07; run_rules.cpp runs every test in a process of its own, for some rules stay broken for
// the rest of a process ("never once the program has used managed memory").
// Threading: one fixture, one main thread; where a test needs another thread it makes it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/sim_test.h"
#include "tests/support/pattern.h"

namespace rules {

// Whether the preloaded library is there (run_rules.cpp says so).
bool Engine();

// Has the process begin anew with the variable, and run this test alone: settings are those that a process begins with
// (S76). For the beginning of a test, or its fixture's; the second time it returns.
void StartWith(const char* name, const char* value);
// What the process began with by that; null: it was not asked to.
const char* StartedWith(const char* name);

// How often the library has taken each decision since the tally was made. Without the library all are 0.
class Tally {
 public:
  // `engine`: "transfer" or "allocator".
  explicit Tally(std::string engine);
  // `name` without the engine's in front. A name that the library does not know fails the test.
  uint64_t Of(const std::string& name) const;
  // Sum of those whose names begin so.
  uint64_t OfAll(const std::string& prefix) const;
  // Those that are not 0, for messages.
  std::string Text() const;

 private:
  std::string prefix_;
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

// Operations submitted to the stream that have not run. 0 right after a synchronization that was made.
inline int Pending(cudaStream_t stream) { return simPendingOperations(stream); }

using slipstream::test::Pattern;

// Whether device memory holds these bytes now: nothing is run, waited for or paid.
::testing::AssertionResult Holds(const void* device, const std::vector<uint8_t>& bytes, size_t count = SIZE_MAX);
::testing::AssertionResult HoldsOnly(const void* device, uint8_t value, size_t count);

// Runs `work` on a thread of its own with device 0, to its end.
void OnAnotherThread(const std::function<void()>& work, int device = 0);

// How long to wait for what has to come: long on a machine that is busy, and not as long where a rule is broken on
// purpose, so that it never comes (run_rules.cpp).
std::chrono::seconds Patience();

// A breach of a rule may be a hang: the process prints so and leaves as a failed test does, after a minute, or
// RULES_SECONDS.
void LimitTime();

}  // namespace rules
