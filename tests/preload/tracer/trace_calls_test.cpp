// What stands in a trace: every call that was counted, once, in its order, as it was made.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/preload/tracer/trace_testing.h"
#include "tracer/base/clock.h"
#include "tracer/spool/block_record.h"

namespace slipstream::test {
namespace {

using tracer::RecordKind;
using tracer::TraceRecord;

// What the file says that its process counted, by name.
using Totals = std::map<std::string, tracer::Counted>;
Totals CountedIn(const Trace& trace, tracer::NameTable table) {
  Totals totals;
  const std::vector<tracer::CountersEntry>* const entries = trace.reader->CountersOf(table);
  EXPECT_NE(entries, nullptr);
  if (entries == nullptr) return totals;
  for (const tracer::CountersEntry& entry : *entries) {
    EXPECT_EQ(entry.at_least, entry.at_most) << "nothing was called while the recording ended";
    totals[trace.NameOf(table, entry.number)] = entry.at_least;
  }
  return totals;
}

TEST(TraceCallsTest, TheRecordsAddUpToWhatWasCounted) {
  const std::string directory = NewDirectory();
  EXPECT_EQ(RunTraced({PROGRAM, "workload", "30"}, directory, {{"SLIPSTREAM_TRACER_COUNTERS", "time"}}).status, 0);
  const Trace trace = ReadOnlyTrace(directory);
  ASSERT_NE(trace.reader, nullptr);
  Totals calls;
  for (const TraceRecord& record : trace.Of(RecordKind::kCall)) {
    tracer::Counted& counted = calls[trace.HookOf(record)];
    ++counted.calls;
    counted.bytes += record.bytes;
    counted.time_ns += record.end_ns - record.start_ns;
  }
  Totals counted = CountedIn(trace, tracer::NameTable::kHooks);
  for (auto& [name, of] : counted) of.errors = 0;
  EXPECT_EQ(counted, calls);
  EXPECT_GE(calls.size(), 4U);
  Totals decisions;
  for (const TraceRecord& record : trace.Of(RecordKind::kDecision)) {
    const tracer::DecisionMade made = tracer::DecisionOf(record);
    tracer::Counted& decided = decisions[trace.DecisionOf(record)];
    ++decided.calls;
    decided.bytes += made.bytes;
    decided.time_ns += made.time_ns;
  }
  EXPECT_EQ(CountedIn(trace, tracer::NameTable::kDecisions), decisions);
  EXPECT_FALSE(decisions.empty());
}

TEST(TraceCallsTest, EveryCallThatIsCountedIsRecordedOnce) {
  const Finished bare = RunProgram({PROGRAM, "workload", "30"}, {{"SIMCUDA_SEED", "0"}});
  for (const char* engines : {"on", "off"}) {
    const std::string directory = NewDirectory();
    Variables more = {{"SLIPSTREAM_TRANSFER_H2D", engines}, {"SLIPSTREAM_TRANSFER_D2H", engines}};
    more["SLIPSTREAM_ALLOCATOR_MODE"] = std::string(engines) == "on" ? "segments" : "off";
    const Finished traced = RunTraced({PROGRAM, "workload", "30"}, directory, more);
    EXPECT_EQ(traced.out, bare.out);
    EXPECT_EQ(traced.err, bare.err);
    const Trace trace = ReadOnlyTrace(directory);
    ASSERT_NE(trace.reader, nullptr);
    EXPECT_TRUE(trace.end().complete);
    EXPECT_EQ(trace.end().reason, tracer::EndReason::kFinished);
    EXPECT_EQ(trace.end().dropped, 0U);
    const CallCounts calls = trace.Calls();
    EXPECT_EQ(calls, CountsIn(directory));
    EXPECT_EQ(calls.at("cudaLaunchKernel"), 30U);
  }
}

TEST(TraceCallsTest, WithoutCountersToo) {
  const std::string directory = NewDirectory();
  RunTraced({TRACED, "calls", "500"}, directory,
            {{"SLIPSTREAM_TRACER_COUNTERS", "off"}, {"SLIPSTREAM_TRACER_NVTX", "false"}});
  EXPECT_EQ(NamesIn(directory).size(), 1U);
  const Trace trace = ReadOnlyTrace(directory);
  EXPECT_EQ(trace.Calls(), (CallCounts{{"cudaPeekAtLastError", 500}}));
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(trace.reader->CountersOf(tracer::NameTable::kHooks), nullptr) << "there is nothing to add up to";
}

TEST(TraceCallsTest, EachThreadsCallsStandInTheirOrder) {
  const std::string directory = NewDirectory();
  const uint64_t before = tracer::NowNs();
  EXPECT_EQ(RunTraced({TRACED, "storm", "6", "2000"}, directory).status, 0);
  const uint64_t after = tracer::NowNs();
  const Trace trace = ReadOnlyTrace(directory);
  ASSERT_NE(trace.reader, nullptr);
  std::map<uint32_t, uint64_t> last;
  for (const tracer::SpoolRecord& next : trace.records) {
    if (next.record.kind != RecordKind::kCall) continue;
    EXPECT_LE(next.record.start_ns, next.record.end_ns);
    EXPECT_GE(next.record.start_ns, last[next.thread]) << "before the call that the thread made before it had ended";
    EXPECT_GE(next.record.start_ns, before);
    EXPECT_LE(next.record.end_ns, after);
    EXPECT_EQ(next.tid, trace.reader->threads().at(next.thread).id);
    last[next.thread] = next.record.end_ns;
  }
  EXPECT_EQ(last.size(), 7U);
  EXPECT_EQ(trace.Calls(), CountsIn(directory));
}

// A ring that is full drops, and says how often.
TEST(TraceCallsTest, EightThreadsAtFullSpeedLoseNothingUncounted) {
  constexpr int kThreads = 8;
  constexpr uint64_t kCalls = 100'000;
  const std::string directory = NewDirectory();
  EXPECT_EQ(RunTraced({TRACED, "storm", std::to_string(kThreads), std::to_string(kCalls)}, directory).status, 0);
  EXPECT_EQ(CountsIn(directory).at("cudaPeekAtLastError"), kThreads * kCalls);
  const Trace trace = ReadOnlyTrace(directory);
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_TRUE(trace.end().complete);
  std::map<uint32_t, uint64_t> calls;
  for (const tracer::SpoolRecord& next : trace.records) {
    if (next.record.kind == RecordKind::kCall) ++calls[next.thread];
  }
  uint64_t total = 0;
  uint64_t dropped = 0;
  for (const auto& [number, thread] : trace.reader->threads()) {
    // The first thread made one call.
    const uint64_t made = calls[number] + thread.dropped;
    EXPECT_TRUE(made == kCalls || made == 1) << "thread " << number << " made " << made;
    total += made;
    dropped += thread.dropped;
  }
  EXPECT_EQ(total, kThreads * kCalls + 1);
  EXPECT_EQ(trace.end().dropped, dropped);
  RecordProperty("dropped", std::to_string(dropped));
}

// Calls that other threads make while the first one sets everything up are in neither.
TEST(TraceCallsTest, S56_FirstCallsFromManyThreadsAtOnce) {
  for (int round = 0; round < 10; ++round) {
    const std::string directory = NewDirectory();
    const Finished traced = RunTraced({PROGRAM, "first_call_race", "8", "200"}, directory);
    EXPECT_EQ(traced.out, "0 failures\n") << traced.err;
    const Trace trace = ReadOnlyTrace(directory);
    ASSERT_NE(trace.reader, nullptr);
    EXPECT_EQ(trace.end().dropped, 0U);
    EXPECT_EQ(trace.Calls(), CountsIn(directory));
  }
}

const char* NameOf(tracer::MemoryUse use) {
  constexpr const char* kNames[] = {"none", "allocated", "freed", "reset"};
  return kNames[static_cast<size_t>(use)];
}

// Whoever's memory it is: the driver's, or the pool's.
TEST(TraceCallsTest, MemoryThatCallsGotAndGaveBack) {
  for (const char* mode : {"off", "segments"}) {
    SCOPED_TRACE(mode);
    const std::string directory = NewDirectory();
    const Finished traced =
        RunTraced({TRACED, "blocks"}, directory, {{"SLIPSTREAM_ALLOCATOR_MODE", mode}, {"SIMCUDA_DEVICES", "2"}});
    EXPECT_EQ(traced.status, 0) << traced.err;
    const Trace trace = ReadOnlyTrace(directory);
    ASSERT_NE(trace.reader, nullptr);
    std::ostringstream seen;
    std::map<std::string, uint64_t> last_call;
    for (const tracer::SpoolRecord& next : trace.records) {
      if (next.record.kind == RecordKind::kCall) last_call[trace.HookOf(next.record)] = next.record.end_ns;
      if (next.record.kind != RecordKind::kAllocated && next.record.kind != RecordKind::kFreed) continue;
      const tracer::BlockRecord block = tracer::BlockOf(next.record);
      seen << NameOf(block.use) << ' ' << (block.kind == tracer::MemoryKind::kManaged ? "managed" : "device") << ' '
           << block.bytes << ' ' << block.address << ' ' << block.stream << ' ' << block.device << '\n';
      if (block.use == tracer::MemoryUse::kReset) continue;
      const std::string* const caller = trace.reader->NameOf(tracer::NameTable::kCallers, block.library);
      ASSERT_NE(caller, nullptr);
      EXPECT_EQ(*caller, "") << "the program itself";
      EXPECT_EQ(block.end_ns, last_call[trace.HookOf(next.record)]) << "beside its call";
    }
    EXPECT_EQ(seen.str(), traced.out);
  }
}

struct Expected {
  std::string function;
  uint64_t bytes = 0;
  uint64_t stream = 0;
  int status = 0;
};

// What the program said of its calls.
std::vector<Expected> ExpectedOf(const std::string& out) {
  std::vector<Expected> calls;
  std::istringstream lines(out);
  for (Expected call; lines >> call.function >> call.bytes >> call.stream >> call.status;) calls.push_back(call);
  return calls;
}

TEST(TraceCallsTest, BytesStreamAndStatusAreTheCalls) {
  for (const char* engines : {"on", "off"}) {
    const std::string directory = NewDirectory();
    const Finished traced = RunTraced({TRACED, "details"}, directory,
                                      {{"SLIPSTREAM_TRANSFER_H2D", engines}, {"SLIPSTREAM_TRANSFER_D2H", engines}});
    const std::vector<Expected> expected = ExpectedOf(traced.out);
    ASSERT_EQ(expected.size(), 31U) << traced.out << traced.err;
    const Trace trace = ReadOnlyTrace(directory);
    const std::vector<TraceRecord> calls = trace.Of(RecordKind::kCall);
    ASSERT_EQ(calls.size(), expected.size());
    for (size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(trace.HookOf(calls[i]), expected[i].function) << i;
      EXPECT_EQ(calls[i].bytes, expected[i].bytes) << i << " " << expected[i].function;
      EXPECT_EQ(calls[i].stream, expected[i].stream) << i << " " << expected[i].function;
      EXPECT_EQ(calls[i].status, expected[i].status) << i << " " << expected[i].function;
      EXPECT_EQ(calls[i].device, -1);
      EXPECT_EQ(calls[i].site, 0U) << "there is no Python";
    }
    const auto has_status = [&](int status) {
      return std::any_of(expected.begin(), expected.end(), [=](const Expected& call) { return call.status == status; });
    };
    EXPECT_TRUE(has_status(1)) << "no call was refused";
  }
}

TEST(TraceCallsTest, TheDecisionAboutACallStandsInItsRecord) {
  const std::string directory = NewDirectory();
  const Finished traced = RunTraced({TRACED, "details"}, directory);
  const std::vector<Expected> expected = ExpectedOf(traced.out);
  const Trace trace = ReadOnlyTrace(directory);
  const std::vector<TraceRecord> calls = trace.Of(RecordKind::kCall);
  ASSERT_EQ(calls.size(), expected.size());
  const auto decision = [&](const std::string& function, uint64_t bytes, size_t next = 0) -> std::string {
    for (size_t i = 0; i + next < calls.size(); ++i) {
      if (expected[i].function == function && expected[i].bytes == bytes) return trace.DecisionOf(calls[i + next]);
    }
    return "no such call";
  };
  EXPECT_EQ(decision("cudaMalloc", 1 << 20), "allocator.grown");
  EXPECT_EQ(decision("cudaStreamCreate", 0), "");
  EXPECT_EQ(decision("cudaMemcpyAsync", 4096), "transfer.h2d.promoted.small");
  // The process's first wait is made: what was submitted before the engine began may not have run.
  EXPECT_EQ(decision("cudaMemcpyAsync", 4096, 1), "transfer.sync.kept.host_effect");
  EXPECT_EQ(decision("cudaMemcpyAsync", 100, 1), "transfer.sync.skipped");
  EXPECT_EQ(decision("cudaMemcpyAsync", 1 << 20), "transfer.h2d.promoted.large");
  EXPECT_EQ(decision("cudaMemcpy", 50), "transfer.d2h.declined.small");
  // Staged, and its wait skipped: it was a copy.
  EXPECT_EQ(decision("cudaMemcpy_ptds", 60), "transfer.h2d.promoted.small");
  EXPECT_EQ(trace.DecisionOf(calls.back()), "allocator.parked");

  // What the engines counted of copies and frees, as often as calls have it.
  std::map<std::string, uint64_t> recorded;
  for (const TraceRecord& call : calls) ++recorded[trace.DecisionOf(call)];
  std::vector<std::string> problems;
  const auto processes = tracer::ReadRunDirectory(directory, &problems);
  ASSERT_EQ(processes.size(), 1U);
  for (const tracer::DecisionCounts& counted : processes[0].decisions) {
    // Sums of times, beside what became of the call.
    if (counted.name == "allocator.driver.allocated" || counted.name.starts_with("allocator.spared.")) {
      EXPECT_EQ(recorded[counted.name], 0U) << counted.name;
      continue;
    }
    if (counted.name.starts_with("transfer.h2d.promoted") || counted.name.starts_with("transfer.d2h.declined") ||
        counted.name.starts_with("allocator.")) {
      EXPECT_EQ(recorded[counted.name], counted.count) << counted.name;
    }
  }
}

// Of each copy that was promoted, in order; of others there is none.
TEST(TraceCallsTest, WhatCopiesCarry) {
  const std::string directory = NewDirectory();
  const Finished traced = RunTraced({TRACED, "contents"}, directory);
  EXPECT_EQ(traced.status, 0) << traced.err;
  const std::vector<Expected> copies = ExpectedOf(traced.out);
  ASSERT_EQ(copies.size(), 9U) << traced.out << traced.err;
  for (const Expected& copy : copies) EXPECT_EQ(copy.status, 0);
  const Trace trace = ReadOnlyTrace(directory);
  std::vector<uint64_t> contents;
  for (const TraceRecord& record : trace.Of(RecordKind::kDecision)) {
    const tracer::DecisionMade made = tracer::DecisionOf(record);
    if (trace.DecisionOf(record).starts_with("transfer.h2d.promoted")) {
      contents.push_back(made.contents);
    } else {
      EXPECT_EQ(made.contents, 0U) << trace.DecisionOf(record);
    }
  }
  ASSERT_EQ(contents.size(), 8U) << "the copy of pinned memory is the program's own";
  for (const size_t first : {size_t{0}, size_t{4}}) {
    EXPECT_NE(contents[first], 0U);
    EXPECT_EQ(contents[first + 1], contents[first]) << "the same bytes elsewhere";
    EXPECT_NE(contents[first + 2], contents[first]) << "the last one differs";
    EXPECT_EQ(contents[first + 3], contents[first]);
  }
  EXPECT_NE(contents[4], contents[0]);
}

// Whatever else was decided in the same call, and what was decided in none: as the counters have it, to the byte and to
// the nanosecond.
TEST(TraceCallsTest, EveryDecisionHasARecord) {
  struct Sum {
    uint64_t count = 0;
    uint64_t bytes = 0;
    uint64_t time_ns = 0;
    bool operator==(const Sum&) const = default;
  };
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{TRACED, "details"}, {TRACED, "memory", "40"}, {PROGRAM, "workload", "50"}}) {
    const std::string directory = NewDirectory();
    EXPECT_EQ(RunTraced(command, directory).status, 0);
    const Trace trace = ReadOnlyTrace(directory);
    EXPECT_EQ(trace.reader->end().dropped, 0U);
    std::map<uint64_t, TraceRecord> calls;  // by number
    for (const TraceRecord& record : trace.Of(RecordKind::kCall)) {
      EXPECT_TRUE(calls.emplace(record.number, record).second) << "two calls of number " << record.number;
    }
    EXPECT_EQ(calls.count(0), 0U);
    std::map<std::string, Sum> recorded;
    size_t in_calls = 0;
    for (const TraceRecord& record : trace.Of(RecordKind::kDecision)) {
      const tracer::DecisionMade made = tracer::DecisionOf(record);
      Sum& sum = recorded[trace.DecisionOf(record)];
      ++sum.count;
      sum.bytes += made.bytes;
      sum.time_ns += made.time_ns;
      if (made.call == 0) continue;
      ++in_calls;
      const auto call = calls.find(made.call);
      ASSERT_NE(call, calls.end());
      EXPECT_GE(made.at_ns, call->second.start_ns);
      EXPECT_LE(made.at_ns, call->second.end_ns);
    }
    EXPECT_GT(in_calls, 0U);
    std::vector<std::string> problems;
    const auto processes = tracer::ReadRunDirectory(directory, &problems);
    ASSERT_EQ(processes.size(), 1U);
    size_t kinds = 0;
    for (const tracer::DecisionCounts& counted : processes[0].decisions) {
      if (counted.count == 0) continue;
      ++kinds;
      EXPECT_EQ(recorded[counted.name], (Sum{counted.count, counted.bytes, counted.time_ns})) << counted.name;
    }
    EXPECT_EQ(recorded.size(), kinds);
  }
}

