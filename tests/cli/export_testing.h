// What tests of `slipstream export` share: recorded runs of some calls, and the command in a process of its own.
//
// Threading: none of its own.
#pragma once

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/trace_db/trace_db_testing.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/export.h"

namespace slipstream::cli {

class ExportTest : public trace_db::TraceDbTest {
 protected:
  // A process of rank `rank` that made `calls` calls, and its end if it had one.
  void Sample(const std::string& name, uint64_t calls, int rank, bool ends = true) {
    trace_db::HandSpool spool(run_, name);
    spool.Facts({{"pid", std::to_string(100 + rank)},
                 {"host", "node"},
                 {"rank", std::to_string(rank)},
                 {"executable", "/usr/bin/python3"}});
    spool.Name(tracer::NameTable::kHooks, 0, "cudaMalloc");
    spool.Clock(999, 1001, 1'000'000'000'000'000'000);
    spool.Thread(1, 100, "main");
    constexpr uint64_t kChunk = 1000;
    for (uint64_t i = 0; i < calls; i += kChunk) {
      std::vector<tracer::TraceRecord> records;
      for (uint64_t j = i; j < std::min(i + kChunk, calls); ++j) {
        records.push_back(trace_db::CallAt(1999 + 1000 * j, 2499 + 1000 * j));
      }
      spool.Pass(1000 * i);
      spool.Records(1, records);
    }
    if (ends) {
      spool.End();
    } else {
      spool.Flush();
    }
  }
  ExportOptions Options() const { return {.run = run_, .sqlite = database_}; }
  static test::Finished RunIt(
      const ExportOptions& options, const std::function<void()>& before = [] {}) {
    return test::InChild([&] {
      before();
      return Export(options, "1.2.3");
    });
  }
  // What it shows there.
  static std::string OnTerminal(const ExportOptions& options) {
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child == 0) _exit(Export(options, "1.2.3"));
    std::string shown;
    char buffer[4096];
    // EIO: the other end is closed.
    for (ssize_t got = 0; (got = read(terminal, buffer, sizeof(buffer))) > 0;)
      shown.append(buffer, static_cast<size_t>(got));
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    close(terminal);
    EXPECT_EQ(status, 0);
    return shown;
  }
  static test::Finished RunCommand(std::vector<std::string> words) {
    words.insert(words.begin(), SLIPSTREAM_COMMAND);
    return test::RunProgram(words);
  }
};

}  // namespace slipstream::cli
