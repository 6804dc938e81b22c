// Reading spools: in the order of time, and nothing that cannot be believed, whatever the file is.

#include "tracer/spool/spool_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/tracer/spool_testing.h"
#include "tracer/base/crc32c.h"
#include "tracer/spool/chunk_writer.h"
#include "tracer/spool/device_work.h"

namespace slipstream::tracer {
namespace {

TraceRecord CallAt(uint64_t end_ns, uint64_t bytes = 0) {
  return {.start_ns = end_ns - 1, .end_ns = end_ns, .bytes = bytes, .kind = RecordKind::kCall};
}

class SpoolReaderTest : public SpoolTest {
 protected:
  void SetUp() override {
    SpoolTest::SetUp();
    path_ = directory_ + "/hand.spool";
    ASSERT_EQ(file_.Create(directory_, "hand.spool").problem, SpoolProblem::kNone);
    chunks_.Start(1234);
  }

  void Thread(uint32_t number, uint32_t id = 100, const std::string& name = "worker") {
    chunks_.Begin(ChunkKind::kThread);
    chunks_.PutNumber(number);
    chunks_.PutNumber(id);
    chunks_.PutText(name);
    chunks_.End();
  }
  // As a newer writer might: `more` bytes behind each record.
  template <typename Record>
  void Put(ChunkKind kind, uint32_t thread, uint64_t first, const std::vector<Record>& records, uint32_t more,
           uint16_t version) {
    const RecordsHead head = {.thread = thread,
                              .record_bytes = static_cast<uint32_t>(sizeof(Record) + more),
                              .first = first,
                              .count = static_cast<uint32_t>(records.size()),
                              .version = version};
    chunks_.Begin(kind);
    chunks_.PutBytes(&head, sizeof(head));
    for (const Record& record : records) {
      chunks_.PutBytes(&record, sizeof(record));
      std::memset(chunks_.PutSpace(more), 0x55, more);
    }
    chunks_.End(records.size());
  }
  void Records(uint32_t thread, uint64_t first, const std::vector<TraceRecord>& records, uint32_t more = 0,
               uint16_t version = kRecordVersion) {
    Put(ChunkKind::kRecords, thread, first, records, more, version);
  }
  struct StackEntry {
    uint32_t stack;
    uint32_t parent;
    uint32_t site;
  };
  void Stacks(const std::vector<StackEntry>& stacks) {
    chunks_.Begin(ChunkKind::kStacks);
    chunks_.PutNumber(static_cast<uint32_t>(stacks.size()));
    for (const StackEntry& entry : stacks) {
      for (const uint32_t number : {entry.stack, entry.parent, entry.site}) chunks_.PutNumber(number);
    }
    chunks_.End();
  }
  void ThreadEnds(uint32_t thread, uint64_t records, uint64_t dropped) {
    const tracer::ThreadEnd end = {.thread = thread, .records = records, .dropped = dropped};
    chunks_.Begin(ChunkKind::kThreadEnd);
    chunks_.PutBytes(&end, sizeof(end));
    chunks_.End();
  }
  void End(uint64_t dropped = 0, uint64_t records = 0) {
    EXPECT_TRUE(chunks_.Finish({.reason = 1, .records = records, .dropped = dropped}));
  }

  // Every kind of chunk, two threads, three rounds.
  void WriteSample() {
    chunks_.SetPass(10);
    chunks_.Begin(ChunkKind::kFacts);
    chunks_.PutNumber(1);
    chunks_.PutText("pid");
    chunks_.PutText("42");
    chunks_.End();
    chunks_.Begin(ChunkKind::kNames);
    chunks_.PutNumber(static_cast<uint32_t>(NameTable::kHooks));
    chunks_.PutNumber(1);
    chunks_.PutNumber(7);
    chunks_.PutText("cudaMalloc");
    chunks_.End();
    Records(0, 0, {ClockRecord(1, 2, 3, 4)});
    chunks_.SetPass(20);
    Thread(1, 100, "main");
    chunks_.Begin(ChunkKind::kSites);
    chunks_.PutNumber(1);
    chunks_.PutNumber(5);
    chunks_.PutNumber(33);
    chunks_.PutText("train.py");
    chunks_.PutText("step");
    chunks_.End();
    Stacks({{2, 0, 5}, {3, 2, 5}});
    Records(1, 0, {CallAt(11), CallAt(13), CallAt(15)});
    Thread(2, 101, "w");
    Records(2, 0, {CallAt(12), CallAt(22)});
    chunks_.SetPass(30);
    Records(1, 3, {DropRecord(21, 21, 2, 2), CallAt(23)});
    Records(2, 2, {CallAt(24)});
    ThreadEnds(1, 5, 3);
    chunks_.SetPass(40);
    Records(2, 3, {CallAt(39)});
    End(3, 10);
  }

  // Whatever was read is what an undamaged file has: each thread's first records.
  static void ExpectBeginning(const Spool& part, const Spool& whole) {
    std::map<uint32_t, std::vector<SpoolRecord>> all;
    for (const SpoolRecord& record : whole.records) all[record.thread].push_back(record);
    std::map<uint32_t, size_t> next;
    for (const SpoolRecord& record : part.records) {
      const size_t index = next[record.thread]++;
      ASSERT_LT(index, all[record.thread].size());
      ASSERT_EQ(std::memcmp(&all[record.thread][index].record, &record.record, sizeof(TraceRecord)), 0);
    }
  }

