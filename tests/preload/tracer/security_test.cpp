// What SECURITY.md promises, with real processes: whose files they are, what is in them, and what reaches a terminal.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/preload/tracer/trace_testing.h"
#include "tests/support/plain_build.h"

namespace slipstream::test {
namespace {

namespace fs = std::filesystem;

unsigned ModeOf(const fs::path& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 010000U;
}

std::string Octal(unsigned mode) {
  std::ostringstream text;
  text << std::oct << mode;
  return text.str();
}

// The one trace in a place.
std::string TraceIn(const std::string& place) {
  for (const std::string& name : NamesIn(place)) {
    if (name.starts_with("slipstream-trace-")) return place + "/" + name;
  }
  return "";
}

// Everything that can be made of a recorded run, into files of `place`; what the commands print, too.
std::string ExportAll(const std::string& place, const std::string& run, const std::string& prefix = "") {
  std::string said;
  const auto command = [&](const std::string& arguments) {
    const Finished finished = RunProgram({"sh", "-c", prefix + SLIPSTREAM_COMMAND " " + arguments});
    EXPECT_EQ(finished.status, 0) << arguments << "\n" << finished.err;
    said += finished.out + finished.err;
  };
  command("export " + run + " --sqlite " + place + "/t.sqlite");
  command("export " + run + " --chrome " + place + "/t.json");
  command("export " + run + " --perfetto " + place + "/t.pftrace");
  command("report " + run + " --html " + place + "/t.html");
  command("report " + run + " --json");
  command("export " + run + " --sqlite " + place + "/t2.sqlite --json");
  return said;
}

class SecurityTest : public ::testing::Test {
 protected:
  const std::string place_ = NewDirectory();
};

// The loader ignores what would be preloaded into a program that gains rights, and slipstream does not get around that.
TEST_F(SecurityTest, ASetUidProgramIsLeftAlone) {
  NEEDS_PLAIN_BUILD();
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a program of another user's";
  if (RunProgram({"sh", "-c", "command -v setpriv"}).status != 0) GTEST_SKIP() << "setpriv is not installed";
  struct statvfs file_system {};
  ASSERT_EQ(statvfs(place_.c_str(), &file_system), 0);
  if ((file_system.f_flag & ST_NOSUID) != 0) GTEST_SKIP() << place_ << " is on a file system without set-uid programs";
  ASSERT_EQ(chmod(place_.c_str(), 0755), 0);
  const std::string library = place_ + "/" + fs::path(SLIPSTREAM_LIBRARY).filename().string();
  fs::copy_file(SLIPSTREAM_LIBRARY, library);
  fs::copy_file(SLIPSTREAM_COMMAND, place_ + "/slipstream");
  fs::copy_file(fs::canonical("/bin/cat"), place_ + "/cat");
  for (const char* name : {"/slipstream", "/cat"}) ASSERT_EQ(chmod((place_ + name).c_str(), 0755), 0);
  ASSERT_EQ(chmod(library.c_str(), 0755), 0);
  const auto maps = [&] {
    const Finished finished =
        RunProgram({"setpriv", "--reuid=4243", "--regid=4243", "--clear-groups", "env", "HOME=/",
                    place_ + "/slipstream", "run", "--quiet", "--", place_ + "/cat", "/proc/self/maps"});
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_NE(finished.out.find(place_ + "/cat"), std::string::npos) << finished.out;
    return finished.out;
  };
  EXPECT_NE(maps().find(library), std::string::npos) << "an ordinary program has it";
  ASSERT_EQ(chown((place_ + "/cat").c_str(), 4242, 4242), 0);
  ASSERT_EQ(chmod((place_ + "/cat").c_str(), 04755), 0);
  EXPECT_EQ(maps().find(library), std::string::npos) << "a set-uid program has not";
}

TEST_F(SecurityTest, S59_FilesAreTheirOwnersAloneWhateverTheUmask) {
  NEEDS_PLAIN_BUILD();
  int round = 0;
  for (const char* umask : {"000", "022", "077", "777"}) {
    const std::string place = place_ + "/" + std::to_string(round++);
    fs::create_directory(place);
    fs::permissions(place, fs::perms::all & ~fs::perms::others_write);
    const std::string set = std::string("umask ") + umask + "; cd " + place + "; ";
    // The command sees the files of the run while they are there (counters, the trace, and what the end of the run
    // needs to know), and has its umask.
    const std::string command =
        std::string(PROGRAM) +
        " workload > /dev/null; stat -c %a $SLIPSTREAM_RUN_DIRECTORY $SLIPSTREAM_RUN_DIRECTORY/*; umask";
    for (const std::string record : {"", "--record"}) {
      const Finished finished =
          RunProgram({"sh", "-c",
                      set + SLIPSTREAM_COMMAND " run " + record + " --quiet --summary s" + record + ".json -- sh -c '" +
                          command + "'"},
                     {{"SLIPSTREAM_LOG_LEVEL", "debug"}, {"SLIPSTREAM_LOG_FILE", place + "/log"}});
      EXPECT_EQ(finished.status, 0) << finished.err;
      EXPECT_EQ(finished.out,
                (record.empty() ? "700\n600\n600\n" : "700\n600\n600\n600\n") + std::string("0") + umask + "\n")
          << umask;
      EXPECT_EQ(Octal(ModeOf(place + "/s" + record + ".json")), "600") << umask;
    }
    EXPECT_EQ(Octal(ModeOf(place + "/log")), "600") << umask;
    const std::string run = TraceIn(place);
    ASSERT_NE(run, "");
    EXPECT_EQ(Octal(ModeOf(run)), "700") << umask;
    for (const auto& entry : fs::directory_iterator(run)) EXPECT_EQ(Octal(ModeOf(entry.path())), "600") << entry.path();
    ExportAll(place, run, set);
    for (const char* name : {"t.sqlite", "t.json", "t.pftrace", "t.html"}) {
      EXPECT_EQ(Octal(ModeOf(place + "/" + name)), "600") << name << " " << umask;
    }
  }
}

// Somebody who knows the name of a file puts something else there first.
TEST_F(SecurityTest, S59_PlantedFilesAreNotWrittenThrough) {
  NEEDS_PLAIN_BUILD();
  if (geteuid() != 0) GTEST_SKIP() << "only root can plant a file as somebody else";
  WriteFile(place_ + "/precious", "precious\n");
  const auto plant = [&](const std::string& name, const std::function<void(const std::string&)>& how) {
    how(place_ + "/" + name);
    ASSERT_EQ(lchown((place_ + "/" + name).c_str(), 4242, 4242), 0);
  };
  const auto to_precious = [&](const std::string& path) { fs::create_symlink(place_ + "/precious", path); };
  plant("link", to_precious);
  plant("file", [](const std::string& path) { WriteFile(path, "planted\n"); });
  plant("fifo", [](const std::string& path) { ASSERT_EQ(mkfifo(path.c_str(), 0666), 0); });
  WriteFile(place_ + "/linked", "precious\n");
  fs::create_hard_link(place_ + "/linked", place_ + "/hard");
  for (const char* name : {"link", "file", "fifo", "hard"}) {
    const Finished refused =
        RunProgram({SLIPSTREAM_COMMAND, "run", "--summary", place_ + "/" + name, "--", "touch", place_ + "/ran"});
    EXPECT_EQ(refused.status, 125) << name;
    EXPECT_NE(refused.err.find("cannot write the summary to " + place_ + "/" + name), std::string::npos) << refused.err;
    EXPECT_FALSE(fs::exists(place_ + "/ran")) << name;
    const Finished logged =
        RunProgram({SLIPSTREAM_COMMAND, "run", "--quiet", "--", PROGRAM, "workload"},
                   {{"SLIPSTREAM_LOG_LEVEL", "debug"}, {"SLIPSTREAM_LOG_FILE", place_ + "/" + name}});
    EXPECT_EQ(logged.status, 0) << name;
  }
  EXPECT_EQ(ReadFile(place_ + "/precious"), "precious\n");
  EXPECT_EQ(ReadFile(place_ + "/linked"), "precious\n");
  EXPECT_EQ(ReadFile(place_ + "/file"), "planted\n");

  // One's own are one's own. ("/dev/stdout" is such a link, of root, and a machine may lack it.)
  fs::create_symlink("/proc/self/fd/1", place_ + "/stdout");
  const Finished again =
      RunProgram({SLIPSTREAM_COMMAND, "run", "--summary", place_ + "/stdout", "--", PROGRAM, "workload"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.out.find("slipstream-summary-1"), std::string::npos);
  WriteFile(place_ + "/mine", std::string(1 << 20, 'x'));
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "run", "--quiet", "--summary", place_ + "/mine", "--", "true"}).status, 0);
  EXPECT_EQ(ReadFile(place_ + "/mine").find("xx"), std::string::npos) << "what was there is gone, all of it";
}

