// Writes a spool file of any size, as a training loop would have it, for trace_build.py.
//
//   trace_spool DIRECTORY BYTES                 a little more than so many bytes of it
//   trace_spool DIRECTORY SECONDS first MAX     what the library keeps of so many seconds of it in a file of MAX bytes:
//   trace_spool DIRECTORY SECONDS newest MAX    the first records (tracer.keep), or the newest
//
// DIRECTORY must be there, and nobody else may be able to write to it; the file is trace.spool. Four threads: the
// program's own, which launches kernels from 40 lines in ranges and steps; autograd's; two loaders, which copy. Of 100
// calls 71 launch a kernel and 8 copy, each with its work on the device; a copy has a decision; there are allocations,
// what the pool holds, and readings of clocks. Call for call the same each time. A second has 200,000 calls. Prints one
// line of JSON: the bytes, those on the disk, and records by kind, as they were made. Exit status: 0, 1 when it could
// not be written, 2 wrong usage.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/number.h"
#include "tracer/spool/block_record.h"
#include "tracer/spool/chunk_writer.h"
#include "tracer/spool/device_work.h"
#include "tracer/spool/process_facts.h"
#include "tracer/spool/range_record.h"

namespace {

using slipstream::tracer::ActivityRecord;
using slipstream::tracer::ChunkKind;
using slipstream::tracer::ChunkWriter;
using slipstream::tracer::EndReason;
using slipstream::tracer::NameTable;
using slipstream::tracer::RecordsHead;
using slipstream::tracer::SpoolFile;
using slipstream::tracer::TraceRecord;

constexpr char kName[] = "trace.spool";
constexpr uint64_t kStartNs = 1'000'000'000'000;
constexpr uint64_t kStartUnixNs = 1'700'000'000'000'000'000;
constexpr uint64_t kBaseNs = kStartNs;  // what the device's times are told without
constexpr uint64_t kCallNs = 5000;      // from one call to the next
constexpr uint64_t kCallsOfStep = 200;
constexpr uint64_t kStepsOfRound = 8;  // that the writer finds at once
constexpr uint64_t kRoundsBetweenClocks = 64;
constexpr uint32_t kLines = 40;
constexpr uint32_t kKernels = 50;
constexpr uint32_t kThreads = 4;
constexpr size_t kRecordsOfChunk = 800;  // of the larger kind too

enum Hook : uint16_t { kLaunch, kCopy, kSynchronize, kMalloc, kFree, kEvent };
constexpr const char* kHooks[] = {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize",
                                  "cudaMalloc",       "cudaFree",        "cudaEventRecord"};
constexpr const char* kDecisions[] = {"transfer.h2d.promoted.small", "transfer.h2d.declined.pinned"};  // from 1
enum Range : uint32_t { kNoRange, kStep, kForward, kBackward };
constexpr const char* kRanges[] = {"train_step", "forward", "backward"};  // from 1

class SpoolMaker {
 public:
  explicit SpoolMaker(const std::string& directory, uint64_t max_bytes = uint64_t{1} << 50, bool keep_newest = false)
      : chunks_(&file_, max_bytes) {
    if (file_.Create(directory, kName).problem != slipstream::tracer::SpoolProblem::kNone) return;
    ok_ = chunks_.valid() && (!keep_newest || file_.CanGiveBack() == 0);
    if (!ok_) return;
    if (keep_newest) chunks_.KeepNewest();
    chunks_.Start(kStartUnixNs);
    chunks_.SetPass(kStartNs);
    Introduce();
  }

  bool Make(uint64_t bytes) {
    for (uint64_t round = 0; ok_ && bytes_ < bytes; ++round) Round(round);
    return ok_ && End() && chunks_.stopped() == EndReason::kFinished;
  }

  // A file that is full is what it is for.
  bool MakeSeconds(uint64_t seconds) {
    const uint64_t rounds = seconds * 1'000'000'000 / (kStepsOfRound * kCallsOfStep * kCallNs);
    for (uint64_t round = 0; ok_ && round < rounds; ++round) Round(round);
    return End() && chunks_.stopped() != EndReason::kError;
  }

  std::string Counts() const {
    return "\"calls\": " + std::to_string(calls_) + ", \"activities\": " + std::to_string(activities_made_) +
           ", \"decisions\": " + std::to_string(decisions_) + ", \"steps\": " + std::to_string(steps_) +
           ", \"records\": " + std::to_string(made_[0] + made_[1] + made_[2] + made_[3] + made_[4]);
  }

