// The whole way of a record inside one process: rings, writer thread, file. What needs a process of its own to die,
// fork or lose its descriptors is in recorder_process_test.cpp.

#include "tracer/spool/recorder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/tracer/fake_python.h"
#include "tests/tracer/spool_testing.h"
#include "tracer/base/hook_id.h"
#include "tracer/counters/counter_file.h"
#include "tracer/python/native_stack.h"
#include "tracer/spool/process_facts.h"

namespace slipstream::tracer {
namespace {

// A file system that stops, and goes on when it is told to.
std::atomic<bool> g_stalled{false};
std::atomic<int> g_in_stall{0};
ssize_t StallingPwrite(int fd, const void* bytes, size_t size, off_t offset) {
  if (g_stalled.load()) {
    ++g_in_stall;
    g_in_stall.notify_all();
    g_stalled.wait(true);
    --g_in_stall;
  }
  return pwrite(fd, bytes, size, offset);
}
void Unstall() {
  g_stalled.store(false);
  g_stalled.notify_all();
}

// A disk that is full from some size on.
std::atomic<off_t> g_disk_size{0};
ssize_t FullPwrite(int fd, const void* bytes, size_t size, off_t offset) {
  const off_t room = g_disk_size.load() - offset;
  if (room <= 0) {
    errno = ENOSPC;
    return -1;
  }
  return pwrite(fd, bytes, std::min(size, static_cast<size_t>(room)), offset);
}
ssize_t BrokenPwrite(int, const void*, size_t, off_t) {
  errno = EIO;
  return -1;
}

class RecorderTest : public SpoolTest {
 protected:
  void SetUp() override {
    SpoolTest::SetUp();
    g_stalled.store(false);
    MakeRun();
  }

  void MakeRun() const { ASSERT_EQ(mkdir((directory_ + "/run").c_str(), S_IRWXU), 0); }

  RecorderOptions Options() const { return {.directory = directory_ + "/run"}; }
  std::string Only() const {
    std::string error;
    const std::vector<std::string> paths = ListSpools(directory_ + "/run", &error);
    EXPECT_EQ(paths.size(), 1U) << error;
    return paths.empty() ? "" : paths[0];
  }