// A tool that is called from inside a hooked call and calls CUDA itself.
TEST(TraceCallsTest, CallsInsideCallsAreNotRecorded) {
  const std::string directory = NewDirectory();
  const std::string file = NewDirectory() + "/nvtx";
  const Finished traced = RunTraced(
      {PROGRAM, "workload", "3"}, directory,
      {{"NVTX_INJECTION64_PATH", NVTX_CAPTURE}, {"NVTX_CAPTURE_FILE", file}, {"NVTX_CAPTURE_CALLS_CUDA", "1"}});
  EXPECT_NE(ReadFile(file), "") << "the tool was not called";
  EXPECT_EQ(traced.status, 0);
  const CallCounts calls = ReadOnlyTrace(directory).Calls();
  EXPECT_EQ(calls, CountsIn(directory));
  EXPECT_EQ(calls.at("cudaLaunchKernel"), 3U);
  EXPECT_EQ(calls.count("cudaPeekAtLastError"), 0U);
}

TEST(TraceCallsTest, WhatThePoolHolds) {
  const std::string directory = NewDirectory();
  const Finished traced = RunTraced({TRACED, "memory", "40"}, directory);
  EXPECT_EQ(traced.status, 0);
  std::vector<std::string> problems;
  const auto processes = tracer::ReadRunDirectory(directory, &problems);
  ASSERT_EQ(processes.size(), 1U);
  std::vector<std::pair<uint64_t, uint64_t>> counted;
  for (const auto& sample : processes[0].memory) {
    counted.emplace_back(sample.figures.live_bytes, sample.figures.idle_bytes);
  }
  const Trace trace = ReadOnlyTrace(directory);
  const std::vector<TraceRecord> memory = trace.Of(RecordKind::kMemory);
  ASSERT_FALSE(memory.empty());
  EXPECT_LE(memory.size(), counted.size());
  for (const TraceRecord& record : memory) {
    const tracer::MemoryFigures figures = tracer::MemoryOf(record);
    EXPECT_EQ(figures.device, 0);
    EXPECT_NE(std::find(counted.begin(), counted.end(), std::pair(figures.live_bytes, figures.idle_bytes)),
              counted.end())
        << figures.live_bytes << " live, " << figures.idle_bytes << " idle";
  }
}

