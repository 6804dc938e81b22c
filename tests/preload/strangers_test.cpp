// Children that the library does not reach, or cannot: they run as they would bare, nothing is claimed of them, and
// what is said of those that do not start is so (docs/children.md).

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/plain_build.h"
#include "tests/support/process.h"

namespace slipstream::test {
namespace {

constexpr char kNothingSeen[] = " left no counts: it made no CUDA call that slipstream sees";
constexpr char kNotPreloaded[] = "cannot be preloaded (cannot open shared object file): ignored.";

class StrangersTest : public ::testing::Test {
 protected:
  // A line of the shell's under `slipstream run`. The shell has the library, and so the run ends with it.
  Finished RunShell(const std::string& line, const Variables& variables = {},
                    const std::string& command = SLIPSTREAM_COMMAND) const {
    return RunProgram({command, "run", "--summary", summary_, "--", "sh", "-c", line + "; exit $?"}, variables);
  }

  size_t Processes() const {
    const auto json = nlohmann::json::parse(ReadFile(summary_), nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << ReadFile(summary_);
    if (json.is_discarded()) return 0;
    EXPECT_EQ(json["totals"]["functions"].empty(), json["processes"].empty());
    return json["processes"].size();
  }

  // As it ran bare, and nothing is said of it but that nothing was seen.
  void ExpectUnseen(const Finished& finished, const Finished& bare) const {
    EXPECT_EQ(finished.status, bare.status) << finished.err;
    EXPECT_EQ(finished.out, bare.out);
    EXPECT_EQ(finished.err.rfind(std::string("slipstream: sh") + kNothingSeen, 0), 0U) << finished.err;
    EXPECT_EQ(Processes(), 0U);
  }

  const Folder folder_;
  const std::string summary_ = folder_ / "summary.json";
  const std::string workload_ = std::string(PROGRAM) + " workload";
};

// The kernel's way to start it has no loader in it.
TEST_F(StrangersTest, AStaticProgramRunsAsItIs) {
  NEEDS_PLAIN_BUILD();
  const std::string program = STATIC_PROGRAM;
  if (program.empty()) GTEST_SKIP() << "nothing can be linked statically here";
  const Finished bare = RunProgram({program});
  ASSERT_EQ(bare.status, 5);
  ExpectUnseen(RunShell(program), bare);
  // As the command itself: nobody of its own can end the run, so the next one does.
  std::filesystem::remove(summary_);
  const Finished command = RunProgram({SLIPSTREAM_COMMAND, "run", "--summary", summary_, "--", program},
                                      {{"SLIPSTREAM_RUN_WATCHER", "off"}});
  EXPECT_EQ(command.status, bare.status);
  EXPECT_EQ(command.out, bare.out);
  EXPECT_EQ(command.err, "");
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "run", "--", "true"}).status, 0);
  EXPECT_EQ(Processes(), 0U);
}

// What it starts has the library whatever the policy says of children: no hook saw the call.
TEST_F(StrangersTest, WhatAStaticProgramStartsIsSeen) {
  NEEDS_PLAIN_BUILD();
  const std::string program = STATIC_PROGRAM;
  if (program.empty()) GTEST_SKIP() << "nothing can be linked statically here";
  const Finished bare = RunProgram({PROGRAM, "workload"});
  for (const char* const preload : {"all", "none"}) {
    const Finished finished =
        RunProgram({SLIPSTREAM_COMMAND, "run", "--summary", summary_, "--", program, "exec", PROGRAM, "workload"},
                   {{"SLIPSTREAM_CHILDREN_PRELOAD", preload}});
    EXPECT_EQ(finished.status, bare.status) << finished.err;
    EXPECT_EQ(finished.out, bare.out);
    EXPECT_EQ(Processes(), 1U) << preload;
  }
}

