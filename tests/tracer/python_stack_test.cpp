// The walk over frames that are not Python's but ours: every layout, and layouts that are not what they should be. The
// walk over Python's own is tested by python_stacks.py.

#include "tracer/python/python_stack.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "tests/tracer/fake_python.h"
#include "tracer/python/raw_memory.h"

namespace slipstream::tracer {
namespace {

// What the functions of the fake interpreter answer. They have no other way to know.
struct Answers {
  int initialized = 1;
  int finalizing = 0;
  uintptr_t thread = 0;
  uintptr_t interpreter = 0;
  int line = 1;
  int calls = 0;
};
Answers g_answers;

class PythonStackTest : public testing::TestWithParam<uint32_t> {
 protected:
  PythonStackTest() {
    interpreter_ = python_.New(64);
    thread_ = python_.NewThread(interpreter_);
    g_answers = {.thread = thread_, .interpreter = interpreter_};
    process_.is_initialized = [] { return ++g_answers.calls, g_answers.initialized; };
    process_.is_finalizing = [] { return ++g_answers.calls, g_answers.finalizing; };
    process_.this_thread = [] { return ++g_answers.calls, g_answers.thread; };
    process_.interpreter_of = [](uintptr_t) { return g_answers.interpreter; };
    process_.line_of = [](uintptr_t, int) { return g_answers.line; };
    process_.code_type = python_.code_type();
    process_.frame_type = python_.frame_type();
    process_.bytes_type = python_.bytes_type();
    process_.layout = python_.layout();
  }

  uintptr_t NewCode() { return python_.NewCode({.first_line = 1, .table = OneLine()}); }

  // All 64 instructions on the first line.
  std::string OneLine() const {
    switch (python_.layout().line_table) {
      case LineTableFormat::kPairs:
        return "";
      case LineTableFormat::kRanges:
        return std::string("\x80\0", 2);
      case LineTableFormat::kLocations:
        break;
    }
    std::string table;
    for (int i = 0; i < 8; ++i) table += std::string{static_cast<char>(0x80 | 13 << 3 | 7), '\0'};
    return table;
  }

