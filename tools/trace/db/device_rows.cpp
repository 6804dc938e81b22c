#include "tools/trace/db/device_rows.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tools/trace/db/bounded.h"
#include "tools/trace/db/clean_text.h"
#include "tools/trace/db/kernel_names.h"

namespace slipstream::trace_db {
namespace {

using tracer::ActivityKind;
using tracer::ActivityRecord;
using tracer::NameTable;

// CUPTI counts kinds of memory from 1 and has 0 for "unknown"; the export counts from 0 and has 7.
int64_t MemoryKind(uint8_t cupti) { return cupti >= 1 && cupti <= 7 ? cupti - 1 : 7; }

NumberOrNull NodeOf(const tracer::DeviceWork& work) {
  return {.known = work.graph_node != 0, .value = static_cast<int64_t>(work.graph_node)};
}

// Of a device.
NumberOrNull NumberOf(int32_t device) { return {.known = device >= 0, .value = device}; }

}  // namespace

DeviceRows::DeviceRows(TraceTables* tables, const DeviceClock& clock, const DevicePeriods& periods,
                       const ContextDevices& contexts, const tracer::SpoolReader& reader, int64_t process,
                       int64_t global_pid, std::function<int64_t(uint64_t)> at)
    : tables_(*tables),
      clock_(clock),
      contexts_(contexts),
      reader_(reader),
      process_(process),
      global_pid_(global_pid),
      at_(std::move(at)),
      calls_(tables->file.folder()) {
  for (const DevicePeriods::Period& period : periods.all()) {
    periods_.push_back({.start = at_(period.start_ns), .end = at_(period.end_ns)});
  }
}

CallNumbers::Call* DeviceRows::CallOf(uint32_t cupti) {
  CallNumbers::Call* const call = calls_.Of(cupti);
  if (call == nullptr) tables_.file.FailBeside(calls_.error());
  return call;
}

int64_t DeviceRows::CorrelationOfCall(uint32_t cupti) {
  if (cupti == 0) return ++tables_.correlations;
  CallNumbers::Call* const call = CallOf(cupti);
  // Two calls of one number: no file should have that, and a database must not have one row twice.
  if (call == nullptr || call->seen != 0) return ++tables_.correlations;
  call->seen = 1;
  unattributed_ -= call->works;
  if (call->correlation == 0) call->correlation = ++tables_.correlations;
  return call->correlation;
}

int64_t DeviceRows::CorrelationOfWork(uint32_t cupti) {
  CallNumbers::Call* const call = CallOf(cupti);
  if (call == nullptr) return ++tables_.correlations;
  if (call->seen == 0 && call->works != std::numeric_limits<uint32_t>::max()) {
    ++call->works;
    ++unattributed_;
  }
  if (call->correlation == 0) call->correlation = ++tables_.correlations;
  return call->correlation;
}

int64_t DeviceRows::CorrelationOfWait(uint32_t cupti) {
  CallNumbers::Call* const call = CallOf(cupti);
  if (call == nullptr) return ++tables_.correlations;
  if (call->correlation == 0) call->correlation = ++tables_.correlations;
  return call->correlation;
}

void DeviceRows::Saw(int64_t start) {
  const auto period =
      std::find_if(periods_.begin(), periods_.end(), [&](const Period& each) { return start <= each.end; });
  if (period != periods_.end()) period->first_work = std::min(period->first_work, start);
}

void DeviceRows::Add(const ActivityRecord& record) {
  if (record.kind != ActivityKind::kSynchronization) Saw(At(record.start_ns));
  switch (record.kind) {
    case ActivityKind::kKernel:
      AddKernel(record);
      break;
    case ActivityKind::kCopy:
      AddCopy(record);
      break;
    case ActivityKind::kSet:
      AddSet(record);
      break;
    case ActivityKind::kSynchronization:
      AddSynchronization(record);
      break;
    case ActivityKind::kNone:
      break;
  }
}

void DeviceRows::AddReading(const tracer::TraceRecord& clock) {
  tables_.own_device_clocks.Row(at_(clock.start_ns), at_(clock.end_ns), process_, clock.bytes);
}

DeviceRows::KernelIds DeviceRows::IdsOf(uint32_t name) {
  const auto [ids, is_new] = kernels_.try_emplace(name);
  if (is_new) {
    const std::string* const found = reader_.NameOf(NameTable::kKernels, name);
    const std::string mangled = found != nullptr ? *found : "unknown kernel " + std::to_string(name);
    const std::string demangled = DemangledName(mangled);
    ids->second = {tables_.strings.IdOf(demangled),
                   tables_.strings.IdOf(found != nullptr ? ShortName(demangled) : mangled),
                   tables_.strings.IdOf(mangled)};
  }
  return ids->second;
}

void DeviceRows::AddKernel(const ActivityRecord& record) {
  const tracer::KernelWork kernel = KernelOf(record);
  const KernelIds ids = IdsOf(kernel.name);
  ++kernel_count_;
  tables_.kernels.Row(At(record.start_ns), At(record.end_ns), kernel.work.device, kernel.work.context, kNull,
                      kernel.work.stream, CorrelationOfWork(record.correlation), global_pid_, ids.demangled, ids.brief,
                      ids.mangled, kNull, kNull, kernel.registers, kernel.grid[0], kernel.grid[1], kernel.grid[2],
                      kernel.block[0], kernel.block[1], kernel.block[2], kernel.static_shared_bytes,
                      kernel.dynamic_shared_bytes, kNull, kNull, kNull, kNull, NodeOf(kernel.work), kNull);
}

void DeviceRows::AddCopy(const ActivityRecord& record) {
  const tracer::CopyWork copy = CopyOf(record);
  ++copy_count_;
  tables_.copies.Row(At(record.start_ns), At(record.end_ns), copy.work.device, copy.work.context, kNull,
                     copy.work.stream, CorrelationOfWork(record.correlation), global_pid_, Size(copy.bytes), copy.kind,
                     kNull, MemoryKind(copy.from), MemoryKind(copy.to), NumberOf(copy.from_device), kNull,
                     NumberOf(copy.to_device), kNull, kNull, NodeOf(copy.work), kNull);
}

void DeviceRows::AddSet(const ActivityRecord& record) {
  const tracer::SetWork set = SetOf(record);
  ++set_count_;
  tables_.sets.Row(At(record.start_ns), At(record.end_ns), set.work.device, set.work.context, kNull, set.work.stream,
                   CorrelationOfWork(record.correlation), global_pid_, set.value, Size(set.bytes), NodeOf(set.work),
                   MemoryKind(set.memory));
}

void DeviceRows::AddSynchronization(const ActivityRecord& record) {
  const tracer::SynchronizationWork wait = SynchronizationOf(record);
  ++wait_count_;
  const int32_t device = record.device >= 0 ? record.device : contexts_.DeviceOf(record.context);
  tables_.synchronizations.Row(At(record.start_ns), At(record.end_ns), NumberOf(device), wait.work.context, kNull,
                               wait.work.stream, CorrelationOfWait(record.correlation), global_pid_, wait.type,
                               wait.event, 0);
}

void DeviceRows::Finish() {
  const auto facts = reader_.facts();
  if (kernel_count_ + copy_count_ + set_count_ + wait_count_ == 0 && facts.find("deviceWork") == facts.end()) return;
  // Behind an interruption the devices may still be at what was asked for in it, until the first work that was
  // recorded.
  for (size_t i = 0; i < periods_.size(); ++i) {
    const Period& period = periods_[i];
    const int64_t start = i == 0 ? period.start : std::max(period.start, std::min(period.first_work, period.end));
    tables_.own_device_periods.Row(process_, start, period.end);
  }
  tables_.own_device_work.Row(process_, Size(kernel_count_), Size(copy_count_), Size(set_count_), Size(unattributed_));
}

}  // namespace slipstream::trace_db
