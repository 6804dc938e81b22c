// What tests of the trace database share: building one, asking it, and spools whose every byte the test decides.
//
// Threading: none of its own.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/tracer/spool_testing.h"
#include "tools/trace/db/trace_db.h"
#include "tracer/spool/chunk_writer.h"
#include "tracer/spool/process_facts.h"

namespace slipstream::trace_db {

using Rows = std::vector<std::vector<std::string>>;

// All rows, every value as a text and NULL as "NULL".
inline Rows Query(const std::string& database, const std::string& sql) {
  Rows rows;
  sqlite3* handle = nullptr;
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_open_v2(database.c_str(), &handle, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK) << database;
  EXPECT_EQ(sqlite3_prepare_v2(handle, sql.c_str(), -1, &statement, nullptr), SQLITE_OK)
      << sqlite3_errmsg(handle) << " in " << sql;
  while (statement != nullptr && sqlite3_step(statement) == SQLITE_ROW) {
    std::vector<std::string>& row = rows.emplace_back();
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
      row.push_back(text == nullptr ? "NULL"
                                    : std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement, i))));
    }
  }
  EXPECT_EQ(sqlite3_errcode(handle), SQLITE_DONE) << sqlite3_errmsg(handle) << " in " << sql;
  sqlite3_finalize(statement);
  sqlite3_close(handle);
  return rows;
}

inline std::string One(const std::string& database, const std::string& sql) {
  const Rows rows = Query(database, sql);
  EXPECT_EQ(rows.size(), 1U) << sql;
  return rows.size() == 1 && !rows[0].empty() ? rows[0][0] : "";
}

// Changes it, all or nothing, as others would: with SQLite's own limits. Makes it if it is not there.
inline void Execute(const std::string& database, const std::string& sql) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(database.c_str(), &handle), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(handle, ("BEGIN;" + sql + ";COMMIT").c_str(), nullptr, nullptr, &error), SQLITE_OK)
      << (error != nullptr ? error : "") << " in " << sql;
  sqlite3_free(error);
  sqlite3_close(handle);
}

