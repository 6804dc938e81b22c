#include "tools/trace/report/stream_work.h"

#include <algorithm>
#include <limits>

namespace slipstream::report {
namespace {

constexpr int64_t kLegacy = 1;
constexpr int64_t kPerThread = 2;

void Later(std::optional<int64_t>* until, int64_t end) { *until = std::max(until->value_or(end), end); }

}  // namespace

StreamHandle::StreamHandle(int64_t given, int64_t by_thread)
    : handle(given == kLegacy ? 0 : given), thread(given == kPerThread ? by_thread : 0) {}

void StreamWork::Add(const Stream& stream, int64_t end) {
  const auto [at, is_new] = streams_.try_emplace(stream, end);
  if (!is_new) at->second = std::max(at->second, end);
}

void StreamWork::AddFor(const StreamHandle& handle, int64_t end) { Later(&handles_[handle].until, end); }

void StreamWork::Is(const StreamHandle& handle, const Stream& stream) {
  Known& known = handles_[handle];
  if (known.stream && *known.stream != stream) known.doubtful = true;
  known.stream = stream;
}

std::optional<int64_t> StreamWork::Until(const StreamHandle& handle) const {
  const auto found = handles_.find(handle);
  const bool is_default = handle.handle == 0 || handle.handle == kPerThread;
  if (found == handles_.end() || found->second.doubtful || (is_default && several_contexts_)) return std::nullopt;
  const Known& known = found->second;
  if (!known.stream && !known.until) return std::nullopt;
  int64_t until = known.until.value_or(std::numeric_limits<int64_t>::min());
  if (known.stream) {
    const auto work = streams_.find(*known.stream);
    if (work != streams_.end()) until = std::max(until, work->second);
  }
  return until;
}

}  // namespace slipstream::report
