#include "tools/trace/report/program_ranges.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "tools/trace/db/bounded.h"
#include "tools/trace/db/schema.h"
#include "tools/trace/db/step_names.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/processes.h"
#include "tools/trace/report/rows.h"
#include "tools/trace/run/names.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::kKernels;
using trace_db::kNvtxEvents;
using trace_db::kOwnCalls;
using trace_db::kRuntime;
using trace_db::Question;

// Those with a beginning and an end. Columns: start, end, thread, name (or its text), domain.
std::string RangesSql(DatabaseReader* reader) {
  if (!reader->HasTable(kNvtxEvents.name)) return "";
  const auto column = [&](const char* name, const char* without) {
    return std::string(", ") + (reader->HasColumn(kNvtxEvents.name, name) ? name : without);
  };
  return "SELECT start, \"end\", globalTid" + column("textId", "NULL") + column("text", "NULL") +
         column("domainId", "0") + " FROM " + kNvtxEvents.name + " WHERE \"end\" IS NOT NULL AND eventType IN (" +
         std::to_string(trace_db::kNvtxPushPopRange) + ", " + std::to_string(trace_db::kNvtxStartEndRange) +
         ") ORDER BY start, \"end\" DESC, rowid";
}

// In the order of the calls that launched them. Columns: start of the call, end of the kernel, its start, thread of the
// call, process of the kernel, whether autograd made the call.
std::string LaunchesSql(DatabaseReader* reader) {
  if (!reader->HasTable(kKernels.name) || !reader->HasTable(kRuntime.name)) return "";
  if (!reader->HasColumn(kKernels.name, "correlationId") || !reader->HasColumn(kKernels.name, "globalPid")) return "";
  const bool backward = reader->HasTable(kOwnCalls.name) && reader->HasColumn(kOwnCalls.name, "siteIsBackward");
  return std::string("SELECT r.start, k.\"end\", k.start, r.globalTid, k.globalPid, ") +
         (backward ? "c.siteIsBackward" : "0") + " FROM " + kKernels.name + " k JOIN " + kRuntime.name +
         " r ON r.correlationId = k.correlationId" +
         (backward ? std::string(" LEFT JOIN ") + kOwnCalls.name + " c ON c.correlationId = k.correlationId"
                   : std::string()) +
         " ORDER BY r.start";
}

// What lies in the measured time.
class Measured {
 public:
  explicit Measured(std::vector<Interval> intervals) : intervals_(std::move(intervals)) {
    before_.reserve(intervals_.size());
    int64_t sum = 0;
    for (const Interval& interval : intervals_) {
      before_.push_back(sum);
      AddTo(&sum, interval.end - interval.start);
    }
  }
  bool Has(int64_t time) const {
    const auto next = After(time);
    return next != intervals_.begin() && time < std::prev(next)->end;
  }
  int64_t Within(int64_t start, int64_t end) const { return UpTo(end) - UpTo(start); }

 private:
  std::vector<Interval>::const_iterator After(int64_t time) const {
    return std::upper_bound(intervals_.begin(), intervals_.end(), time,
                            [](int64_t at, const Interval& interval) { return at < interval.start; });
  }
  int64_t UpTo(int64_t time) const {
    const auto next = After(time);
    if (next == intervals_.begin()) return 0;
    const auto at = static_cast<size_t>(next - intervals_.begin()) - 1;
    return Sum(before_[at], std::min(time, intervals_[at].end) - intervals_[at].start);
  }

  const std::vector<Interval> intervals_;  // ascending, apart
  std::vector<int64_t> before_;            // the time of those before each
};

// The ranges of a thread that are open at a moment, by name.
class OpenRanges {
 public:
  // Of a name, from the first to the last moment of those that lie over each other.
  using Closed = std::function<void(size_t name, int64_t start, int64_t end)>;

