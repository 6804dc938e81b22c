#include "tracer/calls/line_steps.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "policy/thread_owned.h"

namespace slipstream::tracer {
namespace {

struct ThreadSteps {
  uint64_t works = 0;
  UploadLines lines;
};
using StepsHere = policy::ThreadOwned<ThreadSteps>;

uint32_t Self() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

}  // namespace

StepRole RoleOf(std::string_view function) {
  while (function.starts_with('_')) function.remove_prefix(1);  // __cudaLaunchKernel, of CUDA 13
  for (const std::string_view api : {"cuda", "cu"}) {
    if (!function.starts_with(api)) continue;
    function.remove_prefix(api.size());
    break;
  }
  if (function.starts_with("Memcpy")) return StepRole::kCopy;
  const bool launches = function.starts_with("Launch") && !function.starts_with("LaunchHostFunc");
  const bool works = launches || function.starts_with("GraphLaunch") || function.starts_with("Memset");
  return works ? StepRole::kWork : StepRole::kNone;
}

UploadLines::Line* UploadLines::Find(uint64_t line) {
  const auto end = lines_.begin() + static_cast<ptrdiff_t>(count_);
  const auto found = std::find_if(lines_.begin(), end, [=](const Line& one) { return one.line == line; });
  if (found != end) return &*found;
  if (count_ == kMostLines) return nullptr;
  Line& added = lines_[count_++];
  added.line = line;
  return &added;
}

bool UploadLines::Visits(uint64_t line, uint64_t works) {
  Line* const found = Find(line);
  if (found == nullptr) return false;
  const bool is_visit = found->visits == 0 || works != found->works;
  found->works = works;
  if (is_visit) ++found->visits;
  return is_visit;
}

uint32_t UploadLines::VisitsOf(uint64_t line) const {
  for (size_t i = 0; i < count_; ++i) {
    if (lines_[i].line == line) return lines_[i].visits;
  }
  return 0;
}

void LineSteps::Worked() {
  if (ThreadSteps* const here = StepsHere::Get()) ++here->works;
}

// Who finds the line first writes its thread down before it; nobody changes either any more.
std::optional<uint64_t> LineSteps::Begins(uint64_t line) {
  if (line == 0 || line_.load(std::memory_order_acquire) != line) return std::nullopt;
  if (thread_.load(std::memory_order_relaxed) != Self()) return std::nullopt;
  ThreadSteps* const here = StepsHere::Get();
  if (here == nullptr || !here->lines.Visits(line, here->works)) return std::nullopt;
  return next_++;
}

std::optional<uint64_t> LineSteps::Uploaded(uint64_t line) {
  if (line == 0 || line_.load(std::memory_order_acquire) != 0) return std::nullopt;
  ThreadSteps* const here = StepsHere::Get();
  if (here == nullptr || !here->lines.Visits(line, here->works)) return std::nullopt;
  if (here->lines.VisitsOf(line) < UploadLines::kVisits) return std::nullopt;
  uint32_t nobody = 0;
  if (!thread_.compare_exchange_strong(nobody, Self(), std::memory_order_relaxed)) return std::nullopt;
  next_ = UploadLines::kVisits;
  line_.store(line, std::memory_order_release);
  return UploadLines::kVisits - 1;
}

}  // namespace slipstream::tracer