  // Whatever was read is what an undamaged file has, in each thread's order, and each gap is said behind it.
  static void ExpectPart(const Spool& part, const Spool& whole) {
    std::map<std::pair<uint32_t, uint64_t>, TraceRecord> all;
    for (const SpoolRecord& record : whole.records) all[{record.thread, record.number}] = record.record;
    std::map<uint32_t, uint64_t> next;
    for (const SpoolRecord& record : part.records) {
      const auto found = all.find({record.thread, record.number});
      ASSERT_NE(found, all.end());
      ASSERT_EQ(std::memcmp(&found->second, &record.record, sizeof(TraceRecord)), 0);
      uint64_t& number = next[record.thread];
      ASSERT_EQ(record.missing, record.number - number);
      number = record.number + 1;
    }
  }
  // The chunk at `at` with other fields in its header, and a checksum that is right.
  static std::string Sealed(const std::string& bytes, size_t at, uint64_t number, uint64_t pass_ns) {
    ChunkHeader header;
    std::memcpy(static_cast<void*>(&header), bytes.data() + at, sizeof(header));
    std::string chunk = bytes.substr(at, sizeof(header) + PaddedBytes(header.payload_bytes));
    header.number = number;
    header.pass_ns = pass_ns;
    std::memcpy(chunk.data(), &header, sizeof(header));
    header.checksum = Crc32c(0, chunk.data() + kChecksumFrom, sizeof(header) - kChecksumFrom + header.payload_bytes);
    std::memcpy(chunk.data(), &header, sizeof(header));
    return chunk;
  }
  // The same file with other bytes, for a reader that has it open.
  void Grow(const std::string& bytes) {
    std::filesystem::resize_file(path_, 0);
    std::ofstream(path_, std::ios::binary | std::ios::in) << bytes;
  }

