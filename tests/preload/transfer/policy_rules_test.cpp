// [[transfer.rule]] in the policy: R1, a rule says which copies are promoted; R2, behind which the synchronization may
// be skipped; R3, it may mean one place of the program only. What a rule allows is looked at as without one. This
// program is no Python's: python_sites.py has the places.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

class PolicyRules : public Cold {
 protected:
  void SetUp() override {}
  void TearDown() override {
    if (!path_.empty()) std::remove(path_.c_str());
  }

  // Before any CUDA call.
  void UsePolicy(const std::string& text) {
    const char* const started_with = StartedWith("SLIPSTREAM_POLICY");
    if (started_with != nullptr) {
      path_ = started_with;
      return;
    }
    path_ = ::testing::TempDir() + "slipstream_rules_XXXXXX";
    const int fd = mkstemp(path_.data());
    ASSERT_GE(fd, 0);
    const std::string whole = "version = 1\n" + text;
    ASSERT_EQ(write(fd, whole.data(), whole.size()), static_cast<ssize_t>(whole.size()));
    ASSERT_EQ(close(fd), 0);
    StartWith("SLIPSTREAM_POLICY", path_.c_str());
  }
  void Begin(const std::string& text, int device = 0) {
    ASSERT_NO_FATAL_FAILURE(UsePolicy(text));
    ASSERT_NO_FATAL_FAILURE(Prepare(device));
    WarmUp();
  }
  // A blocking copy behind other work, after which nothing is left to do: it was waited for.
  void ExpectTheWait(size_t bytes) {
    SCOPED_TRACE(bytes);
    OK(LaunchFill(device_, bytes, 1, a_));
    Backlog(a_);
    CopyAndSynchronize(a_, bytes);
    EXPECT_EQ(Pending(a_), 0);
    EXPECT_TRUE(HoldsOnly(device_, 0x11, bytes));
  }
  // A blocking copy, which must arrive, but not before somebody waits.
  void CopyThatArrives(size_t bytes) {
    SCOPED_TRACE(bytes);
    OK(LaunchFill(device_, bytes, 1, a_));
    CopyAndSynchronize(a_, bytes);
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(HoldsOnly(device_, 0x11, bytes));
  }

 private:
  std::string path_;
};

// ---- R1: promote
TEST_F(PolicyRules, R1_ARuleLeavesCopiesAlone) {
  Begin("[[transfer.rule]]\ndirection = \"h2d\"\nmin_size = \"1MiB\"\npromote = false\n");
  const Tally tally("transfer");
  ExpectTheWait(kLarge);
  ExpectTheWait(kHuge);
  CopyThatArrives(kLarge - 1);
  CopyThatArrives(kSmall);
  DECIDED(tally, "h2d.declined.rule", 2);
  DECIDED(tally, "h2d.promoted.large", 1);
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "sync.skipped", 2);
}

TEST_F(PolicyRules, R1_BothEndsOfTheSizesAreTheRules) {
  Begin("[[transfer.rule]]\nmin_size = 4096\nmax_size = 5000\npromote = false\n");
  const Tally tally("transfer");
  ExpectTheWait(4096);
  ExpectTheWait(5000);
  CopyThatArrives(4095);
  CopyThatArrives(5001);
  DECIDED(tally, "h2d.declined.rule", 2);
  DECIDED(tally, "h2d.promoted.small", 2);
}

TEST_F(PolicyRules, R1_TheFirstRuleDecides) {
  Begin(
      "[[transfer.rule]]\nmax_size = 5000\npromote = false\n"
      "[[transfer.rule]]\nmax_size = \"1MiB\"\npromote = true\n"
      "[[transfer.rule]]\npromote = false\n");
  const Tally tally("transfer");
  ExpectTheWait(kSmall);
  CopyThatArrives(kLarge);
  ExpectTheWait(kHuge);
  DECIDED(tally, "h2d.declined.rule", 2);
  DECIDED(tally, "h2d.promoted.large", 1);
}

TEST_F(PolicyRules, R1_ARuleOfTheCopysDevice) {
  Begin("[[transfer.rule]]\ndevice = 1\npromote = false\n", 1);
  const Tally tally("transfer");
  ExpectTheWait(kSmall);
  ExpectTheWait(kLarge);
  DECIDED(tally, "h2d.declined.rule", 2);
  NEVER_DECIDED(tally, "h2d.promoted");
}

