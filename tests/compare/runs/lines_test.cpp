// Lines of the program that are found again in another run, where the file was edited or lies elsewhere.

#include "tools/compare/runs/lines.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/compare/runs/runs_testing.h"

namespace slipstream::compare {
namespace {

constexpr unsigned kCopies = 1;
constexpr unsigned kLaunches = 8;

// The numbers of the lines that are taken for one.
using Numbers = std::vector<std::pair<int64_t, int64_t>>;
Numbers Aligned(const std::vector<LineShape>& first, const std::vector<LineShape>& second) {
  Numbers numbers;
  for (const auto& [i, j] : AlignLines(first, second)) numbers.emplace_back(first[i].line, second[j].line);
  return numbers;
}

TEST(AlignLinesTest, NothingMoved) {
  const std::vector<LineShape> lines = {{10, kCopies, 1}, {11, kLaunches, 5}, {12, kLaunches, 5}};
  EXPECT_EQ(Aligned(lines, lines), (Numbers{{10, 10}, {11, 11}, {12, 12}}));
  EXPECT_EQ(Aligned({}, lines), Numbers());
  EXPECT_EQ(Aligned(lines, {}), Numbers());
}

// All of a function is one line lower. By their numbers alone, 25 to 27 would be other lines.
TEST(AlignLinesTest, AllMoved) {
  EXPECT_EQ(
      Aligned({{22, kLaunches, 2}, {24, kLaunches, 9}, {25, kLaunches, 6}, {26, kLaunches, 8}, {27, kLaunches, 7}},
              {{23, kLaunches, 2}, {25, kLaunches, 9}, {26, kLaunches, 6}, {27, kLaunches, 8}, {28, kLaunches, 7}}),
      (Numbers{{22, 23}, {24, 25}, {25, 26}, {26, 27}, {27, 28}}));
  // Alike as they are, too.
  EXPECT_EQ(Aligned({{10, kLaunches, 5}, {11, kLaunches, 5}, {12, kLaunches, 5}},
                    {{11, kLaunches, 5}, {12, kLaunches, 5}, {13, kLaunches, 5}}),
            (Numbers{{10, 11}, {11, 12}, {12, 13}}));
}

TEST(AlignLinesTest, ALineWasPutIn) {
  EXPECT_EQ(Aligned({{80, kLaunches, 30}, {81, kLaunches, 400}, {82, kLaunches, 25}},
                    {{80, kLaunches, 30}, {81, kCopies, 1}, {82, kLaunches, 400}, {83, kLaunches, 25}}),
            (Numbers{{80, 80}, {81, 82}, {82, 83}}));
}

TEST(AlignLinesTest, ALineWasTakenOut) {
  // The ones below it stay where they are, or move up.
  EXPECT_EQ(
      Aligned({{80, kLaunches, 5}, {81, kLaunches, 5}, {82, kLaunches, 5}}, {{80, kLaunches, 5}, {82, kLaunches, 5}}),
      (Numbers{{80, 80}, {82, 82}}));
  EXPECT_EQ(Aligned({{80, kLaunches, 30}, {81, kLaunches, 400}, {82, kLaunches, 25}},
                    {{80, kLaunches, 30}, {81, kLaunches, 25}}),
            (Numbers{{80, 80}, {82, 81}}));
}

TEST(AlignLinesTest, ALineDoesSomethingElse) {
  EXPECT_EQ(Aligned({{10, kLaunches, 3}, {11, kCopies, 1}}, {{10, kLaunches, 3}, {11, kLaunches, 90}}),
            (Numbers{{10, 10}, {11, 11}}));
}

// A moved line that makes more calls than before is known where no other line could be it.
TEST(AlignLinesTest, TheOnlyOneOfItsKinds) {
  EXPECT_EQ(Aligned({{10, kLaunches, 5}, {20, kCopies, 1}}, {{10, kLaunches, 5}, {22, kCopies, 3}}),
            (Numbers{{10, 10}, {20, 22}}));
  EXPECT_EQ(Aligned({{20, kCopies, 1}}, {{22, kCopies, 3}, {23, kCopies, 3}}), Numbers());
}

TEST(MovedFilesTest, ByTheirNames) {
  using Moved = std::map<std::string, std::string>;
  EXPECT_EQ(MovedFiles({"/a/x.py", "/a/y.py"}, {"/b/x.py", "/a/y.py"}, "", ""), (Moved{{"/b/x.py", "/a/x.py"}}));
  EXPECT_EQ(MovedFiles({"/a/x.py", "/c/x.py"}, {"/b/x.py"}, "", ""), Moved()) << "either could be it";
  EXPECT_EQ(MovedFiles({"/a/x.py"}, {"/a/z.py"}, "", ""), Moved());
}

TEST(MovedFilesTest, TheFileThatStepsBeginIn) {
  using Moved = std::map<std::string, std::string>;
  EXPECT_EQ(MovedFiles({"/a/slow.py"}, {"/a/fast.py"}, "/a/slow.py:8 (main)", "/a/fast.py:9 (main)"),
            (Moved{{"/a/fast.py", "/a/slow.py"}}));
  EXPECT_EQ(MovedFiles({"/a/slow.py", "/a/fast.py"}, {"/a/fast.py"}, "/a/slow.py:8 (main)", "/a/fast.py:9 (main)"),
            Moved())
      << "the first run has that one, too";
}

const LineChange* Find(const std::vector<LineChange>& changes, int64_t line) {
  const LineChange* found = nullptr;
  for (const LineChange& change : changes) {
    if (change.line.line == line) found = &change;
  }
  return found;
}

TEST(CompareLinesTest, AMovedLineIsOneRow) {
  RecordedRun first = RunOf("a", 10, 1000);
  RecordedRun second = RunOf("b", 20, 1500);
  AddSite(&first, 10, "step", "cudaMemcpyAsync", 1, 100);
  AddSite(&first, 20, "step", "cudaLaunchKernel", 30, 40);
  AddSite(&second, 10, "step", "cudaLaunchKernel", 3, 7);  // put in
  AddSite(&second, 11, "step", "cudaMemcpyAsync", 1, 600);
  AddSite(&second, 21, "step", "cudaLaunchKernel", 30, 40);
  const std::vector<LineChange> lines = CompareLines(first, second);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].line.line, 11) << "the largest change first";
  EXPECT_EQ(lines[0].was_line, 10);
  EXPECT_EQ(lines[0].was_file, "");
  EXPECT_TRUE(lines[0].in_first);
  EXPECT_TRUE(lines[0].in_second);
  EXPECT_DOUBLE_EQ(lines[0].Of(LineMeasure::kInCalls, 0), 100);
  EXPECT_DOUBLE_EQ(lines[0].Of(LineMeasure::kInCalls, 1), 600);
  const LineChange* const put_in = Find(lines, 10);
  ASSERT_NE(put_in, nullptr);
  EXPECT_FALSE(put_in->in_first);
  EXPECT_EQ(put_in->was_line, std::nullopt);
  EXPECT_DOUBLE_EQ(put_in->Difference(LineMeasure::kInCalls), 7);
  const LineChange* const launches = Find(lines, 21);
  ASSERT_NE(launches, nullptr);
  EXPECT_EQ(launches->was_line, 20);
  EXPECT_DOUBLE_EQ(launches->Difference(LineMeasure::kInCalls), 0);
}

