#include "tools/trace/report/pass.h"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "tools/text/decisions.h"
#include "tools/trace/db/bounded.h"
#include "tools/trace/db/devices.h"
#include "tools/trace/db/schema.h"
#include "tools/trace/report/avoided_waits.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/decision_text.h"
#include "tools/trace/report/gains.h"
#include "tools/trace/report/idle_lines.h"
#include "tools/trace/report/kernel_lines.h"
#include "tools/trace/report/kernel_name.h"
#include "tools/trace/report/rows.h"
#include "tools/trace/report/slow_steps.h"
#include "tools/trace/report/wall_report.h"
#include "tools/trace/run/names.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::kCopies;
using trace_db::kKernels;
using trace_db::kRuntime;
using trace_db::kSets;
using trace_db::Question;

constexpr uint64_t kCallsBetweenLooks = uint64_t{1} << 16;
constexpr size_t kKernelsKept = 50;
// What a query answers while work is pending is no failure (cudaErrorNotReady, CUDA_ERROR_NOT_READY).
constexpr int64_t kNotReady = 600;
constexpr int64_t kWithinDevice = 8;  // of ENUM_CUDA_MEMCPY_OPER

struct SiteSum {
  int64_t site = 0;  // siteId; 0: no line is known
  bool of_step_thread = true;
  uint64_t calls = 0;
  uint64_t waiting = 0;
  int64_t bytes = 0;
  int64_t time = 0;                                 // of other threads
  std::unordered_map<int64_t, uint64_t> functions;  // calls by name
};

struct KernelSum {
  int64_t short_name = 0;
  uint64_t launches = 0;
  int64_t time = 0;
};

struct DeviceSum {
  int64_t device = 0;
  const trace_db::Device* info = nullptr;  // null: not known
  uint64_t kernels = 0;
  int64_t kernel_time = 0;
  double occupancy_time = 0;  // ns, each times its occupancy
  double occupancy_weight = 0;
  std::unordered_map<int64_t, KernelSum> names;
  KernelLines lines;
  std::map<int64_t, DeviceCopyReport> copies;
};

// What is added up for a process.
struct ProcessSum {
  ProcessSum(ProcessReport* process, size_t number, const std::vector<Interval>& drops,
             const std::vector<Interval>& pauses)
      : report(*process),
        index(number),
        sweep(&process->steps),
        wall({.begin = process->wall.begin,
              .first = process->first,
              .last = process->last,
              .has_steps = process->has_steps,
              .found = process->steps_found,
              .steps = process->steps,
              .drops = drops,
              .paused = pauses}) {}

  size_t SiteOf(int64_t site, bool of_step_thread) {
    const auto [at, is_new] = site_index[of_step_thread ? 0 : 1].try_emplace(site, sites.size());
    if (is_new) {
      SiteSum& sum = sites.emplace_back();
      sum.site = site;
      sum.of_step_thread = of_step_thread;
    }
    return at->second;
  }
  size_t DeviceOf(int64_t device, const trace_db::Devices& infos) {
    const auto [at, is_new] = device_index.try_emplace(device, devices.size());
    if (is_new) {
      DeviceSum& sum = devices.emplace_back();
      sum.device = device;
      sum.info = infos.Find(report.process, report.pid, device);
    }
    return at->second;
  }

  ProcessReport& report;
  const size_t index;  // of the table
  Sweep sweep;
  WallSweep wall;
  std::array<std::unordered_map<int64_t, size_t>, 2> site_index;  // of the step thread, of others
  std::vector<SiteSum> sites;
  Gains gains;
  std::unordered_map<int64_t, DecisionReport> decisions;   // by decisionId, without their texts; 0: none
  std::map<std::pair<int64_t, int64_t>, uint64_t> errors;  // function, code
  std::unordered_map<int64_t, size_t> device_index;
  std::vector<DeviceSum> devices;
};

void AddSize(CopySizes* sizes, int64_t bytes, int64_t time) {
  CopySize& size = (*sizes)[ExponentOf(bytes)];
  ++size.calls;
  AddTo(&size.bytes, bytes);
  AddTo(&size.time, time);
}

