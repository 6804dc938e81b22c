#include "tools/trace/export/chrome_trace.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace slipstream::trace_export {
namespace {

// Behind the processes, as Kineto sorts them.
constexpr int64_t kDevicesSortFrom = 5'000'000;
// Beyond every number that a process is shown under (trace_rows.cpp), where there are several.
constexpr int64_t kFirstDevicePid = 100'000'000;
constexpr int64_t kDevicesOfAProcess = 1000;

const char* CategoryOf(WorkKind kind) {
  switch (kind) {
    case WorkKind::kKernel:
      return "kernel";
    case WorkKind::kCopy:
      return "gpu_memcpy";
    case WorkKind::kSet:
      return "gpu_memset";
    case WorkKind::kWait:
      return "cuda_sync";
  }
  return "";
}

std::string LineText(const Line& line) {
  if (line.is_native) {
    const std::string file = line.file.substr(line.file.rfind('/') + 1);
    // Of a function that has no name the file is in it.
    return line.function.starts_with(file + "+") ? line.function : file + ": " + line.function;
  }
  return line.file + "(" + (line.line ? std::to_string(*line.line) : "?") + "): " + line.function;
}

}  // namespace

// A device is a process of its own there, and its number that process's. With several processes it is another one of
// each, because each counts its devices from 0.
int64_t ChromeTrace::PidOf(const TraceProcess& process, int64_t device) const {
  if (facts_->processes.size() == 1) return device;
  return kFirstDevicePid + process.id * kDevicesOfAProcess + device;
}

void ChromeTrace::Write() {
  line_.Close();
  std::string& text = line_.text();
  file_.Write(first_ ? "  " : ",\n  ");
  file_.Write(text);
  text.clear();
  first_ = false;
}

JsonLine& ChromeTrace::Event(char phase, std::string_view category, std::string_view name, int64_t pid, int64_t tid,
                             int64_t start) {
  line_.Open();
  line_.Text("ph", std::string_view(&phase, 1));
  if (!category.empty()) line_.Text("cat", category);
  line_.Text("name", name);
  line_.Number("pid", pid);
  line_.Number("tid", tid);
  line_.Microseconds("ts", start);
  return line_;
}

JsonLine& ChromeTrace::Span(std::string_view category, std::string_view name, int64_t pid, int64_t tid, int64_t start,
                            int64_t end) {
  Event('X', category, name, pid, tid, start).Microseconds("dur", end - start);
  return line_;
}

void ChromeTrace::Describe(const char* what, int64_t pid, int64_t tid, const char* key, std::string_view value) {
  JsonLine& line = Event('M', "", what, pid, tid, 0);
  line.Open("args");
  line.Text(key, value);
  line.Close();
  Write();
}

void ChromeTrace::Sort(int64_t pid, int64_t tid, const char* what, int64_t index) {
  JsonLine& line = Event('M', "", what, pid, tid, 0);
  line.Open("args");
  line.Number("sort_index", index);
  line.Close();
  Write();
}

void ChromeTrace::DescribeDevices() {
  // Of the first process, whose rank the file has: there is one list, and devices are numbers in it.
  const TraceProcess& process = facts_->processes.front();
  const auto devices = facts_->devices.find(process.id);
  bool first = true;
  file_.Write("  \"deviceProperties\": [");
  for (const int64_t number : devices == facts_->devices.end() ? std::vector<int64_t>() : devices->second) {
    const trace_db::Device* const device = facts_->properties.Find(process.id, process.pid, number);
    line_.Open();
    line_.Number("id", number);
    const auto fact = [&](const char* key, const std::optional<int64_t>& value) {
      if (value) line_.Number(key, *value);
    };
    if (device != nullptr) {
      line_.Text("name", device->name);
      fact("totalGlobalMem", device->total_memory);
      fact("computeMajor", device->major);
      fact("computeMinor", device->minor);
      fact("maxThreadsPerBlock", device->threads_per_block);
      if (device->warps_per_multiprocessor && device->warp_size) {
        line_.Number("maxThreadsPerMultiprocessor", *device->warps_per_multiprocessor * *device->warp_size);
      }
      fact("regsPerBlock", device->registers_per_block);
      fact("warpSize", device->warp_size);
      fact("sharedMemPerBlock", device->shared_per_block);
      fact("numSms", device->multiprocessors);
      fact("regsPerMultiprocessor", device->registers_per_multiprocessor);
      fact("sharedMemPerBlockOptin", device->shared_per_block_optin);
      fact("sharedMemPerMultiprocessor", device->shared_per_multiprocessor);
    }
    line_.Close();
    file_.Write(first ? "\n    " : ",\n    ");
    file_.Write(line_.text());
    line_.text().clear();
    first = false;
  }
  file_.Write(first ? "],\n" : "\n  ],\n");
}

