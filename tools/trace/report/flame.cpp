#include "tools/trace/report/flame.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "tools/trace/db/bounded.h"
#include "tools/trace/db/schema.h"
#include "tools/trace/export/trace_texts.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/report.h"
#include "tools/trace/report/rows.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::kCopies;
using trace_db::kKernels;
using trace_db::kRuntime;
using trace_db::kSets;
using trace_export::Line;
using trace_export::TraceTexts;

// Of a damaged database, whose stacks may have no end. Others have fewer by far.
constexpr size_t kMostInTree = size_t{1} << 21;

// What a sum is of. A line is part of it only where the stack does not say it.
struct FrameKey {
  enum Leaf : int64_t { kFunction, kKernelName, kCopyKind };
  int64_t site = 0;
  int64_t backward = 0;
  int64_t stack = 0;
  int64_t native_stack = 0;
  int64_t has_call = 1;
  int64_t leaf = kFunction;
  int64_t name = 0;  // of the leaf

  std::array<int64_t, 7> Numbers() const { return {site, backward, stack, native_stack, has_call, leaf, name}; }
  bool operator==(const FrameKey& other) const { return Numbers() == other.Numbers(); }
};
struct HashOfFrameKey {
  size_t operator()(const FrameKey& key) const {
    uint64_t hash = 0;
    for (const int64_t number : key.Numbers()) {
      hash = (hash ^ static_cast<uint64_t>(number)) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 32;
    }
    return hash;
  }
};
struct TimeSum {
  int64_t time = 0;
  uint64_t count = 0;
};
using TimeSums = std::unordered_map<FrameKey, TimeSum, HashOfFrameKey>;

// "/job/train.py" is "train.py".
std::string ShortPath(const std::string& path) { return std::filesystem::path(path).filename().string(); }

// All stacks put on each other.
class Tree {
 public:
  // `has_stacks`: of some calls; those that have only a line are one frame then.
  Tree(TraceTexts* texts, const ProcessReport& process, bool has_stacks)
      : texts_(*texts), process_(process), has_stacks_(has_stacks) {
    frames_.push_back({.kind = FlameKind::kRoot, .label = "all", .detail = ""});
  }

  void Add(const FrameKey& key, const TimeSum& sum) {
    Count(0, sum);
    const size_t at = key.has_call != 0 ? Stack(key, sum) : Below(0, {FlameKind::kUnknown, 1}, sum, [] {
      return Text{"unattributed", "work of devices whose call is not in the trace"};
    });
    Below(at, {FlameKind::kLeaf, LeafId(key)}, sum, [&] { return Text{LeafName(key), ""}; });
  }

  // Nothing: no time.
  std::optional<FlameGraph> Finish() {
    if (frames_.front().time <= 0) return std::nullopt;
    FlameGraph graph;
    graph.has_stacks = has_stacks_;
    graph.least = std::max<int64_t>(1, frames_.front().time / kFlameShare);
    Sort();
    do {
      graph.frames.clear();
      graph.depth = 0;
      graph.frames.push_back(frames_.front());
      Take(0, 0, 1, &graph);
    } while (graph.frames.size() > kMostFrames && (graph.least *= 2) > 0);
    return graph;
  }

 private:
  struct Text {
    std::string label;
    std::string detail;
  };
  using Name = std::pair<FlameKind, int64_t>;  // no two frames of one parent have the same

