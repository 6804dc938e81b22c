// A native stack is the one that the compiler's own unwinder sees, whatever the functions on it look like.

#include "tracer/python/native_stack.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tracer/python/frame_layout.h"
#include "tracer/python/stack_memo.h"

namespace slipstream::tracer {
namespace {

using Addresses = std::array<uint32_t, kDeepestNative>;

struct Seen {
  std::vector<uintptr_t> frames = {};  // innermost first
  bool cut = false;
};

// As this process has them mapped.
uintptr_t AddressOf(const NativeFrames& frames, uint32_t number) {
  NativeFrames::Address address;
  EXPECT_TRUE(frames.Describe(number, &address)) << number;
  if (address.module == 0) return address.offset;
  NativeFrames::Module module;
  EXPECT_TRUE(frames.DescribeModule(address.module, &module));
  dl_find_object found;
  EXPECT_EQ(_dl_find_object(reinterpret_cast<void*>(module.start), &found), 0);
  return address.offset + found.dlfo_link_map->l_addr;
}

Seen Walk(NativeFrames* frames) {
  Addresses addresses;
  const NativeWalk walked = WalkNativeStack(frames, addresses);
  Seen seen = {.cut = walked.cut};
  for (size_t i = 0; i < walked.frames; ++i) seen.frames.push_back(AddressOf(*frames, addresses[i]));
  return seen;
}

// The same by libgcc's unwinder.
std::vector<uintptr_t> Expected() {
  std::vector<uintptr_t> frames;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* to) {
        static_cast<std::vector<uintptr_t>*>(to)->push_back(_Unwind_GetIP(context));
        return _URC_NO_REASON;
      },
      &frames);
  // It says at the end that there is nothing more.
  while (!frames.empty() && frames.back() == 0) frames.pop_back();
  return frames;
}

// What both have in common is what is further out than the function that called them.
void ExpectSame(NativeFrames* frames) {
  const Seen seen = Walk(frames);
  const std::vector<uintptr_t> expected = Expected();
  const auto common = [](const std::vector<uintptr_t>& all, size_t count) {
    return std::vector<uintptr_t>(all.end() - static_cast<ptrdiff_t>(count), all.end());
  };
  // Of this function on, which has returned to two places.
  ASSERT_GT(expected.size(), 3U);
  const size_t count = expected.size() - 2;
  ASSERT_GE(seen.frames.size(), count);
  EXPECT_EQ(common(seen.frames, count), common(expected, count));
  EXPECT_FALSE(seen.cut);
}

using Inner = std::function<void()>;
std::atomic<int> g_after{0};  // behind each call, so that none is the last thing that its function does

[[gnu::noinline]] void Plain(const Inner& inner) {
  inner();
  g_after.fetch_add(1, std::memory_order_relaxed);
}
// rbp is the base here, and rsp depends on the size.
[[gnu::noinline]] void WithRoom(const Inner& inner, size_t bytes) {
  auto* const room = static_cast<volatile char*>(__builtin_alloca(bytes));
  room[bytes - 1] = 1;
  inner();
  g_after.fetch_add(room[bytes - 1], std::memory_order_relaxed);
}
// A stack that is aligned anew: CFA stands in memory.
[[gnu::noinline]] void Aligned(const Inner& inner, size_t bytes) {
  alignas(128) volatile char aligned[256];
  auto* const room = static_cast<volatile char*>(__builtin_alloca(bytes));
  aligned[1] = 1;
  room[0] = 1;
  inner();
  g_after.fetch_add(aligned[1] + room[0], std::memory_order_relaxed);
}
[[gnu::noinline]] void WithManyRegisters(const Inner& inner, long a, long b, long c) {
  const long d = a * b;
  const long e = b * c;
  const long f = c * a;
  inner();
  g_after.fetch_add(static_cast<int>(a + b * c + d * e + f + a * e), std::memory_order_relaxed);
}
[[gnu::noinline]] void WithExceptions(const Inner& inner) {
  try {
    inner();
  } catch (const std::string& text) {
    g_after.store(static_cast<int>(text.size()));
  }
}
[[gnu::noinline]] void Deep(const Inner& inner, int depth) {
  if (depth == 0) {
    inner();
  } else {
    Deep(inner, depth - 1);
  }
  g_after.fetch_add(1, std::memory_order_relaxed);
}

