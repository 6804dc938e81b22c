// SQLite, for asking a database that is there: one that a build made (trace_db.h) or one that Nsight Systems exported.
//
// The file may be anybody's. Nothing in it is run: views, triggers, virtual tables and extensions are off, and a file
// that has one of the first or third in place of a table that is asked is refused. A row or text of more than 16 MiB is
// an error, and so are a table of more than 500 columns and a deep expression.
//
// Errors: the first one is kept; every question after it has no rows, so that a caller with many questions asks once,
// at its end, whether all were answered.
// Threading: an object, and its questions, belong to one thread; what is named to StopWhen may be set from anywhere.
// Ownership: a question must not outlive its reader. A text lives until its question's next row.
// Hazard: opened read-only and as immutable: a file that is written meanwhile gives wrong answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace slipstream::trace_db {

class DatabaseReader;

// The rows of one statement:  for (Question q(reader, "SELECT ..."); q.Next();) q.Number(0);
class Question {
 public:
  Question(DatabaseReader& reader, std::string_view sql);
  ~Question();
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  // Parameters are numbered from 1, as in SQL. Before the first Next, or after Again.
  Question& Bind(int parameter, int64_t value);
  Question& Bind(int parameter, std::string_view value);
  // The same question once more, with other parameters.
  void Again();

  // False: there are no more, or an error (the reader knows).
  bool Next();

  // Columns from 0. NULL is 0, 0.0 and "".
  int64_t Number(int column) const;
  double Real(int column) const;
  std::string_view Text(int column) const;
  bool IsNull(int column) const;
  std::optional<int64_t> NumberIfKnown(int column) const;

 private:
  DatabaseReader& reader_;
  sqlite3_stmt* statement_ = nullptr;
};

class DatabaseReader {
 public:
  struct Error {
    int code = 0;      // SQLite's; 0: none
    std::string text;  // for people
  };

  // Look at ok(): there may be no such file, or it may be no database, or one that is refused.
  explicit DatabaseReader(const std::string& path);
  ~DatabaseReader();
  DatabaseReader(const DatabaseReader&) = delete;
  DatabaseReader& operator=(const DatabaseReader&) = delete;

  bool ok() const { return error_.code == 0; }
  const Error& error() const { return error_; }
  // Whether it was stopped (StopWhen).
  bool stopped() const;

  // From now on, questions end with an error when this is true.
  void StopWhen(const std::atomic<bool>* stop);
  // A table without rows may not be there at all (schema.h).
  bool HasTable(std::string_view name);
  // A database of another program's, or of an older slipstream, may lack one.
  bool HasColumn(std::string_view table, std::string_view column);

 private:
  friend class Question;
  void Fail(int code);

  sqlite3* handle_ = nullptr;
  Error error_;
};

}  // namespace slipstream::trace_db