void ChromeTrace::Begin(const TraceFacts& facts) {
  facts_ = &facts;
  const TraceProcess& first = facts.processes.front();
  file_.Write("{\n  \"schemaVersion\": 1,\n");
  DescribeDevices();
  line_.Open();
  line_.Number("rank", first.rank.value_or(0));
  if (first.world_size) line_.Number("world_size", *first.world_size);
  line_.Close();
  file_.Write("  \"distributedInfo\": " + line_.text() + ",\n");
  line_.text().clear();
  file_.Write("  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": " + std::to_string(facts.start_unix_ns) +
              ",\n  \"traceEvents\": [\n");
  int64_t index = 0;
  for (const TraceProcess& process : facts.processes) {
    const std::string owner = process.name + " " + std::to_string(process.pid);
    std::string labels = "CPU";
    if (process.rank) labels += ", rank " + std::to_string(*process.rank);
    if (!process.host.empty()) labels += ", " + process.host;
    Describe("process_name", process.shown_pid, 0, "name", process.name);
    Describe("process_labels", process.shown_pid, 0, "labels", labels);
    Sort(process.shown_pid, 0, "process_sort_index", ++index);
    if (!process.command.empty()) Describe("process_command", process.shown_pid, 0, "command", process.command);
    const auto devices = facts.devices.find(process.id);
    if (devices == facts.devices.end()) continue;
    for (const int64_t device : devices->second) {
      const int64_t pid = PidOf(process, device);
      Describe("process_name", pid, 0, "name", owner);
      Describe("process_labels", pid, 0, "labels", "GPU " + std::to_string(device));
      Sort(pid, 0, "process_sort_index", kDevicesSortFrom + index * kDevicesOfAProcess + device);
    }
  }
  for (const auto& [global_tid, thread] : facts.threads) {
    if (thread.name.empty()) continue;
    Describe("thread_name", thread.process->shown_pid, thread.tid, "name",
             "thread " + std::to_string(thread.tid) + " (" + thread.name + ")");
  }
}

void ChromeTrace::Site(const CallSite& site) {
  if (texts_.HasStack(site)) {
    std::string stack;
    for (const Line* const line : texts_.StackOf(site)) {
      if (!stack.empty()) stack += ";";
      stack += LineText(*line);
    }
    if (!stack.empty()) line_.Text("Call stack", stack);
  }
  if (site.line != nullptr) line_.Text("call site", LineText(*site.line));
}

void ChromeTrace::Add(const StepRow& row) {
  Span("user_annotation", "ProfilerStep#" + std::to_string(row.number), row.at.process->shown_pid, row.at.tid,
       row.start, row.end);
  line_.Open("args");
  Site(row.site);
  line_.Close();
  Write();
}

void ChromeTrace::Add(const RangeRow& row) {
  if (row.is_profiler_step) return;  // which its StepRow has written, under the same name
  const int64_t pid = row.at.process->shown_pid;
  if (row.end) {
    Span("user_annotation", row.text, pid, row.at.tid, row.start, *row.end);
  } else {
    // A range that never ended begins and has no end.
    Event(row.is_mark ? 'i' : 'B', "user_annotation", row.text, pid, row.at.tid, row.start);
    if (row.is_mark) line_.Text("s", "t");
  }
  Write();
}

void ChromeTrace::Add(const CallRow& row) {
  const int64_t pid = row.at.process->shown_pid;
  Span(row.is_driver ? "cuda_driver" : "cuda_runtime", row.function, pid, row.at.tid, row.start, row.end);
  line_.Open("args");
  if (row.correlation != 0) line_.Number("correlation", row.correlation);
  if (row.bytes != 0) line_.Number("bytes", row.bytes);
  // Not "stream": by that, readers tell what the device did from what the host did.
  if (row.stream != 0) line_.Number("stream handle", row.stream);
  if (row.device) line_.Number("device", *row.device);
  if (row.status != 0) line_.Number("returned", row.status);
  if (!row.decision.empty()) line_.Text("decision", row.decision);
  if (row.decided) line_.Number("saved ns", row.saved_ns);
  Site(row.site);
  line_.Close();
  Write();
  if (!row.has_work) return;
  Event('s', "ac2g", "ac2g", pid, row.at.tid, row.start).Number("id", row.correlation);
  Write();
}

