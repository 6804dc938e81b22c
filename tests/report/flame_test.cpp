// Flame graphs against figures by hand: whose time stands where, and that it is the report's.

#include "tools/trace/report/flame.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/report/report_testing.h"

namespace slipstream::report {
namespace {

using tracer::TraceRecord;

struct Value {
  int64_t time = 0;
  uint64_t count = 0;
  bool operator==(const Value& other) const { return time == other.time && count == other.count; }
};
std::ostream& operator<<(std::ostream& out, const Value& value) { return out << value.time << " ns, " << value.count; }

// By the labels from the outermost frame to this one; the root is "".
using Frames = std::map<std::string, Value>;

Frames FramesOf(const FlameGraph& graph) {
  Frames frames;
  std::vector<std::string> paths;
  for (const FlameFrame& frame : graph.frames) {
    const bool is_root = paths.empty();
    const std::string above = is_root ? "" : paths.at(frame.parent);
    paths.push_back(is_root ? "" : above.empty() ? frame.label : above + ";" + frame.label);
    EXPECT_TRUE(frames.try_emplace(paths.back(), Value{frame.time, frame.count}).second) << paths.back();
  }
  return frames;
}

// Whatever is on a frame adds up to it.
void ExpectAddsUp(const FlameGraph& graph) {
  std::vector<int64_t> above(graph.frames.size());
  for (size_t i = 1; i < graph.frames.size(); ++i) {
    ASSERT_LT(graph.frames[i].parent, i);
    above[graph.frames[i].parent] += graph.frames[i].time;
  }
  for (size_t i = 0; i < graph.frames.size(); ++i) {
    const FlameFrame& frame = graph.frames[i];
    if (frame.kind == FlameKind::kLeaf || frame.kind == FlameKind::kSmaller) {
      EXPECT_EQ(above[i], 0) << frame.label;
    } else {
      EXPECT_EQ(above[i], frame.time) << frame.label;
    }
  }
}

class FlameTest : public ReportTest {
 protected:
  static constexpr uint32_t kMainStack = 2;
  static constexpr uint32_t kStepStack = 3;   // called by it
  static constexpr uint32_t kInnerStack = 4;  // called by that

  // All of a process without steps. Two calls at once on the main thread, one of the other thread in a backward pass.
  void Stacks() {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Stack(kMainStack, 0, kWaitSite);
    spool.Stack(kStepStack, kMainStack, kCopySite);
    spool.Stack(kInnerStack, kStepStack, kLaunchSite);
    spool.Pass(kBegin);
    const auto call = [](uint16_t hook, uint64_t start, uint64_t end, uint32_t site, uint32_t stack) {
      TraceRecord record = Call(hook, start, end, site);
      record.stack = stack;
      return record;
    };
    spool.Records(1, {call(kMallocHook, kBegin + 20, kBegin + 60, kCopySite, kStepStack),
                      call(kLaunchHook, kBegin, kBegin + 100, kLaunchSite, kInnerStack),
                      call(kMemcpyHook, kBegin + 200, kBegin + 250, kCopySite, kStepStack),
                      call(kQueryHook, kBegin + 500, kBegin + 510, kNoSite, 0)});
    TraceRecord backward = call(kLaunchHook, kBegin + 300, kBegin + 400, kLaunchSite, 0);
    backward.flags = tracer::kSiteIsBackward;
    spool.Records(2, {backward});
    spool.End();
  }

  FlameGraphs MakeAll() {
    report_ = Make({.timeline = true});
    if (report_.flames.host) ExpectAddsUp(*report_.flames.host);
    if (report_.flames.devices) ExpectAddsUp(*report_.flames.devices);
    return report_.flames;
  }
  const ProcessReport& shown() const { return report_.processes[report_.shown]; }
  int64_t TimeOfSites() const {
    int64_t time = 0;
    for (const SiteReport& site : shown().sites) time += site.time;
    return time;
  }
  int64_t TimeOfDevices() const {
    int64_t time = 0;
    for (const DeviceReport& device : shown().devices) {
      time += device.kernel_time;
      for (const DeviceCopyReport& copies : device.copies) time += copies.time;
    }
    return time;
  }

