#include "tools/trace/report/timeline.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "tools/trace/db/bounded.h"
#include "tools/trace/report/call_kind.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::Question;

constexpr uint64_t kMostItems = 4000;
constexpr size_t kMostLanes = 24;

class Drawing {
 public:
  Drawing(DatabaseReader* reader, const ProcessReport& process, Timeline* timeline)
      : reader_(*reader),
        process_(process),
        timeline_(*timeline),
        name_(*reader, "SELECT value FROM StringIds WHERE id = ?") {}

  void Draw() {
    if (reader_.HasTable("CUPTI_ACTIVITY_KIND_RUNTIME") && reader_.HasTable("SLIPSTREAM_CALLS")) Calls();
    const std::string name = reader_.HasColumn("CUPTI_ACTIVITY_KIND_KERNEL", "shortName") ? "shortName" : "0";
    Device("CUPTI_ACTIVITY_KIND_KERNEL", name, kTimelineKernel);
    Device("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind", kTimelineCopy);
    Device("CUPTI_ACTIVITY_KIND_MEMSET", "-1", kTimelineCopy);
    for (auto& [key, lane] : lanes_) {
      if (timeline_.lanes.size() < kMostLanes) {
        timeline_.lanes.push_back(std::move(lane));
      } else {
        timeline_.left_out += lane.items.size();
      }
    }
  }

 private:
  // Lanes of threads come first, then those of devices.
  using Key = std::pair<int, std::pair<int64_t, int64_t>>;

  void Add(const Key& key, const std::string& lane, int64_t start, int64_t end, int kind, const std::string& name) {
    if (++items_ > kMostItems) {
      ++timeline_.left_out;
      return;
    }
    TimelineLane& at = lanes_[key];
    at.name = lane;
    at.items.push_back({std::max(start, timeline_.start), std::min(std::max(start, end), timeline_.end), kind, name});
  }
  const std::string& Name(int64_t id) {
    const auto [at, is_new] = names_.try_emplace(id);
    if (is_new) {
      name_.Again();
      if (name_.Bind(1, id).Next()) at->second = name_.Text(0);
    }
    return at->second;
  }
  const std::string& ThreadName(int64_t thread) {
    const auto [at, is_new] = threads_.try_emplace(thread);
    if (is_new) {
      Question row(reader_, "SELECT tid, name FROM SLIPSTREAM_THREADS WHERE processId = ? AND thread = ?");
      row.Bind(1, process_.process).Bind(2, thread);
      at->second = "thread ";
      if (row.Next()) at->second += std::to_string(row.Number(0)) + " " + std::string(row.Text(1));
    }
    return at->second;
  }
  void Calls() {
    Question row(reader_,
                 "SELECT r.start, r.\"end\", r.nameId, c.thread FROM CUPTI_ACTIVITY_KIND_RUNTIME r "
                 "JOIN SLIPSTREAM_CALLS c ON c.correlationId = r.correlationId "
                 "WHERE r.start < ? AND r.\"end\" > ? AND c.processId = ? ORDER BY r.start");
    row.Bind(1, timeline_.end).Bind(2, timeline_.start).Bind(3, process_.process);
    while (row.Next()) {
      const int64_t thread = row.Number(3);
      const std::string& name = Name(row.Number(2));
      Add({thread == process_.step_thread ? 0 : 1, {thread, 0}}, ThreadName(thread),
          trace_db::BoundedTime(row.Number(0)), trace_db::BoundedTime(row.Number(1)), static_cast<int>(KindOf(name)),
          std::string(PlainName(name)));
    }
  }
  void Device(const char* table, const std::string& what, int kind) {
    if (!reader_.HasTable(table)) return;
    const bool has_process = reader_.HasColumn(table, "globalPid");
    Question row(reader_, "SELECT start, \"end\", deviceId, streamId, " + what + " FROM " + table +
                              " WHERE start < ? AND \"end\" > ? AND " +
                              (has_process ? "(globalPid IS NULL OR (globalPid >> 24 & 16777215) = ?)" : "? IS NOT 0") +
                              " ORDER BY start");
    row.Bind(1, timeline_.end).Bind(2, timeline_.start).Bind(3, process_.pid.value_or(0));
    while (row.Next()) {
      const std::string name = kind == kTimelineKernel ? Name(row.Number(4)) : CopyName(row.Number(4));
      Add({2, {row.Number(2), row.Number(3)}},
          "GPU " + std::to_string(row.Number(2)) + ", stream " + std::to_string(row.Number(3)),
          trace_db::BoundedTime(row.Number(0)), trace_db::BoundedTime(row.Number(1)), kind, name);
    }
  }
  std::string CopyName(int64_t kind) {
    if (kind < 0) return "set";
    for (const DeviceReport& device : process_.devices) {
      for (const DeviceCopyReport& copies : device.copies) {
        if (copies.kind == kind) return copies.name;
      }
    }
    return "copy";
  }

  DatabaseReader& reader_;
  const ProcessReport& process_;
  Timeline& timeline_;
  Question name_;
  std::unordered_map<int64_t, std::string> names_;
  std::unordered_map<int64_t, std::string> threads_;
  std::map<Key, TimelineLane> lanes_;
  uint64_t items_ = 0;
};

}  // namespace

std::optional<Timeline> MakeTimeline(DatabaseReader* reader, const Report& report, size_t process) {
  if (process >= report.processes.size() || !report.processes[process].has_steps) return std::nullopt;
  const ProcessReport& of = report.processes[process];
  std::vector<int64_t> times;
  std::vector<const Step*> steps;
  for (const Step& step : of.steps) {
    if (step.use != StepUse::kMeasured) continue;
    times.push_back(step.time());
    steps.push_back(&step);
  }
  if (steps.empty()) return std::nullopt;
  const Step& typical = *steps[IndexOfMedian(times)];
  Timeline timeline = {
      .process = process, .number = typical.number, .start = typical.start, .end = typical.end, .lanes = {}};
  Drawing(reader, of, &timeline).Draw();
  return timeline;
}

}  // namespace slipstream::report