TEST_F(SecurityTest, S59_CountersGoIntoNobodyElsesDirectory) {
  const auto names_in = [&](const std::string& directory) {
    const Finished finished = RunTraced({PROGRAM, "workload"}, directory, {{"SLIPSTREAM_LOG_LEVEL", "warn"}});
    EXPECT_EQ(finished.status, 0);
    EXPECT_NE(finished.err.find("no counters: "), std::string::npos) << finished.err;
    return NamesIn(directory);
  };
  ASSERT_EQ(chmod(place_.c_str(), 01777), 0);
  EXPECT_EQ(names_in(place_), std::vector<std::string>{});
  ASSERT_EQ(chmod(place_.c_str(), 0700), 0);
  const std::string link = NewDirectory() + "/link";
  fs::create_directory_symlink(place_, link);
  EXPECT_EQ(names_in(link), std::vector<std::string>{});
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a directory of somebody else's";
  ASSERT_EQ(chown(place_.c_str(), 4242, 4242), 0);
  EXPECT_EQ(names_in(place_), std::vector<std::string>{});
}

// A run of one user neither uses nor removes what is another's, and no name can be known before.
TEST_F(SecurityTest, C13_TemporaryDirectoriesAreTheRunsOwn) {
  NEEDS_PLAIN_BUILD();
  if (geteuid() != 0) GTEST_SKIP() << "only root can plant a directory as somebody else";
  const std::string planted = "/dev/shm/slipstream-run-" + std::to_string(getpid()) + "p";
  fs::create_directory(planted);
  WriteFile(planted + "/1-2.counters", "planted");
  ASSERT_EQ(chown(planted.c_str(), 4242, 4242), 0);
  std::vector<std::string> names;
  for (int i = 0; i < 2; ++i) {
    names.push_back(
        RunProgram({SLIPSTREAM_COMMAND, "run", "--", "sh", "-c", "stat -c '%u %a %n' $SLIPSTREAM_RUN_DIRECTORY"}).out);
    EXPECT_TRUE(names.back().starts_with("0 700 ")) << names.back();
    EXPECT_EQ(names.back().find(planted), std::string::npos);
  }
  EXPECT_NE(names[0], names[1]);
  EXPECT_TRUE(fs::exists(planted + "/1-2.counters"));
  fs::remove_all(planted);
}

