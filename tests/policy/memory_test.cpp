// Memory that runs out at any moment of reading a policy is a policy that cannot be used, and nothing worse.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include "policy/environment.h"
#include "policy/load.h"
#include "policy/log.h"
#include "policy/transfer_plan.h"
#include "tests/support/process.h"

namespace {

// Allocations left until they fail; negative: they do not.
thread_local long allocations_left = -1;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// Address sanitizer's own would not know what the operators below give back.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace slipstream::policy {
namespace {

using test::Variables;

// Runs `body` with ever more allocations allowed until it runs through, and returns how many it took.
template <typename Body>
long UntilItFits(Body body) {
  for (long allowed = 0; allowed < 100000; ++allowed) {
    allocations_left = allowed;
    body();
    const bool fitted = allocations_left != 0;
    allocations_left = -1;
    if (fitted) return allowed;
  }
  return -1;
}

constexpr const char* kTexts[] = {
    "version = 1\n[log]\nlevel = \"debug\"\nmax_size = \"64KiB\"\n[environment]\nA = \"a value that is allocated\"\n"
    "[[transfer.rule]]\nname = \"a name that is allocated\"\npromote = false\nmax_size = 5\n"
    "[[transfer.rule]]\nskip_synchronize = false\n",
    "versoin = 1\n[log]\nlevel = loud\nlevel = \"x\"\n[alocator]\nmode = \"off\"\n[log]\nx = [1, { y = 2 }]\n= 1\n"};

TEST(Memory, LoadSaysThatItRanOut) {
  const Environment env(
      Variables{{"SLIPSTREAM_LOG_FILE", "/a/path/long/enough/to/be/allocated"}, {"SLIPSTREAM_X", "y"}});
  for (const char* text : kTexts) {
    const std::string copy = text;
    const std::string name = "policy.toml with a name long enough to be allocated";
    Loaded last;
    int failed = 0;
    int enabled = 0;
    const long needed = UntilItFits([&] {
      Loaded loaded = LoadText(copy, name, env);
      if (loaded.out_of_memory) {
        ++failed;
        enabled += loaded.policy.enabled ? 1 : 0;
      }
      last = std::move(loaded);
    });
    EXPECT_GT(needed, 50);
    // Every allowance but the last, which just fits and is used up. Two allocations are only wishes: those of the
    // buffers that the sorts can do without.
    EXPECT_GE(failed, needed - 3);
    EXPECT_EQ(enabled, 0);
    EXPECT_FALSE(last.out_of_memory);
  }
}

TEST(Memory, AnEnvironmentThatIsNotCompleteIsRefused) {
  int incomplete = 0;
  int accepted = 0;
  const long needed = UntilItFits([&] {
    const Environment env = Environment::FromProcess();
    if (env.complete()) return;
    ++incomplete;
    const long left = std::exchange(allocations_left, -1);
    accepted += Load({.path = std::nullopt, .env = env}).ok() ? 1 : 0;
    allocations_left = left;
  });
  EXPECT_GT(needed, 1);
  EXPECT_GE(incomplete, needed - 2);
  EXPECT_EQ(accepted, 0);
}

TEST(Memory, TheLogLosesItsMessage) {
  const test::Folder folder;
  const std::string file = folder / "a name long enough to be allocated on the heap.log";
  const test::Finished child = test::InChild([&] {
    Log log{.level = LogLevel::kInfo, .file = file};
    const std::string message(1000, 'x');
    const long configured = UntilItFits([&] { ConfigureLog(log); });
    const long said = UntilItFits([&] { LogInfo(message); });
    return configured > 3 && said > 0 ? 0 : 1;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_TRUE(test::ReadFile(file).ends_with("xxx\n"));
}

TEST(Memory, WhatMustNotAllocateDoesNot) {
  const test::Finished child = test::InChild([] {
    Transfer transfer;
    transfer.rules.resize(2);
    transfer.rules[0].device = 1;
    transfer.rules[1].promote = RuleSwitch::kFalse;
    allocations_left = 0;
    const bool promoted = PlanOf(transfer, Direction::kHostToDevice, 1, 0).promote;
    const bool disabled = DisabledByEnvironment();
    const bool enabled = LogEnabled(LogLevel::kError);
    LogError("not written");
    LogOnceToStderr("said");
    allocations_left = -1;
    return disabled || enabled || promoted ? 1 : 0;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_TRUE(child.err.ends_with(": said\n")) << child.err;
}

}  // namespace
}  // namespace slipstream::policy