TEST(CompareLinesTest, OfAFileThatLiesElsewhere) {
  RecordedRun first = RunOf("a", 10, 1000);
  RecordedRun second = RunOf("b", 10, 1000);
  AddSite(&first, 10, "step", "cudaMemcpyAsync", 1, 100);
  AddSite(&second, 10, "step", "cudaMemcpyAsync", 1, 150);
  ProcessOf(&second).sites[0].file = "/new/train.py";
  const std::vector<LineChange> lines = CompareLines(first, second);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].line.file, "/new/train.py");
  EXPECT_EQ(lines[0].was_file, "/job/train.py");
  EXPECT_EQ(lines[0].was_line, std::nullopt);
  EXPECT_DOUBLE_EQ(lines[0].Difference(LineMeasure::kInCalls), 50);
}

// Idle time in a line's calls and before them is one figure; other threads have rows of their own.
TEST(CompareLinesTest, IdleTimeAndKernels) {
  RecordedRun first = RunOf("a", 10, 1000);
  RecordedRun second = RunOf("b", 10, 1000);
  report::LineReport line{
      .known = true, .of_step_thread = true, .file = "/job/train.py", .line = 10, .function = "step"};
  for (RecordedRun* const run : {&first, &second}) {
    AddSite(run, 10, "step", "cudaLaunchKernel", 1, 5);
    report::DeviceReport& device = AddDevice(run, 400);
    const int64_t factor = run == &first ? 1 : 2;
    device.idle_lines.push_back(
        {.host = 3, .before_call = false, .no_call = false, .line = line, .time = 300 * factor});
    device.idle_lines.push_back({.host = 5, .before_call = true, .no_call = false, .line = line, .time = 200 * factor});
    report::LineReport other = line;
    other.of_step_thread = false;
    device.idle_lines.push_back(
        {.host = 3, .before_call = false, .no_call = false, .line = other, .time = 70 * factor});
    device.kernel_lines.push_back(
        {.call_known = true, .line = line, .launches = 10, .time = 4000, .top_kernel = "gemm", .top_time = 4000});
  }
  const std::vector<LineChange> lines = CompareLines(first, second);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[0].line.of_step_thread);
  EXPECT_DOUBLE_EQ(lines[0].Of(LineMeasure::kIdle, 0), 50);
  EXPECT_DOUBLE_EQ(lines[0].Of(LineMeasure::kIdle, 1), 100);
  EXPECT_DOUBLE_EQ(lines[0].Of(LineMeasure::kKernels, 0), 400);
  EXPECT_DOUBLE_EQ(lines[0].Difference(LineMeasure::kKernels), 0);
  EXPECT_FALSE(lines[1].line.of_step_thread);
  EXPECT_DOUBLE_EQ(lines[1].Difference(LineMeasure::kIdle), 7);
}

// A device's idle time is not set beside nothing.
TEST(CompareLinesTest, OneRunWithoutDevices) {
  RecordedRun first = RunOf("a", 10, 1000);
  RecordedRun second = RunOf("b", 10, 1000);
  report::LineReport line{
      .known = true, .of_step_thread = true, .file = "/job/train.py", .line = 10, .function = "step"};
  AddSite(&first, 10, "step", "cudaLaunchKernel", 1, 5);
  AddSite(&second, 10, "step", "cudaLaunchKernel", 1, 5);
  AddDevice(&first, 400)
      .idle_lines.push_back({.host = 3, .before_call = false, .no_call = false, .line = line, .time = 300});
  const std::vector<LineChange> lines = CompareLines(first, second);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].Of(LineMeasure::kIdle, 0), 0);
}

}  // namespace
}  // namespace slipstream::compare