constexpr const char* kSecret = "hunter2-SECRET";

// Whether any file below the place has the text, in the bytes as they are or unpacked.
std::string FilesWith(const std::string& place, const std::string& text) {
  std::string found;
  for (const auto& entry : fs::recursive_directory_iterator(place)) {
    if (!entry.is_regular_file()) continue;
    if (ReadFile(entry.path()).find(text) != std::string::npos) found += entry.path().filename().string() + " ";
  }
  return found;
}

TEST_F(SecurityTest, NoVariablesAndNoArgumentsAreWrittenAnywhereUnlessAskedFor) {
  NEEDS_PLAIN_BUILD();
  const auto record = [&](const std::string& place, const Variables& more) {
    fs::create_directory(place);
    fs::create_directory(place + "/site");
    Variables variables = {{"SLIPSTREAM_RUN_SUMMARIES", place + "/site"},
                           {"API_TOKEN", std::string("env-") + kSecret},
                           {"SIMCUDA_SEED", "0"},
                           {"SLIPSTREAM_LOG_LEVEL", "debug"},
                           {"SLIPSTREAM_LOG_FILE", place + "/log"},
                           {"SLIPSTREAM_TRACER_STACKS", "full"}};
    for (const auto& [name, value] : more) variables[name] = value;
    const Finished finished = RunIn(place, {"--record", "--summary", "s.json"},
                                    {TRACED, "calls", "3", std::string("--password=argv-") + kSecret}, variables);
    EXPECT_EQ(finished.status, 0) << finished.err;
    const std::string run = TraceIn(place);
    EXPECT_NE(run, "");
    return finished.out + finished.err + ExportAll(place, run);
  };
  const std::string said = record(place_ + "/unasked", {});
  EXPECT_EQ(FilesWith(place_ + "/unasked", kSecret), "");
  EXPECT_EQ(said.find(kSecret), std::string::npos) << said;
  EXPECT_NE(FilesWith(place_ + "/unasked", "preload_traced"), "") << "the search finds what is there";

  record(place_ + "/asked", {{"SLIPSTREAM_TRACER_COMMAND_LINE", "true"}});
  EXPECT_EQ(FilesWith(place_ + "/asked", std::string("env-") + kSecret), "");
  const std::string with = FilesWith(place_ + "/asked", std::string("argv-") + kSecret);
  EXPECT_NE(with.find(".spool"), std::string::npos) << with;
  EXPECT_NE(with.find("t.sqlite"), std::string::npos) << with;
  EXPECT_EQ(with.find("s.json"), std::string::npos) << with;
  EXPECT_EQ(FilesWith(place_ + "/asked/site", std::string("argv-") + kSecret), "");
  EXPECT_NE(FilesWith(place_ + "/asked/site", "preload_traced"), "") << "what a run leaves for its site";
}

