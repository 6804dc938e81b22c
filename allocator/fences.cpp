#include "allocator/fences.h"

#include <algorithm>
#include <utility>

#include "cuda/own_work.h"

namespace slipstream::allocator {

// Puts an event of the context at the place: one that is there already, or a new one.
bool Fences::MakeAt(size_t place, const cuda::Contexts& contexts, const cuda::Contexts::Set::Entry& entry) {
  const uint32_t life = contexts.Life(entry.device);
  if (life % 2 != 0) return false;  // it is being reset
  for (size_t i = place; i < events_.size(); ++i) {
    if (events_[i].device != entry.device || events_[i].life != life) continue;
    if (i != place) std::swap(events_[place], events_[i]);
    return true;
  }
  const cuda::InContext in(contexts.driver(), entry.context);
  Event made{.device = entry.device, .life = life, .event = nullptr};
  if (contexts.driver().cuEventCreate(&made.event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return false;
  try {
    // Those in front of the place are recorded already.
    const auto rest = events_.begin() + static_cast<ptrdiff_t>(place);
    const auto gone = [&contexts](const Event& event) { return Gone(contexts, event); };
    events_.erase(std::remove_if(rest, events_.end(), gone), events_.end());
    events_.insert(events_.begin() + static_cast<ptrdiff_t>(place), made);
  } catch (...) {
    return false;  // and an event is lost, of which there are few
  }
  return true;
}

bool Fences::Record(cuda::Contexts& contexts, const cuda::Contexts::Set& set) {
  recorded_ = 0;
  for (size_t i = 0; i < set.count; ++i) {
    if (!MakeAt(i, contexts, set.entries[i])) return false;
    if (contexts.driver().cuCtxRecordEvent(set.entries[i].context, events_[i].event) != CUDA_SUCCESS) return false;
  }
  recorded_ = set.count;
  return true;
}

Fences::State Fences::Ask(const cuda::Contexts& contexts) const {
  for (size_t i = 0; i < recorded_; ++i) {
    if (Gone(contexts, events_[i])) continue;
    if (Going(contexts, events_[i])) return State::kPending;
    const CUresult result = contexts.driver().cuEventQuery(events_[i].event);
    if (result != CUDA_SUCCESS) return result == CUDA_ERROR_NOT_READY ? State::kPending : State::kBroken;
  }
  return State::kPassed;
}

bool Fences::HoldBehind(const cuda::Contexts& contexts, CUcontext context) const {
  const cuda::OwnWork own;
  for (size_t i = 0; i < recorded_; ++i) {
    if (Gone(contexts, events_[i])) continue;
    if (Going(contexts, events_[i])) return false;
    if (contexts.driver().cuCtxWaitEvent(context, events_[i].event) != CUDA_SUCCESS) return false;
  }
  return true;
}

bool Fences::Wait(const cuda::Contexts& contexts) const {
  const cuda::OwnWork own;
  for (size_t i = 0; i < recorded_; ++i) {
    if (Gone(contexts, events_[i]) || Going(contexts, events_[i])) continue;
    if (contexts.driver().cuEventSynchronize(events_[i].event) != CUDA_SUCCESS) return false;
  }
  return true;
}

}  // namespace slipstream::allocator