  std::string path_;
  SpoolFile file_{FileCalls{}};
  ChunkWriter chunks_{&file_, uint64_t{1} << 30};
};

TEST_F(SpoolReaderTest, WhatIsWrittenIsReadInTheOrderOfTime) {
  WriteSample();
  const Spool spool = ReadSpool(path_);
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  std::vector<uint64_t> ends;
  for (const SpoolRecord& record : spool.records) ends.push_back(record.record.end_ns);
  EXPECT_EQ(ends, (std::vector<uint64_t>{2, 11, 12, 13, 15, 21, 22, 23, 24, 39}));
  EXPECT_EQ(spool.reader->start_unix_ns(), 1234U);
  EXPECT_EQ(spool.reader->facts().at("pid"), "42");
  ASSERT_NE(spool.reader->NameOf(NameTable::kHooks, 7), nullptr);
  EXPECT_EQ(*spool.reader->NameOf(NameTable::kHooks, 7), "cudaMalloc");
  EXPECT_EQ(spool.reader->NameOf(NameTable::kDecisions, 7), nullptr);
  ASSERT_NE(spool.reader->SiteOf(5), nullptr);
  EXPECT_EQ(spool.reader->SiteOf(5)->file, "train.py");
  EXPECT_EQ(spool.reader->SiteOf(5)->function, "step");
  EXPECT_EQ(spool.reader->SiteOf(5)->line, 33);
  EXPECT_EQ(spool.reader->SiteOf(6), nullptr);
  const SpoolThread& main = spool.reader->threads().at(1);
  EXPECT_EQ(main.id, 100U);
  EXPECT_EQ(main.name, "main");
  EXPECT_EQ(main.records, 5U);
  EXPECT_EQ(main.dropped, 3U);
  EXPECT_TRUE(main.ended);
  EXPECT_FALSE(spool.reader->threads().at(2).ended);
  const SpoolReader::End& end = spool.end();
  EXPECT_TRUE(end.complete);
  EXPECT_EQ(end.reason, EndReason::kFinished);
  EXPECT_EQ(end.records, 10U);
  EXPECT_EQ(end.dropped, 3U);
  EXPECT_EQ(end.read_bytes, std::filesystem::file_size(path_));
  EXPECT_EQ(end.left_bytes, 0U);
  EXPECT_EQ(end.left_why, "");
  EXPECT_EQ(end.skipped_chunks + end.skipped_records + end.malformed_chunks + end.missing_records + end.late_records,
            0U);
  EXPECT_EQ(end.damaged_bytes + end.missing_chunks, 0U);
}

// A file that grows is read as the whole one is, wherever it ends in the meantime, and no byte of it twice but for a
// chunk that was not whole.
TEST_F(SpoolReaderTest, WhoFollowsAFileReadsWhatTheWholeOneHas) {
  WriteSample();
  const std::string bytes = Slurp(path_);
  const Spool whole = ReadSpool(path_);
  const std::vector<size_t> boundaries = Boundaries(bytes);
  for (size_t step : {size_t{1}, size_t{13}, size_t{100}}) {
    Spit(path_, bytes.substr(0, sizeof(SpoolHeader)));
    std::string error;
    const auto reader = SpoolReader::Open(path_, &error);
    ASSERT_NE(reader, nullptr) << error;
    reader->Follow(true);
    std::vector<SpoolRecord> seen;
    for (size_t size = sizeof(SpoolHeader); size < bytes.size(); size = std::min(bytes.size(), size + step)) {
      Grow(bytes.substr(0, size));
      SpoolRecord record;
      while (reader->Next(&record)) seen.push_back(record);
      ASSERT_FALSE(reader->end().complete);
      ASSERT_EQ(reader->end().read_bytes, *(std::upper_bound(boundaries.begin(), boundaries.end(), size) - 1));
    }
    std::ofstream(path_, std::ios::binary | std::ios::in) << bytes;
    SpoolRecord record;
    while (reader->Next(&record)) seen.push_back(record);
    ASSERT_EQ(seen.size(), whole.records.size());
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(std::memcmp(&seen[i].record, &whole.records[i].record, sizeof(TraceRecord)), 0) << i;
      EXPECT_EQ(seen[i].number, whole.records[i].number);
    }
    EXPECT_TRUE(reader->end().complete);
    EXPECT_EQ(reader->end().left_bytes, 0U);
    EXPECT_EQ(reader->end().read_bytes, bytes.size());
  }
}

// Its process was killed: nobody writes the end any more.
TEST_F(SpoolReaderTest, WhoStopsToFollowGetsWhatWaited) {
  Thread(1);
  chunks_.SetPass(100);
  Records(1, 0, {CallAt(90), CallAt(101)});
  ASSERT_TRUE(chunks_.Flush());
  std::string error;
  const auto reader = SpoolReader::Open(path_, &error);
  ASSERT_NE(reader, nullptr) << error;
  reader->Follow(true);
  SpoolRecord record;
  EXPECT_FALSE(reader->Next(&record));
  EXPECT_FALSE(reader->Next(&record));
  reader->Follow(false);
  ASSERT_TRUE(reader->Next(&record));
  EXPECT_EQ(record.record.end_ns, 90U);
  ASSERT_TRUE(reader->Next(&record));
  EXPECT_EQ(record.record.end_ns, 101U);
  EXPECT_FALSE(reader->Next(&record));
  EXPECT_FALSE(reader->end().complete);
}

TEST_F(SpoolReaderTest, RecordsWaitForTheirOrderAndNoLongerThanThat) {
  Thread(1);
  Thread(2);
  chunks_.SetPass(100);
  Records(1, 0, {CallAt(90), CallAt(101), CallAt(109)});  // made while the round ran
  chunks_.SetPass(200);
  Records(2, 0, {CallAt(105), CallAt(190)});
  chunks_.SetPass(300);
  Records(2, 2, {CallAt(250)});
  chunks_.SetPass(400);
  Records(2, 3, {CallAt(150), CallAt(350)});  // the thread's clock ran back: its order stands
  Records(1, 3, {CallAt(120)});               // recorded three rounds after it happened
  End();
  std::string error;
  const auto reader = SpoolReader::Open(path_, &error);
  ASSERT_NE(reader, nullptr) << error;
  std::vector<std::pair<uint64_t, uint64_t>> seen;  // and the round up to which the file was read for it
  SpoolRecord record;
  while (reader->Next(&record)) seen.emplace_back(record.record.end_ns, reader->end().last_pass_ns);
  EXPECT_EQ(
      seen,
      (std::vector<std::pair<uint64_t, uint64_t>>{
          {90, 200}, {101, 300}, {105, 300}, {109, 300}, {190, 300}, {250, 400}, {120, 400}, {150, 400}, {350, 400}}));
  EXPECT_EQ(reader->end().late_records, 1U);
}

TEST_F(SpoolReaderTest, ARoundWithoutAnEndDoesNotFillTheMemory) {
  Thread(1);
  chunks_.SetPass(5);
  constexpr uint64_t kRecords = SpoolReader::kMaxWaiting + 5000;
  for (uint64_t i = 0; i < kRecords; i += 1000) {
    std::vector<TraceRecord> records;
    for (uint64_t j = i; j < std::min(i + 1000, kRecords); ++j) records.push_back(CallAt(10 + j, j));
    Records(1, i, records);
  }
  chunks_.Flush();
  std::string error;
  const auto reader = SpoolReader::Open(path_, &error);
  ASSERT_NE(reader, nullptr) << error;
  SpoolRecord record;
  ASSERT_TRUE(reader->Next(&record));
  EXPECT_LT(reader->end().read_bytes, std::filesystem::file_size(path_)) << "it was read whole before the first record";
  uint64_t next = 0;
  do {
    ASSERT_EQ(record.record.bytes, next++);
  } while (reader->Next(&record));
  EXPECT_EQ(next, kRecords);
}

TEST_F(SpoolReaderTest, EveryTruncationIsReadUpToTheLastWholeChunk) {
  WriteSample();
  const std::string bytes = Slurp(path_);
  const Spool whole = ReadSpool(path_);
  const std::vector<size_t> boundaries = Boundaries(bytes);
  ASSERT_EQ(boundaries.back(), bytes.size());
  for (size_t size = 0; size < bytes.size(); ++size) {
    Spit(path_, bytes.substr(0, size));
    const Spool spool = ReadSpool(path_);
    if (size < sizeof(SpoolHeader)) {
      ASSERT_EQ(spool.reader, nullptr);
      ASSERT_NE(spool.error.find("too short"), std::string::npos);
      continue;
    }
    ASSERT_NE(spool.reader, nullptr) << spool.error;
    const size_t last = *std::prev(std::upper_bound(boundaries.begin(), boundaries.end(), size));
    ASSERT_EQ(spool.end().read_bytes, last);
    ASSERT_EQ(spool.end().left_bytes, size - last);
    ASSERT_EQ(spool.end().left_why, size == last ? "" : "the last chunk is cut");
    ASSERT_FALSE(spool.end().complete);
    ExpectBeginning(spool, whole);
  }
}

// Found by fuzz_spool: more was read than the file has.
TEST_F(SpoolReaderTest, AHeaderThatPointsBehindTheFileIsDamaged) {
  WriteSample();
  std::string bytes = Slurp(path_);
  for (const uint32_t begins : {static_cast<uint32_t>(bytes.size()) + 1, 0x4ee04ee0U, 0xffffffffU}) {
    SpoolHeader header;
    std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof(header));
    header.header_bytes = begins;
    header.checksum = Crc32c(0, &header, offsetof(SpoolHeader, checksum));
    std::memcpy(bytes.data(), &header, sizeof(header));
    Spit(path_, bytes);
    const Spool spool = ReadSpool(path_);
    EXPECT_EQ(spool.reader, nullptr) << begins;
    EXPECT_NE(spool.error.find("damaged in its first bytes"), std::string::npos) << spool.error;
  }
}

