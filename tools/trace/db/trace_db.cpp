#include "tools/trace/db/trace_db.h"

#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "tools/trace/db/clean_text.h"
#include "tools/trace/db/global_id.h"
#include "tools/trace/db/gpu_rows.h"
#include "tools/trace/db/kept_database.h"
#include "tools/trace/db/new_file.h"
#include "tools/trace/db/trace_tables.h"

namespace slipstream::trace_db {
namespace {

constexpr uint64_t kRecordsPerTransaction = 200'000;

bool IsSameFile(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

// A full disk or quota, or the limit of the process.
bool IsLackOfRoom(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

std::string TimeText(uint64_t unix_ns, bool local) {
  const auto seconds = static_cast<time_t>(unix_ns / 1'000'000'000);
  tm parts{};
  if ((local ? localtime_r(&seconds, &parts) : gmtime_r(&seconds, &parts)) == nullptr) return "";
  char text[64];
  return {text, strftime(text, sizeof(text), local ? "%Y-%m-%dT%H:%M:%S%z" : "%Y-%m-%dT%H:%M:%S", &parts)};
}

class Build {
 public:
  explicit Build(const BuildOptions& options) : options_(options) {}

  BuildResult Run() {
    if (Find() && CheckPlace() && Survey()) Write();
    if (result_.problem != BuildProblem::kNone) result_.processes.clear();
    return result_;
  }

 private:
  bool Fail(BuildProblem problem, const std::string& what = "") {
    result_.problem = problem;
    result_.what = what;
    return false;
  }
  bool WantsToStop() const { return options_.stop != nullptr && options_.stop->load(); }
  void Say(const BuildProgress& progress) const {
    if (options_.progress) options_.progress(progress);
  }

  bool Find();
  bool CheckPlace();
  bool Survey();
  bool Write();
  bool WriteSpools(Database* database, TraceTables* tables, const TimeBase& times);
  void WriteHosts(Database* database, const TimeBase& times);
  void WriteSession(Database* database);
  bool FailWriting(const Database& database, NewFile* file);

  const BuildOptions& options_;
  BuildResult result_;
  std::vector<std::string> paths_;
  std::vector<SpoolSurvey> spools_;  // that can be read
  uint64_t total_bytes_ = 0;
};

bool Build::Find() {
  FoundSpools found = FindSpools(options_.run, options_.more);
  if (found.problem != BuildProblem::kNone) return Fail(found.problem, found.what);
  paths_ = std::move(found.paths);
  return true;
}

// Before the work, so that nobody waits for it in vain.
bool Build::CheckPlace() {
  struct stat place {};
  if (lstat(options_.database.c_str(), &place) != 0) return true;
  for (const std::string& path : paths_) {
    struct stat spool {};
    if (stat(path.c_str(), &spool) == 0 && IsSameFile(place, spool)) return Fail(BuildProblem::kIsSpool);
  }
  // A name that is taken by something else is never replaced: a device would be gone for everybody.
  struct stat behind {};
  if (stat(options_.database.c_str(), &behind) == 0 && !S_ISREG(behind.st_mode)) {
    return Fail(BuildProblem::kPlace,
                S_ISDIR(behind.st_mode) ? std::strerror(EISDIR) : "There is something that is no file");
  }
  return options_.replace || Fail(BuildProblem::kExists);
}

bool Build::Survey() {
  std::vector<uint64_t> sizes;
  for (const std::string& path : paths_) {
    std::error_code ignored;
    const auto size = std::filesystem::file_size(path, ignored);
    sizes.push_back(ignored ? 0 : size);
    total_bytes_ += sizes.back();
  }
  uint64_t done = 0;
  for (size_t i = 0; i < paths_.size(); ++i) {
    if (WantsToStop()) return Fail(BuildProblem::kStopped);
    SpoolSurvey survey = SurveySpool(paths_[i], [&](uint64_t bytes) {
      Say({.phase = BuildProgress::Phase::kReading, .done_bytes = done + bytes, .total_bytes = total_bytes_});
      return !WantsToStop();
    });
    done += sizes[i];
    if (survey.error.empty()) {
      spools_.push_back(std::move(survey));
    } else {
      result_.unreadable.push_back({survey.file, survey.error});
      total_bytes_ -= sizes[i];
      done -= sizes[i];
    }
  }
  if (WantsToStop()) return Fail(BuildProblem::kStopped);
  return !spools_.empty() || Fail(BuildProblem::kNothingReadable);
}

bool Build::FailWriting(const Database& database, NewFile* file) {
  if (database.stopped() || WantsToStop()) return Fail(BuildProblem::kStopped);
  const int error = database.refused() ? file->TryToLengthen() : 0;
  return Fail(IsLackOfRoom(error) ? BuildProblem::kNoRoom : BuildProblem::kWriting,
              error != 0 ? std::strerror(error) : database.error().text);
}

bool Build::Write() {
  NewFile file(options_.database);
  if (const int error = file.Create(); error != 0) return Fail(BuildProblem::kPlace, std::strerror(error));
  const TimeBase times(spools_);
  result_.hosts = times.hosts();
  result_.start_unix_ns = times.zero_unix_ns();

  Database database(file.path());
  if (options_.stop != nullptr) database.StopWhen(options_.stop);
  bool written = false;
  {
    TraceTables tables(&database);
    database.Run("BEGIN");
    tables.Create();
    tables.native.SetDebugDirectory(options_.debug_directory);
    WriteHosts(&database, times);
    WriteGpus(&database, spools_, times);
    written = WriteSpools(&database, &tables, times);
    if (written) {
      WriteSession(&database);
      Say({.phase = BuildProgress::Phase::kIndexing, .done_bytes = total_bytes_, .total_bytes = total_bytes_});
      tables.Finish();
      database.Run("COMMIT");
    }
  }
  if (!written && database.ok()) return false;  // stopped between two statements
  if (!database.Close()) return FailWriting(database, &file);
  if (options_.accept && !options_.accept(file.path())) return Fail(BuildProblem::kRefused);
  if (WantsToStop()) return Fail(BuildProblem::kStopped);

  struct stat facts {};
  if (stat(file.path().c_str(), &facts) == 0) result_.database_bytes = static_cast<uint64_t>(facts.st_size);
  const int error = file.Publish(options_.replace, /*durable=*/!options_.temporary);
  if (error == 0) return true;
  if (error == EEXIST && !options_.replace) return Fail(BuildProblem::kExists);
  return Fail(IsLackOfRoom(error) ? BuildProblem::kNoRoom : BuildProblem::kWriting, std::strerror(error));
}

bool Build::WriteSpools(Database* database, TraceTables* tables, const TimeBase& times) {
  uint64_t done = 0;
  uint64_t records = 0;
  for (size_t i = 0; i < spools_.size(); ++i) {
    std::string why;
    const auto reader = tracer::SpoolReader::Open(spools_[i].path, &why);
    if (reader == nullptr) {
      // It could be read a moment ago.
      result_.unreadable.push_back({spools_[i].file, why});
      continue;
    }
    ProcessRows rows(tables, times, times.HostOf(i), static_cast<int64_t>(i) + 1, spools_[i], *reader);
    tracer::SpoolRecord record;
    while (reader->Next(&record)) {
      rows.Add(record);
      ++records;
      if (records % kRecordsPerTransaction == 0) database->Run("COMMIT; BEGIN");
      if (records % kRecordsBetweenLooks != 0) continue;
      if (!database->ok()) return false;
      if (WantsToStop()) return Fail(BuildProblem::kStopped);
      Say({.phase = BuildProgress::Phase::kWriting,
           .done_bytes = done + reader->end().read_bytes,
           .total_bytes = total_bytes_,
           .records = records});
    }
    result_.processes.push_back(rows.Finish());
    done += spools_[i].bytes;
    if (!database->ok()) return false;
    if (WantsToStop()) return Fail(BuildProblem::kStopped);
  }
  return true;
}

void Build::WriteHosts(Database* database, const TimeBase& times) {
  Table own(database, kOwnHosts);
  Table system(database, kSystemEnv);
  own.Create();
  system.Create();
  int64_t number = 0;
  for (const Host& host : times.hosts()) {
    const ClockReadings& clocks = host.clocks;
    const auto known = [&](uint64_t value) -> NumberOrNull {
      return {.known = clocks.count != 0, .value = static_cast<int64_t>(value)};
    };
    const uint64_t moved = static_cast<uint64_t>(clocks.highest) - static_cast<uint64_t>(clocks.lowest);
    const std::string name = CleanText(host.name);
    system.Row(GlobalVid(static_cast<uint64_t>(number)), "DeviceEnvironment", "Hostname", 0, name);
    own.Row(++number, name, clocks.count, clocks.difference, known(clocks.error), known(moved));
  }
}

// What is known about the trace as a whole.
void Build::WriteSession(Database* database) {
  int64_t last = 0;
  for (const ExportedProcess& process : result_.processes) last = std::max(last, process.last_ns.value_or(0));
  Table(database, kAnalysisDetails).Row(0, last, 0, last);
  Table(database, kSessionStart)
      .Row(result_.start_unix_ns, TimeText(result_.start_unix_ns, false), TimeText(result_.start_unix_ns, true));
  Table meta(database, kMetaDataExport);
  const std::string version = kNsysSchemaVersion;
  meta.Row("EXPORT_PRODUCT_NAME", "slipstream");
  meta.Row("EXPORT_PRODUCT_VERSION", options_.product_version);
  meta.Row("EXPORT_SCHEMA_VERSION", version);
  const size_t first = version.find('.');
  const size_t second = version.find('.', first + 1);
  meta.Row("EXPORT_SCHEMA_VERSION_MAJOR", version.substr(0, first));
  meta.Row("EXPORT_SCHEMA_VERSION_MINOR", version.substr(first + 1, second - first - 1));
  meta.Row("EXPORT_SCHEMA_VERSION_MICRO", version.substr(second + 1));
  meta.Row("EXPORT_PARAM_LAZY", "true");
  meta.Row("SLIPSTREAM_SCHEMA_VERSION", kOwnSchemaVersion);
  if (!options_.made_from.empty()) WriteMadeFrom(&meta, options_.made_from, result_);
  for (const EnumTable& each : EnumTables()) {
    Table table(database, each.layout);
    for (const EnumValue& value : each.values) table.Row(value.id, value.name, value.label);
  }
}

}  // namespace

bool BuildResult::partial() const {
  return !unreadable.empty() || std::any_of(processes.begin(), processes.end(),
                                            [](const ExportedProcess& process) { return process.damaged(); });
}

FoundSpools FindSpools(const std::string& run, const std::vector<std::string>& more) {
  FoundSpools spools;
  std::set<std::pair<dev_t, ino_t>> known;
  std::vector<std::string> parts = {run};
  parts.insert(parts.end(), more.begin(), more.end());
  for (const std::string& part : parts) {
    std::error_code error;
    std::vector<std::string> found = {part};
    if (!std::filesystem::is_regular_file(part, error)) {
      std::string why;
      found = tracer::ListSpools(part, &why);
      if (!why.empty()) return {BuildProblem::kNoRun, why, {}};
      if (found.empty()) return {BuildProblem::kNoSpools, part, {}};
    }
    for (std::string& path : found) {
      // A part that is named twice, or a file and its directory. One that is not there any more says so when it is
      // read.
      struct stat facts {};
      if (lstat(path.c_str(), &facts) == 0 && !known.emplace(facts.st_dev, facts.st_ino).second) continue;
      spools.paths.push_back(std::move(path));
    }
  }
  return spools;
}

BuildResult BuildTraceDatabase(const BuildOptions& options) { return Build(options).Run(); }

}  // namespace slipstream::trace_db
