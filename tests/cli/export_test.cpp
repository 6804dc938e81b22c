// `slipstream export` as a user and a script meet it.

#include "tools/cli/export.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/export_testing.h"
#include "tools/cli/exit_codes.h"

namespace slipstream::cli {
namespace {

using test::Finished;

TEST_F(ExportTest, SaysWhatIsThere) {
  Sample("0.spool", 12'345, 0);
  Sample("1.spool", 3, 1);
  const Finished finished = RunIt(Options());
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(finished.err, "");
  const std::string size = std::to_string(std::filesystem::file_size(database_));
  EXPECT_TRUE(finished.out.starts_with(database_ + ": ")) << finished.out;
  EXPECT_NE(finished.out.find(
                " MiB, 12,348 calls of 2 processes\n"
                "  process                                              calls      from        to     "
                "dropped\n"
                "  python3 (pid 100, rank 0)                           12,345      0 ns   12.3 ms           -\n"
                "  python3 (pid 101, rank 1)                                3      0 ns   3.50 us           -\n"
                "  all                                                 12,348      0 ns   12.3 ms           -\n"),
            std::string::npos)
      << finished.out;
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_CALLS"), "12348");
  EXPECT_EQ(One("SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_PRODUCT_VERSION'"), "1.2.3");
}

TEST_F(ExportTest, ChecksARunWithoutMakingAFile) {
  Sample("0.spool", 3, 0);
  ExportOptions options = Options();
  options.sqlite.reset();
  options.check = true;
  const Finished well = RunIt(options);
  EXPECT_EQ(well.status, 0) << well.out << well.err;
  EXPECT_NE(well.out.find("1 of 1 file: nothing missing that is known"), std::string::npos) << well.out;
  EXPECT_EQ(Names(), std::vector<std::string>{"run"});

  Sample("1.spool", 3, 1, /*ends=*/false);
  options.json = true;
  const Finished killed = RunIt(options);
  EXPECT_EQ(killed.status, 1) << killed.err;
  const auto json = nlohmann::json::parse(killed.out);
  EXPECT_EQ(json["schema"], "slipstream-check-1");
  EXPECT_EQ(json["whole"], false);
  EXPECT_EQ(json["processes"][0]["whole"], true);
  EXPECT_EQ(json["processes"][1]["lacks"][0]["about"], "killed");

  options.sqlite = database_;
  EXPECT_EQ(RunIt(options).status, kUsage);
  options.sqlite.reset();
  options.run = directory_ + "/no such run";
  EXPECT_EQ(RunIt(options).status, 2);
  EXPECT_EQ(Names(), std::vector<std::string>{"run"});
}

TEST_F(ExportTest, RecordsThatAreFewerThanWasCountedAreSaid) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    spool.Name(tracer::NameTable::kHooks, 0, "cudaMalloc");
    spool.Thread(1, 100, "main");
    tracer::TraceRecord call = trace_db::CallAt(1000, 2000);
    call.number = 1;
    spool.Records(1, {call});
    const tracer::Counted two = {.calls = 2};
    spool.Counters(tracer::NameTable::kHooks, {{.number = 0, .at_least = two, .at_most = two}});
    spool.End();
  }
  const std::string warning =
      "  WARNING: 0.spool: cudaMalloc_v3020: 2 calls counted, 1 in the trace, 0 records known to be missing\n";
  ExportOptions options = Options();
  const Finished said = RunIt(options);
  EXPECT_EQ(said.status, kSuccess);
  EXPECT_TRUE(said.out.ends_with(warning)) << said.out;
  EXPECT_EQ(said.err, "");
  options.force = true;
  options.json = true;
  const Finished for_scripts = RunIt(options);
  EXPECT_EQ(for_scripts.err, warning);
  EXPECT_EQ(nlohmann::json::parse(for_scripts.out)["calls"], 1);
}

TEST_F(ExportTest, PausesOfTheRecordingAreSaid) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    spool.Facts({{"pid", "100"}, {"host", "node"}, {"rank", "0"}});
    spool.Name(tracer::NameTable::kHooks, 0, "cudaMalloc");
    spool.Clock(999, 1001, 1'000'000'000'000'000'000);
    spool.Thread(1, 100, "main");
    spool.Records(0, {tracer::SwitchRecord(3000, false), tracer::SwitchRecord(5000, true),
                      tracer::SwitchRecord(6000, false), tracer::SwitchRecord(7500, true)});
    spool.Records(1, {trace_db::CallAt(1000, 2000), trace_db::CallAt(8000, 9000)});
    spool.End();
  }
  Sample("1.spool", 3, 1);
  // 2000 ns and 1500 ns.
  const std::string line =
      "  the recording was paused 2 times, 3.50 us in all, as tracer.window or `slipstream record` wanted it\n";
  const Finished database = RunIt(Options());
  EXPECT_NE(database.out.find(line), std::string::npos) << database.out;
  ExportOptions options = Options();
  options.sqlite.reset();
  options.chrome = directory_ + "/trace.json";
  options.rank = 0;
  const Finished paused = RunIt(options);
  EXPECT_NE(paused.out.find(line), std::string::npos) << paused.out;
  options.rank = 1;
  options.force = true;
  const Finished other = RunIt(options);
  EXPECT_EQ(other.status, kSuccess) << other.err;
  EXPECT_EQ(other.out.find("paused"), std::string::npos) << other.out;
}

