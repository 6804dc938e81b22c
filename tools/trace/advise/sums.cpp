#include "tools/trace/advise/sums.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace slipstream::advise {

bool IsPointwise(std::string_view kernel) {
  constexpr std::array<std::string_view, 5> kNames = {"elementwise", "CUDAFunctor", "vectorized", "unrolled",
                                                      "fill_kernel"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](std::string_view name) { return kernel.find(name) != std::string_view::npos; });
}

bool IsOfEmbeddingGradient(std::string_view kernel) {
  constexpr std::array<std::string_view, 3> kNames = {"embedding_backward", "compute_grad_weight", "sum_and_scatter"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](std::string_view name) { return kernel.find(name) != std::string_view::npos; });
}

std::string FewerWorkers(const Facts& facts, double processors) {
  const auto ranks = static_cast<double>(std::max<size_t>(1, facts.machine.size()));
  const auto fit = static_cast<int64_t>(std::max(1.0, processors / ranks - 2));
  return "DataLoader(..., num_workers=" + std::to_string(std::min(fit, facts.tasks.workers->most)) + ")";
}

std::vector<Place> UploadLines(const Facts& facts) {
  const auto uploads_there = [&](const Place& place) {
    return std::any_of(facts.work.begin(), facts.work.end(), [&](const WorkGroup& group) {
      return group.kernel.empty() && group.copy_kind == kHostToDevice && group.place == place;
    });
  };
  std::vector<Place> lines;
  for (const CallGroup& group : facts.calls) {
    if (!IsCopyCall(group) || !group.of_step_thread || !group.place.known() || group.most < kSmallCopy) continue;
    if (Has(lines, group.place)) continue;
    const bool decided = group.decision.starts_with("transfer.h2d");
    if (decided || !facts.devices_recorded || uploads_there(group.place)) lines.push_back(group.place);
  }
  return lines;
}

std::vector<Place> ScalarLines(const Facts& facts) {
  const auto copies = ByPlace(facts.calls, [](const CallGroup& group) {
    return IsCopyCall(group) && group.most > 0 && group.most <= kScalar && group.place.known();
  });
  const std::vector<Place> places = PlacesOf(copies, SIZE_MAX);
  const auto waits =
      ByPlace(facts.calls, [&](const CallGroup& group) { return HoldsTheStep(group) && Has(places, group.place); });
  if (facts.CountPerStep(SumOf(waits).count) < 0.5) return {};
  return PlacesOf(waits, SIZE_MAX);
}

std::vector<PlaceSum> AnomalyLines(const Facts& facts) {
  constexpr double kMany = 8;  // a step
  std::vector<PlaceSum> sums = ByPlace(facts.calls, [](const CallGroup& group) {
    return group.of_backward && IsCopyCall(group) && group.least == 1 && group.most == 1 && group.place.known();
  });
  std::erase_if(sums, [&](const PlaceSum& sum) { return facts.CountPerStep(sum.count) < kMany; });
  return sums;
}

std::vector<PlaceSum> SmallCopyLines(const Facts& facts) {
  constexpr double kMany = 20;  // a step
  const std::vector<Place> scalars = ScalarLines(facts);
  auto sums = ByPlace(facts.calls, [&](const CallGroup& group) {
    return IsCopyCall(group) && group.most > 0 && group.most <= kSmallCopy && !Has(scalars, group.place);
  });
  if (facts.CountPerStep(SumOf(sums).count) < kMany) sums.clear();
  return sums;
}

std::vector<PlaceSum> LoopLines(const Facts& facts) {
  constexpr double kMany = 300;
  constexpr int64_t kShort = 12 * kMicrosecond;
  auto sums = ByPlace(facts.work, [](const WorkGroup& group) {
    return IsPointwise(group.kernel) && group.kernel.find("multi_tensor") == std::string::npos && group.place.known();
  });
  // A line that launches products and convolutions too is a forward or a backward pass.
  const auto others = ByPlace(facts.work, [](const WorkGroup& group) {
    return !group.kernel.empty() && !IsPointwise(group.kernel) && group.place.known();
  });
  std::erase_if(sums, [&](const PlaceSum& sum) {
    const auto same =
        std::find_if(others.begin(), others.end(), [&](const auto& other) { return other.place == sum.place; });
    return facts.CountPerStep(sum.count) < kMany || sum.time / static_cast<int64_t>(sum.count) > kShort ||
           (same != others.end() && same->count * 10 > sum.count);
  });
  return sums;
}

int64_t GapBefore(const Facts& facts, const std::vector<Place>& places) {
  int64_t gap = 0;
  for (const report::SiteReport& site : facts.process->sites) {
    if (!site.known || !site.of_step_thread) continue;
    if (Has(places, {site.file, site.line, site.function})) report::AddTo(&gap, site.gap);
  }
  return gap;
}

}  // namespace slipstream::advise