// Nothing is idle, so that what the program is told is what the driver said.
TEST(TraceCallsTest, WhatTheDeviceHasInUse) {
  const std::string directory = NewDirectory();
  const Finished traced = RunTraced({TRACED, "device_use", "0"}, directory);
  ASSERT_EQ(traced.status, 0) << traced.err;
  const Trace trace = ReadOnlyTrace(directory);
  const std::vector<TraceRecord> memory = trace.Of(RecordKind::kMemory);
  const std::vector<TraceRecord> blocks = trace.Of(RecordKind::kAllocated);
  ASSERT_FALSE(memory.empty());
  ASSERT_EQ(blocks.size(), 1U);
  const tracer::MemoryFigures figures = tracer::MemoryOf(memory[0]);
  ASSERT_TRUE(figures.device_used.has_value());
  EXPECT_EQ(std::to_string(figures.device_used.value_or(0)) + "\n", traced.out);
  EXPECT_GE(figures.device_used.value_or(0), uint64_t{6} << 20);
  EXPECT_EQ(figures.live_bytes, uint64_t{6} << 20);
  EXPECT_EQ(figures.largest_idle, 0U);
  EXPECT_EQ(memory[0].start_ns, blocks[0].end_ns) << "as of the block that is in it";
  for (size_t i = 1; i < memory.size(); ++i) {
    EXPECT_FALSE(tracer::MemoryOf(memory[i]).device_used.has_value()) << "the process is exiting, or it is too soon";
  }
}

