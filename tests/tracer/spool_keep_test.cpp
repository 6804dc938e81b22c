// Recordings that keep the newest: on the disk they stay within their limit, at every moment what is there is whole,
// and what was given up is neither damaged nor missing.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/tracer/fake_python.h"
#include "tests/tracer/killed_recording.h"
#include "tests/tracer/spool_testing.h"
#include "tracer/python/stack_tree.h"
#include "tracer/spool/chunk_writer.h"
#include "tracer/spool/process_facts.h"
#include "tracer/spool/spool_outcome.h"

namespace slipstream::tracer {
namespace {

constexpr uint64_t kLimit = uint64_t{1} << 20;
// What a file system may take beside a file's blocks.
constexpr uint64_t kBesides = uint64_t{64} << 10;

uint64_t OnDisk(const std::string& path) {
  struct stat facts {};
  EXPECT_EQ(stat(path.c_str(), &facts), 0);
  return static_cast<uint64_t>(facts.st_blocks) * 512;
}

int NoHoles(int, int, off_t, off_t) {
  errno = EOPNOTSUPP;
  return -1;
}
// The first is the question whether it can be done.
std::atomic<int> g_holes{0};
int OnlyTheQuestion(int fd, int mode, off_t at, off_t size) {
  if (g_holes.fetch_add(1) == 0) return fallocate(fd, mode, at, size);
  errno = EIO;
  return -1;
}
int KilledBeforeTheHole(int fd, int mode, off_t at, off_t size) {
  if (g_holes.fetch_add(1) != 0) raise(SIGKILL);
  return fallocate(fd, mode, at, size);
}
int KilledBehindTheHole(int fd, int mode, off_t at, off_t size) {
  const int result = fallocate(fd, mode, at, size);
  if (g_holes.fetch_add(1) != 0) raise(SIGKILL);
  return result;
}

class SpoolKeepTest : public SpoolTest {
 protected:
  void SetUp() override {
    SpoolTest::SetUp();
    g_holes.store(0);
    SpoolFile file{FileCalls{}};
    ASSERT_EQ(file.Create(directory_, "try.spool").problem, SpoolProblem::kNone);
    can_ = file.CanGiveBack() == 0;
    file.Close();  // nothing was appended: it is gone
  }
  RecorderOptions Options() const {
    RecorderOptions options = {.directory = directory_};
    options.max_file_bytes = kLimit;
    options.keep_newest = true;
    options.ring_records = 1U << 20;  // none is dropped
    return options;
  }
  // Each thread's records are there one after the other, up to its last one.
  static void ExpectNoGaps(const Spool& spool) {
    std::map<uint32_t, uint64_t> next;
    for (const SpoolRecord& record : spool.records) {
      ASSERT_EQ(record.missing, 0U);
      const auto [known, is_first] = next.try_emplace(record.thread, record.number);
      ASSERT_EQ(record.number, known->second) << "thread " << record.thread;
      ++known->second;
    }
    EXPECT_EQ(spool.end().missing_records, 0U);
    EXPECT_EQ(spool.end().missing_chunks, 0U);
    EXPECT_EQ(spool.end().damaged_bytes, 0U);
    EXPECT_EQ(spool.end().malformed_chunks, 0U);
    EXPECT_EQ(spool.end().skipped_chunks, 0U);
  }
  // What a process leaves whose file calls kill it.
  Spool AfterKill(int (*fallocate_call)(int, int, off_t, off_t)) const {
    const pid_t child = fork();
    if (child == 0) {
      RecorderOptions options = Options();
      options.calls.fallocate = fallocate_call;
      SpoolFailure why;
      Recorder* const recorder = Recorder::Start(options, &why);
      if (recorder == nullptr) _exit(1);
      for (uint64_t i = 0;; ++i) recorder->Record(NumberedCall(i));
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    return ReadSpool(OnlySpool());
  }

  bool can_ = false;
};

TEST_F(SpoolKeepTest, TheNewestIsThereWithAllThatItRefersTo) {
  if (!can_) GTEST_SKIP() << "this file system does not give back parts of a file";
  FakePython python(0x030b00f0);
  const std::unique_ptr<CodeSites> sites(CodeSites::Create(python.layout(), {}));
  const std::unique_ptr<StackTree> stacks(StackTree::Create({}));
  const uint32_t site = sites->Intern(
      {python.NewCode({.file = "train.py", .name = "step", .first_line = 7, .table = kOneLine, .version = 1}), 0});
  const uint32_t outer = stacks->Intern(site, StackTree::kNone);
  const uint32_t inner = stacks->Intern(site, outer);
  RecorderOptions options = Options();
  options.stacks = stacks.get();
  options.decisions = {"promoted.small"};
  const auto recorder = StartRecorder(options);
  EXPECT_EQ(recorder->cannot_keep_newest(), 0);
  recorder->SetSites(sites.get());
  recorder->Say({{"late", "fact"}});
  // One that is gone long before the end.
  constexpr uint64_t kEarly = 10;
  std::thread([&] {
    for (uint64_t i = 0; i < kEarly; ++i) recorder->Record(NumberedCall(i));
  }).join();
  constexpr uint64_t kCalls = 200'000;
  std::vector<uint64_t> ends;
  for (uint64_t i = 0; i < kCalls; ++i) {
    TraceRecord call = NumberedCall(i);
    call.site = site;
    call.stack = inner;
    ends.push_back(call.end_ns);
    recorder->Record(call);
  }
  ASSERT_TRUE(recorder->Finish(kForeverNs));

  const std::string path = OnlySpool();
  EXPECT_LE(OnDisk(path), kLimit + kBesides);
  EXPECT_GT(std::filesystem::file_size(path), kCalls * sizeof(TraceRecord));
  const Spool spool = ReadSpool(path);
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  ExpectNoGaps(spool);
  const SpoolReader::End& end = spool.end();
  EXPECT_TRUE(end.complete);
  EXPECT_EQ(end.reason, EndReason::kFinished);
  EXPECT_EQ(end.dropped, 0U);
  EXPECT_EQ(end.left_bytes, 0U);
  EXPECT_EQ(end.read_bytes, std::filesystem::file_size(path));
  EXPECT_GT(end.given_up_chunks, 0U);
  EXPECT_GT(end.given_up_bytes, kCalls * sizeof(TraceRecord) - kLimit);

  const std::vector<SpoolRecord> calls = spool.Of(RecordKind::kCall);
  ASSERT_GT(calls.size() * sizeof(TraceRecord), kLimit / 4);
  EXPECT_EQ(calls.back().record.bytes, kCalls - 1);
  for (const SpoolRecord& call : calls) ASSERT_EQ(call.record.bytes, call.number);
  // Everything is in the file or was given up: the early thread's calls, these, and the clocks.
  const std::vector<SpoolRecord> clocks = spool.Of(RecordKind::kClock);
  ASSERT_FALSE(clocks.empty());
  EXPECT_EQ(end.given_up_records, kEarly + calls.front().number + clocks.front().number);
  // The last one that is not there had ended by then.
  const uint64_t first = calls.front().record.bytes;
  ASSERT_GT(first, 0U);
  EXPECT_GE(end.kept_from_ns, ends[first - 1]);
  EXPECT_LE(end.kept_from_ns, NowNs());

  EXPECT_EQ(spool.reader->facts().at("late"), "fact");
  EXPECT_EQ(spool.reader->facts().at(kFactPid), std::to_string(getpid()));
  EXPECT_EQ(spool.reader->facts().at(kFactKeep), "newest");
  EXPECT_NE(spool.reader->NameOf(NameTable::kHooks, 0), nullptr);
  ASSERT_NE(spool.reader->NameOf(NameTable::kDecisions, 1), nullptr);
  EXPECT_EQ(*spool.reader->NameOf(NameTable::kDecisions, 1), "promoted.small");
  ASSERT_NE(spool.reader->SiteOf(site), nullptr);
  EXPECT_EQ(spool.reader->SiteOf(site)->file, "train.py");
  ASSERT_NE(spool.reader->StackOf(inner), nullptr);
  EXPECT_EQ(spool.reader->StackOf(inner)->parent, outer);
  ASSERT_EQ(spool.reader->threads().size(), 1U) << "the early one is gone with its records";
  EXPECT_EQ(spool.reader->threads().begin()->second.id, static_cast<uint32_t>(gettid()));

  const SpoolOutcome outcome = OutcomeOf(path);
  EXPECT_EQ(outcome.records, spool.records.size());
  EXPECT_EQ(outcome.given_up_records, end.given_up_records);
  EXPECT_LE(outcome.bytes, kLimit + kBesides);
  EXPECT_FALSE(outcome.damaged);
}

TEST_F(SpoolKeepTest, WhatHasRoomStays) {
  const auto recorder = StartRecorder(Options());
  for (uint64_t i = 0; i < 100; ++i) recorder->Record(NumberedCall(i));
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  const Spool spool = ReadSpool(OnlySpool());
  EXPECT_EQ(CheckThreads(spool).at(0), 100U);
  EXPECT_EQ(spool.end().given_up_records + spool.end().given_up_bytes + spool.end().kept_from_ns, 0U);
}

TEST_F(SpoolKeepTest, WhereTheFileSystemCannotTheRecordingEndsAtItsLimit) {
  RecorderOptions options = Options();
  options.calls.fallocate = NoHoles;
  const auto recorder = StartRecorder(options);
  EXPECT_EQ(recorder->cannot_keep_newest(), EOPNOTSUPP);
  for (uint64_t i = 0; recorder->recording(); ++i) recorder->Record(NumberedCall(i));
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  EXPECT_LE(std::filesystem::file_size(OnlySpool()), kLimit);
  const Spool spool = ReadSpool(OnlySpool());
  CheckThreads(spool);
  EXPECT_EQ(spool.Of(RecordKind::kCall).front().record.bytes, 0U);
  EXPECT_EQ(spool.end().reason, EndReason::kLimit);
  EXPECT_EQ(spool.end().given_up_records, 0U);
  EXPECT_TRUE(spool.reader->facts().at(kFactKeep).starts_with("first: ")) << spool.reader->facts().at(kFactKeep);
}

// The file has said that it gives something up, and it is still there.
TEST_F(SpoolKeepTest, WhereAHoleCannotBeMadeTheRecordingEndsAtItsLimit) {
  if (!can_) GTEST_SKIP() << "this file system does not give back parts of a file";
  RecorderOptions options = Options();
  options.calls.fallocate = OnlyTheQuestion;
  const auto recorder = StartRecorder(options);
  EXPECT_EQ(recorder->cannot_keep_newest(), 0);
  for (uint64_t i = 0; recorder->recording(); ++i) recorder->Record(NumberedCall(i));
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  EXPECT_EQ(g_holes.load(), 2);
  EXPECT_LE(std::filesystem::file_size(OnlySpool()), kLimit);
  const Spool spool = ReadSpool(OnlySpool());
  CheckThreads(spool);
  EXPECT_TRUE(spool.end().complete);
  EXPECT_EQ(spool.end().reason, EndReason::kLimit);
  EXPECT_EQ(spool.end().given_up_records + spool.end().given_up_chunks, 0U);
  EXPECT_EQ(spool.end().damaged_bytes + spool.end().missing_chunks, 0U);
}

TEST_F(SpoolKeepTest, KilledBetweenTheNoticeAndTheHole) {
  if (!can_) GTEST_SKIP() << "this file system does not give back parts of a file";
  const Spool spool = AfterKill(KilledBeforeTheHole);
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  ExpectNoGaps(spool);
  EXPECT_FALSE(spool.end().complete);
  EXPECT_EQ(spool.end().given_up_records, 0U);
  EXPECT_EQ(spool.Of(RecordKind::kCall).front().record.bytes, 0U) << "what was announced was not done";
}

TEST_F(SpoolKeepTest, KilledDirectlyBehindTheHole) {
  if (!can_) GTEST_SKIP() << "this file system does not give back parts of a file";
  const Spool spool = AfterKill(KilledBehindTheHole);
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  ExpectNoGaps(spool);
  EXPECT_FALSE(spool.end().complete);
  const std::vector<SpoolRecord> calls = spool.Of(RecordKind::kCall);
  ASSERT_FALSE(calls.empty());
  EXPECT_GT(calls.front().number, 0U);
  EXPECT_EQ(spool.end().given_up_records, calls.front().number + spool.Of(RecordKind::kClock).front().number);
}

// S58.
TEST_F(SpoolKeepTest, KilledAtAnyMoment) {
  if (!can_) GTEST_SKIP() << "this file system does not give back parts of a file";
  constexpr int kRounds = 40;
  constexpr int kThreads = 3;
  std::mt19937 random(11);
  int with_given_up = 0;
  for (int round = 0; round < kRounds; ++round) {
    RecorderOptions options = Options();
    options.directory = directory_ + "/" + std::to_string(round);
    options.max_file_bytes = uint64_t{256} << 10;
    options.ring_records = 4096;
    options.period_ns = 1'000'000;
    KilledRecording killed;
    ASSERT_NO_FATAL_FAILURE(RecordUntilKilled(options, kThreads, 800, &random, &killed));
    EXPECT_LE(OnDisk(killed.path), options.max_file_bytes + kBesides);
    ExpectNoGaps(killed.spool);
    if (killed.spool.end().given_up_records != 0) ++with_given_up;
  }
  EXPECT_GT(with_given_up, kRounds / 4);
}

// A file by hand: sections of three chunks, of which the second is the thread's.
class SectionTest : public SpoolTest {
 protected:
  void SetUp() override {
    SpoolTest::SetUp();
    ASSERT_EQ(file_.Create(directory_, "a.spool").problem, SpoolProblem::kNone);
    path_ = directory_ + "/a.spool";
    chunks_.KeepNewest();
    chunks_.Start(1);
  }
  void Thread() {
    chunks_.Begin(ChunkKind::kThread);
    chunks_.PutNumber(1);
    chunks_.PutNumber(100);
    chunks_.PutText("main");
    chunks_.PutBytes(&made_, sizeof(made_));
    EXPECT_TRUE(chunks_.End());
  }
  void Records(uint32_t count) {
    const RecordsHead head = {
        .thread = 1, .record_bytes = sizeof(TraceRecord), .first = made_, .count = count, .version = kRecordVersion};
    chunks_.Begin(ChunkKind::kRecords);
    chunks_.PutBytes(&head, sizeof(head));
    for (uint32_t i = 0; i < count; ++i) {
      const TraceRecord call = {.start_ns = made_, .end_ns = made_ + 1, .bytes = made_, .kind = RecordKind::kCall};
      chunks_.PutBytes(&call, sizeof(call));
      ++made_;
    }
    EXPECT_TRUE(chunks_.End(count));
  }
  // Returns where it begins.
  size_t Section(uint32_t count) {
    EXPECT_TRUE(chunks_.BeginSection(0, NowNs()));
    EXPECT_TRUE(chunks_.Flush());
    const size_t at = file_.size() - sizeof(ChunkHeader) - sizeof(SpoolSection);
    Thread();
    Records(count);
    return at;
  }
  void GivesUp(uint64_t before_chunk) {
    const GivenUp given_up = {.before_chunk = before_chunk};
    chunks_.Begin(ChunkKind::kGivenUp);
    chunks_.PutBytes(&given_up, sizeof(given_up));
    EXPECT_TRUE(chunks_.End());
    EXPECT_TRUE(chunks_.Flush());
  }
  // As a file system shows a hole.
  void Zero(size_t from, size_t to) const {
    std::string bytes = Slurp(path_);
    bytes.replace(from, to - from, to - from, '\0');
    Spit(path_, bytes);
  }

