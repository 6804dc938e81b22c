// The program's own NVTX ranges in its trace, as `slipstream run --record` leaves it.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/preload/tracer/trace_testing.h"
#include "tracer/spool/range_record.h"

namespace slipstream::test {
namespace {

using tracer::NameTable;
using tracer::RangeKind;
using tracer::RangeRecord;

std::string FolderIn(const std::string& place) {
  for (const std::string& name : NamesIn(place)) {
    if (name.starts_with("slipstream-trace-")) return place + "/" + name;
  }
  return "";
}

struct Range {
  std::string name;
  std::string domain;
  RangeRecord record;
};

std::vector<Range> RangesIn(const Trace& trace) {
  std::vector<Range> ranges;
  for (const tracer::TraceRecord& record : trace.Of(tracer::RecordKind::kRange)) {
    const RangeRecord range = tracer::RangeOf(record);
    ranges.push_back(
        {trace.NameOf(NameTable::kRanges, range.name), trace.NameOf(NameTable::kRanges, range.domain), range});
  }
  return ranges;
}

std::vector<Range> Named(const std::vector<Range>& ranges, const std::string& name) {
  std::vector<Range> some;
  std::copy_if(ranges.begin(), ranges.end(), std::back_inserter(some), [&](const Range& r) { return r.name == name; });
  return some;
}

TEST(ProgramRangesTest, AllThatTheProgramSaysIsInItsTrace) {
  const Finished bare = RunProgram({NVTX_RANGES, "steps", "4"});
  const std::string place = NewDirectory();
  const Finished recorded = RunIn(place, {"--record", "--quiet"}, {NVTX_RANGES, "steps", "4"});
  EXPECT_EQ(recorded.status, 0) << recorded.err;
  EXPECT_EQ(recorded.err, "");
  // Without a tool NVTX answers -2; with one, levels: 0 + 0 for the first, and (0 + 1 + 1 + 0 + 0 + 0) a step.
  EXPECT_EQ(bare.out, "4 steps, sum of levels -52\n");
  EXPECT_EQ(recorded.out, "4 steps, sum of levels 8\n");

  const Trace trace = ReadOnlyTrace(FolderIn(place));
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(trace.end().dropped, 0U);
  const std::vector<Range> ranges = RangesIn(trace);
  EXPECT_EQ(ranges.size(), 4U * 5 + 1);
  EXPECT_TRUE(Named(ranges, "before CUDA").empty()) << "nothing was recorded then";
  const std::vector<Range> forward = Named(ranges, "forward");
  const std::vector<Range> sums = Named(ranges, "all_reduce");
  const std::vector<Range> marks = Named(ranges, "gr\u00f6\u00dfe \U0001F680");
  ASSERT_EQ(forward.size(), 4U);
  ASSERT_EQ(sums.size(), 4U);
  ASSERT_EQ(marks.size(), 4U);
  EXPECT_EQ(Named(ranges, "here").size(), 4U);
  const std::vector<tracer::TraceRecord> calls = trace.Of(tracer::RecordKind::kCall);
  for (int i = 0; i < 4; ++i) {
    const std::vector<Range> step = Named(ranges, "step " + std::to_string(i));
    ASSERT_EQ(step.size(), 1U);
    const auto contains = [](const Range& outer, uint64_t start, uint64_t end) {
      return outer.record.start_ns <= start && end <= outer.record.end_ns;
    };
    EXPECT_TRUE(contains(step[0], forward[i].record.start_ns, forward[i].record.end_ns));
    // On the clock of the calls: each memset is inside its range.
    EXPECT_EQ(std::count_if(calls.begin(), calls.end(),
                            [&](const auto& call) { return contains(forward[i], call.start_ns, call.end_ns); }),
              1);
    EXPECT_EQ(step[0].record.kind, RangeKind::kPushed);
    EXPECT_EQ(sums[i].domain, "library");
    EXPECT_EQ(sums[i].record.category, 7U);
    EXPECT_EQ(sums[i].record.color, 0xff00ff00U);
    EXPECT_EQ(sums[i].record.payload, tracer::RangePayload::kSigned);
    EXPECT_EQ(static_cast<int64_t>(sums[i].record.payload_bits), -i);
    EXPECT_EQ(marks[i].record.kind, RangeKind::kMark);
    EXPECT_EQ(marks[i].record.payload, tracer::RangePayload::kDouble);
  }
  const auto first = std::find_if(trace.records.begin(), trace.records.end(),
                                  [](const auto& next) { return next.record.kind == tracer::RecordKind::kCall; });
  ASSERT_NE(first, trace.records.end());
  const std::vector<Range> whole = Named(ranges, "whole");
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole[0].record.kind, RangeKind::kStarted);
  EXPECT_EQ(whole[0].record.thread, first->tid) << "began where the calls were made";
}

// Steps that the program names are the steps.
TEST(ProgramRangesTest, TheStepsAreThoseThatTheProgramNames) {
  const std::string place = NewDirectory();
  EXPECT_EQ(RunIn(place, {"--record", "--quiet"}, {NVTX_RANGES, "steps", "5"}).status, 0);
  const Finished exported =
      RunProgram({SLIPSTREAM_COMMAND, "export", FolderIn(place), "--sqlite", place + "/t.sqlite", "--json"});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const auto answer = nlohmann::json::parse(exported.out);
  EXPECT_EQ(answer["processes"][0]["steps"], 5) << exported.out;
  EXPECT_EQ(answer["processes"][0]["step_name"], "step");
  EXPECT_EQ(answer["processes"][0]["step_line"], nullptr);
}

TEST(ProgramRangesTest, AnotherToolKeepsThem) {
  const std::string place = NewDirectory();
  const std::string file = place + "/captured";
  const Finished recorded = RunIn(place, {"--record", "--quiet"}, {NVTX_RANGES, "steps", "2"},
                                  {{"NVTX_INJECTION64_PATH", NVTX_CAPTURE}, {"NVTX_CAPTURE_FILE", file}});
  EXPECT_EQ(recorded.status, 0) << recorded.err;
  const Trace trace = ReadOnlyTrace(FolderIn(place));
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_TRUE(RangesIn(trace).empty());
  const std::string captured = ReadFile(file);
  EXPECT_NE(captured.find("push library all_reduce"), std::string::npos) << captured;
  EXPECT_NE(captured.find("push slipstream cudaMemset "), std::string::npos) << captured;
}

TEST(ProgramRangesTest, WhereNobodyRecordsNvtxHasNoTool) {
  const std::string bare = RunProgram({NVTX_RANGES, "steps", "2"}).out;
  EXPECT_EQ(RunIn(NewDirectory(), {"--quiet"}, {NVTX_RANGES, "steps", "2"}).out, bare);
  const std::string place = NewDirectory();
  EXPECT_EQ(
      RunIn(place, {"--record", "--quiet"}, {NVTX_RANGES, "steps", "2"}, {{"SLIPSTREAM_TRACER_RANGES", "false"}}).out,
      bare);
  EXPECT_TRUE(RangesIn(ReadOnlyTrace(FolderIn(place))).empty());
}

// The variable goes to every child, and the preload need not.
TEST(ProgramRangesTest, AProcessWithoutThePreloadIsAsBare) {
  const std::string place = NewDirectory();
  const Finished recorded =
      RunIn(place, {"--record", "--quiet"}, {NVTX_RANGES, "unpreload"}, {{"SLIPSTREAM_RUN_WATCHER", "on"}});
  const Finished bare = RunProgram({NVTX_RANGES, "steps", "3"});
  EXPECT_EQ(recorded.status, 0);
  EXPECT_EQ(recorded.out, bare.out);
  // What it executes has not the library, so the watcher ends the run.
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!FolderIn(place).empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(FolderIn(place), "") << "nothing was recorded";
}

// NVTX may come upon the library by another name than the preload's. It is then not asked by `slipstream run`.
TEST(ProgramRangesTest, OnlyTheLibraryThatIsPreloadedIsTheTool) {
  const std::string place = NewDirectory();
  const std::string link = place + "/link.so";
  std::filesystem::create_symlink(SLIPSTREAM_LIBRARY, link);
  for (const char* tool : {SLIPSTREAM_LIBRARY, link.c_str()}) {
    const std::string directory = NewDirectory();
    const Finished finished = RunTraced({NVTX_RANGES, "steps", "2"}, directory, {{"NVTX_INJECTION64_PATH", tool}});
    EXPECT_EQ(finished.status, 0);
    EXPECT_EQ(RangesIn(ReadOnlyTrace(directory)).empty(), tool == link) << tool;
  }
}

// S50: names alone are no use of CUDA.
TEST(ProgramRangesTest, S50_AProcessThatNeverUsesCudaLeavesNothing) {
  const std::string place = NewDirectory();
  const Finished recorded = RunIn(place, {"--record", "--quiet"}, {NVTX_RANGES, "no_cuda"});
  EXPECT_EQ(recorded.status, 0);
  EXPECT_EQ(recorded.out, RunProgram({NVTX_RANGES, "no_cuda"}).out);
  // What it executes has not the library, so the watcher ends the run.
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!FolderIn(place).empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(FolderIn(place), "") << "nothing was recorded";
}

}  // namespace
}  // namespace slipstream::test