TEST_F(SpoolReaderTest, EveryChangedByteIsSeenAndAllButItsChunkIsRead) {
  WriteSample();
  const std::string bytes = Slurp(path_);
  const Spool whole = ReadSpool(path_);
  const std::vector<size_t> boundaries = Boundaries(bytes);
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const unsigned change : {0x01U, 0x80U, 0xffU}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(static_cast<unsigned char>(changed[at]) ^ change);
      Spit(path_, changed);
      const Spool spool = ReadSpool(path_);
      if (at < sizeof(SpoolHeader)) {
        ASSERT_EQ(spool.reader, nullptr) << at;
        ASSERT_NE(spool.error, "");
        continue;
      }
      ASSERT_NE(spool.reader, nullptr) << spool.error;
      const auto behind = std::upper_bound(boundaries.begin(), boundaries.end(), at);
      const size_t chunk = *std::prev(behind);
      ExpectPart(spool, whole);
      ASSERT_EQ(spool.end().malformed_chunks, 0U) << at;
      if (behind + 1 == boundaries.end()) {
        // Nothing whole is behind it.
        ASSERT_EQ(spool.records.size(), whole.records.size());
        ASSERT_EQ(spool.end().read_bytes, chunk) << at;
        ASSERT_EQ(spool.end().left_bytes, bytes.size() - chunk) << at;
        ASSERT_NE(spool.end().left_why, "");
        ASSERT_FALSE(spool.end().complete);
        ASSERT_EQ(spool.end().damaged_bytes + spool.end().missing_chunks, 0U) << at;
        continue;
      }
      ChunkHeader header;
      std::memcpy(static_cast<void*>(&header), bytes.data() + chunk, sizeof(header));
      RecordsHead head;
      if (header.kind == static_cast<uint16_t>(ChunkKind::kRecords)) {
        std::memcpy(static_cast<void*>(&head), bytes.data() + chunk + sizeof(header), sizeof(head));
      }
      ASSERT_EQ(spool.records.size() + head.count, whole.records.size()) << at;
      ASSERT_EQ(spool.end().missing_records, head.count) << at;
      ASSERT_EQ(spool.end().damaged_bytes, *behind - chunk) << at;
      ASSERT_EQ(spool.end().missing_chunks, 1U) << at;
      ASSERT_EQ(spool.end().read_bytes, bytes.size()) << at;
      ASSERT_EQ(spool.end().left_bytes, 0U) << at;
      ASSERT_EQ(spool.end().left_why, "") << at;
      ASSERT_TRUE(spool.end().complete) << at;
    }
  }
}

TEST_F(SpoolReaderTest, WhatWasLostIsUnknownAndNothingElse) {
  const auto text = [&](ChunkKind kind, const std::vector<uint32_t>& numbers, const std::vector<std::string>& texts) {
    chunks_.Begin(kind);
    for (const uint32_t number : numbers) chunks_.PutNumber(number);
    for (const std::string& each : texts) chunks_.PutText(each);
    chunks_.End();
  };
  Thread(1, 100, "main");                                                                                        // 0
  text(ChunkKind::kNames, {static_cast<uint32_t>(NameTable::kHooks), 1, 7}, {"cudaMalloc"});                     // 1
  text(ChunkKind::kSites, {1, 5, 33}, {"train.py", "step"});                                                     // 2
  Stacks({{2, 0, 5}, {5, 0, kNativeSpoolSite | 1}});                                                             // 3
  Stacks({{3, 2, 5}, {4, 0, 6}, {7, 5, kBothSpoolStacks | 4}, {8, 4, 6}});                                       // 4
  text(ChunkKind::kModules, {1, 1, 0, 0, 0, 0}, {"libx.so", ""});                                                // 5
  text(ChunkKind::kAddresses, {2, /*address*/ 1, /*module*/ 1, 16, 0, /*address*/ 2, /*module*/ 0, 32, 0}, {});  // 6
  Thread(2, 101, "w");                                                                                           // 7
  Records(2, 0, {CallAt(20), CallAt(21)});
  ThreadEnds(2, 3, 0);
  ThreadEnds(9, 4, 1);
  Records(1, 0, {CallAt(30)});
  End();
  std::string bytes = Slurp(path_);
  size_t damaged = 0;
  for (const size_t chunk : {1, 2, 3, 5, 7}) damaged += DamageChunk(&bytes, chunk);
  Spit(path_, bytes);
  const Spool spool = ReadSpool(path_);
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  EXPECT_TRUE(spool.end().complete);
  EXPECT_EQ(spool.end().damaged_bytes, damaged);
  EXPECT_EQ(spool.end().missing_chunks, 5U);
  EXPECT_EQ(spool.end().malformed_chunks, 0U);
  EXPECT_EQ(spool.end().missing_records, 5U) << "one of thread 2, and all of a thread that nothing else is known of";
  EXPECT_EQ(spool.end().dropped, 1U);
  EXPECT_EQ(spool.reader->NameOf(NameTable::kHooks, 7), nullptr);
  EXPECT_EQ(spool.reader->SiteOf(5), nullptr);
  EXPECT_EQ(spool.reader->StackOf(2), nullptr);
  ASSERT_NE(spool.reader->StackOf(3), nullptr);
  EXPECT_EQ(spool.reader->StackOf(3)->parent, kCutSpoolStack) << "further out, frames are not known";
  ASSERT_NE(spool.reader->StackOf(4), nullptr);
  EXPECT_EQ(spool.reader->StackOf(4)->parent, 0U);
  EXPECT_EQ(spool.reader->BothOf(7).python, 0U) << "its native half is lost, and it would pass for one without";
  EXPECT_EQ(spool.reader->BothOf(7).native, 0U);
  ASSERT_NE(spool.reader->StackOf(8), nullptr);
  EXPECT_EQ(spool.reader->StackOf(8)->parent, 4U);
  EXPECT_EQ(spool.reader->ModuleOf(1), nullptr);
  EXPECT_EQ(spool.reader->AddressOf(1), nullptr) << "it would pass for an address of no module";
  ASSERT_NE(spool.reader->AddressOf(2), nullptr);
  EXPECT_EQ(spool.reader->AddressOf(2)->offset, 32U);
  EXPECT_EQ(spool.reader->threads().at(1).name, "main");
  EXPECT_EQ(spool.reader->threads().at(2).name, "");
  EXPECT_EQ(spool.reader->threads().at(2).records, 2U);
  ASSERT_EQ(spool.records.size(), 3U);
  EXPECT_EQ(spool.records[0].tid, kLostThread | 2U);
  EXPECT_EQ(spool.records[2].tid, 100U);
}