std::string CallsSql(DatabaseReader* reader) {
  std::string sql = "SELECT r.start, r.\"end\", r.nameId, r.globalTid, r.returnValue";
  const bool calls = reader->HasTable("SLIPSTREAM_CALLS");
  const bool decisions = reader->HasTable("SLIPSTREAM_DECISIONS");
  sql += calls ? ", c.processId, c.thread, c.siteId, c.bytes" : ", NULL, NULL, NULL, NULL";
  sql += decisions ? ", d.decisionId, d.bytes, d.savedNs" : ", NULL, NULL, NULL";
  sql += calls ? ", c.stream" : ", NULL";
  sql += std::string(" FROM ") + kRuntime.name + " r";
  if (calls) sql += " LEFT JOIN SLIPSTREAM_CALLS c ON c.correlationId = r.correlationId";
  if (decisions) sql += " LEFT JOIN SLIPSTREAM_DECISIONS d ON d.correlationId = r.correlationId";
  return sql + " ORDER BY r.start, r.\"end\" DESC, r.rowid";
}

std::string CopiesSql(DatabaseReader* reader) {
  const std::string own = reader->HasColumn("SLIPSTREAM_CALLS", "workIsOwn")
                              ? "(SELECT workIsOwn FROM SLIPSTREAM_CALLS c WHERE c.correlationId = w.correlationId)"
                              : "0";
  std::string sql;
  const auto add = [&](const char* table, const std::string& kind) {
    if (!reader->HasTable(table)) return;
    if (!sql.empty()) sql += " UNION ALL ";
    sql += std::string("SELECT start AS s, \"end\" AS e, deviceId, ") +
           (reader->HasColumn(table, "globalPid") ? "globalPid" : "NULL") + ", bytes, " + kind + ", " + own + " FROM " +
           table + " w";
  };
  add(kCopies.name, "copyKind");
  add(kSets.name, std::to_string(kSetKind));
  return sql.empty() ? sql : sql + " ORDER BY s, e DESC";
}

void AddDecision(DecisionReport* decision, int64_t bytes, int64_t saved, bool measured) {
  ++decision->calls;
  AddTo(&decision->bytes, bytes);
  AddTo(saved > 0 ? &decision->saved : &decision->lost, saved > 0 ? saved : -saved);
  if (!measured) return;
  ++decision->measured_calls;
  AddTo(&decision->measured_bytes, bytes);
}

class Pass {
 public:
  Pass(DatabaseReader* reader, const ReportOptions& options, ProcessTable* table, Report* report)
      : reader_(*reader),
        options_(options),
        table_(*table),
        report_(*report),
        names_(reader),
        infos_(*reader),
        decisions_(&names_),
        avoided_(reader, table, &names_, &decisions_) {
    for (ProcessReport& process : table->processes) {
      const size_t number = sums_.size();
      sums_.emplace_back(&process, number, table->drops[number], table->pauses[number]);
    }
  }
  void Run();

 private:
  void AddCall(const Rows& rows);
  void AddKernel(const Rows& rows);
  void AddCopy(const Rows& rows);
  // Null: of nobody.
  ProcessSum* OfCall(const Question& row);
  ProcessSum* OfDevice(const Question& row, int column);
  const Function& FunctionOf(int64_t name);
  bool Communicates(int64_t kernel_name);
  void TakeDecisionEvents();

  void Finish(ProcessSum* sum);
  void FinishSteps(ProcessSum* sum);
  void FinishSites(ProcessSum* sum);
  void FinishKernels(const DeviceSum& from, DeviceReport* device);
  void FinishDevices(ProcessSum* sum);
  void FinishDecisions(ProcessSum* sum);

  DatabaseReader& reader_;
  const ReportOptions& options_;
  ProcessTable& table_;
  Report& report_;
  run::Names names_;
  const trace_db::Devices infos_;
  DecisionNames decisions_;
  AvoidedWaits avoided_;
  std::deque<ProcessSum> sums_;
  std::unordered_map<int64_t, Function> functions_;
  std::unordered_map<int64_t, bool> communicates_;  // by the name of a kernel
};

void Pass::Run() {
  report_.kernels_recorded = reader_.HasTable(kKernels.name);
  report_.device_copies_recorded = reader_.HasTable(kCopies.name) || reader_.HasTable(kSets.name);
  Rows calls(&reader_, reader_.HasTable(kRuntime.name) ? CallsSql(&reader_) : "");
  Rows kernels(&reader_, report_.kernels_recorded ? KernelsSql(&reader_) : "");
  Rows copies(&reader_, CopiesSql(&reader_));
  uint64_t done = 0;
  while (true) {
    const int64_t next = std::min({calls.start(), kernels.start(), copies.start()});
    if (next == kNever) break;
    if (calls.start() == next) {
      AddCall(calls);
      calls.Step();
      if (++done % kCallsBetweenLooks == 0 && options_.progress) options_.progress(done, report_.calls);
    } else if (kernels.start() == next) {
      AddKernel(kernels);
      kernels.Step();
    } else {
      AddCopy(copies);
      copies.Step();
    }
  }
  TakeDecisionEvents();
  for (ProcessSum& sum : sums_) Finish(&sum);
}