// A call that is the last thing in its function, or in a part of it: where it would return to is another's code.
struct Left {};
[[noreturn, gnu::noinline]] void Leave(const Inner& inner) {
  inner();
  throw Left();
}
[[gnu::noinline]] void LeaveAtTheEnd(const Inner& inner) { Leave(inner); }
[[gnu::noinline]] void LeaveInTheMiddle(const Inner& inner, long a, long b) {
  const long c = a * b;
  if (c == 0) {
    alignas(64) volatile char room[100];
    room[a] = 1;
    g_after.fetch_add(room[a], std::memory_order_relaxed);
    Leave(inner);
  }
  Plain(inner);
  g_after.fetch_add(static_cast<int>(a + b + c), std::memory_order_relaxed);
}

// What is so of the call is not so of the instruction behind it.
extern "C" void CallBetweenRows(void (*function)());
asm(R"(
  .text
  .hidden CallBetweenRows
  .globl CallBetweenRows
  .type CallBetweenRows, @function
CallBetweenRows:
  .cfi_startproc
  subq $8, %rsp
  .cfi_def_cfa_offset 16
  call *%rdi
  .cfi_def_cfa_offset 1024
  nop
  .cfi_def_cfa_offset 16
  addq $8, %rsp
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
  .size CallBetweenRows, .-CallBetweenRows
)");

class NativeStackTest : public testing::Test {
 protected:
  std::unique_ptr<NativeFrames> frames_{NativeFrames::Create({}, NativeFrames::Own::kKeep)};
};

