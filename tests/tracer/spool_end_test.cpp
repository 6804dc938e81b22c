// How a recording that ended before its process did says so: at once, and at the process's end with the number of calls
// that came in between.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/tracer/spool_testing.h"
#include "tracer/spool/chunk_writer.h"
#include "tracer/spool/spool_outcome.h"

namespace slipstream::tracer {
namespace {

class SpoolEndTest : public SpoolTest {
 protected:
  // A file with a fact, and then what `end` writes.
  template <typename Write>
  std::string Make(const Write& end) {
    SpoolFile file{FileCalls{}};
    EXPECT_EQ(file.Create(directory_, "a.spool").problem, SpoolProblem::kNone);
    ChunkWriter chunks(&file, uint64_t{1} << 20);
    chunks.Start(1);
    chunks.Begin(ChunkKind::kFacts);
    chunks.PutNumber(1);
    chunks.PutText("key");
    chunks.PutText("value");
    chunks.End();
    end(&chunks);
    EXPECT_TRUE(chunks.Flush());
    return directory_ + "/a.spool";
  }
};

constexpr SpoolEnd kAtLimit = {.reason = static_cast<uint32_t>(EndReason::kLimit), .dropped = 7};

TEST_F(SpoolEndTest, AStopAloneIsTheEndAndNobodyKnowsWhatCameLater) {
  const std::string path = Make([](ChunkWriter* chunks) { EXPECT_TRUE(chunks->Stop(kAtLimit)); });
  const Spool spool = ReadSpool(path);
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  EXPECT_TRUE(spool.end().complete);
  EXPECT_EQ(spool.end().reason, EndReason::kLimit);
  EXPECT_EQ(spool.end().dropped, 7U);
  EXPECT_FALSE(spool.end().later_calls_known);
  EXPECT_EQ(spool.end().left_bytes, 0U);
  const SpoolOutcome outcome = OutcomeOf(path);
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.reason, EndReason::kLimit);
  EXPECT_FALSE(outcome.later_calls_known);
}

TEST_F(SpoolEndTest, TheEndBehindAStopSaysWhatCameLater) {
  const std::string path = Make([](ChunkWriter* chunks) {
    EXPECT_TRUE(chunks->Stop(kAtLimit));
    SpoolEnd end = kAtLimit;
    end.dropped = 8;
    end.later_calls = 99;
    EXPECT_TRUE(chunks->Finish(end));
  });
  const std::string whole = Slurp(path);
  for (size_t less = 0; less <= kEndBytes; ++less) {
    SCOPED_TRACE(less);
    Spit(path, whole.substr(0, whole.size() - less));
    const Spool spool = ReadSpool(path);
    // A part of the last chunk is no end; without any of it, the stop stands.
    EXPECT_EQ(spool.end().complete, less == 0 || less == kEndBytes);
    EXPECT_EQ(spool.end().left_why.empty(), less == 0 || less == kEndBytes) << spool.end().left_why;
    EXPECT_EQ(spool.end().later_calls_known, less == 0);
    EXPECT_EQ(spool.end().later_calls, less == 0 ? 99U : 0U);
    EXPECT_EQ(spool.end().dropped, less == 0 ? 8U : 7U);
    EXPECT_EQ(spool.end().missing_chunks + spool.end().malformed_chunks, 0U);
    EXPECT_EQ(OutcomeOf(path).later_calls, spool.end().later_calls);
  }
}

TEST_F(SpoolEndTest, BehindAStopAReaderThatFollowsWaitsForTheEnd) {
  const std::string path = Make([](ChunkWriter* chunks) {
    EXPECT_TRUE(chunks->Stop(kAtLimit));
    EXPECT_TRUE(chunks->Finish(kAtLimit));
  });
  const std::string whole = Slurp(path);
  Spit(path, whole.substr(0, whole.size() - kEndBytes));
  std::string error;
  const auto reader = SpoolReader::Open(path, &error);
  ASSERT_NE(reader, nullptr) << error;
  reader->Follow(true);
  SpoolRecord record;
  EXPECT_FALSE(reader->Next(&record));
  EXPECT_TRUE(reader->end().complete);
  EXPECT_FALSE(reader->end().later_calls_known);
  Spit(path, whole);
  EXPECT_FALSE(reader->Next(&record));
  EXPECT_TRUE(reader->end().complete);
  EXPECT_TRUE(reader->end().later_calls_known);
}

TEST_F(SpoolEndTest, AnOlderEndKnowsNothingOfLaterCalls) {
  const std::string path = Make([](ChunkWriter* chunks) {
    chunks->Begin(ChunkKind::kEnd);
    chunks->PutBytes(&kAtLimit, kLeastEndPayload);
    EXPECT_TRUE(chunks->End());
  });
  const Spool spool = ReadSpool(path);
  EXPECT_TRUE(spool.end().complete);
  EXPECT_EQ(spool.end().reason, EndReason::kLimit);
  EXPECT_EQ(spool.end().dropped, 7U);
  EXPECT_FALSE(spool.end().later_calls_known);
  EXPECT_TRUE(OutcomeOf(path).complete);
  EXPECT_FALSE(OutcomeOf(path).later_calls_known);
}

TEST_F(SpoolEndTest, EveryCallIsInTheFileOrDroppedOrLater) {
  RecorderOptions options = {.directory = directory_};
  options.max_file_bytes = 200'000;
  const auto recorder = StartRecorder(options);
  uint64_t made = 0;
  while (recorder->recording()) recorder->Record(NumberedCall(made++));
  constexpr uint64_t kThreads = 20;  // more than there are counts
  constexpr uint64_t kEach = 1000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kEach; ++i) recorder->Record(NumberedCall(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  recorder->Record(StepRecord(1, 2, 3));  // is no call
  EXPECT_TRUE(recorder->Finish(kForeverNs));
  EXPECT_LE(std::filesystem::file_size(OnlySpool()), 200'000U);
  const Spool spool = ReadSpool(OnlySpool());
  EXPECT_EQ(spool.end().reason, EndReason::kLimit);
  ASSERT_TRUE(spool.end().later_calls_known);
  EXPECT_GE(spool.end().later_calls, kThreads * kEach);
  EXPECT_EQ(spool.Of(RecordKind::kCall).size() + spool.end().dropped + spool.end().later_calls,
            made + kThreads * kEach);
  EXPECT_EQ(OutcomeOf(OnlySpool()).later_calls, spool.end().later_calls);
}

TEST_F(SpoolEndTest, AFinishedRecordingHasNoLaterCalls) {
  const auto recorder = StartRecorder({.directory = directory_});
  recorder->Record(NumberedCall(0));
  EXPECT_TRUE(recorder->Finish(kForeverNs));
  recorder->Record(NumberedCall(1));
  const Spool spool = ReadSpool(OnlySpool());
  EXPECT_TRUE(spool.end().later_calls_known);
  EXPECT_EQ(spool.end().later_calls, 0U);
}

// S58. What it has said of its end stays.
TEST_F(SpoolEndTest, AProcessThatIsKilledBehindItsLimitHasSaidSo) {
  const pid_t child = fork();
  if (child == 0) {
    RecorderOptions options = {.directory = directory_};
    options.max_file_bytes = 200'000;
    SpoolFailure why;
    Recorder* const recorder = Recorder::Start(options, &why);
    if (recorder == nullptr) _exit(1);
    for (uint64_t i = 0; recorder->recording(); ++i) recorder->Record(NumberedCall(i));
    while (recorder->failure().problem == SpoolProblem::kNone) std::this_thread::yield();
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  const Spool spool = ReadSpool(OnlySpool());
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  EXPECT_FALSE(spool.Of(RecordKind::kCall).empty());
  EXPECT_TRUE(spool.end().complete);
  EXPECT_EQ(spool.end().reason, EndReason::kLimit);
  EXPECT_FALSE(spool.end().later_calls_known);
  EXPECT_EQ(spool.end().left_bytes + spool.end().damaged_bytes + spool.end().missing_records, 0U);
}

}  // namespace
}  // namespace slipstream::tracer
