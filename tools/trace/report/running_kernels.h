// The kernels of a device that run at a moment, from intervals in the order of their starts.
//
// Memory: the kernels that have not ended.
// Threading: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "tools/trace/report/lane.h"

namespace slipstream::report {

class RunningKernels {
 public:
  void Add(int64_t start, int64_t end, int64_t blocks) {
    if (end <= start) return;
    running_.emplace(end, blocks);
    blocks_ += blocks;
  }
  // Times do not go back.
  void To(int64_t now) {
    while (!running_.empty() && running_.top().first <= now) {
      blocks_ -= running_.top().second;
      running_.pop();
    }
  }
  bool any() const { return !running_.empty(); }
  // Thread blocks of all of them.
  int64_t blocks() const { return blocks_; }
  int64_t NextChange() const { return running_.empty() ? kNever : running_.top().first; }

 private:
  using Kernel = std::pair<int64_t, int64_t>;  // end, blocks
  std::priority_queue<Kernel, std::vector<Kernel>, std::greater<>> running_;
  int64_t blocks_ = 0;
};

}  // namespace slipstream::report