// The loader takes no library from a variable for whoever has other rights than its caller, and says nothing.
TEST_F(StrangersTest, ASetUserIdProgramHasNoLibrary) {
  NEEDS_PLAIN_BUILD();
  struct statvfs place {};
  ASSERT_EQ(statvfs(folder_.path().c_str(), &place), 0);
  if ((place.f_flag & ST_NOSUID) != 0) GTEST_SKIP() << folder_.path() << " is on a file system without set-user-ID";
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to somebody else";
  constexpr uid_t kNobody = 65534;
  const std::string found = RunProgram({"sh", "-c", "command -v cat"}).out;
  const std::string program = folder_ / "cat-as-nobody";
  std::filesystem::copy_file(found.substr(0, found.find('\n')), program);
  ASSERT_EQ(chown(program.c_str(), kNobody, kNobody), 0);
  ASSERT_EQ(chmod(program.c_str(), S_ISUID | S_IRWXU | S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH), 0);
  const std::string user = program + " /proc/self/status | grep ^Uid";
  const Finished bare = RunProgram({"sh", "-c", user});
  if (bare.out.find("65534") == std::string::npos) GTEST_SKIP() << "set-user-ID is of no effect here: " << bare.out;
  ExpectUnseen(RunShell(user), bare);
  const Finished maps = RunShell(program + " /proc/self/maps; cat /proc/self/maps > " + (folder_ / "other"));
  EXPECT_NE(maps.out.find("cat-as-nobody"), std::string::npos) << maps.out;
  EXPECT_EQ(maps.out.find("libslipstream.so"), std::string::npos) << maps.out;
  EXPECT_NE(ReadFile(folder_ / "other").find("libslipstream.so"), std::string::npos) << "any other program has it";
  EXPECT_EQ(maps.err.find("ld.so"), std::string::npos) << maps.err;
}

// The preload is a variable: a child that is given other variables is a child without it.
TEST_F(StrangersTest, AnEmptyEnvironmentHasNoLibrary) {
  NEEDS_PLAIN_BUILD();
  const std::string child = "env -i " + workload_;
  ExpectUnseen(RunShell(child), RunProgram({"sh", "-c", child}));
  const Finished shown = RunShell(std::string("env -i ") + EXEC_CALLS + " show");
  EXPECT_NE(shown.out.find("entries: 0\n"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("mapped: no\n"), std::string::npos) << shown.out;
}

TEST_F(StrangersTest, AnotherPreloadInPlaceOfOursHasNoLibrary) {
  NEEDS_PLAIN_BUILD();
  const std::string theirs = std::string("LD_PRELOAD=") + INTERPOSER;
  const Finished bare = RunProgram({"sh", "-c", theirs + " " + workload_});
  ExpectUnseen(RunShell(theirs + " " + workload_), bare);
  const Finished both = RunShell(theirs + ":$LD_PRELOAD " + workload_);
  EXPECT_EQ(both.status, bare.status) << both.err;
  EXPECT_EQ(both.out, bare.out);
  EXPECT_EQ(Processes(), 1U) << both.err;
}

// In another root, mount namespace or container the path of the library may lead nowhere. The loader says so for every
// program there, and starts it without.
TEST_F(StrangersTest, WhereTheLibrarysPathLeadsNowhere) {
  NEEDS_PLAIN_BUILD();
  const std::string installed = folder_ / "installed";
  std::filesystem::create_directory(installed);
  std::filesystem::copy_file(SLIPSTREAM_COMMAND, installed + "/slipstream");
  std::filesystem::copy_file(SLIPSTREAM_LIBRARY, installed + "/libslipstream.so");
  const std::string hide = "mount -t tmpfs none " + installed;
  const Finished can = RunProgram({"unshare", "-m", "sh", "-c", hide});
  if (can.status != 0) GTEST_SKIP() << "no mount namespace can be made here: " << can.err;
  const Finished bare = RunProgram({PROGRAM, "workload"});
  const Finished finished =
      RunShell("unshare -m sh -c '" + hide + " && exec " + workload_ + "'", {}, installed + "/slipstream");
  EXPECT_EQ(finished.status, bare.status) << finished.err;
  EXPECT_EQ(finished.out, bare.out);
  EXPECT_EQ(Processes(), 0U);
  const std::vector<std::string> lines = Split(finished.err);
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.find(kNotPreloaded) != std::string::npos; }),
            1)
      << "of the one program that was started there\n"
      << finished.err;
  EXPECT_NE(finished.err.find(kNothingSeen), std::string::npos) << finished.err;
  // Nor does it say so where the policy keeps the library from it.
  const Finished dropped = RunShell("unshare -m sh -c '" + hide + " && exec " + workload_ + "'",
                                    {{"SLIPSTREAM_CHILDREN_DROP", std::filesystem::path(PROGRAM).filename().string()}},
                                    installed + "/slipstream");
  EXPECT_EQ(dropped.out, bare.out);
  EXPECT_EQ(dropped.err.find(kNotPreloaded), std::string::npos) << dropped.err;
}

