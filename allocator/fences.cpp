#include "allocator/fences.h"

#include <utility>

namespace slipstream::allocator {

// Puts an event of the context at the place: one that is there already, or a new one.
bool Fences::MakeAt(size_t place, const Contexts& contexts, const Contexts::Set::Entry& entry) {
  const uint32_t life = contexts.Life(entry.device);
  for (size_t i = place; i < events_.size(); ++i) {
    if (events_[i].device != entry.device || events_[i].life != life) continue;
    if (i != place) std::swap(events_[place], events_[i]);
    return true;
  }
  const InContext in(contexts.driver(), entry.context);
  Event made{.device = entry.device, .life = life, .event = nullptr};
  if (contexts.driver().cuEventCreate(&made.event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return false;
  try {
    std::erase_if(events_, [&contexts](const Event& event) { return Gone(contexts, event); });
    events_.insert(events_.begin() + static_cast<ptrdiff_t>(place), made);
  } catch (...) {
    return false;  // and an event is lost, of which there are few
  }
  return true;
}

bool Fences::Record(Contexts& contexts, const Contexts::Set& set) {
  recorded_ = 0;
  for (size_t i = 0; i < set.count; ++i) {
    if (!MakeAt(i, contexts, set.entries[i])) return false;
    if (contexts.driver().cuCtxRecordEvent(set.entries[i].context, events_[i].event) != CUDA_SUCCESS) return false;
  }
  recorded_ = set.count;
  return true;
}

Fences::State Fences::Ask(const Contexts& contexts) const {
  for (size_t i = 0; i < recorded_; ++i) {
    if (Gone(contexts, events_[i])) continue;
    const CUresult result = contexts.driver().cuEventQuery(events_[i].event);
    if (result != CUDA_SUCCESS) return result == CUDA_ERROR_NOT_READY ? State::kPending : State::kBroken;
  }
  return State::kPassed;
}

bool Fences::HoldBehind(const Contexts& contexts, const Contexts::Set& set) const {
  for (size_t c = 0; c < set.count; ++c) {
    for (size_t i = 0; i < recorded_; ++i) {
      if (Gone(contexts, events_[i])) continue;
      if (contexts.driver().cuCtxWaitEvent(set.entries[c].context, events_[i].event) != CUDA_SUCCESS) return false;
    }
  }
  return true;
}

}  // namespace slipstream::allocator
