// `slipstream export --chrome` and `--perfetto` as a user and a script meet them. What is in the files is compared in
// tests/trace_export.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/export_testing.h"

namespace slipstream::cli {
namespace {

using test::Finished;

class ExportTraceTest : public ExportTest, public ::testing::WithParamInterface<bool> {
 protected:
  std::string File() const { return directory_ + "/trace.out"; }
  // From `run`; of the format that the test is run for.
  ExportOptions To(const std::string& run, const std::string& file) const {
    ExportOptions options;
    options.run = run;
    (GetParam() ? options.perfetto : options.chrome) = file;
    return options;
  }
  ExportOptions Options() const { return To(run_, File()); }
  std::string Format() const { return GetParam() ? "perfetto" : "chrome"; }
  std::string Option() const { return "--" + Format(); }
};

TEST_P(ExportTraceTest, OfADirectoryASpoolAndADatabase) {
  Sample("0.spool", 1234, 0);
  ASSERT_EQ(RunIt(ExportTest::Options()).status, kSuccess);
  std::string first;
  for (const std::string& run : {run_, run_ + "/0.spool", database_}) {
    SCOPED_TRACE(run);
    const Finished finished = RunIt(To(run, File()));
    EXPECT_EQ(finished.status, kSuccess) << finished.err;
    EXPECT_EQ(finished.err, "");
    EXPECT_TRUE(finished.out.starts_with(File() + ": ")) << finished.out;
    EXPECT_NE(finished.out.find("iB, 1,234 calls of 1 process\n"), std::string::npos) << finished.out;
    const std::string bytes = tracer::Slurp(File());
    EXPECT_GT(bytes.size(), 1234U);
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first);
    struct stat facts {};
    ASSERT_EQ(stat(File().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600U);
    std::filesystem::remove(File());
  }
  EXPECT_EQ(Names(), (std::vector<std::string>{"run", "trace.sqlite"}));
}

TEST_P(ExportTraceTest, TheSecondTimeTheRunIsNotReadAgain) {
  Sample("0.spool", 5, 0, /*ends=*/false);
  const Finished first = RunIt(Options());
  EXPECT_EQ(first.status, kSuccess) << first.err;
  EXPECT_NE(first.out.find("0.spool: incomplete: "), std::string::npos) << first.out;
  const std::string bytes = tracer::Slurp(File());
  // What is in it now, and in no spool.
  trace_db::Execute(run_ + "/slipstream-cache.sqlite", "UPDATE SLIPSTREAM_PROCESSES SET executable = 'changed'");
  ExportOptions options = Options();
  options.force = true;
  const Finished second = RunIt(options);
  EXPECT_EQ(second.status, kSuccess) << second.err;
  EXPECT_NE(second.out.find("0.spool: incomplete: "), std::string::npos) << second.out;
  EXPECT_NE(tracer::Slurp(File()), bytes);
  options.input.rebuild = true;
  EXPECT_EQ(RunIt(options).out, first.out);
  EXPECT_EQ(tracer::Slurp(File()), bytes);
}

TEST_P(ExportTraceTest, ForScripts) {
  Sample("0.spool", 5, 3);
  tracer::Spit(run_ + "/1.spool", "");
  ExportOptions options = Options();
  options.json = true;
  const Finished finished = RunIt(options);
  EXPECT_EQ(finished.status, kPartial) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["schema"], "slipstream-export-1");
  EXPECT_EQ(json["format"], Format());
  EXPECT_EQ(json["file"], File());
  EXPECT_EQ(json["bytes"], std::filesystem::file_size(File()));
  EXPECT_EQ(json["partial"], true);
  EXPECT_EQ(json["calls"], 5);
  EXPECT_EQ(json["kernels"], 0);
  EXPECT_EQ(json["left_out"], 0);
  ASSERT_EQ(json["processes"].size(), 1U);
  EXPECT_EQ(json["processes"][0]["pid"], 103);
  EXPECT_EQ(json["processes"][0]["shown_pid"], 103);
  EXPECT_EQ(json["processes"][0]["rank"], 3);
  EXPECT_EQ(json["processes"][0]["host"], "node");
  EXPECT_EQ(json["processes"][0]["executable"], "python3");
  ASSERT_EQ(json["unreadable"].size(), 1U);
  EXPECT_EQ(json["unreadable"][0]["spool"], "1.spool");
}

TEST_P(ExportTraceTest, DamageIsSaidAndTheRestIsExported) {
  Sample("0.spool", 3000, 0);
  std::string bytes = tracer::Slurp(run_ + "/0.spool");
  bytes[bytes.size() / 2] ^= 1;
  tracer::Spit(run_ + "/0.spool", bytes);
  const Finished finished = RunIt(Options());
  EXPECT_EQ(finished.status, kPartial);
  EXPECT_NE(finished.out.find(" 2,000 calls of 1 process\n"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("0.spool: damaged: 62.6 KiB passed over, 1 chunk missing"), std::string::npos)
      << finished.out;
}

TEST_P(ExportTraceTest, OfOneRank) {
  Sample("0.spool", 5, 0);
  Sample("1.spool", 7, 1);
  ExportOptions options = Options();
  options.rank = 1;
  Finished finished = RunIt(options);
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_NE(finished.out.find(" 7 calls of 1 process\n"), std::string::npos) << finished.out;
  options.rank = 2;
  options.force = true;
  finished = RunIt(options);
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_EQ(finished.err, "slipstream export: " + run_ + ": no process of rank 2\n  There is: 0, 1.\n");
}

TEST_P(ExportTraceTest, TwoProcessesOfOneNumber) {
  Sample("0.spool", 5, 0);
  std::filesystem::copy(run_ + "/0.spool", run_ + "/1.spool");
  const Finished finished = RunIt(Options());
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_NE(finished.out.find("python3 (pid 100 on node) is process 10000002 in it: another one has its number\n"),
            std::string::npos)
      << finished.out;
}

TEST_P(ExportTraceTest, ErrorsSayWhatWhereAndWhatNext) {
  Finished finished = RunIt(Options());
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find(run_ + ": no .spool file in it\n"), std::string::npos) << finished.err;

  Sample("0.spool", 5, 0);
  finished = RunIt(To(run_, directory_ + "/missing/x"));
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("missing/x: cannot be made: No such file or directory\n  Name a file"), std::string::npos)
      << finished.err;

