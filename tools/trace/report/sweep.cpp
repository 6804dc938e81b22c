#include "tools/trace/report/sweep.h"

#include <algorithm>
#include <utility>

#include "tools/trace/report/distribution.h"

namespace slipstream::report {

Sweep::Sweep(std::vector<Step>* steps) : steps_(*steps), measured_(MeasuredTime(*steps)) {}

Sweep::Device& Sweep::At(size_t device) {
  while (devices_.size() <= device) {
    Device& added = devices_.emplace_back();
    added.times.idle = host_;
    added.idle_lines = host_lines_;
  }
  return devices_[device];
}

const DeviceTimes& Sweep::device(size_t device) { return At(device).times; }

int64_t Sweep::measured_ns() const {
  int64_t sum = 0;
  for (const Interval& interval : measured_) AddTo(&sum, interval.end - interval.start);
  return sum;
}

bool Sweep::To(int64_t time) {
  if (!begun_) {
    begun_ = true;
    now_ = steps_.empty() ? time : std::min(time, steps_.front().start);
  }
  while (now_ < time) {
    int64_t next = time;
    // At() first: what has ended has no next change.
    step_thread_.At(now_);
    other_threads_.At(now_);
    next = std::min({next, step_thread_.NextChange(), other_threads_.NextChange()});
    for (Device& device : devices_) {
      for (RunningKernels* const kernels : {&device.kernels, &device.communicating, &device.computing}) {
        kernels->To(now_);
        next = std::min(next, kernels->NextChange());
      }
      device.copies.At(now_);
      next = std::min(next, device.copies.NextChange());
    }
    Visit(now_, next);
    now_ = next;
  }
  Leave(now_);
  while (first_window_ < measured_.size() && measured_[first_window_].end <= now_) ++first_window_;
  return first_window_ < measured_.size() && measured_[first_window_].start <= now_;
}

void Sweep::Enter(int64_t to) {
  for (; next_step_ < steps_.size() && steps_[next_step_].start < to; ++next_step_) open_steps_.push_back(next_step_);
}

void Sweep::Leave(int64_t now) {
  std::erase_if(open_steps_, [&](size_t step) { return steps_[step].end <= now; });
}

void Sweep::Visit(int64_t from, int64_t to) {
  const Tag* const own = step_thread_.At(from);
  const Tag* const other = other_threads_.At(from);
  const Part part = own != nullptr ? PartOf(own->kind) : other != nullptr ? Part::kElsewhere : Part::kOutside;
  bool communicating = false;
  bool working = false;
  for (Device& device : devices_) {
    device.communicating.To(from);
    device.computing.To(from);
    communicating = communicating || device.communicating.any();
    working = working || device.computing.any() || device.copies.At(from) != nullptr;
  }
  Leave(from);
  Enter(to);
  for (const size_t i : open_steps_) {
    const int64_t start = std::max(from, steps_[i].start);
    const int64_t end = std::min(to, steps_[i].end);
    if (start >= end) continue;
    steps_[i].parts[static_cast<size_t>(part)] += end - start;
    if (communicating) steps_[i].communication += end - start;
    if (!working) steps_[i].idle += end - start;
  }
  while (first_window_ < measured_.size() && measured_[first_window_].end <= from) ++first_window_;
  for (size_t i = first_window_; i < measured_.size() && measured_[i].start < to; ++i) {
    const int64_t time = std::min(to, measured_[i].end) - std::max(from, measured_[i].start);
    if (own != nullptr) {
      AddTo(&site_times_[own->site], time);
    } else if (part == Part::kOutside) {
      AddTo(&gap_, time);
    }
    VisitDevices(own != nullptr ? own : other, from, time);
  }
}

void Sweep::VisitDevices(const Tag* call, int64_t from, int64_t measured) {
  const size_t host = call != nullptr ? static_cast<size_t>(call->kind) : kHostOutside;
  const auto idle = [&](IdleLines* lines) {
    if (call != nullptr) {
      lines->InCall(call->site, call->kind, measured);
    } else {
      lines->Outside(measured);
    }
  };
  AddTo(&host_[host], measured);
  idle(&host_lines_);
  for (Device& device : devices_) {
    for (RunningKernels* const kernels : {&device.kernels, &device.communicating, &device.computing}) kernels->To(from);
    const bool copies = device.copies.At(from) != nullptr;
    if (copies) AddTo(&device.times.copies, measured);
    if (device.communicating.any()) {
      AddTo(&device.times.communication, measured);
      if (!device.computing.any()) AddTo(&device.times.communication_alone, measured);
    }
    if (device.kernels.any()) {
      AddTo(&device.times.kernels, measured);
      if (device.sms > 0) {
        const double share = static_cast<double>(device.kernels.blocks()) / static_cast<double>(device.sms);
        device.times.busy_sms += static_cast<double>(measured) * std::min(1.0, share);
      }
    } else if (copies) {
      AddTo(&device.times.copies_alone, measured);
    } else {
      AddTo(&device.times.idle[host], measured);
      idle(&device.idle_lines);
    }
  }
}

bool Sweep::Call(bool of_step_thread, int64_t start, int64_t end, CallKind kind, size_t site) {
  const bool measured = To(start);
  bool in_step = false;
  Enter(start + 1);
  for (const size_t i : open_steps_) {
    if (steps_[i].end <= start) continue;
    in_step = true;
    ++(of_step_thread ? steps_[i].calls : steps_[i].calls_elsewhere);
  }
  if (!in_step) ++calls_outside_steps_;
  // Of a thread beside that asks devices for nothing and waits for nothing, as a loader's does that pins batches, it is
  // not the call that ends an idle time.
  if (of_step_thread || kind != CallKind::kOther) {
    host_lines_.CallBegins(site);
    for (Device& device : devices_) device.idle_lines.CallBegins(site);
  }
  if (!of_step_thread) {
    other_threads_.Add(start, end, {kind, site});
    return measured;
  }
  if (site >= site_times_.size()) {
    site_times_.resize(site + 1);
    gap_times_.resize(site + 1);
  }
  AddTo(&gap_times_[site], std::exchange(gap_, 0));
  step_thread_.Add(start, end, {kind, site});
  return measured;
}

bool Sweep::Kernel(size_t device, const KernelRun& kernel, int64_t sms) {
  const bool measured = To(kernel.start);
  Device& on = At(device);
  on.sms = sms;
  on.kernels.Add(kernel.start, kernel.end, kernel.blocks);
  (kernel.communicates ? on.communicating : on.computing).Add(kernel.start, kernel.end, kernel.blocks);
  return measured;
}

bool Sweep::Copy(size_t device, int64_t start, int64_t end) {
  const bool measured = To(start);
  At(device).copies.Add(start, end, 0);
  return measured;
}

void Sweep::Finish() {
  int64_t last = now_;
  for (const Step& step : steps_) last = std::max(last, step.end);
  To(last);
}

}  // namespace slipstream::report