TEST(TraceCallsTest, NobodyAsksWhatIsInUseDuringACapture) {
  const std::string directory = NewDirectory();
  const Finished traced = RunTraced({TRACED, "device_use", "1"}, directory);
  ASSERT_EQ(traced.status, 0) << traced.err;
  const std::vector<TraceRecord> memory = ReadOnlyTrace(directory).Of(RecordKind::kMemory);
  ASSERT_FALSE(memory.empty());
  for (const TraceRecord& record : memory) EXPECT_FALSE(tracer::MemoryOf(record).device_used.has_value());
}

TEST(TraceCallsTest, OffLeavesNoFileAndNoThread) {
  const std::string on = NewDirectory();
  EXPECT_NE(RunTraced({TRACED, "threads"}, on).out.find("slipstream-rec\n"), std::string::npos);
  EXPECT_EQ(Spools(on).size(), 1U);
  for (const char* record : {"off", ""}) {  // and by default
    const std::string directory = NewDirectory();
    const Finished finished = RunTraced({TRACED, "threads"}, directory, {{"SLIPSTREAM_TRACER_RECORD", record}});
    EXPECT_EQ(finished.status, 0);
    EXPECT_EQ(finished.out.find("slipstream-rec"), std::string::npos) << finished.out;
    EXPECT_EQ(Spools(directory).size(), 0U);
    EXPECT_EQ(NamesIn(directory).size(), 1U);
  }
}

TEST(TraceCallsTest, S50_AProcessThatNeverCallsCudaLeavesNoFileAndNoThread) {
  const std::string directory = NewDirectory();
  const Finished bare = RunProgram({PROGRAM, "nothing"});
  const Finished traced = RunTraced({PROGRAM, "nothing"}, directory);
  EXPECT_EQ(traced.out, bare.out);
  EXPECT_TRUE(NamesIn(directory).empty());
}

}  // namespace
}  // namespace slipstream::test