  void Count(size_t at, const TimeSum& sum) {
    AddTo(&frames_[at].time, sum.time);
    frames_[at].count += sum.count;
  }
  // The frame of that name which `parent` called, with the sum added to it.
  template <typename MakeText>
  size_t Below(size_t parent, const Name& name, const TimeSum& sum, const MakeText& make_text) {
    const auto [at, is_new] = index_.try_emplace({parent, name.first, name.second}, frames_.size());
    if (is_new) {
      Text text = make_text();
      frames_.push_back(
          {.parent = parent, .kind = name.first, .label = std::move(text.label), .detail = std::move(text.detail)});
    }
    Count(at->second, sum);
    return at->second;
  }
  size_t BelowLine(size_t parent, const Line& line, bool with_file, const TimeSum& sum) {
    return Below(parent, {line.is_native ? FlameKind::kNative : FlameKind::kLine, line.id}, sum, [&] {
      std::string place = line.is_native || !with_file ? "" : ShortPath(line.file);
      if (line.line) place += (place.empty() ? "line " : ":") + std::to_string(*line.line);
      if (line.function.empty()) return Text{place, line.file};
      return Text{line.function + (place.empty() ? "" : " (" + place + ")"), line.file};
    });
  }
  // The frame that the leaf is put on.
  size_t Stack(const FrameKey& key, const TimeSum& sum) {
    if (frames_.size() > kMostInTree) {
      return Below(0, {FlameKind::kUnknown, 2}, sum, [] {
        return Text{"more stacks", "there are too many different ones"};
      });
    }
    const Line* const line = key.site != 0 ? texts_.LineOf(key.site) : nullptr;
    if (key.stack == 0 && key.native_stack == 0) {
      if (line == nullptr) {
        return Below(0, {FlameKind::kUnknown, 0}, sum, [] {
          return Text{"no stack", "calls of which neither a stack nor a line is known"};
        });
      }
      if (has_stacks_) return BelowLine(0, *line, /*with_file=*/true, sum);
      const size_t file = Below(0, {FlameKind::kFile, FileId(line->file)}, sum, [&] {
        return Text{ShortPath(line->file), line->file};
      });
      return BelowLine(file, *line, /*with_file=*/false, sum);
    }
    size_t at = 0;
    if (key.stack == 0 && key.backward != 0 && line != nullptr) at = BelowLine(at, *line, /*with_file=*/true, sum);
    for (const Line* const frame : texts_.StackOf({line, key.stack, key.native_stack})) {
      at = BelowLine(at, *frame, /*with_file=*/true, sum);
    }
    return at;
  }
  int64_t FileId(const std::string& file) {
    return files_.try_emplace(file, static_cast<int64_t>(files_.size())).first->second;
  }
  // Of what has one name in different tables, too.
  int64_t LeafId(const FrameKey& key) {
    return leaf_ids_.try_emplace({key.leaf, LeafName(key)}, static_cast<int64_t>(leaf_ids_.size())).first->second;
  }
  std::string LeafName(const FrameKey& key) {
    if (key.leaf == FrameKey::kFunction) return std::string(PlainName(texts_.TextOf(key.name)));
    if (key.leaf == FrameKey::kKernelName) {
      const std::string& name = texts_.TextOf(key.name);
      return name.empty() ? "kernel without a name" : name;
    }
    for (const DeviceReport& device : process_.devices) {
      for (const DeviceCopyReport& copies : device.copies) {
        if (copies.kind == key.name) return key.name == kSetKind ? "set" : "copy " + copies.name;
      }
    }
    return key.name == kSetKind ? "set" : "copy";
  }

  // Children of each, by their labels.
  void Sort() {
    children_.resize(frames_.size());
    for (size_t i = 1; i < frames_.size(); ++i) children_[frames_[i].parent].push_back(i);
    for (std::vector<size_t>& children : children_) {
      std::sort(children.begin(), children.end(), [&](size_t a, size_t b) {
        return std::tie(frames_[a].label, frames_[a].detail, a) < std::tie(frames_[b].label, frames_[b].detail, b);
      });
    }
  }
  // What is below `from`, which is frame `to` of the graph.
  void Take(size_t from, size_t to, size_t depth, FlameGraph* graph) {
    graph->depth = std::max(graph->depth, depth);
    FlameFrame smaller = {.parent = to, .kind = FlameKind::kSmaller, .label = "(smaller)", .detail = ""};
    for (const size_t child : children_[from]) {
      if (frames_[child].time < graph->least) {
        AddTo(&smaller.time, frames_[child].time);
        smaller.count += frames_[child].count;
        continue;
      }
      const size_t at = graph->frames.size();
      graph->frames.push_back(frames_[child]);
      graph->frames.back().parent = to;
      Take(child, at, depth + 1, graph);
    }
    if (smaller.time <= 0) return;
    graph->frames.push_back(std::move(smaller));
    graph->depth = std::max(graph->depth, depth + 1);
  }

  TraceTexts& texts_;
  const ProcessReport& process_;
  const bool has_stacks_;
  std::vector<FlameFrame> frames_;
  std::map<std::tuple<size_t, FlameKind, int64_t>, size_t> index_;
  std::map<std::string, int64_t> files_;
  std::map<std::pair<int64_t, std::string>, int64_t> leaf_ids_;
  std::vector<std::vector<size_t>> children_;
};

// The time from `start` to `end` that is measured.
int64_t MeasuredPart(const std::vector<Interval>& measured, int64_t start, int64_t end) {
  int64_t sum = 0;
  auto next = std::upper_bound(measured.begin(), measured.end(), start,
                               [](int64_t at, const Interval& interval) { return at < interval.end; });
  for (; next != measured.end() && next->start < end; ++next) {
    sum += std::max<int64_t>(0, std::min(end, next->end) - std::max(start, next->start));
  }
  return sum;
}

bool IsMeasured(const std::vector<Interval>& measured, int64_t time) {
  return MeasuredPart(measured, time, time + 1) != 0;
}

class Flames {
 public:
  Flames(DatabaseReader* reader, const ProcessReport& process, bool is_only)
      : reader_(*reader),
        process_(process),
        is_only_(is_only),
        texts_(*reader),
        measured_(MeasuredTime(process.steps)) {}

