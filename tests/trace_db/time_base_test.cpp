// One time for all processes: hosts by their clocks, and the numbers of processes that come from several.

#include "tools/trace/db/time_base.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "tests/trace_db/trace_db_testing.h"
#include "tools/trace/db/global_id.h"

namespace slipstream::trace_db {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kYear2026 = 1'780'000'000 * kSecond;

struct Reading {
  uint64_t monotonic = 0;
  uint64_t wall = 0;
  uint64_t took = 0;
};

SpoolSurvey Process(const std::string& host, uint64_t first_ns, const std::vector<Reading>& readings,
                    uint64_t start_unix_ns = 0) {
  SpoolSurvey survey;
  survey.start_unix_ns = start_unix_ns;
  survey.facts = {{tracer::kFactHost, host}};
  survey.first_ns = first_ns;
  for (const Reading& reading : readings) {
    const uint64_t before = reading.monotonic - reading.took / 2;
    survey.clocks.Add(tracer::ClockRecord(before, before + reading.took, reading.wall, 0));
  }
  return survey;
}

TEST(TimeBaseTest, ProcessesOfOneHostShareAClock) {
  // The second one's reading is 3 us off, and its times are not: both stamp with the same clock.
  const TimeBase times({Process("a", 5000, {{10'000, kYear2026, 100}}),
                        Process("a", 7000, {{20'000, kYear2026 + 10'000 + 3000, 9000}})});
  ASSERT_EQ(times.hosts().size(), 1U);
  EXPECT_EQ(times.HostOf(0), times.HostOf(1));
  EXPECT_EQ(times.At(0, 5000), 0);
  EXPECT_EQ(times.At(0, 7000), 2000);
  EXPECT_EQ(times.zero_unix_ns(), kYear2026 - 5000);
  EXPECT_EQ(times.hosts()[0].clocks.count, 2U);
  EXPECT_EQ(times.hosts()[0].clocks.error, 50U);
  EXPECT_EQ(times.hosts()[0].clocks.highest - times.hosts()[0].clocks.lowest, 3000);
}

TEST(TimeBaseTest, HostsAreAlignedByWallTime) {
  // Booted years apart; what happens at 10,000 on one is 5 s before 77,000 on the other.
  const TimeBase times(
      {Process("b", 77'000, {{77'000, kYear2026 + 5 * kSecond, 40}}), Process("a", 10'000, {{10'000, kYear2026, 20}})});
  ASSERT_EQ(times.hosts().size(), 2U);
  EXPECT_EQ(times.hosts()[times.HostOf(0)].name, "b");
  EXPECT_EQ(times.hosts()[times.HostOf(1)].name, "a");
  EXPECT_EQ(times.At(times.HostOf(1), 10'000), 0);
  EXPECT_EQ(times.At(times.HostOf(0), 77'000), static_cast<int64_t>(5 * kSecond));
  EXPECT_EQ(times.zero_unix_ns(), kYear2026);
}

TEST(TimeBaseTest, TheShortestReadingIsTaken) {
  const TimeBase times(
      {Process("a", 0, {{1000, kYear2026 + 900, 500}, {2000, kYear2026 + 2000, 20}, {3000, kYear2026, 90}})});
  EXPECT_EQ(times.hosts()[0].clocks.difference, static_cast<int64_t>(kYear2026));
  EXPECT_EQ(times.hosts()[0].clocks.error, 10U);
}

TEST(TimeBaseTest, TwoMachinesOfOneName) {
  const TimeBase times({Process("localhost", 1000, {{1000, kYear2026, 10}}),
                        Process("localhost", 1000, {{1000, kYear2026 + 100 * kSecond, 10}}),
                        Process("localhost", 2000, {{2000, kYear2026 + 1000, 10}})});
  ASSERT_EQ(times.hosts().size(), 2U);
  EXPECT_EQ(times.HostOf(0), times.HostOf(2));
  EXPECT_NE(times.HostOf(0), times.HostOf(1));
  EXPECT_EQ(times.At(times.HostOf(1), 1000), static_cast<int64_t>(100 * kSecond));
  EXPECT_EQ(times.At(times.HostOf(2), 2000), 1000);
}

SpoolSurvey Booted(SpoolSurvey process, const std::string& boot, const std::string& time = "time:[1]") {
  process.facts[tracer::kFactBootId] = boot;
  process.facts[tracer::kFactTimeNamespace] = time;
  return process;
}

TEST(TimeBaseTest, OneBootIsOneHostHoweverItsClockWasSet) {
  // By an hour, between two processes in containers of their own names.
  const TimeBase times({Booted(Process("web", 1000, {{1000, kYear2026, 10}}), "b1"),
                        Booted(Process("job", 2000, {{2000, kYear2026 + 1000 + 3600 * kSecond, 12}}), "b1")});
  ASSERT_EQ(times.hosts().size(), 1U);
  EXPECT_EQ(times.hosts()[0].name, "job, web");
  EXPECT_EQ(times.At(0, 2000), 1000);
}

TEST(TimeBaseTest, TwoBootsAreTwoHostsWhateverTheyAreCalled) {
  // Both began within the second, and so did what has a clock of its own.
  const TimeBase times({Booted(Process("localhost", 1000, {{1000, kYear2026, 10}}), "b1"),
                        Booted(Process("localhost", 1000, {{1000, kYear2026 + kSecond / 2, 10}}), "b2"),
                        Booted(Process("localhost", 1000, {{1000, kYear2026 + kSecond / 4, 10}}), "b2", "time:[2]"),
                        Process("localhost", 1000, {{1000, kYear2026, 10}})});
  EXPECT_EQ(times.hosts().size(), 4U);
  EXPECT_EQ((std::set<size_t>{times.HostOf(0), times.HostOf(1), times.HostOf(2), times.HostOf(3)}).size(), 4U);
  EXPECT_EQ(times.At(times.HostOf(1), 1000), static_cast<int64_t>(kSecond / 2));
}

TEST(TimeBaseTest, AWallClockThatIsSetSplitsNoHost) {
  // By a second while the first one ran; the second one only ever saw it afterwards.
  const TimeBase times({Process("a", 0, {{1000, kYear2026, 10}, {2000, kYear2026 + 1000 + kSecond, 12}}),
                        Process("a", 3000, {{3000, kYear2026 + 2000 + kSecond, 12}})});
  ASSERT_EQ(times.hosts().size(), 1U);
  EXPECT_EQ(times.At(0, 3000), 3000);
  EXPECT_EQ(times.hosts()[0].clocks.highest - times.hosts()[0].clocks.lowest, static_cast<int64_t>(kSecond));
}

TEST(TimeBaseTest, WithoutAReading) {
  // With another process of that host its clock is known; without, the beginning of its recording has to do.
  const TimeBase times(
      {Process("a", 500, {}, 1), Process("a", 1000, {{1000, kYear2026, 10}}), Process("b", 900, {}, kYear2026 + 40)});
  ASSERT_EQ(times.hosts().size(), 2U);
  EXPECT_EQ(times.At(times.HostOf(0), 500), 0);
  EXPECT_EQ(times.At(times.HostOf(2), 900), 540);
  EXPECT_EQ(times.hosts()[times.HostOf(2)].clocks.count, 0U);
}

TEST(TimeBaseTest, NoNumberIsTooStrange) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  SpoolSurvey backwards = Process("a", kMost, {});
  backwards.clocks.Add(tracer::ClockRecord(10, 5, 0, 0));
  EXPECT_EQ(backwards.clocks.count, 0U);
  const TimeBase times({Process("a", kMost, {{kMost, 0, 0}}), Process("a", 0, {{0, kMost, 0}}), backwards,
                        Process("a", 1, {{0, uint64_t{1} << 63, 0}})});
  for (size_t i = 0; i < 4; ++i) {
    times.At(times.HostOf(i), 0);
    times.At(times.HostOf(i), kMost);
  }
  const TimeBase none({});
  EXPECT_TRUE(none.hosts().empty());
}

TEST(GlobalPidsTest, NoTwoProcessesShareOne) {
  GlobalPids pids;
  std::set<int64_t> given;
  // One number again and again on one host, and on more hosts than have a number of their own.
  for (int i = 0; i < 300; ++i) given.insert(pids.Give(3, 4711));
  for (uint64_t host = 0; host < 300; ++host) given.insert(pids.Give(host, 4711));
  EXPECT_EQ(given.size(), 600U);
  for (const int64_t id : given) {
    EXPECT_GE(id, 0);
    EXPECT_EQ((id >> 24) & 0xFFFFFF, 4711);
    EXPECT_EQ(id & 0xFFFFFF, 0);
    EXPECT_EQ((GlobalTid(id, 815) >> 24) & 0xFFFFFF, 4711);
    EXPECT_EQ(GlobalTid(id, 815) & 0xFFFFFF, 815);
  }
}

TEST(GlobalPidsTest, MoreProcessesOfOneNumberThanThereArePlaces) {
  GlobalPids pids;
  for (int i = 0; i < (1 << 15) + 2; ++i) EXPECT_EQ((pids.Give(0, 7) >> 24) & 0xFFFFFF, 7);
}

using HostsTest = TraceDbTest;

TEST_F(HostsTest, AreInTheDatabaseWithWhatTheirAlignmentIsWorth) {
  {
    HandSpool one(run_, "one.spool");
    one.Facts({{"pid", "10"}, {"host", "node1"}, {"rank", "0"}});
    one.Clock(995, 1005, kYear2026);
    one.Thread(1, 100, "main");
    one.Records(1, {CallAt(1000, 1010)});
    one.Clock(1995, 2005, kYear2026 + 1000 + 250);
    one.End();
    HandSpool two(run_, "two.spool");
    two.Facts({{"pid", "10"}, {"host", "node2"}, {"rank", "1"}});
    two.Clock(500'000, 500'200, kYear2026 + 100);
    two.Thread(1, 100, "main");
    two.Records(1, {CallAt(500'100, 500'110)});
    two.End();
  }
  const BuildResult result = BuildWell();
  EXPECT_EQ(result.hosts.size(), 2U);
  EXPECT_EQ(Query("SELECT h.name, h.clockReadings, h.readingErrorNs, h.wallMovedNs, r.start, p.rank "
                  "FROM SLIPSTREAM_PROCESSES p JOIN SLIPSTREAM_HOSTS h USING (hostId) "
                  "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON (r.globalTid & ~0xFFFFFF) = p.globalPid ORDER BY rank"),
            (Rows{{"node1", "2", "5", "250", "5", "0"}, {"node2", "1", "100", "0", "105", "1"}}));
  EXPECT_EQ(One("SELECT utcTime FROM TARGET_INFO_SESSION_START_TIME"), "2026-05-28T20:26:39");
  EXPECT_EQ(One("SELECT group_concat(value) FROM TARGET_INFO_SYSTEM_ENV"), "node1,node2");
}

}  // namespace
}  // namespace slipstream::trace_db
