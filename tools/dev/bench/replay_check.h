// Checks the blocks that a replay gets: no two live blocks overlap, and at its free each has the bytes that were
// written at its allocation. The bytes are written and read back in the streams of the calls, without a wait in
// between, so memory that is handed to another stream too early is found too.
//
// Threading: LiveRanges is for all threads of a replay; a BlockCheck belongs to one thread.
// Ownership: a BlockCheck has its pinned memory, and gives it back when it goes.
// Errors: CUDA's, returned; what is wrong is counted.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace bench {

struct CheckResult {
  uint64_t blocks = 0;       // whose bytes were compared
  uint64_t bytes = 0;        // of them
  uint64_t overlapping = 0;  // blocks that lay over one that was live
  uint64_t wrong = 0;        // blocks that had other bytes than their own
  std::string first{};       // of these two, in words
};

// The addresses that the program has, by what its calls have returned.
class LiveRanges {
 public:
  // The ID of a live block that these bytes lie over, or 0, and then they are live.
  uint64_t Add(const void* memory, uint64_t bytes, uint64_t id);
  void Remove(const void* memory);

 private:
  struct Range {
    uintptr_t end;
    uint64_t id;
  };
  std::mutex mutex_;
  std::map<uintptr_t, Range> live_;
};

class BlockCheck {
 public:
  // How many bytes are set aside before it waits for them.
  static constexpr size_t kAside = size_t{16} << 20;

  BlockCheck() = default;
  BlockCheck(const BlockCheck&) = delete;
  BlockCheck& operator=(const BlockCheck&) = delete;
  ~BlockCheck();

  cudaError_t Prepare();
  // Behind the block's allocation; `turn` from 0.
  cudaError_t Fill(void* memory, uint64_t bytes, uint64_t id, uint32_t turn, cudaStream_t stream);
  // In front of its free. It may wait for the streams of earlier frees.
  cudaError_t SetAside(const void* memory, uint64_t bytes, uint64_t id, uint32_t turn, cudaStream_t stream);
  // Waits for what is being set aside, and compares it.
  cudaError_t Compare();
  // A block lies over another, which is live.
  void Overlaps(uint64_t id, uint64_t other, uint32_t turn);

  const CheckResult& result() const { return result_; }

 private:
  struct Part {
    size_t at;  // in what was set aside
    size_t bytes;
    uint64_t offset;  // in the block
    uint64_t id;
    uint32_t turn;
    cudaStream_t stream;
  };

  void CompareOne(const Part& part);

  unsigned char* aside_ = nullptr;   // device memory
  unsigned char* pinned_ = nullptr;  // host memory
  cudaStream_t stream_ = nullptr;    // from one to the other
  size_t used_ = 0;
  std::pair<uint64_t, uint32_t> last_wrong_;  // ID, which is never 0, and turn
  std::vector<Part> parts_;
  CheckResult result_;
};

}  // namespace bench
