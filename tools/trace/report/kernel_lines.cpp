#include "tools/trace/report/kernel_lines.h"

#include <algorithm>
#include <utility>

#include "tools/trace/db/schema.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/idle_lines.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::kKernels;
using trace_db::kOwnCalls;
using trace_db::Question;

constexpr int kProcessColumn = 15;
constexpr int kSiteColumn = 16;
constexpr int kThreadColumn = 17;

}  // namespace

std::string KernelsSql(DatabaseReader* reader) {
  const auto column = [&](const char* name, const char* without) {
    return reader->HasColumn(kKernels.name, name) ? std::string(", k.") + name : std::string(", ") + without;
  };
  const bool calls = reader->HasTable(kOwnCalls.name) && reader->HasColumn(kKernels.name, "correlationId");
  const std::string name =
      reader->HasColumn(kKernels.name, "shortName") ? ", k.shortName" : column("demangledName", "0");
  return "SELECT k.start, k.\"end\", k.deviceId" + column("globalPid", "NULL") + name +
         column("demangledName", "NULL") + column("gridX", "1") + column("gridY", "1") + column("gridZ", "1") +
         column("blockX", "1") + column("blockY", "1") + column("blockZ", "1") + column("registersPerThread", "0") +
         column("staticSharedMemory", "0") + column("dynamicSharedMemory", "0") +
         (calls ? ", c.processId, c.siteId, c.thread" : ", NULL, NULL, NULL") + " FROM " + kKernels.name + " k" +
         (calls ? std::string(" LEFT JOIN ") + kOwnCalls.name + " c ON c.correlationId = k.correlationId"
                : std::string()) +
         " ORDER BY k.start, k.\"end\" DESC, k.rowid";
}

Launch LaunchOf(const Question& row, const ProcessReport& process) {
  if (row.IsNull(kProcessColumn) || row.Number(kProcessColumn) != process.process) return {};
  return {.known = true,
          .site = row.Number(kSiteColumn),
          .of_step_thread = row.Number(kThreadColumn) == process.step_thread};
}

void KernelLines::Add(const Launch& launch, int64_t name, int64_t time) {
  Sum& sum = lines_[{launch.known, launch.site, launch.of_step_thread}];
  ++sum.launches;
  AddTo(&sum.time, time);
  AddTo(&sum.names[name], time);
}

std::vector<KernelLineReport> KernelLines::Finish(DatabaseReader* reader, run::Names* names) const {
  std::vector<KernelLineReport> list;
  if (!reader->HasTable(kOwnCalls.name) || !reader->HasColumn(kKernels.name, "correlationId")) return list;
  for (const auto& [key, sum] : lines_) {
    const auto& [known, site, of_step_thread] = key;
    KernelLineReport& one = list.emplace_back();
    one.call_known = known;
    one.line = LineOf(names, {.site = known ? site : 0, .of_step_thread = of_step_thread});
    one.launches = sum.launches;
    one.time = sum.time;
    for (const auto& [id, time] : sum.names) {
      const std::string& name = names->TextOf(id);
      const bool more =
          one.top_kernel.empty() || time > one.top_time || (time == one.top_time && name < one.top_kernel);
      if (!more) continue;
      one.top_kernel = name;
      one.top_time = time;
    }
  }
  std::sort(list.begin(), list.end(), [](const KernelLineReport& a, const KernelLineReport& b) {
    if (a.time != b.time) return a.time > b.time;
    if (a.call_known != b.call_known) return a.call_known;
    return ComesFirst(a.line, b.line);
  });
  return list;
}

}  // namespace slipstream::report