TEST_F(ExportTest, ForScripts) {
  Sample("0.spool", 5, 0, /*ends=*/false);
  tracer::Spit(run_ + "/1.spool", "");
  ExportOptions options = Options();
  options.json = true;
  const Finished finished = RunIt(options);
  EXPECT_EQ(finished.status, kPartial) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["schema"], "slipstream-export-1");
  EXPECT_EQ(json["format"], "sqlite");
  EXPECT_EQ(json["file"], database_);
  EXPECT_EQ(json["bytes"], std::filesystem::file_size(database_));
  EXPECT_EQ(json["partial"], true);
  EXPECT_EQ(json["calls"], 5);
  EXPECT_EQ(json["dropped"], 0);
  EXPECT_EQ(json["start_unix_ns"], 999'999'999'999'999'999);
  EXPECT_EQ(json["hosts"], nlohmann::json::array({"node"}));
  ASSERT_EQ(json["processes"].size(), 1U);
  const auto& process = json["processes"][0];
  EXPECT_EQ(process["spool"], "0.spool");
  EXPECT_EQ(process["pid"], 100);
  EXPECT_EQ(process["rank"], 0);
  EXPECT_EQ(process["local_rank"], nullptr);
  EXPECT_EQ(process["calls"], 5);
  EXPECT_EQ(process["records"], 6);
  EXPECT_EQ(process["first_ns"], 0);
  EXPECT_EQ(process["last_ns"], 5500);
  EXPECT_EQ(process["complete"], false);
  EXPECT_EQ(process["end_reason"], nullptr);
  EXPECT_EQ(process["damaged"], false);
  ASSERT_EQ(json["unreadable"].size(), 1U);
  EXPECT_EQ(json["unreadable"][0]["spool"], "1.spool");
}

TEST_F(ExportTest, AKilledProcessIsIncompleteAndThatIsNoFailure) {
  Sample("0.spool", 5, 0, /*ends=*/false);
  const Finished finished = RunIt(Options());
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_NE(finished.out.find("0.spool: incomplete: it was killed or still runs"), std::string::npos) << finished.out;
}

TEST_F(ExportTest, DamageIsSaidAndTheRestIsExported) {
  Sample("0.spool", 3000, 0);
  std::string bytes = tracer::Slurp(run_ + "/0.spool");
  bytes[bytes.size() / 2] ^= 1;
  tracer::Spit(run_ + "/0.spool", bytes);
  const Finished finished = RunIt(Options());
  EXPECT_EQ(finished.status, kPartial);
  EXPECT_NE(
      finished.out.find("  0.spool: damaged: 62.6 KiB passed over, 1 chunk missing; 1,000 records missing in it\n"),
      std::string::npos)
      << finished.out;
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_CALLS"), "2000");
}

TEST_F(ExportTest, ErrorsSayWhatWhereAndWhatNext) {
  Finished finished = RunIt(Options());
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_EQ(finished.err, "slipstream export: " + run_ +
                              ": no .spool file in it\n"
                              "  `slipstream run --record -- COMMAND` records a run and says where.\n");
  EXPECT_EQ(finished.out, "");

  ExportOptions gone = Options();
  gone.run += "/gone";
  finished = RunIt(gone);
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("gone: No such file or directory\n"), std::string::npos) << finished.err;

  tracer::Spit(run_ + "/0.spool", "foreign");
  finished = RunIt(Options());
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("nothing in it can be read\n  " + run_ + "/0.spool: "), std::string::npos)
      << finished.err;

  Sample("1.spool", 5, 0);
  ExportOptions nowhere = Options();
  nowhere.sqlite = directory_ + "/missing/x.sqlite";
  finished = RunIt(nowhere);
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("missing/x.sqlite: cannot be made: No such file or directory"), std::string::npos)
      << finished.err;

  tracer::Spit(database_, "x");
  finished = RunIt(Options());
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_EQ(finished.err, "slipstream export: " + database_ + ": exists; --force replaces it\n");
  ExportOptions forced = Options();
  forced.force = true;
  EXPECT_EQ(RunIt(forced).status, kPartial);

  ExportOptions onto_spool = forced;
  onto_spool.sqlite = run_ + "/1.spool";
  finished = RunIt(onto_spool);
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("is a spool file of this run"), std::string::npos) << finished.err;
}

