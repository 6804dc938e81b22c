// How fast `slipstream export` makes a database of spool files and other files of a database, and `slipstream report`
// reads one.
//
//   export_rate [Google Benchmark's options]; the files go to a directory of its own under TMPDIR, and away again.
//
// sqlite/N   N records of calls in one spool file: as a launch-bound loop has them, on 4 threads and 64 lines of the
// program,
//            every fourth with a decision. Counters: records_per_second; spool_MiB and database_MiB.
// chrome/N, chrome_gz/N, perfetto/N   of the database of that spool; records_per_second and file_MiB.
// report/N   the report of such a database. Counter: records_per_second.
// Exit status: 0, 1 when there could be no files.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/trace/db/database_reader.h"
#include "tools/trace/db/trace_db.h"
#include "tools/trace/export/trace_export.h"
#include "tools/trace/report/report.h"
#include "tracer/base/hook_id.h"
#include "tracer/spool/chunk_writer.h"

namespace {

using slipstream::trace_db::BuildProblem;
using slipstream::trace_db::BuildResult;
using slipstream::trace_db::BuildTraceDatabase;
using slipstream::trace_db::DatabaseReader;
using slipstream::trace_export::ExportOutcome;
using slipstream::trace_export::ExportProblem;
using slipstream::trace_export::ExportTrace;
using slipstream::trace_export::Format;
using slipstream::tracer::ChunkKind;
using slipstream::tracer::ChunkWriter;
using slipstream::tracer::NameTable;
using slipstream::tracer::RecordsHead;
using slipstream::tracer::SpoolFile;
using slipstream::tracer::TraceRecord;

constexpr uint64_t kThreads = 4;
constexpr uint64_t kSites = 64;
constexpr uint64_t kStartNs = 1'000'000'000'000;
constexpr uint64_t kChunk = 500;  // records; of each thread in its turn

std::string g_directory;

// As the recorder would have written it, which drops what comes at this speed.
bool WriteSpool(const std::string& name, uint64_t records) {
  SpoolFile file({});
  if (file.Create(g_directory, name).problem != slipstream::tracer::SpoolProblem::kNone) return false;
  ChunkWriter chunks(&file, uint64_t{1} << 40);
  chunks.Start(1'000'000'000'000'000'000);
  chunks.SetPass(kStartNs);
  const uint32_t hooks = std::min<uint32_t>(40, slipstream::tracer::kHookCount);
  chunks.Begin(ChunkKind::kNames);
  chunks.PutNumber(static_cast<uint32_t>(NameTable::kHooks));
  chunks.PutNumber(hooks);
  for (uint32_t i = 0; i < hooks; ++i) {
    chunks.PutNumber(i);
    chunks.PutText(NameOf(static_cast<slipstream::tracer::HookId>(i)));
  }
  chunks.End();
  chunks.Begin(ChunkKind::kSites);
  chunks.PutNumber(kSites);
  for (uint32_t i = 1; i <= kSites; ++i) {
    chunks.PutNumber(i);
    chunks.PutNumber(10 * i);
    chunks.PutText("/data/project/train.py");
    chunks.PutText("Trainer.step");
  }
  chunks.End();
  for (uint32_t i = 1; i <= kThreads; ++i) {
    chunks.Begin(ChunkKind::kThread);
    chunks.PutNumber(i);
    chunks.PutNumber(4000 + i);
    chunks.PutText("worker");
    chunks.End();
  }
  std::vector<uint64_t> made(kThreads);
  for (uint64_t at = 0; at < records; at += kChunk) {
    const uint64_t thread = at / kChunk % kThreads;
    const uint64_t count = std::min(kChunk, records - at);
    const RecordsHead head = {.thread = static_cast<uint32_t>(thread + 1),
                              .record_bytes = sizeof(TraceRecord),
                              .first = made[thread],
                              .count = static_cast<uint32_t>(count),
                              .version = slipstream::tracer::kRecordVersion};
    made[thread] += count;
    chunks.SetPass(kStartNs + 5000 * at);
    chunks.Begin(ChunkKind::kRecords);
    chunks.PutBytes(&head, sizeof(head));
    for (uint64_t i = at; i < at + count; ++i) {
      const TraceRecord record = {.start_ns = kStartNs + 5000 * i,
                                  .end_ns = kStartNs + 5000 * i + 2000 + i % 1000,
                                  .bytes = i % 3 == 0 ? 4096 * (i % 100) : 0,
                                  .stream = 0x7f0000000000 + i % 4,
                                  .number = i + 1,
                                  .site = static_cast<uint32_t>(1 + i % kSites),
                                  .hook = static_cast<uint16_t>(i % hooks),
                                  .decision = static_cast<uint16_t>(i % 4 == 0 ? 1 + i % 8 : 0),
                                  .device = 0,
                                  .kind = slipstream::tracer::RecordKind::kCall};
      chunks.PutBytes(&record, sizeof(record));
    }
    chunks.End(count);
  }
  return chunks.Finish({.reason = 1, .records = records});
}

constexpr double kMiB = 1 << 20;

// The spool of so many records, made once; empty: it could not be.
std::string SpoolOf(uint64_t records) {
  std::string spool = std::to_string(records) + ".spool";
  if (!std::filesystem::exists(g_directory + "/" + spool) && !WriteSpool(spool, records)) return "";
  return spool;
}

void Sqlite(benchmark::State& state) {
  const auto records = static_cast<uint64_t>(state.range(0));
  const std::string database = g_directory + "/trace.sqlite";
  const std::string spool = SpoolOf(records);
  if (spool.empty()) {
    state.SkipWithError("no spool file could be written");
    return;
  }
  BuildResult result;
  while (state.KeepRunning()) {
    result = BuildTraceDatabase({.run = g_directory + "/" + spool, .database = database, .replace = true});
    if (result.problem != BuildProblem::kNone || result.partial() || result.processes[0].calls != records) {
      state.SkipWithError(("the export failed: " + result.what).c_str());
      return;
    }
  }
  state.counters["records_per_second"] =
      benchmark::Counter(static_cast<double>(records), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["spool_MiB"] = static_cast<double>(std::filesystem::file_size(g_directory + "/" + spool)) / kMiB;
  state.counters["database_MiB"] = static_cast<double>(result.database_bytes) / kMiB;
}

// The database of that spool, made once; empty: it could not be.
std::string DatabaseOf(uint64_t records) {
  std::string database = g_directory + "/" + std::to_string(records) + ".sqlite";
  if (std::filesystem::exists(database)) return database;
  const std::string spool = SpoolOf(records);
  if (spool.empty()) return "";
  const BuildResult built = BuildTraceDatabase({.run = g_directory + "/" + spool, .database = database});
  return built.problem == BuildProblem::kNone ? database : "";
}

void ToFile(benchmark::State& state, Format format, const char* ending) {
  const auto records = static_cast<uint64_t>(state.range(0));
  const std::string database = DatabaseOf(records);
  if (database.empty()) {
    state.SkipWithError("no database could be made");
    return;
  }
  ExportOutcome outcome;
  while (state.KeepRunning()) {
    DatabaseReader reader(database);
    outcome = ExportTrace(
        reader, {.format = format, .run = database, .file = g_directory + "/trace" + ending, .replace = true});
    if (outcome.problem != ExportProblem::kNone || outcome.rows.calls != records) {
      state.SkipWithError(("the export failed: " + outcome.what).c_str());
      return;
    }
  }
  state.counters["records_per_second"] =
      benchmark::Counter(static_cast<double>(records), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["file_MiB"] = static_cast<double>(outcome.bytes) / kMiB;
}

void Report(benchmark::State& state) {
  const auto records = static_cast<uint64_t>(state.range(0));
  const std::string database = DatabaseOf(records);
  if (database.empty()) {
    state.SkipWithError("no database could be made");
    return;
  }
  while (state.KeepRunning()) {
    DatabaseReader reader(database);
    const slipstream::report::Report report = slipstream::report::MakeReport(&reader, {.timeline = true});
    if (!reader.ok() || report.calls != records) {
      state.SkipWithError(("the report failed: " + reader.error().text).c_str());
      return;
    }
  }
  state.counters["records_per_second"] =
      benchmark::Counter(static_cast<double>(records), benchmark::Counter::kIsIterationInvariantRate);
}

void Sizes(benchmark::internal::Benchmark* each) {
  for (const int64_t records : {1000, 100'000, 1'000'000, 2'000'000}) each->Arg(records);
  each->UseRealTime()->Unit(benchmark::kMillisecond);
}

}  // namespace

BENCHMARK(Sqlite)->Name("sqlite")->Apply(Sizes);
BENCHMARK_CAPTURE(ToFile, , Format::kChrome, ".json")->Name("chrome")->Apply(Sizes);
BENCHMARK_CAPTURE(ToFile, , Format::kChrome, ".json.gz")->Name("chrome_gz")->Apply(Sizes);
BENCHMARK_CAPTURE(ToFile, , Format::kPerfetto, ".pftrace")->Name("perfetto")->Apply(Sizes);
BENCHMARK(Report)->Name("report")->Apply(Sizes);

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  std::string name = (std::filesystem::temp_directory_path() / "slipstream-export-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    std::perror("export_rate: no directory for its files");
    return 1;
  }
  g_directory = name;
  benchmark::RunSpecifiedBenchmarks();
  std::filesystem::remove_all(g_directory);
  return 0;
}
