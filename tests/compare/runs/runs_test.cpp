// Two recorded runs, compared: parts that add up, kernels and copies, what makes it unsound, and what is printed.

#include "tools/compare/runs/runs.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/compare/runs/runs_testing.h"
#include "tools/compare/runs/notes.h"
#include "tools/compare/runs/text.h"
#include "tools/compare/runs/work.h"

namespace slipstream::compare {
namespace {

const PartChange* Part(const RunsComparison& comparison, const std::string& name) {
  const PartChange* found = nullptr;
  for (const PartChange& part : comparison.parts) {
    if (part.name == name) found = &part;
  }
  return found;
}

double SumOfDifferences(const RunsComparison& comparison) {
  double sum = 0;
  for (const PartChange& part : comparison.parts) sum += part.difference();
  return sum;
}

bool Has(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

std::vector<std::string> Texts(const std::vector<Note>& notes, bool unsound) {
  std::vector<std::string> texts;
  for (const Note& note : notes) {
    if (note.unsound == unsound) texts.push_back(note.text);
  }
  return texts;
}

using Words = std::vector<std::string>;

TEST(CompareRecordedTest, PartsOfTheDeviceAddUpToTheStep) {
  RecordedRun first = RunOf("a", 10, 1000);
  AddDevice(&first, 0).times = {.kernels = 4000,
                                .copies_alone = 1000,
                                .idle = {0, 2000, 0, 1000, 0, 2000},
                                .copies = 1500,
                                .communication = 900,
                                .communication_alone = 500};
  RecordedRun second = RunOf("b", 20, 1500);
  AddDevice(&second, 400);
  const RunsComparison comparison = CompareRecorded(first, second);
  EXPECT_TRUE(comparison.by_device);
  ASSERT_TRUE(comparison.step.has_value());
  EXPECT_DOUBLE_EQ(comparison.step->difference(), 500);
  EXPECT_DOUBLE_EQ(SumOfDifferences(comparison), 500);
  ASSERT_EQ(comparison.parts.size(), 6U);
  EXPECT_DOUBLE_EQ(Part(comparison, "computes")->first, 350) << "without what only communicates";
  EXPECT_DOUBLE_EQ(Part(comparison, "computes")->second, 400);
  EXPECT_DOUBLE_EQ(Part(comparison, "communicates_alone")->difference(), -50);
  EXPECT_DOUBLE_EQ(Part(comparison, "copies_alone")->difference(), -100);
  EXPECT_DOUBLE_EQ(Part(comparison, "idle_synchronizes")->difference(), -200);
  EXPECT_DOUBLE_EQ(Part(comparison, "idle_launches")->difference(), -100);
  EXPECT_DOUBLE_EQ(Part(comparison, "idle_outside_of_calls")->second, 1100);
}

TEST(CompareRecordedTest, StepsThatOverlapAddUpTooAndTheDeviceCountsOnce) {
  RecordedRun first = RunOf("a", 10, 1000);
  AddDevice(&first, 400);
  RecordedRun second = RunOf("b", 10, 1000);
  ProcessOf(&second).measured_time = 9000;
  AddDevice(&second, 400);
  const RunsComparison comparison = CompareRecorded(first, second);
  EXPECT_DOUBLE_EQ(Part(comparison, "idle_outside_of_calls")->difference(), -100);
  EXPECT_DOUBLE_EQ(Part(comparison, "steps_overlap")->difference(), 100);
  EXPECT_DOUBLE_EQ(SumOfDifferences(comparison), 0);
}

// Its steps' work takes so long.
void RanAhead(RecordedRun* run, int64_t work, bool ahead) {
  report::ProcessReport& process = ProcessOf(run);
  process.ran_ahead = ahead;
  for (report::Step& step : process.steps) step.work_time = work;
  process.work_time = report::DistributionOf(std::vector<int64_t>(process.measured_steps, work));
}

TEST(CompareRecordedTest, WhereOneRanAheadTheWorkOfStepsIsCompared) {
  RecordedRun first = RunOf("a", 10, 1000);
  RanAhead(&first, 2500, /*ahead=*/true);
  AddDevice(&first, 900);
  RecordedRun second = RunOf("b", 10, 2400);
  RanAhead(&second, 2500, /*ahead=*/false);
  AddDevice(&second, 2160);
  const RunsComparison comparison = CompareRecorded(first, second);
  EXPECT_TRUE(comparison.by_work);
  EXPECT_DOUBLE_EQ(comparison.step->first, 2500);
  EXPECT_DOUBLE_EQ(comparison.step->difference(), 0);
  EXPECT_DOUBLE_EQ(Part(comparison, "computes")->first, 2250) << "as it is busy for nine tenths";
  EXPECT_DOUBLE_EQ(Part(comparison, "computes")->second, 2250);
  EXPECT_DOUBLE_EQ(SumOfDifferences(comparison), 0);
  ASSERT_FALSE(comparison.notes.empty());
  EXPECT_TRUE(Has(comparison.notes[0].text, "in the first run the host ran ahead of its devices"));
  EXPECT_FALSE(comparison.notes[0].unsound);
}

TEST(CompareRecordedTest, WithoutDevicesTheWaitAfterTheStepsIsAPartOfThem) {
  RecordedRun first = RunOf("a", 10, 1000);
  RanAhead(&first, 2500, /*ahead=*/true);
  ProcessOf(&first).parts[static_cast<size_t>(report::Part::kOutside)].total = 10000;
  RecordedRun second = RunOf("b", 10, 1000);
  RanAhead(&second, 3000, /*ahead=*/true);
  ProcessOf(&second).parts[static_cast<size_t>(report::Part::kOutside)].total = 10000;
  const RunsComparison comparison = CompareRecorded(first, second);
  EXPECT_DOUBLE_EQ(comparison.step->difference(), 500);
  EXPECT_DOUBLE_EQ(Part(comparison, "waits_after_the_steps")->first, 1500);
  EXPECT_DOUBLE_EQ(SumOfDifferences(comparison), 500);
  EXPECT_TRUE(Has(comparison.notes[0].text, "in both runs"));
}

TEST(CompareRecordedTest, WhereTheWorkOfOneIsNotKnownItIsUnsound) {
  RecordedRun first = RunOf("a", 10, 1000);
  RanAhead(&first, 2500, /*ahead=*/true);
  const RunsComparison comparison = CompareRecorded(first, RunOf("b", 10, 1000));
  ASSERT_FALSE(comparison.notes.empty());
  EXPECT_TRUE(comparison.notes[0].unsound);
  EXPECT_TRUE(Has(comparison.notes[0].text, "of the other run that is not known"));
}

TEST(CompareRecordedTest, OfSeveralDevicesTheOneThatComputesMost) {
  RecordedRun first = RunOf("a", 10, 1000);
  AddDevice(&first, 10);
  AddDevice(&first, 700).device = 1;
  ASSERT_NE(first.Device(), nullptr);
  EXPECT_EQ(first.Device()->device, 1);
  ProcessOf(&first).unwatched_everywhere = true;
  EXPECT_EQ(first.Device(), nullptr);
}

TEST(CompareRecordedTest, PartsOfTheHostWhereARunHasNoDevices) {
  RecordedRun first = RunOf("a", 10, 1000);
  AddDevice(&first, 400);
  RecordedRun second = RunOf("b", 10, 1200);
  ProcessOf(&first).parts[static_cast<size_t>(report::Part::kCopies)].total = 3000;
  ProcessOf(&first).parts[static_cast<size_t>(report::Part::kOutside)].total = 7000;
  ProcessOf(&second).parts[static_cast<size_t>(report::Part::kCopies)].total = 5000;
  ProcessOf(&second).parts[static_cast<size_t>(report::Part::kElsewhere)].total = 7000;
  const RunsComparison comparison = CompareRecorded(first, second);
  EXPECT_FALSE(comparison.by_device);
  ASSERT_EQ(comparison.parts.size(), 3U);
  EXPECT_DOUBLE_EQ(Part(comparison, "copies")->difference(), 200);
  EXPECT_DOUBLE_EQ(Part(comparison, "another_thread_in_calls")->difference(), 700);
  EXPECT_DOUBLE_EQ(Part(comparison, "outside_of_calls")->difference(), -700);
  EXPECT_DOUBLE_EQ(SumOfDifferences(comparison), comparison.step->difference());
  EXPECT_TRUE(comparison.kernels.empty());
  ASSERT_EQ(Texts(comparison.notes, true).size(), 1U);
  EXPECT_TRUE(Has(Texts(comparison.notes, true)[0], "only the first run knows what devices did"));
  const auto json = nlohmann::json::parse(RunsComparisonJson(comparison, 0));
  EXPECT_EQ(json["parts_of"], "host");
  EXPECT_TRUE(json["kernels"].is_null());
  EXPECT_TRUE(json["copies"].is_null());
}

TEST(CompareRecordedTest, WithoutStepsNothingIsCompared) {
  const RecordedRun first = RunOf("a", 10, 1000);
  RecordedRun second = RunOf("b", 0, 0);
  ProcessOf(&second).why_no_steps = "it has one thread";
  const RunsComparison comparison = CompareRecorded(first, second);
  EXPECT_FALSE(comparison.step.has_value());
  EXPECT_TRUE(comparison.parts.empty());
  const std::string text = FormatRunsComparison(comparison);
  EXPECT_TRUE(text.starts_with("NOTHING CAN BE SAID: ")) << text;
  EXPECT_TRUE(Has(text, "second run: it has one")) << text;
  const auto json = nlohmann::json::parse(RunsComparisonJson(comparison, 3));
  for (const char* const key : {"first_ns", "second_ns", "difference_ns", "low_ns", "high_ns", "different"}) {
    EXPECT_TRUE(json["step_time"][key].is_null()) << key;
  }
  EXPECT_EQ(json["exit_status"], 3);
}

// In a step of 10 and of 20: a kernel that takes longer, one that is run less often, one of each run alone.
TEST(CompareWorkTest, KernelsByTheirChange) {
  RecordedRun first = RunOf("a", 10, 1000);
  RecordedRun second = RunOf("b", 20, 1000);
  AddDevice(&first, 400).top = {{.name = "gemm", .launches = 20, .time = 2000},
                                {.name = "gone", .launches = 10, .time = 500},
                                {.name = "add", .launches = 100, .time = 1000},
                                {.name = "same", .launches = 10, .time = 300}};
  AddDevice(&second, 400).top = {{.name = "gemm", .launches = 40, .time = 9000},
                                 {.name = "new", .launches = 20, .time = 200},
                                 {.name = "add", .launches = 40, .time = 400},
                                 {.name = "same", .launches = 20, .time = 600}};
  const std::vector<WorkChange> kernels = CompareKernels(first, second);
  Words names;
  std::vector<double> differences;
  for (const WorkChange& kernel : kernels) {
    names.push_back(kernel.name);
    differences.push_back(kernel.difference());
  }
  EXPECT_EQ(names, (Words{"gemm", "add", "gone", "new", "same"}));
  EXPECT_EQ(differences, (std::vector<double>{250, -80, -50, 10, 0}));
  EXPECT_EQ(kernels[1].counts, (std::array<double, 2>{10, 2}));
  EXPECT_EQ(kernels[2].counts, (std::array<double, 2>{1, 0}));
  const std::string text = FormatRunsComparison(CompareRecorded(first, second));
  EXPECT_TRUE(Has(text, "10 -> 2 x")) << text;
  EXPECT_TRUE(Has(text, "[new]")) << text;
  EXPECT_TRUE(Has(text, "[gone]")) << text;
  EXPECT_TRUE(Has(text, "\n  1 more ")) << text;
  const auto json = nlohmann::json::parse(RunsComparisonJson(CompareRecorded(first, second), 0));
  EXPECT_EQ(json["kernels"][2]["only_in"], "first");
  EXPECT_EQ(json["kernels"][3]["only_in"], "second");
  EXPECT_TRUE(json["kernels"][0]["only_in"].is_null());
  EXPECT_EQ(json["kernels"][0]["difference_ns"], 250);
}

TEST(CompareWorkTest, CopiesByTheirKind) {
  RecordedRun first = RunOf("a", 10, 1000);
  RecordedRun second = RunOf("b", 10, 1000);
  AddDevice(&first, 400).copies = {{.kind = 1, .name = "HtoD", .count = 10, .bytes = 1000, .time = 100}};
  AddDevice(&second, 400).copies = {{.kind = 1, .name = "HtoD", .count = 20, .bytes = 3000, .time = 250}};
  const std::vector<WorkChange> copies = CompareCopies(first, second);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].bytes, (std::array<double, 2>{100, 300}));
  EXPECT_EQ(copies[0].counts, (std::array<double, 2>{1, 2}));
  EXPECT_DOUBLE_EQ(copies[0].difference(), 15);
}

TEST(NotesTest, TheSameRunHasNone) {
  RecordedRun run = RunOf("a", 10, 1000);
  AddDevice(&run, 400);
  run.facts = {{"policy", "defaults"}, {"pid", "7"}};
  EXPECT_TRUE(NotesOn(run, run).empty());
}

TEST(NotesTest, WhatIsNotTheSame) {
  RecordedRun first = RunOf("a", 10, 1000);
  RecordedRun second = RunOf("b", 10, 1000);
  AddDevice(&first, 400);
  AddDevice(&second, 400).name = "NVIDIA H200";
  ProcessOf(&second).world_size = 8;  // the first knows of none
  ProcessOf(&first).host = "one";
  ProcessOf(&second).host = "other";
  first.facts = {{"policy", "defaults"}, {"runtime", "13000 /a/libcudart.so"}, {"pid", "7"}};
  second.facts = {{"policy", "/x.toml"}, {"runtime", "13000 /b/libcudart.so"}, {"pid", "8"}};
  const std::vector<Note> notes = NotesOn(first, second);
  EXPECT_EQ(Texts(notes, true), (Words{"GPUs differ: NVIDIA H100 in the first run, NVIDIA H200 in the second",
                                       "numbers of ranks (world size) differ: 1 in the first run, 8 in the second",
                                       "policies differ: defaults in the first run, /x.toml in the second"}));
  EXPECT_EQ(Texts(notes, false), (Words{"hosts differ: one in the first run, other in the second"}));
  EXPECT_TRUE(notes[0].unsound);
  EXPECT_FALSE(notes.back().unsound);
}

TEST(NotesTest, SeveralDevicesOfAProcess) {
  RecordedRun first = RunOf("a", 10, 1000);
  RecordedRun second = RunOf("b", 10, 1000);
  AddDevice(&first, 400);
  AddDevice(&first, 300);
  AddDevice(&second, 400);
  EXPECT_EQ(Texts(NotesOn(first, second), false),
            (Words{"numbers of GPUs that the process uses differ: 2 in the first run, 1 in the second",
                   "of several GPUs of a process, the one that computes most is compared"}));
}

TEST(NotesTest, StepsThatBeginElsewhere) {
  RecordedRun first = RunOf("a", 10, 1000);
  RecordedRun second = RunOf("b", 10, 1000);
  ProcessOf(&second).step_site = "/new/train.py:9 (main)";
  EXPECT_TRUE(Texts(NotesOn(first, second), true).empty()) << "the same line, moved";
  ASSERT_EQ(Texts(NotesOn(first, second), false).size(), 1U);
  for (const char* const site : {"/job/train.py:8 (epoch)", "/job/other.py:8 (main)", ""}) {
    ProcessOf(&second).step_site = site;
    const Words unsound = Texts(NotesOn(first, second), true);
    ASSERT_EQ(unsound.size(), 1U) << site;
    EXPECT_TRUE(Has(unsound[0], "a step may not be the same work")) << unsound[0];
  }
  EXPECT_EQ(SiteOf("/a (b)/c:d.py:12 (f.<locals>.g)").file, "/a (b)/c:d.py");
  EXPECT_EQ(SiteOf("/a (b)/c:d.py:12 (f.<locals>.g)").function, "f.<locals>.g");
  EXPECT_EQ(SiteOf("").file, "");
}

TEST(NotesTest, RecordsThatAreMissing) {
  RecordedRun first = RunOf("a", 10, 1000);
  RecordedRun second = RunOf("b", 10, 1000);
  first.partial = true;
  ProcessOf(&second).dropped = 12;
  ProcessOf(&second).dropped_steps = 1;
  const Words unsound = Texts(NotesOn(first, second), true);
  ASSERT_EQ(unsound.size(), 2U);
  EXPECT_TRUE(Has(unsound[0], "the first run could not be read to its end")) << unsound[0];
  EXPECT_EQ(unsound[1], "the second run lost 12 records, and 1 step with such a gap is left out");
  ProcessOf(&second).drops_everywhere = true;
  EXPECT_TRUE(Has(Texts(NotesOn(first, second), true)[1], "in every step"));
}

TEST(NotesTest, OtherDataAndLongerPauses) {
  RecordedRun first = RunOf("a", 10, 1000);
  RecordedRun second = RunOf("b", 20, 1000);
  AddDevice(&first, 400);
  AddDevice(&second, 400);
  ProcessOf(&first).device_copies[1][10] = {.calls = 10, .bytes = 20'480, .time = 1};
  ProcessOf(&second).device_copies[1][11] = {.calls = 20, .bytes = 81'920, .time = 1};
  ProcessOf(&first).pause_time = report::DistributionOf({100, 100});
  ProcessOf(&second).pause_time = report::DistributionOf({300, 300});
  const Words notes = Texts(NotesOn(first, second), false);
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_TRUE(Has(notes[0], "a step uploads 2.00 KiB in the first run, 4.00 KiB in the second")) << notes[0];
  EXPECT_TRUE(Has(notes[1], "100 ns in the first run, 300 ns in the second")) << notes[1];
}

TEST(FormatRunsComparisonTest, TheVerdictComesFirst) {
  RecordedRun first = RunOf("a", 30, 10'000'000);
  RecordedRun second = RunOf("b", 30, 12'500'000);
  AddDevice(&first, 4'000'000);
  AddDevice(&second, 4'000'000);
  EXPECT_TRUE(
      FormatRunsComparison(CompareRecorded(first, second))
          .starts_with("SLOWER by 25.0 % (99 % interval 22.5 to 27.5 %, in which 2 % is what two runs of\n  one "
                       "program may differ by): a step 10.00 ms -> 12.50 ms, +2.500 ms\n"))
      << FormatRunsComparison(CompareRecorded(first, second));
  const RecordedRun& slow = second;
  const RecordedRun& fast = first;
  const std::string text = FormatRunsComparison(CompareRecorded(slow, fast));
  EXPECT_TRUE(text.starts_with("FASTER by 20.0 % (99 % interval 18.4 to 21.6 %, in which 2 % is ")) << text;
  EXPECT_TRUE(Has(text, "\nMost of it: GPU idle, host outside CUDA calls, -2.500 ms\n")) << text;
  EXPECT_TRUE(Has(text, "\nOne run of each cannot tell how much two runs of one program differ: the 2 % is\n")) << text;
  EXPECT_TRUE(Has(text, "\n  a step, mean                                  12.50 ms    10.00 ms   -2.500 ms\n"))
      << text;
}

TEST(FormatRunsComparisonTest, ARunWithItself) {
  RecordedRun run = RunOf("a", 30, 1000);
  AddDevice(&run, 400).top = {{.name = "gemm", .launches = 20, .time = 2000}};
  AddSite(&run, 10, "step", "cudaLaunchKernel", 1, 5);
  const RunsComparison comparison = CompareRecorded(run, run);
  const std::string text = FormatRunsComparison(comparison);
  EXPECT_TRUE(
      text.starts_with("NO DIFFERENCE FOUND beyond what two runs of one program differ by (2 %): +0.0 %\n  (99 % "
                       "interval -2.0 to +2.0 %, "))
      << text;
  EXPECT_FALSE(Has(text, "CAUTION")) << text;
  EXPECT_TRUE(Has(text, "none differs")) << text;
  for (const PartChange& part : comparison.parts) EXPECT_EQ(part.difference(), 0) << part.name;
  for (const WorkChange& kernel : comparison.kernels) EXPECT_EQ(kernel.difference(), 0) << kernel.name;
  for (const LineChange& line : comparison.lines) {
    EXPECT_EQ(line.Difference(LineMeasure::kInCalls), 0);
    EXPECT_TRUE(line.in_first && line.in_second);
  }
}

TEST(FormatRunsComparisonTest, TooFewStepsAndCautions) {
  RecordedRun first = RunOf("a", 8, 1'000'000);
  RecordedRun second = RunOf("b", 30, 2'000'000);
  ProcessOf(&first).world_size = 1;
  ProcessOf(&second).world_size = 2;
  const std::string text = FormatRunsComparison(CompareRecorded(first, second));
  EXPECT_TRUE(text.starts_with("CAUTION: numbers of ranks")) << text;
  EXPECT_TRUE(Has(text, "\nNOTHING IS CLAIMED: a step 1.000 ms -> 2.000 ms, ")) << text;
  EXPECT_TRUE(Has(text, "worth 1.1 and 6.2 independent blocks")) << text;
  const auto json = nlohmann::json::parse(RunsComparisonJson(CompareRecorded(first, second), 3));
  EXPECT_EQ(json["step_time"]["difference_ns"], 1e6);
  EXPECT_TRUE(json["step_time"]["low_ns"].is_null());
  EXPECT_TRUE(json["step_time"]["confidence"].is_null());
  EXPECT_TRUE(json["step_time"]["different"].is_null());
  EXPECT_EQ(json["step_time"]["first_blocks"], 2);
  EXPECT_LT(json["step_time"]["first_effective_blocks"], kLeastEffective);
  EXPECT_EQ(json["notes"][0]["unsound"], true);
}

TEST(FormatRunsComparisonTest, TheFloorIsSaid) {
  const RecordedRun first = RunOf("a", 30, 10'000'000);
  const RecordedRun second = RunOf("b", 30, 10'150'000);
  RunsComparison comparison = CompareRecorded(first, second);
  EXPECT_EQ(nlohmann::json::parse(RunsComparisonJson(comparison, 0))["step_time"]["floor"], kFloor);
  EXPECT_TRUE(FormatRunsComparison(comparison).starts_with("NO DIFFERENCE FOUND beyond what two runs of one program"));
  comparison = CompareRecorded(first, second, 0.005);
  std::string text = FormatRunsComparison(comparison);
  EXPECT_TRUE(text.starts_with("SLOWER by 1.5 % (99 % interval 1.0 to 2.0 %, in which 0.5 % is what")) << text;
  comparison = CompareRecorded(first, second, 0);
  text = FormatRunsComparison(comparison);
  EXPECT_TRUE(text.starts_with("SLOWER by 1.5 % (99 % interval 1.5 to 1.5 %): a step 10.00 ms -> 10.15 ms")) << text;
  EXPECT_TRUE(Has(text, "(--floor 0)")) << text;
}

// Against a limit, in a verdict for people and one for scripts.
TEST(FormatRunsComparisonTest, WhetherItIsSlowerByMoreThanALimit) {
  const RecordedRun first = RunOf("a", 30, 10'000'000);
  const RecordedRun second = RunOf("b", 30, 11'000'000);
  RunsComparison comparison = CompareRecorded(first, second);
  EXPECT_TRUE(nlohmann::json::parse(RunsComparisonJson(comparison, 0))["fail_if_slower"].is_null());
  EXPECT_FALSE(Has(FormatRunsComparison(comparison), "lower than"));
  const struct {
    double limit;
    const char* verdict;
    const char* says;
  } cases[] = {
      {0.03, "slower", "\nSLOWER BY MORE THAN 3 %: the whole interval lies beyond.\n"},
      {0.125, "not_slower", "\nNot slower by more than 12.5 %: the whole interval lies within.\n"},
      {0.09, "cannot_be_told", "\nWhether it is slower by more than 9 % cannot be told, nor by longer runs: pairs\n"}};
  for (const auto& [limit, verdict, says] : cases) {
    comparison.fail_if_slower = limit;
    const std::string text = FormatRunsComparison(comparison);
    EXPECT_TRUE(Has(text, says)) << text;
    const auto json = nlohmann::json::parse(RunsComparisonJson(comparison, 0))["fail_if_slower"];
    EXPECT_EQ(json["limit"], limit);
    EXPECT_EQ(json["verdict"], verdict);
  }
}

// Ten rows of a table, and one for the others; names from a trace are text, and lines fit.
TEST(FormatRunsComparisonTest, ManyLongNames) {
  RecordedRun first = RunOf("a", 30, 1000);
  RecordedRun second = RunOf("b", 30, 1000);
  report::DeviceReport& a = AddDevice(&first, 400);
  report::DeviceReport& b = AddDevice(&second, 400);
  for (int64_t i = 0; i < 25; ++i) {
    const std::string name = "\x1b[31m" + std::to_string(i) + std::string(200, 'x');
    const uint64_t launches = 123'456'789 + static_cast<uint64_t>(i);
    a.top.push_back({.name = name, .launches = 30 * launches, .time = 30 * (1000 + i)});
    b.top.push_back({.name = name, .launches = 90 * launches, .time = 30 * (2000 + i)});
    AddSite(&first, 10 + i, std::string(100, 'f'), "cudaLaunchKernel", 1, 5);
    AddSite(&second, 10 + i, std::string(100, 'f'), "cudaLaunchKernel", 1, 6 + i);
  }
  const RunsComparison comparison = CompareRecorded(first, second);
  const std::string text = FormatRunsComparison(comparison);
  EXPECT_FALSE(Has(text, "\x1b"));
  std::istringstream lines(text);
  size_t kernels = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
    if (line.starts_with("  \\u001b[31")) ++kernels;
  }
  EXPECT_EQ(kernels, 10U) << text;
  EXPECT_TRUE(Has(text, "\n  15 more ")) << text;
  EXPECT_EQ(nlohmann::json::parse(RunsComparisonJson(comparison, 0))["kernels"].size(), 25U);
}

}  // namespace
}  // namespace slipstream::compare
