#include "tools/trace/report/gains.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "tools/trace/report/distribution.h"
#include "tools/trace/report/report.h"

namespace slipstream::report {
namespace {

// Times of calls keep so many bits behind the first one.
constexpr int kBitsKept = 5;

int64_t Times(uint64_t count, int64_t ns) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(count, ns, &product)) return product;
  return std::numeric_limits<int64_t>::max();
}

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void AddToSum(std::optional<int64_t>* sum, const std::optional<int64_t>& value) {
  if (value) *sum = Sum(sum->value_or(0), *value);
}

// Sizes matter little to a block, and all the more to a copy.
bool AnySizeCompares(GainKind kind) { return kind == GainKind::kBlocks; }

const char* WhatIsNotKnown(GainKind kind) {
  switch (kind) {
    case GainKind::kCopiesToDevice:
      return "what staging in the program's own call takes, beside the wait: fewer than 3 calls of the size were left "
             "alone while the device was idle";
    case GainKind::kCopiesToHost:
      return "what the program's own call takes: fewer than 3 calls of the size were left alone while the device was "
             "idle, or none was promoted then";
    default:
      return "fewer than 3 calls of the same function reached the driver in this run";
  }
}

}  // namespace

const char* NameOf(GainKind kind) {
  static constexpr const char* kNames[kGainKinds] = {"skipped_synchronizations", "copies_to_device",
                                                     "copies_to_host",           "kept_blocks",
                                                     "waits_made_up_for",        "given_back_and_tried_again"};
  return kNames[static_cast<size_t>(kind)];
}

const char* LabelOf(GainKind kind) {
  static constexpr const char* kLabels[kGainKinds] = {
      "synchronizations skipped",         "copies to the device promoted",
      "copies to the host promoted",      "blocks from the pool, and kept",
      "waits made up for in other calls", "memory given back, allocations tried again"};
  return kLabels[static_cast<size_t>(kind)];
}

void Durations::Add(int64_t ns) {
  ns = std::max<int64_t>(ns, 0);
  const int dropped = std::max(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(ns))) - 1 - kBitsKept);
  ++counts_[ns >> dropped << dropped];
  ++count_;
}

void Durations::Add(const Durations& other) {
  for (const auto& [ns, count] : other.counts_) counts_[ns] += count;
  count_ += other.count_;
}

int64_t Durations::LowerQuartile() const {
  const uint64_t place = (count_ + 3) / 4;
  uint64_t passed = 0;
  for (const auto& [ns, count] : counts_) {
    passed += count;
    if (passed >= place) return ns;
  }
  return 0;
}

Gains::Role Gains::RoleOf(const std::string& decision) {
  constexpr std::string_view kTransfer = "transfer.";
  constexpr std::string_view kAllocator = "allocator.";
  std::string_view name = decision;
  if (name.starts_with(kTransfer)) {
    name.remove_prefix(kTransfer.size());
    if (IsOneOf(name, {"sync.skipped", "sync.skipped.rest"})) return Role::kSynchronization;
    if (IsOneOf(name, {"h2d.promoted.small", "h2d.promoted.large"})) return Role::kToDevice;
    if (name == "d2h.promoted") return Role::kToHost;
    // What was left alone for a reason that lies in slipstream, and not in what is special about the copy.
    if (IsOneOf(name, {"h2d.declined.starting", "h2d.declined.no_memory", "h2d.declined.full", "h2d.declined.device",
                       "h2d.declined.threads"})) {
      return Role::kToDeviceLeftAlone;
    }
    return IsOneOf(name, {"d2h.declined.staging", "d2h.declined.device", "d2h.declined.slower"})
               ? Role::kToHostLeftAlone
               : Role::kNone;
  }
  if (!name.starts_with(kAllocator)) return Role::kNone;
  name.remove_prefix(kAllocator.size());
  if (IsOneOf(name, {"reused", "reused.behind", "parked"})) return Role::kBlock;
  return name == "grown" || name.starts_with("passed.") || name.starts_with("freed.") ? Role::kDriverBlock
                                                                                      : Role::kNone;
}

bool Gains::IsCopy(Role role) {
  return role == Role::kToDevice || role == Role::kToHost || role == Role::kToDeviceLeftAlone ||
         role == Role::kToHostLeftAlone;
}

GainKind Gains::KindOf(Role role) {
  switch (role) {
    case Role::kToDevice:
    case Role::kToDeviceLeftAlone:
      return GainKind::kCopiesToDevice;
    case Role::kToHost:
    case Role::kToHostLeftAlone:
      return GainKind::kCopiesToHost;
    case Role::kBlock:
    case Role::kDriverBlock:
      return GainKind::kBlocks;
    default:
      return GainKind::kSynchronizations;
  }
}

Gains::Role Gains::RoleOf(int64_t decision, const std::string& name) {
  const auto [at, is_new] = roles_.try_emplace(decision, Role::kNone);
  if (is_new) at->second = RoleOf(name);
  return at->second;
}

