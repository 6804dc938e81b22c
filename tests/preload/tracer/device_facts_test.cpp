// The devices of a recorded process: what the driver says about them is in the trace, whoever asks for the rest.

#include "tracer/spool/device_facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/preload/tracer/trace_testing.h"
#include "tests/trace_db/trace_db_testing.h"

namespace slipstream::test {
namespace {

using tracer::DeviceFacts;

// Two simulated devices, with numbers that no device has.
Variables Attributes(Variables more = {}) {
  more["SIMCUDA_MEMORY"] = "3MiB";
  more["SIMCUDA_ATTRIBUTES"] =
      "16=11,75=9,76=5,10=33,1=1001,39=2079,106=17,12=60001,82=60002,8=40001,97=40002,81=40003";
  return more;
}

DeviceFacts Expected(int number) {
  DeviceFacts device;
  device.name = "Simulated CUDA device " + std::to_string(number);
  device.uuid = "51515151-5151-5151-5151-51515151510" + std::to_string(number);
  device.bus = "0000:0" + std::to_string(number + 1) + ":00.0";
  device.total_memory = 3 << 20;
  device.multiprocessors = 11;
  device.compute_major = 9;
  device.compute_minor = 5;
  device.warp_size = 33;
  device.threads_per_block = 1001;
  device.threads_per_multiprocessor = 2079;
  device.blocks_per_multiprocessor = 17;
  device.registers_per_block = 60'001;
  device.registers_per_multiprocessor = 60'002;
  device.shared_per_block = 40'001;
  device.shared_per_block_optin = 40'002;
  device.shared_per_multiprocessor = 40'003;
  // What the simulated device has of itself.
  device.constant_memory = 65'536;
  device.l2_cache = 4 << 20;
  device.clock_khz = 1'000'000;
  device.memory_clock_khz = 1'500'000;
  device.memory_bus_bits = 256;
  device.async_engines = 2;
  device.integrated = 0;
  device.block_x = device.block_y = 1024;
  device.block_z = 64;
  device.grid_x = 2'147'483'647;
  device.grid_y = device.grid_z = 65'535;
  return device;
}

std::string FactOf(const Trace& trace, int device) {
  const auto& facts = trace.reader->facts();
  const auto found = facts.find("device." + std::to_string(device));
  return found != facts.end() ? found->second : "none";
}

class DeviceFactsRunTest : public ::testing::Test {
 protected:
  Trace Run(const Variables& more) {
    const std::string directory = NewDirectory();
    const Finished finished = RunTraced({DEVICE_WORK, "2", "0"}, directory, more);
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(finished.out, "2 rounds done\n") << finished.err;
    return ReadOnlyTrace(directory);
  }
};

TEST_F(DeviceFactsRunTest, AreInTheTraceWithAndWithoutDeviceWork) {
  for (const char* const device : {"off", "cupti"}) {
    SCOPED_TRACE(device);
    const Trace trace = Run(Attributes({{"SLIPSTREAM_TRACER_DEVICE", device}}));
    ASSERT_NE(trace.reader, nullptr);
    EXPECT_EQ(FactOf(trace, 0), DeviceFactText(Expected(0)));
    EXPECT_EQ(FactOf(trace, 1), DeviceFactText(Expected(1)));
    EXPECT_EQ(FactOf(trace, 2), "none");
  }
}

TEST_F(DeviceFactsRunTest, ADeviceThatTheProcessDoesNotSeeIsNotThere) {
  const Trace trace = Run(Attributes({{"SIMCUDA_DEVICES", "1"}}));
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(FactOf(trace, 0), DeviceFactText(Expected(0)));
  EXPECT_EQ(FactOf(trace, 1), "none");
}

// An old driver does not know every attribute; nothing else is missing then.
TEST_F(DeviceFactsRunTest, WhatTheDriverDoesNotTellIsLeftOut) {
  const Trace trace = Run(Attributes({{"SIMCUDA_FAIL", "cuDeviceGetAttribute:1@1+,cuDeviceGetUuid_v2:1@1+"}}));
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(FactOf(trace, 0), "bus=0000:01:00.0 total_memory=3145728 name=Simulated CUDA device 0");
}

// Of the driver's functions, as the simulator counts them: whoever calls.
uint64_t DriverCalls(const std::string& counts, const std::string& function) {
  const auto root = nlohmann::json::parse(ReadFile(counts), nullptr, false);
  EXPECT_FALSE(root.is_discarded()) << counts;
  const auto driver = root.find("libcuda.so.1");
  return driver != root.end() ? driver->value(function, uint64_t{0}) : 0;
}

class DeviceQuestionsTest : public ::testing::Test {
 protected:
  Trace Run(const std::vector<std::string>& arguments, Variables more) {
    const std::string directory = NewDirectory();
    counts_ = NewDirectory() + "/counts.json";
    more["SIMCUDA_COUNTS"] = counts_;
    std::vector<std::string> command = {DEVICE_QUESTIONS};
    command.insert(command.end(), arguments.begin(), arguments.end());
    finished_ = RunTraced(command, directory, more);
    EXPECT_EQ(finished_.status, 0) << finished_.err;
    return ReadOnlyTrace(directory);
  }
  std::string counts_;
  Finished finished_;
};

// No context, no error, no errno: what the program sees is as without slipstream.
TEST_F(DeviceQuestionsTest, ChangeNothingThatTheProgramSees) {
  const Finished bare = RunProgram({DEVICE_QUESTIONS, "quiet", "3"});
  EXPECT_EQ(bare.out,
            "failed with 101, 3 succeeded, errno 77, 0 primary contexts, no current one, mode 0, last error 101\n");
  const Trace trace = Run({"quiet", "3"}, Attributes());
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(FactOf(trace, 0), DeviceFactText(Expected(0))) << "it was asked";
  EXPECT_EQ(finished_.out, bare.out);
  EXPECT_EQ(finished_.err, bare.err);
}

TEST_F(DeviceQuestionsTest, AreAskedOnceWhereTheDriverAnswers) {
  Run({"quiet", "100"}, {});
  EXPECT_EQ(DriverCalls(counts_, "cuDeviceGetName"), 2U) << "of two devices";
  EXPECT_EQ(DriverCalls(counts_, "cuThreadExchangeStreamCaptureMode"), 3U) << "around the questions, and the program's";
}

// While it does not answer, the 1st, 2nd, 4th... call that succeeds asks.
TEST_F(DeviceQuestionsTest, AreAskedAgainAndNotAtEveryCall) {
  const Trace late = Run({"quiet", "100"}, Attributes({{"SIMCUDA_FAIL", "cuDeviceGetName:3@1,cuDeviceGetName:3@3"}}));
  ASSERT_NE(late.reader, nullptr);
  EXPECT_EQ(FactOf(late, 0), DeviceFactText(Expected(0)));
  EXPECT_EQ(FactOf(late, 1), DeviceFactText(Expected(1)));
  EXPECT_EQ(DriverCalls(counts_, "cuDeviceGetName"), 5U) << "the second question failed at the second device";

  const Trace never = Run({"quiet", "100"}, {{"SIMCUDA_FAIL", "cuDeviceGetName:3@1+"}});
  ASSERT_NE(never.reader, nullptr);
  EXPECT_EQ(FactOf(never, 0), "none");
  EXPECT_EQ(DriverCalls(counts_, "cuDeviceGetName"), 7U) << "1, 2, 4, 8, 16, 32, 64";
}

TEST_F(DeviceQuestionsTest, AreAskedByOneOfManyThreads) {
  const Trace trace = Run({"threads", "8"}, Attributes());
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(FactOf(trace, 0), DeviceFactText(Expected(0)));
  EXPECT_EQ(FactOf(trace, 1), DeviceFactText(Expected(1)));
  EXPECT_EQ(DriverCalls(counts_, "cuDeviceGetName"), 2U);
}

TEST_F(DeviceQuestionsTest, NobodyAsksWhereNothingIsRecorded) {
  const std::string counts = NewDirectory() + "/counts.json";
  Variables variables = TracingPreload(SLIPSTREAM_LIBRARY, NewDirectory());
  variables["SLIPSTREAM_TRACER_RECORD"] = "off";
  variables["SIMCUDA_COUNTS"] = counts;
  EXPECT_EQ(RunProgram({DEVICE_QUESTIONS, "quiet", "100"}, variables).status, 0);
  EXPECT_EQ(DriverCalls(counts, "cuDeviceGetName"), 0U);
  EXPECT_EQ(DriverCalls(counts, "cuDevicePrimaryCtxGetState"), 2U) << "the program's own";
}

double TimeInMeasuredSteps(const nlohmann::json& steps, int64_t start, int64_t end) {
  int64_t time = 0;
  for (const auto& step : steps["steps"]) {
    if (step["use"] != "measured") continue;
    const auto begin = step["start_ns"].get<int64_t>();
    time += std::max<int64_t>(0, std::min(end, begin + step["time_ns"].get<int64_t>()) - std::max(start, begin));
  }
  return static_cast<double>(time);
}

// From the recording to the report: what it says of the device is what follows from the attributes.
TEST(DeviceFactsReportTest, EfficiencyAndOccupancyFollowFromTheAttributes) {
  // 9 multiprocessors of 2048 threads; shared memory for 4 blocks of 1152 bytes, each with the 1024 that the system
  // takes of compute capability 8.
  constexpr double kMultiprocessors = 9;
  constexpr double kThreads = 2048;
  constexpr double kBlocksThatFit = 4;
  const std::string directory = NewDirectory();
  RunTraced({DEVICE_WORK, "50", "0"}, directory,
            {{"SLIPSTREAM_TRACER_DEVICE", "cupti"},
             {"SIMCUDA_MODE", "timed"},
             {"SIMCUDA_ATTRIBUTES", "16=9,75=8,39=2048,10=32,106=32,82=65536,81=8704"}});
  const std::string database = NewDirectory() + "/trace.sqlite";
  ASSERT_EQ(RunProgram({SLIPSTREAM_COMMAND, "export", directory, "--sqlite", database}, Preload("")).status, 0);
  const Finished report = RunProgram({SLIPSTREAM_COMMAND, "report", database, "--json"}, Preload(""));
  ASSERT_EQ(report.status, 0) << report.err;
  const auto json = nlohmann::json::parse(report.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << report.out;
  const auto& process = json["processes"][0];
  ASSERT_EQ(process["devices"].size(), 1U) << report.out;
  const auto& device = process["devices"][0];
  EXPECT_EQ(device["name"], "Simulated CUDA device 0");
  EXPECT_EQ(device["sms"], 9);

  // The simulated device runs one kernel after the other; of each counts what lies in measured steps.
  double busy = 0;
  double occupied = 0;
  double kernel_time = 0;
  for (const auto& row : trace_db::Query(database,
                                         "SELECT start, gridX * gridY * gridZ, blockX * blockY * blockZ, "
                                         "staticSharedMemory + dynamicSharedMemory, end "
                                         "FROM CUPTI_ACTIVITY_KIND_KERNEL")) {
    const double time = TimeInMeasuredSteps(process["steps"], std::stoll(row[0]), std::stoll(row[4]));
    const double blocks = std::stod(row[1]) / kMultiprocessors;
    const double threads = std::stod(row[2]);
    EXPECT_EQ(row[3], blocks > 1 ? "1152" : "128");
    busy += time * std::min(1.0, blocks);
    occupied += time * std::min(blocks, kBlocksThatFit) * threads / kThreads;
    kernel_time += time;
  }
  const auto measured = process["steps"]["measured_ns"].get<double>();
  ASSERT_TRUE(process["steps"]["found"]) << "by its launches";
  ASSERT_GT(kernel_time, 0);
  EXPECT_NEAR(device["estimated_sm_efficiency"].get<double>(), busy / measured, 1e-9);
  EXPECT_NEAR(device["estimated_achieved_occupancy"].get<double>(), occupied / kernel_time, 1e-9);

  const Finished text = RunProgram({SLIPSTREAM_COMMAND, "report", "--full", database}, Preload(""));
  EXPECT_EQ(text.out.find("does not have the device's limits"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("GPU 0, Simulated CUDA device 0, 9 SMs"), std::string::npos) << text.out;
}

}  // namespace
}  // namespace slipstream::test
