#include "tools/trace/report/idle_lines.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace slipstream::report {

LineReport LineOf(run::Names* names, const SiteKey& key) {
  const run::Line& line = names->LineOf(key.site);
  return {.known = line.known(),
          .of_step_thread = key.of_step_thread,
          .file = line.file,
          .line = line.line,
          .function = line.function};
}

bool ComesFirst(const LineReport& a, const LineReport& b) {
  if (a.of_step_thread != b.of_step_thread) return a.of_step_thread;
  return std::tie(a.file, a.line, a.function) < std::tie(b.file, b.line, b.function);
}

std::vector<IdleLineReport> IdleLinesOf(run::Names* names, const IdleLines& lines,
                                        const std::array<int64_t, kHostStates>& idle, size_t sites,
                                        const std::function<SiteKey(size_t)>& key_of) {
  std::vector<IdleLineReport> list;
  std::array<int64_t, kHostStates> rest = idle;
  for (size_t site = 0; site < sites; ++site) {
    std::optional<LineReport> line;
    for (size_t host = 0; host < kHostStates; ++host) {
      const int64_t time = lines.Of(site, host);
      if (time == 0) continue;
      if (!line) line = LineOf(names, key_of(site));
      rest[host] -= time;
      list.push_back(
          {.host = host, .before_call = host == kHostOutside, .no_call = false, .line = *line, .time = time});
    }
  }
  for (size_t host = 0; host < kHostStates; ++host) {
    if (rest[host] > 0) {
      list.push_back({.host = host, .before_call = false, .no_call = true, .line = {}, .time = rest[host]});
    }
  }
  std::sort(list.begin(), list.end(), [](const IdleLineReport& a, const IdleLineReport& b) {
    if (a.time != b.time) return a.time > b.time;
    if (a.host != b.host) return a.host < b.host;
    if (a.no_call != b.no_call) return b.no_call;
    return ComesFirst(a.line, b.line);
  });
  return list;
}

}  // namespace slipstream::report
