#include "tools/trace/db/database.h"

#include <sqlite3.h>

#include <cstring>

#include "tools/trace/db/new_file.h"

namespace slipstream::trace_db {
namespace {

// A trace may be larger than memory, the database's pages in memory may not.
constexpr char kWriterSettings[] =
    "PRAGMA page_size = 8192;"
    "PRAGMA cache_size = -65536;"  // KiB
    "PRAGMA journal_mode = OFF;"
    "PRAGMA synchronous = OFF;"  // the whole file is synchronized before it gets its name
    "PRAGMA locking_mode = EXCLUSIVE;"
    "PRAGMA temp_store = FILE;"
    "PRAGMA encoding = 'UTF-8';";

}  // namespace

void StopWhen(sqlite3* handle, const std::atomic<bool>* stop) {
  constexpr int kStepsBetweenLooks = 10'000;
  const auto wants_to_stop = [](void* wanted) { return static_cast<const std::atomic<bool>*>(wanted)->load() ? 1 : 0; };
  sqlite3_progress_handler(handle, kStepsBetweenLooks, wants_to_stop,
                           const_cast<void*>(static_cast<const void*>(stop)));
}

void SortIn(const std::string& folder) {
  if (sqlite3_initialize() != SQLITE_OK) return;
  sqlite3_free(sqlite3_temp_directory);
  sqlite3_temp_directory = folder.empty() ? nullptr : sqlite3_mprintf("%s", folder.c_str());
}

Database::Database(const std::string& path) : folder_(FolderOf(path)) {
  // What indices are sorted in goes beside the database, where its reader has made room; /tmp may be memory.
  SortIn(folder_);
  // "file:x" must be the name of a file. Nobody else knows this one, so it needs no locks, which many a cluster's file
  // system does not have.
  const std::string name = path.starts_with('/') ? path : "./" + path;
  const int code = sqlite3_open_v2(name.c_str(), &handle_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, "unix-none");
  if (code != SQLITE_OK) {
    Fail(code);
    return;
  }
  sqlite3_extended_result_codes(handle_, 1);
  Run(kWriterSettings);
}

Database::~Database() {
  sqlite3_close(handle_);
  SortIn("");
}

bool Database::refused() const {
  const int primary = error_.code & 0xff;
  return primary == SQLITE_FULL || primary == SQLITE_IOERR;
}

bool Database::stopped() const { return (error_.code & 0xff) == SQLITE_INTERRUPT; }

bool Database::Run(const std::string& sql) {
  if (!ok()) return false;
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK || Fail(code);
}

void Database::StopWhen(const std::atomic<bool>* stop) {
  if (ok()) trace_db::StopWhen(handle_, stop);
}

bool Database::Close() {
  if (!ok()) return false;
  const int code = sqlite3_close(handle_);
  if (code != SQLITE_OK) return Fail(code);
  handle_ = nullptr;
  return true;
}

bool Database::Fail(int code) {
  if (!ok()) return false;
  error_.code = code;
  error_.text = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  return false;
}

void Database::FailBeside(int error) {
  if (ok()) error_ = {SQLITE_IOERR, std::strerror(error)};
}

}  // namespace slipstream::trace_db