inline std::vector<std::string> TablesOf(const std::string& database) {
  std::vector<std::string> tables;
  for (const auto& row : Query(database, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")) {
    tables.push_back(row[0]);
  }
  return tables;
}

// Damage that nobody sees before the table is read.
inline void DamageTable(const std::string& database, const std::string& table) {
  const size_t page = std::stoul(One(database, "SELECT rootpage FROM sqlite_master WHERE name = '" + table + "'"));
  const size_t size = std::stoul(One(database, "PRAGMA page_size"));
  std::string bytes = tracer::Slurp(database);
  bytes.replace((page - 1) * size, size, size, '\xff');
  tracer::Spit(database, bytes);
}

// A spool, chunk by chunk.
class HandSpool {
 public:
  HandSpool(const std::string& directory, const std::string& name, uint64_t start_unix_ns = 1234) {
    EXPECT_EQ(file_.Create(directory, name).problem, tracer::SpoolProblem::kNone);
    chunks_.Start(start_unix_ns);
    chunks_.SetPass(1);
  }
  // What was recorded by then is in the file before the next chunk.
  void Pass(uint64_t pass_ns) { chunks_.SetPass(pass_ns); }
  void Facts(const std::vector<std::pair<std::string, std::string>>& facts) {
    chunks_.Begin(tracer::ChunkKind::kFacts);
    chunks_.PutNumber(static_cast<uint32_t>(facts.size()));
    for (const auto& [key, value] : facts) {
      chunks_.PutText(key);
      chunks_.PutText(value);
    }
    chunks_.End();
  }
  void Name(tracer::NameTable table, uint32_t number, const std::string& name) {
    chunks_.Begin(tracer::ChunkKind::kNames);
    chunks_.PutNumber(static_cast<uint32_t>(table));
    chunks_.PutNumber(1);
    chunks_.PutNumber(number);
    chunks_.PutText(name);
    chunks_.End();
  }
  void Site(uint32_t number, const std::string& file, int32_t line, const std::string& function) {
    chunks_.Begin(tracer::ChunkKind::kSites);
    chunks_.PutNumber(1);
    chunks_.PutNumber(number);
    chunks_.PutNumber(static_cast<uint32_t>(line));
    chunks_.PutText(file);
    chunks_.PutText(function);
    chunks_.End();
  }
  void Stack(uint32_t number, uint32_t parent, uint32_t site) {
    chunks_.Begin(tracer::ChunkKind::kStacks);
    chunks_.PutNumber(1);
    chunks_.PutNumber(number);
    chunks_.PutNumber(parent);
    chunks_.PutNumber(site);
    chunks_.End();
  }
  void Module(uint32_t number, const std::string& path, const std::string& build_id) {
    const uint64_t places[] = {0x1000, 0x9000};
    chunks_.Begin(tracer::ChunkKind::kModules);
    chunks_.PutNumber(1);
    chunks_.PutNumber(number);
    chunks_.PutBytes(places, sizeof(places));
    chunks_.PutText(path);
    chunks_.PutText(build_id);
    chunks_.End();
  }
  void Address(uint32_t number, uint32_t module, uint64_t offset) {
    chunks_.Begin(tracer::ChunkKind::kAddresses);
    chunks_.PutNumber(1);
    chunks_.PutNumber(number);
    chunks_.PutNumber(module);
    chunks_.PutBytes(&offset, sizeof(offset));
    chunks_.End();
  }
  void Thread(uint32_t number, uint32_t id, const std::string& name) {
    chunks_.Begin(tracer::ChunkKind::kThread);
    chunks_.PutNumber(number);
    chunks_.PutNumber(id);
    chunks_.PutText(name);
    chunks_.PutBytes(&made_[number], sizeof(uint64_t));
    chunks_.End();
  }
  // A section of a file that keeps the newest. What its records refer to has to be said again.
  void Section(uint64_t made_ns) {
    uint64_t records = 0;
    for (const auto& [thread, made] : made_) records += made;
    const tracer::SpoolSection section = {.records = records, .own_records = made_[0], .made_ns = made_ns};
    chunks_.Begin(tracer::ChunkKind::kSection);
    chunks_.PutBytes(&section, sizeof(section));
    chunks_.End();
  }
  // That chunks with lower numbers are given up; they are still there.
  void GiveUp(uint64_t before_chunk) {
    const tracer::GivenUp given_up = {.before_chunk = before_chunk};
    chunks_.Begin(tracer::ChunkKind::kGivenUp);
    chunks_.PutBytes(&given_up, sizeof(given_up));
    chunks_.End();
  }
  void Records(uint32_t thread, const std::vector<tracer::TraceRecord>& records,
               uint16_t version = tracer::kRecordVersion) {
    const tracer::RecordsHead head = {.thread = thread,
                                      .record_bytes = sizeof(tracer::TraceRecord),
                                      .first = made_[thread],
                                      .count = static_cast<uint32_t>(records.size()),
                                      .version = version};
    made_[thread] += records.size();
    chunks_.Begin(tracer::ChunkKind::kRecords);
    chunks_.PutBytes(&head, sizeof(head));
    for (const tracer::TraceRecord& record : records) chunks_.PutBytes(&record, sizeof(record));
    chunks_.End(records.size());
  }
  void Activities(const std::vector<tracer::ActivityRecord>& activities, uint16_t version = tracer::kActivityVersion) {
    const tracer::RecordsHead head = {.record_bytes = sizeof(tracer::ActivityRecord),
                                      .first = made_[0],
                                      .count = static_cast<uint32_t>(activities.size()),
                                      .version = version};
    made_[0] += activities.size();
    chunks_.Begin(tracer::ChunkKind::kActivities);
    chunks_.PutBytes(&head, sizeof(head));
    for (const tracer::ActivityRecord& activity : activities) chunks_.PutBytes(&activity, sizeof(activity));
    chunks_.End(activities.size());
  }
  // Of the hooks or the decisions.
  void Counters(tracer::NameTable table, const std::vector<tracer::CountersEntry>& entries) {
    chunks_.Begin(tracer::ChunkKind::kCounters);
    chunks_.PutNumber(static_cast<uint32_t>(table));
    chunks_.PutNumber(static_cast<uint32_t>(entries.size()));
    for (const tracer::CountersEntry& entry : entries) chunks_.PutBytes(&entry, sizeof(entry));
    chunks_.End();
  }
  void Clock(uint64_t before, uint64_t after, uint64_t realtime) {
    Records(0, {tracer::ClockRecord(before, after, realtime, 0)});
  }
  void End(tracer::EndReason reason = tracer::EndReason::kFinished, int error = 0, uint64_t later_calls = 0) {
    EXPECT_TRUE(chunks_.Finish({.reason = static_cast<uint32_t>(reason), .error = error, .later_calls = later_calls}));
  }
  // The recording ended, and the process goes on.
  void Stop(tracer::EndReason reason) { EXPECT_TRUE(chunks_.Stop({.reason = static_cast<uint32_t>(reason)})); }
  void Flush() { EXPECT_TRUE(chunks_.Flush()); }

 private:
  tracer::SpoolFile file_{{}};
  tracer::ChunkWriter chunks_{&file_, uint64_t{1} << 32};
  std::map<uint32_t, uint64_t> made_;
};

inline tracer::TraceRecord CallAt(uint64_t start_ns, uint64_t end_ns, uint16_t hook = 0) {
  return {.start_ns = start_ns, .end_ns = end_ns, .hook = hook, .kind = tracer::RecordKind::kCall};
}

class TraceDbTest : public tracer::SpoolTest {
 protected:
  void SetUp() override {
    tracer::SpoolTest::SetUp();
    run_ = directory_ + "/run";
    database_ = directory_ + "/trace.sqlite";
    ASSERT_TRUE(std::filesystem::create_directory(run_));
    std::filesystem::permissions(run_, std::filesystem::perms::owner_all);
  }
  BuildResult Build() { return BuildTraceDatabase({.run = run_, .database = database_}); }
  // Of which nothing may be missing.
  BuildResult BuildWell() {
    BuildResult result = Build();
    EXPECT_EQ(result.problem, BuildProblem::kNone) << result.what;
    EXPECT_FALSE(result.partial());
    return result;
  }
  std::string One(const std::string& sql) const { return trace_db::One(database_, sql); }
  Rows Query(const std::string& sql) const { return trace_db::Query(database_, sql); }
  // Everything in the directory of the database, which has only what it should have.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string run_;
  std::string database_;
};

}  // namespace slipstream::trace_db
