#include "tools/dev/bench/replay_check.h"

#include <algorithm>
#include <iterator>

namespace bench {
namespace {

// The byte that fills a block, never 0. Two blocks that have the same in one turn have another in the next.
unsigned char PatternOf(uint64_t id, uint32_t turn) {
  // The mixing step of splitmix64.
  uint64_t mixed = id + 0x9e3779b97f4a7c15U * (turn + 1);
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
  return static_cast<unsigned char>(1 + (mixed ^ (mixed >> 31)) % 255);
}

}  // namespace

uint64_t LiveRanges::Add(const void* memory, uint64_t bytes, uint64_t id) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t end = begin + bytes;
  const std::scoped_lock lock(mutex_);
  const auto after = live_.lower_bound(begin);
  if (after != live_.end() && after->first < end) return after->second.id;
  if (after != live_.begin() && std::prev(after)->second.end > begin) return std::prev(after)->second.id;
  live_.emplace_hint(after, begin, Range{end, id});
  return 0;
}

void LiveRanges::Remove(const void* memory) {
  const std::scoped_lock lock(mutex_);
  live_.erase(reinterpret_cast<uintptr_t>(memory));
}

BlockCheck::~BlockCheck() {
  if (aside_ != nullptr) cudaFree(aside_);
  if (pinned_ != nullptr) cudaFreeHost(pinned_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

cudaError_t BlockCheck::Prepare() {
  void* memory = nullptr;
  cudaError_t result = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  if (result == cudaSuccess) result = cudaMalloc(&memory, kAside);
  if (result != cudaSuccess) return result;
  aside_ = static_cast<unsigned char*>(memory);
  result = cudaHostAlloc(&memory, kAside, cudaHostAllocDefault);
  if (result == cudaSuccess) pinned_ = static_cast<unsigned char*>(memory);
  return result;
}

cudaError_t BlockCheck::Fill(void* memory, uint64_t bytes, uint64_t id, uint32_t turn, cudaStream_t stream) {
  return cudaMemsetAsync(memory, PatternOf(id, turn), bytes, stream);
}

cudaError_t BlockCheck::SetAside(const void* memory, uint64_t bytes, uint64_t id, uint32_t turn, cudaStream_t stream) {
  ++result_.blocks;
  result_.bytes += bytes;
  for (uint64_t done = 0; done < bytes;) {
    if (used_ == kAside) {
      if (const cudaError_t result = Compare(); result != cudaSuccess) return result;
    }
    const size_t bytes_of_part = static_cast<size_t>(std::min<uint64_t>(bytes - done, kAside - used_));
    const cudaError_t result = cudaMemcpyAsync(aside_ + used_, static_cast<const unsigned char*>(memory) + done,
                                               bytes_of_part, cudaMemcpyDeviceToDevice, stream);
    if (result != cudaSuccess) return result;
    parts_.push_back({used_, bytes_of_part, done, id, turn, stream});
    used_ += bytes_of_part;
    done += bytes_of_part;
  }
  return cudaSuccess;
}

cudaError_t BlockCheck::Compare() {
  // The latest first: what a stream still has to do with memory that another one has by now is then as late as can be.
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    if (part != parts_.rbegin() && part->stream == std::prev(part)->stream) continue;
    if (const cudaError_t result = cudaStreamSynchronize(part->stream); result != cudaSuccess) return result;
  }
  if (used_ != 0) {
    cudaError_t result = cudaMemcpyAsync(pinned_, aside_, used_, cudaMemcpyDeviceToHost, stream_);
    if (result == cudaSuccess) result = cudaStreamSynchronize(stream_);
    if (result != cudaSuccess) return result;
  }
  for (const Part& part : parts_) CompareOne(part);
  parts_.clear();
  used_ = 0;
  return cudaSuccess;
}

void BlockCheck::CompareOne(const Part& part) {
  const unsigned char expected = PatternOf(part.id, part.turn);
  const unsigned char* const begin = pinned_ + part.at;
  const unsigned char* const end = begin + part.bytes;
  const unsigned char* const wrong =
      std::find_if(begin, end, [expected](unsigned char byte) { return byte != expected; });
  if (wrong == end) return;
  // A block may be in several parts, one behind the other.
  if (last_wrong_ == std::pair(part.id, part.turn)) return;
  last_wrong_ = {part.id, part.turn};
  ++result_.wrong;
  if (!result_.first.empty()) return;
  result_.first = "block " + std::to_string(part.id) + " has the byte " + std::to_string(*wrong) + " and not " +
                  std::to_string(expected) + " at offset " +
                  std::to_string(part.offset + static_cast<uint64_t>(wrong - begin)) + ", in turn " +
                  std::to_string(part.turn);
}

void BlockCheck::Overlaps(uint64_t id, uint64_t other, uint32_t turn) {
  ++result_.overlapping;
  if (!result_.first.empty()) return;
  result_.first = "block " + std::to_string(id) + " lies over block " + std::to_string(other) +
                  ", which is live, in turn " + std::to_string(turn);
}

}  // namespace bench