  static void RecordCalls(Recorder* recorder, uint64_t count, uint64_t thread = 0) {
    for (uint64_t i = 0; i < count; ++i) recorder->Record(NumberedCall(i, thread));
  }
  // At once, each with its own number.
  template <typename Work>
  static void InThreads(uint64_t threads, const Work& work) {
    std::vector<std::thread> running;
    for (uint64_t t = 0; t < threads; ++t) running.emplace_back([&work, t] { work(t); });
    for (std::thread& thread : running) thread.join();
  }
  static void RecordInThreads(Recorder* recorder, uint64_t threads, uint64_t count) {
    InThreads(threads, [=](uint64_t t) { RecordCalls(recorder, count, t); });
  }
  // `record` in threads makes so many calls. Then `check` is told each that is in the file, while that is read: what a
  // call refers to must be known by then. The reader at the file's end; null: something is wrong, as was said.
  template <typename Record, typename Check>
  std::unique_ptr<SpoolReader> RecordAndCheck(Recorder* recorder, uint64_t threads, uint64_t calls,
                                              const Record& record, const Check& check) const {
    InThreads(threads, record);
    EXPECT_TRUE(recorder->Finish(kForeverNs));
    std::string error;
    std::unique_ptr<SpoolReader> reader = SpoolReader::Open(Only(), &error);
    EXPECT_NE(reader, nullptr) << error;
    SpoolRecord read;
    uint64_t seen = 0;
    while (reader != nullptr && reader->Next(&read)) {
      if (read.record.kind != RecordKind::kCall) continue;
      ++seen;
      check(*reader, read.record);
      if (HasFatalFailure()) return nullptr;
    }
    if (reader == nullptr) return nullptr;
    EXPECT_EQ(seen + reader->end().dropped, calls);
    EXPECT_GT(seen, 0U);
    EXPECT_EQ(reader->end().malformed_chunks, 0U);
    return reader;
  }
};

// Whatever was counted before the recording began.
TEST_F(RecorderTest, TheFileHasWhatWasCountedMeanwhile) {
  std::string error;
  // It is never unmapped; kept here, so that the leak checker finds it.
  static CounterFile* counters = nullptr;
  counters = CounterFile::Create(directory_ + "/run", 1, {}, &error);
  ASSERT_NE(counters, nullptr) << error;
  constexpr const char* kDecisions[] = {"promoted.small", "left.off"};
  counters->NameDecisions(kDecisions);
  ThreadBlock* const own = counters->Claim(77);
  ThreadBlock* const shared = counters->Claim(78);
  ASSERT_TRUE(counters->IsShared(shared));
  constexpr HookId kCopy = HookId::cudaMemcpyAsync;
  constexpr HookId kBefore = HookId::cudaMalloc;
  own->hooks[Index(kBefore)].calls.store(9);
  own->hooks[Index(kCopy)].calls.store(5);
  own->hooks[Index(kCopy)].time_ns.store(100);
  RecorderOptions options = Options();
  options.counters = counters;
  const auto recorder = StartRecorder(options);
  ASSERT_NE(recorder, nullptr);
  own->hooks[Index(kCopy)].calls.store(7);
  own->hooks[Index(kCopy)].errors.store(1);
  own->hooks[Index(kCopy)].bytes.store(4096);
  own->hooks[Index(kCopy)].time_ns.store(130);
  shared->hooks[Index(kCopy)].calls.store(10);
  shared->decisions[1].count.store(3);
  shared->decisions[1].bytes.store(8);
  shared->decisions[1].time_ns.store(11);
  EXPECT_TRUE(recorder->Finish(kForeverNs));
  own->hooks[Index(kCopy)].calls.store(1000);  // too late

  const Spool spool = ReadSpool(Only());
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  EXPECT_TRUE(spool.end().complete);
  EXPECT_EQ(spool.end().malformed_chunks, 0U);
  const std::vector<CountersEntry>* const hooks = spool.reader->CountersOf(NameTable::kHooks);
  ASSERT_NE(hooks, nullptr);
  ASSERT_EQ(hooks->size(), 1U) << "of what was called meanwhile";
  const Counted copies = {.calls = 12, .errors = 1, .bytes = 4096, .time_ns = 30};
  EXPECT_EQ(hooks->at(0).number, Index(kCopy));
  EXPECT_EQ(hooks->at(0).at_least, copies);
  EXPECT_EQ(hooks->at(0).at_most, copies);
  const std::vector<CountersEntry>* const decisions = spool.reader->CountersOf(NameTable::kDecisions);
  ASSERT_NE(decisions, nullptr);
  ASSERT_EQ(decisions->size(), 1U);
  EXPECT_EQ(decisions->at(0).number, 2U) << "as records have it";
  EXPECT_EQ(decisions->at(0).at_most, (Counted{.calls = 3, .errors = 0, .bytes = 8, .time_ns = 11}));
}

TEST_F(RecorderTest, AFileOfAProcessThatCountsNothingDoesNotSay) {
  const auto recorder = StartRecorder(Options());
  ASSERT_NE(recorder, nullptr);
  EXPECT_TRUE(recorder->Finish(kForeverNs));
  const Spool spool = ReadSpool(Only());
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  EXPECT_EQ(spool.reader->CountersOf(NameTable::kHooks), nullptr);
  EXPECT_EQ(spool.reader->CountersOf(NameTable::kDecisions), nullptr);
}

TEST_F(RecorderTest, WhatIsRecordedIsReadWithAllThatItRefersTo) {
  RecorderOptions options = Options();
  options.job = {.launcher = "torchrun", .job = "run7", .rank = 3, .local_rank = 1, .world_size = 8};
  options.facts = {{"policy", "default"}};
  options.decisions = {"promoted.small", "left.off"};
  const auto recorder = StartRecorder(options);
  ASSERT_NE(recorder, nullptr);
  FakePython python(0x030b00f0);
  const std::unique_ptr<CodeSites> sites(CodeSites::Create(python.layout(), {}));
  recorder->SetSites(sites.get());
  const uintptr_t code =
      python.NewCode({.file = "train.py", .name = "step", .first_line = 7, .table = kOneLine, .version = 1});
  const uint32_t site = sites->Intern({code, 0});
  const TraceRecord call = {.start_ns = 1000,
                            .end_ns = 2000,
                            .bytes = uint64_t{5} << 40,
                            .stream = 0xfedcba9876543210,
                            .number = 0xfedcba9876543211,
                            .site = site,
                            .correlation = 0xdeadbeef,
                            .status = 700,
                            .hook = static_cast<uint16_t>(Index(HookId::cudaMemcpyAsync)),
                            .decision = 2,
                            .device = 3,
                            .kind = RecordKind::kCall};
  recorder->Record(call);
  const MemoryFigures figures = {
      .device = 2, .live_bytes = 1, .idle_bytes = uint64_t{1} << 50, .parked_bytes = 3, .trims = 4, .retries = 5};
  recorder->Record(MemoryRecord(3000, figures));
  recorder->Record(
      MemoryRecord(3001, {.device_used = 0xfedcba9876543210U, .largest_idle = uint64_t{0xfedcba98U} * 1024 + 1023}));
  recorder->Record(MemoryRecord(3002, {.device_used = 0, .largest_idle = UINT64_MAX}));
  recorder->Record(MarkRecord(4000, site, 99));
  recorder->Record(StepRecord(1000, 5000, 12));
  EXPECT_TRUE(recorder->recording());
  EXPECT_TRUE(recorder->Finish(kForeverNs));
  EXPECT_FALSE(recorder->recording());
  EXPECT_EQ(recorder->failure().problem, SpoolProblem::kNone);
  recorder->Record(call);  // too late
  EXPECT_TRUE(recorder->Finish(kForeverNs));

  const Spool spool = ReadSpool(Only());
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  EXPECT_TRUE(spool.end().complete);
  EXPECT_EQ(spool.end().dropped, 0U);
  const std::vector<SpoolRecord> calls = spool.Of(RecordKind::kCall);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].tid, static_cast<uint32_t>(syscall(SYS_gettid)));
  EXPECT_EQ(std::memcmp(&calls[0].record, &call, sizeof(call)), 0);
  EXPECT_EQ(*spool.reader->NameOf(NameTable::kHooks, call.hook), "cudaMemcpyAsync");
  EXPECT_EQ(*spool.reader->NameOf(NameTable::kDecisions, call.decision), "left.off");
  EXPECT_EQ(spool.reader->NameOf(NameTable::kDecisions, 0), nullptr);
  EXPECT_EQ(spool.reader->NameOf(NameTable::kHooks, kHookCount), nullptr);
  ASSERT_NE(spool.reader->SiteOf(site), nullptr);
  EXPECT_EQ(spool.reader->SiteOf(site)->file, "train.py");
  EXPECT_EQ(spool.reader->SiteOf(site)->function, "step");
  EXPECT_EQ(spool.reader->SiteOf(site)->line, 7);
  const std::vector<SpoolRecord> memory = spool.Of(RecordKind::kMemory);
  ASSERT_EQ(memory.size(), 3U);
  EXPECT_EQ(MemoryOf(memory[0].record).idle_bytes, figures.idle_bytes);
  EXPECT_EQ(MemoryOf(memory[0].record).parked_bytes, 3U);
  EXPECT_EQ(MemoryOf(memory[0].record).retries, 5U);
  EXPECT_EQ(MemoryOf(memory[0].record).device, 2);
  EXPECT_FALSE(MemoryOf(memory[0].record).device_used.has_value());
  EXPECT_FALSE(MemoryOf(memory[0].record).largest_idle.has_value());
  EXPECT_EQ(MemoryOf(memory[1].record).device_used, 0xfedcba9876543210U);
  EXPECT_EQ(MemoryOf(memory[1].record).largest_idle, uint64_t{0xfedcba98U} * 1024);
  EXPECT_EQ(MemoryOf(memory[2].record).device_used, 0U);
  EXPECT_EQ(MemoryOf(memory[2].record).largest_idle, uint64_t{UINT32_MAX} * 1024);
  ASSERT_EQ(spool.Of(RecordKind::kMark).size(), 1U);
  EXPECT_EQ(spool.Of(RecordKind::kMark)[0].record.bytes, 99U);
  ASSERT_EQ(spool.Of(RecordKind::kStep).size(), 1U);
  EXPECT_EQ(spool.Of(RecordKind::kStep)[0].record.bytes, 12U);

