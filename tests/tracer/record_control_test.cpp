// A recording that another process turns off and on.

#include "tracer/base/record_control.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/tracer/spool_testing.h"

namespace slipstream::tracer {
namespace {

class RecordControlTest : public SpoolTest {
 protected:
  void Start(bool turned_off, const std::string& window = "") {
    RecorderOptions options = {.directory = directory_};
    options.period_ns = 1'000'000;
    options.turned_off = turned_off;
    options.control = &control_;
    options.window = *policy::RecordWindow::Parse(window);
    recorder_ = StartRecorder(options);
  }
  // As `slipstream record` does.
  void Ask(bool on) {
    const uint32_t order = RecordOrder(NumberOfOrder(control_.order.load()) + 1, on);
    control_.order.store(order);
    while (control_.answer.load() != order) std::this_thread::yield();
  }
  RecordState State() const { return static_cast<RecordState>(control_.state.load()); }
  std::vector<std::string> CallsAndPauses() {
    EXPECT_TRUE(recorder_->Finish(kForeverNs));
    const Spool spool = ReadSpool(OnlySpool());
    EXPECT_EQ(spool.end().dropped + spool.end().missing_records + spool.end().later_calls, 0U);
    std::vector<std::string> all;
    for (const SpoolRecord& record : spool.records) {
      if (record.record.kind == RecordKind::kCall) all.push_back(std::to_string(record.record.bytes));
      if (record.record.kind == RecordKind::kSwitch) all.emplace_back(SwitchesOn(record.record) ? "on" : "off");
    }
    return all;
  }

  RecordControl control_{};
  std::unique_ptr<Recorder> recorder_;
};

using Texts = std::vector<std::string>;

TEST_F(RecordControlTest, OrdersAreNumbersAndSayWhat) {
  EXPECT_NE(RecordOrder(1, true), RecordOrder(1, false));
  for (const bool on : {true, false}) {
    EXPECT_EQ(IsOrderOn(RecordOrder(7, on)), on);
    EXPECT_EQ(NumberOfOrder(RecordOrder(7, on)), 7U);
  }
}

TEST_F(RecordControlTest, OffOnOffInOneFile) {
  Start(/*turned_off=*/true);
  EXPECT_EQ(State(), RecordState::kTurnedOff);
  EXPECT_FALSE(recorder_->recording());
  recorder_->Record(NumberedCall(1));
  Ask(true);
  EXPECT_EQ(State(), RecordState::kOn);
  EXPECT_TRUE(recorder_->recording());
  recorder_->Record(NumberedCall(2));
  Ask(true);  // is so already
  recorder_->Record(NumberedCall(3));
  Ask(false);
  EXPECT_EQ(State(), RecordState::kTurnedOff);
  recorder_->Record(NumberedCall(4));
  Ask(true);
  recorder_->Record(NumberedCall(5));
  EXPECT_EQ(CallsAndPauses(), (Texts{"off", "on", "2", "3", "off", "on", "5"}));
  EXPECT_EQ(State(), RecordState::kEnded);
}

TEST_F(RecordControlTest, OutsideOfTheWindowNothingIsRecordedWhoeverAsks) {
  Start(/*turned_off=*/true, "seconds 86000-");
  Ask(true);
  EXPECT_EQ(State(), RecordState::kOutsideWindow);
  recorder_->Record(NumberedCall(1));
  EXPECT_EQ(CallsAndPauses(), (Texts{"off"}));
}

TEST_F(RecordControlTest, ARecordingThatHasEndedSaysSo) {
  RecorderOptions options = {.directory = directory_};
  options.control = &control_;
  options.max_file_bytes = 100'000;
  recorder_ = StartRecorder(options);
  EXPECT_EQ(State(), RecordState::kOn);
  while (recorder_->recording()) recorder_->Record(NumberedCall(0));
  while (State() != RecordState::kEnded) std::this_thread::yield();
  EXPECT_TRUE(recorder_->Finish(kForeverNs));
}

}  // namespace
}  // namespace slipstream::tracer
