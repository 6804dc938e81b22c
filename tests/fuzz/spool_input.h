// Spool files for the targets that read them: seeds, and right checksums for what was damaged behind them.
//
// Threading: one thread; it makes others.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/target.h"
#include "tests/trace_db/sample_run.h"
#include "tracer/base/clock.h"
#include "tracer/base/crc32c.h"
#include "tracer/spool/activity_record.h"
#include "tracer/spool/chunk_writer.h"
#include "tracer/spool/process_facts.h"
#include "tracer/spool/spool_format.h"
#include "tracer/spool/spool_reader.h"
#include "tracer/spool/trace_record.h"

namespace slipstream::fuzz {

inline std::string BytesOf(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

// By a real recorder.
inline std::string RecordedSpool() {
  const std::string run = Directory() + "/recorded";
  Must(trace_db::RecordSampleRun(run), "the sample can be recorded");
  std::string error;
  const std::vector<std::string> paths = tracer::ListSpools(run, &error);
  Must(paths.size() == 1, "one spool");
  return BytesOf(paths[0]);
}

// Every kind of chunk and of record, with numbers of any size that now and then belong together.
inline std::string SpoolOfEverything(uint64_t seed) {
  using tracer::ChunkKind;
  std::mt19937_64 random(seed);
  const auto few = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  const std::string name = "everything-" + std::to_string(seed) + ".spool";
  const std::string written = Directory() + "/written";
  mkdir(written.c_str(), S_IRWXU);
  tracer::SpoolFile file{{}};
  Must(file.Create(written, name).problem == tracer::SpoolProblem::kNone, "a spool can be made");
  tracer::ChunkWriter chunks(&file, uint64_t{1} << 30);
  chunks.Start(1'700'000'000'000'000'000);
  chunks.SetPass(1);
  const auto list = [&](ChunkKind kind, uint32_t count, const auto& put) {
    chunks.Begin(kind);
    chunks.PutNumber(count);
    for (uint32_t i = 0; i < count; ++i) put(i);
    chunks.End();
  };
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"pid", "77"}, {"host", "node"}, {"rank", "1"}, {"world_size", "2"}, {"command_line", std::string("a\0b\0", 4)}};
  list(ChunkKind::kFacts, static_cast<uint32_t>(facts.size()), [&](uint32_t i) {
    chunks.PutText(facts[i].first);
    chunks.PutText(facts[i].second);
  });
  for (uint32_t table = 1; table <= 6; ++table) {
    chunks.Begin(ChunkKind::kNames);
    chunks.PutNumber(table);
    chunks.PutNumber(8);
    for (uint32_t i = 0; i < 8; ++i) {
      chunks.PutNumber(i);
      const char* const hooks[] = {"cudaMalloc",       "cudaFree",        "cudaMemcpyAsync", "cudaStreamSynchronize",
                                   "cudaLaunchKernel", "cudaGraphLaunch", "cudaEventRecord", "cudaStreamWaitEvent"};
      chunks.PutText(table == 1 ? hooks[i]
                                : "_ZN2at6native" + std::to_string(table) + "name\xc3\xa9" + std::to_string(i));
    }
    chunks.End();
  }
  list(ChunkKind::kSites, 6, [&](uint32_t i) {
    chunks.PutNumber(i + 1);
    chunks.PutNumber(10 * i);
    chunks.PutText(i % 2 == 0 ? "/data/train.py" : "<string>");
    chunks.PutText("step" + std::to_string(i));
  });
  list(ChunkKind::kModules, 3, [&](uint32_t i) {
    const uint64_t places[] = {uint64_t{0x1000} * (i + 1), uint64_t{0x1000} * (i + 1) + 0x800};
    chunks.PutNumber(i + 1);
    chunks.PutBytes(places, sizeof(places));
    chunks.PutText("/data/lib" + std::to_string(i) + ".so");
    chunks.PutText(i == 0 ? "" : "0123456789abcdef0123");
  });
  list(ChunkKind::kAddresses, 6, [&](uint32_t i) {
    const uint64_t offset = uint64_t{16} * i;
    chunks.PutNumber(i + 1);
    chunks.PutNumber(i % 4);
    chunks.PutBytes(&offset, sizeof(offset));
  });
  for (const tracer::NameTable table : {tracer::NameTable::kHooks, tracer::NameTable::kDecisions}) {
    chunks.Begin(ChunkKind::kCounters);
    chunks.PutNumber(static_cast<uint32_t>(table));
    chunks.PutNumber(2);
    for (uint32_t i = 0; i < 2; ++i) {
      const tracer::CountersEntry entry = {.number = i + 1, .at_least = {.calls = 3}, .at_most = {.calls = 4}};
      chunks.PutBytes(&entry, sizeof(entry));
    }
    chunks.End();
  }
  list(ChunkKind::kStacks, 12, [&](uint32_t i) {
    chunks.PutNumber(i + 2);
    chunks.PutNumber(few(i + 2));
    chunks.PutNumber(few(4) == 0 ? tracer::kBothSpoolStacks | (2 + few(i + 1))
                                 : (few(2) == 0 ? tracer::kNativeSpoolSite | (1 + few(6)) : few(7)));
  });
  uint64_t made[3] = {};
  uint64_t now = 1'000'000;
  for (uint32_t thread = 1; thread < 3; ++thread) {
    chunks.Begin(ChunkKind::kThread);
    chunks.PutNumber(thread);
    chunks.PutNumber(100 + thread);
    chunks.PutText("thread");
    chunks.End();
  }
  for (int round = 0; round < 6; ++round) {
    if (round == 3) {
      Must(chunks.BeginSection(made[0], tracer::NowNs()), "a section can begin");
      const tracer::GivenUp given_up = {.before_chunk = few(20)};
      chunks.Begin(ChunkKind::kGivenUp);
      chunks.PutBytes(&given_up, sizeof(given_up));
      chunks.End();
    }
    const uint32_t thread = few(3);
    std::vector<tracer::TraceRecord> records;
    for (uint32_t i = 0; i < 12; ++i) {
      tracer::TraceRecord record;
      record.start_ns = now;
      now += few(1000);
      record.end_ns = now;
      record.bytes = few(5) == 0 ? random() : few(1 << 20);
      record.stream = few(5) == 0 ? random() : few(4);
      record.number = few(5) == 0 ? random() : few(1000);
      record.stack = few(15);
      record.site = few(8);
      record.correlation = few(50);
      record.status = few(4) == 0 ? static_cast<int32_t>(few(1000)) : 0;
      record.hook = static_cast<uint16_t>(few(9));
      record.decision = static_cast<uint16_t>(few(9));
      record.device = static_cast<int16_t>(static_cast<int>(few(4)) - 1);
      record.kind = static_cast<tracer::RecordKind>(1 + few(tracer::kLastRecordKind));
      record.flags = static_cast<uint8_t>(few(4) == 0 ? random() : 0);
      records.push_back(record);
    }
    const tracer::RecordsHead head = {.thread = thread,
                                      .record_bytes = sizeof(tracer::TraceRecord),
                                      .first = made[thread],
                                      .count = static_cast<uint32_t>(records.size()),
                                      .version = tracer::kRecordVersion};
    made[thread] += records.size();
    chunks.Begin(ChunkKind::kRecords);
    chunks.PutBytes(&head, sizeof(head));
    for (const tracer::TraceRecord& record : records) chunks.PutBytes(&record, sizeof(record));
    chunks.End(records.size());
    std::vector<tracer::ActivityRecord> activities(4);
    for (tracer::ActivityRecord& activity : activities) {
      activity.start_ns = now + few(1000);
      activity.end_ns = activity.start_ns + few(1000);
      activity.graph_node = few(3) == 0 ? random() : 0;
      activity.correlation = few(50);
      activity.context = 1 + few(2);
      activity.stream = few(4);
      activity.graph = few(3);
      for (uint32_t& number : activity.detail) number = few(5) == 0 ? static_cast<uint32_t>(random()) : few(100);
      activity.device = static_cast<int16_t>(static_cast<int>(few(4)) - 1);
      activity.kind = static_cast<tracer::ActivityKind>(1 + few(tracer::kLastActivityKind));
    }
    const tracer::RecordsHead beside = {.record_bytes = sizeof(tracer::ActivityRecord),
                                        .first = made[0],
                                        .count = static_cast<uint32_t>(activities.size()),
                                        .version = tracer::kActivityVersion};
    made[0] += activities.size();
    chunks.Begin(ChunkKind::kActivities);
    chunks.PutBytes(&beside, sizeof(beside));
    for (const tracer::ActivityRecord& activity : activities) chunks.PutBytes(&activity, sizeof(activity));
    chunks.End(activities.size());
    chunks.SetPass(now);
  }
  if (few(2) == 0) Must(chunks.Stop({.reason = 2}), "a recording can stop");
  Must(chunks.Finish({.reason = 1}), "a spool can be ended");
  file.Close();
  return BytesOf(Directory() + "/written/" + name);
}