TEST_F(SpoolReaderTest, AGapIsSaidAtTheRecordBehindIt) {
  Thread(1);
  Records(1, 0, {CallAt(10), CallAt(20)});
  Records(1, 2, {CallAt(30), CallAt(40), CallAt(50)});
  TraceRecord unknown = CallAt(55);
  unknown.kind = static_cast<RecordKind>(77);
  Records(1, 5, {unknown, CallAt(60)});
  Records(1, 7, {CallAt(70)});
  End();
  DamageChunk(path_, 2);
  const Spool spool = ReadSpool(path_);
  ASSERT_EQ(spool.records.size(), 4U);
  EXPECT_EQ(spool.end().missing_records, 3U);
  EXPECT_EQ(spool.end().skipped_records, 1U);
  for (const size_t i : {0, 1, 3}) EXPECT_EQ(spool.records[i].missing, 0U) << i;
  EXPECT_EQ(spool.records[2].record.end_ns, 60U);
  EXPECT_EQ(spool.records[2].missing, 3U);
  EXPECT_EQ(spool.records[2].missing_from_ns, 20U);
}

TEST_F(SpoolReaderTest, ChunksThatAreGoneDoubledOrPushedApart) {
  WriteSample();
  const std::string bytes = Slurp(path_);
  const Spool whole = ReadSpool(path_);
  const std::vector<size_t> at = Boundaries(bytes);
  const auto read = [&](size_t place, size_t less, const std::string& more, uint64_t damaged, uint64_t missing) {
    std::string changed = bytes;
    changed.replace(place, less, more);
    Spit(path_, changed);
    const Spool spool = ReadSpool(path_);
    EXPECT_TRUE(spool.end().complete) << place;
    EXPECT_EQ(spool.end().read_bytes, changed.size());
    EXPECT_EQ(spool.end().damaged_bytes, damaged);
    EXPECT_EQ(spool.end().missing_chunks, missing);
    EXPECT_EQ(spool.end().malformed_chunks, 0U);
    ExpectPart(spool, whole);
    return spool.records.size();
  };
  const auto chunk = [&](size_t number) { return bytes.substr(at[number], at[number + 1] - at[number]); };
  EXPECT_EQ(read(at[6], at[8] - at[6], "", 0, 2), whole.records.size() - 3) << "gone, with three records";
  EXPECT_EQ(read(at[7], 0, chunk(6), chunk(6).size(), 0), whole.records.size()) << "doubled";
  EXPECT_EQ(read(at[7], 0, std::string(24, '\0'), 24, 0), whole.records.size());
  // More than is read at once; a chunk that is half there comes before.
  const std::string part = chunk(6).substr(0, 40);
  EXPECT_EQ(read(at[6], 0, part + std::string(1'000'000, 'x'), 1'000'040, 0), whole.records.size());
  // Of another file that was where this one is now; and with a number that no file comes to.
  for (const std::string& foreign : {Sealed(bytes, at[1], 12, 1), Sealed(bytes, at[1], ~uint64_t{0} - 1, 1000)}) {
    EXPECT_EQ(read(at[6], at[7] - at[6], foreign, foreign.size(), 1), whole.records.size() - 3);
  }
}

// In a file that is written, what is damaged is passed over as soon as something whole is behind it.
TEST_F(SpoolReaderTest, WhoFollowsGoesOnBehindDamage) {
  WriteSample();
  std::string bytes = Slurp(path_);
  DamageChunk(&bytes, 6);
  DamageChunk(&bytes, 8);
  Spit(path_, bytes);
  const Spool whole = ReadSpool(path_);
  ASSERT_EQ(whole.records.size(), 5U);
  for (size_t step : {size_t{1}, size_t{13}, size_t{100}}) {
    Spit(path_, bytes.substr(0, sizeof(SpoolHeader)));
    std::string error;
    const auto reader = SpoolReader::Open(path_, &error);
    ASSERT_NE(reader, nullptr) << error;
    reader->Follow(true);
    std::vector<SpoolRecord> seen;
    SpoolRecord record;
    for (size_t size = sizeof(SpoolHeader); size < bytes.size(); size += step) {
      Grow(bytes.substr(0, size));
      while (reader->Next(&record)) seen.push_back(record);
      ASSERT_FALSE(reader->end().complete);
    }
    Grow(bytes);
    while (reader->Next(&record)) seen.push_back(record);
    ASSERT_EQ(seen.size(), whole.records.size());
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(std::memcmp(&seen[i].record, &whole.records[i].record, sizeof(TraceRecord)), 0) << i;
    }
    EXPECT_TRUE(reader->end().complete);
    EXPECT_EQ(reader->end().damaged_bytes, whole.end().damaged_bytes);
    EXPECT_EQ(reader->end().missing_chunks, 2U);
    EXPECT_EQ(reader->end().missing_records, 5U);
    EXPECT_EQ(reader->end().left_bytes, 0U);
  }
}

// Bytes that were not there yet, on a file system of several machines, are not damage.
TEST_F(SpoolReaderTest, WhoFollowsLooksAtTheLastChunkAgain) {
  WriteSample();
  const std::string bytes = Slurp(path_);
  const std::vector<size_t> at = Boundaries(bytes);
  std::string early = bytes.substr(0, at[7]);
  std::memset(early.data() + at[6], 0, at[7] - at[6]);
  Spit(path_, early);
  std::string error;
  const auto reader = SpoolReader::Open(path_, &error);
  ASSERT_NE(reader, nullptr) << error;
  reader->Follow(true);
  size_t records = 0;
  SpoolRecord record;
  while (reader->Next(&record)) ++records;
  EXPECT_EQ(reader->end().left_bytes, at[7] - at[6]);
  EXPECT_EQ(reader->end().left_why, "what follows is no chunk");
  Grow(bytes);
  while (reader->Next(&record)) ++records;
  EXPECT_EQ(records, 10U);
  EXPECT_EQ(reader->end().damaged_bytes + reader->end().left_bytes, 0U);
  EXPECT_TRUE(reader->end().complete);
}