  const auto& facts = spool.reader->facts();
  EXPECT_EQ(facts.at(kFactPid), std::to_string(getpid()));
  EXPECT_EQ(facts.at(kFactParentPid), std::to_string(getppid()));
  EXPECT_EQ(facts.at(kFactExecutable), std::filesystem::read_symlink("/proc/self/exe").string());
  EXPECT_FALSE(facts.contains(kFactCommandLine)) << "it may hold secrets, and nobody asked for it";
  EXPECT_EQ(CommandLine(), Slurp("/proc/self/cmdline"));
  EXPECT_EQ(facts.at(kFactHost), HostName());
  EXPECT_EQ(facts.at(kFactRank), "3");
  EXPECT_EQ(facts.at(kFactLocalRank), "1");
  EXPECT_EQ(facts.at(kFactWorldSize), "8");
  EXPECT_EQ(facts.at(kFactLauncher), "torchrun");
  EXPECT_EQ(facts.at(kFactJob), "run7");
  EXPECT_EQ(facts.at("policy"), "default");
  std::istringstream stat(Slurp("/proc/self/stat"));
  std::string field;
  for (int i = 0; i < 22; ++i) stat >> field;  // this program's name has no space
  EXPECT_EQ(facts.at(kFactStartTicks), field);
}

TEST_F(RecorderTest, WhatIsKnownLaterIsInTheFileTooAndTheLastWordStands) {
  const auto recorder = StartRecorder(Options());
  recorder->Say({{"first", "1"}, {"second", "2"}});
  RecordCalls(recorder.get(), 1);
  std::thread([&] { recorder->Say({{"first", "3"}}); }).join();
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  recorder->Say({{"too late", "4"}});
  const Spool spool = ReadSpool(Only());
  ASSERT_NE(spool.reader, nullptr) << spool.error;
  EXPECT_TRUE(spool.end().complete);
  EXPECT_EQ(spool.reader->facts().at("first"), "3");
  EXPECT_EQ(spool.reader->facts().at("second"), "2");
  EXPECT_EQ(spool.reader->facts().count("too late"), 0U);
}

TEST_F(RecorderTest, ClocksAreReadAtTheStartAndAtTheEnd) {
  const auto recorder = StartRecorder(Options());
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  timespec raw;
  timespec real;
  clock_gettime(CLOCK_MONOTONIC_RAW, &raw);
  clock_gettime(CLOCK_REALTIME, &real);
  const auto ns = [](const timespec& t) { return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec; };
  const auto now = static_cast<int64_t>(NowNs());
  const std::vector<SpoolRecord> clocks = ReadSpool(Only()).Of(RecordKind::kClock);
  ASSERT_EQ(clocks.size(), 2U);
  for (const SpoolRecord& clock : clocks) {
    EXPECT_EQ(clock.thread, 0U);
    EXPECT_GE(clock.record.end_ns, clock.record.start_ns);
    const auto before = static_cast<int64_t>(clock.record.start_ns);
    // The same offset as now, but for what the clocks drift apart and what interrupted us.
    constexpr int64_t kSecond = 1'000'000'000;
    EXPECT_NEAR(static_cast<int64_t>(clock.record.stream) - before, ns(raw) - now, kSecond);
    EXPECT_NEAR(static_cast<int64_t>(clock.record.bytes) - before, ns(real) - now, kSecond);
  }
}

