#include "tools/trace/db/table.h"

#include <sqlite3.h>

#include <string>

namespace slipstream::trace_db {

Table::~Table() { sqlite3_finalize(insert_); }

bool Table::Create() {
  if (created_) return database_.ok();
  created_ = database_.Run(std::string("CREATE TABLE ") + layout_.name + " (" + layout_.columns + ")");
  return created_;
}

bool Table::Set(const char* assignment) {
  if (!created_) return database_.ok();
  return database_.Run(std::string("UPDATE ") + layout_.name + " SET " + assignment);
}

bool Table::CreateIndex(const char* name, const char* columns) {
  if (!created_) return database_.ok();
  return database_.Run(std::string("CREATE INDEX ") + name + " ON " + layout_.name + " (" + columns + ")");
}

bool Table::CreateIndexOfKnown(const char* name, const char* column) {
  if (!created_) return database_.ok();
  return database_.Run(std::string("CREATE INDEX ") + name + " ON " + layout_.name + " (" + column + ") WHERE " +
                       column + " IS NOT NULL");
}

bool Table::Prepare(size_t columns) {
  if (!Create()) return false;
  std::string sql = std::string("INSERT INTO ") + layout_.name + " VALUES (?";
  for (size_t i = 1; i < columns; ++i) sql += ",?";
  sql += ")";
  const int code = sqlite3_prepare_v3(database_.handle(), sql.c_str(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &insert_, nullptr);
  return code == SQLITE_OK || database_.Fail(code);
}

// What was bound stands until the next row binds it anew.
bool Table::Insert() {
  const int code = sqlite3_step(insert_);
  if (code != SQLITE_DONE) database_.Fail(code);
  sqlite3_reset(insert_);
  return database_.ok();
}

void Table::Bind(int column, std::nullptr_t) { sqlite3_bind_null(insert_, column); }

// The text is the caller's, and stays until the row is inserted.
void Table::Bind(int column, std::string_view text) {
  // A null pointer would be NULL.
  const char* const bytes = text.data() != nullptr ? text.data() : "";
  const int code = sqlite3_bind_text64(insert_, column, bytes, text.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (code != SQLITE_OK) database_.Fail(code);
}

void Table::Bind(int column, double value) { sqlite3_bind_double(insert_, column, value); }

void Table::BindNumber(int column, int64_t value) { sqlite3_bind_int64(insert_, column, value); }

}  // namespace slipstream::trace_db
