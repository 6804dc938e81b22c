// One table of a database that is being written: made with its first row, as Nsight Systems does it ("Tables are
// created lazily", SQLite Export Schema Reference), unless it is asked for earlier.
//
// Threading, errors: as its Database.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/trace/db/clean_text.h"
#include "tools/trace/db/database.h"
#include "tools/trace/db/schema.h"

struct sqlite3_stmt;

namespace slipstream::trace_db {

// A column without a value.
inline constexpr std::nullptr_t kNull = nullptr;
// Nor has an empty text one.
inline std::optional<std::string> TextOrNull(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(CleanText(text));
}
// NULL where the value is one that means something else.
struct NumberOrNull {
  bool known = false;
  int64_t value = 0;
};

class Table {
 public:
  // Both must outlive it.
  Table(Database* database, const TableLayout& layout) : database_(*database), layout_(layout) {}
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  bool Create();
  // A column of every row, as SQL has it: "column = expression". Does nothing without a table.
  bool Set(const char* assignment);
  // Makes the index when all rows are there: that is one sort instead of a search for each row. Does nothing without a
  // table.
  bool CreateIndex(const char* name, const char* columns);
  // The same of a column that may be NULL in most rows: of the others only. Whoever asks for a value finds it there.
  bool CreateIndexOfKnown(const char* name, const char* column);
  // One value a column, in their order. nullptr and an empty optional are NULL; a text is UTF-8 without NUL.
  template <typename... Values>
  bool Row(const Values&... values) {
    if (!Ready(sizeof...(Values))) return false;
    int column = 0;
    (Bind(++column, values), ...);
    return Insert();
  }

 private:
  bool Ready(size_t columns) { return database_.ok() && (insert_ != nullptr || Prepare(columns)); }
  bool Prepare(size_t columns);
  bool Insert();

  // Numbers without a sign keep their bits; SQLite has none.
  template <std::integral Number>
  void Bind(int column, Number value) {
    BindNumber(column, static_cast<int64_t>(value));
  }
  template <typename Value>
  void Bind(int column, const std::optional<Value>& value) {
    if (value.has_value()) {
      Bind(column, *value);
    } else {
      Bind(column, nullptr);
    }
  }
  void Bind(int column, const NumberOrNull& number) {
    if (number.known) {
      BindNumber(column, number.value);
    } else {
      Bind(column, nullptr);
    }
  }
  void Bind(int column, std::nullptr_t);
  void Bind(int column, std::string_view text);
  void Bind(int column, double value);
  void BindNumber(int column, int64_t value);

  Database& database_;
  const TableLayout& layout_;
  bool created_ = false;
  sqlite3_stmt* insert_ = nullptr;
};

}  // namespace slipstream::trace_db
