// A view for scripts.

#include "tools/trace/top/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/top/top_testing.h"
#include "tools/text/json_bytes.h"

namespace slipstream::top {
namespace {

TEST(TopJsonTest, AllFiguresAndNullForWhatIsNotKnown) {
  View view;
  view.unix_ns = 5;
  view.directories = {"/run"};
  view.processes = {SampleProcess(7), SampleProcess(8, 1)};
  view.processes[1].trace = SampleTrace();
  view.processes[0].counters.reset();
  view.processes[0].executable = "\xff";
  view.processes[1].slowest = true;
  view.processes[1].command = "train.py --lr 1";
  view.processes[1].user = "me";
  view.processes[1].directory = "/run";
  view.processes[1].recording = tracer::RecordState::kTurnedOff;
  view.processes[1].trace->steps->trend_ns = {5, 6};
  view.uncounted = {99};
  const std::string line = ViewJson(view);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  const auto json = text::ParseBytes(line);
  EXPECT_EQ(json["schema"], "slipstream-top-1");
  EXPECT_EQ(json["ended"], false);
  EXPECT_EQ(json["slowest_pid"], 8);
  EXPECT_EQ(json["processes"][0]["executable"], "\xff");
  EXPECT_TRUE(json["processes"][0]["counters"].is_null());
  EXPECT_TRUE(json["processes"][0]["trace"].is_null());
  EXPECT_TRUE(json["processes"][0]["rank"].is_null());
  const auto& process = json["processes"][1];
  EXPECT_EQ(process["rank"], 1);
  EXPECT_EQ(process["command"], "train.py --lr 1");
  EXPECT_EQ(process["user"], "me");
  EXPECT_EQ(process["directory"], "/run");
  EXPECT_EQ(process["recording"], "off");
  EXPECT_EQ(process["slowest"], true);
  EXPECT_EQ(process["trace"]["steps"]["trend_ns"], (std::vector<uint64_t>{5, 6}));
  EXPECT_TRUE(json["processes"][0]["command"].is_null());
  EXPECT_TRUE(json["processes"][0]["recording"].is_null());
  EXPECT_EQ(json["uncounted_pids"], std::vector<int32_t>{99});
  EXPECT_EQ(process["counters"]["all"]["calls"], 2000);
  EXPECT_EQ(process["counters"]["copies"][0]["direction"], "host_to_device");
  EXPECT_EQ(process["counters"]["functions"][1]["waits"], true);
  EXPECT_EQ(process["trace"]["steps"]["median_ns"], 80'000'000);
  EXPECT_EQ(process["trace"]["lines"][0]["line"], 42);
  EXPECT_TRUE(process["trace"]["lines"][1]["file"].is_null());
  EXPECT_EQ(process["trace"]["devices"][0]["busy"], 0.873);
  EXPECT_EQ(process["memory"][0]["live_bytes"], uint64_t{3} << 30);
  // Each of two runs has a slowest rank: none of them is the slowest.
  view.processes[0].slowest = true;
  EXPECT_TRUE(text::ParseBytes(ViewJson(view))["slowest_pid"].is_null());
  view.processes[1].trace = TraceView{};
  const auto empty = text::ParseBytes(ViewJson(view))["processes"][1]["trace"];
  EXPECT_TRUE(empty["steps"].is_null());
  EXPECT_TRUE(empty["devices"].is_null());
  EXPECT_TRUE(empty["ran_on"].is_null());
}

}  // namespace
}  // namespace slipstream::top
