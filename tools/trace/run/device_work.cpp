#include "tools/trace/run/device_work.h"

#include "tools/trace/db/bounded.h"

namespace slipstream::run {
namespace {

using trace_db::DatabaseReader;

const char* TableOf(WorkKind kind) {
  switch (kind) {
    case WorkKind::kKernel:
      return "CUPTI_ACTIVITY_KIND_KERNEL";
    case WorkKind::kCopy:
      return "CUPTI_ACTIVITY_KIND_MEMCPY";
    case WorkKind::kSet:
      break;
  }
  return "CUPTI_ACTIVITY_KIND_MEMSET";
}

// Name, kind of copy, whether it is of pageable memory, whether it computes in double precision, whether it fills,
// bytes.
std::string ColumnsOf(DatabaseReader* reader, WorkKind kind) {
  const auto has = [&](const char* column) { return reader->HasColumn(TableOf(kind), column); };
  switch (kind) {
    case WorkKind::kKernel: {
      // A short name has no template, so functors of PyTorch's are in the other one alone.
      const std::string is_double =
          has("demangledName") ? "w.demangledName IN (SELECT id FROM StringIds WHERE value GLOB '*<double*' OR "
                                 "value GLOB 'dgemm*' OR value GLOB '*_dgemm*' OR value GLOB '*_d884*' OR value "
                                 "GLOB '*f64f64*')"
                               : "0";
      const std::string is_fill =
          has("demangledName") ? "w.demangledName IN (SELECT id FROM StringIds WHERE value GLOB '*FillFunctor<*')"
                               : "0";
      return "w.shortName, -1, 0, " + is_double + ", " + is_fill + ", 0";
    }
    case WorkKind::kCopy:
      // 0 is pageable memory (ENUM_CUDA_MEM_KIND).
      return std::string("0, w.copyKind, ") +
             (has("srcKind") && has("dstKind") ? "w.srcKind = 0 OR w.dstKind = 0" : "0") + ", 0, 0, w.bytes";
    case WorkKind::kSet:
      break;
  }
  return "0, -1, 0, 0, 0, w.bytes";
}

}  // namespace

std::optional<int64_t> GlobalPidOf(DatabaseReader* reader, int64_t process) {
  if (!reader->HasTable("SLIPSTREAM_PROCESSES")) return std::nullopt;
  trace_db::Question row(*reader, "SELECT globalPid FROM SLIPSTREAM_PROCESSES WHERE processId = ?1");
  return row.Bind(1, process).Next() ? row.NumberIfKnown(0) : std::nullopt;
}

DeviceWork::DeviceWork(DatabaseReader* reader, int64_t process, WorkKind kind) {
  const char* const table = TableOf(kind);
  if (!reader->HasTable(table)) return;
  const auto column = [&](const char* name, const char* without) {
    return reader->HasColumn(table, name) ? std::string("w.") + name : std::string(without);
  };
  const std::optional<int64_t> global_pid = GlobalPidOf(reader, process);
  const std::string unattributed = global_pid && reader->HasColumn(table, "globalPid")
                                       ? " OR c.processId IS NULL AND w.globalPid = " + std::to_string(*global_pid)
                                       : "";
  row_.emplace(*reader, "SELECT w.start, w.\"end\", w.deviceId, " + column("contextId", "w.deviceId") + ", " +
                            column("streamId", "0") + ", w.correlationId, c.processId, c.siteId, c.thread, " +
                            (reader->HasColumn("SLIPSTREAM_CALLS", "siteIsBackward") ? "c.siteIsBackward, " : "0, ") +
                            ColumnsOf(reader, kind) + " FROM " + table +
                            " w LEFT JOIN SLIPSTREAM_CALLS c ON c.correlationId = w.correlationId WHERE "
                            "(c.processId = ?1" +
                            unattributed + ") ORDER BY w.start");
  row_->Bind(1, process);
}

bool DeviceWork::Next() {
  if (!row_ || !row_->Next()) return false;
  now_.start = trace_db::BoundedTime(row_->Number(0));
  now_.end = trace_db::BoundedEnd(now_.start, row_->Number(1));
  now_.device = row_->Number(2);
  now_.context = row_->Number(3);
  now_.stream = row_->Number(4);
  now_.correlation = row_->Number(5);
  now_.has_call = !row_->IsNull(6);
  now_.site = row_->Number(7);
  now_.thread = row_->NumberIfKnown(8).value_or(-1);
  now_.site_is_backward = row_->Number(9) != 0;
  now_.kernel = row_->Number(10);
  now_.copy_kind = row_->Number(11);
  now_.is_pageable = row_->Number(12) != 0;
  now_.is_double = row_->Number(13) != 0;
  now_.is_fill = row_->Number(14) != 0;
  now_.bytes = trace_db::BoundedCount(row_->Number(15));
  return true;
}

}  // namespace slipstream::run