// ---- R3: site
TEST_F(PolicyRules, R3_WhatIsAllowedAtOnePlaceIsNotAtAnother) {
  Begin("[transfer]\nskip_synchronize = false\n[[transfer.rule]]\nsite = \"train.py\"\nskip_synchronize = true\n");
  const Tally tally("transfer");
  ExpectTheWait(kSmall);
  ExpectTheWait(kLarge);
  DECIDED(tally, "sync.kept.off", 2);
  NEVER_DECIDED(tally, "sync.skipped");
}

TEST_F(PolicyRules, R3_NobodyIsAtAPlaceThatIsNotKnown) {
  Begin(
      "[[transfer.rule]]\nsite = \"train.py:7\"\nskip_synchronize = false\n"
      "[[transfer.rule]]\nsite = \"train.py\"\npromote = false\n"
      "[[transfer.rule]]\nmin_size = \"4MiB\"\npromote = false\n");
  const Tally tally("transfer");
  CopyThatArrives(kSmall);
  CopyThatArrives(kLarge);
  ExpectTheWait(kHuge);
  DECIDED(tally, "h2d.declined.rule", 1);
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "h2d.promoted.large", 1);
  DECIDED(tally, "sync.skipped", 2);
}

TEST_F(PolicyRules, Policy_ARuleOfAnotherDevice) {
  Begin("[[transfer.rule]]\ndevice = 1\npromote = false\n");
  const Tally tally("transfer");
  CopyThatArrives(kSmall);
  CopyThatArrives(kLarge);
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "h2d.promoted.large", 1);
  DECIDED(tally, "h2d.declined.rule", 0);
}

// A rule alone starts the engine.
TEST_F(PolicyRules, Policy_ARulePromotesADirectionThatIsOff) {
  Begin("transfer.h2d = \"off\"\n[[transfer.rule]]\ndirection = \"h2d\"\nmin_size = \"1MiB\"\npromote = true\n");
  const Tally tally("transfer");
  CopyThatArrives(kLarge);
  ExpectTheWait(kLarge - 1);
  ExpectTheWait(kSmall);
  DECIDED(tally, "h2d.promoted.large", 1);
  DECIDED(tally, "sync.skipped", 1);
  DECIDED(tally, "h2d.declined.off", 2);
}

TEST_F(PolicyRules, Policy_ARulePromotesASizeThatIsOff) {
  Begin(
      "[transfer]\nsmall_copies = false\nlarge_copies = false\n"
      "[[transfer.rule]]\nmin_size = 4096\nmax_size = \"1MiB\"\npromote = true\n");
  const Tally tally("transfer");
  CopyThatArrives(kSmall);
  CopyThatArrives(kLarge);
  ExpectTheWait(kSmall - 1);
  ExpectTheWait(kHuge);
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "h2d.promoted.large", 1);
  DECIDED(tally, "h2d.declined.off", 2);
}

// ---- copies to the host
TEST_F(PolicyRules, Policy_ARuleLeavesCopiesToTheHostAlone) {
  Begin("transfer.d2h = \"on\"\n[[transfer.rule]]\ndirection = \"d2h\"\nmax_size = \"1MiB\"\npromote = false\n");
  CopyThatArrives(kHuge);  // and staging memory is there
  const Tally tally("transfer");
  for (const size_t bytes : {kSmall, kLarge, kHuge}) {
    std::vector<uint8_t> back(bytes, 0);
    OK(cudaMemcpyAsync(back.data(), device_, bytes, cudaMemcpyDeviceToHost, a_));
    EXPECT_EQ(back, std::vector<uint8_t>(bytes, 0x11)) << bytes;
  }
  DECIDED(tally, "d2h.declined.small", 1);
  DECIDED(tally, "d2h.declined.rule", 1);
  DECIDED(tally, "d2h.promoted", 1);
}

