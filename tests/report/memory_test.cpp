// What a report says of memory beside who had it: what else was in use, fragmentation, and memory over time.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/report/report_testing.h"
#include "tools/text/text.h"
#include "tools/trace/report/memory_text.h"
#include "tools/trace/report/text.h"
#include "tracer/spool/block_record.h"

namespace slipstream::report {
namespace {

using text::HumanBytes;

enum Allocator : uint16_t { kGrown = 10, kReused, kParked, kReclaimed, kRetried, kRefused };

// One line, whatever it was wrapped to.
std::string Flat(const std::string& text) {
  std::string flat;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\n';
    if (!is_space) flat += c;
    if (is_space && !flat.empty() && flat.back() != ' ') flat += ' ';
  }
  return flat;
}

class MemoryReportTest : public ReportTest {
 protected:
  // Allocated: there from `at` on, freed: until then.
  static tracer::TraceRecord Block(tracer::MemoryUse use, uint64_t at, uint64_t address, uint64_t bytes,
                                   uint32_t site = kNoSite) {
    tracer::BlockRecord block;
    block.start_ns = use == kAllocated ? at - 5 : at;
    block.end_ns = use == kAllocated ? at : at + 5;
    block.use = use;
    block.address = address;
    block.bytes = bytes;
    block.device = use == kAllocated ? int16_t{0} : int16_t{-1};
    block.site = site;
    block.hook = kMallocHook;
    return RecordOf(block);
  }

  static tracer::TraceRecord Decision(uint64_t at, uint16_t decision, uint64_t bytes) {
    return RecordOf(tracer::DecisionMade{.at_ns = at, .decision = decision, .bytes = bytes});
  }

  void Spool(const std::vector<tracer::TraceRecord>& records, const std::vector<tracer::TraceRecord>& readings) {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Name(tracer::NameTable::kDecisions, kGrown, "allocator.grown");
    spool.Name(tracer::NameTable::kDecisions, kReused, "allocator.reused");
    spool.Name(tracer::NameTable::kDecisions, kParked, "allocator.parked");
    spool.Name(tracer::NameTable::kDecisions, kReclaimed, "allocator.reclaimed");
    spool.Name(tracer::NameTable::kDecisions, kRetried, "allocator.retried");
    spool.Name(tracer::NameTable::kDecisions, kRefused, "allocator.passed.memory");
    spool.Pass(kBegin);
    spool.Records(1, records);
    if (!readings.empty()) spool.Records(0, readings);
    spool.End();
  }

