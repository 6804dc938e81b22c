#include "tools/dev/bench/allocation_trace.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace bench {
namespace {

constexpr char kHead[] = "slipstream-allocations 1\n";

AllocationTrace Read(const std::string& lines) {
  std::istringstream in(kHead + lines);
  AllocationTrace trace;
  std::string error;
  EXPECT_TRUE(ReadAllocationTrace(in, "t.alloc", &trace, &error)) << error;
  return trace;
}

std::string ErrorOf(const std::string& text) {
  std::istringstream in(text);
  AllocationTrace trace;
  std::string error;
  EXPECT_FALSE(ReadAllocationTrace(in, "t.alloc", &trace, &error)) << text;
  return error;
}

TEST(AllocationTrace, HasEveryLineWithItsFields) {
  const AllocationTrace trace = Read(
      "# what follows is small\n"
      "m 0 0 0 1 512\n"
      "\n"
      "m 3 1 2 7 4096\n"
      "s 3 1 2\n"
      "f 0 1 5 7\n"
      "d 3 0");  // no newline behind the last one
  ASSERT_EQ(trace.lines.size(), 5);
  ASSERT_EQ(trace.blocks.size(), 2);
  EXPECT_EQ(trace.threads, (std::vector<uint64_t>{0, 3}));
  EXPECT_EQ(trace.devices, (std::vector<uint64_t>{0, 1}));
  ASSERT_EQ(trace.streams.size(), 3);
  EXPECT_EQ(trace.streams[0].number, 0);
  EXPECT_EQ(trace.streams[1].number, 2);
  EXPECT_EQ(trace.streams[1].device, 1);
  EXPECT_EQ(trace.streams[2].number, 5);

  EXPECT_EQ(trace.lines[0].call, TraceCall::kAllocate);
  EXPECT_EQ(trace.lines[1].block, 1);
  EXPECT_EQ(trace.lines[1].thread, 1);
  EXPECT_EQ(trace.lines[2].call, TraceCall::kStreamWait);
  EXPECT_EQ(trace.lines[2].stream, 1);
  EXPECT_EQ(trace.lines[3].call, TraceCall::kFree);
  EXPECT_EQ(trace.lines[3].stream, 2);
  EXPECT_EQ(trace.lines[4].call, TraceCall::kDeviceWait);

  EXPECT_FALSE(trace.blocks[0].freed);
  EXPECT_TRUE(trace.blocks[1].freed);
  EXPECT_TRUE(trace.blocks[1].freed_elsewhere);
  EXPECT_EQ(trace.blocks[1].bytes, 4096);
  EXPECT_EQ(trace.blocks[1].stream, 1);
}

TEST(AllocationTrace, StreamOfTheSameNumberIsAnotherOnAnotherDevice) {
  const AllocationTrace trace = Read("m 0 0 1 1 512\nm 0 1 1 2 512\n");
  ASSERT_EQ(trace.streams.size(), 2);
  EXPECT_NE(trace.blocks[0].stream, trace.blocks[1].stream);
}

TEST(AllocationTrace, PeakIsPerDeviceAndSaysItsLine) {
  const std::vector<LivePeak> peaks =
      LivePeaks(Read("m 0 0 1 1 100\nm 0 0 1 2 50\nf 0 0 1 1\nm 0 1 1 3 7\nm 0 0 1 4 90\nm 0 0 1 5 20\nf 0 0 1 5\n"));
  ASSERT_EQ(peaks.size(), 2);
  EXPECT_EQ(peaks[0].bytes, 160);
  EXPECT_EQ(peaks[0].line, 5);
  EXPECT_EQ(peaks[1].bytes, 7);
  EXPECT_EQ(peaks[1].line, 3);
}

struct Malformed {
  const char* name;
  const char* lines;  // behind the first
  const char* error;  // what it begins with
};

class Refused : public testing::TestWithParam<Malformed> {};

TEST_P(Refused, WithFileLineAndColumn) {
  const std::string error = ErrorOf(std::string(kHead) + GetParam().lines);
  EXPECT_EQ(error.rfind(GetParam().error, 0), 0) << error;
}

INSTANTIATE_TEST_SUITE_P(
    AllocationTrace, Refused,
    testing::Values(
        Malformed{"Letter", "m 0 0 0 1 512\nx 0 0\n", "t.alloc:3:1: a line begins with \"x\"; only m, f, s, d and #"},
        Malformed{"Indented", " m 0 0 0 1 512\n", "t.alloc:2:1: a line begins with \" \""},
        Malformed{"LetterRunsOn", "mm 0 0 0 1 512\n", "t.alloc:2:2: a space belongs behind the letter"},
        Malformed{"AllocatedTwice", "m 0 0 0 9 512\n\nm 0 0 1 9 8\n",
                  "t.alloc:4:9: block 9 was allocated in line 2; an ID stands for one allocation"},
        Malformed{"IdUsedAgain", "m 0 0 0 9 512\nf 0 0 0 9\nm 0 0 1 9 8\n",
                  "t.alloc:4:9: block 9 was allocated in line 2"},
        Malformed{"FreedTwice", "m 0 0 0 1 512\nf 0 0 0 1\nf 0 0 11 1\n",
                  "t.alloc:4:10: block 1 is freed a second time; it was allocated in line 2"},
        Malformed{"FreedUnknown", "f 0 0 0 4\n",
                  "t.alloc:2:9: block 4 is freed and no line before this one allocates it"},
        Malformed{"FreedEarly", "f 0 0 0 4\nm 0 0 0 4 1\n", "t.alloc:2:9: block 4 is freed"},
        Malformed{"NoNumber", "m 0 zero 0 1 512\n", "t.alloc:2:5: DEVICE is \"zero\", which is no number"},
        Malformed{"Negative", "m 0 0 -1 1 512\n", "t.alloc:2:7: STREAM is \"-1\", which is no number"},
        Malformed{"Fraction", "m 0 0 0 1 5.5\n", "t.alloc:2:11: BYTES is \"5.5\", which is no number"},
        Malformed{"Hexadecimal", "m 0 0 0 0x1 5\n", "t.alloc:2:9: ID is \"0x1\", which is no number"},
        Malformed{"TwoSpaces", "m 0 0  0 1 512\n", "t.alloc:2:7: STREAM is \"\", which is no number"},
        Malformed{"CarriageReturn", "m 0 0 0 1 512\r\n", "t.alloc:2:11: BYTES is \"512?\", which is no number"},
        Malformed{"ControlCharacter", "s 0 0 \x1b[31m\n", "t.alloc:2:7: STREAM is \"?[31m\", which is no number"},
        Malformed{"IdOfZero", "m 0 0 0 0 512\n", "t.alloc:2:9: ID is 0; it is 1 or more"},
        Malformed{"TooLarge", "m 0 0 0 1 99999999999999999999\n", "t.alloc:2:11: BYTES is more than 17592186044416"},
        Malformed{"MoreThanADevice", "m 0 0 0 1 17592186044417\n", "t.alloc:2:11: BYTES is more than"},
        Malformed{"NoSuchDevice", "d 0 5000\n", "t.alloc:2:5: DEVICE is more than 1024"},
        Malformed{"FieldMissing", "m 0 0 0 1\n",
                  "t.alloc:2:10: BYTES is missing; the letter needs THREAD DEVICE STREAM ID BYTES"},
        Malformed{"AllMissing", "d\n", "t.alloc:2:2: THREAD is missing; the letter needs THREAD DEVICE"},
        Malformed{"MoreFields", "m 0 0 0 1 512 7\n", "t.alloc:2:14: more than the letter needs"},
        Malformed{"SpaceAtTheEnd", "d 0 0 \n", "t.alloc:2:6: more than the letter needs"},
        Malformed{"NoAllocation", "d 0 0\n", "t.alloc:1:1: no allocation is in it"}),
    [](const auto& malformed) { return std::string(malformed.param.name); });

TEST(AllocationTrace, AnotherFirstLineIsRefused) {
  for (const char* const text :
       {"", "\n", "m 0 0 0 1 512\n", "slipstream-allocations 2\nm 0 0 0 1 512\n",
        "slipstream-allocations 1 \nm 0 0 0 1 512\n", "# a comment\nslipstream-allocations 1\n"}) {
    EXPECT_EQ(
        ErrorOf(text).rfind("t.alloc:1:1: the first line is not \"slipstream-allocations 1\"; `slipstream export", 0),
        0)
        << text;
  }
}

TEST(AllocationTrace, ReadingStartsAfresh) {
  AllocationTrace trace = Read("m 0 0 0 1 512\n");
  std::istringstream in(std::string(kHead) + "m 1 1 1 5 8\n");
  std::string error;
  ASSERT_TRUE(ReadAllocationTrace(in, "t.alloc", &trace, &error)) << error;
  EXPECT_EQ(trace.blocks.size(), 1);
  EXPECT_EQ(trace.threads, (std::vector<uint64_t>{1}));
}

}  // namespace
}  // namespace bench
