// SQLite, for writing one new file from end to end.
//
// Errors: the first one is kept and every call after it does nothing, so that a caller with many rows asks once in a
//   while and not at every row.
// Threading: an object belongs to one thread; what is named to StopWhen may be set from anywhere, a signal handler
//   included.
// Hazard: there is no journal. A file that an error, a signal or a crash interrupted is of no use and must be removed;
//   the caller gives it its name only when it is whole (new_file.h). Writing past RLIMIT_FSIZE sends SIGXFSZ, which the
//   process must ignore to get an error instead. Where SQLite sorts is set for the whole process (SortIn), to the
//   database's own folder and in the end to none, so there may be one object at a time.
#pragma once

#include <atomic>
#include <memory>
#include <string>

struct sqlite3;

namespace slipstream::trace_db {

// What runs on `handle` ends soon with SQLITE_INTERRUPT once `*stop` is set. Null takes that back.
void StopWhen(sqlite3* handle, const std::atomic<bool>* stop);

// Where SQLite puts what it sorts from now on, in the whole process; empty: where it would by itself (SQLITE_TMPDIR,
// TMPDIR, /var/tmp, /tmp). It removes those files' names as soon as it has opened them. Not while a statement runs.
void SortIn(const std::string& folder);

class Database {
 public:
  struct Error {
    int code = 0;      // SQLite's; 0: none
    std::string text;  // for people
  };

  // The file must be there; empty. Look at ok().
  explicit Database(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  bool ok() const { return error_.code == 0; }
  const Error& error() const { return error_; }
  // Whether the system refused to write. SQLite forgets most of the system's reason.
  bool refused() const;
  // Whether it was stopped (StopWhen).
  bool stopped() const;

  // Statements that give no rows.
  bool Run(const std::string& sql);
  // From now on, statements end with an error when this is true.
  void StopWhen(const std::atomic<bool>* stop);
  // When it returns, SQLite has put everything into the file. Only ok() and error() may be called afterwards.
  bool Close();

  // Where it is, and where what belongs to it while it is built may be.
  const std::string& folder() const { return folder_; }

  sqlite3* handle() { return handle_; }
  // Keeps SQLite's last error, if none is kept yet. False, for callers to return.
  bool Fail(int code);
  // The same for a file that belongs to it: an errno.
  void FailBeside(int error);

 private:
  const std::string folder_;
  sqlite3* handle_ = nullptr;
  Error error_;
};

}  // namespace slipstream::trace_db