  std::string path_;
  SpoolFile file_{FileCalls{}};
  ChunkWriter chunks_{&file_, uint64_t{1} << 30};
  uint64_t made_ = 0;
};

// Chunks 0 and 1; 2 to 4; 5 to 7; 8.
TEST_F(SectionTest, AHoleThatNobodySpeaksOfIsDamage) {
  Thread();
  Records(5);
  Section(7);
  const size_t at = Section(4);
  ASSERT_TRUE(chunks_.Finish({.reason = 1, .records = 16}));
  Zero(sizeof(SpoolHeader), at);
  const Spool spool = ReadSpool(path_);
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  ASSERT_EQ(spool.records.size(), 4U);
  EXPECT_EQ(spool.end().damaged_bytes, at - sizeof(SpoolHeader));
  EXPECT_EQ(spool.end().missing_chunks, 5U);
  EXPECT_EQ(spool.end().missing_records, 12U);
  EXPECT_EQ(spool.end().given_up_records + spool.end().given_up_chunks + spool.end().given_up_bytes, 0U);
  EXPECT_EQ(spool.end().kept_from_ns, 0U);
}

// Another thread made its first records in what was given up, and none in the section behind it.
TEST_F(SectionTest, AThreadThatIsToldOfInALaterSection) {
  Thread();
  Records(5);
  const size_t at = Section(7);
  GivesUp(2);
  Section(1);
  constexpr uint64_t kBefore = 9;
  chunks_.Begin(ChunkKind::kThread);
  chunks_.PutNumber(2);
  chunks_.PutNumber(101);
  chunks_.PutText("other");
  chunks_.PutBytes(&kBefore, sizeof(kBefore));
  EXPECT_TRUE(chunks_.End());
  const RecordsHead head = {
      .thread = 2, .record_bytes = sizeof(TraceRecord), .first = kBefore, .count = 1, .version = kRecordVersion};
  const TraceRecord call = {.start_ns = 100, .end_ns = 101, .kind = RecordKind::kCall};
  chunks_.Begin(ChunkKind::kRecords);
  chunks_.PutBytes(&head, sizeof(head));
  chunks_.PutBytes(&call, sizeof(call));
  EXPECT_TRUE(chunks_.End(1));
  EXPECT_TRUE(chunks_.Finish({.reason = 1, .records = 14}));
  Zero(sizeof(SpoolHeader), at);
  const Spool spool = ReadSpool(path_);
  ASSERT_EQ(spool.records.size(), 9U);
  EXPECT_EQ(spool.records.back().thread, 2U);
  EXPECT_EQ(spool.records.back().missing, 0U);
  EXPECT_EQ(spool.end().missing_records, 0U);
  EXPECT_EQ(spool.end().given_up_records, 5U);
}

TEST_F(SectionTest, AHoleThatIsSpokenOfIsNot) {
  Thread();
  Records(5);
  Section(7);
  const size_t at = Section(4);
  GivesUp(5);
  EXPECT_EQ(ReadSpool(path_).records.size(), 16U);
  EXPECT_EQ(ReadSpool(path_).end().given_up_records, 0U) << "it is there";
  Zero(sizeof(SpoolHeader), at);
  const Spool spool = ReadSpool(path_);
  ASSERT_EQ(spool.records.size(), 4U);
  EXPECT_EQ(spool.records[0].number, 12U);
  EXPECT_EQ(spool.records[0].missing, 0U);
  EXPECT_EQ(spool.records[0].tid, 100U);
  EXPECT_EQ(spool.end().given_up_bytes, at - sizeof(SpoolHeader));
  EXPECT_EQ(spool.end().given_up_chunks, 5U);
  EXPECT_EQ(spool.end().given_up_records, 12U);
  EXPECT_GT(spool.end().kept_from_ns, 0U);
  EXPECT_EQ(spool.end().damaged_bytes + spool.end().missing_chunks + spool.end().missing_records, 0U);
}

// A chunk that speaks of less than the hole does not excuse it.
TEST_F(SectionTest, AHoleThatIsTooLargeIsDamage) {
  Thread();
  Records(5);
  Section(7);
  const size_t at = Section(4);
  GivesUp(2);
  Zero(sizeof(SpoolHeader), at);
  const Spool spool = ReadSpool(path_);
  EXPECT_EQ(spool.end().missing_chunks, 5U);
  EXPECT_EQ(spool.end().missing_records, 12U);
  EXPECT_EQ(spool.end().given_up_chunks, 0U);
}

// Whoever follows a file may have read a part of it, and then finds a hole in front of what comes next.
TEST_F(SectionTest, WhatIsGivenUpUnderAReaderIsAGapInItsThreads) {
  Thread();
  Records(5);
  ASSERT_TRUE(chunks_.Flush());
  std::string error;
  const auto reader = SpoolReader::Open(path_, &error);
  ASSERT_NE(reader, nullptr) << error;
  reader->Follow(true);
  SpoolRecord record;
  while (reader->Next(&record)) {
  }
  const size_t first = Section(7);
  const size_t at = Section(4);
  GivesUp(5);
  Zero(first, at);
  reader->Follow(false);
  std::vector<SpoolRecord> seen;
  while (reader->Next(&record)) seen.push_back(record);
  ASSERT_EQ(seen.size(), 9U) << "the first five waited for their order";
  EXPECT_EQ(seen[4].number, 4U);
  EXPECT_EQ(seen[5].number, 12U);
  EXPECT_EQ(seen[5].missing, 7U) << "a step across this is not whole";
  EXPECT_EQ(reader->end().given_up_records, 7U);
  EXPECT_EQ(reader->end().given_up_chunks, 3U);
  EXPECT_EQ(reader->end().missing_records + reader->end().missing_chunks + reader->end().damaged_bytes, 0U);
}

TEST_F(SectionTest, AWholeFileOfSectionsIsReadAsAnyOther) {
  Thread();
  Records(5);
  Section(7);
  Section(4);
  ASSERT_TRUE(chunks_.Finish({.reason = 1, .records = 16}));
  const Spool spool = ReadSpool(path_);
  ASSERT_EQ(spool.records.size(), 16U);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(spool.records[i].number, i);
    EXPECT_EQ(spool.records[i].missing, 0U);
  }
  EXPECT_EQ(spool.end().malformed_chunks, 0U);
  EXPECT_EQ(spool.reader->threads().size(), 1U);
  EXPECT_EQ(spool.end().kept_from_ns, 0U);
}

}  // namespace
}  // namespace slipstream::tracer