TEST_F(RecorderTest, SitesAreThereBeforeTheRecordsThatReferToThem) {
  RecorderOptions options = Options();
  options.period_ns = 1'000'000;
  const auto recorder = StartRecorder(options);
  FakePython python(0x030b00f0);
  const std::unique_ptr<CodeSites> sites(CodeSites::Create(python.layout(), {}));
  recorder->SetSites(sites.get());
  constexpr uint32_t kSites = 3000;  // more than a chunk
  const std::string long_name(4000, 'n');
  for (uint32_t i = 0; i < kSites; ++i) {
    const std::string name = i % 100 == 0 ? long_name : "f";
    const uintptr_t code = python.NewCode({.file = "train.py",
                                           .name = name,
                                           .first_line = static_cast<int32_t>(i + 1),
                                           .table = kOneLine,
                                           .version = i + 1});
    recorder->Record(
        {.start_ns = 1, .end_ns = i, .bytes = i, .site = sites->Intern({code, 0}), .kind = RecordKind::kCall});
  }
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  std::string error;
  const auto reader = SpoolReader::Open(Only(), &error);
  ASSERT_NE(reader, nullptr) << error;
  SpoolRecord record;
  uint32_t seen = 0;
  while (reader->Next(&record)) {
    if (record.record.kind != RecordKind::kCall) continue;
    const SpoolSite* const site = reader->SiteOf(record.record.site);
    ASSERT_NE(site, nullptr) << record.record.bytes;
    EXPECT_EQ(site->function, record.record.bytes % 100 == 0 ? long_name : "f");
    ++seen;
  }
  EXPECT_EQ(seen, kSites);
  EXPECT_EQ(reader->sites(), kSites);
  EXPECT_EQ(reader->end().malformed_chunks, 0U);
}

// A call with its native stack, from under so many functions; its bytes are how many frames that has.
std::atomic<int> g_left_to_do{0};
[[gnu::noinline]] void RecordBelow(uint64_t depth, Recorder* to, NativeFrames* frames, StackTree* stacks) {
  if (depth != 0) {
    RecordBelow(depth - 1, to, frames, stacks);
  } else {
    std::array<uint32_t, kDeepestNative> addresses;
    const NativeWalk walked = WalkNativeStack(frames, addresses);
    to->Record({.start_ns = 1,
                .end_ns = 1,
                .bytes = walked.frames,
                .stack = InternNativeStack(std::span(addresses).first(walked.frames), walked.cut, stacks),
                .kind = RecordKind::kCall});
  }
  g_left_to_do.fetch_add(1, std::memory_order_relaxed);
}

// The same of native frames, from every depth of a recursion.
TEST_F(RecorderTest, NativeFramesAreThereBeforeTheRecordsThatReferToThem) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kCalls = 3000;
  const std::unique_ptr<StackTree> stacks(StackTree::Create({}));
  const std::unique_ptr<NativeFrames> native(NativeFrames::Create({}, NativeFrames::Own::kKeep));
  RecorderOptions options = Options();
  options.period_ns = 1'000'000;
  options.ring_records = 16384;
  options.stacks = stacks.get();
  options.native = native.get();
  const auto recorder = StartRecorder(options);
  const auto record = [&](uint64_t thread) {
    for (uint64_t i = 0; i < kCalls; ++i) RecordBelow((i + thread) % 40, recorder.get(), native.get(), stacks.get());
  };
  const auto check = [](SpoolReader& reader, const TraceRecord& call) {
    const SpoolReader::Both both = reader.BothOf(call.stack);
    ASSERT_EQ(both.python, 0U);
    uint64_t frames = 0;
    for (uint32_t at = both.native; at != 0; ++frames) {
      const SpoolStack* const frame = reader.StackOf(at);
      ASSERT_NE(frame, nullptr);
      ASSERT_GE(frame->site, kNativeSpoolSite);
      const SpoolAddress* const address = reader.AddressOf(frame->site - kNativeSpoolSite);
      ASSERT_NE(address, nullptr);
      ASSERT_NE(reader.ModuleOf(address->module), nullptr);
      at = frame->parent;
    }
    ASSERT_EQ(frames, call.bytes);
  };
  const auto reader = RecordAndCheck(recorder.get(), kThreads, kThreads * kCalls, record, check);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->facts().count(kFactStacksRefused) + reader->facts().count(kFactFramesRefused), 0U);
}

