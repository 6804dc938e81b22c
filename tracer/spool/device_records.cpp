#include "tracer/spool/device_records.h"

#include <algorithm>

namespace slipstream::tracer {

void DeviceRecords::Add(std::span<const ActivityRecord> activities) {
  const std::lock_guard guard(mutex_);
  std::vector<ActivityRecord>& waiting = waiting_.activities;
  try {
    const size_t room = kMaxWaiting - std::min(kMaxWaiting, waiting.size());
    const size_t count = std::min(room, activities.size());
    waiting.insert(waiting.end(), activities.begin(), activities.begin() + static_cast<ptrdiff_t>(count));
    dropped_ += activities.size() - count;
  } catch (...) {
    dropped_ += activities.size();
  }
}

void DeviceRecords::AddReading(const TraceRecord& clock) {
  const std::lock_guard guard(mutex_);
  try {
    if (waiting_.readings.size() < kMaxWaiting) {
      waiting_.readings.push_back(clock);
      return;
    }
  } catch (...) {
    // Counted as any record that finds no room.
  }
  ++dropped_;
}

void DeviceRecords::Dropped(uint64_t count) {
  const std::lock_guard guard(mutex_);
  dropped_ += count;
}

uint32_t DeviceRecords::KernelName(const char* name) {
  if (name == nullptr) return 0;
  const std::lock_guard guard(mutex_);
  try {
    const auto known = known_.find(name);
    if (known != known_.end() && known->second->first == name) return known->second->second;
    const auto [place, is_new] = kernels_.try_emplace(name, static_cast<uint32_t>(kernels_.size() + 1));
    known_[name] = place;
    if (is_new) waiting_.names.push_back({NameTable::kKernels, place->second, place->first});
    return place->second;
  } catch (...) {
    return 0;
  }
}

void DeviceRecords::AddName(NameTable table, uint32_t number, std::string_view text) {
  const std::lock_guard guard(mutex_);
  try {
    waiting_.names.push_back({table, number, std::string(text)});
  } catch (...) {
    // What refers to it has no name.
  }
}

void DeviceRecords::Say(std::string_view key, std::string_view value) {
  const std::lock_guard guard(mutex_);
  try {
    waiting_.facts.emplace_back(key, value);
  } catch (...) {
    // The fact is not known.
  }
}

void DeviceRecords::Take(Waiting* waiting) {
  waiting->names.clear();
  waiting->facts.clear();
  waiting->activities.clear();
  waiting->readings.clear();
  const std::lock_guard guard(mutex_);
  std::swap(*waiting, waiting_);
}

uint64_t DeviceRecords::dropped() const {
  const std::lock_guard guard(mutex_);
  return dropped_;
}

}  // namespace slipstream::tracer