  // Times do not go back.
  void CloseUpTo(int64_t now, const Closed& closed) {
    while (!ends_.empty() && ends_.top().first <= now) {
      const auto [end, name] = ends_.top();
      ends_.pop();
      const auto at = names_.find(name);
      if (--at->second.open != 0) continue;
      closed(name, at->second.since, end);
      names_.erase(at);
    }
  }
  void Open(size_t name, int64_t start, int64_t end) {
    ends_.emplace(end, name);
    Name& of = names_.try_emplace(name, Name{.open = 0, .since = start}).first->second;
    ++of.open;
  }
  template <typename Function>
  void ForEachName(const Function& function) const {
    for (const auto& [name, open] : names_) function(name);
  }

 private:
  struct Name {
    uint64_t open = 0;
    int64_t since = 0;
  };
  using End = std::pair<int64_t, size_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::map<size_t, Name> names_;
};

struct Process {
  Process(ProcessReport* of, int64_t tid) : report(*of), step_tid(tid), measured(MeasuredTime(of->steps)) {}

  ProcessReport& report;
  const int64_t step_tid;  // globalTid of the thread that makes the steps
  const Measured measured;
  std::set<std::pair<int64_t, int64_t>> steps;                          // start and end, of all threads
  std::set<std::string> step_names;                                     // without their numbers
  std::map<std::tuple<int64_t, int64_t, std::string>, size_t> numbers;  // domain, id of the name, or its text
  std::deque<RangeReport> sums;
  std::vector<std::pair<int64_t, int64_t>> keys;  // domain and id of each of them
  uint64_t left_out = 0;
  std::map<int64_t, OpenRanges> threads;  // by globalTid
};

class ProgramRanges {
 public:
  ProgramRanges(DatabaseReader* reader, ProcessTable* table) : reader_(*reader), names_(reader), table_(*table) {
    for (size_t i = 0; i < table->processes.size(); ++i) {
      processes_.emplace_back(&table->processes[i], table->step_global_tid[i]);
    }
  }
  void Run() {
    ReadSteps();
    Rows ranges(&reader_, RangesSql(&reader_));
    const std::string sql = LaunchesSql(&reader_);
    kernels_known_ = !sql.empty();
    // Of a program without ranges of its own nobody asks for kernels.
    std::optional<Rows> launches;
    while (ranges.start() != kNever || (launches && launches->start() != kNever)) {
      if (launches && launches->start() < ranges.start()) {
        AddLaunch(*launches);
        launches->Step();
        continue;
      }
      if (AddRange(ranges) && !launches) {
        launches.emplace(&reader_, sql);
        while (launches->start() < ranges.start()) launches->Step();
      }
      ranges.Step();
    }
    for (Process& process : processes_) Finish(&process);
  }

 private:
  Process* Of(int64_t global) {
    const int64_t index = table_.OfGlobal(global);
    return index < 0 ? nullptr : &processes_[static_cast<size_t>(index)];
  }

  void ReadSteps() {
    if (!reader_.HasTable("SLIPSTREAM_STEPS")) return;
    Question row(reader_, "SELECT processId, start, \"end\" FROM SLIPSTREAM_STEPS");
    while (row.Next()) {
      const auto found = table_.by_id.find(row.Number(0));
      if (found == table_.by_id.end()) continue;
      const int64_t start = trace_db::BoundedTime(row.Number(1));
      processes_[found->second].steps.emplace(start, trace_db::BoundedEnd(start, row.Number(2)));
    }
  }

  // Nothing: it has no room.
  std::optional<size_t> NumberOf(Process* process, const Question& row) {
    std::tuple<int64_t, int64_t, std::string> key = {row.Number(5), row.Number(3),
                                                     row.IsNull(3) ? std::string(row.Text(4)) : std::string()};
    if (const auto known = process->numbers.find(key); known != process->numbers.end()) return known->second;
    if (process->sums.size() >= kRangeNamesMost) return std::nullopt;
    const size_t number = process->sums.size();
    RangeReport& sum = process->sums.emplace_back();
    sum.name = row.IsNull(3) ? std::get<2>(key) : names_.TextOf(row.Number(3));
    process->keys.emplace_back(row.Number(5), row.Number(3));
    process->numbers.emplace(std::move(key), number);
    return number;
  }

  void Close(Process* process, OpenRanges* open, int64_t now) {
    open->CloseUpTo(now, [&](size_t name, int64_t start, int64_t end) {
      AddTo(&process->sums[name].time, process->measured.Within(start, end));
    });
  }

