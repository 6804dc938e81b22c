// docs/trace-database.md against a database: its questions are answered, and it names every column there is.

#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/trace_db/sample_run.h"
#include "tests/trace_db/trace_db_testing.h"

namespace slipstream::trace_db {
namespace {

class DocumentTest : public TraceDbTest {
 protected:
  void SetUp() override {
    TraceDbTest::SetUp();
    ASSERT_TRUE(RecordSampleRun(run_));
    BuildWell();
    document_ = tracer::Slurp(SLIPSTREAM_TRACE_DOCUMENT);
    ASSERT_NE(document_, "");
  }

  std::string document_;
};

TEST_F(DocumentTest, EveryQuestionHasAnAnswer) {
  const std::regex block("```sql\n([^`]*)```");
  int questions = 0;
  for (std::sregex_iterator at(document_.begin(), document_.end(), block), end; at != end; ++at) {
    ++questions;
    EXPECT_FALSE(Query((*at)[1]).empty()) << (*at)[1];
  }
  EXPECT_EQ(questions, 9);
}

TEST_F(DocumentTest, TheAnswersAreRight) {
  const std::regex block("```sql\n([^`]*)```");
  std::vector<Rows> answers;
  for (std::sregex_iterator at(document_.begin(), document_.end(), block), end; at != end; ++at) {
    answers.push_back(Query((*at)[1]));
  }
  ASSERT_EQ(answers.size(), 9U);
  ASSERT_EQ(answers[0].size(), 4U);  // one line, four functions
  for (const auto& row : answers[0]) {
    EXPECT_EQ(row[0], "train.py:42");
    EXPECT_EQ(row[2], "3");
  }
  ASSERT_EQ(answers[1].size(), 10U);  // the five slowest, of two frames each
  for (size_t i = 0; i < answers[1].size(); ++i) {
    const auto& row = answers[1][i];
    EXPECT_EQ(row[0], answers[1][i / 2 * 2][0]);
    EXPECT_EQ(row[2], std::to_string(i % 2));
    EXPECT_EQ(row[3], i % 2 == 0 ? "train.py:42" : "train.py:50");
    EXPECT_EQ(row[4], i % 2 == 0 ? "step" : "<module>");
  }
  ASSERT_EQ(answers[2].size(), 4U);
  double calls_ms = 0;
  for (const auto& row : answers[2]) {
    EXPECT_EQ(row[1], "1.0") << row[0];
    calls_ms += std::stod(row[2]);
    EXPECT_GT(std::stod(row[3]), 0);
  }
  EXPECT_LE(calls_ms, std::stod(answers[2][0][3]));
  EXPECT_EQ(answers[3], (Rows{{"transfer.h2d.promoted.small", "3", "12288", "0.006"},
                              {"transfer.sync.skipped", "3", "12288", "0.003"}}));
  ASSERT_EQ(answers[4].size(), 1U);
  EXPECT_EQ(answers[4][0][0], "0");
  EXPECT_EQ(answers[4][0][3], "12");
  EXPECT_EQ(answers[5], (Rows{{"cudaMalloc_v3020", "2", "1"}}));
  ASSERT_EQ(answers[6].size(), 1U);
  EXPECT_EQ(answers[6][0][3], "12288");
  ASSERT_EQ(answers[7].size(), 3U);
  for (const auto& row : answers[7]) EXPECT_EQ(row[3], "4");
  ASSERT_EQ(answers[8].size(), 1U);  // the function that the sample's only stack begins with
  EXPECT_NE(answers[8][0][0].find("WalkNativeStack"), std::string::npos) << answers[8][0][0];
  EXPECT_EQ(answers[8][0][2], "12");
}

TEST_F(DocumentTest, EveryTableAndColumnIsThere) {
  for (const std::string& table : TablesOf(database_)) {
    SCOPED_TRACE(table);
    if (!table.starts_with("SLIPSTREAM_")) {
      EXPECT_NE(document_.find("`" + table + "`"), std::string::npos);
      continue;
    }
    const std::string title = "### `" + table + "`\n";
    const size_t from = document_.find(title);
    ASSERT_NE(from, std::string::npos);
    const std::string section = document_.substr(from, document_.find("\n##", from + title.size()) - from);
    for (const auto& column : Query("SELECT name FROM pragma_table_info('" + table + "')")) {
      EXPECT_NE(section.find("`" + column[0] + "`"), std::string::npos) << column[0];
    }
  }
  // And nothing else.
  const std::regex title("### `(SLIPSTREAM_[A-Z]+)`");
  for (std::sregex_iterator at(document_.begin(), document_.end(), title), end; at != end; ++at) {
    EXPECT_EQ(One("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '" + (*at)[1].str() + "'"), "1");
  }
}

}  // namespace
}  // namespace slipstream::trace_db
