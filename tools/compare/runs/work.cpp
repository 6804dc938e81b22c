#include "tools/compare/runs/work.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>

namespace slipstream::compare {
namespace {

using ByName = std::map<std::string, WorkChange>;

std::vector<WorkChange> Sorted(ByName* by_name) {
  std::vector<WorkChange> list;
  for (auto& [name, change] : *by_name) {
    change.name = name;
    list.push_back(std::move(change));
  }
  std::stable_sort(list.begin(), list.end(), [](const WorkChange& a, const WorkChange& b) {
    return std::abs(a.difference()) > std::abs(b.difference());
  });
  return list;
}

}  // namespace

std::vector<WorkChange> CompareKernels(const RecordedRun& first, const RecordedRun& second) {
  ByName kernels;
  const std::array<const RecordedRun*, 2> runs = {&first, &second};
  for (size_t i = 0; i < runs.size(); ++i) {
    const double steps = runs[i]->of().device_divisor();
    for (const report::KernelReport& of : runs[i]->Device()->top) {
      WorkChange& kernel = kernels[of.name];
      kernel.counts[i] += static_cast<double>(of.launches) / steps;
      kernel.times[i] += static_cast<double>(of.time) / steps;
    }
  }
  return Sorted(&kernels);
}

std::vector<WorkChange> CompareCopies(const RecordedRun& first, const RecordedRun& second) {
  ByName copies;
  const std::array<const RecordedRun*, 2> runs = {&first, &second};
  for (size_t i = 0; i < runs.size(); ++i) {
    const double steps = runs[i]->of().device_divisor();
    for (const report::DeviceCopyReport& of : runs[i]->Device()->copies) {
      WorkChange& kind = copies[of.name];
      kind.counts[i] += static_cast<double>(of.count) / steps;
      kind.bytes[i] += static_cast<double>(of.bytes) / steps;
      kind.times[i] += static_cast<double>(of.time) / steps;
    }
  }
  return Sorted(&copies);
}

}  // namespace slipstream::compare