TEST_F(SpoolReaderTest, WhoFollowsWaitsBehindMuchThatIsNoChunk) {
  WriteSample();
  const std::string bytes = Slurp(path_);
  const size_t at = Boundaries(bytes)[6];
  const std::string early = bytes.substr(0, at) + std::string(2'000'000, 'x');
  Spit(path_, early);
  std::string error;
  const auto reader = SpoolReader::Open(path_, &error);
  ASSERT_NE(reader, nullptr) << error;
  reader->Follow(true);
  size_t records = 0;
  SpoolRecord record;
  for (int i = 0; i < 3; ++i) {
    while (reader->Next(&record)) ++records;
    EXPECT_EQ(reader->end().left_bytes, 2'000'000U);
    EXPECT_EQ(reader->end().left_why, "what follows is no chunk");
  }
  Grow(early + bytes.substr(at));
  while (reader->Next(&record)) ++records;
  EXPECT_EQ(records, 10U);
  EXPECT_EQ(reader->end().damaged_bytes, 2'000'000U);
  EXPECT_EQ(reader->end().missing_chunks, 0U);
  EXPECT_EQ(reader->end().left_why, "");
  EXPECT_TRUE(reader->end().complete);
}

// Headers everywhere, each of a chunk as large as chunks get: a checksum of each would be 16 GiB of work.
TEST_F(SpoolReaderTest, AFileThatMakesWorkIsGivenUp) {
  Thread(1);
  ASSERT_TRUE(chunks_.Flush());
  std::string bytes = Slurp(path_);
  const size_t begins = bytes.size();
  std::string pair(16, '\0');
  std::memcpy(pair.data(), &kChunkMagic, sizeof(kChunkMagic));
  std::memcpy(pair.data() + 8, &kMaxPayloadBytes, sizeof(kMaxPayloadBytes));
  for (int i = 0; i < 1 << 18; ++i) bytes += pair;
  bytes += Sealed(Slurp(path_), sizeof(SpoolHeader), 1, 0);
  Spit(path_, bytes);
  const Spool spool = ReadSpool(path_);
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  EXPECT_EQ(spool.end().read_bytes, begins);
  EXPECT_EQ(spool.end().left_bytes, bytes.size() - begins);
  EXPECT_EQ(spool.end().left_why, "a chunk is damaged");
}

// A file can be made as large as one likes without a byte in it.
TEST_F(SpoolReaderTest, AFileOfNothingIsNotReadThrough) {
  WriteSample();
  constexpr uint64_t kSize = uint64_t{8} << 30;
  const std::string bytes = Slurp(path_);
  const size_t at = Boundaries(bytes)[6];
  Spit(path_, bytes.substr(0, at));
  std::error_code error;
  std::filesystem::resize_file(path_, kSize, error);
  if (error) GTEST_SKIP() << "no room for it: " << error.message();
  Spool spool = ReadSpool(path_);
  EXPECT_EQ(spool.end().read_bytes, at);
  EXPECT_EQ(spool.end().left_bytes, kSize - at);
  EXPECT_EQ(spool.end().left_why, "what follows is no chunk");
  // With something at its end, which is found.
  std::ofstream(path_, std::ios::binary | std::ios::app) << bytes.substr(at);
  spool = ReadSpool(path_);
  EXPECT_EQ(spool.records.size(), 10U);
  EXPECT_EQ(spool.end().damaged_bytes, kSize - at);
  EXPECT_TRUE(spool.end().complete);
}

// What has a right checksum and is nonsense all the same.
TEST_F(SpoolReaderTest, RandomBytesNeverHurtTheReader) {
  WriteSample();
  const std::string bytes = Slurp(path_);
  const std::vector<size_t> boundaries = Boundaries(bytes);
  std::mt19937 random(20240611);
  size_t malformed = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string broken = bytes;
    if (round % 3 == 0) {
      broken.resize(random() % 2000);
      for (char& byte : broken) byte = static_cast<char>(random());
      if (round % 2 == 0)
        broken.replace(0, std::min(broken.size(), sizeof(SpoolHeader)), bytes, 0, sizeof(SpoolHeader));
    } else {
      const size_t chunk = random() % (boundaries.size() - 1);
      const size_t from = boundaries[chunk];
      const size_t size = boundaries[chunk + 1] - from;
      for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips) {
        const size_t at = sizeof(ChunkHeader) + random() % (size - sizeof(ChunkHeader));
        broken[from + at] = static_cast<char>(random() % 2 == 0 ? random() : random() % 4);
      }
      ChunkHeader header;
      std::memcpy(static_cast<void*>(&header), broken.data() + from, sizeof(header));
      header.payload_bytes = static_cast<uint32_t>(size - sizeof(header));
      header.kind = static_cast<uint16_t>(random() % 4 == 0 ? random() % 9 : header.kind);
      std::memcpy(broken.data() + from, &header, sizeof(header));
      header.checksum = Crc32c(0, broken.data() + from + kChecksumFrom, size - kChecksumFrom);
      std::memcpy(broken.data() + from, &header, sizeof(header));
    }
    Spit(path_, broken);
    const Spool spool = ReadSpool(path_);
    if (spool.reader == nullptr) {
      ASSERT_NE(spool.error, "");
      continue;
    }
    ASSERT_LE(spool.end().read_bytes, broken.size());
    ASSERT_EQ(spool.end().records, spool.records.size());
    malformed += spool.end().malformed_chunks;
  }
  EXPECT_GT(malformed, 100U);
}

