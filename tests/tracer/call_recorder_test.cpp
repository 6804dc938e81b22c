// Which of the driver's functions have a record of their own, and which are those of the hooked call that they are in.

#include "tracer/calls/call_recorder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda/own_work.h"
#include "tests/tracer/spool_testing.h"
#include "tracer/base/clock.h"
#include "tracer/base/hook_id.h"
#include "tracer/spool/spool_file.h"
#include "tracer/spool/trace_record.h"

namespace slipstream::tracer {
namespace {

class CallRecorderTest : public SpoolTest {
 protected:
  void SetUp() override {
    SpoolTest::SetUp();
    // It is never destroyed; kept here, so that the leak checker finds it.
    static auto* const kept = new std::vector<CallRecorder*>;
    SpoolFailure why;
    calls_ = kept->emplace_back(CallRecorder::Start({.directory = directory_}, CallRecorder::Stacks::kNone, &why));
    ASSERT_NE(calls_, nullptr) << NameOf(why.problem) << " " << why.error;
  }

  // Whether it is asked which library made the call: no hook saw it.
  bool Driver(uint32_t correlation, DriverUse use) const {
    const bool asks = calls_->EnterDriver(correlation, use) != nullptr;
    calls_->LeaveDriver(/*function=*/7, correlation, 0);
    return asks;
  }

  // A hooked call in which these functions of the driver are called, one after the other.
  void Call(const std::vector<std::pair<uint32_t, DriverUse>>& inside) const {
    const uint64_t start = calls_->Begin(0);
    for (const auto& [correlation, use] : inside) EXPECT_FALSE(Driver(correlation, use)) << correlation;
    calls_->End(HookId::cudaMemcpy, start, NowNs(), {}, 0);
  }

  // "call 1": of that correlation. "driver 2 in 1": beside, in that call; "driver 3": in none.
  std::multiset<std::string> Recorded() const {
    EXPECT_TRUE(calls_->Finish(kForeverNs));
    const Spool spool = ReadSpool(OnlySpool());
    std::multiset<std::string> recorded;
    std::map<uint64_t, std::string> calls;  // by number
    for (const SpoolRecord& call : spool.Of(RecordKind::kCall)) {
      calls[call.record.number] = std::to_string(call.record.correlation);
      recorded.insert("call " + calls[call.record.number]);
    }
    for (const SpoolRecord& driver : spool.Of(RecordKind::kDriverCall)) {
      const uint64_t call = driver.record.number;
      recorded.insert("driver " + std::to_string(driver.record.correlation) + (call != 0 ? " in " + calls[call] : ""));
    }
    return recorded;
  }

  CallRecorder* calls_ = nullptr;
};

TEST_F(CallRecorderTest, TheFirstFunctionThatMakesWorkIsItsCalls) {
  Call({});
  Call({{10, DriverUse::kWork}});
  Call({{20, DriverUse::kWork}, {21, DriverUse::kWork}, {22, DriverUse::kWork}});
  EXPECT_EQ(Recorded(),
            (std::multiset<std::string>{"call 0", "call 10", "call 20", "driver 21 in 20", "driver 22 in 20"}));
}

TEST_F(CallRecorderTest, TheFirstWaitInACallIsItsCallsAndOthersHaveTheirOwn) {
  Call({{10, DriverUse::kWait}});
  Call({{20, DriverUse::kOrder}});
  Call({{30, DriverUse::kWait}, {31, DriverUse::kWait}});
  Call({{40, DriverUse::kWork}, {41, DriverUse::kWait}, {42, DriverUse::kOrder}});
  Call({{50, DriverUse::kWait}, {51, DriverUse::kWork}});
  EXPECT_EQ(Recorded(),
            (std::multiset<std::string>{"call 10", "call 20", "call 30", "driver 31 in 30", "call 40",
                                        "driver 41 in 40", "driver 42 in 40", "call 50", "driver 51 in 50"}));
}

TEST_F(CallRecorderTest, SlipstreamsOwnWaitsAreNoCalls) {
  const cuda::OwnWork own;
  EXPECT_FALSE(Driver(10, DriverUse::kWait)) << "of a thread of its own";
  EXPECT_FALSE(Driver(11, DriverUse::kOrder));
  Call({{20, DriverUse::kWait}});
  Call({{30, DriverUse::kWait}, {31, DriverUse::kWork}, {32, DriverUse::kOrder}, {33, DriverUse::kWork}});
  EXPECT_EQ(Recorded(), (std::multiset<std::string>{"call 0", "call 31", "driver 33 in 31"}));
}

TEST_F(CallRecorderTest, PastEveryHookWorkAndWaitsAreRecorded) {
  EXPECT_TRUE(Driver(10, DriverUse::kWait));
  EXPECT_TRUE(Driver(11, DriverUse::kOrder));
  EXPECT_TRUE(Driver(12, DriverUse::kWork));
  Call({{20, DriverUse::kWait}});
  EXPECT_TRUE(Driver(30, DriverUse::kWait)) << "the call is over";
  EXPECT_EQ(Recorded(), (std::multiset<std::string>{"driver 10", "driver 11", "driver 12", "call 20", "driver 30"}));
}

}  // namespace
}  // namespace slipstream::tracer
