#include "tracer/python/native_stack.h"

#include <pthread.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "tracer/python/frame_layout.h"
#include "tracer/python/raw_memory.h"
#include "tracer/python/stack_memo.h"

namespace slipstream::tracer {
namespace {

// A word of any frame, also where a sanitizer has put something around somebody's variables.
__attribute__((no_sanitize("address", "thread"))) uintptr_t ReadWord(uintptr_t address) {
  return *reinterpret_cast<const volatile uintptr_t*>(address);
}

uintptr_t Plus(uintptr_t address, int32_t offset) {
  return address + static_cast<uintptr_t>(static_cast<intptr_t>(offset));
}

void AskForStack(NativeMemo* memo) {
  memo->knows_stack = true;
  const int kept = errno;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    void* start = nullptr;
    size_t bytes = 0;
    if (pthread_attr_getstack(&attributes, &start, &bytes) == 0) {
      memo->stack_start = reinterpret_cast<uintptr_t>(start);
      memo->stack_end = memo->stack_start + bytes;
    }
    pthread_attr_destroy(&attributes);
  }
  errno = kept;
}

// What of the stack may be read: from where the walk begins to an end that is known, or found out page by page.
class Bounds {
 public:
  Bounds(uintptr_t from, NativeMemo* memo) : from_(from) {
    if (!memo->knows_stack) [[unlikely]]
      AskForStack(memo);
    is_own_ = from >= memo->stack_start && from + kWord <= memo->stack_end;
    if (is_own_) last_ = memo->stack_end - kWord - from;
  }
  // Whether there is a word at each of the two, without a branch for each.
  bool HasKnown(uintptr_t one, uintptr_t other) const {
    return ((one - from_ <= last_) & (other - from_ <= last_) & ((one | other) % kWord == 0)) != 0;
  }
  bool Has(uintptr_t address) {
    return HasKnown(address, address) || (!is_own_ && address % kWord == 0 && address >= from_ && Lengthen(address));
  }

 private:
  static constexpr uintptr_t kWord = sizeof(uintptr_t);

  bool Lengthen(uintptr_t address) {
    constexpr uintptr_t kPage = 4096;
    constexpr uintptr_t kFurthest = uintptr_t{1} << 20;  // of a fiber: each page costs a system call, every time
    if (address - from_ > kFurthest) return false;
    uintptr_t end = last_ != 0 ? from_ + last_ + kWord : from_ / kPage * kPage;
    for (; end <= address; end += kPage) {
      if (!IsReadable(end)) return false;
    }
    last_ = end - kWord - from_;
    return true;
  }

  const uintptr_t from_;
  uintptr_t last_ = 0;  // where the last word that may be read is, from there on
  bool is_own_ = false;
};

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 32;
}

}  // namespace