ProcessSum* Pass::OfCall(const Question& row) {
  if (!row.IsNull(5)) {
    const auto found = table_.by_id.find(row.Number(5));
    return found == table_.by_id.end() ? nullptr : &sums_[found->second];
  }
  const int64_t index = table_.OfGlobal(row.Number(3));
  return index < 0 ? nullptr : &sums_[static_cast<size_t>(index)];
}

ProcessSum* Pass::OfDevice(const Question& row, int column) {
  int64_t index = row.IsNull(column) ? -1 : table_.OfGlobal(row.Number(column));
  if (index < 0 && sums_.size() == 1) index = 0;
  return index < 0 ? nullptr : &sums_[static_cast<size_t>(index)];
}

const Function& Pass::FunctionOf(int64_t name) {
  const auto [at, is_new] = functions_.try_emplace(name);
  if (is_new) {
    const std::string text = names_.TextOf(name);
    at->second = {std::string(PlainName(text)), KindOf(text), Waits(text)};
  }
  return at->second;
}

void Pass::AddCall(const Rows& rows) {
  const Question& row = rows.row();
  ProcessSum* const sum = OfCall(row);
  if (sum == nullptr) return;
  const ProcessReport& process = sum->report;
  const bool of_step_thread =
      row.IsNull(6) ? row.Number(3) == table_.step_global_tid[sum->index] : row.Number(6) == process.step_thread;
  const Function& function = FunctionOf(row.Number(2));
  const int64_t end = rows.end();
  const int64_t site = row.Number(7);
  const int64_t bytes = trace_db::BoundedCount(row.Number(8));
  const size_t at = sum->SiteOf(site, of_step_thread);
  const bool measured = sum->sweep.Call(of_step_thread, rows.start(), end, function.kind, at);
  sum->wall.Add({.start = rows.start(),
                 .end = end,
                 .of_step_thread = of_step_thread,
                 .kind = function.kind,
                 .site = site,
                 .bytes = bytes,
                 .copied = function.kind == CallKind::kCopy ? DirectionOf(decisions_.NameOf(row.Number(9)))
                                                            : WallSweep::Direction::kUnknown});
  if (const int64_t code = row.Number(4); code != 0 && code != kNotReady) ++sum->errors[{row.Number(2), code}];
  const bool decided = !row.IsNull(9) || !row.IsNull(11);
  const int64_t saved = trace_db::BoundedTime(row.Number(11));
  if (decided) {
    const int64_t of_decision = trace_db::BoundedCount(row.Number(10));
    AddDecision(&sum->decisions[row.Number(9)], of_decision, saved, measured);
    sum->gains.Add({&function, row.Number(9), bytes != 0 ? bytes : of_decision, end - rows.start(), saved, measured,
                    row.Number(4) == 0},
                   decisions_.NameOf(row.Number(9)), [&] { return avoided_.Idle(sum->index, rows.start()); });
  }
  avoided_.Add(sum->index, {.thread = row.Number(6),
                            .of_step_thread = of_step_thread,
                            .measured = measured,
                            .start = rows.start(),
                            .end = end,
                            .function = &function,
                            .stream = row.Number(12),
                            .bytes = bytes,
                            .decision = row.Number(9),
                            .saved = saved});
  if (!measured) return;
  SiteSum& place = sum->sites[at];
  const int64_t time = end - rows.start();
  ++place.calls;
  AddTo(&place.bytes, bytes);
  if (!of_step_thread) AddTo(&place.time, time);
  ++place.functions[row.Number(2)];
  if (function.waits && !(decided && decisions_.MakesItReturn(row.Number(9)))) ++place.waiting;
  ++sum->report.measured_calls;
  if (site == 0) ++sum->report.calls_without_line;
  if (function.kind == CallKind::kCopy) AddSize(&sum->report.copy_sizes, bytes, time);
}