  tracer::Spit(File(), "x");
  finished = RunIt(Options());
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_EQ(finished.err, "slipstream export: " + File() + ": exists; --force replaces it\n");
  EXPECT_EQ(tracer::Slurp(File()), "x");
  ExportOptions forced = Options();
  forced.force = true;
  EXPECT_EQ(RunIt(forced).status, kSuccess);
  EXPECT_NE(tracer::Slurp(File()), "x");

  // What is to be read is never replaced.
  ASSERT_EQ(RunIt(ExportTest::Options()).status, kSuccess);
  for (const auto& [run, file] : std::vector<std::pair<std::string, std::string>>{
           {run_, run_ + "/0.spool"}, {run_ + "/0.spool", run_ + "/0.spool"}, {database_, database_}}) {
    const std::string before = tracer::Slurp(file);
    ExportOptions onto = To(run, file);
    onto.force = true;
    finished = RunIt(onto);
    EXPECT_EQ(finished.status, kFailed);
    EXPECT_NE(finished.err.find("is what is to be read"), std::string::npos) << finished.err;
    EXPECT_TRUE(tracer::Slurp(file) == before);
  }

  const std::string other = directory_ + "/other.sqlite";
  trace_db::Execute(other, "CREATE TABLE x (y)");
  finished = RunIt(To(other, File() + "2"));
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("a database that slipstream did not make\n  Name"), std::string::npos) << finished.err;
}

