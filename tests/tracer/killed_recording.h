// A process that is killed while it records: at any moment, between records, in the middle of a write, before the first
// one.
//
// Threading: none of its own.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/tracer/spool_testing.h"
#include "tracer/spool/process_facts.h"

namespace slipstream::tracer {

struct KilledRecording {
  std::string path;
  Spool spool;
};

// Makes the directory of `options`, in which a process records numbered calls of so many threads until it has come as
// far as `random` says: less than `steps` thousands of calls, and some more. What it left has been read, and is of that
// process and whole but for the last chunk.
inline void RecordUntilKilled(const RecorderOptions& options, uint64_t threads, unsigned steps, std::mt19937* random,
                              KilledRecording* killed) {
  ASSERT_EQ(mkdir(options.directory.c_str(), S_IRWXU), 0);
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    SpoolFailure why;
    Recorder* const recorder = Recorder::Start(options, &why);
    if (recorder == nullptr) _exit(1);
    for (uint64_t t = 0; t < threads; ++t) {
      std::thread([=] {
        for (uint64_t i = 0;; ++i) {
          recorder->Record(NumberedCall(i, t));
          if (i % 1000 == 0 && write(fds[1], "x", 1) != 1) _exit(1);
        }
      }).detach();
    }
    while (true) pause();
  }
  close(fds[1]);
  // As far as the child has come, which no clock decides.
  char byte = 0;
  for (auto step = static_cast<int>((*random)() % steps); step >= 0; --step) ASSERT_EQ(read(fds[0], &byte, 1), 1);
  for (auto spin = (*random)() % 300'000; spin > 0; --spin) asm volatile("");
  ASSERT_EQ(kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  close(fds[0]);

  std::string error;
  const std::vector<std::string> paths = ListSpools(options.directory, &error);
  ASSERT_EQ(paths.size(), 1U) << error;
  killed->path = paths[0];
  killed->spool = ReadSpool(paths[0]);
  ASSERT_NE(killed->spool.reader, nullptr) << killed->spool.error;
  EXPECT_TRUE(killed->spool.end().left_why.empty() || killed->spool.end().left_why == "the last chunk is cut")
      << killed->spool.end().left_why;
  EXPECT_EQ(killed->spool.reader->facts().at(kFactPid), std::to_string(child));
}

}  // namespace slipstream::tracer
