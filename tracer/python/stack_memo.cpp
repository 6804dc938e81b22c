#include "tracer/python/stack_memo.h"

#include <cstring>
#include <type_traits>

#include "policy/thread_owned.h"

namespace slipstream::tracer {

static_assert(std::is_trivially_copyable_v<StackMemo>);

StackMemo* StackMemo::Get() { return policy::ThreadOwned<StackMemo>::Get(); }

uint32_t InternStack(std::span<const PythonFrame> frames, bool cut, CodeSites* sites, StackTree* stacks,
                     uint32_t* found) {
  if (frames.empty()) return StackTree::kNone;
  StackMemo* const memo = StackMemo::Get();
  uint32_t stack = cut ? StackTree::kCut : StackTree::kNone;
  if (memo != nullptr && memo->tree != stacks->number()) [[unlikely]] {
    memo->count = 0;
    std::memset(memo->frames, 0, sizeof(memo->frames));  // sites of another kind, too
    memo->tree = stacks->number();
  }
  bool as_before = memo != nullptr && memo->first == stack;
  if (memo != nullptr) memo->first = stack;
  uint32_t depth = 0;
  for (size_t i = frames.size(); i-- > 0; ++depth) {
    StackMemo::Frame forgotten = {};
    StackMemo::Frame& last = memo != nullptr ? memo->frames[depth] : forgotten;
    const uint32_t before = last.sight.site;
    found[i] = sites->Intern(frames[i], &last.sight);
    // The stack up to here is the one before as long as all frames further out are what they were.
    as_before = as_before && depth < memo->count && found[i] == before;
    if (!as_before) {
      const bool has_parent = depth == 0 || stack != StackTree::kNone;  // there was room for those further out
      last.stack = has_parent ? stacks->Intern(found[i], stack) : StackTree::kNone;
    }
    stack = last.stack;
  }
  if (memo != nullptr) memo->count = depth;
  return stack;
}

}  // namespace slipstream::tracer