TEST_F(NativeStackTest, IsTheUnwindersWhateverTheFunctionsLookLike) {
  ASSERT_NE(frames_, nullptr);
  const Inner inner = [&] { ExpectSame(frames_.get()); };
  for (int round = 0; round < 3; ++round) {  // learned, and then known
    inner();
    Plain(inner);
    for (const size_t bytes : {16, 5000, 100'000}) {
      WithRoom(inner, bytes);
      Aligned(inner, bytes);
      Plain([&] { Aligned([&] { WithRoom([&] { WithExceptions(inner); }, bytes); }, bytes); });
    }
    WithManyRegisters([&] { Aligned([&] { WithManyRegisters(inner, 1, 2, 3); }, 64); }, 4, 5, 6);
    for (const int depth : {1, 7, 50}) Deep(inner, depth);
  }
}

TEST_F(NativeStackTest, OfACallThatDoesNotReturn) {
  const Inner inner = [&] { ExpectSame(frames_.get()); };
  for (int round = 0; round < 2; ++round) {
    EXPECT_THROW(LeaveAtTheEnd(inner), Left);
    EXPECT_THROW(LeaveInTheMiddle(inner, 0, 1), Left);
    LeaveInTheMiddle(inner, 1, 1);
    static const Inner* here = nullptr;
    here = &inner;
    CallBetweenRows([] {
      (*here)();
      g_after.fetch_add(1, std::memory_order_relaxed);
    });
    here = nullptr;
  }
}

TEST_F(NativeStackTest, OfCodeThatOthersCompiled) {
  int values[] = {3, 1, 2};
  static const Inner* inner = nullptr;
  const Inner here = [&] { ExpectSame(frames_.get()); };
  inner = &here;
  std::qsort(values, 3, sizeof(int), [](const void* a, const void* b) {
    (*inner)();
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
  inner = nullptr;
}

TEST_F(NativeStackTest, OfEveryThread) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (size_t round = 0; round < 200; ++round) {
        const Inner inner = [&] { ExpectSame(frames_.get()); };
        Deep([&] { WithRoom(inner, 1 + round); }, i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(NativeStackTest, WhatIsTooDeepIsCutAtItsOuterEnd) {
  const Inner inner = [&] {
    const Seen seen = Walk(frames_.get());
    const std::vector<uintptr_t> all = Expected();
    EXPECT_TRUE(seen.cut);
    ASSERT_EQ(seen.frames.size(), kDeepestNative);
    // Each frame of Deep but the innermost returns to one place, and nothing else is in the middle.
    EXPECT_EQ(std::count(seen.frames.begin(), seen.frames.end(), all[all.size() / 2]),
              static_cast<ptrdiff_t>(kDeepestNative) -
                  (std::find(seen.frames.begin(), seen.frames.end(), all[all.size() / 2]) - seen.frames.begin()));
  };
  Deep(inner, 400);
}

// Code without unwind information, as a compiler at run time makes it: nobody knows who called it.
TEST_F(NativeStackTest, EndsWhereTheCodeDoesNotSayWhoCalledIt) {
  // push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret
  const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
  void* const memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no code may be made at run time here";
  std::memcpy(memory, code, sizeof(code));
  static NativeFrames* frames = nullptr;
  static Seen seen;
  frames = frames_.get();
  void (*const called)() = [] {
    seen = Walk(frames);
    g_after.fetch_add(1, std::memory_order_relaxed);
  };
  reinterpret_cast<void (*)(void (*)())>(memory)(called);
  EXPECT_TRUE(seen.cut);
  ASSERT_FALSE(seen.frames.empty());
  EXPECT_EQ(seen.frames.back(), reinterpret_cast<uintptr_t>(memory) + 6);
  munmap(memory, 4096);
}

// A fiber runs on a stack that is not the thread's.
TEST_F(NativeStackTest, OfAFiber) {
  static NativeFrames* frames = nullptr;
  static Seen seen;
  frames = frames_.get();
  constexpr size_t kBytes = size_t{64} << 10;
  void* const stack = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(stack, MAP_FAILED);
  ucontext_t back;
  ucontext_t fiber;
  ASSERT_EQ(getcontext(&fiber), 0);
  fiber.uc_stack = {.ss_sp = stack, .ss_flags = 0, .ss_size = kBytes};
  fiber.uc_link = &back;
  makecontext(
      &fiber, [] { Deep([] { seen = Walk(frames); }, 20); }, 0);
  ASSERT_EQ(swapcontext(&back, &fiber), 0);
  EXPECT_GE(seen.frames.size(), 21U);
  // And the thread's own is what it was.
  ExpectSame(frames_.get());
  munmap(stack, kBytes);
}

TEST_F(NativeStackTest, WhatHasNoRoomIsCounted) {
  const std::unique_ptr<NativeFrames> few(NativeFrames::Create({.addresses = 8}, NativeFrames::Own::kKeep));
  ASSERT_NE(few, nullptr);
  const Seen seen = Walk(few.get());
  EXPECT_TRUE(seen.cut);
  EXPECT_LE(seen.frames.size(), 7U);
  EXPECT_EQ(few->refused(), 1U);
  EXPECT_EQ(few->addresses(), 8U);
}

TEST_F(NativeStackTest, AnAddressIsOfAFileThatIsMappedThere) {
  Addresses addresses;
  const NativeWalk walked = WalkNativeStack(frames_.get(), addresses);
  ASSERT_GE(walked.frames, 2U);
  NativeFrames::Address address;
  ASSERT_TRUE(frames_->Describe(addresses[0], &address));
  NativeFrames::Module module;
  ASSERT_TRUE(frames_->DescribeModule(address.module, &module));
  std::string program(4096, '\0');
  program.resize(static_cast<size_t>(readlink("/proc/self/exe", program.data(), program.size())));
  EXPECT_EQ(module.path, program);
  EXPECT_EQ(module.build_id.size(), 20U);  // what linkers make by default, SHA-1
  ASSERT_TRUE(frames_->Describe(addresses[walked.frames - 1], &address));
  EXPECT_EQ(address.module, 1U) << "_start is in the program, too";
  EXPECT_FALSE(frames_->Describe(0, &address));
  EXPECT_FALSE(frames_->Describe(frames_->addresses(), &address));
  EXPECT_FALSE(frames_->DescribeModule(frames_->modules(), &module));
}

// The loader puts the second where the first was, and both return to one address.
TEST_F(NativeStackTest, WhatIsUnloadedIsForgotten) {
  static NativeFrames* frames = nullptr;
  static uint32_t innermost_of_library = 0;
  static uintptr_t address_of_library = 0;
  frames = frames_.get();
  const auto call = [&](const char* path) -> std::string {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return "";
    const auto function = reinterpret_cast<int (*)(void (*)())>(dlsym(library, "UnloadCall"));
    EXPECT_NE(function, nullptr);
    function([] {
      Addresses addresses;
      const NativeWalk walked = WalkNativeStack(frames, addresses);
      for (size_t i = 0; i < walked.frames; ++i) {
        NativeFrames::Address address;
        NativeFrames::Module module;
        if (!frames->Describe(addresses[i], &address) || !frames->DescribeModule(address.module, &module)) continue;
        if (module.path.find("tracer_unload") == std::string_view::npos) continue;
        innermost_of_library = addresses[i];
        address_of_library = address.offset + module.start;
        EXPECT_FALSE(walked.cut);
      }
    });
    NativeFrames::Address address;
    NativeFrames::Module module;
    EXPECT_TRUE(frames->Describe(innermost_of_library, &address));
    EXPECT_TRUE(frames->DescribeModule(address.module, &module));
    frames->ForgetUnloaded();  // it is loaded still
    EXPECT_EQ(dlclose(library), 0);
    return std::string(module.path);
  };
  EXPECT_EQ(call(UNLOAD_1), UNLOAD_1);
  const uint32_t first = innermost_of_library;
  const uintptr_t place = address_of_library;
  frames->ForgetUnloaded();
  EXPECT_EQ(call(UNLOAD_2), UNLOAD_2);
  if (address_of_library != place) GTEST_SKIP() << "the loader found another place for the second library";
  EXPECT_NE(innermost_of_library, first);
  // What was learned once is what it was: a stack of the first has the first's frame.
  NativeFrames::Address address;
  NativeFrames::Module module;
  ASSERT_TRUE(frames->Describe(first, &address));
  ASSERT_TRUE(frames->DescribeModule(address.module, &module));
  EXPECT_EQ(module.path, UNLOAD_1);
  // And the other way round.
  frames->ForgetUnloaded();
  EXPECT_EQ(call(UNLOAD_1), UNLOAD_1);
}

TEST(NativeStacksTest, AStackIsWhatItsFramesAreWhateverWasBefore) {
  const std::unique_ptr<StackTree> trees[] = {std::unique_ptr<StackTree>(StackTree::Create({})),
                                              std::unique_ptr<StackTree>(StackTree::Create({}))};
  uint32_t state = 1;
  const auto pick = [&](uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  std::vector<uint32_t> addresses;
  for (int round = 0; round < 20000; ++round) {
    const size_t keep = pick(10) == 0 ? 0 : pick(static_cast<uint32_t>(addresses.size()) + 1);
    addresses.erase(addresses.begin(), addresses.end() - static_cast<ptrdiff_t>(keep));
    for (uint32_t more = pick(5); more > 0 && addresses.size() < kDeepestNative; --more) {
      addresses.insert(addresses.begin(), 1 + pick(4));
    }
    const bool cut = pick(8) == 0;
    StackTree* const tree = trees[pick(20) == 0 ? 1 : 0].get();
    uint32_t expected = addresses.empty() || !cut ? StackTree::kNone : StackTree::kCut;
    for (size_t i = addresses.size(); i-- > 0;) expected = tree->Intern(kNativeSite | addresses[i], expected);
    ASSERT_EQ(InternNativeStack(addresses, cut, tree), expected) << round;
  }
}

TEST(NativeStacksTest, WhatHadNoRoomHasNoStack) {
  const std::unique_ptr<StackTree> tree(StackTree::Create({.stacks = 3}));
  const uint32_t addresses[] = {4, 3, 2, 1};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(InternNativeStack(addresses, false, tree.get()), StackTree::kNone);
    const uint32_t outer = InternNativeStack(std::span(addresses).subspan(1), false, tree.get());
    EXPECT_NE(outer, StackTree::kNone);
    EXPECT_EQ(InternBothStacks(outer, outer, tree.get()), outer) << "without room for both, Python's";
  }
  EXPECT_GE(tree->refused(), 1U);
}

}  // namespace
}  // namespace slipstream::tracer
