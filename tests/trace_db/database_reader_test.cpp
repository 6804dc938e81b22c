// Databases that somebody made to do harm: nothing in them is run, and what is too large is an error.

#include "tools/trace/db/database_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/trace_db/trace_db_testing.h"

namespace slipstream::trace_db {
namespace {

class DatabaseReaderTest : public TraceDbTest {
 protected:
  void Make(const std::string& sql) const { Execute(database_, sql); }
  void Remake(const std::string& sql) const {
    std::filesystem::remove(database_);
    Make(sql);
  }
  // What opening it says, or asking for the first row.
  std::string ErrorOf(const std::string& question) const {
    DatabaseReader reader(database_);
    Question row(reader, question);
    EXPECT_FALSE(row.Next()) << question;
    EXPECT_FALSE(reader.ok()) << question;
    return reader.error().text;
  }

  static constexpr char kTables[] =
      "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
      "CREATE TABLE SLIPSTREAM_CALLS (correlationId INTEGER, bytes INTEGER);"
      "INSERT INTO SLIPSTREAM_CALLS VALUES (1, 5);";
};

TEST_F(DatabaseReaderTest, AViewInPlaceOfATableIsRefused) {
  Make(
      "CREATE VIEW slipstream_processes AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
      "SELECT x AS processId FROM n");
  EXPECT_EQ(ErrorOf("SELECT processId FROM SLIPSTREAM_PROCESSES"), "its slipstream_processes is a view and no table");
  Remake("CREATE VIEW StringIds AS SELECT 1 AS id, hex(zeroblob(400000000)) AS value");
  EXPECT_EQ(ErrorOf("SELECT value FROM StringIds"), "its StringIds is a view and no table");
}

TEST_F(DatabaseReaderTest, AVirtualTableInPlaceOfATableIsRefused) {
  Make(
      "PRAGMA writable_schema = ON; INSERT INTO sqlite_master VALUES ('table', 'StringIds', 'StringIds', 0, "
      "'CREATE VIRTUAL TABLE StringIds USING any(x)')");
  EXPECT_EQ(ErrorOf("SELECT x FROM StringIds"), "its StringIds is a virtual table and no table");
}

TEST_F(DatabaseReaderTest, WhatLiesAboutItselfIsNotRun) {
  Make(
      "PRAGMA writable_schema = ON; INSERT INTO sqlite_master VALUES ('table', 'StringIds', 'StringIds', 0, "
      "'CREATE VIEW StringIds AS SELECT 1 AS value')");
  EXPECT_NE(ErrorOf("SELECT value FROM StringIds"), "");
  Remake(
      "PRAGMA writable_schema = ON; INSERT INTO sqlite_master VALUES ('table', 'StringIds', 'StringIds', 0, "
      "'CREATE /* */ VIRTUAL TABLE StringIds USING json_each')");
  EXPECT_NE(ErrorOf("SELECT value FROM StringIds"), "");
}

// What somebody put beside the tables, as tools for exports of Nsight Systems may, is in nobody's way.
TEST_F(DatabaseReaderTest, WhatIsNotAskedIsNotRunEither) {
  Make(std::string(kTables) +
       "CREATE VIEW mine AS SELECT bytes FROM SLIPSTREAM_CALLS;"
       "CREATE VIEW foreign_code AS SELECT load_extension('/tmp/x.so');"
       "CREATE TRIGGER often AFTER INSERT ON StringIds BEGIN DELETE FROM SLIPSTREAM_CALLS; END");
  DatabaseReader reader(database_);
  ASSERT_TRUE(reader.ok()) << reader.error().text;
  EXPECT_TRUE(reader.HasTable("SLIPSTREAM_CALLS"));
  EXPECT_FALSE(reader.HasTable("mine"));
  EXPECT_TRUE(reader.HasColumn("SLIPSTREAM_CALLS", "bytes"));
  EXPECT_FALSE(reader.HasColumn("SLIPSTREAM_CALLS", "value"));
  {
    Question row(reader, "SELECT bytes FROM SLIPSTREAM_CALLS");
    ASSERT_TRUE(row.Next());
    EXPECT_EQ(row.Number(0), 5);
  }
  EXPECT_TRUE(reader.ok()) << reader.error().text;
  EXPECT_EQ(ErrorOf("SELECT * FROM mine"), "access to view \"mine\" prohibited");
  EXPECT_NE(ErrorOf("SELECT * FROM foreign_code"), "");
}

TEST_F(DatabaseReaderTest, AHugeTextIsAnError) {
  Make(std::string(kTables) +
       "INSERT INTO StringIds VALUES (1, 'short'), (2, replace(hex(zeroblob(10000000)), '0', 'x'))");
  DatabaseReader reader(database_);
  ASSERT_TRUE(reader.ok()) << reader.error().text;
  Question row(reader, "SELECT value FROM StringIds ORDER BY id");
  ASSERT_TRUE(row.Next());
  EXPECT_EQ(row.Text(0), "short");
  EXPECT_FALSE(row.Next());
  EXPECT_FALSE(reader.ok());
  EXPECT_NE(reader.error().text.find("too big"), std::string::npos) << reader.error().text;
}

TEST_F(DatabaseReaderTest, ADeepExpressionAndManyColumnsAreErrors) {
  std::string deep = "1";
  for (int i = 0; i < 500; ++i) deep += "+1";
  Make("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT CHECK (" + deep + "))");
  EXPECT_NE(ErrorOf("SELECT value FROM StringIds"), "");
  std::string columns = "id INTEGER";
  for (int i = 0; i < 1000; ++i) columns += ", c" + std::to_string(i);
  Remake("CREATE TABLE StringIds (" + columns + ")");
  EXPECT_NE(ErrorOf("SELECT id FROM StringIds"), "");
}

TEST_F(DatabaseReaderTest, NothingIsWrittenOrAttached) {
  Make(kTables);
  const std::string before = tracer::Slurp(database_);
  for (const char* const sql :
       {"ATTACH ':memory:' AS other", "INSERT INTO SLIPSTREAM_CALLS VALUES (2, 6)", "CREATE TABLE more (x)",
        "SELECT load_extension('/tmp/x.so')", "SELECT * FROM json_each('[1]')"}) {
    EXPECT_NE(ErrorOf(sql), "") << sql;
  }
  EXPECT_TRUE(tracer::Slurp(database_) == before);
}

}  // namespace
}  // namespace slipstream::trace_db
