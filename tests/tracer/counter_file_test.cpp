// Counter files: what is written is read, and no file, however broken, hurts the reader.

#include "tracer/counters/counter_file.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tracer/counters/counter_reader.h"

namespace slipstream::tracer {
namespace {

constexpr const char* kSampleDecisions[] = {"transfer.h2d.promoted.small", "transfer.sync.skipped",
                                            "transfer.h2d.declined.full"};

class CounterFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "slipstream-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // Counter files are never destroyed; kept here, so that the leak checker finds them.
  CounterFile* Create(uint32_t max_threads, std::string* error, const ProcessIdentity& identity = {}) {
    static auto* const kept = new std::vector<CounterFile*>;
    return kept->emplace_back(CounterFile::Create(directory_, max_threads, identity, error));
  }

  // One file with known contents; returns its path.
  std::string WriteSample() {
    std::string error;
    CounterFile* file = Create(2, &error, {.rank = 5, .local_rank = 1});
    EXPECT_NE(file, nullptr) << error;
    file->AddFact("runtime", "13000 /lib/libcudart.so.13");
    file->AddFact("note", "two\nlines");
    file->SetBound(HookId::cudaMalloc, true);
    ThreadBlock* block = file->Claim(1234);
    CallCounter& malloc_counter = block->hooks[Index(HookId::cudaMalloc)];
    malloc_counter.calls.store(3);
    malloc_counter.errors.store(1);
    malloc_counter.bytes.store(4096);
    malloc_counter.time_ns.store(777);
    block->copies[1].calls.store(2);
    block->copies[1].bytes.store(64);
    file->NameDecisions(kSampleDecisions);
    block->decisions[0].count.store(1);
    block->decisions[0].bytes.store(4096);
    block->decisions[0].time_ns.store(55);
    block->decisions[2].count.store(1);
    ThreadBlock* const other = file->Claim(1235);
    other->decisions[0].count.store(1);
    other->decisions[0].bytes.store(1);
    other->decisions[0].time_ns.store(1);
    return std::filesystem::directory_iterator(directory_)->path();
  }

