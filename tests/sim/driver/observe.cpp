#include "tests/sim/driver/observe.h"

#include <time.h>

#include <atomic>

#include "tests/sim/driver/copy.h"
#include "tests/sim/driver/entry.h"

namespace simcuda {
namespace {

constinit std::atomic<const simObserver*> g_observer{nullptr};
constinit std::atomic<uint32_t> g_last_correlation{0};

uint32_t NewCorrelation() { return g_last_correlation.fetch_add(1, std::memory_order_relaxed) + 1; }

}  // namespace

Observed::Observed(const char* function)
    : function_(function), observer_(g_observer.load(std::memory_order_acquire)), before_(ThisThread().correlation) {
  if (observer_ == nullptr) {
    return;
  }
  ThisThread().correlation = NewCorrelation();
  observer_->entered(function_, ThisThread().correlation);
}

CUresult Observed::Leave(CUresult result) {
  if (observer_ != nullptr) {
    observer_->left(function_, ThisThread().correlation, result);
    ThisThread().correlation = before_;
  }
  return result;
}

uint32_t CorrelationOfThisCall() {
  const uint32_t correlation = ThisThread().correlation;
  return correlation != 0 ? correlation : NewCorrelation();
}

uint64_t ObservedNowNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void ReportFinished(const Op& op) {
  const simObserver* const observer = g_observer.load(std::memory_order_acquire);
  const Work& work = op.work;
  if (observer == nullptr || op.began_ns == 0 || op.context == nullptr) {
    return;
  }
  simWork done = {};
  done.correlation = op.correlation;
  done.device = static_cast<uint32_t>(op.device);
  done.context = static_cast<uint32_t>(op.device) + 1;
  done.stream = op.stream_id;
  done.start_ns = op.began_ns;
  done.end_ns = ObservedNowNs();
  done.graph_node = work.graph_node;
  switch (work.kind) {
    case Work::Kind::kKernel:
      done.kind = SIM_WORK_KERNEL;
      done.name = work.kernel->name.c_str();
      for (int i = 0; i < 3; ++i) {
        done.grid[i] = work.shape.grid[i];
        done.block[i] = work.shape.block[i];
      }
      done.shared_bytes = work.shape.shared_bytes;
      break;
    case Work::Kind::kCopy:
      done.kind = SIM_WORK_COPY;
      done.bytes = work.copy->width * work.copy->height * work.copy->depth;
      done.from = work.from;
      done.to = work.to;
      done.from_device = work.from_device;
      done.to_device = work.to_device;
      break;
    case Work::Kind::kSet:
      done.kind = SIM_WORK_SET;
      done.bytes = work.set->width * work.set->element * work.set->height;
      done.to = SIM_PLACE_DEVICE;
      done.value = work.set->value;
      break;
    default:
      return;
  }
  observer->finished(&done);
}

void ReportWaited(int wait, uint64_t start_ns, const Context* context, const Stream* stream, const Event* event) {
  const simObserver* const observer = g_observer.load(std::memory_order_acquire);
  const uint32_t correlation = ThisThread().correlation;
  if (observer == nullptr || correlation == 0 || context->sticky != CUDA_SUCCESS) {
    return;
  }
  simWork done = {};
  done.kind = SIM_WORK_WAIT;
  done.wait = wait;
  done.correlation = correlation;
  done.device = static_cast<uint32_t>(context->device->ordinal);
  done.context = done.device + 1;
  done.stream = stream != nullptr ? static_cast<uint32_t>(stream->id) : UINT32_MAX;
  // The low bits of its address: it has no number.
  done.event = event != nullptr ? static_cast<uint32_t>(reinterpret_cast<uintptr_t>(event) >> 4) : UINT32_MAX;
  done.start_ns = start_ns;
  done.end_ns = ObservedNowNs();
  observer->finished(&done);
}

}  // namespace simcuda

SIM_EXPORT void simObserve(const simObserver* observer) {
  simcuda::g_observer.store(observer, std::memory_order_release);
}
