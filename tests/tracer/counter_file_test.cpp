// Counter files: what is written is read, and no file, however broken, hurts the reader.

#include "tracer/counter_file.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <vector>

#include "tracer/counter_reader.h"

namespace slipstream::tracer {
namespace {

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
}

TEST_F(CounterFileTest, AFileSizeLimitMeansNoFileAndNoSignal) {
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
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(CounterFileTest, AFullDiskMeansNoFileRatherThanABusError) {
  // A file system of 64 KiB, in a mount namespace of a child process of our own.
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", directory_.c_str(), "tmpfs", 0, "size=65536") != 0) {
      _exit(77);
    }
    std::string error;
    const CounterFile* file = Create(64, &error);
    const bool refused = file == nullptr && error.find("No space left") != std::string::npos;
    _exit(refused && std::filesystem::is_empty(directory_) ? 0 : 1);
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
  bytes[offsetof(FileHeader, format)] = 9;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  std::vector<std::string> problems;
  EXPECT_TRUE(ReadRunDirectory(directory_, &problems).empty());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("another version"), std::string::npos) << problems[0];
}

}  // namespace
}  // namespace slipstream::tracer