void ChromeTrace::Add(const WorkRow& row) {
  // Readers have no word for it, and would take it for one of the program's.
  if (row.kind == WorkKind::kWait && row.is_own) return;
  const int64_t pid = PidOf(*row.process, row.device);
  Span(CategoryOf(row.kind), row.name, pid, row.stream, row.start, row.end);
  line_.Open("args");
  if (row.kind == WorkKind::kWait) line_.Text("cuda_sync_kind", row.name);
  if (row.kind == WorkKind::kKernel) line_.Number("queued", 0);
  line_.Number("device", row.device);
  line_.Number("context", row.context);
  // Not of a wait: by "stream", readers tell what the device did from what was waited for.
  if (row.kind != WorkKind::kWait) line_.Number("stream", row.stream);
  if (row.kind == WorkKind::kWait && row.stream >= 0) line_.Number("waited stream", row.stream);
  if (row.correlation != 0) line_.Number("correlation", row.correlation);
  if (row.graph_node) line_.Number("graph node id", *row.graph_node);
  if (row.is_own) line_.Text("asked for by", "slipstream");
  if (row.kind == WorkKind::kKernel) {
    line_.Number("registers per thread", row.shape.registers);
    line_.Number("shared memory", row.shape.shared);
    const trace_db::Device* const device = facts_->properties.Find(row.process->id, row.process->pid, row.device);
    const auto load = device == nullptr ? std::nullopt : trace_db::LoadOf(row.shape, *device);
    if (load) {
      line_.Real("blocks per SM", load->blocks);
      line_.Real("warps per SM", load->warps);
    }
    line_.Three("grid", row.shape.grid);
    line_.Three("block", row.shape.block);
    if (load && load->occupancy) line_.Number("est. achieved occupancy %", std::lround(*load->occupancy * 100));
  } else if (row.kind != WorkKind::kWait) {
    line_.Number("bytes", row.bytes);
    // Bytes a nanosecond are GB/s.
    if (row.end > row.start) {
      line_.Real("memory bandwidth (GB/s)", static_cast<double>(row.bytes) / static_cast<double>(row.end - row.start));
    }
  }
  line_.Close();
  Write();
  if (!row.has_call || row.kind == WorkKind::kWait) return;
  Event('f', "ac2g", "ac2g", pid, row.stream, row.start).Number("id", row.correlation);
  line_.Text("bp", "e");
  Write();
}

void ChromeTrace::Add(const MemoryRow& row) {
  const std::string pool = "device " + std::to_string(row.device) + " pool";
  JsonLine& line = Event('C', "", pool, row.process->shown_pid, 0, row.start);
  // One upon the other, which is what the pool holds; parked is a part of idle.
  line.Open("args");
  line.Number("live bytes", row.live);
  line.Number("idle bytes", row.idle);
  line.Close();
  Write();
  Event('C', "", pool + " parked", row.process->shown_pid, 0, row.start).Open("args");
  line_.Number("parked bytes", row.parked);
  line_.Close();
  Write();
  Event('C', "", pool + " trims and retries", row.process->shown_pid, 0, row.start).Open("args");
  line_.Number("trims", row.trims);
  line_.Number("retries", row.retries);
  line_.Close();
  Write();
}

void ChromeTrace::Add(const MarkRow& row) {
  Event('i', "slipstream", "mark", row.at.process->shown_pid, row.at.tid, row.start).Text("s", "t");
  line_.Open("args");
  line_.Number("value", row.value);
  Site(row.site);
  line_.Close();
  Write();
}

void ChromeTrace::Add(const DropRow& row) {
  Event('i', "slipstream", "records missing", row.at.process->shown_pid, row.at.tid, row.start).Text("s", "t");
  line_.Open("args");
  line_.Number("count", row.count);
  line_.Number("for ns", row.end - row.start);
  line_.Close();
  Write();
}

void ChromeTrace::End() { file_.Write("\n  ]\n}\n"); }

}  // namespace slipstream::trace_export
