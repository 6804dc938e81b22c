// What tests of the record path share: a directory of their own, a spool read whole, and the promise of every thread.
//
// Threading: none of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tracer/base/clock.h"
#include "tracer/spool/recorder.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::tracer {

// Not to wait for: long enough for any machine, and a test that needs it has failed.
inline constexpr uint64_t kForeverNs = 60'000'000'000;

class SpoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "slipstream-spool-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::vector<std::string> Spools() const {
    std::string error;
    std::vector<std::string> paths = ListSpools(directory_, &error);
    EXPECT_EQ(error, "");
    return paths;
  }
  std::string OnlySpool() const {
    const std::vector<std::string> paths = Spools();
    EXPECT_EQ(paths.size(), 1U);
    return paths.empty() ? "" : paths[0];
  }

  std::string directory_;
};

inline std::unique_ptr<Recorder> StartRecorder(const RecorderOptions& options) {
  SpoolFailure why;
  std::unique_ptr<Recorder> recorder(Recorder::Start(options, &why));
  EXPECT_NE(recorder, nullptr) << NameOf(why.problem) << " " << why.error;
  return recorder;
}

inline std::string Slurp(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline void Spit(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Where the chunks of a whole spool begin, and where the last one ends.
inline std::vector<size_t> Boundaries(const std::string& bytes) {
  std::vector<size_t> at = {sizeof(SpoolHeader)};
  while (at.back() < bytes.size()) {
    ChunkHeader header;
    std::memcpy(static_cast<void*>(&header), bytes.data() + at.back(), sizeof(header));
    at.push_back(at.back() + sizeof(header) + PaddedBytes(header.payload_bytes));
  }
  return at;
}

// Changes a byte in what a chunk holds, so that its checksum is wrong. Returns its size with its header.
inline size_t DamageChunk(std::string* bytes, size_t chunk) {
  const std::vector<size_t> at = Boundaries(*bytes);
  EXPECT_LT(chunk + 1, at.size());
  (*bytes)[at[chunk] + sizeof(ChunkHeader)] ^= 1;
  return at[chunk + 1] - at[chunk];
}
inline size_t DamageChunk(const std::string& path, size_t chunk) {
  std::string bytes = Slurp(path);
  const size_t size = DamageChunk(&bytes, chunk);
  Spit(path, bytes);
  return size;
}

// The chunks before this one read as zeros, as behind a hole of a file system.
inline void ZeroChunksBefore(const std::string& path, size_t chunk) {
  std::string bytes = Slurp(path);
  const size_t to = Boundaries(bytes).at(chunk);
  bytes.replace(sizeof(SpoolHeader), to - sizeof(SpoolHeader), to - sizeof(SpoolHeader), '\0');
  Spit(path, bytes);
}

struct Spool {
  std::unique_ptr<SpoolReader> reader;
  std::vector<SpoolRecord> records;
  std::string error;

  const SpoolReader::End& end() const { return reader->end(); }
  std::vector<SpoolRecord> Of(RecordKind kind) const {
    std::vector<SpoolRecord> some;
    for (const SpoolRecord& record : records) {
      if (record.record.kind == kind) some.push_back(record);
    }
    return some;
  }
};

inline Spool ReadSpool(const std::string& path) {
  Spool spool;
  spool.reader = SpoolReader::Open(path, &spool.error);
  SpoolRecord record;
  while (spool.reader != nullptr && spool.reader->Next(&record)) spool.records.push_back(record);
  return spool;
}

// A call that says how many its thread made before, and which thread of the test that is.
inline TraceRecord NumberedCall(uint64_t number, uint64_t thread = 0) {
  const uint64_t now = NowNs();
  return {.start_ns = now, .end_ns = now, .bytes = number, .stream = thread, .kind = RecordKind::kCall};
}

// Of threads that made nothing but numbered calls: each one's calls are there in order, and where some are missing a
// drop record says exactly how many. Returns how many calls each thread is known to have made, by its stream, those
// included that were dropped at its end; threads that never got through are not in it. `late`: where rings are short, a
// thread may have made calls before it had one, which are counted for the process and not for the thread.
inline std::map<uint64_t, uint64_t> CheckThreads(const Spool& spool, bool late = false) {
  struct Seen {
    uint64_t calls = 0;
    uint64_t dropped = 0;
    uint64_t stream = ~uint64_t{0};
    uint64_t next_number = 0;
  };
  std::map<uint32_t, Seen> seen;
  for (const SpoolRecord& record : spool.records) {
    if (record.thread == 0) continue;
    Seen& thread = seen[record.thread];
    EXPECT_EQ(record.number, thread.next_number++) << "thread " << record.thread;
    EXPECT_EQ(record.tid, spool.reader->threads().at(record.thread).id);
    if (record.record.kind == RecordKind::kDrop) {
      EXPECT_GT(record.record.bytes, 0U);
      thread.calls += record.record.bytes;
      thread.dropped += record.record.bytes;
      EXPECT_EQ(DroppedUpTo(record.record), thread.dropped);
      continue;
    }
    if (late && thread.stream == ~uint64_t{0}) thread.calls = record.record.bytes;
    EXPECT_EQ(record.record.bytes, thread.calls) << "thread " << record.thread;
    thread.calls = record.record.bytes + 1;
    if (thread.stream != ~uint64_t{0}) {
      EXPECT_EQ(record.record.stream, thread.stream);
    }
    thread.stream = record.record.stream;
  }
  std::map<uint64_t, uint64_t> calls;
  for (const auto& [number, thread] : seen) {
    const SpoolThread& facts = spool.reader->threads().at(number);
    EXPECT_EQ(facts.records, thread.next_number);
    EXPECT_GE(facts.dropped, thread.dropped);
    calls[thread.stream] += thread.calls + facts.dropped - thread.dropped;
  }
  EXPECT_EQ(spool.end().missing_records, 0U);
  EXPECT_EQ(spool.end().malformed_chunks, 0U);
  EXPECT_EQ(spool.end().skipped_chunks, 0U);
  return calls;
}

}  // namespace slipstream::tracer
