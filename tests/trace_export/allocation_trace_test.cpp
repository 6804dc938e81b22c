// Traces of allocations: what a replay is to do, line by line.

#include "tools/trace/export/allocation_trace.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/trace_db/trace_db_testing.h"
#include "tools/trace/export/trace_export.h"
#include "tracer/spool/block_record.h"

namespace slipstream::trace_export {
namespace {

using tracer::MemoryKind;
using tracer::MemoryUse;
using tracer::TraceRecord;

enum Hook : uint16_t { kMalloc, kStreamSynchronize, kDeviceSynchronize, kMemcpy };

struct Event {
  MemoryUse use;
  uint64_t at;  // when it takes effect
  uint64_t address;
  uint64_t bytes = 0;
  uint64_t stream = 0;
  int16_t device = 0;
  MemoryKind kind = MemoryKind::kDevice;
};

TraceRecord BlockOf(const Event& event) {
  tracer::BlockRecord block;
  const bool allocated = event.use == MemoryUse::kAllocated;
  block.start_ns = allocated ? event.at - 5 : event.at;
  block.end_ns = allocated ? event.at : event.at + 5;
  block.use = event.use;
  block.kind = event.kind;
  block.address = event.address;
  block.bytes = event.bytes;
  block.stream = event.stream;
  block.device = allocated ? event.device : static_cast<int16_t>(-1);
  block.hook = kMalloc;
  return RecordOf(block);
}

TraceRecord Wait(uint16_t hook, uint64_t end, uint64_t stream = 0, int status = 0) {
  TraceRecord record = trace_db::CallAt(end - 5, end, hook);
  record.stream = stream;
  record.status = status;
  return record;
}

class AllocationTraceTest : public trace_db::TraceDbTest {
 protected:
  static constexpr auto kGot = MemoryUse::kAllocated;
  static constexpr auto kFreed = MemoryUse::kFreed;

  void Spool(const std::string& name, int rank, const std::vector<TraceRecord>& first,
             const std::vector<TraceRecord>& second = {}) {
    trace_db::HandSpool spool(run_, name);
    spool.Facts({{"pid", std::to_string(100 + rank)}, {"host", "node"}, {"rank", std::to_string(rank)}});
    const char* const names[] = {"cudaMallocAsync", "cudaStreamSynchronize_ptsz", "cudaDeviceSynchronize",
                                 "cudaMemcpy"};
    for (uint32_t i = 0; i < std::size(names); ++i) spool.Name(tracer::NameTable::kHooks, i, names[i]);
    spool.Clock(999, 1001, 1'700'000'000'000'000'000);
    spool.Thread(1, 100, "main");
    spool.Thread(2, 101, "other");
    spool.Pass(5000);
    if (!first.empty()) spool.Records(1, first);
    if (!second.empty()) spool.Records(2, second);
    spool.End();
  }
  ExportOutcome Export(std::optional<int64_t> rank = std::nullopt) {
    trace_db::DatabaseReader reader(database_);
    return ExportTrace(reader, {.format = Format::kAllocations,
                                .run = database_,
                                .file = directory_ + "/trace.alloc",
                                .replace = true,
                                .rank = rank});
  }
  // Without remarks.
  std::vector<std::string> Lines() const {
    std::istringstream stream(tracer::Slurp(directory_ + "/trace.alloc"));
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) {
      if (!line.starts_with('#')) lines.push_back(line);
    }
    return lines;
  }
};

TEST_F(AllocationTraceTest, InTheOrderOfTimeWithSmallNumbers) {
  Spool("0.spool", 0,
        {BlockOf({kGot, 6000, 0xa000, 100, 0xfeed, 0}), BlockOf({kGot, 6010, 0xb000, 200, 0, 1}), Wait(kMemcpy, 6015),
         BlockOf({kFreed, 6020, 0xa000, 0, 0xbeef}), Wait(kStreamSynchronize, 6040, 0xfeed),
         Wait(kStreamSynchronize, 6045, 0xfeed, 700), Wait(kDeviceSynchronize, 6050),
         BlockOf({kGot, 6060, 0xa000, 300, 1, 0}), BlockOf({kFreed, 6070, 0xdead})},
        // Ended before the free that made room for it had; and what is no memory of a device.
        {BlockOf({kGot, 6022, 0xa000, 50, 0xbeef, 0}), BlockOf({kGot, 6030, 0xe000, 9, 0, -1, MemoryKind::kManaged}),
         BlockOf({kGot, 6032, 0x7, 9, 0, 0, MemoryKind::kPhysical}), BlockOf({kFreed, 6034, 0xe000}),
         BlockOf({kFreed, 6036, 0x7, 0, 0, 0, MemoryKind::kPhysical}), BlockOf({kFreed, 6055, 0xa000, 0, 0xbeef})});
  BuildWell();
  const ExportOutcome outcome = Export();
  ASSERT_EQ(outcome.problem, ExportProblem::kNone) << outcome.what;
  EXPECT_EQ(Lines(),
            (std::vector<std::string>{"slipstream-allocations 1", "m 0 0 1 1 100", "m 0 1 0 2 200", "f 0 0 2 1",
                                      "m 1 0 2 3 50", "s 0 0 1", "d 0 1", "f 1 0 2 3", "m 0 0 0 4 300"}));
  EXPECT_EQ(outcome.rows.blocks, 4U);
  EXPECT_EQ(outcome.rows.frees, 2U);
  EXPECT_EQ(outcome.rows.waits, 2U);
}

// A free that is not in the trace happened before its address was given out again.
TEST_F(AllocationTraceTest, NoBlockIsThereTwice) {
  Spool("0.spool", 0,
        {BlockOf({kGot, 6000, 0xa000, 100}), BlockOf({kGot, 6010, 0xa000, 200}), BlockOf({kFreed, 6020, 0xa000}),
         BlockOf({kFreed, 6030, 0xa000}), BlockOf({kGot, 6040, 0xc000, 1}), BlockOf({MemoryUse::kReset, 6050, 0}),
         BlockOf({kGot, 6060, 0xc000, 2})});
  BuildWell();
  ASSERT_EQ(Export().problem, ExportProblem::kNone);
  EXPECT_EQ(Lines(),
            (std::vector<std::string>{"slipstream-allocations 1", "m 0 0 0 1 100", "f 0 0 0 1", "m 0 0 0 2 200",
                                      "f 0 0 0 2", "m 0 0 0 3 1", "f 0 0 0 3", "m 0 0 0 4 2"}));
}

TEST_F(AllocationTraceTest, OneProcessThatAllocated) {
  Spool("0.spool", 0, {BlockOf({kGot, 6000, 0xa000, 100})});
  Spool("1.spool", 1, {BlockOf({kGot, 6000, 0xa000, 111})});
  Spool("2.spool", 2, {Wait(kDeviceSynchronize, 6000)});
  BuildWell();
  const ExportOutcome several = Export();
  EXPECT_EQ(several.problem, ExportProblem::kSeveral);
  EXPECT_EQ(several.ranks, (std::vector<int64_t>{0, 1, 2}));
  ASSERT_EQ(Export(1).problem, ExportProblem::kNone);
  EXPECT_EQ(Lines().back(), "m 0 0 0 1 111");
  EXPECT_EQ(Export(2).problem, ExportProblem::kNoBlocks);
  EXPECT_EQ(Export(3).problem, ExportProblem::kNoRank);
}

}  // namespace
}  // namespace slipstream::trace_export
