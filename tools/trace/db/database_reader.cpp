#include "tools/trace/db/database_reader.h"

#include <sqlite3.h>

namespace slipstream::trace_db {
namespace {

constexpr int kStepsBetweenLooks = 10'000;

// What is sorted may be larger than memory; what is kept of the file's pages may not.
constexpr char kSettings[] = "PRAGMA cache_size = -65536; PRAGMA temp_store = FILE; PRAGMA mmap_size = 0;";

int WantsToStop(void* stop) { return static_cast<const std::atomic<bool>*>(stop)->load() ? 1 : 0; }

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
  // The first look at the file's own bytes.
  int made = sqlite3_exec(handle_, kSettings, nullptr, nullptr, nullptr);
  if (made == SQLITE_OK) made = sqlite3_exec(handle_, "SELECT 1 FROM sqlite_master", nullptr, nullptr, nullptr);
  if (made != SQLITE_OK) Fail(made);
}

DatabaseReader::~DatabaseReader() { sqlite3_close(handle_); }

bool DatabaseReader::stopped() const { return (error_.code & 0xff) == SQLITE_INTERRUPT; }

void DatabaseReader::StopWhen(const std::atomic<bool>* stop) {
  if (ok()) {
    sqlite3_progress_handler(handle_, kStepsBetweenLooks, WantsToStop,
                             const_cast<void*>(static_cast<const void*>(stop)));
  }
}

bool DatabaseReader::HasTable(std::string_view name) {
  return Question(*this, "SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?")
      .Bind(1, name)
      .Next();
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