  // 500 bytes at the peak, at kBegin + 70; 300 from kBegin + 30 to kBegin + 40.
  void Blocks(const std::vector<tracer::TraceRecord>& readings) {
    Spool({Block(kAllocated, kBegin + 10, 0x1000, 100), Block(kAllocated, kBegin + 30, 0x2000, 200),
           Block(kFreed, kBegin + 40, 0x1000, 0), Block(kAllocated, kBegin + 70, 0x3000, 300),
           Block(kFreed, kBegin + 85, 0x2000, 0)},
          readings);
    BuildWell();
  }
};

TEST_F(MemoryReportTest, WhatIsInUseAddsUpToWhatTheDriverSaid) {
  Blocks({tracer::MemoryRecord(kBegin + 30, {.live_bytes = 300, .idle_bytes = 50, .device_used = 1000}),
          tracer::MemoryRecord(kBegin + 70, {.live_bytes = 500, .idle_bytes = 40, .device_used = 5000}),
          tracer::MemoryRecord(kBegin + 90, {.live_bytes = 300, .idle_bytes = 9, .device_used = 9})});
  const Report report = Make();
  const HeldReport& held = report.processes.at(0).held.at(0);
  EXPECT_EQ(held.peak, 500);
  ASSERT_TRUE(held.use);
  EXPECT_EQ(held.use->time, held.peak_time);
  EXPECT_EQ(held.use->used, 5000);
  EXPECT_EQ(held.use->blocks, 500) << "the one of the same moment too";
  EXPECT_EQ(held.use->idle, 40);
  EXPECT_EQ(held.use->rest, 5000 - 500 - 40);
  const std::string flat = Flat(FormatReport(report));
  EXPECT_NE(flat.find("in use of the device, as the driver said then: " + HumanBytes(5000) + " = " + HumanBytes(500) +
                      " in the program's blocks + " + HumanBytes(40) + " idle in the pool + " + HumanBytes(4460) +
                      " the rest"),
            std::string::npos)
      << flat;
}

TEST_F(MemoryReportTest, ItIsWhatWasThereAtTheReading) {
  Blocks({tracer::MemoryRecord(kBegin + 35, {.live_bytes = 300, .idle_bytes = 50, .device_used = 1000}),
          tracer::MemoryRecord(kBegin + 65, {.live_bytes = 200, .idle_bytes = 150})});
  const Report report = Make();
  const HeldReport& held = report.processes.at(0).held.at(0);
  ASSERT_TRUE(held.use);
  EXPECT_EQ(held.use->time, held.peak_time - 35);
  EXPECT_EQ(held.use->blocks, 300);
  EXPECT_EQ(held.use->rest, 1000 - 300 - 50);
  ASSERT_TRUE(held.pool);
  EXPECT_EQ(held.pool->idle, 150) << "which needs no answer of the driver's";
}

TEST_F(MemoryReportTest, MoreThanTheDriverSaidIsNotExplained) {
  Blocks({tracer::MemoryRecord(kBegin + 70, {.live_bytes = 500, .idle_bytes = 40, .device_used = 400})});
  const Report report = Make();
  EXPECT_EQ(report.processes.at(0).held.at(0).use.value().rest, -140);
  EXPECT_NE(Flat(FormatReport(report)).find("so what else was in use is not known"), std::string::npos);
}

TEST_F(MemoryReportTest, NobodyWasAsked) {
  Blocks({tracer::MemoryRecord(kBegin + 70, {.live_bytes = 500, .idle_bytes = 40}),
          tracer::MemoryRecord(kBegin + 71, {.live_bytes = 500, .idle_bytes = 40, .device_used = 900})});
  const Report report = Make();
  EXPECT_FALSE(report.processes.at(0).held.at(0).use);
  EXPECT_EQ(FormatReport(report).find("in use of the device"), std::string::npos);
}

TEST_F(MemoryReportTest, AllocationsThatIdleMemoryWasEnoughForAndDidNotFit) {
  const uint64_t at = kBegin;
  Spool(
      {Decision(at - 5, kGrown, 10),     // nobody knows what was idle
       Decision(at + 5, kGrown, 400),    // of 1000
       Decision(at + 10, kReused, 700),  //
       Decision(at + 15, kGrown, 400),   // of 300
       Decision(at + 20, kParked, 200),  //
       Decision(at + 25, kGrown, 500),   // of 500
       Decision(at + 30, kReclaimed, 300), Decision(at + 35, kReclaimed, 200), Decision(at + 40, kRetried, 800),
       Decision(at + 45, kRefused, 900),
       // Of 8 MiB, 3 MiB take 4.
       Decision(at + 55, kReused, 3 * kMiB), Decision(at + 60, kGrown, 5 * kMiB), Decision(at + 65, kGrown, 4 * kMiB)},
      {tracer::MemoryRecord(at, {.live_bytes = 1, .idle_bytes = 1000, .largest_idle = 2048}),
       tracer::MemoryRecord(at + 50, {.live_bytes = 8 * kMiB, .idle_bytes = 8 * kMiB, .largest_idle = 3 * kMiB})});
  BuildWell();
  const Report report = Make();
  const ProcessReport& process = report.processes.at(0);
  ASSERT_EQ(process.memory.size(), 1U);
  EXPECT_EQ(process.memory[0].peak_largest_idle, 3 * kMiB);
  ASSERT_TRUE(process.memory[0].fragmentation);
  const Fragmentation& found = *process.memory[0].fragmentation;
  EXPECT_EQ(found.grown, 6U);
  EXPECT_EQ(found.grown_bytes, 10 + 400 + 400 + 500 + 9 * kMiB);
  EXPECT_EQ(found.not_fitting, 3U);
  EXPECT_EQ(found.not_fitting_bytes, 400 + 500 + 4 * kMiB);
  EXPECT_EQ(found.tried_again, 1U);
  EXPECT_EQ(found.refused, 1U);
  ASSERT_EQ(found.shortages.size(), 2U);
  EXPECT_EQ(found.shortages[0].decision, "allocator.retried");
  EXPECT_EQ(found.shortages[0].bytes, 800);
  EXPECT_EQ(found.shortages[0].idle, 500) << "before it was given back";
  EXPECT_EQ(found.shortages[0].largest_idle, 2048);
  EXPECT_EQ(found.shortages[1].idle, 0);
  const std::string flat = Flat(FormatReport(report));
  for (const std::string& part :
       {"fragmentation: 50.0 % of the peak of both was idle, its largest block " + HumanBytes(3 * kMiB),
        "; 3 allocations of " + HumanBytes(900 + 4 * kMiB) + " went to the driver while enough was idle",
        "of 6 allocations of " + HumanBytes(1310 + 9 * kMiB) + " that it served",
        std::string("1 allocation tried again after idle memory was given back, 1 allocation left to the program's"),
        "of 800 B, while 500 B was idle (the largest block at the last reading: " + HumanBytes(2048) + ")"}) {
    EXPECT_NE(flat.find(part), std::string::npos) << part << "\n" << flat;
  }
}

TEST_F(MemoryReportTest, OfSeveralPoolsNobodyKnowsWhichAnAllocationIsOf) {
  Spool({Decision(kBegin + 5, kGrown, 400)}, {tracer::MemoryRecord(kBegin, {.device = 0, .idle_bytes = 1000}),
                                              tracer::MemoryRecord(kBegin, {.device = 1, .idle_bytes = 1000})});
  BuildWell();
  const Report report = Make();
  ASSERT_EQ(report.processes.at(0).memory.size(), 2U);
  for (const MemoryReport& pool : report.processes.at(0).memory) EXPECT_FALSE(pool.fragmentation);
}

// Against the state at every nanosecond.
TEST_F(MemoryReportTest, MemoryOverTime) {
  struct Life {
    uint64_t from;
    uint64_t until;
    int64_t bytes;
    uint32_t site;
  };
  constexpr uint64_t kForever = std::numeric_limits<uint64_t>::max();
  const std::vector<Life> lives = {{kBegin + 33, 5001 + kBegin, 400, kCopySite},
                                   {kBegin + 1234, kBegin + 1250, 90, kLaunchSite},
                                   {kBegin + 2345, kForever, 1000, kLaunchSite},
                                   {kBegin + 2351, kBegin + 2933, 70, kWaitSite}};
  Spool({Call(kLaunchHook, kBegin, kBegin + 7, kCopySite), Block(kAllocated, lives[0].from, 0x1000, 400, kCopySite),
         Block(kAllocated, lives[1].from, 0x2000, 90, kLaunchSite), Block(kFreed, lives[1].until, 0x2000, 0),
         Block(kAllocated, lives[2].from, 0x3000, 1000, kLaunchSite),
         Block(kAllocated, lives[3].from, 0x4000, 70, kWaitSite), Block(kFreed, lives[3].until, 0x4000, 0),
         Block(kFreed, lives[0].until, 0x1000, 0), Call(kLaunchHook, kBegin + 5989, kBegin + 5993, kCopySite)},
        {});
  BuildWell();
  const Report report = Make();
  const HeldReport& held = report.processes.at(0).held.at(0);
  ASSERT_EQ(held.peak, 1470);
  const MemoryColumns& columns = held.columns;
  ASSERT_EQ(columns.all.highest.size(), kMemoryColumns);
  ASSERT_EQ(columns.of.size(), 3U);
  EXPECT_GE(columns.first + columns.length * static_cast<int64_t>(kMemoryColumns), report.last);
  // What the database's time begins with.
  const int64_t zero = static_cast<int64_t>(kBegin + 2351) - held.peak_time;
  const uint32_t by_bytes[] = {kLaunchSite, kCopySite, kWaitSite};
  std::vector<int64_t> all(kMemoryColumns);
  std::vector<std::vector<int64_t>> of(3, std::vector<int64_t>(kMemoryColumns));
  for (int64_t time = report.first; time <= report.last; ++time) {
    const auto at = static_cast<uint64_t>(time + zero);
    const auto column = static_cast<size_t>((time - columns.first) / columns.length);
    int64_t sum = 0;
    int64_t sums[3] = {};
    for (const Life& life : lives) {
      if (at < life.from || at > life.until) continue;
      sum += life.bytes;
      sums[std::find(by_bytes, by_bytes + 3, life.site) - by_bytes] += life.bytes;
    }
    all[column] = std::max(all[column], sum);
    for (size_t i = 0; i < 3; ++i) of[i][column] = std::max(of[i][column], sums[i]);
  }
  EXPECT_EQ(columns.all.highest, all);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(columns.of[i].highest, of[i]) << i;
  EXPECT_EQ(columns.all.highest[columns.peak], held.peak);

  const std::string text = MemoryColumnsText(held, 110);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 1 + 3 + 1) << text;
  const size_t row = text.find("  all blocks");
  ASSERT_NE(row, std::string::npos);
  const std::string whole = text.substr(text.find('\n', row) - kMemoryColumns, kMemoryColumns);
  EXPECT_EQ(whole[columns.peak], '@') << text;
  for (size_t i = 0; i < kMemoryColumns; ++i) EXPECT_EQ(whole[i] == ' ', all[i] == 0) << i << "\n" << text;
}

TEST(WorkspaceTest, IsNamedByTheLibrary) {
  EXPECT_EQ(WorkspaceOf("/usr/lib/libcudnn_engines_precompiled.so.9"), " (cuDNN workspace)");
  EXPECT_EQ(WorkspaceOf("libcublasLt.so.12"), " (cuBLAS workspace)");
  EXPECT_EQ(WorkspaceOf("/x/libnccl.so.2"), " (NCCL buffers)");
  EXPECT_EQ(WorkspaceOf("/libcudnn/libc10_cuda.so"), "");
  EXPECT_EQ(WorkspaceOf(""), "");
}

}  // namespace
}  // namespace slipstream::report
