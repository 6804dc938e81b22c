#include "tools/trace/db/database_reader.h"

#include <sqlite3.h>

#include <string>
#include <utility>

#include "tools/trace/db/database.h"

namespace slipstream::trace_db {
namespace {

// What is sorted may be larger than memory; what is kept of the file's pages may not. The first ones are set before the
// file's own schema is read, which the others do.
constexpr char kReaderSettings[] =
    "PRAGMA trusted_schema = OFF; PRAGMA query_only = ON; PRAGMA cell_size_check = ON; PRAGMA cache_size = -65536; "
    "PRAGMA temp_store = FILE; PRAGMA mmap_size = 0;";

// What the questions of this program need, and tables that Nsight Systems and slipstream write, by far.
constexpr std::pair<int, int> kLimits[] = {
    {SQLITE_LIMIT_LENGTH, 16 << 20},     {SQLITE_LIMIT_SQL_LENGTH, 100'000}, {SQLITE_LIMIT_COLUMN, 500},
    {SQLITE_LIMIT_EXPR_DEPTH, 100},      {SQLITE_LIMIT_COMPOUND_SELECT, 20}, {SQLITE_LIMIT_VDBE_OP, 100'000},
    {SQLITE_LIMIT_FUNCTION_ARG, 32},     {SQLITE_LIMIT_ATTACHED, 0},         {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000},
    {SQLITE_LIMIT_VARIABLE_NUMBER, 100}, {SQLITE_LIMIT_TRIGGER_DEPTH, 1},    {SQLITE_LIMIT_WORKER_THREADS, 0}};
constexpr std::pair<int, int> kSwitches[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                             {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                             {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                             {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                                             {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
                                             {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0}};

// Of what is asked, what would run something in place of giving rows. A file can lie in its columns here; then SQLite
// refuses the question, by what is switched off.
constexpr char kNoTables[] =
    "SELECT name, type FROM sqlite_master WHERE (type = 'view' OR sql LIKE 'CREATE VIRTUAL %') AND (name LIKE "
    "'SLIPSTREAM_%' OR name LIKE 'CUPTI_%' OR name LIKE 'TARGET_INFO_%' OR name LIKE 'META_DATA_%' OR name LIKE "
    "'ENUM_%' OR name COLLATE NOCASE IN ('StringIds', 'ThreadNames', 'PROCESSES', 'NVTX_EVENTS'))";

// A name of a file as the path of SQLite's URI.
std::string AsUri(const std::string& path) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string uri = path.starts_with('/') ? "file://" : "file:./";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%' || c == '?' || c == '#' || byte < 0x20 || byte >= 0x7f) {
      uri += '%';
      uri += kDigits[byte >> 4];
      uri += kDigits[byte & 0xf];
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

}  // namespace

Question::Question(DatabaseReader& reader, std::string_view sql) : reader_(reader) {
  if (!reader_.ok()) return;
  const int code = sqlite3_prepare_v2(reader_.handle_, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr);
  if (code != SQLITE_OK) reader_.Fail(code);
}

Question::~Question() { sqlite3_finalize(statement_); }

Question& Question::Bind(int parameter, int64_t value) {
  const int code = statement_ == nullptr ? SQLITE_OK : sqlite3_bind_int64(statement_, parameter, value);
  if (code != SQLITE_OK) reader_.Fail(code);
  return *this;
}

Question& Question::Bind(int parameter, std::string_view value) {
  if (statement_ == nullptr) return *this;
  // A null pointer would be NULL.
  const char* const bytes = value.data() != nullptr ? value.data() : "";
  const int code = sqlite3_bind_text64(statement_, parameter, bytes, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) reader_.Fail(code);
  return *this;
}

void Question::Again() { sqlite3_reset(statement_); }

bool Question::Next() {
  if (statement_ == nullptr || !reader_.ok()) return false;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) reader_.Fail(code);
  return false;
}

int64_t Question::Number(int column) const { return sqlite3_column_int64(statement_, column); }

double Question::Real(int column) const { return sqlite3_column_double(statement_, column); }

std::string_view Question::Text(int column) const {
  const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (text == nullptr) return {};
  return {text, static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

bool Question::IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

std::optional<int64_t> Question::NumberIfKnown(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Number(column);
}

DatabaseReader::DatabaseReader(const std::string& path) {
  // Immutable: no lock is asked for, which many a cluster's file system does not have, and no journal looked for.
  constexpr int kFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
  const int code = sqlite3_open_v2(AsUri(path).c_str(), &handle_, kFlags, nullptr);
  if (code != SQLITE_OK) {
    Fail(code);
    return;
  }
  sqlite3_extended_result_codes(handle_, 1);
  for (const auto& [limit, most] : kLimits) sqlite3_limit(handle_, limit, most);
  int made = SQLITE_OK;
  for (const auto& [what, on] : kSwitches) {
    if (made == SQLITE_OK) made = sqlite3_db_config(handle_, what, on, static_cast<int*>(nullptr));
  }
  // Of virtual tables none is asked but those that list columns, which are always there.
  if (made == SQLITE_OK) made = sqlite3_drop_modules(handle_, nullptr);
  // The first look at the file's own bytes.
  if (made == SQLITE_OK) made = sqlite3_exec(handle_, kReaderSettings, nullptr, nullptr, nullptr);
  if (made != SQLITE_OK) {
    Fail(made);
    return;
  }
  Question strange(*this, kNoTables);
  if (!strange.Next()) return;
  const std::string kind = strange.Text(1) == "view" ? "view" : "virtual table";
  error_ = {SQLITE_AUTH, "its " + std::string(strange.Text(0)) + " is a " + kind + " and no table"};
}

DatabaseReader::~DatabaseReader() { sqlite3_close(handle_); }

bool DatabaseReader::stopped() const { return (error_.code & 0xff) == SQLITE_INTERRUPT; }

void DatabaseReader::StopWhen(const std::atomic<bool>* stop) {
  if (ok()) trace_db::StopWhen(handle_, stop);
}

bool DatabaseReader::HasTable(std::string_view name) {
  return Question(*this, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?").Bind(1, name).Next();
}

bool DatabaseReader::HasColumn(std::string_view table, std::string_view column) {
  return Question(*this, "SELECT 1 FROM pragma_table_info(?) WHERE name = ?").Bind(1, table).Bind(2, column).Next();
}

void DatabaseReader::Fail(int code) {
  if (!ok()) return;
  error_.code = code;
  error_.text = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
}

}  // namespace slipstream::trace_db
