// S23: at most two synchronizations of a stream are deferred; the third waits for the oldest.
#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

class Bound : public Rule {
 protected:
  // One step: a kernel that the host sees the end of, and a blocking copy behind it.
  void Step(int number, cudaStream_t stream) {
    Backlog(stream);
    OK(simtest::LaunchAppend(&log_, number, stream));
    CopyAndSynchronize(stream);
  }
  bool Done(int number) const {
    return std::find(log_.entries.begin(), log_.entries.end(), number) != log_.entries.end();
  }
  void TearDown() override { simQuiesce(); }

  simtest::Log log_;
};

TEST_F(Bound, S23_TheThirdWaitsForTheFirst) {
  const Tally tally("transfer");
  Step(1, a_);
  Step(2, a_);
  DECIDED(tally, "sync.settled.bound", 0);
  Step(3, a_);
  EXPECT_TRUE(Done(1));
  DECIDED(tally, "sync.skipped", 3);
  DECIDED(tally, "sync.settled.bound", 1);
  Step(4, a_);
  EXPECT_TRUE(Done(2));
  DECIDED(tally, "sync.settled.bound", 2);
}

// Whichever thread has deferred.
TEST_F(Bound, S23_ThreadsShareTheBoundOfAStream) {
  Step(1, a_);
  Step(2, a_);
  OnAnotherThread([this] {
    Step(3, a_);
    EXPECT_TRUE(Done(1));
  });
}

TEST_F(Bound, S23_EveryStreamHasItsOwn) {
  const Tally tally("transfer");
  Step(1, a_);
  Step(2, b_);
  Step(3, a_);
  Step(4, b_);
  DECIDED(tally, "sync.settled.bound", 0);
  Step(5, a_);
  EXPECT_TRUE(Done(1));
}

TEST_F(Bound, S23_ALongLoopStaysTwoStepsAhead) {
  for (int step = 0; step < 50; ++step) {
    Step(step, a_);
    if (step >= 2) {
      EXPECT_TRUE(Done(step - 2)) << step;
    }
  }
}

}  // namespace
}  // namespace rules