TEST_F(RecorderTest, WhatHadNoRoomIsSaidAtOnce) {
  const std::unique_ptr<StackTree> stacks(StackTree::Create({.stacks = 2}));
  const std::unique_ptr<NativeFrames> native(NativeFrames::Create({.addresses = 4}, NativeFrames::Own::kKeep));
  RecorderOptions options = Options();
  options.stacks = stacks.get();
  options.native = native.get();
  const auto recorder = StartRecorder(options);
  std::array<uint32_t, kDeepestNative> addresses;
  const NativeWalk walked = WalkNativeStack(native.get(), addresses);
  EXPECT_EQ(walked.frames, 3U);
  EXPECT_EQ(InternNativeStack(std::span(addresses).first(3), walked.cut, stacks.get()), StackTree::kNone);
  const auto names = std::unique_ptr<RangeNames>(RangeNames::Create({.names = 2}));
  recorder->SetNames(NameTable::kRanges, names.get());
  EXPECT_NE(names->Intern("forward"), RangeNames::kUnknown);
  EXPECT_EQ(names->Intern("backward"), RangeNames::kUnknown);
  const std::atomic<uint64_t> lost{3};
  recorder->SetLostRanges(&lost);
  // Not at the end alone: a process may be killed.
  std::map<std::string, std::string> facts;
  bool ended = true;
  while (facts.count(kFactRangesRefused) == 0) {
    std::string error;
    const auto reader = SpoolReader::Open(Only(), &error);
    ASSERT_NE(reader, nullptr) << error;
    SpoolRecord record;
    while (reader->Next(&record)) {
    }
    facts = reader->facts();
    ended = reader->end().complete;
  }
  EXPECT_FALSE(ended);
  EXPECT_EQ(facts[kFactStacksRefused], "1");
  EXPECT_EQ(facts[kFactFramesRefused], "1");
  EXPECT_EQ(facts[kFactRangeNamesRefused], "1");
  EXPECT_EQ(facts[kFactRangesRefused], "3");
  EXPECT_EQ(facts.count(kFactSitesRefused) + facts.count(kFactCallersRefused), 0U);
  ASSERT_TRUE(recorder->Finish(kForeverNs));
}

// Threads that see stacks first while the writer writes: a record's stack leads to its outermost frame when it is read.
TEST_F(RecorderTest, StacksAreThereBeforeTheRecordsThatReferToThem) {
  constexpr uint64_t kThreads = 4;
  constexpr uint32_t kCalls = 6000;
  const std::unique_ptr<StackTree> stacks(StackTree::Create({}));
  RecorderOptions options = Options();
  options.period_ns = 1'000'000;
  options.ring_records = 16384;
  options.stacks = stacks.get();
  const auto recorder = StartRecorder(options);
  FakePython python(0x030b00f0);
  const std::unique_ptr<CodeSites> sites(CodeSites::Create(python.layout(), {}));
  recorder->SetSites(sites.get());
  std::vector<uint32_t> lines;
  for (int32_t i = 0; i < 50; ++i) {
    lines.push_back(
        sites->Intern({python.NewCode({.file = "train.py", .first_line = i + 1, .table = kOneLine, .version = 1}), 0}));
  }
  // Of a number: a stack whose lines are its digits, the last one innermost.
  const auto stack_of = [&](uint32_t number) {
    uint32_t stack = stacks->Intern(lines[number / 2500 % 50], StackTree::kNone);
    stack = stacks->Intern(lines[number / 50 % 50], stack);
    return stacks->Intern(lines[number % 50], stack);
  };
  const auto record = [&](uint64_t thread) {
    for (uint32_t i = 0; i < kCalls; ++i) {
      const auto number = static_cast<uint32_t>((i + thread * 1000) % kCalls);
      recorder->Record(
          {.start_ns = i, .end_ns = i, .bytes = number, .stack = stack_of(number), .kind = RecordKind::kCall});
    }
  };
  const auto check = [](SpoolReader& reader, const TraceRecord& call) {
    auto number = static_cast<uint32_t>(call.bytes);
    uint32_t stack = call.stack;
    for (int depth = 0; depth < 3; ++depth, number /= 50) {
      const SpoolStack* const frame = reader.StackOf(stack);
      ASSERT_NE(frame, nullptr) << "call " << call.bytes << " depth " << depth;
      const SpoolSite* const site = reader.SiteOf(frame->site);
      ASSERT_NE(site, nullptr);
      ASSERT_EQ(site->line, static_cast<int32_t>(number % 50) + 1);
      stack = frame->parent;
    }
    EXPECT_EQ(stack, 0U);
  };
  const auto reader = RecordAndCheck(recorder.get(), kThreads, kThreads * kCalls, record, check);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->end().skipped_chunks, 0U);
}

TEST_F(RecorderTest, OneRecordIsInTheFileAfterAPeriod) {
  RecorderOptions options = Options();
  options.period_ns = 1'000'000;
  const auto recorder = StartRecorder(options);
  recorder->Record(NumberedCall(0));
  const std::string path = Only();
  while (ReadSpool(path).Of(RecordKind::kCall).empty()) std::this_thread::yield();
  EXPECT_TRUE(recorder->recording());
}