  Report report_;
};

TEST_F(FlameTest, WithoutStacksThereAreFilesAndLines) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/false);
  const FlameGraphs flames = MakeAll();
  ASSERT_TRUE(flames.host.has_value());
  EXPECT_FALSE(flames.host->has_stacks);
  EXPECT_EQ(flames.host->depth, 4U);
  constexpr auto kTimes = static_cast<int64_t>(kSteps);
  EXPECT_EQ(FramesOf(*flames.host),
            (Frames{{"", {500 * kTimes, 6 * kSteps}},
                    {"no stack", {100 * kTimes, kSteps}},
                    {"no stack;cudaLaunchKernel", {100 * kTimes, kSteps}},
                    {"train.py", {400 * kTimes, 5 * kSteps}},
                    {"train.py;step (line 10)", {150 * kTimes, 2 * kSteps}},
                    {"train.py;step (line 10);cudaMemcpyAsync", {100 * kTimes, kSteps}},
                    {"train.py;step (line 10);cudaStreamSynchronize", {50 * kTimes, kSteps}},
                    {"train.py;step (line 20)", {50 * kTimes, 2 * kSteps}},
                    {"train.py;step (line 20);cudaLaunchKernel", {40 * kTimes, kSteps}},
                    {"train.py;step (line 20);cudaMalloc", {10 * kTimes, kSteps}},
                    {"train.py;main (line 30)", {200 * kTimes, kSteps}},
                    {"train.py;main (line 30);cudaStreamSynchronize", {200 * kTimes, kSteps}}}));
  EXPECT_EQ(flames.host->frames.front().time, TimeOfSites());
  // All of it was asked for by the first call, which has no line.
  ASSERT_TRUE(flames.devices.has_value());
  EXPECT_EQ(FramesOf(*flames.devices), (Frames{{"", {550 * kTimes, 4 * kSteps}},
                                               {"no stack", {550 * kTimes, 4 * kSteps}},
                                               {"no stack;gemm", {200 * kTimes, kSteps}},
                                               {"no stack;elementwise", {150 * kTimes, kSteps}},
                                               {"no stack;copy Host-to-Device", {100 * kTimes, kSteps}},
                                               {"no stack;set", {100 * kTimes, kSteps}}}));
  EXPECT_EQ(flames.devices->frames.front().time, TimeOfDevices());
}

TEST_F(FlameTest, WorkWithoutACallIsUnattributed) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/false);
  Execute(database_, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = 999999");
  const FlameGraphs flames = MakeAll();
  ASSERT_TRUE(flames.devices.has_value());
  const Frames frames = FramesOf(*flames.devices);
  EXPECT_EQ(frames.at("unattributed"), (Value{350 * static_cast<int64_t>(kSteps), 2 * kSteps}));
  EXPECT_EQ(frames.at("unattributed;gemm").count, kSteps);
  EXPECT_EQ(flames.devices->frames.front().time, TimeOfDevices());
}

TEST_F(FlameTest, AStackIsReadFromItsOutermostFrame) {
  Stacks();
  BuildWell();
  const FlameGraphs flames = MakeAll();
  ASSERT_TRUE(flames.host.has_value());
  EXPECT_TRUE(flames.host->has_stacks);
  EXPECT_FALSE(flames.devices.has_value());
  // The allocation lies within the launch, whose time it is.
  EXPECT_EQ(FramesOf(*flames.host),
            (Frames{{"", {260, 5}},
                    {"main (train.py:30)", {150, 3}},
                    {"main (train.py:30);step (train.py:10)", {150, 3}},
                    {"main (train.py:30);step (train.py:10);cudaMemcpyAsync", {50, 1}},
                    {"main (train.py:30);step (train.py:10);step (train.py:20)", {100, 1}},
                    {"main (train.py:30);step (train.py:10);step (train.py:20);cudaLaunchKernel", {100, 1}},
                    {"no stack", {10, 1}},
                    {"no stack;cudaStreamQuery", {10, 1}},
                    {"step (train.py:20)", {100, 1}},
                    {"step (train.py:20);cudaLaunchKernel", {100, 1}}}));
  EXPECT_EQ(flames.host->frames.front().time, TimeOfSites());
  EXPECT_EQ(flames.host->frames[1].detail, "/job/train.py");
}