  FakePython python_{GetParam()};
  PythonProcess process_;
  uintptr_t interpreter_ = 0;
  uintptr_t thread_ = 0;
};

TEST_P(PythonStackTest, FramesComeInnermostFirstWithTheirInstructions) {
  const uintptr_t outer = NewCode();
  const uintptr_t inner = NewCode();
  const uintptr_t first = python_.NewFrame(outer, 20, 0);
  const uintptr_t second = python_.NewFrame(inner, 0, first);
  python_.SetFrame(thread_, python_.NewFrame(outer, 2, second));
  PythonStack stack(process_);
  std::vector<PythonFrame> frames(5);
  const auto walked = stack.Walk(frames);
  EXPECT_EQ(walked.status, PythonStatus::kOk);
  EXPECT_FALSE(walked.cut);
  ASSERT_EQ(walked.frames, 3U);
  EXPECT_EQ(frames[0].code, outer);
  EXPECT_EQ(frames[0].instruction, 2);
  EXPECT_EQ(frames[1].code, inner);
  EXPECT_EQ(frames[1].instruction, 0);
  EXPECT_EQ(frames[2].code, outer);
  EXPECT_EQ(frames[2].instruction, 20);
}

TEST_P(PythonStackTest, OnlySoManyFramesAsThereIsRoomFor) {
  const uintptr_t code = NewCode();
  uintptr_t frame = 0;
  for (int i = 0; i < 10; ++i) frame = python_.NewFrame(code, i * 2, frame);
  python_.SetFrame(thread_, frame);
  PythonStack stack(process_);
  for (size_t room = 0; room <= 11; ++room) {
    std::vector<PythonFrame> frames(room);
    const auto walked = stack.Walk(frames);
    EXPECT_EQ(walked.frames, std::min<size_t>(room, 10));
    EXPECT_EQ(walked.cut, room < 10);
    if (room != 0) {
      EXPECT_EQ(frames[0].instruction, 18);
    }
  }
}

TEST_P(PythonStackTest, FramesOfCAreLeftOut) {
  if (python_.layout().frame_owner == kAbsent) return;  // 3.9 and 3.10 have none
  const uintptr_t code = NewCode();
  uintptr_t frame = 0;
  for (int i = 0; i < 10; ++i) {
    frame = python_.NewFrame(code, i * 2, frame);
    frame = python_.NewFrame(0, 0, frame, kOwnerIsC);  // its code is none
  }
  python_.SetFrame(thread_, frame);
  PythonStack stack(process_);
  std::vector<PythonFrame> frames(20);
  EXPECT_EQ(stack.Walk(frames).frames, 10U);
  EXPECT_EQ(stack.Walk(std::span(frames).first(3)).frames, 3U);
  EXPECT_TRUE(stack.Walk(std::span(frames).first(3)).cut);
}

// As Python has it: only 3.11 and later, and only what is no generator, which stands before its first instruction when
// it is made.
TEST_P(PythonStackTest, FramesThatHaveNotBegunAreLeftOut) {
  const bool left_out = python_.layout().code_first_traceable != kAbsent;
  const uintptr_t code = NewCode();
  if (left_out) FakePython::Put(code + python_.layout().code_first_traceable, 3);
  uintptr_t frame = 0;
  for (int i = 0; i < 10; ++i) {
    frame = python_.NewFrame(code, 6, frame);
    frame = python_.NewFrame(code, 4, frame);
    if (left_out) frame = python_.NewFrame(0, 0, frame, kOwnerIsC);
  }
  python_.SetFrame(thread_, frame);
  PythonStack stack(process_);
  std::vector<PythonFrame> frames(40);
  EXPECT_EQ(stack.Walk(frames).frames, left_out ? 10U : 20U);
  EXPECT_EQ(stack.Walk(std::span(frames).first(3)).frames, 3U);
  python_.SetFrame(thread_, python_.NewFrame(code, 4, 0, kOwnerIsGenerator));
  EXPECT_EQ(stack.Walk(frames).frames, 1U);
}

TEST_P(PythonStackTest, ACircleEnds) {
  const uintptr_t code = NewCode();
  const uintptr_t first = python_.NewFrame(code, 2, 0);
  const uintptr_t second = python_.NewFrame(code, 4, first, /*owner=*/kOwnerIsC);
  FakePython::Put(first + python_.layout().frame_previous, second);
  python_.SetFrame(thread_, first);
  PythonStack stack(process_);
  std::vector<PythonFrame> frames(8);
  EXPECT_LE(stack.Walk(frames).frames, 8U);
}

TEST_P(PythonStackTest, WithoutAStackTheReasonSaysWhyAndLaterThereMayBeOne) {
  python_.SetFrame(thread_, python_.NewFrame(NewCode(), 2, 0));
  PythonStack stack(process_);
  PythonFrame frames[4];
  g_answers.initialized = 0;
  EXPECT_EQ(stack.Walk(frames).status, PythonStatus::kNotInitialized);
  EXPECT_EQ(g_answers.calls, 1);  // of a Python that has not begun nothing else is asked
  g_answers.initialized = 1;
  g_answers.finalizing = 1;
  EXPECT_EQ(stack.Walk(frames).status, PythonStatus::kFinalizing);
  g_answers.finalizing = 0;
  g_answers.thread = 0;
  EXPECT_EQ(stack.Walk(frames).status, PythonStatus::kNoThread);
  EXPECT_EQ(stack.Walk(frames).frames, 0U);
  g_answers.thread = thread_;
  EXPECT_EQ(stack.Walk(frames).frames, 1U);
}

TEST_P(PythonStackTest, AThreadOutsideOfPythonHasNoFramesAndProvesNothing) {
  PythonStack stack(process_);
  PythonFrame frames[4];
  EXPECT_EQ(stack.Walk(frames).status, PythonStatus::kOk);
  EXPECT_EQ(stack.Walk(frames).frames, 0U);
  // The first frame is still compared.
  python_.SetFrame(thread_, python_.NewFrame(python_.Bytes("no code"), 2, 0));
  EXPECT_EQ(stack.Walk(frames).status, PythonStatus::kBadLayout);
}

// Each of these would be read as an address, or as something that it is not.
TEST_P(PythonStackTest, WhatIsNotLaidOutAsItShouldBeIsOffForGood) {
  const PythonLayout& layout = python_.layout();
  const uintptr_t frame_code = NewCode();
  const auto refuses = [&](auto&& damage) {
    const uintptr_t code = NewCode();
    const uintptr_t frame = python_.NewFrame(code, 2, python_.NewFrame(frame_code, 2, 0));
    python_.SetFrame(thread_, frame);
    const Answers kept = g_answers;
    damage(frame, code);
    PythonStack stack(process_);
    PythonFrame frames[4];
    const bool off = stack.Walk(frames).status == PythonStatus::kBadLayout;
    g_answers = kept;
    python_.SetFrame(thread_, python_.NewFrame(frame_code, 2, 0));
    return off && stack.Walk(frames).status == PythonStatus::kBadLayout;
  };
  constexpr uintptr_t kNowhere = 0x10000;  // below what the kernel maps for anybody
  EXPECT_FALSE(refuses([](uintptr_t, uintptr_t) {}));
  EXPECT_TRUE(refuses([](uintptr_t, uintptr_t) { g_answers.interpreter += 8; }));
  EXPECT_TRUE(refuses([](uintptr_t, uintptr_t) { g_answers.line = 2; }));
  EXPECT_TRUE(refuses([](uintptr_t, uintptr_t) { g_answers.thread = kNowhere; }));
  EXPECT_TRUE(refuses([&](uintptr_t, uintptr_t) { python_.SetFrame(thread_, kNowhere); }));
  EXPECT_TRUE(refuses([&](uintptr_t, uintptr_t) { python_.SetFrame(thread_, 0x4141414141414141); }));
  EXPECT_TRUE(refuses([&](uintptr_t frame, uintptr_t) { FakePython::Put(frame + layout.frame_code, kNowhere); }));
  EXPECT_TRUE(refuses([&](uintptr_t frame, uintptr_t) { FakePython::Put(frame + layout.frame_previous, kNowhere); }));
  // Far away on either side, and a little on either side.
  for (const uintptr_t instruction : {uintptr_t{0x3fffffff}, uintptr_t{1} << 62, ~uintptr_t{0} << 31, ~uintptr_t{99}}) {
    EXPECT_TRUE(refuses([&](uintptr_t frame, uintptr_t code) {
      const bool pointer = layout.instruction_form == InstructionForm::kPointer;
      if (pointer) {
        FakePython::Put(frame + layout.frame_instruction, code + layout.code_instructions + instruction);
      } else {
        FakePython::Put<uint32_t>(frame + layout.frame_instruction, static_cast<uint32_t>(instruction | 0x20000000));
      }
    })) << instruction;
  }
  EXPECT_TRUE(refuses([](uintptr_t, uintptr_t code) { FakePython::Put(code + kObjectType, kNowhere); }));
  for (const uint32_t field : {layout.code_file, layout.code_name, layout.code_line_table}) {
    EXPECT_TRUE(refuses([&](uintptr_t, uintptr_t code) { FakePython::Put(code + field, kNowhere); })) << field;
    EXPECT_TRUE(refuses([&](uintptr_t, uintptr_t code) { FakePython::Put(code + field, code); })) << field;
    EXPECT_TRUE(refuses([&](uintptr_t, uintptr_t code) { FakePython::Put<uintptr_t>(code + field, 0); })) << field;
  }
  EXPECT_TRUE(refuses([&](uintptr_t, uintptr_t code) {
    FakePython::Put<size_t>(code + layout.code_line_table, python_.Text("no bytes"));
  }));
  if (layout.frame_owner == kAbsent) {
    EXPECT_TRUE(refuses([](uintptr_t frame, uintptr_t code) { FakePython::Put(frame + kObjectType, code); }));
  }
  if (layout.holder_frame != kAbsent) {
    EXPECT_TRUE(refuses([&](uintptr_t, uintptr_t) {
      const uintptr_t thread = python_.NewThread(interpreter_);
      FakePython::Put(thread + layout.thread_frame, kNowhere);
      g_answers.thread = thread;
    }));
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, PythonStackTest, testing::ValuesIn(kPythonVersions),
                         [](const auto& one) { return PythonVersionName(one.param); });

TEST(RawMemoryTest, WhatIsNotMappedIsNotReadableAndErrnoStays) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto address = reinterpret_cast<uintptr_t>(memory);
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(address + page), page, PROT_NONE), 0);
  errno = 77;
  EXPECT_TRUE(IsReadable(address));
  EXPECT_TRUE(IsReadable(address + page - 8));
  EXPECT_FALSE(IsReadable(address + page));
  EXPECT_FALSE(IsReadable(address + 4));
  EXPECT_FALSE(IsReadable(0));
  EXPECT_FALSE(IsReadable(0x4141414141414140));
  EXPECT_EQ(errno, 77);
  munmap(memory, 2 * page);
  EXPECT_FALSE(IsReadable(address));
}

}  // namespace
}  // namespace slipstream::tracer