// Its own frame is the first one, so it has to be one.
[[gnu::noinline]] NativeWalk WalkNativeStack(NativeFrames* frames, std::span<uint32_t, kDeepestNative> addresses) {
  NativeWalk walk;
  StackMemo* const memo = StackMemo::Get();
  if (memo == nullptr) return walk;
  uintptr_t rbp = 0;
  uintptr_t rsp = 0;
  uintptr_t at = 0;
#if defined(__x86_64__)
  // The program's rbp first: the compiler may have chosen that very register for one of the others.
  asm volatile(
      "movq %%rbp, %0\n\t"
      "movq %%rsp, %1\n\t"
      "leaq 0(%%rip), %2"
      : "=&r"(rbp), "=&r"(rsp), "=&r"(at));
#endif
  Bounds bounds(rsp, &memo->native);
  // Frames of slipstream's are not written; a stack of a thousand of those is none.
  for (int steps = 0; steps < 1024; ++steps) {
    const NativeFrames::Frame frame = frames->At(at);
    if (frame.address != NativeFrames::kNone) {
      if (walk.frames == addresses.size()) {
        walk.cut = true;
        return walk;
      }
      addresses[walk.frames++] = frame.address;
    }
    const FrameLayout layout = FrameLayout::Unpack(frame.layout);
    if (layout.cfa <= FrameLayout::Cfa::kFromRbp && layout.rbp <= FrameLayout::Rbp::kAtCfa) [[likely]] {
      // Nearly all are like this; which of the four it is changes from frame to frame, and is no branch.
      const uintptr_t cfa = Plus(layout.cfa == FrameLayout::Cfa::kFromRbp ? rbp : rsp, layout.cfa_offset);
      const uintptr_t return_address = cfa - sizeof(uintptr_t);
      const bool is_saved = layout.rbp == FrameLayout::Rbp::kAtCfa;
      const uintptr_t where = is_saved ? Plus(cfa, layout.rbp_offset) : return_address;
      if (((cfa > rsp) & bounds.HasKnown(return_address, where)) != 0) [[likely]] {
        at = ReadWord(return_address);
        const uintptr_t saved = ReadWord(where);
        rbp = is_saved ? saved : rbp;
        rsp = cfa;
        if (at == 0) return walk;  // as some begin a thread
        continue;
      }
    }
    uintptr_t cfa = 0;
    switch (layout.cfa) {
      case FrameLayout::Cfa::kOutermost:
        return walk;
      case FrameLayout::Cfa::kFromRsp:
        cfa = Plus(rsp, layout.cfa_offset);
        break;
      case FrameLayout::Cfa::kFromRbp:
        cfa = Plus(rbp, layout.cfa_offset);
        break;
      case FrameLayout::Cfa::kAtRbp: {
        const uintptr_t where = Plus(rbp, layout.cfa_offset);
        if (bounds.Has(where)) cfa = ReadWord(where);
        break;
      }
      case FrameLayout::Cfa::kUnknown:
        break;
    }
    // Each frame is further out than the one before.
    walk.cut = true;
    if (cfa <= rsp || !bounds.Has(cfa - sizeof(uintptr_t))) return walk;
    at = ReadWord(cfa - sizeof(uintptr_t));
    if (layout.rbp != FrameLayout::Rbp::kSame) {
      const uintptr_t base = layout.rbp == FrameLayout::Rbp::kAtCfa ? cfa : rbp;
      const uintptr_t where = Plus(base, layout.rbp_offset);
      if (!bounds.Has(where)) return walk;
      rbp = ReadWord(where);
    }
    walk.cut = false;
    if (at == 0) return walk;
    rsp = cfa;
  }
  walk.cut = true;
  return walk;
}

uint32_t InternNativeStack(std::span<const uint32_t> addresses, bool cut, StackTree* stacks) {
  if (addresses.empty()) return StackTree::kNone;
  StackMemo* const owner = StackMemo::Get();
  if (owner == nullptr) return StackTree::kNone;
  NativeMemo& memo = owner->native;
  if (memo.tree != stacks->number()) [[unlikely]] {
    memo.tree = stacks->number();
    memo.count = 0;
    std::memset(memo.whole, 0, sizeof(memo.whole));
  }
  // Two sums that have nothing to do with each other, of 96 bits together: what is the same in both is the same stack.
  // The first begins where no address is.
  uint64_t hash = Mix(0xbf58476d1ce4e5b9, uint64_t{addresses.size()} << 33 | uint64_t{cut} << 32);
  uint32_t check = 0;
  for (const uint32_t address : addresses) {
    hash = Mix(hash, address);
    check = (std::rotl(check, 5) ^ address) * 0x01000193;
  }
  NativeMemo::Whole& whole = memo.whole[(hash >> 8) % NativeMemo::kStacks];
  if (whole.stack != StackTree::kNone && whole.hash == hash && whole.check == check) return whole.stack;

  uint32_t stack = cut ? StackTree::kCut : StackTree::kNone;
  bool as_before = memo.first == stack;
  memo.first = stack;
  uint32_t depth = 0;
  for (size_t i = addresses.size(); i-- > 0; ++depth) {
    as_before = as_before && depth < memo.count && memo.addresses[depth] == addresses[i];
    if (!as_before) {
      const bool has_parent = depth == 0 || stack != StackTree::kNone;  // there was room for those further out
      memo.addresses[depth] = addresses[i];
      memo.stacks[depth] = has_parent ? stacks->Intern(kNativeSite | addresses[i], stack) : StackTree::kNone;
    }
    stack = memo.stacks[depth];
  }
  memo.count = depth;
  if (stack != StackTree::kNone) whole = {.hash = hash, .stack = stack, .check = check};
  return stack;
}

uint32_t InternBothStacks(uint32_t python, uint32_t native, StackTree* stacks) {
  if (python == StackTree::kNone) return native;
  if (native == StackTree::kNone) return python;
  const uint32_t both = stacks->Intern(kBothStacks | python, native);
  return both != StackTree::kNone ? both : python;
}

}  // namespace slipstream::tracer