 private:
  bool End() {
    chunks_.Flush();
    const EndReason reason = chunks_.stopped();
    return chunks_.Finish({.reason = static_cast<uint32_t>(reason),
                           .records = chunks_.records(),
                           .dropped = dropped_,
                           .given_up_records = chunks_.given_up_records()});
  }

  // With what everything behind it refers to.
  void BeginSection(uint64_t now) {
    if (!chunks_.BeginSection(made_[0], now)) return;
    Introduce();
    const std::vector<TraceRecord> clock = {
        slipstream::tracer::ClockRecord(now, now + 100, kStartUnixNs + now - kStartNs, now)};
    Write(ChunkKind::kRecords, 0, slipstream::tracer::kRecordVersion, clock);
  }

  void Introduce() {
    const std::pair<std::string, std::string> facts[] = {{slipstream::tracer::kFactPid, "4242"},
                                                         {slipstream::tracer::kFactHost, "bench"},
                                                         {slipstream::tracer::kFactRank, "0"},
                                                         {slipstream::tracer::kFactExecutable, "/usr/bin/python3"}};
    chunks_.Begin(ChunkKind::kFacts);
    chunks_.PutNumber(static_cast<uint32_t>(std::size(facts)));
    for (const auto& [key, value] : facts) {
      chunks_.PutText(key);
      chunks_.PutText(value);
    }
    chunks_.End();
    Names(NameTable::kHooks, kHooks, 0);
    Names(NameTable::kDecisions, kDecisions, 1);
    Names(NameTable::kRanges, kRanges, 1);
    chunks_.Begin(ChunkKind::kNames);
    chunks_.PutNumber(static_cast<uint32_t>(NameTable::kKernels));
    chunks_.PutNumber(kKernels);
    for (uint32_t i = 1; i <= kKernels; ++i) {
      chunks_.PutNumber(i);
      chunks_.PutText("_Z6kernelILi" + std::to_string(i) + "EEvPf");
    }
    chunks_.End();
    chunks_.Begin(ChunkKind::kSites);
    chunks_.PutNumber(kLines);
    for (uint32_t i = 1; i <= kLines; ++i) {
      chunks_.PutNumber(i);
      chunks_.PutNumber(10 * i);
      chunks_.PutText("/data/project/train.py");
      chunks_.PutText("Trainer.step");
    }
    chunks_.End();
    constexpr const char* kThreadNames[kThreads] = {"python3", "pt_autograd_0", "loader_0", "loader_1"};
    for (uint32_t i = 1; i <= kThreads; ++i) {
      chunks_.Begin(ChunkKind::kThread);
      chunks_.PutNumber(i);
      chunks_.PutNumber(4241 + i);
      chunks_.PutText(kThreadNames[i - 1]);
      chunks_.PutBytes(&made_[i], sizeof(made_[i]));
      chunks_.End();
    }
  }

  void Names(NameTable table, std::span<const char* const> names, uint32_t first) {
    chunks_.Begin(ChunkKind::kNames);
    chunks_.PutNumber(static_cast<uint32_t>(table));
    chunks_.PutNumber(static_cast<uint32_t>(names.size()));
    for (const char* const name : names) {
      chunks_.PutNumber(first++);
      chunks_.PutText(name);
    }
    chunks_.End();
  }

  // What the writer found in all rings at once.
  void Round(uint64_t round) {
    const uint64_t begin = kStartNs + round * kStepsOfRound * kCallsOfStep * kCallNs;
    chunks_.SetPass(begin);
    if (chunks_.SectionIsFull()) BeginSection(begin);
    if (round % kRoundsBetweenClocks == 0) {
      records_[0].push_back(
          slipstream::tracer::ClockRecord(begin, begin + 100, kStartUnixNs + begin - kStartNs, begin));
      const auto reading =
          round == 0 ? slipstream::tracer::DeviceReading::kBegins : slipstream::tracer::DeviceReading::kBetween;
      records_[0].push_back(
          slipstream::tracer::DeviceClockRecord(begin, begin + 100, kBaseNs + begin + 50, kBaseNs, reading));
    }
    for (uint64_t i = 0; i < kStepsOfRound; ++i) Step(begin + i * kCallsOfStep * kCallNs);
    for (uint32_t thread = 0; thread <= kThreads; ++thread) {
      Write(ChunkKind::kRecords, thread, slipstream::tracer::kRecordVersion, records_[thread]);
      records_[thread].clear();
    }
    Write(ChunkKind::kActivities, 0, slipstream::tracer::kActivityVersion, activities_);
    activities_.clear();
  }

