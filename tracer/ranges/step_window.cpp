#include "tracer/ranges/step_window.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

#include "tracer/ranges/step_text.h"

namespace slipstream::tracer {

bool StepWindow::Begins(std::string_view name, Recorder* recorder) {
  const std::optional<StepText> step = StepText::Of(name);
  if (!step) return false;
  const auto self = static_cast<uint32_t>(syscall(SYS_gettid));
  uint32_t thread = 0;
  if (!thread_.compare_exchange_strong(thread, self, std::memory_order_relaxed) && thread != self) return false;
  const uint64_t number = step->number().value_or(next_);
  next_ = number + 1;
  recorder->Pause(RecordSwitch::kOutsideWindow, !recorder->window().Has(number));
  return true;
}

}  // namespace slipstream::tracer
