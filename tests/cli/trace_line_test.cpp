#include "tools/cli/trace_line.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tracer/spool/chunk_writer.h"
#include "tracer/spool/spool_file.h"

namespace slipstream::cli {
namespace {

using tracer::ProcessCounts;

ProcessCounts ProcessThatSays(const std::string& fact) {
  ProcessCounts process;
  process.facts.push_back({"trace", fact});
  return process;
}

TEST(TraceLineTest, OfAWholeTrace) {
  TraceSummary trace = {.directory = "/data/x/slipstream-trace-1", .files = {{}}, .troubles = {}};
  trace.files[0].records = 12345;
  trace.files[0].bytes = 3 << 20;
  EXPECT_EQ(FormatTrace(trace),
            "slipstream: trace: 12,345 records, none dropped, 3.00 MiB in /data/x/slipstream-trace-1\n");
  EXPECT_EQ(FormatHint(trace), "slipstream: to read it: slipstream report /data/x/slipstream-trace-1\n");
  trace.files[0].given_up_records = 5000;
  EXPECT_EQ(FormatTrace(trace),
            "slipstream: trace: 12,345 records, none dropped, 5,000 older ones given up, 3.00 MiB in "
            "/data/x/slipstream-trace-1\n");
  trace.files[0].given_up_records = 0;
  trace.files.push_back(trace.files[0]);
  trace.files[1].dropped = 7;
  trace.troubles = {"cut short: it rained", "incomplete"};
  EXPECT_EQ(FormatTrace(trace),
            "slipstream: trace: 24,690 records, 7 dropped, 6.00 MiB in /data/x/slipstream-trace-1 (2 files); cut "
            "short: it rained; incomplete\n");
}

TEST(TraceLineTest, TheCommandCanBePasted) {
  TraceSummary trace = {.directory = "/data/what's new/t", .files = {{}}, .troubles = {}};
  EXPECT_EQ(FormatHint(trace), "slipstream: to read it: slipstream report '/data/what'\\''s new/t'\n");
  trace.files.clear();
  EXPECT_EQ(FormatHint(trace), "");
}

TEST(TraceLineTest, WhereThereIsNone) {
  EXPECT_EQ(FormatTrace(SumUpTrace("", {}, true, 0)), "slipstream: no trace: no CUDA call was seen\n");
  EXPECT_NE(FormatTrace(SumUpTrace("", {}, false, 0)).find("or it could not be recorded"), std::string::npos);
  EXPECT_EQ(FormatTrace(SumUpTrace("", {ProcessThatSays("off: no_directory: Permission denied")}, true, 0)),
            "slipstream: no trace: not begun: no_directory: Permission denied\n");
  EXPECT_EQ(FormatTrace(SumUpTrace("", {ProcessThatSays("off: a"), ProcessThatSays("on")}, true, 0)),
            "slipstream: no trace: not begun: a (1 of 2 processes); a file of it is gone\n");
}

// Who records and gets no lines is told why; who does not, is not.
TEST(TraceLineTest, AnUnsupportedPythonIsNamed) {
  const auto process = [](const char* trace, const char* lines) {
    ProcessCounts counts = ProcessThatSays(trace);
    counts.facts.push_back({"python_lines", lines});
    return counts;
  };
  const auto troubles = [](const std::vector<ProcessCounts>& processes) {
    return FormatTrace(SumUpTrace("", processes, true, 0));
  };
  const char* const unsupported = "unsupported: this is a free-threaded CPython 3.14.2";
  EXPECT_EQ(
      troubles({process("on", unsupported)}),
      "slipstream: no trace: Python lines: none, this is a free-threaded CPython 3.14.2 (not supported); a file of "
      "it is gone\n");
  EXPECT_EQ(troubles({process("on", unsupported), process("on", "read: CPython 3.13.1")}),
            "slipstream: no trace: Python lines: none, this is a free-threaded CPython 3.14.2 (not supported) (1 of 2 "
            "processes); a file of it is gone\n");
  for (const char* const fine : {"read: CPython 3.14.2", "none: there is no CPython in this process"}) {
    EXPECT_EQ(troubles({process("on", fine)}), "slipstream: no trace: a file of it is gone\n");
  }
  EXPECT_EQ(troubles({process("off: why", unsupported)}), "slipstream: no trace: not begun: why\n");
}

// One whose process was killed behind its limit, and two that wrote down how many calls came later.
TEST(TraceLineTest, CallsBehindTheEndOfARecording) {
  std::string directory = (std::filesystem::temp_directory_path() / "slipstream-line-XXXXXX").string();
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  for (const uint64_t later : {0U, 1234U, 5U}) {
    tracer::SpoolFile file{tracer::FileCalls{}};
    ASSERT_EQ(file.Create(directory, std::to_string(later) + ".spool").problem, tracer::SpoolProblem::kNone);
    tracer::ChunkWriter chunks(&file, uint64_t{1} << 20);
    chunks.Start(1);
    const auto reason = static_cast<uint32_t>(tracer::EndReason::kLimit);
    EXPECT_TRUE(chunks.Stop({.reason = reason}));
    if (later != 0) {
      EXPECT_TRUE(chunks.Finish({.reason = reason, .later_calls = later}));
    }
  }
  const TraceSummary trace = SumUpTrace(directory, {}, true, 0);
  EXPECT_EQ(trace.troubles,
            (std::vector<std::string>{"cut short at tracer.max_file (2 of 3 files)",
                                      "cut short at tracer.max_file, in a process that was killed later (1 of 3 files)",
                                      "1,239 later calls are not in it"}));
  std::filesystem::remove_all(directory);
}

TEST(TraceLineTest, WhereTheOldestCouldNotMakeRoom) {
  ProcessCounts process = ProcessThatSays("on");
  process.facts.push_back({"trace_keep", "the oldest records cannot make room: Operation not supported"});
  const TraceSummary trace = SumUpTrace("", {process}, true, 0);
  EXPECT_EQ(trace.troubles.at(0), "the oldest records cannot make room: Operation not supported");
}

TEST(TraceLineTest, AFolderThatCannotBeRead) {
  const TraceSummary trace = SumUpTrace("/no/such/folder", {}, true, 0);
  ASSERT_FALSE(trace.troubles.empty());
  EXPECT_NE(trace.troubles[0].find("/no/such/folder"), std::string::npos) << trace.troubles[0];
}

}  // namespace
}  // namespace slipstream::cli