// Whether a terminal would take anything of the text for more than text.
std::string Controls(const std::string& text) {
  std::string found;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    // NOLINTNEXTLINE(misc-misleading-bidirectional): it is looked for
    const bool turns = text.compare(i, 3, "\u202e") == 0;
    if ((byte < 0x20 && byte != '\n') || byte == 0x7F || c1 || turns) found += std::to_string(i) + " ";
  }
  return found;
}

TEST_F(SecurityTest, NamesOfTheProgramAreOnlyTextOnATerminalAndInAPage) {
  NEEDS_PLAIN_BUILD();
  // NOLINTNEXTLINE(misc-misleading-bidirectional): the name is to be that of somebody who misleads
  const std::string folder = place_ + "/\033]0;t\a\u202e";
  fs::create_directory(folder);
  const std::string program = folder + "/x\033[2J\u009b\nslipstream: forged<script>alert(1)<";
  fs::copy_file(TRACED, program);
  const Finished finished = RunIn(folder, {"--record", "--summary", place_ + "/s.json"}, {program, "calls", "3"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(Controls(finished.err), "") << finished.err;
  EXPECT_NE(finished.err.find("\\u001b[2J\\u009b\\nslipstream: forged"), std::string::npos) << finished.err;
  EXPECT_EQ(finished.err.find("\nslipstream: forged"), std::string::npos) << "no line of its own making";
  const std::string run = TraceIn(folder);
  ASSERT_NE(run, "");
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"report", "--full", run},
                                                    {"export", run, "--sqlite", place_ + "/t.sqlite"},
                                                    {"report", run, "--html", place_ + "/t.html"},
                                                    {"export", run, "--perfetto", place_ + "/t.pftrace"},
                                                    {"doctor", "--", program, "calls", "3"},
                                                    {"run", "--", program, "calls", "3"},
                                                    {"policy", "check", program}}) {
    std::vector<std::string> words = {SLIPSTREAM_COMMAND};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const Finished shown = RunProgram(words);
    EXPECT_EQ(Controls(shown.out + shown.err), "") << arguments[0] << "\n" << shown.out << shown.err;
    EXPECT_EQ((shown.out + shown.err).find("\nslipstream: forged"), std::string::npos) << arguments[0];
  }
  std::string page = ReadFile(place_ + "/t.html");
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  // Behind the trace's texts come the library that draws plots, if it is there, and the page's own script.
  page.resize(std::min(page.size(), page.find("<script>")));
  EXPECT_NE(page.find("forged"), std::string::npos);
  EXPECT_EQ(Controls(page), "");
  constexpr std::string_view kData = "<script type=\"application/json\" class=\"f";
  for (size_t at = page.find("<script"); at != std::string::npos; at = page.find("<script", at + 1)) {
    EXPECT_EQ(page.substr(at, kData.size()), kData);
  }
}

}  // namespace
}  // namespace slipstream::test