  // As Sweep puts moments down: of the step thread each to the call that began first, and only what is measured of it;
  // of other threads the whole of the calls that began in the measured time.
  std::optional<FlameGraph> Host() {
    TimeSums sums;
    Rows rows(&reader_, "SELECT r.start, r.\"end\", r.nameId, c.thread, " + CallColumns() + " FROM " + kRuntime.name +
                            " r JOIN SLIPSTREAM_CALLS c ON c.correlationId = r.correlationId WHERE c.processId = " +
                            std::to_string(process_.process) + " ORDER BY r.start, r.\"end\" DESC, r.rowid");
    int64_t busy_until = std::numeric_limits<int64_t>::min();
    for (; rows.start() != kNever; rows.Step()) {
      const trace_db::Question& row = rows.row();
      const int64_t end = rows.end();
      const bool is_measured = IsMeasured(measured_, rows.start());
      int64_t time = is_measured ? end - rows.start() : 0;
      if (row.Number(3) == process_.step_thread) {
        time = MeasuredPart(measured_, std::max(rows.start(), busy_until), end);
        busy_until = std::max(busy_until, end);
      }
      if (time == 0 && !is_measured) continue;
      FrameKey key = KeyOf(row, 4);
      key.leaf = FrameKey::kFunction;
      key.name = row.Number(2);
      TimeSum& sum = sums[key];
      AddTo(&sum.time, time);
      sum.count += is_measured ? 1 : 0;
    }
    return GraphOf(sums);
  }

  std::optional<FlameGraph> Devices() {
    TimeSums sums;
    if (process_.unwatched_everywhere) return std::nullopt;
    const auto add = [&](const char* table, const std::string& name, FrameKey::Leaf leaf) {
      if (!reader_.HasTable(table) || (!is_only_ && !reader_.HasColumn(table, "globalPid"))) return;
      const std::string call = reader_.HasColumn(table, "correlationId") ? "w.correlationId" : "NULL";
      std::string sql = "SELECT w.start, w.\"end\", c.correlationId, " + name + ", " + CallColumns() + " FROM " +
                        table + " w LEFT JOIN SLIPSTREAM_CALLS c ON c.correlationId = " + call;
      // Not by the pid, which processes of two hosts may share.
      if (!is_only_) {
        sql +=
            " WHERE (w.globalPid & ~16777215) = (SELECT p.globalPid & ~16777215 FROM SLIPSTREAM_PROCESSES p WHERE "
            "p.processId = " +
            std::to_string(process_.process) + ")";
      }
      for (Rows rows(&reader_, sql); rows.start() != kNever; rows.Step()) {
        if (!IsMeasured(measured_, rows.start())) continue;
        const trace_db::Question& row = rows.row();
        FrameKey key;
        if (row.IsNull(2)) {
          key.has_call = 0;
        } else {
          key = KeyOf(row, 4);
        }
        key.leaf = leaf;
        key.name = row.Number(3);
        TimeSum& sum = sums[key];
        AddTo(&sum.time, rows.end() - rows.start());
        ++sum.count;
      }
    };
    const bool short_names = reader_.HasColumn(kKernels.name, "shortName");
    const bool names = reader_.HasColumn(kKernels.name, "demangledName");
    add(kKernels.name, short_names ? "w.shortName" : names ? "w.demangledName" : "0", FrameKey::kKernelName);
    add(kCopies.name, "w.copyKind", FrameKey::kCopyKind);
    add(kSets.name, std::to_string(kSetKind), FrameKey::kCopyKind);
    return GraphOf(sums);
  }

 private:
  std::string CallColumns() {
    return std::string("c.siteId, ") +
           (reader_.HasColumn("SLIPSTREAM_CALLS", "siteIsBackward") ? "c.siteIsBackward, " : "0, ") +
           (texts_.has_stacks() ? "c.stackId, " : "NULL, ") + (texts_.has_native_stacks() ? "c.nativeStackId" : "NULL");
  }
  static FrameKey KeyOf(const trace_db::Question& row, int first) {
    FrameKey key;
    key.backward = row.Number(first + 1) != 0 ? 1 : 0;
    key.stack = row.Number(first + 2);
    key.native_stack = row.Number(first + 3);
    const bool needs_line = key.stack == 0 && (key.native_stack == 0 || key.backward != 0);
    if (needs_line) key.site = row.Number(first);
    return key;
  }
  // In the order of their keys, so that the same trace makes the same page.
  std::optional<FlameGraph> GraphOf(const TimeSums& sums) {
    std::vector<std::pair<FrameKey, TimeSum>> sorted(sums.begin(), sums.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.first.Numbers() < b.first.Numbers(); });
    const bool has_stacks = std::any_of(sorted.begin(), sorted.end(), [](const auto& one) {
      return one.first.stack != 0 || one.first.native_stack != 0;
    });
    Tree tree(&texts_, process_, has_stacks);
    for (const auto& [key, sum] : sorted) tree.Add(key, sum);
    return tree.Finish();
  }

  DatabaseReader& reader_;
  const ProcessReport& process_;
  const bool is_only_;
  TraceTexts texts_;
  const std::vector<Interval> measured_;
};

}  // namespace

FlameGraphs MakeFlames(DatabaseReader* reader, const ProcessReport& process, bool is_only) {
  FlameGraphs graphs;
  if (!reader->HasTable("SLIPSTREAM_CALLS") || !reader->HasTable("SLIPSTREAM_PROCESSES")) return graphs;
  Flames flames(reader, process, is_only);
  if (reader->HasTable(kRuntime.name)) graphs.host = flames.Host();
  graphs.devices = flames.Devices();
  return graphs;
}

}  // namespace slipstream::report
