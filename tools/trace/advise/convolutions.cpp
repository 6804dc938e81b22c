#include "tools/trace/advise/convolutions.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <map>
#include <string>

#include "tools/trace/db/bounded.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/steps.h"

namespace slipstream::advise {

bool IsConvolution(std::string_view kernel) {
  // Those of PyTorch's own (depthwise) have no algorithms to choose from.
  constexpr std::array<std::string_view, 9> kNames = {"fprop",  "dgrad",         "wgrad",    "convolve", "conv2d",
                                                      "conv3d", "implicit_gemm", "winograd", "scudnn"};
  std::string lower(kernel);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower.find("depthwise") == std::string::npos &&
         std::any_of(kNames.begin(), kNames.end(),
                     [&](std::string_view name) { return lower.find(name) != std::string::npos; });
}

Convolutions ReadConvolutions(trace_db::DatabaseReader* reader, const report::ProcessReport& process) {
  Convolutions found;
  for (const char* const table : {"CUPTI_ACTIVITY_KIND_KERNEL", "SLIPSTREAM_CALLS", "StringIds"}) {
    if (!reader->HasTable(table)) return found;
  }
  const auto measured = std::find_if(process.steps.begin(), process.steps.end(),
                                     [](const report::Step& step) { return step.use == report::StepUse::kMeasured; });
  if (measured == process.steps.end()) return found;
  struct Line {
    size_t tried = 0;
    bool still = false;  // it has convolutions in the measured time
  };
  std::map<int64_t, Line> lines;
  bool any_before = false;
  trace_db::Question row(
      *reader,
      "SELECT n.value, c.siteId, min(w.start), max(w.start) FROM "
      "CUPTI_ACTIVITY_KIND_KERNEL w JOIN SLIPSTREAM_CALLS c ON c.correlationId = w.correlationId "
      "JOIN StringIds n ON n.id = w.shortName WHERE c.processId = ?1 GROUP BY w.shortName, c.siteId");
  for (row.Bind(1, process.process); row.Next();) {
    any_before = any_before || row.Number(2) < measured->start;
    if (!IsConvolution(row.Text(0))) continue;
    Line& line = lines[row.Number(1)];
    if (row.Number(3) < measured->start) {
      ++line.tried;
    } else {
      line.still = true;
    }
  }
  for (const auto& [site, line] : lines) {
    if (line.still) found.tried = std::max(found.tried, line.tried);
  }
  // Nothing of the beginning was given up, and the devices were watched all the time.
  found.begin_recorded = any_before && !process.kept_from && process.unwatched_steps == 0 && process.pauses == 0;
  return found;
}

}  // namespace slipstream::advise