// What calls say of decisions is one each. Where every decision has a record, those are counted instead.
void Pass::TakeDecisionEvents() {
  if (!reader_.HasTable("SLIPSTREAM_DECISION_EVENTS")) return;
  ProcessSum* sum = nullptr;
  Question row(reader_,
               "SELECT processId, decisionId, time, bytes, savedNs FROM SLIPSTREAM_DECISION_EVENTS ORDER BY processId");
  while (row.Next()) {
    const auto found = table_.by_id.find(row.Number(0));
    if (found == table_.by_id.end()) continue;
    if (ProcessSum* const its = &sums_[found->second]; its != sum) {
      sum = its;
      std::erase_if(sum->decisions, [](const auto& decision) { return decision.first != 0; });
    }
    const int64_t time = trace_db::BoundedTime(row.Number(2));
    const std::vector<Interval>& measured = sum->sweep.measured();
    const auto next = std::upper_bound(measured.begin(), measured.end(), time,
                                       [](int64_t at, const Interval& interval) { return at < interval.start; });
    AddDecision(&sum->decisions[row.Number(1)], trace_db::BoundedCount(row.Number(3)),
                trace_db::BoundedTime(row.Number(4)), next != measured.begin() && time < std::prev(next)->end);
  }
}

bool Pass::Communicates(int64_t kernel_name) {
  const auto [known, is_new] = communicates_.try_emplace(kernel_name, false);
  if (is_new) known->second = NamesCommunication(names_.TextOf(kernel_name));
  return known->second;
}

void Pass::AddKernel(const Rows& rows) {
  const Question& row = rows.row();
  ProcessSum* const sum = OfDevice(row, 3);
  if (sum == nullptr) return;
  const size_t at = sum->DeviceOf(row.Number(2), infos_);
  const auto side = [&](int column, int64_t most) { return std::clamp(row.Number(column), int64_t{1}, most); };
  constexpr int64_t kMostX = int64_t{1} << 31;
  constexpr int64_t kMostYz = int64_t{1} << 16;
  const trace_db::KernelShape shape = {
      .grid = {side(6, kMostX), side(7, kMostYz), side(8, kMostYz)},
      .block = {side(9, 1024), side(10, 1024), side(11, 1024)},
      .registers = trace_db::BoundedCount(row.Number(12)),
      .shared = trace_db::BoundedCount(row.Number(13)) + trace_db::BoundedCount(row.Number(14))};
  const int64_t blocks = trace_db::BoundedCount(trace_db::BoundedCount(shape.grid[0] * shape.grid[1]) * shape.grid[2]);
  DeviceSum& device = sum->devices[at];
  const int64_t sms = device.info != nullptr ? device.info->multiprocessors.value_or(0) : 0;
  const int64_t end = rows.end();
  const Sweep::KernelRun run = {
      .start = rows.start(), .end = end, .blocks = blocks, .communicates = Communicates(row.Number(4))};
  if (!sum->sweep.Kernel(at, run, sms)) return;
  const int64_t time = end - rows.start();
  ++device.kernels;
  AddTo(&device.kernel_time, time);
  // The demangled name says more than the short one: which instruction, which types.
  KernelSum& kernel = device.names[row.IsNull(5) ? row.Number(4) : row.Number(5)];
  kernel.short_name = row.Number(4);
  ++kernel.launches;
  AddTo(&kernel.time, time);
  device.lines.Add(LaunchOf(row, sum->report), row.Number(4), time);
  const auto load = device.info != nullptr ? trace_db::LoadOf(shape, *device.info) : std::nullopt;
  if (load && load->occupancy) {
    device.occupancy_time += *load->occupancy * static_cast<double>(time);
    device.occupancy_weight += static_cast<double>(time);
  }
}

void Pass::AddCopy(const Rows& rows) {
  const Question& row = rows.row();
  ProcessSum* const sum = OfDevice(row, 3);
  if (sum == nullptr) return;
  const size_t at = sum->DeviceOf(row.Number(2), infos_);
  const int64_t end = rows.end();
  sum->wall.AddDeviceCopy(rows.start(), DirectionOf(row.Number(5)), trace_db::BoundedCount(row.Number(4)));
  if (!sum->sweep.Copy(at, rows.start(), end)) return;
  const int64_t bytes = trace_db::BoundedCount(row.Number(4));
  const int64_t time = end - rows.start();
  DeviceCopyReport& copies = sum->devices[at].copies[row.Number(5)];
  copies.kind = row.Number(5);
  ++copies.count;
  AddTo(&copies.bytes, bytes);
  AddTo(&copies.time, time);
  const bool is_own = row.Number(6) != 0;
  if (is_own) {
    ++copies.own_count;
    AddTo(&copies.own_bytes, bytes);
    AddTo(&copies.own_time, time);
  }
  // Within a device only slipstream moves what the program did not ask to be moved.
  const bool is_beside = is_own && copies.kind == kWithinDevice;
  if (copies.kind != kSetKind && !is_beside) AddSize(&sum->report.device_copies[copies.kind], bytes, time);
}

