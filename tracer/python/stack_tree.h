// Numbers for whole stacks: a stack is a frame's site (code_sites.h) and the number of the stack that it was called
// from, so that stacks which begin alike share what they have in common. The same stack has the same number, for good.
//
// Threading: any thread, lock-free: no lock can be left held by a fork or a killed thread. If two threads see a stack
//   at once for the first time, it may use its room twice.
// Ownership: leaked by the library; tests may delete it.
// Errors: without room, a stack has no number, and is counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace slipstream::tracer {

class StackTree {
 public:
  // No stack: there are no frames, or there was no room.
  static constexpr uint32_t kNone = 0;
  // In the place of frames further out that were not looked at.
  static constexpr uint32_t kCut = 1;
  // Numbers that Intern gives begin here, and a stack's is higher than that of the one it was called from.
  static constexpr uint32_t kFirst = 2;

  // Reserved once, and touched as it is needed: 16 bytes a stack.
  struct Limits {
    uint32_t stacks = 1U << 19;
  };

  // Null when there is no memory.
  static StackTree* Create(const Limits& limits);
  ~StackTree();
  StackTree(const StackTree&) = delete;
  StackTree& operator=(const StackTree&) = delete;

  // The stack of a frame at `site` (0: it has no name) called from `parent`, which is kNone, kCut or a number from
  // here.
  uint32_t Intern(uint32_t site, uint32_t parent);

  struct Stack {
    uint32_t site = 0;
    uint32_t parent = kNone;
  };
  // False for what is no number from here, or not yet: between size() going up and this lies a moment.
  bool Describe(uint32_t stack, Stack* description) const;

  // No two trees of a process have the same.
  uint64_t number() const { return number_; }
  // Numbers are kFirst to size() - 1.
  uint32_t size() const { return count_.load(std::memory_order_acquire); }
  // How often there was no room.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  StackTree(uint32_t limit, uint32_t slot_mask, void* memory, size_t bytes);

  const uint64_t number_;
  const uint32_t limit_;  // numbers are below it
  const uint32_t slot_mask_;
  void* const memory_;
  const size_t bytes_;
  std::atomic<uint64_t>* const stacks_;  // by number: parent + 1, site; 0: not written yet
  std::atomic<uint32_t>* const slots_;   // a number; 0 is free
  std::atomic<uint32_t> count_{kFirst};
  std::atomic<uint64_t> refused_{0};
};

}  // namespace slipstream::tracer
