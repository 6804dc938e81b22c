// What the files of a recorded run have, what they lack, and what in them contradicts itself, from their database.
// Start reading here.
//
//   counter_check.h    the records against the process's own counters
//   order_checks.cpp   what cannot have happened so: calls that overlap, ranges that cross, memory freed twice
//   clock_checks.cpp   readings of clocks that disagree
//   text.cpp, json.cpp what is made of it
//
// Nothing here allows for a little: a figure that differs by one is said. That nothing is missing is said only where
// the counts say so.
//
// Threading: one thread.
// Errors: look at reader->ok() afterwards: if it is false, nothing of the result may be used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/db/database_reader.h"

namespace slipstream::trace_check {

inline constexpr char kCheckSchema[] = "slipstream-check-1";

// Something that a process's file has so many of.
struct Amount {
  std::string key;   // as the JSON spells it
  std::string name;  // for people: "kernels"
  uint64_t count = 0;
};

// What is said about it, for people and for scripts.
struct Finding {
  std::string key;   // what it is about: "dropped", "counters", ...
  std::string text;  // a sentence without a period
  uint64_t count = 0;
};

struct ProcessCheck {
  int64_t process = 0;  // of the database
  std::string name;     // "python3 (pid 7, rank 0)"
  std::string host;
  std::string spool;
  std::vector<Amount> there;
  std::vector<Finding> lacks;        // is missing
  std::vector<Finding> contradicts;  // cannot be
  std::vector<Finding> notes;        // what is neither: what could not be checked, and why
  std::optional<uint64_t> counted;   // calls by the process's counters; nothing: not known
  bool whole() const { return lacks.empty() && contradicts.empty(); }
};

struct Check {
  std::vector<ProcessCheck> processes;
  std::vector<std::string> unreadable;  // files of the run that are not in the database at all, as the caller knows
  bool whole() const;
};

Check CheckTrace(trace_db::DatabaseReader* reader);

// One screen of 80 columns.
std::string FormatCheck(const Check& check);
// One object of schema kCheckSchema.
std::string CheckJson(const Check& check);

}  // namespace slipstream::trace_check