void Pass::FinishSteps(ProcessSum* sum) {
  ProcessReport& process = sum->report;
  sum->sweep.Finish();
  process.measured_time = sum->sweep.measured_ns();
  process.calls_outside_steps = sum->sweep.calls_outside_steps();
  std::vector<int64_t> times;
  std::vector<int64_t> work_times;
  std::vector<int64_t> before_devices;
  std::vector<int64_t> outside_waits;
  std::vector<int64_t> communication;
  std::array<std::vector<int64_t>, kParts> parts;
  for (const Step& step : process.steps) {
    if (step.use == StepUse::kWarmUp) ++process.warm_up_steps;
    if (step.use == StepUse::kDropped) ++process.dropped_steps;
    if (step.use == StepUse::kUnwatched) ++process.unwatched_steps;
    if (step.use == StepUse::kUnfinished) ++process.unfinished_steps;
    if (step.use == StepUse::kAhead) ++process.ahead_steps;
    if (step.before_devices) before_devices.push_back(step.time());
    if (step.use != StepUse::kMeasured) continue;
    ++process.measured_steps;
    times.push_back(step.time());
    work_times.push_back(step.work_time);
    outside_waits.push_back(step.time_outside_waits());
    communication.push_back(step.communication);
    for (size_t i = 0; i < kParts; ++i) parts[i].push_back(step.parts[i]);
  }
  process.step_time = DistributionOf(std::move(times));
  process.work_time = DistributionOf(std::move(work_times));
  process.step_time_before_devices = DistributionOf(std::move(before_devices));
  process.time_outside_waits = DistributionOf(std::move(outside_waits));
  process.communication_time = DistributionOf(std::move(communication));
  for (size_t i = 0; i < kParts; ++i) process.parts[i] = DistributionOf(std::move(parts[i]));
  if (!process.has_steps) process.measured_steps = 0;
}

void Pass::FinishSites(ProcessSum* sum) {
  for (size_t i = 0; i < sum->sites.size(); ++i) {
    const SiteSum& from = sum->sites[i];
    const int64_t time = from.of_step_thread ? sum->sweep.SiteTime(i) : from.time;
    const int64_t gap = from.of_step_thread ? sum->sweep.GapTime(i) : 0;
    if (from.calls == 0 && time == 0 && gap == 0) continue;
    SiteReport& site = sum->report.sites.emplace_back();
    site.of_step_thread = from.of_step_thread;
    site.calls = from.calls;
    site.waiting = from.waiting;
    site.bytes = from.bytes;
    site.time = time;
    site.gap = gap;
    const run::Line& line = names_.LineOf(from.site);
    site.known = line.known();
    site.file = line.file;
    site.line = line.line;
    site.function = line.function;
    for (const auto& [name, calls] : from.functions) site.functions.push_back({FunctionOf(name).name, calls});
    std::sort(site.functions.begin(), site.functions.end(),
              [](const auto& a, const auto& b) { return a.calls != b.calls ? a.calls > b.calls : a.name < b.name; });
  }
  std::sort(sum->report.sites.begin(), sum->report.sites.end(), [](const SiteReport& a, const SiteReport& b) {
    if (a.time != b.time) return a.time > b.time;
    if (a.of_step_thread != b.of_step_thread) return a.of_step_thread;
    return std::tie(a.file, a.line, a.function) < std::tie(b.file, b.line, b.function);
  });
}

// Kernels of one short name are one in the list.
void Pass::FinishKernels(const DeviceSum& from, DeviceReport* device) {
  std::map<std::string, KernelReport> by_name;
  for (const auto& [name, kernel] : from.names) {
    const std::string text = names_.TextOf(kernel.short_name);
    KernelReport& one = by_name[text];
    one.name = text;
    one.launches += kernel.launches;
    AddTo(&one.time, kernel.time);
    if (!NamesTensorCores(text) && !NamesTensorCores(names_.TextOf(name))) continue;
    one.tensor_cores = true;
    AddTo(&device->tensor_core_time, kernel.time);
  }
  device->kernel_names = by_name.size();
  for (auto& [name, kernel] : by_name) device->top.push_back(std::move(kernel));
}