TEST_F(RecorderTest, WhatMakesNoSenseIsRefused) {
  std::vector<RecorderOptions> bad(9, Options());
  bad[0].ring_records = 1000;
  bad[1].ring_records = 4;
  bad[2].ring_records = RecordRing::kMaxRecords * 2;
  bad[3].max_rings = 0;
  bad[4].max_rings = RecordRings::kMaxRings + 1;
  bad[5].max_file_bytes = Recorder::kMinFileBytes - 1;
  bad[6].period_ns = 0;
  bad[7].period_ns = ~uint64_t{0};
  bad[8].ring_records = 0;
  for (const RecorderOptions& options : bad) {
    SpoolFailure why;
    EXPECT_EQ(Recorder::Start(options, &why), nullptr);
    EXPECT_EQ(why.problem, SpoolProblem::kBadOptions);
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_ + "/run"));
}

TEST_F(RecorderTest, WhatTheFileRefusesIsSaid) {
  RecorderOptions options = Options();
  options.directory = directory_ + "/no/run";
  SpoolFailure why;
  EXPECT_EQ(Recorder::Start(options, &why), nullptr);
  EXPECT_EQ(why.problem, SpoolProblem::kNoDirectory);
  EXPECT_EQ(why.error, ENOENT);
  options = Options();
  options.calls.pwrite = BrokenPwrite;
  EXPECT_EQ(Recorder::Start(options, &why), nullptr);
  EXPECT_EQ(why.problem, SpoolProblem::kWriting);
  EXPECT_EQ(why.error, EIO);
}

TEST_F(RecorderTest, StartDoesNotWaitForAFileThatDoesNotCome) {
  g_stalled.store(true);
  RecorderOptions options = Options();
  options.calls.pwrite = StallingPwrite;
  options.start_timeout_ns = 20'000'000;
  SpoolFailure why;
  EXPECT_EQ(Recorder::Start(options, &why), nullptr);
  EXPECT_EQ(why.problem, SpoolProblem::kTooSlow);
  // Its thread ends by itself, when it can. Then the file says that this is all.
  Unstall();
  while (!ReadSpool(Only()).reader || !ReadSpool(Only()).end().complete) std::this_thread::yield();
}