TEST_F(ExportTest, NoRoom) {
  Sample("0.spool", 20'000, 0);
  // At every size: of the first page, of the rows, of the indices.
  RunIt(Options());
  const auto whole = std::filesystem::file_size(database_);
  std::filesystem::remove(database_);
  for (const auto limit : {uint64_t{0}, uint64_t{10'000}, uint64_t{whole / 2}, uint64_t{whole - 100'000}}) {
    SCOPED_TRACE(limit);
    const Finished finished = RunIt(Options(), [&] {
      const rlimit few = {limit, limit};
      setrlimit(RLIMIT_FSIZE, &few);
      signal(SIGXFSZ, SIG_DFL);
      // What it says must not count.
      const int null = open("/dev/null", O_WRONLY);
      dup2(null, STDOUT_FILENO);
      int pipe_ends[2];
      if (pipe(pipe_ends) == 0) dup2(pipe_ends[1], STDERR_FILENO);
    });
    EXPECT_EQ(finished.status, kFailed);
    EXPECT_EQ(Names(), std::vector<std::string>{"run"});
  }
  const Finished finished = RunIt(Options(), [] {
    const rlimit few = {100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &few);
  });
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("trace.sqlite: no room: "), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find(" are free there\n  Nothing is left of it."), std::string::npos) << finished.err;
}

// As Ctrl-C does it: nothing is left, and the process ends by the signal.
TEST_F(ExportTest, Interrupted) {
  Sample("0.spool", 400'000, 0);
  for (const int number : {SIGINT, SIGTERM}) {
    const pid_t child = fork();
    if (child == 0) {
      signal(number, SIG_DFL);  // who starts tests in the background ignores it
      const int null = open("/dev/null", O_WRONLY);
      dup2(null, STDERR_FILENO);
      _exit(Export(Options(), "1.2.3"));
    }
    while (Names().size() == 1 && waitpid(child, nullptr, WNOHANG) == 0) usleep(100);
    ASSERT_EQ(kill(child, number), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), number);
    EXPECT_EQ(Names(), std::vector<std::string>{"run"});
  }
}

// What the caller ignores does not stop it (nohup).
TEST_F(ExportTest, AnIgnoredSignalIsIgnored) {
  Sample("0.spool", 100'000, 0);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGHUP, SIG_IGN);
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    _exit(Export(Options(), "1.2.3"));
  }
  while (Names().size() == 1 && waitpid(child, nullptr, WNOHANG) == 0) usleep(100);
  kill(child, SIGHUP);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_CALLS"), "100000");
}

TEST_F(ExportTest, ProgressIsForTerminals) {
  Sample("0.spool", 20'000, 0);
  EXPECT_EQ(RunIt(Options()).err, "");
  std::filesystem::remove(database_);
  const std::string shown = OnTerminal(Options());
  EXPECT_NE(shown.find("export: writing "), std::string::npos) << shown;
  EXPECT_NE(shown.find("export: making indices"), std::string::npos) << shown;
  const size_t cleared = shown.rfind("\r\033[K");
  ASSERT_NE(cleared, std::string::npos);
  EXPECT_TRUE(shown.substr(cleared + 4).starts_with(database_)) << shown;
}

TEST_F(ExportTest, NamesAreShownWithoutControlCharacters) {
  Sample("\033[31m.spool", 5, 0, /*ends=*/false);
  const Finished finished = RunIt(Options());
  EXPECT_EQ(finished.status, kSuccess);
  EXPECT_EQ(finished.out.find('\033'), std::string::npos);
  EXPECT_NE(finished.out.find("\\u001b[31m.spool: incomplete"), std::string::npos) << finished.out;
}

TEST_F(ExportTest, ManyProcessesAreOneScreen) {
  for (int rank = 0; rank < 40; ++rank) Sample(std::to_string(100 + rank) + ".spool", 10, rank);
  const Finished finished = RunIt(Options());
  EXPECT_NE(finished.out.find("  24 more processes                                      240 "), std::string::npos)
      << finished.out;
  EXPECT_NE(finished.out.find("  all                                                    400 "), std::string::npos)
      << finished.out;
}

TEST_F(ExportTest, OnTheCommandLine) {
  Sample("0.spool", 5, 0);
  Finished finished = RunCommand({"export"});
  EXPECT_EQ(finished.status, kUsage);
  EXPECT_NE(finished.err.find("--sqlite FILE"), std::string::npos) << finished.err;
  EXPECT_EQ(RunCommand({"export", run_}).status, kUsage);
  finished = RunCommand({"export", "--sqlite", database_});
  EXPECT_EQ(finished.status, kUsage);
  EXPECT_NE(finished.err.find("no run"), std::string::npos) << finished.err;
  finished = RunCommand({"export", "--help"});
  EXPECT_EQ(finished.status, kSuccess);
  for (const char* option : {"--sqlite", "--force", "--json", "RUN"}) {
    EXPECT_NE(finished.out.find(option), std::string::npos) << option;
  }
  finished = RunCommand({"export", run_, "--sqlite", database_, "--json"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(nlohmann::json::parse(finished.out)["calls"], 5);
  EXPECT_EQ(RunCommand({"export", run_, "--sqlite", database_}).status, kFailed);
  EXPECT_EQ(RunCommand({"export", run_, "--sqlite", database_, "--force"}).status, kSuccess);
  EXPECT_EQ(RunCommand({"export", run_, "--sqlite", database_, "--", "x"}).status, kUsage);
}

}  // namespace
}  // namespace slipstream::cli
