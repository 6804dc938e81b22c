// The rows of what a process says of itself by NVTX: its ranges, marks and domains.
//
// Memory: a number a name.
// Threading: one thread.
// Errors: kept by the tables' Database.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "tools/trace/db/step_names.h"
#include "tools/trace/db/trace_tables.h"
#include "tracer/spool/range_record.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::trace_db {

class RangeRows {
 public:
  // Both must outlive it.
  RangeRows(TraceTables* tables, const tracer::SpoolReader& reader, int64_t global_pid)
      : tables_(*tables), reader_(reader), global_pid_(global_pid) {}

  // `ended_on`: the thread on which it ended, which began it as well unless the range says another one. Both global.
  void Add(const tracer::RangeRecord& range, int64_t start, int64_t end, int64_t ended_on);
  // None: its name is not that of a step.
  const std::optional<StepName>& StepNameOf(const tracer::RangeRecord& range) { return NameOf(range.name).step; }

 private:
  struct Name {
    std::optional<int64_t> id;  // of StringIds
    std::optional<StepName> step;
  };
  const Name& NameOf(uint32_t number);
  // 0: the domain without a name.
  int64_t DomainId(uint32_t domain);

  TraceTables& tables_;
  const tracer::SpoolReader& reader_;
  const int64_t global_pid_;
  std::unordered_map<uint32_t, Name> names_;       // by the spool's number
  std::unordered_map<uint32_t, int64_t> domains_;  // by that of their name
  int64_t next_range_ = 0;
};

}  // namespace slipstream::trace_db