TEST_F(SpoolReaderTest, WhatIsNewerIsSkippedAndCounted) {
  Thread(1);
  Records(1, 0, {CallAt(1, 70), CallAt(2, 71)}, /*more=*/24);
  chunks_.Begin(static_cast<ChunkKind>(99));
  chunks_.PutText("what might come");
  chunks_.End();
  TraceRecord unknown = CallAt(3);
  unknown.kind = static_cast<RecordKind>(77);
  Records(1, 2, {unknown, CallAt(4, 72)});
  Records(1, 4, {CallAt(5), CallAt(6)}, 0, kRecordVersion + 1);
  Records(1, 6, {CallAt(7, 73)});
  End();
  std::string bytes = Slurp(path_);
  Spool spool = ReadSpool(path_);
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  std::vector<uint64_t> seen;
  for (const SpoolRecord& record : spool.records) seen.push_back(record.record.bytes);
  EXPECT_EQ(seen, (std::vector<uint64_t>{70, 71, 72, 73}));
  EXPECT_EQ(spool.end().skipped_chunks, 1U);
  EXPECT_EQ(spool.end().skipped_records, 3U);
  EXPECT_EQ(spool.end().malformed_chunks, 0U);
  EXPECT_EQ(spool.end().missing_records, 0U);
  EXPECT_TRUE(spool.end().complete);

  // A newer version of a kind that is known.
  const size_t at = Boundaries(bytes)[1];
  bytes[at + offsetof(ChunkHeader, version)] = 9;
  ChunkHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data() + at, sizeof(header));
  header.checksum = Crc32c(0, bytes.data() + at + kChecksumFrom, sizeof(header) - kChecksumFrom + header.payload_bytes);
  std::memcpy(bytes.data() + at, &header, sizeof(header));
  Spit(path_, bytes);
  spool = ReadSpool(path_);
  EXPECT_EQ(spool.end().skipped_chunks, 2U);
  EXPECT_EQ(spool.records.size(), 2U);
}

// They stand among thread 0's own, come in the order in which they were written, and are counted with those.
TEST_F(SpoolReaderTest, ActivitiesComeAsTheyWereWritten) {
  const auto kernel = [](uint64_t start, uint32_t name) {
    return RecordOf(KernelWork{.work = {.start_ns = start, .end_ns = start + 1, .device = 3}, .name = name});
  };
  const auto put = [&](uint64_t first, const std::vector<ActivityRecord>& activities, uint16_t version) {
    Put(ChunkKind::kActivities, 0, first, activities, 8, version);
  };
  Thread(1);
  chunks_.SetPass(100);
  Records(1, 0, {CallAt(90, 70)});
  put(0, {kernel(50, 1), kernel(20, 2)}, kActivityVersion);
  Records(0, 2, {MarkRecord(99, 0, 5)});
  chunks_.SetPass(200);
  Records(1, 1, {CallAt(120, 71)});
  ActivityRecord unknown = kernel(1, 3);
  unknown.kind = static_cast<ActivityKind>(9);
  put(5, {unknown, kernel(110, 4)}, kActivityVersion);  // two are missing before it
  put(7, {kernel(1, 5)}, kActivityVersion + 1);
  End();
  const Spool spool = ReadSpool(path_);
  std::vector<uint64_t> calls;
  std::vector<uint32_t> kernels;
  for (const SpoolRecord& record : spool.records) {
    if (record.record.kind == RecordKind::kCall) calls.push_back(record.record.bytes);
    if (record.record.kind != RecordKind::kActivity) continue;
    kernels.push_back(KernelOf(record.activity).name);
    EXPECT_EQ(record.record.start_ns, record.activity.start_ns);
    EXPECT_EQ(record.record.end_ns, record.activity.end_ns);
    EXPECT_EQ(record.thread, 0U);
    EXPECT_EQ(record.missing, kernels.back() == 4 ? 2U : 0U);
  }
  EXPECT_EQ(calls, (std::vector<uint64_t>{70, 71}));
  EXPECT_EQ(kernels, (std::vector<uint32_t>{1, 2, 4}));
  EXPECT_EQ(spool.end().skipped_records, 2U);
  EXPECT_EQ(spool.end().missing_records, 2U);
  EXPECT_EQ(spool.end().malformed_chunks, 0U);
  EXPECT_EQ(spool.end().late_records, 0U);
}

// A thread of the program does not make them, and a chunk that is shorter than it says has none.
TEST_F(SpoolReaderTest, ActivitiesThatCannotBeAreMalformed) {
  Thread(1);
  const ActivityRecord activity = RecordOf(SetWork{});
  for (const auto& [thread, count] : {std::pair(1U, 1U), std::pair(0U, 2U), std::pair(0U, 0U)}) {
    const RecordsHead head = {
        .thread = thread, .record_bytes = sizeof(activity), .count = count, .version = kActivityVersion};
    chunks_.Begin(ChunkKind::kActivities);
    chunks_.PutBytes(&head, sizeof(head));
    chunks_.PutBytes(&activity, sizeof(activity));
    chunks_.End();
  }
  Records(1, 0, {CallAt(90, 70)});
  End();
  const Spool spool = ReadSpool(path_);
  EXPECT_EQ(spool.end().malformed_chunks, 3U);
  EXPECT_EQ(spool.end().missing_records, 0U);
  EXPECT_EQ(spool.records.size(), 1U);
}

TEST_F(SpoolReaderTest, StacksLeadOutwardsAndEnd) {
  Stacks({{2, 0, 7}, {3, 2, 8}, {9, kCutSpoolStack, 7}});
  Stacks({{4, 3, 0}});
  EXPECT_TRUE(chunks_.Flush());
  // A parent that is not there yet, or itself; a number twice, or one that means something else; too few bytes.
  for (const StackEntry& bad : {StackEntry{5, 6, 1}, {5, 5, 1}, {4, 2, 1}, {1, 0, 1}, {0, 0, 1}}) Stacks({bad});
  chunks_.Begin(ChunkKind::kStacks);
  chunks_.PutNumber(2);
  for (const uint32_t number : {10U, 2U, 1U, 11U}) chunks_.PutNumber(number);
  chunks_.End();
  End();
  const Spool spool = ReadSpool(path_);
  EXPECT_EQ(spool.end().malformed_chunks, 6U);
  ASSERT_NE(spool.reader->StackOf(4), nullptr);
  EXPECT_EQ(spool.reader->StackOf(4)->site, 0U);
  EXPECT_EQ(spool.reader->StackOf(4)->parent, 3U);
  EXPECT_EQ(spool.reader->StackOf(3)->site, 8U);
  EXPECT_EQ(spool.reader->StackOf(3)->parent, 2U);
  EXPECT_EQ(spool.reader->StackOf(2)->parent, 0U);
  EXPECT_EQ(spool.reader->StackOf(9)->parent, kCutSpoolStack);
  for (const uint32_t none : {0U, 1U, 5U, 11U}) EXPECT_EQ(spool.reader->StackOf(none), nullptr) << none;
}