  template <typename Record>
  void Write(ChunkKind kind, uint32_t thread, uint16_t version, const std::vector<Record>& records) {
    for (size_t at = 0; at < records.size(); at += kRecordsOfChunk) {
      const size_t count = std::min(kRecordsOfChunk, records.size() - at);
      const RecordsHead head = {.thread = thread,
                                .record_bytes = sizeof(Record),
                                .first = made_[thread],
                                .count = static_cast<uint32_t>(count),
                                .version = version};
      chunks_.Begin(kind);
      chunks_.PutBytes(&head, sizeof(head));
      chunks_.PutBytes(records.data() + at, count * sizeof(Record));
      if (!chunks_.End(count)) {
        ok_ = false;
        dropped_ += count;
        continue;
      }
      made_[thread] += count;
      bytes_ += sizeof(slipstream::tracer::ChunkHeader) + sizeof(head) + count * sizeof(Record);
    }
  }

  void Step(uint64_t begin) {
    for (uint64_t i = 0; i < kCallsOfStep; ++i) {
      // The program's own thread goes forward, then autograd's back; the loaders copy all the while.
      const uint64_t of_hundred = i % 100;
      const bool copies = of_hundred % 11 == 5 && of_hundred < 90;
      const bool is_back = i >= kCallsOfStep / 2;
      const uint32_t thread = copies ? (is_back ? 4 : 3) : is_back ? 2 : 1;
      const Hook hook = copies            ? kCopy
                        : of_hundred < 78 ? kLaunch
                        : of_hundred < 90 ? kEvent
                        : of_hundred < 94 ? kMalloc
                        : of_hundred < 98 ? kFree
                                          : kSynchronize;
      Call(begin + i * kCallNs, thread, hook, i);
    }
    const uint64_t end = begin + kCallsOfStep * kCallNs - 1;
    const uint64_t middle = begin + kCallsOfStep / 2 * kCallNs;
    AddRange(begin, middle - 1, kForward);
    AddRange(middle, end - 1, kBackward);
    AddRange(begin, end, kStep);
    records_[0].push_back(slipstream::tracer::MemoryRecord(
        end, {.device = 0, .live_bytes = (1 + steps_ % 64) << 20, .idle_bytes = uint64_t{8} << 20}));
    ++steps_;
  }

  void AddRange(uint64_t begin, uint64_t end, Range name) {
    records_[1].push_back(slipstream::tracer::RecordOf(slipstream::tracer::RangeRecord{
        .start_ns = begin, .end_ns = end, .kind = slipstream::tracer::RangeKind::kPushed, .name = name}));
  }

  void Call(uint64_t at, uint32_t thread, Hook hook, uint64_t of_step) {
    const uint64_t end = at + 2000 + of_step * 10;
    const uint64_t number = ++calls_;
    const auto correlation = static_cast<uint32_t>(number);
    const auto site = static_cast<uint32_t>(1 + of_step % kLines);
    const uint64_t bytes = hook == kCopy ? uint64_t{4096} << of_step % 12 : hook == kMalloc ? 1 << 20 : 0;
    const auto decision = static_cast<uint16_t>(hook == kCopy ? 1 + number % 2 : 0);
    if (decision != 0) {
      ++decisions_;
      records_[thread].push_back(slipstream::tracer::RecordOf(slipstream::tracer::DecisionMade{
          .at_ns = end - 100,
          .decision = decision,
          .bytes = bytes,
          .saved_ns = decision == 1 ? 1500 : 0,
          .known = decision == 1 ? slipstream::tracer::Known::kModeled : slipstream::tracer::Known::kNot,
          .call = number}));
    }
    records_[thread].push_back({.start_ns = at,
                                .end_ns = end,
                                .bytes = bytes,
                                .stream = uint64_t{0x7f0000000000} + thread,
                                .number = number,
                                .site = site,
                                .correlation = hook == kLaunch || hook == kCopy ? correlation : 0,
                                .hook = hook,
                                .decision = decision,
                                .device = 0,
                                .kind = slipstream::tracer::RecordKind::kCall,
                                .flags = thread == 2 ? slipstream::tracer::kSiteIsBackward : uint8_t{0}});
    if (hook == kMalloc || hook == kFree) AddBlock(at, end, thread, hook, site, of_step);
    if (hook == kLaunch || hook == kCopy) AddWork(end, hook, correlation, bytes);
  }

