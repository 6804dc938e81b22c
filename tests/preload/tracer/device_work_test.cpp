// What the devices did, in the traces of real processes: each piece of work once, with its times and its call.

#include "tracer/spool/device_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/preload/tracer/trace_testing.h"
#include "tests/trace_db/trace_db_testing.h"
#include "tools/trace/check/check.h"
#include "tools/trace/db/database_reader.h"

namespace slipstream::test {
namespace {

using tracer::ActivityKind;
using tracer::ActivityRecord;
using tracer::NameTable;
using tracer::RecordKind;
using tracer::SpoolRecord;
using tracer::TraceRecord;

Variables WithDevice(Variables more = {}) {
  more["SLIPSTREAM_TRACER_DEVICE"] = "cupti";
  return more;
}

// The files of the libraries that called the driver's functions past every hook, with how often.
CallCounts Callers(const Trace& trace) {
  CallCounts callers;
  for (const TraceRecord& record : trace.Of(RecordKind::kDriverCall)) {
    if (record.bytes == 0) continue;
    const std::string* const path = trace.reader->NameOf(NameTable::kLibraries, static_cast<uint32_t>(record.bytes));
    ++callers[path != nullptr ? path->substr(path->rfind('/') + 1) : "?"];
  }
  return callers;
}

// Whatever made the work of a number: "cudaLaunchKernel", or a function of the driver. Twice: "twice".
std::map<uint32_t, std::string> Makers(const Trace& trace) {
  std::map<uint32_t, std::string> makers;
  for (const SpoolRecord& next : trace.records) {
    const TraceRecord& record = next.record;
    if (record.correlation == 0) continue;
    std::string name;
    if (record.kind == RecordKind::kCall) name = trace.HookOf(record);
    if (record.kind == RecordKind::kDriverCall) name = trace.NameOf(NameTable::kDriverFunctions, record.hook);
    if (name.empty()) continue;
    const auto [maker, is_new] = makers.try_emplace(record.correlation, name);
    if (!is_new) maker->second = "twice";
  }
  return makers;
}

class DeviceWorkTest : public ::testing::TestWithParam<const char*> {
 protected:
  // The version of libcupti.
  Trace Run(const std::vector<std::string>& arguments, Variables more = {}) {
    const std::string directory = NewDirectory();
    std::vector<std::string> command = {DEVICE_WORK};
    command.insert(command.end(), arguments.begin(), arguments.end());
    more["SIMCUPTI_VERSION"] = GetParam();
    const Finished bare = RunProgram(command, {{"SIMCUDA_SEED", "0"}});
    finished_ = RunTraced(command, directory, WithDevice(more));
    EXPECT_EQ(finished_.status, 0) << finished_.err;
    EXPECT_EQ(finished_.out, bare.out);
    EXPECT_EQ(finished_.err, bare.err);
    return ReadOnlyTrace(directory);
  }
  Finished finished_;
};

TEST_P(DeviceWorkTest, EveryPieceOfWorkIsThereOnceWithTheCallThatMadeIt) {
  // Without engines the program's copies are the only ones.
  const Trace trace = Run({"20", "0"}, {{"SLIPSTREAM_TRANSFER_H2D", "off"}, {"SLIPSTREAM_TRANSFER_D2H", "off"}});
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_TRUE(trace.end().complete);
  EXPECT_EQ(trace.end().dropped, 0U);
  EXPECT_EQ(trace.end().late_records, 0U);
  EXPECT_EQ(trace.Kernels(), (CallCounts{{"_Z6hookedIfEvPT_", 20}, {"unhooked", 20}, {"captured", 4}, {"unseen", 1}}));
  const std::map<uint32_t, std::string> makers = Makers(trace);
  std::set<uint32_t> hooked;
  std::set<uint32_t> graphs;
  for (const ActivityRecord& record : trace.Activities(ActivityKind::kKernel)) {
    const tracer::KernelWork kernel = KernelOf(record);
    const std::string name = trace.KernelOf(record);
    const auto maker = makers.find(record.correlation);
    const std::string by = maker != makers.end() ? maker->second : "nobody";
    EXPECT_EQ(record.device, 0);
    EXPECT_LE(record.start_ns, record.end_ns);
    if (name == "_Z6hookedIfEvPT_") {
      EXPECT_EQ(by, "cudaLaunchKernel");
      EXPECT_TRUE(hooked.insert(record.correlation).second);
      EXPECT_EQ(std::vector(kernel.grid, kernel.grid + 3), (std::vector<uint32_t>{70'000, 3, 2}));
      EXPECT_EQ(std::vector(kernel.block, kernel.block + 3), (std::vector<uint32_t>{32, 4, 2}));
      EXPECT_EQ(kernel.registers, 32U);
      EXPECT_EQ(kernel.static_shared_bytes, 128U);
      EXPECT_EQ(kernel.dynamic_shared_bytes, 1024U);
      EXPECT_EQ(kernel.work.context, 1U);
      EXPECT_NE(kernel.work.stream, 0U);
    } else if (name == "unhooked") {
      EXPECT_EQ(by, "cuLaunchKernel") << "which no hook saw";
    } else if (name == "captured") {
      EXPECT_EQ(by, "cudaGraphLaunch");
      graphs.insert(record.correlation);
    } else {
      EXPECT_EQ(by, "nobody");
    }
  }
  EXPECT_EQ(graphs.size(), 2U) << "two kernels a launch";
  EXPECT_EQ(Callers(trace), (CallCounts{{"libsim_static_runtime_library.so", 20}}));

  CallCounts copies;
  for (const ActivityRecord& record : trace.Activities(ActivityKind::kCopy)) {
    const tracer::CopyWork copy = CopyOf(record);
    ++copies[makers.at(record.correlation) + " " + std::to_string(copy.bytes) + " kind " + std::to_string(copy.kind) +
             " from " + std::to_string(copy.from) + " to " + std::to_string(copy.to)];
  }
  EXPECT_EQ(copies, (CallCounts{{"cudaMemcpyAsync 10000 kind 1 from 1 to 3", 20},
                                {"cudaMemcpyAsync 300 kind 2 from 3 to 1", 20}}));
  CallCounts sets;
  for (const ActivityRecord& record : trace.Activities(ActivityKind::kSet)) {
    const tracer::SetWork set = SetOf(record);
    ++sets[makers.at(record.correlation) + " " + std::to_string(set.bytes) + " value " + std::to_string(set.value) +
           " memory " + std::to_string(set.memory)];
  }
  EXPECT_EQ(sets, (CallCounts{{"cudaMemsetAsync 5000 value 7 memory 3", 20}}));
}

TEST_P(DeviceWorkTest, WorkOfAGraphHasTheNumberOfItsNode) {
  const Trace trace = Run({"3", "0"});
  ASSERT_NE(trace.reader, nullptr);
  std::map<uint64_t, int> captured;
  for (const ActivityRecord& record : trace.Activities(ActivityKind::kKernel)) {
    const uint64_t node = KernelOf(record).work.graph_node;
    if (trace.KernelOf(record) == "captured") {
      ++captured[node];
    } else {
      EXPECT_EQ(node, 0U) << trace.KernelOf(record);
    }
  }
  // Two nodes, launched twice. Of one executable, the simulated CUPTI's number has its number above the node's.
  ASSERT_EQ(captured.size(), 2U);
  const uint64_t first = captured.begin()->first;
  EXPECT_GT(first, uint64_t{1} << 32);
  EXPECT_EQ(captured, (std::map<uint64_t, int>{{first, 2}, {first + 1, 2}}));
  for (const ActivityRecord& record : trace.Activities(ActivityKind::kCopy))
    EXPECT_EQ(CopyOf(record).work.graph_node, 0U);
  for (const ActivityRecord& record : trace.Activities(ActivityKind::kSet))
    EXPECT_EQ(SetOf(record).work.graph_node, 0U);
}

TEST_P(DeviceWorkTest, ACopyBetweenTwoDevicesSaysWhich) {
  const Trace trace = Run({"0", "0", "devices"}, {{"SLIPSTREAM_TRANSFER_H2D", "off"}});
  ASSERT_NE(trace.reader, nullptr);
  std::set<std::string> copies;
  for (const ActivityRecord& record : trace.Activities(ActivityKind::kCopy)) {
    const tracer::CopyWork copy = CopyOf(record);
    copies.insert(std::to_string(copy.bytes) + " bytes, kind " + std::to_string(copy.kind) + ", from " +
                  std::to_string(copy.from_device) + " to " + std::to_string(copy.to_device));
  }
  EXPECT_EQ(copies, (std::set<std::string>{"777 bytes, kind 10, from 0 to 1", "888 bytes, kind 10, from 1 to 0",
                                           "999 bytes, kind 8, from -1 to -1"}));
}

// The device's clock is another one and runs faster (tests/sim/cupti); in the database its times are the host's.
TEST_P(DeviceWorkTest, InTheDatabaseWorkLiesBetweenItsCallAndTheWaitForIt) {
  const std::string directory = NewDirectory();
  RunTraced({DEVICE_WORK, "300", "0"}, directory,
            WithDevice({{"SIMCUPTI_VERSION", GetParam()},
                        {"SIMCUDA_MODE", "timed"},
                        {"SIMCUPTI_FASTER_PPM", "50000"}}));  // so that a time on the wrong clock stands out
  const std::string database = NewDirectory() + "/trace.sqlite";
  const auto result = trace_db::BuildTraceDatabase({.run = directory, .database = database});
  ASSERT_EQ(result.problem, trace_db::BuildProblem::kNone) << result.what;
  EXPECT_FALSE(result.partial());
  const auto one = [&](const std::string& sql) { return trace_db::One(database, sql); };
  EXPECT_EQ(one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL"), "605");
  EXPECT_EQ(one("SELECT unattributed FROM SLIPSTREAM_DEVICE_WORK"), "1") << "what nobody could see";
  EXPECT_EQ(one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING "
                "(correlationId)"),
            "604");
  // To within what a reading of the clocks may miss.
  EXPECT_EQ(one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING "
                "(correlationId) WHERE k.start + 1000000 < r.start"),
            "0");
  EXPECT_EQ(one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k WHERE k.end - 1000000 > (SELECT max(end) FROM "
                "CUPTI_ACTIVITY_KIND_RUNTIME)"),
            "0");
  // A kernel of a round is over before the round's synchronization is.
  EXPECT_EQ(one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING "
                "(correlationId) WHERE k.end - 1000000 > (SELECT min(w.end) FROM CUPTI_ACTIVITY_KIND_RUNTIME w JOIN "
                "StringIds n ON n.id = w.nameId WHERE n.value LIKE 'cudaStreamSynchronize%' AND w.start >= r.end)"),
            "0");
  EXPECT_EQ(one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName "
                "WHERE s.value = 'hooked' AND k.gridX = 70000"),
            "300");
}

// A staged copy is two functions of the driver in one call of the program's.
TEST_P(DeviceWorkTest, WhatTheEnginesMakeOfACallHasTheLineOfTheCall) {
  const Trace trace = Run({"20", "0"});
  ASSERT_NE(trace.reader, nullptr);
  const std::map<uint32_t, std::string> makers = Makers(trace);
  uint64_t bytes_in = 0;
  for (const ActivityRecord& record : trace.Activities(ActivityKind::kCopy)) {
    ASSERT_EQ(makers.count(record.correlation), 1U);
    EXPECT_NE(makers.at(record.correlation), "twice");
    const tracer::CopyWork copy = CopyOf(record);
    if (copy.kind == 1) bytes_in += copy.bytes;
  }
  EXPECT_EQ(bytes_in, 20U * 10'000);
  EXPECT_EQ(trace.Kernels()["_Z6hookedIfEvPT_"], 20U);
}

// Which of the work slipstream asked for by itself, and which hooked call each function of the driver was called in.
TEST_P(DeviceWorkTest, OwnWorkIsToldFromTheProgramsOwn) {
  const Trace trace = Run({"20", "0"});
  ASSERT_NE(trace.reader, nullptr);
  std::map<uint32_t, TraceRecord> makers;  // by correlation
  std::map<uint64_t, TraceRecord> calls;   // by number
  for (const SpoolRecord& next : trace.records) {
    const TraceRecord& record = next.record;
    if (record.kind == RecordKind::kCall) calls[record.number] = record;
    const bool makes = record.kind == RecordKind::kCall || record.kind == RecordKind::kDriverCall;
    if (makes && record.correlation != 0) makers[record.correlation] = record;
  }
  CallCounts copies;
  for (const ActivityRecord& record : trace.Activities(ActivityKind::kCopy)) {
    const TraceRecord& maker = makers.at(record.correlation);
    const bool is_own = (maker.flags & tracer::kWorkIsOwn) != 0;
    const bool beside = maker.kind == RecordKind::kDriverCall;
    ASSERT_EQ(calls.count(maker.number), 1U);
    const TraceRecord& call = calls.at(maker.number);
    EXPECT_LE(call.start_ns, maker.start_ns);
    EXPECT_GE(call.end_ns, maker.end_ns);
    const tracer::CopyWork copy = CopyOf(record);
    ++copies[trace.HookOf(call) + (is_own ? " own" : "") + (beside ? " beside " : " ") + std::to_string(copy.bytes) +
             " kind " + std::to_string(copy.kind)];
  }
  EXPECT_EQ(copies, (CallCounts{{"cudaMemcpyAsync own 10000 kind 1", 20}, {"cudaMemcpyAsync 300 kind 2", 20}}));
  for (const ActivityKind kind : {ActivityKind::kKernel, ActivityKind::kSet}) {
    for (const ActivityRecord& record : trace.Activities(kind)) {
      const auto maker = makers.find(record.correlation);
      EXPECT_TRUE(maker == makers.end() || (maker->second.flags & tracer::kWorkIsOwn) == 0);
    }
  }
  for (const TraceRecord& record : trace.Of(RecordKind::kDriverCall)) {
    EXPECT_EQ(record.number, 0U) << "no hook saw what led to it";
  }
}

// As the host or a stream waits: each once, with the call that it was; a library's has a record of its own.
TEST_P(DeviceWorkTest, EverySynchronizationIsThereOnceWithItsCall) {
  const Trace trace =
      Run({"0", "0", "waits"}, {{"SLIPSTREAM_TRANSFER_H2D", "off"}, {"SLIPSTREAM_TRANSFER_D2H", "off"}});
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(trace.end().dropped, 0U);
  const std::map<uint32_t, std::string> makers = Makers(trace);
  CallCounts waits;
  for (const ActivityRecord& record : trace.Activities(ActivityKind::kSynchronization)) {
    const tracer::SynchronizationWork wait = SynchronizationOf(record);
    constexpr uint32_t kNone = tracer::SynchronizationWork::kNotApplicable;
    const auto maker = makers.find(record.correlation);
    ++waits[(maker != makers.end() ? maker->second : "nobody") + " type " + std::to_string(wait.type) +
            (wait.work.stream != kNone ? " stream" : "") + (wait.event != kNone ? " event" : "")];
    EXPECT_LE(record.start_ns, record.end_ns);
    EXPECT_EQ(record.device, -1);
    EXPECT_EQ(record.context, 1U);
  }
  EXPECT_EQ(waits, (CallCounts{{"cudaStreamWaitEvent type 2 stream event", 1},
                               {"cudaStreamSynchronize type 3 stream", 1},
                               {"cudaEventSynchronize type 1 event", 1},
                               {"cuStreamSynchronize type 3 stream", 5},
                               {"cuStreamWaitEvent type 2 stream event", 1},
                               {"cudaDeviceSynchronize type 4", 1}}));
  EXPECT_EQ(Callers(trace), (CallCounts{{"libsim_static_runtime_library.so", 6}}));
  for (const TraceRecord& record : trace.Of(RecordKind::kDriverCall)) {
    EXPECT_EQ(record.number, 0U) << "no hook saw what led to it";
  }
  EXPECT_EQ(trace.Of(RecordKind::kDriverCall).size(), 6U);
}

// slipstream's own are no call's; a call that waits has its own wait, though slipstream has waited in it before.
TEST_P(DeviceWorkTest, OwnWaitsAreToldFromTheProgramsOwn) {
  const Trace trace = Run({"0", "0", "blocking"}, {{"SLIPSTREAM_TRANSFER_START", "now"}});
  ASSERT_NE(trace.reader, nullptr);
  const std::map<uint32_t, std::string> makers = Makers(trace);
  CallCounts waits;
  for (const ActivityRecord& record : trace.Activities(ActivityKind::kSynchronization)) {
    const auto maker = makers.find(record.correlation);
    ++waits[(maker != makers.end() ? maker->second : "nobody") + " type " +
            std::to_string(SynchronizationOf(record).type)];
  }
  EXPECT_EQ(waits, (CallCounts{{"cudaDeviceSynchronize type 4", 4}, {"nobody type 1", 2}}));
}

// Nothing that the library records of a run contradicts anything else.
TEST_P(DeviceWorkTest, TheTraceIsInOrder) {
  const std::string directory = NewDirectory();
  RunTraced({DEVICE_WORK, "20", "2", "blocking"}, directory, WithDevice({{"SIMCUPTI_VERSION", GetParam()}}));
  const std::string database = NewDirectory() + "/trace.sqlite";
  ASSERT_EQ(trace_db::BuildTraceDatabase({.run = directory, .database = database}).problem,
            trace_db::BuildProblem::kNone);
  trace_db::DatabaseReader reader(database);
  const trace_check::Check check = trace_check::CheckTrace(&reader);
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ(check.processes.size(), 1U);
  for (const trace_check::Finding& finding : check.processes[0].contradicts) ADD_FAILURE() << finding.text;
  for (const trace_check::Finding& finding : check.processes[0].lacks) ADD_FAILURE() << finding.text;
}

TEST_P(DeviceWorkTest, EachThreadsWorkIsOfItsOwnCalls) {
  const Trace trace = Run({"50", "4"}, {{"SIMCUDA_MODE", "timed"}});
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(trace.end().dropped, 0U);
  EXPECT_EQ(trace.Kernels(), (CallCounts{{"_Z6hookedIfEvPT_", 200}, {"unhooked", 200}}));
  // A thread has one stream, and nobody else's work is on it.
  std::map<uint32_t, uint32_t> thread_of;  // by correlation
  for (const SpoolRecord& next : trace.records) {
    const bool makes = next.record.kind == RecordKind::kCall || next.record.kind == RecordKind::kDriverCall;
    if (makes && next.record.correlation != 0) thread_of[next.record.correlation] = next.tid;
  }
  std::map<uint32_t, std::set<uint32_t>> streams;
  for (const ActivityRecord& record : trace.Activities(ActivityKind::kKernel)) {
    ASSERT_EQ(thread_of.count(record.correlation), 1U);
    streams[thread_of[record.correlation]].insert(KernelOf(record).work.stream);
  }
  EXPECT_EQ(streams.size(), 4U);
  for (const auto& [thread, some] : streams) EXPECT_EQ(some.size(), 1U);
}

TEST_P(DeviceWorkTest, CuptiIsAskedNothingThatItForbids) {
  const std::string directory = NewDirectory();
  const Finished finished =
      RunTraced({DEVICE_WORK, "5", "0", "cupti"}, directory, WithDevice({{"SIMCUPTI_VERSION", GetParam()}}));
  EXPECT_EQ(finished.out, "5 rounds done\nlibcupti, 0 violations, 0 buffers to make zero\n");
}

INSTANTIATE_TEST_SUITE_P(Versions, DeviceWorkTest, ::testing::Values("130001", "26"),
                         [](const auto& version) { return "Cupti" + std::string(version.param); });

// Nothing of CUPTI is in a process that records nothing or wants none of it, or where it is somebody else's.
TEST(DeviceWorkOffTest, LibcuptiIsNotLoaded) {
  const auto run = [](const Variables& more, const std::string& why) {
    const std::string directory = NewDirectory();
    const Finished finished = RunTraced({DEVICE_WORK, "2", "0", "cupti"}, directory, more);
    const Trace trace = ReadOnlyTrace(directory);
    EXPECT_EQ(trace.Calls().at("cudaLaunchKernel"), 4U);
    EXPECT_TRUE(trace.Activities(ActivityKind::kKernel).empty());
    EXPECT_TRUE(trace.Of(RecordKind::kDriverCall).empty());
    EXPECT_EQ(trace.reader->facts().at("device_work"), "off: " + why);
    return finished.out;
  };
  const std::string none = "2 rounds done\nno libcupti\n";
  EXPECT_EQ(run({{"SLIPSTREAM_TRACER_DEVICE", "off"}}, "tracer.device is off"), none);
  for (const char* const name :
       {"NSYS_PROFILING_SESSION_ID", "NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "CUDA_INJECTION64_PATH"}) {
    EXPECT_EQ(run(WithDevice({{name, "1"}}), std::string("a profiler is attached: ") + name + " is set"), none);
  }
  const Variables unrecorded = Preload(SLIPSTREAM_LIBRARY);
  EXPECT_EQ(RunProgram({DEVICE_WORK, "2", "0", "cupti"}, unrecorded).out, none) << "nothing is recorded";
}

TEST(DeviceWorkOffTest, AVersionThatNobodyKnowsIsLeftAloneAndSaidSo) {
  const std::string directory = NewDirectory();
  const Finished finished = RunTraced({DEVICE_WORK, "2", "0"}, directory,
                                      WithDevice({{"SIMCUPTI_VERSION", "140000"}, {"SLIPSTREAM_LOG_LEVEL", "warn"}}));
  EXPECT_EQ(finished.out, "2 rounds done\n");
  EXPECT_NE(finished.err.find("has version 140000, which slipstream does not know"), std::string::npos) << finished.err;
  EXPECT_TRUE(ReadOnlyTrace(directory).Activities(ActivityKind::kKernel).empty());
}

}  // namespace
}  // namespace slipstream::test