inline std::vector<std::string> SpoolSeeds() {
  std::vector<std::string> seeds = {RecordedSpool()};
  for (uint64_t seed = 1; seed <= 6; ++seed) seeds.push_back(SpoolOfEverything(seed));
  return seeds;
}

// Damage behind a checksum is what a reader sees of a writer that is wrong; without one it sees none of it.
inline std::string WithChecksums(std::string_view given) {
  using tracer::Crc32c;
  std::string bytes(given);
  tracer::SpoolHeader header;
  if (bytes.size() < sizeof(header)) return bytes;
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof(header));
  header.magic = tracer::kSpoolMagic;
  header.format = tracer::kSpoolFormat;
  header.checksum = Crc32c(0, reinterpret_cast<const char*>(&header), offsetof(tracer::SpoolHeader, checksum));
  std::memcpy(bytes.data(), &header, sizeof(header));
  uint64_t number = 0;
  size_t at = header.header_bytes;
  while (at <= bytes.size() && bytes.size() - at >= sizeof(tracer::ChunkHeader)) {
    tracer::ChunkHeader chunk;
    std::memcpy(static_cast<void*>(&chunk), bytes.data() + at, sizeof(chunk));
    const size_t left = bytes.size() - at - sizeof(chunk);
    chunk.magic = tracer::kChunkMagic;
    chunk.number = number++;
    if (chunk.payload_bytes > left || chunk.payload_bytes > tracer::kMaxPayloadBytes) {
      chunk.payload_bytes = static_cast<uint32_t>(std::min<size_t>({left, 1000, tracer::kMaxPayloadBytes}));
    }
    chunk.kind = static_cast<uint16_t>(chunk.kind > 2 * tracer::kLastChunkKind ? 1 + chunk.kind % tracer::kLastChunkKind
                                                                               : chunk.kind);
    std::memcpy(bytes.data() + at, &chunk, sizeof(chunk));
    chunk.checksum = Crc32c(0, bytes.data() + at + tracer::kChecksumFrom,
                            sizeof(chunk) - tracer::kChecksumFrom + chunk.payload_bytes);
    std::memcpy(bytes.data() + at, &chunk, sizeof(chunk));
    at += sizeof(chunk) + tracer::PaddedBytes(chunk.payload_bytes);
  }
  return bytes;
}

// Of most inputs; some are left as they are, and some lose whole chunks of those that are right.
inline std::string Repaired(std::string_view bytes) {
  const unsigned last = bytes.empty() ? 0 : static_cast<unsigned char>(bytes.back());
  if (last % 8 == 7) return std::string(bytes);
  std::string right = WithChecksums(bytes);
  if (last % 8 == 6) {
    for (size_t at = sizeof(tracer::SpoolHeader) + last; at < right.size(); at += 1500) {
      right[at] = static_cast<char>(right[at] ^ 1);
    }
  }
  return right;
}

}  // namespace slipstream::fuzz