  void AddBlock(uint64_t at, uint64_t end, uint32_t thread, Hook hook, uint32_t site, uint64_t of_step) {
    const bool is_new = hook == kMalloc;
    // The four that are given back are those that the same hundred calls allocated.
    const uint64_t block = of_step % 100 - (is_new ? 90 : 94) + (of_step >= 100 ? 4 : 0);
    records_[thread].push_back(slipstream::tracer::RecordOf(slipstream::tracer::BlockRecord{
        .start_ns = at,
        .end_ns = end,
        .use = is_new ? slipstream::tracer::MemoryUse::kAllocated : slipstream::tracer::MemoryUse::kFreed,
        .kind = slipstream::tracer::MemoryKind::kDevice,
        .address = 0x7f0000000000 + (block << 21),
        .bytes = is_new ? uint64_t{1} << 20 : 0,
        .device = static_cast<int16_t>(is_new ? 0 : -1),
        .site = site,
        .hook = hook}));
  }

  // Asked for at `end`, and done 10 us later.
  void AddWork(uint64_t end, Hook hook, uint32_t correlation, uint64_t bytes) {
    ++activities_made_;
    const slipstream::tracer::DeviceWork work = {.start_ns = end + 10'000,
                                                 .end_ns = end + 14'000,
                                                 .device = 0,
                                                 .context = 1,
                                                 .stream = hook == kCopy ? 13U : 7U,
                                                 .correlation = correlation};
    if (hook == kCopy) {
      activities_.push_back(slipstream::tracer::RecordOf(
          slipstream::tracer::CopyWork{.work = work, .bytes = bytes, .kind = 1, .from = 1, .to = 3}));
      return;
    }
    activities_.push_back(
        slipstream::tracer::RecordOf(slipstream::tracer::KernelWork{.work = work,
                                                                    .name = 1 + correlation % kKernels,
                                                                    .grid = {128, 4, 1},
                                                                    .block = {256, 1, 1},
                                                                    .registers = 64,
                                                                    .static_shared_bytes = 0,
                                                                    .dynamic_shared_bytes = 49152}));
  }

  SpoolFile file_{{}};
  ChunkWriter chunks_;
  bool ok_ = false;
  uint64_t dropped_ = 0;
  uint64_t bytes_ = 0;
  std::array<std::vector<TraceRecord>, kThreads + 1> records_;  // by thread, of the round
  std::vector<ActivityRecord> activities_;
  std::array<uint64_t, kThreads + 1> made_{};  // records, by thread
  uint64_t calls_ = 0;
  uint64_t activities_made_ = 0;
  uint64_t decisions_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const auto amount = argc == 3 || argc == 5 ? slipstream::policy::NumberIn<uint64_t>(argv[2]) : std::nullopt;
  const std::string_view keep = argc == 5 ? argv[3] : "";
  const auto most = argc == 5 ? slipstream::policy::NumberIn<uint64_t>(argv[4]) : std::nullopt;
  const bool bounded = most && (keep == "first" || keep == "newest");
  if (!amount || bounded != (argc == 5)) {
    std::fputs("usage: trace_spool DIRECTORY BYTES\n       trace_spool DIRECTORY SECONDS first|newest MAX\n", stderr);
    return 2;
  }
  const std::string path = std::string(argv[1]) + "/" + kName;
  SpoolMaker maker(argv[1], bounded ? *most : uint64_t{1} << 50, keep == "newest");
  if (!(bounded ? maker.MakeSeconds(*amount) : maker.Make(*amount))) {
    std::fprintf(stderr, "trace_spool: %s: cannot be written\n", path.c_str());
    return 1;
  }
  constexpr uintmax_t kUnit = 512;  // of st_blocks
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return 1;
  std::printf("{\"bytes\": %ju, \"disk_bytes\": %ju, %s}\n", static_cast<uintmax_t>(facts.st_size),
              static_cast<uintmax_t>(facts.st_blocks) * kUnit, maker.Counts().c_str());
  return 0;
}
