// Where a database is built: the guess of its size beside what it is, and the choice among places.

#include "tools/trace/db/build_place.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/trace_db/trace_db_testing.h"

namespace slipstream::trace_db {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

struct statfs FileSystem(int64_t type, uint64_t blocks, uint64_t free, int64_t block_bytes) {
  struct statfs facts {};
  facts.f_type = type;
  facts.f_blocks = blocks;
  facts.f_bfree = free + 7;  // for root
  facts.f_bavail = free;
  facts.f_bsize = block_bytes;
  return facts;
}

Place Disk(uint64_t free_bytes) { return {.folder = "disk", .free_bytes = free_bytes}; }
Place Memory(uint64_t free_bytes) { return {.folder = "memory", .free_bytes = free_bytes, .in_memory = true}; }

TEST(BuildPlaceTest, TheGuessGrowsWithTheSpools) {
  EXPECT_EQ(RoomNeededFor(0).database, kMiB);
  EXPECT_EQ(RoomNeededFor(0).sorting, 0U);
  EXPECT_EQ(RoomNeededFor(10'000'000'000).database, kMiB + 26'000'000'000);
  EXPECT_EQ(RoomNeededFor(10'000'000'000).sorting, 5'000'000'000U);
  EXPECT_EQ(RoomNeededFor(10'000'000'000).all(), kMiB + 31'000'000'000);
}

// Of calls with all that a call can have, which take the most.
class GuessTest : public TraceDbTest {};

TEST_F(GuessTest, NoRunTakesMore) {
  {
    HandSpool spool(run_, "a.spool");
    spool.Facts({{"pid", "10"}});
    spool.Name(tracer::NameTable::kHooks, 0, "cudaMemcpyAsync");
    spool.Thread(1, 100, "main");
    spool.Site(1, "train.py", 10, "step");
    spool.Stack(tracer::kFirstSpoolStack, 0, 1);
    spool.Address(1, 0, 0x1000);
    spool.Stack(tracer::kFirstSpoolStack + 1, 0, tracer::kNativeSpoolSite + 1);
    spool.Stack(tracer::kFirstSpoolStack + 2, tracer::kFirstSpoolStack + 1,
                tracer::kBothSpoolStacks + tracer::kFirstSpoolStack);
    constexpr uint64_t kStart = 3'600'000'000'000;
    for (uint64_t chunk = 0; chunk < 50; ++chunk) {
      std::vector<tracer::TraceRecord> records;
      for (uint64_t i = 1000 * chunk; i < 1000 * (chunk + 1); ++i) {
        tracer::TraceRecord record = CallAt(kStart + 5000 * i, kStart + 5000 * i + 2000);
        record.bytes = 1 << 20;
        record.stream = 0x7f0000000000;
        record.number = i + 1;
        record.stack = tracer::kFirstSpoolStack + 2;
        record.site = 1;
        record.correlation = static_cast<uint32_t>(i + 1);
        record.decision = 1;
        record.device = 0;
        records.push_back(record);
      }
      spool.Pass(kStart + uint64_t{5'000'000} * chunk);
      spool.Records(1, records);
    }
    spool.End();
  }
  const BuildResult built = BuildWell();
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_CALLS JOIN SLIPSTREAM_DECISIONS USING (correlationId) "
                "WHERE stackId IS NOT NULL AND nativeStackId IS NOT NULL AND cuptiCorrelation IS NOT NULL"),
            "50000");
  const uint64_t spools = std::filesystem::file_size(run_ + "/a.spool");
  EXPECT_LE(built.database_bytes, RoomNeededFor(spools).database);
  EXPECT_GT(built.database_bytes, RoomNeededFor(spools).database / 2) << "the guess is far too high";
}

TEST(BuildPlaceTest, WhatAFileSystemSaysOfItself) {
  constexpr int64_t kExt4 = 0xef53;
  const Place disk = PlaceOf("/x", FileSystem(kExt4, 1000, 10, 4096));
  EXPECT_EQ(disk.folder, "/x");
  EXPECT_EQ(disk.free_bytes, 40960U);
  EXPECT_FALSE(disk.in_memory);
  EXPECT_TRUE(PlaceOf("/x", FileSystem(TMPFS_MAGIC, 1000, 10, 4096)).in_memory);
  EXPECT_TRUE(PlaceOf("/x", FileSystem(RAMFS_MAGIC, 0, 0, 4096)).in_memory);
  EXPECT_EQ(PlaceOf("/x", FileSystem(kExt4, 1000, 0, 4096)).free_bytes, 0U) << "full";
  EXPECT_EQ(PlaceOf("/x", FileSystem(kExt4, 0, 0, 4096)).free_bytes, std::numeric_limits<uint64_t>::max())
      << "nobody knows";
}

TEST(BuildPlaceTest, ThisMachine) {
  const test::Folder folder;
  const std::optional<Place> place = LookAtPlace(folder.path());
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->folder, folder.path());
  EXPECT_GT(place->free_bytes, 0U);
  EXPECT_FALSE(LookAtPlace(folder / "missing").has_value());
  const auto closed = test::InChild([&] {
    chmod(folder.path().c_str(), 0555);
    if (!test::BecomeNobody()) return 77;
    return LookAtPlace(folder.path()).has_value() ? 1 : 0;
  });
  EXPECT_EQ(closed.status, 0);
}

TEST(BuildPlaceTest, TheFirstThatFits) {
  const RoomNeeded needed = {.database = 10 * kGiB, .sorting = 2 * kGiB};
  EXPECT_EQ(ChoosePlace(std::vector{Disk(20 * kGiB), Disk(90 * kGiB)}, needed), (Choice{0, Fit::kWell}));
  EXPECT_EQ(ChoosePlace(std::vector{Disk(12 * kGiB), Disk(90 * kGiB)}, needed), (Choice{0, Fit::kWell})) << "just so";
  EXPECT_EQ(ChoosePlace(std::vector{Disk(11 * kGiB), Disk(90 * kGiB)}, needed), (Choice{1, Fit::kWell}))
      << "what is sorted needs room too";
}

// A trace that keeps the newest is as long as all that was ever written, and hollow.
TEST(BuildPlaceTest, AHoleIsNothingToRead) {
  const std::string path = test::NewDirectory() + "/trace.spool";
  EXPECT_EQ(BytesToRead(path), 0U);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  const std::string block(65536, 'x');
  ASSERT_EQ(write(fd, block.data(), block.size()), 65536);
  EXPECT_EQ(BytesToRead(path), 65536U);
  ASSERT_EQ(pwrite(fd, block.data(), block.size(), off_t{1} << 32), 65536);
  const bool has_holes = lseek(fd, 0, SEEK_HOLE) == 65536;
  EXPECT_EQ(close(fd), 0);
  if (!has_holes) GTEST_SKIP() << "this file system does not tell its holes";
  EXPECT_EQ(BytesToRead(path), 2U * 65536);
}

TEST(BuildPlaceTest, MemoryIsForWhatIsLittle) {
  const RoomNeeded much = {.database = kLittleBytes, .sorting = 1};
  const RoomNeeded little = {.database = kLittleBytes, .sorting = 0};
  EXPECT_EQ(ChoosePlace(std::vector{Memory(9 * kGiB), Disk(9 * kGiB)}, little), (Choice{0, Fit::kWell}));
  EXPECT_EQ(ChoosePlace(std::vector{Memory(9 * kGiB), Disk(9 * kGiB)}, much), (Choice{1, Fit::kWell}));
  EXPECT_EQ(ChoosePlace(std::vector{Memory(9 * kGiB), Disk(kMiB)}, much), (Choice{0, Fit::kInMemory}));
  EXPECT_EQ(ChoosePlace(std::vector{Disk(kMiB), Memory(9 * kGiB)}, much), (Choice{1, Fit::kInMemory}));
}

TEST(BuildPlaceTest, WhereNothingFitsTheDiskWithTheMostRoom) {
  const RoomNeeded needed = {.database = 10 * kGiB, .sorting = 0};
  EXPECT_EQ(ChoosePlace(std::vector{Disk(1 * kGiB), Disk(3 * kGiB), Disk(2 * kGiB)}, needed), (Choice{1, Fit::kTight}));
  EXPECT_EQ(ChoosePlace(std::vector{Memory(9 * kGiB), Disk(2 * kGiB)}, needed), (Choice{1, Fit::kTight}));
  EXPECT_EQ(ChoosePlace(std::vector{Disk(2 * kGiB), Memory(9 * kGiB)}, needed), (Choice{0, Fit::kTight}));
  EXPECT_EQ(ChoosePlace(std::vector{Memory(1 * kGiB), Memory(2 * kGiB)}, needed), (Choice{1, Fit::kTight}));
}

}  // namespace
}  // namespace slipstream::trace_db
