// What a database says, as one line of text a row: the exports, read back, must give the same lines. By SQL of the
// tests' own, so that a mistake in a query of the export's is not made twice.
//
// Threading: none of its own.
#pragma once

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "tests/trace_db/trace_db_testing.h"
#include "tools/trace/export/trace_export.h"

namespace slipstream::trace_export {

using Lines = std::vector<std::string>;

inline Lines Sorted(Lines lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

inline std::string RealText(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.10g", value);
  return text;
}

// "NULL" is nothing.
inline std::string Known(const std::string& value) { return value == "NULL" ? "" : value; }

class ExpectedRows {
 public:
  // `where`: SQL about p, SLIPSTREAM_PROCESSES.
  ExpectedRows(std::string database, Format format, std::string where = "1")
      : database_(std::move(database)), format_(format), where_(std::move(where)) {}

  Lines All() {
    Processes();
    Stacks();
    Calls();
    Work();
    Others();
    return Sorted(std::move(lines_));
  }

 private:
  trace_db::Rows Query(const std::string& sql) const { return trace_db::Query(database_, sql); }
  bool HasTable(const std::string& name) const {
    return Query("SELECT 1 FROM sqlite_master WHERE name = '" + name + "'").size() == 1;
  }
  static std::string Site(const std::string& alias) {
    return "coalesce(" + alias + ".file || '(' || coalesce(" + alias + ".line, '?') || '): ' || " + alias +
           ".function, '')";
  }

  // The first one keeps a number that two have: by rank, those without behind.
  void Processes() {
    std::map<std::string, int> taken;
    for (const auto& row : Query("SELECT p.processId, p.pid FROM SLIPSTREAM_PROCESSES p WHERE " + where_ +
                                 " ORDER BY coalesce(p.rank, 1000000), p.processId")) {
      const bool is_first = taken[row[1]]++ == 0;
      pids_[row[0]] = is_first ? row[1] : std::to_string(10'000'000 + std::stoll(row[0]));
    }
  }
  void Stacks() {
    if (!HasTable("SLIPSTREAM_STACKS")) return;
    for (const auto& row :
         Query("WITH RECURSIVE path(id, text) AS (SELECT stackId, " + Site("s") +
               " FROM SLIPSTREAM_STACKS JOIN SLIPSTREAM_SITES s USING (siteId) WHERE parentId IS NULL UNION ALL "
               "SELECT k.stackId, path.text || ';' || " +
               Site("s") +
               " FROM SLIPSTREAM_STACKS k JOIN path ON path.id = k.parentId JOIN SLIPSTREAM_SITES s USING (siteId)) "
               "SELECT id, text FROM path")) {
      stacks_[row[0]] = row[1];
    }
  }
  // Of a call with a stack of both kinds, from outside in: Python's frames, and the native ones behind the last of the
  // interpreter's.
  std::string WithNative(const std::string& python, const std::string& native_id) const {
    std::vector<std::pair<std::string, bool>> frames;
    std::string at = native_id;
    while (!at.empty()) {
      const trace_db::Rows row = Query(
          "SELECT coalesce(m.path, ''), a.name, m.isInterpreter IS 1, k.parentId FROM SLIPSTREAM_STACKS k JOIN "
          "SLIPSTREAM_ADDRESSES a USING (addressId) LEFT JOIN SLIPSTREAM_MODULES m USING (moduleId) WHERE "
          "k.stackId = " +
          at);
      const std::string file = row[0][0].substr(row[0][0].rfind('/') + 1);
      const std::string text = format_ != Format::kChrome       ? row[0][0] + "(?): " + row[0][1]
                               : row[0][1] == "libwork.so+0x30" ? row[0][1]
                                                                : file + ": " + row[0][1];
      frames.emplace_back(text, row[0][2] == "1");
      at = Known(row[0][3]);
    }
    std::string text;
    for (const auto& [frame, is_interpreter] : frames) {
      if (is_interpreter && !python.empty()) break;
      text = frame + (text.empty() ? "" : ";" + text);
    }
    return python + (python.empty() || text.empty() ? "" : ";") + text;
  }
  void Calls() {
    const bool has_work = HasTable("CUPTI_ACTIVITY_KIND_KERNEL");
    const std::string work =
        !has_work ? "0"
                  : "EXISTS (SELECT 1 FROM (SELECT correlationId c FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL SELECT "
                    "correlationId FROM CUPTI_ACTIVITY_KIND_MEMCPY UNION ALL SELECT correlationId FROM "
                    "CUPTI_ACTIVITY_KIND_MEMSET) WHERE c = r.correlationId)";
    const std::string stack = stacks_.empty() ? "NULL, NULL" : "c.stackId, c.nativeStackId";
    for (const auto& row :
         Query("SELECT p.processId, r.globalTid & 16777215, r.start, r.end - r.start, CASE WHEN n.value LIKE 'cuda%' "
               "THEN substr(n.value, 1, instr(n.value, '_v') - 1) ELSE n.value END, CASE r.eventClass WHEN 1 THEN "
               "'cuda_driver' ELSE 'cuda_runtime' END, r.correlationId, c.bytes, c.stream, c.deviceId, r.returnValue, "
               "dn.value, d.savedNs, " +
               Site("s") + ", " + work + ", " + stack +
               " FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds n ON n.id = r.nameId JOIN SLIPSTREAM_CALLS c USING "
               "(correlationId) JOIN SLIPSTREAM_PROCESSES p USING (processId) LEFT JOIN SLIPSTREAM_DECISIONS d USING "
               "(correlationId) LEFT JOIN StringIds dn ON dn.id = d.decisionId LEFT JOIN SLIPSTREAM_SITES s USING "
               "(siteId) WHERE " +
               where_)) {
      std::string text = stacks_.count(row[15]) != 0 ? stacks_[row[15]] : "";
      if (row[16] != "NULL") text = WithNative(text, row[16]);
      if (text.empty()) text = row[13];
      lines_.push_back("call pid=" + pids_[row[0]] + " tid=" + row[1] + " ts=" + row[2] + " dur=" + row[3] + " " +
                       row[5] + " " + row[4] + " corr=" + row[6] + " bytes=" + row[7] + " stream=" + row[8] +
                       " device=" + Known(row[9]) + " returned=" + row[10] + " decision=" + Known(row[11]) +
                       " saved=" + Known(row[12]) + " site=" + row[13] + " stack=" + text + " flow=" + row[14]);
    }
  }
  void Work() {
    if (!HasTable("CUPTI_ACTIVITY_KIND_KERNEL")) return;
    constexpr const char* kCopies[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD",
                                       "DtoA",    "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD"};
    constexpr const char* kMemory[] = {"Pageable", "Pinned",        "Device",         "Array",
                                       "Managed",  "Device Static", "Managed Static", "Unknown"};
    constexpr const char* kWaits[] = {"Unknown", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
    const auto from = [&](const std::string& table, const std::string& columns) {
      return Query(
          "SELECT p.processId, w.deviceId, w.streamId, w.start, w.end - w.start, coalesce(w.correlationId, 0), "
          "w.contextId, EXISTS (SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME r WHERE r.correlationId = "
          "w.correlationId), coalesce((SELECT workIsOwn FROM SLIPSTREAM_CALLS c WHERE c.correlationId = "
          "w.correlationId), 0), " +
          columns + " FROM CUPTI_ACTIVITY_KIND_" + table + " w JOIN SLIPSTREAM_PROCESSES p USING (globalPid) WHERE " +
          where_);
    };
    const auto head = [&](const std::vector<std::string>& row, const std::string& category, const std::string& name) {
      const bool is_wait = category == "cuda_sync";
      return category + " pid=" + pids_[row[0]] + " device=" + row[1] +
             " stream=" + (row[2] == "4294967295" ? "-1" : row[2]) + " ts=" + row[3] + " dur=" + row[4] + " " + name +
             " corr=" + row[5] + " context=" + row[6] + " flow=" + (is_wait ? "0" : row[7]) +
             " by=" + (row[8] == "1" ? "slipstream" : "");
    };
    const auto bandwidth = [](const std::string& bytes, const std::string& ns) {
      return " bytes=" + bytes + " bandwidth=" + (ns == "0" ? "" : RealText(std::stod(bytes) / std::stod(ns)));
    };
    const bool has_devices = HasTable("TARGET_INFO_GPU");
    for (const auto& row : from("KERNEL",
                                "(SELECT value FROM StringIds n WHERE n.id = w.demangledName), w.gridX, "
                                "w.gridY, w.gridZ, w.blockX, w.blockY, w.blockZ, w.registersPerThread, "
                                "w.staticSharedMemory + w.dynamicSharedMemory, w.graphNodeId, p.pid")) {
      std::string line = head(row, "kernel", row[9]) + " grid=" + row[10] + "," + row[11] + "," + row[12] +
                         " block=" + row[13] + "," + row[14] + "," + row[15] + " registers=" + row[16] +
                         " shared=" + row[17] + " node=" + Known(row[18]);
      if (has_devices) {
        const bool is_first = (row[1] == "0") != (row[19] == "102");
        const double blocks = std::stod(row[10]) * std::stod(row[11]) * std::stod(row[12]) / (is_first ? 132 : 108);
        const double threads = std::stod(row[13]) * std::stod(row[14]) * std::stod(row[15]);
        line += " blocks=" + RealText(blocks) + " warps=" + RealText(blocks * threads / 32);
      }
      lines_.push_back(line);
    }
    for (const auto& row : from("MEMCPY", "w.copyKind, w.srcKind, w.dstKind, w.bytes")) {
      const std::string name = std::string("Memcpy ") + kCopies[std::stoi(row[9])] + " (" +
                               kMemory[std::stoi(row[10])] + " -> " + kMemory[std::stoi(row[11])] + ")";
      lines_.push_back(head(row, "gpu_memcpy", name) + bandwidth(row[12], row[4]));
    }
    for (const auto& row : from("MEMSET", "w.memKind, w.bytes")) {
      const std::string name = std::string("Memset (") + kMemory[std::stoi(row[9])] + ")";
      lines_.push_back(head(row, "gpu_memset", name) + bandwidth(row[10], row[4]));
    }
    for (auto& row : from("SYNCHRONIZATION", "w.syncType, w.isOwn")) {
      row[8] = row[10];
      if (row[8] == "1" && format_ == Format::kChrome) continue;
      lines_.push_back(head(row, "cuda_sync", kWaits[std::stoi(row[9])]));
    }
  }
  void Others() {
    const bool is_chrome = format_ == Format::kChrome;
    const std::string join = " x JOIN SLIPSTREAM_PROCESSES p USING (processId) ";
    const std::string site = " LEFT JOIN SLIPSTREAM_SITES s USING (siteId) WHERE " + where_;
    for (const auto& row : Query("SELECT p.processId, x.globalTid & 16777215, x.start, x.end - x.start, x.number, " +
                                 Site("s") + " FROM SLIPSTREAM_STEPS" + join + site)) {
      // Perfetto's steps are the process's.
      lines_.push_back("step pid=" + pids_[row[0]] + (is_chrome ? " tid=" + row[1] : "") + " ts=" + row[2] +
                       " dur=" + row[3] + " " + row[4] + " site=" + row[5]);
    }
    for (const auto& row : Query("SELECT p.processId, x.globalTid & 16777215, x.start, x.value, " + Site("s") +
                                 " FROM SLIPSTREAM_MARKS" + join + site)) {
      lines_.push_back("mark pid=" + pids_[row[0]] + " tid=" + row[1] + " ts=" + row[2] + " value=" + row[3] +
                       " site=" + row[4]);
    }
    for (const auto& row : Query("SELECT p.processId, x.globalTid & 16777215, x.start, x.end - x.start, x.count FROM "
                                 "SLIPSTREAM_DROPS" +
                                 join + " WHERE " + where_)) {
      lines_.push_back("drop pid=" + pids_[row[0]] + " tid=" + row[1] + " ts=" + row[2] + " dur=" + row[3] +
                       " count=" + row[4]);
    }
    for (const auto& row : Query("SELECT p.processId, x.deviceId, x.start, x.liveBytes, x.idleBytes, x.parkedBytes, "
                                 "x.trims, x.retries FROM SLIPSTREAM_MEMORY" +
                                 join + " WHERE " + where_)) {
      constexpr const char* kNames[] = {"live", "idle", "parked", "trims", "retries"};
      for (size_t i = 0; i < std::size(kNames); ++i) {
        lines_.push_back("counter pid=" + pids_[row[0]] + " device=" + row[1] + " " + kNames[i] + " ts=" + row[2] +
                         " value=" + row[3 + i]);
      }
    }
    // All but what slipstream's own steps stand there for.
    for (const auto& row :
         Query("SELECT p.processId, x.globalTid & 16777215, x.start, coalesce(x.end - x.start, ''), x.eventType, "
               "coalesce(x.text, n.value) FROM NVTX_EVENTS x JOIN SLIPSTREAM_PROCESSES p ON p.globalPid = "
               "(x.globalTid & ~16777215) LEFT JOIN StringIds n ON n.id = x.textId WHERE x.eventType != 75 AND "
               "(x.uint64Value IS NULL OR x.uint64Value = 7777) AND " +
               where_)) {
      lines_.push_back("range pid=" + pids_[row[0]] + " tid=" + row[1] + " ts=" + row[2] + " dur=" + row[3] +
                       (row[4] == "34" ? " mark " : " ") + row[5]);
    }
  }

  const std::string database_;
  const Format format_;
  const std::string where_;
  std::map<std::string, std::string> pids_;  // by processId
  std::map<std::string, std::string> stacks_;
  Lines lines_;
};

}  // namespace slipstream::trace_export