void Pass::FinishDevices(ProcessSum* sum) {
  Question copy_name(reader_, reader_.HasTable("ENUM_CUDA_MEMCPY_OPER")
                                  ? "SELECT label FROM ENUM_CUDA_MEMCPY_OPER WHERE id = ?"
                                  : "SELECT NULL WHERE ? IS NULL");
  if (sum->report.unwatched_everywhere) {
    sum->report.device_copies.clear();
    return;
  }
  for (size_t i = 0; i < sum->devices.size(); ++i) {
    const DeviceSum& from = sum->devices[i];
    DeviceReport& device = sum->report.devices.emplace_back();
    device.device = from.device;
    device.times = sum->sweep.device(i);
    device.idle_lines =
        IdleLinesOf(&names_, sum->sweep.idle_lines(i), device.times.idle, sum->sites.size(), [&](size_t at) {
          return SiteKey{.site = sum->sites[at].site, .of_step_thread = sum->sites[at].of_step_thread};
        });
    device.kernel_lines = from.lines.Finish(&reader_, &names_);
    device.kernels = from.kernels;
    device.kernel_time = from.kernel_time;
    if (from.info != nullptr) device.name = from.info->name;
    if (from.info != nullptr && from.info->multiprocessors.value_or(0) > 0) {
      device.sms = from.info->multiprocessors;
      if (sum->report.measured_time > 0) {
        device.sm_efficiency = device.times.busy_sms / static_cast<double>(sum->report.measured_time);
      }
    }
    if (from.occupancy_weight > 0) device.achieved_occupancy = from.occupancy_time / from.occupancy_weight;
    FinishKernels(from, &device);
    std::sort(device.top.begin(), device.top.end(), [](const KernelReport& a, const KernelReport& b) {
      return a.time != b.time ? a.time > b.time : a.name < b.name;
    });
    if (!options_.all_kernels && device.top.size() > kKernelsKept) device.top.resize(kKernelsKept);
    for (const auto& [kind, copies] : from.copies) {
      DeviceCopyReport& one = device.copies.emplace_back(copies);
      copy_name.Again();
      if (kind == kSetKind) {
        one.name = "Set";
      } else if (copy_name.Bind(1, kind).Next() && !copy_name.Text(0).empty()) {
        one.name = copy_name.Text(0);
      } else {
        one.name = "kind " + std::to_string(kind);
      }
    }
  }
  std::sort(sum->report.devices.begin(), sum->report.devices.end(),
            [](const DeviceReport& a, const DeviceReport& b) { return a.device < b.device; });
}

void Pass::FinishDecisions(ProcessSum* sum) {
  for (const auto& [id, from] : sum->decisions) {
    DecisionReport& decision = sum->report.decisions.emplace_back(from);
    decision.name = id == 0 ? "none" : decisions_.NameOf(id);
    decision.meaning = text::DecisionMeaning(decision.name);
  }
  std::sort(sum->report.decisions.begin(), sum->report.decisions.end(),
            [](const DecisionReport& a, const DecisionReport& b) {
              return a.calls != b.calls ? a.calls > b.calls : a.name < b.name;
            });
}

void Pass::Finish(ProcessSum* sum) {
  FinishSteps(sum);
  sum->wall.Finish();
  TakeWall(&names_, sum->wall, &sum->report);
  FindSlowSteps(&reader_, &names_, &sum->report);
  avoided_.Finish(sum->index);
  FinishSites(sum);
  FinishDevices(sum);
  FinishDecisions(sum);
  sum->report.gains = sum->gains.Make(sum->report);
  for (const auto& [key, calls] : sum->errors) {
    sum->report.errors.push_back({FunctionOf(key.first).name, key.second, calls});
  }
  std::sort(sum->report.errors.begin(), sum->report.errors.end(),
            [](const ErrorReport& a, const ErrorReport& b) { return a.calls > b.calls; });
}

}  // namespace

void PassOverCalls(DatabaseReader* reader, const ReportOptions& options, ProcessTable* table, Report* report) {
  Pass(reader, options, table, report).Run();
}

}  // namespace slipstream::report
