#include "tools/trace/report/timeline.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "tools/trace/db/bounded.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/run/names.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::Question;

// What lies within one of so many equal pieces of the step is too short to be seen: the picture has about as many dots.
constexpr int64_t kPieces = 800;
constexpr size_t kMostLanes = 24;

// Makes the items of a lane, of calls or device work in the order of their starts. What lies within one piece of the
// step is merged, so that of what does not overlap there is an item for each piece, and one for each border at most.
class LaneItems {
 public:
  LaneItems(int64_t start, int64_t end)
      : start_(start), end_(end), piece_(std::max<int64_t>(1, (end - start) / kPieces)), covered_until_(start) {}

  void Add(int64_t start, int64_t end, int kind, const std::string& name) {
    start = std::max(start, start_);
    end = std::clamp(end, start, std::max(start, end_));
    ++count_;
    const int64_t new_from = std::max(start, covered_until_);
    const int64_t covers = std::max<int64_t>(0, end - new_from);
    covered_until_ = std::max(covered_until_, end);
    const int64_t piece = (start - start_) / piece_;
    const bool is_short = end <= start_ + (piece + 1) * piece_;
    if (!is_short || piece != open_piece_) Close();
    if (!is_short) {
      items_.push_back({start, end, kind, name});
      return;
    }
    open_piece_ = piece;
    if (short_count_++ == 0) short_ = {start, end, kind, name};
    if (short_covers_ == 0) short_from_ = new_from;
    short_covers_ += covers;
    short_kinds_[{kind, name}] += covers;
  }
  uint64_t count() const { return count_; }
  std::vector<TimelineItem> Finish() {
    Close();
    return std::move(items_);
  }

 private:
  void Close() {
    if (short_count_ == 0) return;
    if (short_count_ > 1) {
      const auto most = std::max_element(short_kinds_.begin(), short_kinds_.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      const int64_t from = short_covers_ != 0 ? short_from_ : short_.start;
      short_ = {from, from + short_covers_, most->first.first, most->first.second, short_count_};
    }
    items_.push_back(short_);
    short_count_ = 0;
    short_covers_ = 0;
    short_kinds_.clear();
  }

  const int64_t start_;  // of the step
  const int64_t end_;
  const int64_t piece_;
  std::vector<TimelineItem> items_;
  uint64_t count_ = 0;
  int64_t covered_until_;
  // Those within the piece that was read last.
  int64_t open_piece_ = -1;
  uint64_t short_count_ = 0;
  TimelineItem short_;        // the first one
  int64_t short_from_ = 0;    // where time begins that only they cover
  int64_t short_covers_ = 0;  // how much of that there is
  std::map<std::pair<int, std::string>, int64_t> short_kinds_;
};

class Drawing {
 public:
  // `is_only`: there is no other process, and device work is its own whoever it says it is of.
  Drawing(DatabaseReader* reader, const ProcessReport& process, bool is_only, Timeline* timeline)
      : reader_(*reader), process_(process), is_only_(is_only), timeline_(*timeline), names_(reader) {}

  void Draw() {
    if (reader_.HasTable("CUPTI_ACTIVITY_KIND_RUNTIME") && reader_.HasTable("SLIPSTREAM_CALLS")) Calls();
    Devices();
    for (auto& [key, lane] : lanes_) {
      if (timeline_.lanes.size() == kMostLanes) {
        timeline_.left_out += lane.items.count();
        continue;
      }
      timeline_.lanes.push_back({lane.name, lane.items.Finish()});
      for (const TimelineItem& item : timeline_.lanes.back().items) {
        if (item.count == 1) continue;
        timeline_.merged += item.count;
        ++timeline_.merged_into;
      }
    }
  }

 private:
  // Lanes of threads come first, then those of devices.
  using Key = std::pair<int, std::pair<int64_t, int64_t>>;

  struct Lane {
    std::string name;
    LaneItems items;
  };

  void Add(const Key& key, const std::string& lane, int64_t start, int64_t end, int kind, const std::string& name) {
    const auto [at, is_new] = lanes_.try_emplace(key, Lane{lane, {timeline_.start, timeline_.end}});
    at->second.items.Add(start, end, kind, name);
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
      const std::string& name = names_.TextOf(row.Number(2));
      Add({thread == process_.step_thread ? 0 : 1, {thread, 0}}, ThreadName(thread),
          trace_db::BoundedTime(row.Number(0)), trace_db::BoundedTime(row.Number(1)), static_cast<int>(KindOf(name)),
          std::string(PlainName(name)));
    }
  }
  // Of all tables at once: a stream's work is drawn in the order of its starts.
  void Devices() {
    std::string sql;
    const auto add = [&](const char* table, const std::string& what, int kind) {
      if (!reader_.HasTable(table) || (!is_only_ && !reader_.HasColumn(table, "globalPid"))) return;
      sql += std::string(sql.empty() ? "SELECT" : " UNION ALL SELECT") + " start AS s, \"end\", deviceId, streamId, " +
             what + ", " + std::to_string(kind) + " FROM " + table + " WHERE start < ?1 AND \"end\" > ?2";
      if (is_only_) return;
      // Not by the pid, which processes of two hosts may share.
      sql +=
          " AND (globalPid & ~16777215) = (SELECT p.globalPid & ~16777215 FROM SLIPSTREAM_PROCESSES p WHERE "
          "p.processId = " +
          std::to_string(process_.process) + ")";
    };
    add("CUPTI_ACTIVITY_KIND_KERNEL", reader_.HasColumn("CUPTI_ACTIVITY_KIND_KERNEL", "shortName") ? "shortName" : "0",
        kTimelineKernel);
    add("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind", kTimelineCopy);
    add("CUPTI_ACTIVITY_KIND_MEMSET", "-1", kTimelineCopy);
    if (sql.empty()) return;
    Question row(reader_, sql + " ORDER BY s");
    row.Bind(1, timeline_.end).Bind(2, timeline_.start);
    while (row.Next()) {
      const auto kind = static_cast<int>(row.Number(5));
      const std::string name = kind == kTimelineKernel ? names_.TextOf(row.Number(4)) : CopyName(row.Number(4));
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
  const bool is_only_;
  Timeline& timeline_;
  run::Names names_;
  std::unordered_map<int64_t, std::string> threads_;
  std::map<Key, Lane> lanes_;
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
  Drawing(reader, of, report.processes.size() == 1, &timeline).Draw();
  return timeline;
}

}  // namespace slipstream::report
