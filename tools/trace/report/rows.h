// The rows of one query, in the order of their first column, a time. The next row can be looked at before it is taken.
//
// Threading, errors: as the reader.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tools/trace/db/bounded.h"
#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/lane.h"

namespace slipstream::report {

class Rows {
 public:
  // The second column is an end. Without a question there are no rows.
  Rows(trace_db::DatabaseReader* reader, const std::string& sql) {
    if (sql.empty()) return;
    question_ = std::make_unique<trace_db::Question>(*reader, sql);
    Step();
  }
  // kNever: there are no more.
  int64_t start() const { return start_; }
  int64_t end() const { return trace_db::BoundedEnd(start_, question_->Number(1)); }
  const trace_db::Question& row() const { return *question_; }
  void Step() { start_ = question_->Next() ? trace_db::BoundedTime(question_->Number(0)) : kNever; }

 private:
  std::unique_ptr<trace_db::Question> question_;
  int64_t start_ = kNever;
};

}  // namespace slipstream::report