  static std::string Slurp(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  std::string directory_;
};

const FunctionCounts& Find(const ProcessCounts& counts, const std::string& name) {
  static const FunctionCounts kNone;
  for (const FunctionCounts& function : counts.functions) {
    if (function.name == name) return function;
  }
  ADD_FAILURE() << "no function " << name;
  return kNone;
}

TEST_F(CounterFileTest, WhatIsWrittenIsRead) {
  const std::string path = WriteSample();
  ProcessCounts counts;
  std::string error;
  ASSERT_TRUE(ReadCounterFile(path, &counts, &error)) << error;
  EXPECT_EQ(counts.pid, getpid());
  EXPECT_EQ(counts.rank, 5);
  EXPECT_EQ(counts.local_rank, 1);
  EXPECT_EQ(counts.executable, "tracer_test");
  EXPECT_EQ(counts.functions.size(), kHookCount);
  const FunctionCounts& malloc_counts = Find(counts, "cudaMalloc");
  EXPECT_EQ(malloc_counts.calls, 3U);
  EXPECT_EQ(malloc_counts.errors, 1U);
  EXPECT_EQ(malloc_counts.bytes, 4096U);
  EXPECT_EQ(malloc_counts.time_ns, 777U);
  EXPECT_EQ(malloc_counts.group, "allocate");
  EXPECT_TRUE(malloc_counts.bound);
  EXPECT_FALSE(Find(counts, "cudaFree").bound);
  EXPECT_EQ(counts.copies[1].kind, "host_to_device");
  EXPECT_EQ(counts.copies[1].bytes, 64U);
  EXPECT_EQ(counts.FactsOf("runtime"), std::vector<std::string>{"13000 /lib/libcudart.so.13"});
  EXPECT_EQ(counts.FactsOf("note"), std::vector<std::string>{"two lines"});
}

TEST_F(CounterFileTest, DecisionsAreReadByNameAndTheZeroOnesToo) {
  const std::string path = WriteSample();
  ProcessCounts counts;
  std::string error;
  ASSERT_TRUE(ReadCounterFile(path, &counts, &error)) << error;
  ASSERT_EQ(counts.decisions.size(), 3U);
  EXPECT_EQ(counts.decisions[0].name, "transfer.h2d.promoted.small");
  EXPECT_EQ(counts.decisions[0].count, 2U);
  EXPECT_EQ(counts.decisions[0].bytes, 4097U);
  EXPECT_EQ(counts.decisions[0].time_ns, 56U);
  EXPECT_EQ(counts.decisions[1].name, "transfer.sync.skipped");
  EXPECT_EQ(counts.decisions[1].count, 0U);
  EXPECT_EQ(counts.decisions[2].name, "transfer.h2d.declined.full");
  EXPECT_EQ(counts.decisions[2].count, 1U);
  EXPECT_EQ(counts.decisions[2].bytes, 0U);
}

TEST_F(CounterFileTest, MemoryIsReadInTheOrderOfTime) {
  std::string error;
  CounterFile* file = Create(1, &error);
  ASSERT_NE(file, nullptr) << error;
  file->RecordMemory({.device = 1, .live_bytes = 10});
  file->RecordMemory({.device = 0,
                      .live_bytes = uint64_t{5} << 32,
                      .idle_bytes = 6,
                      .parked_bytes = 7,
                      .peak_idle_bytes = 8,
                      .trims = 9,
                      .retries = 10});
  file->RecordMemory({.device = 1, .live_bytes = 11});
  std::vector<std::string> problems;
  const auto processes = ReadRunDirectory(directory_, &problems);
  ASSERT_EQ(processes.size(), 1U);
  const std::vector<MemoryCounts>& memory = processes[0].memory;
  ASSERT_EQ(memory.size(), 3U);
  EXPECT_EQ(memory[0].number, 1U);
  EXPECT_EQ(memory[0].figures.device, 1);
  EXPECT_LE(memory[0].time_ns, memory[1].time_ns);
  EXPECT_EQ(memory[1].figures.live_bytes, uint64_t{5} << 32);
  EXPECT_EQ(memory[1].figures.idle_bytes, 6U);
  EXPECT_EQ(memory[1].figures.parked_bytes, 7U);
  EXPECT_EQ(memory[1].figures.peak_idle_bytes, 8U);
  EXPECT_EQ(memory[1].figures.trims, 9U);
  EXPECT_EQ(memory[1].figures.retries, 10U);
  const std::vector<MemoryCounts> last = processes[0].LastMemory();
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(last[0].figures.device, 0);
  EXPECT_EQ(last[1].figures.live_bytes, 11U);
}

TEST_F(CounterFileTest, TheOldestMemorySamplesMakeRoom) {
  std::string error;
  CounterFile* file = Create(1, &error);
  ASSERT_NE(file, nullptr) << error;
  for (uint64_t i = 1; i <= kMemorySamples + 5; ++i) file->RecordMemory({.live_bytes = i});
  // What follows the samples in the file is block 0.
  ThreadBlock* shared = file->Claim(1);
  while (!file->IsShared(shared)) shared = file->Claim(1);
  EXPECT_EQ(shared->owner.load(), 0U);
  std::vector<std::string> problems;
  const auto processes = ReadRunDirectory(directory_, &problems);
  ASSERT_EQ(processes.size(), 1U);
  ASSERT_EQ(processes[0].memory.size(), kMemorySamples);
  EXPECT_EQ(processes[0].memory.front().figures.live_bytes, 6U);
  EXPECT_EQ(processes[0].memory.front().number, 6U);
  EXPECT_EQ(processes[0].memory.back().figures.live_bytes, kMemorySamples + 5);
}

TEST_F(CounterFileTest, NamesOfDecisionsAreGivenOnceAndNotTooMany) {
  std::string error;
  CounterFile* file = Create(1, &error);
  ASSERT_NE(file, nullptr) << error;
  EXPECT_EQ(file->decision_count(), 0U);
  const std::vector<std::string> names = [] {
    std::vector<std::string> many;
    for (size_t i = 0; i < kMaxDecisions + 3; ++i) many.push_back("d" + std::to_string(i));
    many[1] = std::string(200, 'n');
    return many;
  }();
  std::vector<const char*> pointers;
  pointers.reserve(names.size());
  for (const std::string& name : names) pointers.push_back(name.c_str());
  file->NameDecisions(pointers);
  file->NameDecisions(std::span(pointers).first(1));  // the second time: nothing
  EXPECT_EQ(file->decision_count(), kMaxDecisions);

  std::vector<std::string> problems;
  const auto processes = ReadRunDirectory(directory_, &problems);
  ASSERT_EQ(processes.size(), 1U);
  ASSERT_EQ(processes[0].decisions.size(), kMaxDecisions);
  EXPECT_EQ(processes[0].decisions[1].name, std::string(kNameBytes - 1, 'n'));
  EXPECT_EQ(processes[0].decisions[kMaxDecisions - 1].name, "d127");
}

TEST_F(CounterFileTest, FactsThatDoNotFitAreDroppedWhole) {
  std::string error;
  CounterFile* file = Create(1, &error);
  ASSERT_NE(file, nullptr) << error;
  file->AddFact("first", "kept");
  file->AddFact("huge", std::string(kFactsBytes, 'x'));
  file->AddFact("last", "kept too");
  std::vector<std::string> problems;
  const auto processes = ReadRunDirectory(directory_, &problems);
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_EQ(processes[0].facts.size(), 2U);
}

TEST_F(CounterFileTest, ThreadsGetBlocksOfTheirOwnUntilThereAreNone) {
  std::string error;
  CounterFile* file = Create(2, &error);
  ASSERT_NE(file, nullptr) << error;
  ThreadBlock* a = file->Claim(11);
  ThreadBlock* b = file->Claim(12);
  ThreadBlock* c = file->Claim(13);
  EXPECT_NE(a, b);
  EXPECT_FALSE(file->IsShared(a));
  EXPECT_FALSE(file->IsShared(b));
  EXPECT_TRUE(file->IsShared(c));
  file->Release(a);
  EXPECT_EQ(file->Claim(14), a);
  file->Release(c);  // the shared block is nobody's to release
  EXPECT_TRUE(file->IsShared(file->Claim(15)));
}

TEST_F(CounterFileTest, NeverThroughASymbolicLinkAndNeverOverAFile) {
  // The name holds pid and time, so the file that would be hit cannot be named ahead; a directory that
  // is a dangling link can.
  std::string error;
  EXPECT_EQ(CounterFile::Create(directory_ + "/gone", 1, {}, &error), nullptr);
  EXPECT_NE(error.find("cannot create"), std::string::npos) << error;
  std::filesystem::create_directory(directory_ + "/real");
  std::filesystem::create_directory_symlink("real", directory_ + "/link");
  EXPECT_EQ(CounterFile::Create(directory_ + "/link", 1, {}, &error), nullptr);
  EXPECT_NE(error.find("cannot create"), std::string::npos) << error;
  EXPECT_TRUE(std::filesystem::is_empty(directory_ + "/real"));
}

TEST_F(CounterFileTest, S59_NotWhereEverybodyCanWriteAndNotInSomebodyElsesDirectory) {
  using std::filesystem::perms;
  std::string error;
  for (const perms more : {perms::others_write, perms::others_write | perms::sticky_bit}) {
    std::filesystem::permissions(directory_, perms::owner_all | more);
    EXPECT_EQ(Create(1, &error), nullptr);
    EXPECT_EQ(error, "everybody may write to " + directory_);
  }
  std::filesystem::permissions(directory_, perms::owner_all | perms::group_all);
  EXPECT_NE(Create(1, &error), nullptr) << error;
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(chown(directory_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(Create(1, &error), nullptr);
  EXPECT_EQ(error, directory_ + " belongs to another user");
}

TEST_F(CounterFileTest, S59_OnlyTheUserCanReadItWhateverTheUmask) {
  for (const mode_t mask : {0U, 0377U}) {
    std::filesystem::remove_all(directory_ + "/run");
    std::filesystem::create_directory(directory_ + "/run");
    std::string error;
    const mode_t before = umask(mask);
    static auto* const kept = new std::vector<CounterFile*>;  // as in Create()
    kept->push_back(CounterFile::Create(directory_ + "/run", 1, {}, &error));
    umask(before);
    ASSERT_NE(kept->back(), nullptr) << error;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/run")) {
      EXPECT_EQ(entry.status().permissions(), std::filesystem::perms(0600)) << std::oct << mask;
    }
  }
}

// What the directory says where a process could not count; there is nothing else in it.
class CounterFileReasonTest : public CounterFileTest {
 protected:
  std::string OnlyProblem() const {
    std::vector<std::string> problems;
    const auto processes = ReadRunDirectory(directory_, &problems);
    const bool alone = std::distance(std::filesystem::directory_iterator(directory_), {}) == 1;
    return alone && processes.empty() && problems.size() == 1 ? problems[0] : "something else is there";
  }
};

TEST_F(CounterFileReasonTest, AFileSizeLimitMeansNoFileAndNoSignal) {
  // Going past RLIMIT_FSIZE raises SIGXFSZ, which by default ends the process: it must not come to that.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  std::string error;
  CounterFile* file = Create(64, &error);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(file, nullptr);
  EXPECT_NE(error.find("RLIMIT_FSIZE"), std::string::npos) << error;
  EXPECT_TRUE(std::regex_match(
      OnlyProblem(), std::regex("process [0-9]+ \\(tracer_test\\): its calls could not be counted: RLIMIT_FSIZE .*")))
      << OnlyProblem();
}

TEST_F(CounterFileReasonTest, AFullDiskMeansNoFileRatherThanABusError) {
  // A file system of 64 KiB, in a mount namespace of a child process of our own.
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", directory_.c_str(), "tmpfs", 0, "size=65536,mode=700") != 0) {
      _exit(77);
    }
    std::string error;
    const CounterFile* file = Create(64, &error);
    const bool refused = file == nullptr && error.find("No space left") != std::string::npos;
    const bool said = OnlyProblem().ends_with(": its calls could not be counted: No space left on device");
    _exit(refused && said ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "may not mount a small file system here";
  EXPECT_EQ(status, 0);
}

TEST_F(CounterFileTest, EveryTruncationIsAnErrorAndNotACrash) {
  const std::string path = WriteSample();
  const std::string whole = Slurp(path);
  const std::string cut = directory_ + "/cut.counters";
  for (size_t size = 0; size < whole.size(); size += size < 512 ? 1 : 4099) {
    std::ofstream(cut, std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    ProcessCounts counts;
    std::string error;
    EXPECT_FALSE(ReadCounterFile(cut, &counts, &error)) << size;
    EXPECT_NE(error, "");
  }
}

TEST_F(CounterFileTest, RandomBytesNeverHurtTheReader) {
  const std::string path = WriteSample();
  const std::string whole = Slurp(path);
  const std::string broken = directory_ + "/broken.counters";
  std::mt19937 random(20240611);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = whole;
    // Mostly the header, where every number decides how much is read.
    for (int flips = 1 + static_cast<int>(random() % 8); flips > 0; --flips) {
      bytes[random() % (round % 2 == 0 ? sizeof(FileHeader) : bytes.size())] = static_cast<char>(random());
    }
    std::ofstream(broken, std::ios::binary | std::ios::trunc) << bytes;
    ProcessCounts counts;
    std::string error;
    const bool read = ReadCounterFile(broken, &counts, &error);
    EXPECT_EQ(read, error.empty());
  }
}

TEST_F(CounterFileTest, AnotherFormatIsNamed) {
  const std::string path = WriteSample();
  std::string bytes = Slurp(path);
  bytes[offsetof(FileHeader, format)] = 3;  // the one whose decisions were the process's
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  std::vector<std::string> problems;
  EXPECT_TRUE(ReadRunDirectory(directory_, &problems).empty());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("another version of slipstream (format 3, this one reads 5)"), std::string::npos)
      << problems[0];
}

TEST_F(CounterFileTest, DamagedDecisionsAreSaidAndNothingBehindThemIsRead) {
  const std::string path = WriteSample();
  const std::string whole = Slurp(path);
  const auto write = [&](size_t at, uint32_t value) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  };
  ProcessCounts counts;
  std::string error;
  for (const uint32_t many : {kMaxDecisions + 1, 0x80000000U, 0xffffffffU}) {
    write(offsetof(FileHeader, decision_count), many);
    EXPECT_FALSE(ReadCounterFile(path, &counts, &error));
    EXPECT_NE(error.find("damaged counter file"), std::string::npos) << error;
  }
  write(offsetof(FileHeader, decision_bytes), 128);
  EXPECT_FALSE(ReadCounterFile(path, &counts, &error));
  EXPECT_NE(error.find("another version"), std::string::npos) << error;
  // A name without its end takes nothing of the numbers behind it, and a row without a name is no row.
  std::string bytes = whole;
  bytes.replace(DecisionsOffset(kHookCount), kNameBytes, std::string(kNameBytes, 'x'));
  bytes[DecisionsOffset(kHookCount) + sizeof(DecisionEntry)] = '\0';
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  error.clear();
  ASSERT_TRUE(ReadCounterFile(path, &counts, &error)) << error;
  ASSERT_EQ(counts.decisions.size(), 2U);
  EXPECT_EQ(counts.decisions[0].name, std::string(kNameBytes, 'x'));
  EXPECT_EQ(counts.decisions[0].count, 2U);
  EXPECT_EQ(counts.decisions[1].name, "transfer.h2d.declined.full");
}

TEST_F(CounterFileTest, AProcessThatDiedBeforeItNamedItsDecisionsHasNone) {
  std::string error;
  ASSERT_NE(Create(1, &error), nullptr) << error;
  std::vector<std::string> problems;
  const auto processes = ReadRunDirectory(directory_, &problems);
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_TRUE(processes[0].decisions.empty());
}

}  // namespace
}  // namespace slipstream::tracer