TEST_P(ExportTraceTest, NoRoom) {
  Sample("0.spool", 20'000, 0);
  ASSERT_EQ(RunIt(ExportTest::Options()).status, kSuccess);
  ASSERT_EQ(RunIt(To(database_, File())).status, kSuccess);
  const auto whole = std::filesystem::file_size(File());
  std::filesystem::remove(File());
  for (const auto limit : {uint64_t{0}, uint64_t{whole / 2}, uint64_t{whole - 1}}) {
    SCOPED_TRACE(limit);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const Finished finished = RunIt(To(database_, File()), [&] {
      const rlimit few = {limit, limit};
      setrlimit(RLIMIT_FSIZE, &few);
      signal(SIGXFSZ, SIG_DFL);
      // What it says must not count.
      dup2(ends[1], STDERR_FILENO);
    });
    close(ends[1]);
    char said[4096];
    const ssize_t got = read(ends[0], said, sizeof(said));
    close(ends[0]);
    EXPECT_EQ(finished.status, kFailed);
    EXPECT_NE(std::string(said, static_cast<size_t>(std::max<ssize_t>(got, 0))).find("trace.out: no room: "),
              std::string::npos)
        << std::string(said, static_cast<size_t>(std::max<ssize_t>(got, 0)));
    EXPECT_EQ(Names(), (std::vector<std::string>{"run", "trace.sqlite"}));
  }
}

// As Ctrl-C does it: nothing is left, and the process ends by the signal.
TEST_P(ExportTraceTest, Interrupted) {
  Sample("0.spool", 400'000, 0);
  ASSERT_EQ(RunIt(ExportTest::Options()).status, kSuccess);
  // From spools, of which a database is made first, and from a database.
  const std::string scratch = directory_ + "/run/tmp";
  std::filesystem::create_directory(scratch);
  for (const std::string& run : {run_ + "/0.spool", database_}) {
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGINT, SIG_DFL);  // who starts tests in the background ignores it
      setenv("TMPDIR", scratch.c_str(), 1);
      const int null = open("/dev/null", O_WRONLY);
      dup2(null, STDERR_FILENO);
      _exit(Export(To(run, File()), "1.2.3"));
    }
    // Until there is something that must go away again.
    while (Names().size() == 2 && std::filesystem::is_empty(scratch) && waitpid(child, nullptr, WNOHANG) == 0) {
      usleep(100);
    }
    ASSERT_EQ(kill(child, SIGINT), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), SIGINT);
    EXPECT_EQ(Names(), (std::vector<std::string>{"run", "trace.sqlite"}));
    EXPECT_TRUE(std::filesystem::is_empty(scratch));
  }
}

TEST_P(ExportTraceTest, ProgressIsForTerminals) {
  Sample("0.spool", 20'000, 0);
  ASSERT_EQ(RunIt(ExportTest::Options()).status, kSuccess);
  const std::string shown = OnTerminal(To(database_, File()));
  EXPECT_NE(shown.find("export: writing 20 % of 20,000 rows"), std::string::npos) << shown;
  const size_t cleared = shown.rfind("\r\033[K");
  ASSERT_NE(cleared, std::string::npos);
  EXPECT_TRUE(shown.substr(cleared + 4).starts_with(File())) << shown;
}

TEST_P(ExportTraceTest, OnTheCommandLine) {
  Sample("0.spool", 5, 0);
  Finished finished = RunCommand({"export", run_});
  EXPECT_EQ(finished.status, kUsage);
  EXPECT_NE(finished.err.find(Option() + " FILE"), std::string::npos) << finished.err;
  finished = RunCommand({"export", Option(), File()});
  EXPECT_EQ(finished.status, kUsage);
  EXPECT_NE(finished.err.find("no run"), std::string::npos) << finished.err;
  finished = RunCommand({"export", run_, Option(), database_, "--sqlite", database_});
  EXPECT_EQ(finished.status, kUsage);
  EXPECT_NE(finished.err.find("is named twice"), std::string::npos) << finished.err;
  finished = RunCommand({"export", run_, "--sqlite", database_, "--rank", "0"});
  EXPECT_EQ(finished.status, kUsage);
  EXPECT_NE(finished.err.find("--rank is for --chrome and --perfetto"), std::string::npos) << finished.err;
  EXPECT_EQ(RunCommand({"export", run_, Option(), File(), "--rank", "x"}).status, kUsage);
  EXPECT_EQ(Names(), std::vector<std::string>{"run"});
  finished = RunCommand({"export", run_, Option(), File(), "--rank", "0", "--json"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(nlohmann::json::parse(finished.out)["calls"], 5);
}

INSTANTIATE_TEST_SUITE_P(Export, ExportTraceTest, ::testing::Bool(),
                         [](const auto& format) { return std::string(format.param ? "perfetto" : "chrome"); });

}  // namespace
}  // namespace slipstream::cli
