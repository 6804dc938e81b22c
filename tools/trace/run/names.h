// The texts and lines of a run's database, by their numbers: each is asked for once.
//
// Memory: what was asked for.
// Threading, errors: as the reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "tools/trace/db/database_reader.h"

namespace slipstream::run {

// A line of the program; none: not known.
struct Line {
  std::string file;
  std::optional<int64_t> line;
  std::string function;
  bool known() const { return !file.empty(); }
  bool operator==(const Line&) const = default;
};

class Names {
 public:
  explicit Names(trace_db::DatabaseReader* reader);

  // Of StringIds; empty: there is none of that number. Stays where it is.
  const std::string& TextOf(int64_t id);
  // Of SLIPSTREAM_SITES.
  const Line& LineOf(int64_t site);

 private:
  std::optional<trace_db::Question> text_;  // nothing: there is no such table
  std::optional<trace_db::Question> line_;
  std::unordered_map<int64_t, std::string> texts_;
  std::unordered_map<int64_t, Line> lines_;
};

}  // namespace slipstream::run
