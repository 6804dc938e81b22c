// What is on the screen, line by line.

#include "tools/trace/top/lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/top/top_testing.h"

namespace slipstream::top {
namespace {

class LinesTest : public ::testing::Test {
 protected:
  // The time of the day is the machine's.
  static void SetUpTestSuite() { setenv("TZ", "UTC", 1); }
  LinesTest() {
    view_.unix_ns = 66'000'000'000;
    view_.directories = {"/dev/shm/slipstream-run-abc"};
  }
  std::string Text(const Picture& picture) const { return PlainText(Draw(view_, picture)); }

  View view_;
};

TEST_F(LinesTest, WithoutATraceItSaysWhatIsNotKnown) {
  view_.processes = {SampleProcess(11871)};
  EXPECT_EQ(Text({.keys = true}),
            "slipstream top  python3.12 (pid 11871)  up 1 min 05 s  00:01:06\n"
            "  steps    not recorded; start with: slipstream run --record -- COMMAND\n"
            "  GPU busy not recorded; --record does that\n"
            "  CUDA     50.0 % of the time in calls   10.0 % waiting   1,000 calls/s\n"
            "  ran on   25.0 waits skipped/s  1.00 settled/s (1.0 %)  (time: no GPU records)\n"
            "  memory   3.00 GiB live   512 MiB idle   device 0\n"
            "\n"
            "COPIES                                                      bytes/s     copies/s\n"
            "  host to device                                            128 MiB         20.0\n"
            "  device to host                                               40 B         10.0\n"
            "\n"
            "FUNCTIONS                                       a call  of the time      calls/s\n"
            "  cudaLaunchKernel                              368 us       35.0 %          950\n"
            "  cudaStreamSynchronize                        5.00 ms       10.0 %         20.0\n"
            "  cudaMemcpyAsync                              1.67 ms        5.0 %         30.0\n"
            "\n"
            "DECISIONS                                                   bytes/s      times/s\n"
            "  wait skipped                                                    -         25.0\n"
            "  copy promoted: large                                      128 MiB         20.0\n"
            "  wait settled before a blocking copy                             -         1.00\n"
            "  someone.else                                                    -         0.50\n"
            "\n"
            "\n"
            " q quit  p pause  h help\n");
}

TEST_F(LinesTest, WithATraceItShowsStepsLinesAndTheDevice) {
  view_.processes = {SampleProcess(11871, 0)};
  view_.processes[0].trace = SampleTrace();
  const std::string text = Text({.rows = 20});
  EXPECT_TRUE(
      text.starts_with("slipstream top  python3.12 (pid 11871, rank 0)  up 1 min 05 s  00:01:06\n"
                       "  steps    80.0 ms median  84.0 ms p95  81.0 ms last  12.5/s  (last 64)\n"
                       "           each from /data/me/project/train.py:42\n"
                       "  GPU busy 87.3 % device 0\n"
                       "  CUDA     50.0 % of the time in calls   10.0 % waiting   1,000 calls/s\n"
                       "  ran on   8.0 % of the time  25.0 waits skipped/s  1.00 settled/s (1.0 %)\n"
                       "  memory   3.00 GiB live   512 MiB idle   device 0\n"
                       "\n"
                       "COPIES                                                      bytes/s     copies/s\n"
                       "  host to device                                            128 MiB         20.0\n"
                       "  device to host                                               40 B         10.0\n"
                       "\n"
                       "HOT LINES, 10.0 s                               a step  of the time      calls/s\n"
                       "  /data/me/project/train.py:42 (step)          20.0 ms       25.0 %          125\n"
                       "  no line known                                8.00 us        0.0 %         1.00\n"))
      << text;
}

TEST_F(LinesTest, ATraceThatKnowsNothingYetSaysSo) {
  view_.processes = {SampleProcess(7)};
  view_.processes[0].trace = TraceView{};
  view_.processes[0].trace->read = 0.25;
  view_.processes[0].trace->dropped = 1234;
  view_.processes[0].trace->damaged = true;
  view_.processes[0].counters.reset();
  view_.processes[0].no_counters = "not known yet: one reading so far";
  view_.processes[0].memory.clear();
  EXPECT_EQ(Text({.rows = 0}),
            "slipstream top  python3.12 (pid 7)  up 1 min 05 s  00:01:06\n"
            "  trace    reading what was recorded so far: 25.0 %\n"
            "  steps    none found yet: no line of the program comes again and again\n"
            "  GPU busy not recorded: tracer.device is off, or CUPTI was not there\n"
            "  CUDA     not known yet: one reading so far\n"
            "  ran on   not known\n"
            "  memory   no pool of slipstream's has said anything yet\n"
            "  trace    1,234 records were dropped so far: lines and steps lack them\n"
            "  trace    a part of it is damaged: lines and steps lack it\n");
}

TEST_F(LinesTest, AProgramWithoutPythonHasNoLines) {
  view_.processes = {SampleProcess(7)};
  view_.processes[0].trace = SampleTrace();
  view_.processes[0].trace->steps.reset();
  view_.processes[0].trace->lines.erase(view_.processes[0].trace->lines.begin());
  const std::string text = Text({.rows = 0});
  EXPECT_NE(text.find("steps    none found: calls come from no line of Python that is known\n"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("HOT LINES"), std::string::npos) << text;

  view_.processes[0].trace->no_lines = "none, this is a free-threaded CPython 3.14.0 (not supported)";
  const std::string why = Text({.columns = 140, .rows = 0});
  EXPECT_NE(
      why.find("steps    none found; Python lines: none, this is a free-threaded CPython 3.14.0 (not supported)\n"),
      std::string::npos)
      << why;
}

TEST_F(LinesTest, RanksSideBySideWithTheSlowestMarked) {
  for (int rank = 0; rank < 3; ++rank) {
    view_.processes.push_back(SampleProcess(100 + rank, rank));
    view_.processes.back().trace = SampleTrace(80'000'000 + static_cast<uint64_t>(rank % 2) * 10'000'000);
  }
  view_.processes[2].alive = false;
  view_.processes[2].counters.reset();
  view_.processes[1].slowest = true;
  const std::string text = Text({.keys = true, .selected = 1});
  EXPECT_TRUE(
      text.starts_with("slipstream top  3 processes  up 1 min 05 s  00:01:06\n"
                       "    rank     pid      step     GPU in calls  waiting  to device/s calls/s\n"
                       "     0      100   80.0 ms  87.3 %   50.0 %   10.0 %      128 MiB   1,000\n"
                       ">    1      101   90.0 ms  87.3 %   50.0 %   10.0 %      128 MiB   1,000 slowest\n"
                       "     2      102   80.0 ms  87.3 %        -        -            -       - ended\n"
                       "\n"
                       "python3.12 (pid 101, rank 1)\n"
                       "  steps    90.0 ms median"))
      << text;
  EXPECT_TRUE(text.ends_with("\n q quit  p pause  j k select  enter one  s sorted by rank  h help\n")) << text;
  const std::string sorted = Text({.keys = true, .selected = 0, .sort = SortBy::kStep});
  EXPECT_NE(sorted.find(">    1      101"), std::string::npos) << sorted;
  const std::string one = Text({.keys = true, .selected = 1, .only_selected = true});
  EXPECT_TRUE(one.starts_with("slipstream top  python3.12 (pid 101, rank 1)")) << one;
  EXPECT_EQ(one.find("to device/s"), std::string::npos) << one;
}

// A thousand ranks leave room for the one that is selected.
TEST_F(LinesTest, ManyRanksAreScrolled) {
  for (int rank = 0; rank < 1000; ++rank) view_.processes.push_back(SampleProcess(5000 + rank, rank));
  const std::string text = Text({.keys = true, .selected = 500});
  EXPECT_NE(text.find("\n>  500     5500"), std::string::npos) << text;
  EXPECT_NE(text.find("python3.12 (pid 5500, rank 500)"), std::string::npos) << text;
  EXPECT_NE(text.find("    992 more\n"), std::string::npos) << text;
}

TEST_F(LinesTest, TheEndStaysOnTheScreen) {
  view_.processes = {SampleProcess(7)};
  view_.processes[0].alive = false;
  view_.ended = true;
  EXPECT_TRUE(Text({}).starts_with("slipstream top  python3.12 (pid 7)  00:01:06  THE RUN HAS ENDED\n"));
  view_.ended = false;
  EXPECT_TRUE(Text({.paused = true}).starts_with("slipstream top  python3.12 (pid 7)  00:01:06  PAUSED  ENDED\n"));
}

TEST_F(LinesTest, AProgramThatStandsStillIsSeen) {
  view_.processes = {SampleProcess(7)};
  view_.processes[0].trace = SampleTrace();
  view_.processes[0].trace->steps->since_last_ns = 75'000'000'000;
  EXPECT_NE(Text({}).find("  the last one ended 1 min 15 s ago  each from "), std::string::npos) << Text({});
}

TEST_F(LinesTest, NothingIsKnownBeforeTheFirstCall) {
  EXPECT_EQ(Text({.rows = 0}), "slipstream top  00:01:06\n  no CUDA call yet: waiting for the first\n");
  view_.problems = {"/tmp/1-1.counters: written by another version"};
  EXPECT_EQ(Text({.rows = 0}),
            "slipstream top  00:01:06\n  /tmp/1-1.counters: written by another version\n"
            "  no CUDA call yet: waiting for the first\n");
}

// Whatever a program calls itself and its files.
TEST_F(LinesTest, NothingOfAProgramReachesTheTerminalAsItIs) {
  view_.processes = {SampleProcess(7)};
  view_.processes[0].executable = "\x1b]0;gotcha\x07";
  view_.processes[0].trace = SampleTrace();
  view_.processes[0].trace->lines[0].file = "evil\x1b[2J\n.py";
  view_.processes[0].trace->lines[0].function = "\xff\x9b";
  view_.processes[0].trace->steps->how = "each from \r\x1b.py";
  view_.processes[0].counters->decisions[3].name = "\x1b[1m";
  view_.processes[0].counters->functions[0].name = "\x08\x08";
  view_.processes[0].counters->copies[0].direction = "\x7f";
  view_.problems = {"\x1b"};
  const std::string text = Text({.rows = 0});
  EXPECT_EQ(std::count_if(
                text.begin(), text.end(),
                [](char byte) { return byte != '\n' && (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f); }),
            0)
      << text;
}

// Whatever the size of the window.
TEST_F(LinesTest, NoLineIsWiderThanTheWindowAndNoneIsBelowIt) {
  for (int rank = 0; rank < 5; ++rank) {
    view_.processes.push_back(SampleProcess(100 + rank, rank));
    view_.processes.back().trace = SampleTrace();
    view_.processes.back().trace->lines[0].file =
        "/d\xc3\xa4ta/\xe8\xa8\x93\xe7\xb7\xb4/" + std::string(200, 'x') + ".py";
  }
  for (size_t columns = 1; columns < 140; ++columns) {
    for (const size_t rows : {1, 2, 3, 7, 10, 24, 60}) {
      for (const bool help : {false, true}) {
        const std::vector<Line> lines = Draw(view_, {.columns = columns, .rows = rows, .keys = true, .help = help});
        ASSERT_NO_FATAL_FAILURE(ExpectToFit(lines, columns, rows));
      }
    }
  }
}

}  // namespace
}  // namespace slipstream::top
