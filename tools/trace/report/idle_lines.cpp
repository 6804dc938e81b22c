#include "tools/trace/report/idle_lines.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "tools/trace/report/place.h"

namespace slipstream::report {

LineReport ReadLine(trace_db::DatabaseReader* reader, const SiteKey& key) {
  LineReport line;
  line.of_step_thread = key.of_step_thread;
  std::optional<Place> place = ReadPlace(reader, key.site);
  if (!place) return line;
  line.known = true;
  line.file = std::move(place->file);
  line.line = place->line;
  line.function = std::move(place->function);
  return line;
}

bool ComesFirst(const LineReport& a, const LineReport& b) {
  if (a.of_step_thread != b.of_step_thread) return a.of_step_thread;
  return std::tie(a.file, a.line, a.function) < std::tie(b.file, b.line, b.function);
}

std::vector<IdleLineReport> IdleLinesOf(trace_db::DatabaseReader* reader, const IdleLines& lines,
                                        const std::array<int64_t, kHostStates>& idle, size_t sites,
                                        const std::function<SiteKey(size_t)>& key_of) {
  std::vector<IdleLineReport> list;
  std::array<int64_t, kHostStates> rest = idle;
  for (size_t site = 0; site < sites; ++site) {
    std::optional<LineReport> line;
    for (size_t host = 0; host < kHostStates; ++host) {
      const int64_t time = lines.Of(site, host);
      if (time == 0) continue;
      if (!line) line = ReadLine(reader, key_of(site));
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
