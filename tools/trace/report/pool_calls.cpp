#include "tools/trace/report/pool_calls.h"

#include <map>
#include <string>
#include <tuple>

#include "tools/trace/db/bounded.h"
#include "tools/trace/report/distribution.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::Question;

// Whose: process, whether it is a free, whether the pool answered it.
using CallKey = std::tuple<int64_t, bool, bool>;
struct CallSum {
  uint64_t calls = 0;
  int64_t time = 0;
  int64_t median = 0;
};

// Of calls that succeeded, one row each with the key above and its time.
constexpr char kPoolCallsSql[] =
    "SELECT c.processId AS process, f.value LIKE 'cudaFree%' AS free, s.value IN ('allocator.reused', "
    "'allocator.reused.behind', 'allocator.parked') AS served, r.\"end\" - r.start AS ns "
    "FROM SLIPSTREAM_DECISIONS d JOIN StringIds s ON s.id = d.decisionId "
    "JOIN SLIPSTREAM_CALLS c ON c.correlationId = d.correlationId "
    "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = d.correlationId JOIN StringIds f ON f.id = r.nameId "
    "WHERE s.value LIKE 'allocator.%' AND r.returnValue = 0 AND (f.value = 'cudaMalloc' OR f.value LIKE "
    "'cudaMalloc\\_v%' ESCAPE '\\' OR f.value = 'cudaFree' OR f.value LIKE 'cudaFree\\_v%' ESCAPE '\\')";

CallKey CallKeyOf(const Question& row) { return {row.Number(0), row.Number(1) != 0, row.Number(2) != 0}; }

}  // namespace

void ReadPoolCalls(DatabaseReader* reader, ProcessTable* table) {
  for (const char* const name : {"CUPTI_ACTIVITY_KIND_RUNTIME", "SLIPSTREAM_CALLS", "SLIPSTREAM_DECISIONS"}) {
    if (!reader->HasTable(name)) return;
  }
  std::map<CallKey, CallSum> sums;
  {
    Question row(*reader,
                 std::string("SELECT process, free, served, count(*) FROM (") + kPoolCallsSql + ") GROUP BY 1, 2, 3");
    while (row.Next()) sums[CallKeyOf(row)].calls = static_cast<uint64_t>(trace_db::BoundedCount(row.Number(3)));
  }
  if (sums.empty()) return;
  std::map<CallKey, uint64_t> seen;
  Question row(*reader, std::string(kPoolCallsSql) + " ORDER BY process, free, served, ns");
  while (row.Next()) {
    const CallKey key = CallKeyOf(row);
    CallSum& sum = sums[key];
    const int64_t time = trace_db::BoundedTime(row.Number(3));
    AddTo(&sum.time, time);
    if (++seen[key] == (sum.calls + 1) / 2) sum.median = time;
  }
  for (const auto& [key, sum] : sums) {
    const auto& [number, is_free, served] = key;
    const auto process = table->by_id.find(number);
    if (process == table->by_id.end()) continue;
    ProcessReport& report = table->processes[process->second];
    PoolCalls& calls = is_free ? report.frees : report.allocations;
    (served ? calls.served : calls.real) = sum.calls;
    (served ? calls.served_time : calls.real_time) = sum.time;
    (served ? calls.served_median : calls.real_median) = sum.median;
  }
}

}  // namespace slipstream::report