void Gains::AddCall(const Call& call, Role role, bool idle) {
  if (call.saved < 0) {
    GainRow& lost = rows_[static_cast<size_t>(GainKind::kLaterWaits)];
    ++lost.calls;
    if (call.measured) {
      ++lost.measured_calls;
      AddTo(&lost_, -call.saved);
    }
  }
  if (role == Role::kNone || !call.succeeded) return;
  const GainKind kind = KindOf(role);
  const int exponent = ExponentOf(call.bytes);
  if (IsDriver(role)) {
    // A copy that may have waited for earlier work does not say what copying takes.
    if (!IsCopy(role) || idle) sums_[{kind, call.function}].driver[exponent].Add(call.time);
    return;
  }
  GainRow& row = rows_[static_cast<size_t>(kind)];
  ++row.calls;
  if (!call.measured) return;
  ++row.measured_calls;
  // A promoted copy to the host waits for earlier work itself.
  if (role == Role::kSynchronization || (role == Role::kToHost && !idle)) return;
  Served& served = sums_[{kind, call.function}].served[exponent];
  ++served.calls;
  AddTo(&served.time, call.time);
}

void Gains::Estimate(GainKind kind, GainRow* row) const {
  for (const auto& [key, sums] : sums_) {
    if (key.first != kind) continue;
    Durations all;
    for (const auto& [exponent, driver] : sums.driver) all.Add(driver);
    for (const auto& [exponent, served] : sums.served) {
      const auto like = sums.driver.find(exponent);
      const bool alike = like != sums.driver.end() && like->second.count() >= kFewest;
      if (!alike && !(AnySizeCompares(kind) && all.count() >= kFewest)) continue;
      const int64_t each = (alike ? like->second : all).LowerQuartile();
      row->estimated = Sum(row->estimated.value_or(0), Sum(Times(served.calls, each), -served.time));
      row->estimated_calls += served.calls;
    }
  }
  if (row->estimated_calls == row->measured_calls) return;
  row->not_known = WhatIsNotKnown(kind);
  if (row->estimated) {
    const uint64_t others = row->measured_calls - row->estimated_calls;
    row->not_known = "of " + std::to_string(others) + (others == 1 ? " call, " : " calls, ") + row->not_known;
  }
}

void Gains::SetMeasured(const ProcessReport& process, GainsReport* report) const {
  const auto row = [&](GainKind kind) -> GainRow& { return report->rows[static_cast<size_t>(kind)]; };
  GainRow& lost = row(GainKind::kLaterWaits);
  GainRow& waits = row(GainKind::kSynchronizations);
  GainRow& copies = row(GainKind::kCopiesToDevice);
  if (!process.ahead) {
    if (lost.measured_calls != 0) lost.measured = -lost_;
    const std::string why = process.unwatched_everywhere ? "devices were recorded in no step to its end"
                                                         : "the devices were not recorded (tracer.device)";
    if (waits.calls != 0) waits.not_known = why;
    if (copies.calls != 0) copies.not_known = why + (copies.not_known.empty() ? "" : "; " + copies.not_known);
    return;
  }
  AheadTimes times = process.ahead->step_thread;
  times.Add(process.ahead->other_threads);
  const auto by = [&](SkippedBy kind) { return times.by[static_cast<size_t>(kind)]; };
  if (waits.calls != 0) waits.measured = by(SkippedBy::kSynchronization);
  // A copy that is asynchronous by its name, or small, might have returned early by itself: no wait is put down to it.
  if (process.ahead->skipped_by[static_cast<size_t>(SkippedBy::kCopy)] != 0) copies.measured = by(SkippedBy::kCopy);
  if (lost.measured_calls != 0) lost.measured = -times.added;
  for (const GainRow& each : report->rows) AddToSum(&report->measured, each.measured);
}

GainsReport Gains::Make(const ProcessReport& process) const {
  GainsReport report;
  report.rows = rows_;
  for (const GainKind kind : {GainKind::kCopiesToDevice, GainKind::kCopiesToHost, GainKind::kBlocks}) {
    Estimate(kind, &report.rows[static_cast<size_t>(kind)]);
  }
  GainRow& given_back = report.rows[static_cast<size_t>(GainKind::kGivenBack)];
  for (const DecisionReport& decision : process.decisions) {
    if (!IsOneOf(decision.name,
                 {"allocator.trimmed", "allocator.reclaimed", "allocator.retried", "transfer.gave_back"})) {
      continue;
    }
    given_back.calls += decision.calls;
    given_back.measured_calls += decision.measured_calls;
  }
  if (given_back.calls != 0) given_back.not_known = "its time is in no record of its own";
  SetMeasured(process, &report);
  for (const GainRow& each : report.rows) AddToSum(&report.estimated, each.estimated);
  return report;
}

}  // namespace slipstream::report
