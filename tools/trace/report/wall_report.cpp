#include "tools/trace/report/wall_report.h"

namespace slipstream::report {

WallSweep::Direction DirectionOf(std::string_view decision) {
  if (decision.starts_with("transfer.d2h.")) return WallSweep::Direction::kToHost;
  if (decision.starts_with("transfer.h2d.")) return WallSweep::Direction::kToDevice;
  return WallSweep::Direction::kUnknown;
}

WallSweep::Direction DirectionOf(int64_t copy_kind) {
  constexpr int64_t kToDevice = 1;
  constexpr int64_t kToHost = 2;
  if (copy_kind == kToHost) return WallSweep::Direction::kToHost;
  return copy_kind == kToDevice ? WallSweep::Direction::kToDevice : WallSweep::Direction::kUnknown;
}

void TakeWall(run::Names* names, const WallSweep& wall, ProcessReport* process) {
  process->wall.end = wall.end();
  for (size_t i = 0; i < kWallParts; ++i) {
    const WallSweep::Sum& of = wall.Of(static_cast<WallPart>(i));
    if (of.time == 0 && of.count == 0) continue;
    WallPartReport& part = process->wall.parts.emplace_back();
    part.part = static_cast<WallPart>(i);
    part.time = of.time;
    part.count = of.count;
    if (!of.most) continue;
    part.most = PlaceOf(names, of.most->site);
    if (!part.most) continue;
    part.most->before = of.most->before;
    part.most->time = of.most->time;
  }
  process->pace = DistributionOf(wall.paces());
  if (!process->steps_found) process->pause_time = DistributionOf(wall.pauses());
}

}  // namespace slipstream::report