TEST_F(RecorderTest, EveryThreadsRecordsAreInOrder) {
  RecorderOptions options = Options();
  options.ring_records = 256;
  options.period_ns = 1'000'000;
  const auto recorder = StartRecorder(options);
  RecordInThreads(recorder.get(), 8, 30'000);
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  const Spool spool = ReadSpool(Only());
  const auto calls = CheckThreads(spool);
  EXPECT_EQ(calls.size(), 8U);
  for (const auto& [thread, count] : calls) EXPECT_EQ(count, 30'000U) << thread;
  EXPECT_TRUE(spool.end().complete);
  EXPECT_EQ(spool.Of(RecordKind::kCall).size() + spool.end().dropped, 8 * 30'000U);
  for (const auto& [number, thread] : spool.reader->threads()) EXPECT_TRUE(thread.ended) << number;
  // Merged by time, as far as threads are not interrupted between the clock and the ring.
  uint64_t last = 0;
  size_t back = 0;
  for (const SpoolRecord& record : spool.records) {
    if (record.record.end_ns < last) ++back;
    last = std::max(last, record.record.end_ns);
  }
  EXPECT_EQ(back, spool.end().late_records);
  EXPECT_LE(back, spool.records.size() / 100);
}

// The interesting one: nothing may wait for a file that does not move, and nothing may be lost uncounted.
TEST_F(RecorderTest, AStalledFileCostsRecordsAndNothingElse) {
  RecorderOptions options = Options();
  options.ring_records = 512;
  options.calls.pwrite = StallingPwrite;
  const auto recorder = StartRecorder(options);
  g_stalled.store(true);
  RecordCalls(recorder.get(), 300, 99);  // more than half: the writer comes, and is stuck
  g_in_stall.wait(0);
  constexpr uint64_t kThreads = 8;
  constexpr uint64_t kCalls = 20'000;
  RecordInThreads(recorder.get(), kThreads, kCalls);  // and they all come back
  EXPECT_EQ(g_in_stall.load(), 1);
  const uint64_t before = NowNs();
  EXPECT_FALSE(recorder->Finish(20'000'000));
  EXPECT_GE(NowNs() - before, 20'000'000U);
  EXPECT_FALSE(ReadSpool(Only()).end().complete);
  Unstall();
  ASSERT_TRUE(recorder->Finish(kForeverNs));

  const Spool spool = ReadSpool(Only());
  EXPECT_TRUE(spool.end().complete);
  const auto calls = CheckThreads(spool);
  EXPECT_EQ(calls.size(), kThreads + 1);
  EXPECT_EQ(calls.at(99), 300U);
  for (uint64_t t = 0; t < kThreads; ++t) EXPECT_EQ(calls.at(t), kCalls) << t;
  // Each ring kept what it had room for, and that is all.
  EXPECT_EQ(spool.Of(RecordKind::kCall).size(), 300 + kThreads * 512);
  EXPECT_EQ(spool.end().dropped, kThreads * (kCalls - 512));
}

// When the file moves again, so does the recording, and what is missing stands where it is missing.
TEST_F(RecorderTest, AfterAStallItGoesOn) {
  RecorderOptions options = Options();
  options.ring_records = 64;
  options.period_ns = 1'000'000;
  options.calls.pwrite = StallingPwrite;
  const auto recorder = StartRecorder(options);
  uint64_t calls = 0;
  for (int stall = 0; stall < 5; ++stall) {
    g_stalled.store(true);
    while (g_in_stall.load() == 0) recorder->Record(NumberedCall(calls++));
    for (int i = 0; i < 500; ++i) recorder->Record(NumberedCall(calls++));
    const std::string path = Only();
    const uint64_t size = std::filesystem::file_size(path);
    Unstall();
    // Until the writer has made room: then the next record is one that counts the drops before it.
    while (std::filesystem::file_size(path) < size + 64 * sizeof(TraceRecord)) std::this_thread::yield();
    for (int i = 0; i < 10; ++i) recorder->Record(NumberedCall(calls++));
  }
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  const Spool spool = ReadSpool(Only());
  EXPECT_EQ(CheckThreads(spool).at(0), calls);
  EXPECT_GE(spool.Of(RecordKind::kDrop).size(), 5U);
  EXPECT_GE(spool.end().dropped, 5 * (500U - 128U));
}

TEST_F(RecorderTest, AFullDiskEndsTheRecordingAndLeavesAWholeFile) {
  int complete = 0;
  // A chunk that names the thread has 72 bytes, one with a record 120 or more: with 150 and 164 there is room for the
  // first of them and for what is written at once about the end.
  for (const off_t more : {off_t{0}, off_t{72}, off_t{150}, off_t{164}, off_t{5000}, off_t{70'000}, off_t{200'000}}) {
    std::filesystem::remove_all(directory_ + "/run");
    MakeRun();
    g_disk_size.store(off_t{1} << 40);
    RecorderOptions options = Options();
    options.calls.pwrite = FullPwrite;
    const auto recorder = StartRecorder(options);
    const auto started = static_cast<off_t>(std::filesystem::file_size(Only()));
    g_disk_size.store(started + more);
    uint64_t made = 0;
    while (recorder->recording()) recorder->Record(NumberedCall(made++));
    EXPECT_TRUE(recorder->Finish(kForeverNs));
    EXPECT_EQ(recorder->failure().problem, SpoolProblem::kWriting);
    EXPECT_EQ(recorder->failure().error, ENOSPC);
    EXPECT_LE(std::filesystem::file_size(Only()), static_cast<size_t>(started + more));
    const Spool spool = ReadSpool(Only());
    CheckThreads(spool);
    EXPECT_EQ(spool.end().left_bytes, 0U) << "a part of a chunk";
    // Where there is room for it, the end is there.
    if (!spool.end().complete) {
      EXPECT_GT(std::filesystem::file_size(Only()) + kEndBytes, static_cast<size_t>(started + more));
    } else {
      ++complete;
      EXPECT_EQ(spool.end().reason, EndReason::kError);
      EXPECT_EQ(spool.end().error, ENOSPC);
      EXPECT_GT(spool.end().dropped, 0U);
      EXPECT_LE(spool.end().dropped + spool.Of(RecordKind::kCall).size(), made);
      // Where there is no room for both, the end is the one that was written at once.
      if (spool.end().later_calls_known) {
        EXPECT_EQ(spool.end().dropped + spool.Of(RecordKind::kCall).size() + spool.end().later_calls, made);
      }
    }
    if (more == 200'000) {
      EXPECT_GT(spool.Of(RecordKind::kCall).size(), 1000U) << "what fits is kept";
    }
  }
  EXPECT_GE(complete, 2);
}

TEST_F(RecorderTest, C18_TheFileStaysWithinItsLimitAndSaysSo) {
  RecorderOptions options = Options();
  options.max_file_bytes = 200'000;
  const auto recorder = StartRecorder(options);
  uint64_t made = 0;
  while (recorder->recording()) recorder->Record(NumberedCall(made++));
  EXPECT_TRUE(recorder->Finish(kForeverNs));
  EXPECT_EQ(recorder->failure().problem, SpoolProblem::kWriting);
  EXPECT_EQ(recorder->failure().error, 0);
  EXPECT_LE(std::filesystem::file_size(Only()), 200'000U);
  EXPECT_GE(std::filesystem::file_size(Only()), 100'000U);
  const Spool spool = ReadSpool(Only());
  const auto calls = CheckThreads(spool);
  EXPECT_TRUE(spool.end().complete);
  EXPECT_EQ(spool.end().reason, EndReason::kLimit);
  EXPECT_GT(spool.end().dropped, 0U);
  // From the first record on, and all are accounted for.
  EXPECT_EQ(spool.Of(RecordKind::kCall)[0].record.bytes, 0U);
  EXPECT_LE(spool.end().dropped + spool.Of(RecordKind::kCall).size(), made);
  EXPECT_LT(calls.at(0), made);
}

TEST_F(RecorderTest, ARemovedDirectoryEndsTheRecording) {
  RecorderOptions options = Options();
  options.period_ns = 1'000'000;
  const auto recorder = StartRecorder(options);
  RecordCalls(recorder.get(), 100);
  std::filesystem::remove_all(directory_ + "/run");
  uint64_t more = 0;
  while (recorder->recording()) recorder->Record(NumberedCall(more++));
  EXPECT_TRUE(recorder->Finish(kForeverNs));
  EXPECT_EQ(recorder->failure().problem, SpoolProblem::kWriting);
  EXPECT_EQ(recorder->failure().error, EIDRM);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/run"));
}

TEST_F(RecorderTest, ThreadsThatComeAndGoShareAFewRings) {
  RecorderOptions options = Options();
  options.ring_records = 64;
  options.max_rings = 16;
  const auto recorder = StartRecorder(options);
  constexpr uint64_t kThreads = 3000;
  constexpr uint64_t kEach = 5;
  for (uint64_t t = 0; t < kThreads; t += 4) {
    std::vector<std::thread> threads;
    for (uint64_t i = t; i < t + 4; ++i) threads.emplace_back([&, i] { RecordCalls(recorder.get(), kEach, i); });
    for (std::thread& thread : threads) thread.join();
  }
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  const Spool spool = ReadSpool(Only());
  const auto calls = CheckThreads(spool, true);
  for (const auto& [thread, count] : calls) ASSERT_LE(count, kEach) << thread;
  // What is not there found no ring, and was counted.
  EXPECT_EQ(spool.Of(RecordKind::kCall).size() + spool.end().dropped, kThreads * kEach);
  EXPECT_GT(spool.Of(RecordKind::kCall).size(), 16 * kEach) << "no ring was used again";
  for (const auto& [number, thread] : spool.reader->threads()) ASSERT_TRUE(thread.ended) << number;
  uint64_t without_ring = 0;
  for (const SpoolRecord& record : spool.Of(RecordKind::kDrop)) {
    if (record.thread == 0) without_ring += record.record.bytes;
  }
  EXPECT_EQ(without_ring, spool.end().dropped);
}

TEST_F(RecorderTest, WhoFindsNoRingGetsOneWhenThereIsOneAgain) {
  RecorderOptions options = Options();
  options.max_rings = 1;
  const auto recorder = StartRecorder(options);
  std::atomic<int> stage{0};
  std::thread owner([&] {
    RecordCalls(recorder.get(), 10, 1);
    stage.store(1);
    stage.notify_all();
    stage.wait(1);
  });
  stage.wait(0);
  RecordCalls(recorder.get(), 7, 2);  // lost
  stage.store(2);
  stage.notify_all();
  owner.join();
  // Each try wakes the writer, which frees the ring; from then on they are kept.
  uint64_t tries = 0;
  while (t_recorder_place.ring == nullptr) {
    recorder->Record(NumberedCall(0, 2));
    ++tries;
  }
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  const Spool spool = ReadSpool(Only());
  EXPECT_EQ(spool.Of(RecordKind::kCall).size(), 11U);
  EXPECT_EQ(spool.end().dropped, 7 + tries - 1);
  EXPECT_EQ(CheckThreads(spool).at(1), 10U);
}

TEST_F(RecorderTest, ErrnoIsTheProgramsOwn) {
  RecorderOptions options = Options();
  options.max_rings = 1;
  options.ring_records = 8;
  const auto recorder = StartRecorder(options);
  const auto expect_kept = [&] {
    errno = 4242;
    for (int i = 0; i < 100; ++i) recorder->Record(NumberedCall(0));
    EXPECT_EQ(errno, 4242);
  };
  expect_kept();
  std::thread(expect_kept).join();  // without a ring
}

TEST_F(RecorderTest, TheProgramsSignalsAreNotForTheWriter) {
  const auto recorder = StartRecorder(Options());
  bool found = false;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (Slurp(task.path() / "comm") != "slipstream-rec\n") continue;
    found = true;
    const std::string status = Slurp(task.path() / "status");
    const uint64_t blocked = std::stoull(status.substr(status.find("SigBlk:") + 7), nullptr, 16);
    for (const int signal : {SIGINT, SIGTERM, SIGXFSZ, SIGUSR1, SIGCHLD, SIGPIPE, SIGPROF}) {
      EXPECT_NE(blocked & (uint64_t{1} << (signal - 1)), 0U) << signal;
    }
    EXPECT_EQ(blocked & (uint64_t{1} << (SIGSEGV - 1)), 0U);
  }
  EXPECT_TRUE(found);
  sigset_t mine;
  pthread_sigmask(SIG_SETMASK, nullptr, &mine);
  EXPECT_EQ(sigismember(&mine, SIGTERM), 0);
}

TEST_F(RecorderTest, OneAfterTheOther) {
  for (int i = 0; i < 3; ++i) {
    const auto recorder = StartRecorder(Options());
    RecordCalls(recorder.get(), 10);
    ASSERT_TRUE(recorder->Finish(kForeverNs));
  }
  std::string error;
  const std::vector<std::string> paths = ListSpools(directory_ + "/run", &error);
  ASSERT_EQ(paths.size(), 3U);
  for (const std::string& path : paths) EXPECT_EQ(CheckThreads(ReadSpool(path)).at(0), 10U);
}

}  // namespace
}  // namespace slipstream::tracer
