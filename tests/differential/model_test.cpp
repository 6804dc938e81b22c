// The model refuses what CUDA leaves open and takes what it promises; the text form says all of a program.
#include "tests/differential/model.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/differential/generator.h"

namespace differential {
namespace {

// A stream, buffers of 4 MiB and an event, and then `body`.
std::string Judge(const std::string& body, const std::string& family = "main") {
  const std::string head = "program seed=0 sim=1 family=" + family +
                           "\n"
                           "t0 stream stream=s2 flags=non_blocking\nt0 stream stream=s3 flags=non_blocking\n"
                           "t0 stream stream=s4 flags=blocking\nt0 event event=e0 flags=timing\n"
                           "t0 malloc dst=d0 n=4194304\nt0 malloc dst=d1 n=4194304\n"
                           "t0 pageable dst=p2 n=4194304 value=1 from=heap\n"
                           "t0 pinned dst=h3 n=4194304 value=1 flags=default\n";
  std::vector<Program> programs;
  std::string problem;
  if (!Parse(head + body, &programs, &problem)) return "not understood: " + problem;
  return IsDetermined(programs.front(), &problem) ? "determined" : problem;
}

#define DETERMINED(...) EXPECT_EQ(Judge(__VA_ARGS__), "determined")
#define REFUSED(what, ...) EXPECT_NE(Judge(__VA_ARGS__).find(what), std::string::npos) << Judge(__VA_ARGS__)

constexpr const char* kUp = "t0 copy_async stream=s2 dst=d0 src=p2 n=4096 as=h2d\n";
constexpr const char* kSync = "t0 sync stream=s2\n";
constexpr const char* kDown = "t0 copy_async stream=s2 dst=h3 src=d0 n=4096 as=d2h\n";
constexpr const char* kReadPinned = "t0 read dst=h3 n=4096\n";
constexpr const char* kElsewhere = "t0 kernel stream=s3 dst=d1 src=d0 n=4096 value=1 does=move\n";

TEST(Model, ASourceIsFreeWhenTheCallReturns) {
  DETERMINED(std::string(kUp) + "t0 write dst=p2 n=4096 value=2\n");
  DETERMINED("t0 copy_async stream=s2 dst=d0 src=p2 n=4194304 as=h2d\nt0 drop dst=p2\n");
}

TEST(Model, APinnedSourceIsNot) {
  const std::string up = "t0 copy_async stream=s2 dst=d0 src=h3 n=4096 as=h2d\n";
  REFUSED("not ordered", up + "t0 write dst=h3 n=1 value=2\n");
  DETERMINED(up + "t0 write dst=h3+4096 n=1 value=2\n");
  DETERMINED(up + kSync + "t0 write dst=h3 n=1 value=2\n");
  REFUSED("not ordered", "t0 register dst=p2\n" + std::string(kUp) + "t0 write dst=p2 n=1 value=2\n");
}

TEST(Model, OtherStreamsWaitOrRace) {
  REFUSED("not ordered", std::string(kUp) + kElsewhere);
  DETERMINED(std::string(kUp) + kSync + kElsewhere);
  DETERMINED(std::string(kUp) + "t0 record stream=s2 event=e0\nt0 wait stream=s3 event=e0\n" + kElsewhere);
  DETERMINED(std::string(kUp) + "t0 device_sync\n" + kElsewhere);
  REFUSED("not ordered",
          "t0 record stream=s2 event=e0\n" + std::string(kUp) + "t0 wait stream=s3 event=e0\n" + kElsewhere);
  REFUSED("not ordered", std::string(kUp) + "t0 sync stream=s3\n" + kElsewhere);
}

TEST(Model, TheLegacyStreamOrdersBlockingStreamsOnly) {
  const std::string blocking = "t0 kernel stream=s4 dst=d1 src=d0 n=4096 value=1 does=move\n";
  const std::string legacy = "t0 copy_async stream=legacy dst=d0 src=p2 n=4096 as=h2d\n";
  DETERMINED(legacy + blocking);
  DETERMINED(blocking + legacy);
  REFUSED("not ordered", legacy + kElsewhere);
  REFUSED("not ordered", "t0 copy_async stream=thread dst=d0 src=p2 n=4096 as=h2d\n" + blocking);
}

TEST(Model, AWaitOnTheLegacyStreamIsNoBarrier) {
  const std::string before = "t0 record stream=s4 event=e0\nt0 kernel stream=s4 dst=d0 n=64 value=1 does=fill\n";
  const std::string after = "t0 kernel stream=thread dst=d0 n=64 value=2 does=fill\n";
  REFUSED("not ordered", before + "t0 wait stream=legacy event=e0\n" + after);
  DETERMINED(before + "t0 record stream=legacy event=e0\n" + after);
}

TEST(Model, WhatTheHostReadsMustBeComplete) {
  REFUSED("not ordered", std::string(kDown) + kReadPinned);
  DETERMINED(std::string(kDown) + kSync + kReadPinned);
  DETERMINED(std::string(kDown) + kSync + "t1 read dst=h3 n=4096\n");
  REFUSED("not ordered", "t0 host_function stream=s2 dst=p2 n=8 value=1 does=write\nt0 read dst=p2 n=8\n");
  DETERMINED("t0 copy_async stream=s2 dst=p2 src=d0 n=4096 as=d2h\nt0 read dst=p2 n=4096\n");
}

TEST(Model, QuestionsHaveOneAnswer) {
  REFUSED("answer", std::string(kUp) + "t0 query stream=s2\n");
  DETERMINED(std::string(kUp) + kSync + "t0 query stream=s2\n");
  REFUSED("answer", std::string(kUp) + kSync + "t1 query stream=s2\n");
  REFUSED("answer", std::string(kUp) + kSync + "t1 sync stream=legacy\nt1 query stream=s2\n");
  REFUSED("answer", std::string(kUp) + kSync + "t0 record stream=s2 event=e0\nt0 event_query event=e0\n");
  DETERMINED("t0 record stream=s2 event=e0\n" + std::string(kUp) + kSync +
             "t0 event_query event=e0\nt0 elapsed event=e0 end=e0\n");
}

TEST(Model, APendingWriterOfASourceIsSeenInTheTailOnly) {
  const std::string copy = "t0 copy_async stream=s2 dst=d0 src=p2 n=4194304 as=h2d\n";
  DETERMINED("t0 host_function stream=s2 dst=p2+4194000 n=8 value=1 does=write\n" + copy);
  REFUSED("not ordered", "t0 host_function stream=s3 dst=p2+4194000 n=8 value=1 does=write\n" + copy);
  REFUSED("not ordered", "t0 host_function stream=s2 dst=p2 n=8 value=1 does=write\n" + copy);
}

TEST(Model, GraphsRunTheirNodesAtEveryLaunch) {
  const std::string graph = "t0 begin_capture stream=s2 mode=relaxed\n" + std::string(kDown) +
                            "t0 end_capture stream=s2 graph=g0\nt0 instantiate graph=g0 exec=x0\n";
  DETERMINED(graph + kReadPinned);
  REFUSED("not ordered", graph + "t0 launch stream=s3 exec=x0\n" + kReadPinned);
  REFUSED("not ordered", graph + "t0 launch stream=s3 exec=x0\n" + kSync + kReadPinned);
  DETERMINED(graph + "t0 launch stream=s3 exec=x0\nt0 launch stream=s2 exec=x0\n" + kSync + kReadPinned);
  REFUSED("answer",
          graph + "t0 launch stream=s3 exec=x0\nt0 launch stream=s2 exec=x0\n" + kSync + "t0 query stream=s3\n");
  REFUSED("memory of the graph", graph + "t0 device_sync\nt0 free dst=d0\nt0 launch stream=s2 exec=x0\n");
  REFUSED("left open", "t0 begin_capture stream=s2 mode=relaxed\n");
}

TEST(Model, ACaptureForbidsWhatCudaForbids) {
  const std::string begin = "t0 begin_capture stream=s2 mode=";
  const std::string end = "t0 end_capture stream=s2 graph=g0\n";
  DETERMINED(begin + "relaxed\nt0 sync stream=s3\n" + end);
  REFUSED("unsafe", begin + "global\nt1 sync stream=s3\n" + end);
  REFUSED("unsafe", begin + "thread_local\nt0 sync stream=s3\n" + end);
  DETERMINED(begin + "thread_local\nt1 sync stream=s3\n" + end);
  REFUSED("not during", begin + "relaxed\nt0 device_sync\n" + end);
  REFUSED("captured", begin + "relaxed\nt0 sync stream=s2\n" + end);
}

TEST(Model, StreamOrderedMemoryHoldsAnythingUntilItIsSet) {
  const std::string make = "t0 malloc_async stream=s2 dst=a9 n=4096\n";
  const std::string use = "t0 kernel stream=s2 dst=d0 src=a9 n=4096 value=1 does=move\n";
  REFUSED("holds anything", make + use);
  DETERMINED(make + "t0 memset_async stream=s2 dst=a9 n=4096 value=1\n" + use + "t0 free_async stream=s2 dst=a9\n");
  REFUSED("not ordered", make + "t0 memset_async stream=s3 dst=a9 n=4096 value=1\n");
}

TEST(Model, ManagedMemoryAndThreadsOfTheirOwnHaveFamilies) {
  REFUSED("this family", "t0 managed dst=m9 n=64 value=1\n");
  DETERMINED("t0 managed dst=m9 n=64 value=1\n", "managed");
  REFUSED("other threads", "t0 device_sync\n", "free");
  REFUSED("another thread's", "t0 read dst=h3 n=1\nt1 read dst=h3 n=1\n", "free");
}

class Generated : public ::testing::TestWithParam<Family> {};

TEST_P(Generated, ProgramsAreDeterminedAndTheirTextSaysAllOfThem) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Program program = Generate(GetParam(), seed);
    const std::string text = ToText(program);
    std::vector<Program> read;
    std::string problem;
    ASSERT_TRUE(Parse(text, &read, &problem)) << problem;
    ASSERT_EQ(read.size(), 1U);
    ASSERT_EQ(ToText(read.front()), text);
    ASSERT_TRUE(IsDetermined(read.front(), &problem)) << "seed " << seed << ": " << problem;
    ASSERT_EQ(ToText(Generate(GetParam(), seed)), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Generated,
                         ::testing::Values(Family::kMain, Family::kFree, Family::kManaged, Family::kDevices),
                         [](const auto& family) { return std::string(NameOf(family.param)); });

// What the programs are for must be in them.
TEST(Generator, EveryKindOfOperationIsMade) {
  std::vector<size_t> seen(static_cast<size_t>(Kind::kCount));
  for (const Family family : {Family::kMain, Family::kManaged}) {
    for (uint64_t seed = 1; seed <= 3000; ++seed) {
      for (const Op& op : Generate(family, seed).ops) ++seen[static_cast<size_t>(op.kind)];
    }
  }
  for (size_t kind = 0; kind < seen.size(); ++kind) EXPECT_GE(seen[kind], 10U) << "kind " << kind;
}

TEST(Generator, EveryCallOfTheDriversIsMade) {
  std::map<Kind, std::set<int>> seen;
  std::set<Kind> had;
  for (uint64_t seed = 1; seed <= 15000; ++seed) {
    for (const Op& op : Generate(Family::kMain, seed).ops) {
      if (HasDriverCall(op)) had.insert(op.kind);
      seen[op.kind].insert(op.door);
    }
  }
  for (const Kind kind : had) EXPECT_EQ(seen[kind].size(), 3U) << "kind " << static_cast<int>(kind);
  EXPECT_EQ(had.size(), 26U);
}

TEST(Text, SaysWhichLineIsWrong) {
  std::vector<Program> programs;
  std::string problem;
  EXPECT_FALSE(Parse("program seed=1\n# fine\nt0 sync\n", &programs, &problem));
  EXPECT_EQ(problem, "line 3: t0 sync");
  programs.clear();
  EXPECT_FALSE(Parse("t0 device_sync\n", &programs, &problem));
  EXPECT_FALSE(Parse("program\nt0 sync stream=s99\n", &programs, &problem));
  EXPECT_FALSE(Parse("program\nt3 device_sync\n", &programs, &problem));
  EXPECT_FALSE(Parse("program\nt0 device_sync by=magic\n", &programs, &problem));
  EXPECT_FALSE(Parse("program\nt0 last_error by=driver\n", &programs, &problem)) << "the driver has none";
}

}  // namespace
}  // namespace differential