// It would not start with the library, so `slipstream run` gives it none. This one has the name of musl's loader in it,
// and glibc's behind that name.
TEST_F(StrangersTest, ACommandForMuslRunsWithoutTheLibrary) {
  NEEDS_PLAIN_BUILD();
  constexpr char kLoader[] = "/lib64/ld-linux-x86-64.so.2";
  constexpr char kMusl[] = "ld-musl.so.1";  // in the working directory
  std::string bytes = ReadFile(EXEC_CALLS);
  const size_t at = bytes.find(kLoader, 0, sizeof(kLoader));
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, sizeof(kLoader), std::string(kMusl) + std::string(sizeof(kLoader) - sizeof(kMusl) + 1, '\0'));
  const std::string program = folder_ / "for-musl";
  WriteFile(program, bytes, 0755);
  std::filesystem::create_symlink(kLoader, folder_ / kMusl);
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"env", "-C", folder_.path()});
    return RunProgram(words);
  };
  const Finished bare = run({program, "show"});
  ASSERT_EQ(bare.status, 0) << bare.err;
  for (const std::string& option : {std::string("--quiet"), "--summary=" + summary_}) {
    const Finished finished = run({SLIPSTREAM_COMMAND, "run", option, "--", program, "show"});
    EXPECT_EQ(finished.status, 0);
    EXPECT_EQ(finished.out, bare.out) << "its variables are those that it has bare";
    EXPECT_EQ(finished.err, "slipstream: " + program +
                                " is linked to musl, which cannot load a library for glibc: it runs without "
                                "slipstream\n");
    EXPECT_FALSE(std::filesystem::exists(summary_));
  }
}

// What docs/children.md says of programs that cannot load the library, with one that is linked to musl.
TEST_F(StrangersTest, AProgramForMuslNeedsToBeDropped) {
  NEEDS_PLAIN_BUILD();
  const std::string program = folder_ / "for-musl";
  WriteFile(program + ".c", "#include <stdio.h>\nint main(void) { puts(\"musl\"); return 5; }\n");
  if (RunProgram({"sh", "-c", "command -v musl-gcc"}).status != 0) GTEST_SKIP() << "musl-gcc (musl-tools) is not here";
  ASSERT_EQ(RunProgram({"musl-gcc", "-o", program, program + ".c"}).status, 0);
  const Finished bare = RunProgram({program});
  ASSERT_EQ(bare.status, 5) << bare.err;
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "run", "--", program}).out, bare.out);
  EXPECT_EQ(RunShell(program).status, 127);
  ExpectUnseen(RunShell(program, {{"SLIPSTREAM_CHILDREN_DROP", "for-musl"}}), bare);
  const Finished doctor = RunProgram({SLIPSTREAM_COMMAND, "doctor", "--", program});
  EXPECT_NE(doctor.out.find(program + " is linked to musl"), std::string::npos) << doctor.out;
}

}  // namespace
}  // namespace slipstream::test