TEST_F(PolicyRules, Policy_ARuleFetchesWhereCopiesToTheHostAreOff) {
  Begin("[transfer]\nd2h = \"off\"\n[[transfer.rule]]\ndirection = \"d2h\"\nmin_size = \"2MiB\"\npromote = true\n");
  CopyThatArrives(kHuge);
  const Tally tally("transfer");
  for (const size_t bytes : {kLarge, kHuge}) {
    std::vector<uint8_t> back(bytes, 0);
    OK(cudaMemcpyAsync(back.data(), device_, bytes, cudaMemcpyDeviceToHost, a_));
    EXPECT_EQ(back, std::vector<uint8_t>(bytes, 0x11)) << bytes;
  }
  DECIDED(tally, "d2h.declined.off", 1);
  DECIDED(tally, "d2h.promoted", 1);
}

// ---- R2: skip_synchronize
TEST_F(PolicyRules, R2_ARuleKeepsTheSynchronization) {
  Begin("[[transfer.rule]]\nmin_size = \"1MiB\"\nskip_synchronize = false\n");
  const Tally tally("transfer");
  ExpectTheWait(kLarge);
  CopyThatArrives(kSmall);
  DECIDED(tally, "h2d.promoted.large", 1);
  DECIDED(tally, "sync.kept.rule", 1);
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "sync.skipped", 1);
}

TEST_F(PolicyRules, Policy_ARuleSkipsWhereTheKeyDoesNot) {
  Begin("transfer.skip_synchronize = false\n[[transfer.rule]]\nmax_size = 4096\nskip_synchronize = true\n");
  const Tally tally("transfer");
  CopyThatArrives(kSmall);
  ExpectTheWait(kLarge);
  DECIDED(tally, "sync.skipped", 1);
  DECIDED(tally, "sync.kept.off", 1);
}

// ---- a rule allows; it proves nothing
constexpr char kAllowAll[] =
    "[transfer]\nd2h = \"on\"\n[[transfer.rule]]\ndirection = \"h2d\"\npromote = true\nskip_synchronize = true\n";

TEST_F(PolicyRules, S01_ARuleDoesNotMakePinnedMemoryPageable) {
  Begin(kAllowAll);
  std::memset(pinned_, 3, kSmall);
  const Tally tally("transfer");
  Backlog(a_);
  OK(LaunchFill(pinned_, kSmall, 4, a_));
  OK(CopyUp(device_, pinned_, kSmall, a_));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(device_, 4, kSmall));
  DECIDED(tally, "h2d.declined.source", 1);
}

TEST_F(PolicyRules, S10other_ARuleDoesNotHideWorkOnHostMemory) {
  Begin(kAllowAll);
  const Tally tally("transfer");
  OK(LaunchFill(other_, kSmall, 9, a_));
  cudaEvent_t filled = nullptr;
  OK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
  OK(cudaEventRecord(filled, a_));
  OK(cudaStreamWaitEvent(b_, filled, 0));
  OK(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, b_));
  OK(cudaEventRecord(filled, b_));
  OK(cudaStreamWaitEvent(a_, filled, 0));
  CopyAndSynchronize(a_);
  EXPECT_EQ(pinned_[0], 9);
  DECIDED(tally, "sync.kept.host_effect", 1);
  OK(cudaEventDestroy(filled));
}

TEST_F(PolicyRules, S14_ARuleDoesNotOutrankLaunchBlocking) {
  ASSERT_EQ(setenv("CUDA_LAUNCH_BLOCKING", "1", 1), 0);
  // With a pool the engine is there all the same: it knows what the pool must wait for.
  StartWith("SLIPSTREAM_ALLOCATOR_MODE", "segments");
  Begin(kAllowAll);
  const Tally tally("transfer");
  ExpectTheWait(kSmall);
  ExpectTheWait(kLarge);
  std::vector<uint8_t> back(kLarge, 0);
  OK(cudaMemcpyAsync(back.data(), device_, kLarge, cudaMemcpyDeviceToHost, a_));
  EXPECT_EQ(back, std::vector<uint8_t>(kLarge, 0x11));
  NEVER_DECIDED(tally, "h2d.promoted");
  NEVER_DECIDED(tally, "sync.skipped");
  NEVER_DECIDED(tally, "d2h.promoted");
}

}  // namespace
}  // namespace rules
