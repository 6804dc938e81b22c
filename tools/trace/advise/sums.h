// Sums of the facts that several rules need.
//
// Threading: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/text/text.h"
#include "tools/trace/advise/facts.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/format.h"

namespace slipstream::advise {

inline constexpr int64_t kMicrosecond = 1000;
inline constexpr char kNeedsDevices[] = "they need what the devices did: tracer.device was off, or CUPTI was not there";

inline std::string Bytes(int64_t bytes) { return text::HumanBytes(static_cast<uint64_t>(std::max<int64_t>(0, bytes))); }
// What figures are of: a step, or, where there are none, all of the measured time.
inline std::string EachStep(const Facts& facts) { return facts.process->has_steps ? " per step" : " in all"; }
inline std::string OfAStep(const Facts& facts) { return facts.process->has_steps ? " of a step" : " of the time"; }
// "40 kernels per step".
struct Noun {
  const char* one;
  const char* many;
};
inline std::string EachStepText(const Facts& facts, uint64_t count, const Noun& what) {
  const std::string number = report::Number(facts.CountPerStep(count));
  return number + " " + (number == "1" ? what.one : what.many) + EachStep(facts);
}

// The time of a step, and of all of it where there are no steps. In loops that wait every so many steps most steps are
// far shorter than the mean, and only that is their pace.
inline double StepOf(const Facts& facts) {
  const auto measured = static_cast<double>(facts.process->measured_time);
  if (!facts.process->has_steps) return measured;
  const report::Distribution& pace = facts.process->pace_of_work();
  return std::max(static_cast<double>(pace.median),
                  facts.process->ran_ahead ? pace.mean() : measured / facts.process->divisor());
}
// Without what a recording of the devices is known to add: what the findings' costs are shares of.
inline int64_t UnrecordedStep(const Facts& facts) {
  return std::max<int64_t>(0, static_cast<int64_t>(StepOf(facts)) - facts.recording);
}
// The share of a step.
inline double ShareOfStep(const Facts& facts, int64_t per_step) {
  const double step = StepOf(facts);
  return step > 0 ? static_cast<double>(per_step) / step : 0;
}

// Limits to the time in which the devices had nothing to do: the host's time is no loss while they are busy.
inline int64_t AtMostIdle(const Facts& facts, int64_t per_step) {
  const auto idle = facts.IdlePerStep();
  return idle ? std::min(*idle, per_step) : per_step;
}

struct PlaceSum {
  Place place;
  uint64_t count = 0;
  int64_t bytes = 0;
  int64_t time = 0;
};

// By line, what takes longest first.
template <typename Groups, typename Wanted>
std::vector<PlaceSum> ByPlace(const Groups& groups, const Wanted& wanted) {
  std::vector<PlaceSum> sums;
  for (const auto& group : groups) {
    if (!wanted(group)) continue;
    auto at = std::find_if(sums.begin(), sums.end(), [&](const PlaceSum& sum) { return sum.place == group.place; });
    if (at == sums.end()) at = sums.insert(sums.end(), PlaceSum{group.place});
    if constexpr (requires { group.calls; }) {
      at->count += group.calls;
    } else {
      at->count += group.count;
    }
    report::AddTo(&at->bytes, group.bytes);
    report::AddTo(&at->time, group.time);
  }
  std::stable_sort(sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
  return sums;
}

inline PlaceSum SumOf(const std::vector<PlaceSum>& sums) {
  PlaceSum all;
  for (const PlaceSum& sum : sums) {
    all.count += sum.count;
    report::AddTo(&all.bytes, sum.bytes);
    report::AddTo(&all.time, sum.time);
  }
  return all;
}

inline std::vector<Place> PlacesOf(const std::vector<PlaceSum>& sums, size_t most = 5) {
  std::vector<Place> places;
  for (const PlaceSum& sum : sums) {
    if (sum.place.known() && places.size() < most) places.push_back(sum.place);
  }
  return places;
}

// By the names that PyTorch's kernels have.
bool IsPointwise(std::string_view kernel);
// That add a batch's rows to an embedding's gradient.
bool IsOfEmbeddingGradient(std::string_view kernel);

inline bool IsCopyCall(const CallGroup& group) {
  return group.function.starts_with("cudaMemcpy") || group.function.starts_with("cuMemcpy");
}
// A copy by a device; sets are none.
inline bool IsCopy(const WorkGroup& group) { return group.kernel.empty() && group.copy_kind >= 0; }
inline bool IsLaunchCall(const CallGroup& group) { return group.function.find("Launch") != std::string::npos; }
inline bool IsWaitCall(const CallGroup& group) {
  return group.function == "cudaStreamSynchronize" || group.function == "cudaDeviceSynchronize" ||
         group.function == "cudaEventSynchronize" || group.function == "cuStreamSynchronize" ||
         group.function == "cuCtxSynchronize" || group.function == "cuEventSynchronize";
}
// Of the thread that makes the steps, or of autograd's while that one waits for it: the step goes no further meanwhile.
inline bool IsOfTheStep(const CallGroup& group) { return group.of_step_thread || group.of_backward; }
// A wait of these, which slipstream did not skip.
inline bool HoldsTheStep(const CallGroup& group) {
  return IsWaitCall(group) && IsOfTheStep(group) && !group.decision.starts_with("transfer.sync.skipped");
}

// Of copies: copyKind of WorkGroup.
inline constexpr int64_t kHostToDevice = 1;
inline constexpr int64_t kDeviceToHost = 2;

// Copies of at most this many bytes are small: their cost is their launch.
inline constexpr int64_t kSmallCopy = 64 << 10;
// And of at most this many, a number.
inline constexpr int64_t kScalar = 64;

// Lines at which the thread that makes the steps uploads batches: none whose copies are known to stay on the device, or
// to leave it.
std::vector<Place> UploadLines(const Facts& facts);
// Lines that copy at most 64 bytes and hold the step until they are there, with at least one wait in two steps, all of
// them together: .item() and its like.
std::vector<Place> ScalarLines(const Facts& facts);
// Lines of the backward pass at which autograd fetches single bytes, eight a step or more: anomaly detection.
std::vector<PlaceSum> AnomalyLines(const Facts& facts);
// Lines that make twenty small copies a step or more, all of them together, without ScalarLines.
std::vector<PlaceSum> SmallCopyLines(const Facts& facts);
// Lines that each launch hundreds of short pointwise kernels a step: loops over tensors.
std::vector<PlaceSum> LoopLines(const Facts& facts);

// A loader with no more workers than have a processor each, two of every rank's left for its own threads.
std::string FewerWorkers(const Facts& facts, double processors);

// Who waits for less of a step than this before it uploads a batch, does not wait for it.
inline constexpr double kLateShare = 0.05;

inline bool Has(const std::vector<Place>& places, const Place& place) {
  return std::find(places.begin(), places.end(), place) != places.end();
}
// Time of the step thread outside CUDA calls right before calls at these lines, in ns of the measured time.
int64_t GapBefore(const Facts& facts, const std::vector<Place>& places);

}  // namespace slipstream::advise
