// All processes, a row each.

#include "tools/trace/top/list.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/top/top_testing.h"

namespace slipstream::top {
namespace {

class ListTest : public ::testing::Test {
 protected:
  // The time of the day is the machine's.
  static void SetUpTestSuite() { setenv("TZ", "UTC", 1); }
  ListTest() { view_.unix_ns = 66'000'000'000; }
  ProcessView& Add(int32_t pid, int32_t rank = -1) {
    view_.processes.push_back(SampleProcess(pid, rank));
    view_.processes.back().recording = tracer::RecordState::kNone;
    return view_.processes.back();
  }
  ProcessView& AddTraced(int32_t pid, int32_t rank = -1) {
    ProcessView& process = Add(pid, rank);
    process.trace = SampleTrace();
    process.trace->steps->trend_ns = {40'000'000, 80'000'000, 80'000'000, 80'000'000, 130'000'000, 80'000'000};
    process.recording = tracer::RecordState::kOn;
    return process;
  }
  std::string Text(Picture picture) const {
    picture.list = true;
    return PlainText(Draw(view_, picture));
  }

  View view_;
};

constexpr char kHeading[] = "     pid command             step  trend steps/s  GPU  GB/s ran on memory     up\n";

TEST_F(ListTest, ARowForEachProcess) {
  Add(11871);
  AddTraced(345).command = "train.py --epochs 30 --lr 0.1";
  EXPECT_EQ(Text({.rows = 0}), std::string("slipstream top  2 processes  00:01:06\n") + kHeading +
                                   "   11871 python3.12             -              -    -  0.13      -  3.50G  1m05s\n"
                                   "     345 train.py --ep... 80.0 ms _===#=    12.5  87%  0.13   8.0%  3.50G  1m05s\n"
                                   "\n"
                                   "  1 not recorded: slipstream run --record adds steps, GPU and lines\n");
}

TEST_F(ListTest, OneWhoseRecordingIsOffSaysHowToTurnItOn) {
  Add(11871).recording = tracer::RecordState::kTurnedOff;
  view_.uncounted = {5, 6};
  view_.problems = {"/tmp/1-1.counters: written by another version"};
  const std::string text = Text({.rows = 0});
  EXPECT_TRUE(
      text.ends_with("\n\n  1 with recording off: slipstream record 11871 on adds steps, GPU and lines\n"
                     "  2 under slipstream without counters (`slipstream help top`)\n"
                     "  /tmp/1-1.counters: written by another version\n"))
      << text;
}

TEST_F(ListTest, SeveralUsersAndRunsAreNamed) {
  Add(10).user = "ana";
  Add(11).user = "bob";
  view_.processes[0].directory = "/a";
  view_.processes[1].directory = "/b";
  const std::string text = Text({.rows = 0});
  EXPECT_TRUE(
      text.starts_with("slipstream top  2 processes, 2 runs  00:01:06\n"
                       "     pid user command        step  trend steps/s  GPU  GB/s ran on memory     up\n"
                       "      10 ana  python3.12        -"))
      << text;
}

// The trend is what one can do without.
TEST_F(ListTest, RanksOfANarrowWindow) {
  AddTraced(10, 0);
  AddTraced(11, 1);
  view_.processes[0].user = "ana";
  view_.processes[1].user = "bob";
  const std::string text = Text({.columns = 80, .rows = 0});
  EXPECT_NE(text.find("     pid user rank command          step steps/s  GPU  GB/s ran on memory     up\n"
                      "      10 ana     0 python3.12    80.0 ms    12.5  87%"),
            std::string::npos)
      << text;
  const std::string narrow = Text({.columns = 40, .rows = 0});
  EXPECT_NE(narrow.find("     pid user rank command          step\n"
                        "      10 ana     0 python3.12    80.0 ms\n"),
            std::string::npos)
      << narrow;
}

TEST_F(ListTest, AWideWindowHasTheHottestLine) {
  AddTraced(10);
  Add(11);
  const std::string text = Text({.columns = 160, .rows = 0});
  EXPECT_NE(text.find("  1m05s  /data/me/project/train.py:42 (step) 25%\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  3.50G  1m05s\n"), std::string::npos) << text;
  EXPECT_EQ(Text({.columns = 80, .rows = 0}).find("train.py"), std::string::npos);
}

TEST_F(ListTest, OneThatHasEndedIsMarked) {
  Add(10);
  Add(11).alive = false;
  const std::string text = Text({.rows = 0});
  EXPECT_TRUE(text.starts_with("slipstream top  1 process  00:01:06\n")) << text;
  EXPECT_NE(text.find("3.50G  1m05s\n"), std::string::npos) << text;
  EXPECT_NE(text.find("3.50G  ended\n"), std::string::npos) << text;
}

TEST_F(ListTest, WhenNoneIsLeftOthersAreWaitedFor) {
  EXPECT_EQ(Text({.rows = 0}), std::string("slipstream top  0 processes  00:01:06\n") + kHeading +
                                   "  none is left; new ones appear here\n");
}

TEST_F(ListTest, ManyAreScrolledToTheOneThatIsSelected) {
  for (int i = 0; i < 1000; ++i) Add(5000 + i);
  const std::string text = Text({.keys = true, .selected = 500});
  EXPECT_NE(text.find("\n>   5500 python3.12"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\n q quit  j k select  enter detail  s sorted by rank  p pause  h help\n")) << text;
  EXPECT_NE(text.find("  1000 not recorded: "), std::string::npos) << text;
  // 24 rows: the title, the heading, how many more, an empty line and the note below, the keys.
  EXPECT_NE(text.find("\n  982 more\n"), std::string::npos) << text;
}

TEST_F(ListTest, SortedByStepTime) {
  AddTraced(10);
  AddTraced(11).trace->steps->median_ns = 90'000'000;
  const std::string text = Text({.rows = 0, .sort = SortBy::kStep});
  EXPECT_LT(text.find("      11 "), text.find("      10 ")) << text;
}

TEST_F(ListTest, NothingOfAProgramReachesTheTerminalAsItIs) {
  AddTraced(10).command = "\x1b]0;gotcha\x07";
  view_.processes[0].trace->lines[0].file = "evil\x1b[2J\n.py";
  view_.processes[0].user = "\x9b";
  Add(11);
  view_.problems = {"\x1b"};
  const std::string text = Text({.columns = 200, .rows = 0});
  for (const char byte : text) {
    EXPECT_TRUE(byte == '\n' || (static_cast<unsigned char>(byte) >= 0x20 && byte != 0x7f)) << static_cast<int>(byte);
  }
}

// Whatever the size of the window.
TEST_F(ListTest, NoLineIsWiderThanTheWindowAndNoneIsBelowIt) {
  for (int rank = 0; rank < 5; ++rank) {
    ProcessView& process = AddTraced(100 + rank, rank);
    process.user = rank == 0 ? "a-user-with-a-long-name" : "b";
    process.command = "tr\xc3\xa4in.py " + std::string(300, 'x');
  }
  Add(7).alive = false;
  for (size_t columns = 1; columns < 200; ++columns) {
    for (const size_t rows : {1, 2, 3, 7, 10, 24, 60}) {
      for (const bool utf8 : {false, true}) {
        const std::vector<Line> lines =
            Draw(view_, {.columns = columns, .rows = rows, .keys = true, .list = true, .utf8 = utf8});
        ASSERT_NO_FATAL_FAILURE(ExpectToFit(lines, columns, rows));
      }
    }
  }
}

}  // namespace
}  // namespace slipstream::top