  // Whether it is one that counts.
  bool AddRange(const Rows& rows) {
    const Question& row = rows.row();
    Process* const process = Of(row.Number(2));
    if (process == nullptr) return false;
    const int64_t start = rows.start();
    const int64_t end = rows.end();
    const bool measured = process->measured.Has(start);
    if (process->steps.contains({start, end})) {
      if (row.IsNull(3)) return false;  // it stands for a step, in every database
      if (const auto name = trace_db::StepNameOf(names_.TextOf(row.Number(3)))) {
        process->step_names.insert(name->base);
        return false;
      }
    }
    if (!measured && process->measured.Within(start, end) == 0) return false;
    const std::optional<size_t> number = NumberOf(process, row);
    if (!number) {
      ++process->left_out;
      return false;
    }
    if (measured) ++process->sums[*number].count;
    OpenRanges& open = process->threads[row.Number(2)];
    Close(process, &open, start);
    open.Open(*number, start, end);
    return true;
  }

  void AddLaunch(const Rows& rows) {
    const Question& row = rows.row();
    Process* const process = Of(row.Number(4));
    // Where numbers of calls are a process's own, those of other processes are the same.
    if (process == nullptr || Of(row.Number(3)) != process) return;
    if (!process->measured.Has(rows.start())) return;
    const int64_t start = trace_db::BoundedTime(row.Number(2));
    const int64_t time = trace_db::BoundedEnd(start, row.Number(1)) - start;
    std::set<size_t> names;
    const auto look = [&](int64_t thread) {
      const auto open = process->threads.find(thread);
      if (open == process->threads.end()) return;
      Close(process, &open->second, rows.start());
      open->second.ForEachName([&](size_t name) { names.insert(name); });
    };
    look(row.Number(3));
    // Autograd's thread works for a call of backward(), which the thread of the steps is in meanwhile.
    if (row.Number(5) != 0) look(process->step_tid);
    for (const size_t name : names) {
      ++process->sums[name].kernels;
      AddTo(&process->sums[name].kernel_time, time);
    }
  }

  std::string DomainOf(const ProcessReport& process, int64_t domain) {
    if (domain == 0) return "";
    Question row(reader_, std::string("SELECT textId, text, globalTid FROM ") + kNvtxEvents.name +
                              " WHERE domainId = ? AND eventType = " + std::to_string(trace_db::kNvtxDomainCreate));
    row.Bind(1, domain);
    while (row.Next()) {
      const int64_t index = table_.OfGlobal(row.Number(2));
      if (index < 0 || &table_.processes[static_cast<size_t>(index)] != &process) continue;
      return row.IsNull(0) ? std::string(row.Text(1)) : names_.TextOf(row.Number(0));
    }
    return "domain " + std::to_string(domain);
  }

  void Finish(Process* process) {
    for (auto& [thread, open] : process->threads) Close(process, &open, kNever);
    RangesReport& report = process->report.ranges;
    std::map<int64_t, std::string> domains;
    for (size_t i = 0; i < process->sums.size(); ++i) {
      RangeReport& sum = process->sums[i];
      const auto step = trace_db::StepNameOf(sum.name);
      if (step && process->step_names.contains(step->base)) continue;
      const int64_t domain = process->keys[i].first;
      const auto [known, is_new] = domains.try_emplace(domain);
      if (is_new) known->second = DomainOf(process->report, domain);
      sum.domain = known->second;
      report.names.push_back(std::move(sum));
    }
    std::sort(report.names.begin(), report.names.end(), [](const RangeReport& a, const RangeReport& b) {
      if (a.time != b.time) return a.time > b.time;
      return std::tie(a.name, a.domain) < std::tie(b.name, b.domain);
    });
    report.left_out = process->left_out;
    report.kernels_known = kernels_known_ && !process->report.unwatched_everywhere;
  }

  DatabaseReader& reader_;
  run::Names names_;
  ProcessTable& table_;
  std::deque<Process> processes_;
  bool kernels_known_ = false;
};

}  // namespace

void ReadProgramRanges(DatabaseReader* reader, ProcessTable* table) { ProgramRanges(reader, table).Run(); }

}  // namespace slipstream::report