TEST_F(SpoolReaderTest, AStackThatIsBeforeItsParentIsMalformed) {
  Stacks({{9, 0, 7}});
  Stacks({{5, 9, 8}});
  Stacks({{4, 0, 7}});
  EXPECT_TRUE(chunks_.Flush());
  const Spool spool = ReadSpool(path_);
  EXPECT_EQ(spool.end().malformed_chunks, 1U);
  EXPECT_EQ(spool.reader->StackOf(5), nullptr);
  EXPECT_NE(spool.reader->StackOf(4), nullptr);
}

TEST_F(SpoolReaderTest, AnotherFormatIsNamed) {
  WriteSample();
  std::string bytes = Slurp(path_);
  bytes[offsetof(SpoolHeader, format)] = 1;
  Spit(path_, bytes);
  EXPECT_EQ(ReadSpool(path_).error,
            path_ +
                ": recorded by an older slipstream (format 1, this one reads format 2): read it with the slipstream "
                "that recorded it, or record again");
  bytes[offsetof(SpoolHeader, format)] = 3;
  Spit(path_, bytes);
  EXPECT_EQ(ReadSpool(path_).error,
            path_ +
                ": recorded by a newer slipstream (format 3, this one reads format 2): read it with a slipstream "
                "that is at least as new");
  std::reverse(bytes.begin(), bytes.begin() + sizeof(uint64_t));
  Spit(path_, bytes);
  EXPECT_NE(ReadSpool(path_).error.find("other byte order"), std::string::npos);
  Spit(path_, std::string(100, 'x'));
  EXPECT_NE(ReadSpool(path_).error.find("not a spool file"), std::string::npos);
  EXPECT_NE(ReadSpool(directory_).error.find("not a file"), std::string::npos);
  EXPECT_NE(ReadSpool(directory_ + "/none").error.find("No such file"), std::string::npos);
}

TEST_F(SpoolReaderTest, RecordsThatShouldBeThereAreMissed) {
  Thread(1);
  Records(1, 0, {CallAt(1), CallAt(2)});
  Records(1, 5, {CallAt(3)});
  Records(1, 4, {CallAt(4)});  // again
  Records(9, 0, {CallAt(5)});  // of no thread
  ThreadEnds(1, 8, 0);
  End();
  const Spool spool = ReadSpool(path_);
  EXPECT_EQ(spool.records.size(), 3U);
  EXPECT_EQ(spool.end().missing_records, 5U);
  EXPECT_EQ(spool.end().malformed_chunks, 2U);
}

TEST_F(SpoolReaderTest, NothingBehindTheEnd) {
  End();
  const std::string whole = Slurp(path_);
  EXPECT_TRUE(ReadSpool(path_).end().complete);
  Spit(path_, whole + "x");
  const Spool spool = ReadSpool(path_);
  EXPECT_FALSE(spool.end().complete);
  EXPECT_EQ(spool.end().left_bytes, 1U);
}

TEST_F(SpoolReaderTest, SpoolsAreListedByNameAndNothingElse) {
  Spit(directory_ + "/b.spool", "");
  Spit(directory_ + "/a.counters", "");
  std::string error;
  EXPECT_EQ(ListSpools(directory_, &error), (std::vector<std::string>{directory_ + "/b.spool", path_}));
  EXPECT_EQ(error, "");
  EXPECT_TRUE(ListSpools(directory_ + "/none", &error).empty());
  EXPECT_NE(error.find("No such file"), std::string::npos);
}

class ChunkWriterTest : public SpoolTest {};

TEST_F(ChunkWriterTest, TheLimitLeavesRoomForTheEnd) {
  for (uint64_t limit = ChunkWriter::kMinFileBytes; limit < 900; limit += 37) {
    SpoolFile file{FileCalls{}};
    const std::string name = std::to_string(limit) + ".spool";
    ASSERT_EQ(file.Create(directory_, name).problem, SpoolProblem::kNone);
    ChunkWriter chunks(&file, limit);
    chunks.Start(1);
    size_t facts = 0;
    for (int i = 0; i < 100; ++i) {
      chunks.Begin(ChunkKind::kFacts);
      chunks.PutNumber(1);
      chunks.PutText("key" + std::to_string(i));
      chunks.PutText(std::string(static_cast<size_t>(i), 'v'));
      if (chunks.End()) ++facts;
      if (i % 3 == 0) chunks.Flush();
    }
    EXPECT_EQ(chunks.stopped(), EndReason::kLimit);
    EXPECT_TRUE(chunks.Finish({.reason = static_cast<uint32_t>(chunks.stopped())}));
    EXPECT_LE(std::filesystem::file_size(directory_ + "/" + name), limit);
    const Spool spool = ReadSpool(directory_ + "/" + name);
    EXPECT_TRUE(spool.end().complete);
    EXPECT_EQ(spool.end().reason, EndReason::kLimit);
    EXPECT_EQ(spool.reader->facts().size(), facts);
    // One after the other, from the first one on.
    if (facts > 0) {
      EXPECT_EQ(spool.reader->facts().count("key" + std::to_string(facts - 1)), 1U);
    }
  }
}

}  // namespace
}  // namespace slipstream::tracer