TEST_F(FlameTest, NativeFramesStandBehindPythons) {
  Stacks();
  BuildWell();
  Execute(
      database_,
      "INSERT INTO SLIPSTREAM_MODULES (moduleId, path, isRead, isInterpreter) VALUES (71, '/lib/libtorch.so', 1, 0), "
      "(72, '/lib/libpython.so', 1, 1);"
      "INSERT INTO SLIPSTREAM_ADDRESSES (addressId, moduleId, offset, name, isFunction, functionOffset) VALUES "
      "(81, 72, 1, 'PyEval', 1, 0), (82, 71, 2, 'at::empty', 1, 0), (83, 71, 3, 'Engine::run', 1, 0);"
      "INSERT INTO SLIPSTREAM_STACKS (stackId, parentId, siteId, depth, isCut, addressId) VALUES "
      "(901, NULL, NULL, 0, 0, 81), (902, 901, NULL, 1, 0, 82), (903, NULL, NULL, 0, 0, 83), "
      "(904, 903, NULL, 1, 0, 82);"
      "UPDATE SLIPSTREAM_CALLS SET nativeStackId = 902 WHERE correlationId IN (SELECT correlationId FROM "
      "CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId WHERE value LIKE 'cudaMemcpyAsync%');"
      "UPDATE SLIPSTREAM_CALLS SET nativeStackId = 904 WHERE siteIsBackward = 1");
  const FlameGraphs flames = MakeAll();
  ASSERT_TRUE(flames.host.has_value());
  const Frames frames = FramesOf(*flames.host);
  EXPECT_EQ(frames.count("main (train.py:30);step (train.py:10);at::empty;cudaMemcpyAsync"), 1U);
  EXPECT_EQ(frames.at("step (train.py:20);Engine::run;at::empty;cudaLaunchKernel"), (Value{100, 1}));
  EXPECT_EQ(flames.host->frames.front().time, TimeOfSites());
}

TEST_F(FlameTest, EachProcessHasItsOwn) {
  Sample("0.spool", 0);
  Sample("1.spool", 1, 2 * kStep);
  BuildWell();
  AddDevices(/*limits=*/false);
  const FlameGraphs flames = MakeAll();
  ASSERT_EQ(shown().rank, 1);
  ASSERT_TRUE(flames.host.has_value());
  EXPECT_EQ(flames.host->frames.front().time, 500 * static_cast<int64_t>(kSteps));
  EXPECT_EQ(flames.host->frames.front().time, TimeOfSites());
  EXPECT_FALSE(flames.devices.has_value());
}

// Of so many stacks that each is next to nothing, what is shown is the whole all the same.
TEST_F(FlameTest, WhatIsSmallIsPutTogether) {
  constexpr uint32_t kLines = 3000;
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Pass(kBegin);
    std::vector<TraceRecord> records = {Call(kSynchronizeHook, kBegin, kBegin + 1'000'000, kWaitSite)};
    for (uint32_t i = 0; i < kLines; ++i) {
      spool.Site(100 + i, "/job/many.py", static_cast<int32_t>(i + 1), "f");
      records.push_back(Call(kLaunchHook, kBegin + 1'000'000 + i, kBegin + 1'000'001 + i, 100 + i));
      if (records.size() < 500) continue;
      spool.Records(1, records);
      records.clear();
    }
    spool.Records(1, records);
    spool.End();
  }
  BuildWell();
  const FlameGraphs flames = MakeAll();
  ASSERT_TRUE(flames.host.has_value());
  EXPECT_EQ(flames.host->least, (1'000'000 + kLines) / kFlameShare);
  const Frames frames = FramesOf(*flames.host);
  EXPECT_EQ(frames.size(), 6U);
  EXPECT_EQ(frames.at(""), (Value{1'000'000 + kLines, 1 + kLines}));
  EXPECT_EQ(frames.at("many.py;(smaller)"), (Value{kLines, kLines}));
}

TEST_F(FlameTest, AGraphHasNoMoreFramesThanAreDrawn) {
  constexpr uint64_t kStacks = 900;
  constexpr uint64_t kDepth = 10;
  static_assert(kStacks * kDepth > kMostFrames && kStacks < uint64_t{kFlameShare});
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Pass(kBegin);
    std::vector<TraceRecord> records;
    uint32_t number = 100;
    for (uint64_t i = 0; i < kStacks; ++i) {
      for (uint64_t depth = 0; depth < kDepth; ++depth, ++number) {
        spool.Site(number, "/job/deep.py", static_cast<int32_t>(number), "f");
        spool.Stack(number, depth == 0 ? 0 : number - 1, number);
      }
      records.push_back(Call(kLaunchHook, kBegin + 100 * i, kBegin + 100 * (i + 1), kNoSite));
      records.back().stack = number - 1;
    }
    spool.Records(1, records);
    spool.End();
  }
  BuildWell();
  const FlameGraphs flames = MakeAll();
  ASSERT_TRUE(flames.host.has_value());
  EXPECT_LE(flames.host->frames.size(), kMostFrames);
  const Value all = {100 * int64_t{kStacks}, kStacks};
  EXPECT_EQ(FramesOf(*flames.host), (Frames{{"", all}, {"(smaller)", all}}));
}

}  // namespace
}  // namespace slipstream::report
