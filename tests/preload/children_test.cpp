// Which children keep the preload: every call that executes a program, by what the policy's [children] says.
// C1, C2, C3 and C13 of what users of such tools complain about: children that cannot start, compilers that behave
// otherwise, other preloads lost, workers of a killed process.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/plain_build.h"
#include "tests/support/process.h"

namespace slipstream::test {
namespace {

// What a program says of itself (exec_calls show).
struct Shown {
  std::vector<std::string> variables;  // sorted
  std::string mapped;
  std::string place;
  std::string entries;
  std::string rest;  // what else stands there, and should not
};

Shown Parse(const std::string& text) {
  Shown shown;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("mapped: ", 0) == 0) {
      shown.mapped = line.substr(8);
    } else if (line.rfind("cwd: ", 0) == 0) {
      shown.place = line.substr(5);
    } else if (line.rfind("entries: ", 0) == 0) {
      shown.entries = line.substr(9);
    } else if (line.find('=') != std::string::npos) {
      shown.variables.push_back(line);
    } else {
      shown.rest += line + "\n";
    }
  }
  std::sort(shown.variables.begin(), shown.variables.end());
  return shown;
}

// Name of a call -> what was shown behind "== name".
std::map<std::string, Shown> Sections(const std::string& text) {
  std::map<std::string, Shown> sections;
  size_t at = text.find("== ");
  while (at != std::string::npos) {
    const size_t end = text.find('\n', at);
    const size_t next = text.find("== ", end);
    sections[text.substr(at + 3, end - at - 3)] = Parse(text.substr(end + 1, next - end - 1));
    at = next;
  }
  return sections;
}

bool Has(const Shown& shown, const std::string& variable) {
  return std::find(shown.variables.begin(), shown.variables.end(), variable) != shown.variables.end();
}

// A folder with programs of many names, all of them exec_calls.
class ChildrenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    place_ = NewDirectory();
    for (const char* name : {"python3.12", "ptxas", "mpirun"}) std::filesystem::copy_file(EXEC_CALLS, In(name));
    Script("train.py", "python3.12");
    Script("report.pl", "ptxas");
  }

  std::string In(const std::string& name) const { return place_ + "/" + name; }

  // Run by another of these programs.
  void Script(const std::string& name, const std::string& interpreter) const {
    WriteFile(In(name), "#!" + In(interpreter) + "\n");
    chmod(In(name).c_str(), 0755);
  }

  Finished Run(const std::vector<std::string>& command, const std::string& children, Variables variables = {}) const {
    WriteFile(In("policy.toml"), "version = 1\n" + (children.empty() ? "" : "[children]\n" + children + "\n"));
    std::vector<std::string> words = {SLIPSTREAM_COMMAND, "run", "--quiet", "--policy", In("policy.toml"), "--"};
    words.insert(words.end(), command.begin(), command.end());
    const Variables sanitized = Preload("");
    if (sanitized.count("ASAN_OPTIONS") != 0) variables.try_emplace("ASAN_OPTIONS", sanitized.at("ASAN_OPTIONS"));
    variables.try_emplace("LD_PRELOAD", INTERPOSER);
    variables.try_emplace("PATH", In("missing") + ":" + place_ + ":" + getenv("PATH"));
    return RunProgram(words, variables);
  }

  std::string place_;
};

struct Setting {
  const char* policy;
  std::vector<std::string> kept;
};

const std::vector<std::string> kPrograms = {"python3.12", "mpirun", "train.py", "ptxas", "report.pl"};

const Setting kSettings[] = {
    {"", kPrograms},
    {"preload = \"all\"\nkeep = [\"ptxas\"]", kPrograms},
    {"preload = \"python\"", {"python3.12", "mpirun", "train.py"}},
    {"preload = \"none\"", {}},
    {"preload = \"none\"\nkeep = [\"python3*\", \"*/report.pl\"]", {"python3.12", "report.pl"}},
    {"drop = [\"p[t]xas\", \"train.py\"]", {"python3.12", "mpirun", "report.pl"}},
    {"preload = \"python\"\nkeep = [\"ptxas\", \"report.pl\"]\ndrop = [\"*/mpirun\", \"report.*\"]",
     {"python3.12", "train.py", "ptxas"}},
};

// With the variables that are passed on, what each call gives the program is exactly what the policy says: all of them,
// or all of them without our entry in LD_PRELOAD.
void ExpectCalls(const std::string& text, size_t calls, bool keeps, const std::string& what) {
  const std::map<std::string, Shown> sections = Sections(text);
  ASSERT_EQ(sections.size(), calls + 1) << what << "\n" << text;
  const Shown& self = sections.at("self");
  EXPECT_EQ(self.mapped, "yes") << what << ": the command itself always has the library";
  const std::string ours = std::string("LD_PRELOAD=") + SLIPSTREAM_LIBRARY + ":" + INTERPOSER;
  ASSERT_TRUE(Has(self, ours)) << what;
  for (const auto& [name, shown] : sections) {
    if (name == "self") continue;
    const std::string where = what + " by " + name;
    EXPECT_EQ(shown.rest, "") << where;
    EXPECT_EQ(shown.mapped, keeps ? "yes" : "no") << where;
    std::vector<std::string> expected = self.variables;
    if (!keeps) std::replace(expected.begin(), expected.end(), ours, std::string("LD_PRELOAD=") + INTERPOSER);
    const std::string call = name.substr(name.rfind(' ') + 1);
    if (call != "execv" && call != "execvp" && call != "execl" && call != "execlp") expected.push_back("MARK=" + call);
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(shown.variables, expected) << where;
    EXPECT_EQ(shown.place, call == "posix_spawn-actions" ? "/" : self.place) << where;
  }
}

constexpr size_t kCalls = 24;

TEST_F(ChildrenTest, C3_EveryCallPassesOnWhatThePolicySays) {
  for (const Setting& setting : kSettings) {
    for (const std::string& program : kPrograms) {
      const Finished finished = Run({EXEC_CALLS, "calls", In(program)}, setting.policy);
      ASSERT_EQ(finished.status, 0) << finished.err;
      EXPECT_EQ(finished.err, "");
      const bool keeps = std::find(setting.kept.begin(), setting.kept.end(), program) != setting.kept.end();
      ExpectCalls(finished.out, kCalls, keeps, std::string(setting.policy) + ": " + program);
    }
  }
}

TEST_F(ChildrenTest, TheSameOnceCudaIsInUse) {
  for (const bool keeps : {true, false}) {
    const Finished finished =
        Run({EXEC_CALLS, "cuda-and-calls", In(keeps ? "python3.12" : "ptxas")}, "preload = \"python\"");
    ASSERT_EQ(finished.status, 0) << finished.err;
    ExpectCalls(finished.out, kCalls, keeps, "with CUDA");
  }
}

// The shell that these start is started inside the C library, where no hook is. It keeps the preload, and what it
// starts does as the policy says.
TEST_F(ChildrenTest, WhatAShellOfTheCLibraryStarts) {
  NEEDS_PLAIN_BUILD();
  for (const Setting& setting : kSettings) {
    for (const std::string& program : kPrograms) {
      const std::map<std::string, Shown> sections =
          Sections(Run({EXEC_CALLS, "shells", In(program)}, setting.policy).out);
      ASSERT_EQ(sections.size(), 2U);
      const bool keeps = std::find(setting.kept.begin(), setting.kept.end(), program) != setting.kept.end();
      for (const auto& [name, shown] : sections) {
        EXPECT_EQ(shown.mapped, keeps ? "yes" : "no") << setting.policy << ": " << program << " by " << name;
      }
    }
  }
}

// What was dropped once stays dropped: nobody puts it back.
TEST_F(ChildrenTest, ChildrenOfChildrenObeyToo) {
  NEEDS_PLAIN_BUILD();
  const std::string inner = In("ptxas") + " show; " + In("python3.12") + " show";
  const auto mapped = [this](const std::string& script, const std::string& policy) {
    const std::string out = Run({"sh", "-c", script}, policy).out;
    std::string found;
    for (size_t at = out.find("mapped: "); at != std::string::npos; at = out.find("mapped: ", at + 1))
      found += out[at + 8];
    return found;
  };
  EXPECT_EQ(mapped("bash -c '" + inner + "'", ""), "yy");
  EXPECT_EQ(mapped("bash -c '" + inner + "'", "preload = \"python\""), "ny");
  EXPECT_EQ(mapped("env nice timeout 100 bash -c '" + inner + "'", "preload = \"python\""), "ny");
  EXPECT_EQ(mapped("bash -c '" + inner + "'", "drop = [\"bash\"]"), "nn");
  EXPECT_EQ(mapped("env -u SLIPSTREAM_CHILDREN bash -c '" + inner + "'", "preload = \"python\""), "yy")
      << "without the variable there is no policy";
  EXPECT_EQ(mapped("SLIPSTREAM_DISABLE=1 " + In("ptxas") + " show", "preload = \"none\""), "y") << "switched off";
  EXPECT_EQ(mapped("SLIPSTREAM_CHILDREN=nonsense " + In("ptxas") + " show", "preload = \"none\""), "y") << "not ours";
}

TEST_F(ChildrenTest, AVariableOverridesTheKeys) {
  const Variables variables = {{"SLIPSTREAM_CHILDREN_PRELOAD", "none"}, {"SLIPSTREAM_CHILDREN_KEEP", "x:*/ptxas"}};
  ExpectCalls(Run({EXEC_CALLS, "calls", In("ptxas")}, "preload = \"all\"", variables).out, kCalls, true, "kept");
  ExpectCalls(Run({EXEC_CALLS, "calls", In("mpirun")}, "preload = \"all\"", variables).out, kCalls, false, "not kept");
}

TEST_F(ChildrenTest, ACallThatFailsLeavesEverythingAsItWas) {
  const std::string expected = [] {
    std::string text;
    for (const char* call : {"execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "execveat",
                             "posix_spawn", "posix_spawnp", "posix_spawn-actions", "posix_spawn-proc"}) {
      text += std::string(call) + ": -1 ENOENT\n";
    }
    return text;
  }();
  EXPECT_EQ(RunProgram({EXEC_CALLS, "missing", In("none-such")}).out, expected) << "bare";
  for (const char* policy : {"", "preload = \"python\"", "preload = \"none\""}) {
    EXPECT_EQ(Run({EXEC_CALLS, "missing", In("none-such")}, policy).out, expected) << policy;
  }
}

TEST_F(ChildrenTest, WhatIsNoAddressIsTheKernelsToRefuse) {
  for (const char* policy : {"", "preload = \"python\"", "preload = \"none\""}) {
    const Finished finished = Run({EXEC_CALLS, "bad-addresses"}, policy);
    EXPECT_EQ(finished.out, "-1 EFAULT\n-1 EFAULT\n") << policy << finished.err;
  }
}

TEST_F(ChildrenTest, PreloadListsOfEveryKind) {
  const std::string list = "LD_PRELOAD=";
  const std::string ours = SLIPSTREAM_LIBRARY;
  const auto shown = [&](const std::vector<std::string>& variables) {
    std::vector<std::string> words = {EXEC_CALLS, "with", In("ptxas")};
    words.insert(words.end(), variables.begin(), variables.end());
    const Finished finished = Run(words, "preload = \"none\"");
    EXPECT_EQ(finished.status, 0) << finished.err;
    return Parse(finished.out);
  };
  const Shown twice = shown({list + ours, list + INTERPOSER + ":" + ours});
  EXPECT_EQ(twice.mapped, "no");
  EXPECT_TRUE(Has(twice, list + INTERPOSER));
  EXPECT_EQ(std::count_if(twice.variables.begin(), twice.variables.end(),
                          [&](const std::string& variable) { return variable.rfind(list, 0) == 0; }),
            1);
  const Shown empty = shown({list});
  EXPECT_EQ(empty.mapped, "no");
  EXPECT_TRUE(Has(empty, list)) << "an empty one is not ours to take away";
  const Shown none = shown({});
  EXPECT_EQ(none.mapped, "no");
  const Shown nvtx = shown({list + ours, "NVTX_INJECTION64_PATH=" + ours});
  EXPECT_EQ(nvtx.mapped, "no");
  EXPECT_FALSE(Has(nvtx, "NVTX_INJECTION64_PATH=" + ours));
  const Shown long_list = shown({list + ours + std::string(8000, ':')});
  EXPECT_EQ(long_list.mapped, "yes") << "more text than is copied is passed on as it is";
}

TEST_F(ChildrenTest, LargeEnvironmentsAndSmallStacks) {
  for (const int count : {100, 3000}) {
    const Shown shown =
        Parse(Run({EXEC_CALLS, "many", std::to_string(count), In("ptxas")}, "preload = \"python\"").out);
    EXPECT_EQ(shown.mapped, "no") << count;
    EXPECT_GT(std::stoi(shown.entries), count);
  }
  const Shown huge = Parse(Run({EXEC_CALLS, "many", "20000", In("ptxas")}, "preload = \"python\"").out);
  EXPECT_EQ(huge.mapped, "yes") << "more variables than there is room for are passed on as they are";
  EXPECT_GT(std::stoi(huge.entries), 20000);
  for (const char* policy : {"", "preload = \"python\""}) {
    const Finished finished = Run({EXEC_CALLS, "stack", In("ptxas")}, policy);
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(Parse(finished.out).mapped, *policy == '\0' ? "yes" : "no");
  }
}

// "name: number" of every line that begins with `what`.
std::map<std::string, int> Numbers(const std::string& text, const std::string& what) {
  std::map<std::string, int> numbers;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(what, 0) != 0) continue;
    const size_t colon = line.find(": ");
    numbers[line.substr(what.size(), colon - what.size())] = std::stoi(line.substr(colon + 2));
  }
  return numbers;
}

// S77: the smallest stack of a thread loses what our thread-local variables take, under 256 bytes and what aligning
// them costs, and no more.
TEST_F(ChildrenTest, S77_TheSmallestStackIsLeftToItsThread) {
  NEEDS_PLAIN_BUILD();
  const std::map<std::string, int> bare = Numbers(RunProgram({EXEC_CALLS, "room"}).out, "room");
  const Finished finished = Run({EXEC_CALLS, "room"}, "", {{"LD_PRELOAD", ""}});
  const std::map<std::string, int> ours = Numbers(finished.out, "room");
  ASSERT_EQ(bare.size(), 1U);
  ASSERT_EQ(ours.size(), 1U) << finished.err;
  EXPECT_LE(bare.at("") - ours.at(""), 256 + 64);
}

// S77: a hook needs less than 2 KiB of the stack that it is called on, whatever the environment: also where it is the
// first of all.
TEST_F(ChildrenTest, S77_CallsNeedLittleStack) {
  NEEDS_PLAIN_BUILD();
  const std::map<std::string, int> bare = Numbers(RunProgram({EXEC_CALLS, "depth", In("ptxas")}).out, "depth ");
  ASSERT_EQ(bare.size(), 14U);
  for (const char* policy : {"", "preload = \"python\""}) {
    const Finished finished = Run({EXEC_CALLS, "depth", In("ptxas")}, policy, {{"LD_PRELOAD", ""}});
    const std::map<std::string, int> ours = Numbers(finished.out, "depth ");
    ASSERT_EQ(ours.size(), bare.size()) << finished.err;
    EXPECT_EQ(finished.out.find("status"), std::string::npos) << finished.out;
    for (const auto& [call, depth] : bare) EXPECT_LE(ours.at(call) - depth, 2048) << call << " with " << policy;
  }
}

// What a child of vfork leaves behind in its parent's memory is used by the next one.
TEST_F(ChildrenTest, ManyCallsKeepNoMoreMemoryThanOne) {
  NEEDS_PLAIN_BUILD();  // a sanitizer maps memory of its own
  const Finished finished = Run({EXEC_CALLS, "often", In("ptxas")}, "preload = \"python\"");
  ASSERT_EQ(finished.status, 0) << finished.err;
  const size_t at = finished.out.rfind("mappings: ");
  ASSERT_NE(at, std::string::npos);
  std::istringstream numbers(finished.out.substr(at + 10));
  int before = 0;
  int after = 0;
  numbers >> before >> after;
  EXPECT_GT(before, 10);
  EXPECT_LE(after, before + 1) << "the heap may have grown";
}

// A signal handler that starts a program while one is being started gets one that the policy would have kept the
// preload out of; the other call is as it would have been.
TEST_F(ChildrenTest, ACallInsideACall) {
  const Finished finished =
      Run({EXEC_CALLS, "nested", In("ptxas")}, "preload = \"python\"", {{"INTERPOSER_SIGNALS", "1"}});
  ASSERT_EQ(finished.status, 0) << finished.err;
  const std::map<std::string, Shown> sections = Sections(finished.out);
  ASSERT_EQ(sections.size(), 2U) << finished.out;
  EXPECT_EQ(sections.at("inner").mapped, "yes");
  EXPECT_TRUE(Has(sections.at("inner"), "MARK=inner"));
  EXPECT_EQ(sections.at("outer").mapped, "no");
  EXPECT_TRUE(Has(sections.at("outer"), "MARK=outer"));
  EXPECT_TRUE(Has(sections.at("outer"), std::string("LD_PRELOAD=") + INTERPOSER));
}

// In children of a process of many threads, some of which hold the locks of the allocator and of the loader.
TEST_F(ChildrenTest, FromManyThreads) {
  for (const char* policy : {"", "preload = \"python\""}) {
    const Finished finished = Run({EXEC_CALLS, "threads", In("report.pl")}, policy);
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_NE(finished.out.find("wrong: 0\n"), std::string::npos);
    const std::string other = *policy == '\0' ? "mapped: no" : "mapped: yes";
    EXPECT_EQ(finished.out.find(other), std::string::npos) << policy;
  }
}

// The inner run's command has the library, whatever the outer run's policy says of children, and the inner run's policy
// holds for what that starts.
TEST_F(ChildrenTest, ARunInsideARun) {
  for (const char* quiet : {"--quiet", "--summary=/dev/null"}) {
    for (const char* outer : {"preload = \"none\"", "preload = \"python\"", "drop = [\"slipstream\"]"}) {
      const Finished finished =
          Run({SLIPSTREAM_COMMAND, "run", quiet, "--policy", In("inner.toml"), "--", EXEC_CALLS, "calls", In("ptxas")},
              outer);
      EXPECT_NE(finished.status, 0) << "there is no such policy yet";
      WriteFile(In("inner.toml"), "version = 1\n[children]\npreload = \"none\"\n");
      ExpectCalls(
          Run({SLIPSTREAM_COMMAND, "run", quiet, "--policy", In("inner.toml"), "--", EXEC_CALLS, "calls", In("ptxas")},
              outer)
              .out,
          kCalls, false, std::string(outer) + " around none");
      WriteFile(In("inner.toml"), "version = 1\n");
      ExpectCalls(
          Run({SLIPSTREAM_COMMAND, "run", quiet, "--policy", In("inner.toml"), "--", EXEC_CALLS, "calls", In("ptxas")},
              outer)
              .out,
          kCalls, true, std::string(outer) + " around all");
      std::filesystem::remove(In("inner.toml"));
    }
  }
}

// Launchers that are not installed here, played by scripts that do what they do: set variables, and become or start the
// program.
TEST_F(ChildrenTest, RanksOfALauncher) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  const auto launcher = [&](const std::string& name, const std::string& text) {
    WriteFile(place + "/" + name, "#!/bin/sh\n" + text);
    chmod((place + "/" + name).c_str(), 0755);
    return place + "/" + name;
  };
  // A daemon between the launcher and the ranks, as Open MPI has it, and none, as srun does for one node.
  launcher("prted",
           "for rank in 0 1; do OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_RANK=$rank \"$@\" & done; wait");
  launcher("mpirun", "exec prted \"$@\"");
  launcher("srun", "for rank in 0 1; do SLURM_PROCID=$rank SLURM_LOCALID=$rank \"$@\" & done; wait");
  for (const char* command : {"mpirun", "srun"}) {
    for (const char* policy : {"", "preload = \"python\"", "preload = \"python\"\ndrop = [\"python3.12\"]"}) {
      const std::string summary = In("summary.json");
      WriteFile(In("policy.toml"), std::string("version = 1\n") + (*policy == '\0' ? "" : "[children]\n") + policy);
      std::filesystem::remove(In("python3.12"));
      std::filesystem::copy_file(PROGRAM, In("python3.12"));
      const Finished finished = RunProgram({SLIPSTREAM_COMMAND, "run", "--quiet", "--summary", summary, "--policy",
                                            In("policy.toml"), "--", command, "python3.12", "workload"},
                                           {{"PATH", place + ":" + place_ + ":" + getenv("PATH")}});
      ASSERT_EQ(finished.status, 0) << finished.err;
      const auto json = nlohmann::json::parse(ReadFile(summary));
      std::vector<int> ranks;
      for (const auto& process : json["processes"]) ranks.push_back(process["rank"].get<int>());
      std::sort(ranks.begin(), ranks.end());
      const bool dropped = std::string(policy).find("drop") != std::string::npos;
      EXPECT_EQ(ranks, dropped ? std::vector<int>{} : (std::vector<int>{0, 1})) << command << " " << policy;
    }
  }
}

// A program that has nothing to do with CUDA starts with the library, on a machine that has no CUDA at all, with every
// symbol bound at once; and no library of CUDA comes with ours.
TEST_F(ChildrenTest, C1_ChildrenStartWhereThereIsNoCuda) {
  NEEDS_PLAIN_BUILD();
  const std::string empty = NewDirectory();
  const Variables bare = {{"LD_LIBRARY_PATH", empty}, {"LD_BIND_NOW", "1"}, {"LD_PRELOAD", ""}};
  const Variables with = {{"LD_LIBRARY_PATH", empty}, {"LD_BIND_NOW", "1"}, {"LD_PRELOAD", SLIPSTREAM_LIBRARY}};
  const std::vector<std::vector<std::string>> commands = {
      {"true"},
      {"sh", "-c", "exit 3"},
      {"sh", "-c", "sh -c 'ls /proc/self/fd | wc -l; exit 4' | cat"},
      {"python3", "-c", "import subprocess; print(subprocess.run(['sh', '-c', 'echo $0; exit 5']).returncode)"},
      {"env", "-i", "LD_PRELOAD=" + std::string(SLIPSTREAM_LIBRARY), "/bin/true"}};
  for (const std::vector<std::string>& command : commands) {
    const Finished expected = RunProgram(command, bare);
    const Finished finished = RunProgram(command, with);
    EXPECT_NE(finished.status, 127) << command.back() << finished.err;
    EXPECT_EQ(finished.status, expected.status) << command.back();
    EXPECT_EQ(finished.out, expected.out) << command.back();
    EXPECT_EQ(finished.err, expected.err) << command.back();
  }
  const std::string maps = RunProgram({"sh", "-c", "cat /proc/self/maps"}, with).out;
  EXPECT_NE(maps.find("libslipstream.so"), std::string::npos);
  for (const char* library : {"libcuda", "libcudart", "libcupti", "libnvrtc", "libnvToolsExt", "libstdc++"}) {
    EXPECT_EQ(maps.find(library), std::string::npos) << library;
  }
}

// A real compiler makes the same file, and with "python" neither it nor what it starts has the library.
TEST_F(ChildrenTest, C2_ACompilerMakesTheSameFile) {
  NEEDS_PLAIN_BUILD();
  if (RunProgram({"sh", "-c", "command -v gcc"}).status != 0) GTEST_SKIP() << "gcc is not installed";
  WriteFile(In("code.c"), "#include <stdio.h>\nint add(int a, int b) { return printf(\"%d\", a + b); }\n");
  const std::vector<std::string> compile = {"env", "-C", place_, "gcc", "-O2", "-g", "-c", "code.c", "-o", "code.o"};
  ASSERT_EQ(RunProgram(compile).status, 0);
  const std::string expected = ReadFile(In("code.o"));
  ASSERT_GT(expected.size(), 1000U);
  for (const char* policy : {"", "preload = \"python\"", "preload = \"none\"", "drop = [\"cc1\"]"}) {
    std::filesystem::remove(In("code.o"));
    const Finished finished = Run(compile, policy);
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(finished.err, "") << policy;
    EXPECT_EQ(ReadFile(In("code.o")), expected) << policy;
  }
}

TEST_F(ChildrenTest, C2_NoPartOfACompilerHasTheLibraryWithPython) {
  NEEDS_PLAIN_BUILD();
  if (RunProgram({"sh", "-c", "command -v gcc"}).status != 0) GTEST_SKIP() << "gcc is not installed";
  // The compiler proper and the assembler, played by what says whether it has the library.
  std::filesystem::copy_file(EXEC_CALLS, In("cc1"));
  std::filesystem::copy_file(EXEC_CALLS, In("as"));
  WriteFile(In("code.c"), "int x;\n");
  const std::string compile = "gcc -B " + place_ + " -c " + In("code.c") + " -o " + In("code.o");
  const auto mapped = [&](const std::string& policy) {
    const Finished finished = Run({"sh", "-c", compile + "; exit $?"}, policy);
    EXPECT_EQ(finished.status, 0) << finished.err;
    std::string found;
    for (size_t at = finished.out.find("mapped: "); at != std::string::npos;
         at = finished.out.find("mapped: ", at + 1)) {
      found += finished.out[at + 8];
    }
    return found;
  };
  EXPECT_EQ(mapped(""), "yy");
  EXPECT_EQ(mapped("preload = \"python\""), "nn");
  // Where the compiler is the command itself, what it starts is asked about one by one.
  EXPECT_EQ(mapped("drop = [\"cc1\"]"), "ny");
  const Shown shown =
      Parse(Run({"gcc", "-B", place_, "-S", In("code.c"), "-o", In("code.s")}, "preload = \"python\"").out);
  EXPECT_EQ(shown.mapped, "no");
}

// Workers of a process that uses CUDA: each executes a program that uses CUDA itself, and that is seen like any other.
TEST_F(ChildrenTest, C13_ForkedWorkersStartProgramsThatAreSeen) {
  const std::string summary = In("summary.json");
  for (const char* policy : {"all", "python", "none"}) {
    WriteFile(In("policy.toml"),
              std::string("version = 1\n[children]\npreload = \"") + policy + "\"\nkeep = [\"python*\"]\n");
    std::filesystem::remove(In("python3.12"));
    std::filesystem::copy_file(PROGRAM, In("python3.12"));
    Variables variables = Preload("");
    const Finished finished = RunProgram({SLIPSTREAM_COMMAND, "run", "--quiet", "--summary", summary, "--policy",
                                          In("policy.toml"), "--", EXEC_CALLS, "workers", In("python3.12")},
                                         variables);
    EXPECT_EQ(finished.status, 0) << finished.err;
    const auto json = nlohmann::json::parse(ReadFile(summary));
    EXPECT_EQ(json["processes"].size(), 5U) << policy << ": the process, and four workers' programs";
  }
}

// A process that was killed in the middle of its calls leaves nothing that another one waits for, in the same run or
// after it.
TEST_F(ChildrenTest, C13_NothingIsLockedAfterSigkill) {
  NEEDS_PLAIN_BUILD();
  const std::string summary = In("summary.json");
  const std::string program = PROGRAM;
  const std::string script =
      program + " die 9 > /dev/null & wait $!; echo $?; " + program + " workload > /dev/null; echo $?";
  for (const char* end : {"exit 0", "(kill -9 $$); :"}) {
    for (int round = 0; round < 2; ++round) {
      const Finished finished = RunProgram(
          {SLIPSTREAM_COMMAND, "run", "--quiet", "--summary", summary, "--", "sh", "-c", script + "; " + end},
          {{"SLIPSTREAM_RUN_WATCHER", "off"}});
      EXPECT_EQ(finished.out, "137\n0\n") << finished.err;
      EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "run", "--", "true"}).status, 0);  // ends the one that was killed
      EXPECT_EQ(nlohmann::json::parse(ReadFile(summary))["processes"].size(), 2U) << end;
    }
  }
  // With nobody watching the next one is not held up by what a killed one left behind.
  const Finished killed =
      RunProgram({SLIPSTREAM_COMMAND, "run", "--", "sh", "-c", "echo $SLIPSTREAM_RUN_DIRECTORY; (kill -9 $$); :"},
                 {{"SLIPSTREAM_RUN_WATCHER", "off"}});
  EXPECT_EQ(killed.status, 137);
  const std::string left = killed.out.substr(0, killed.out.find('\n'));
  EXPECT_EQ(access(left.c_str(), F_OK), 0) << left;
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "run", "--", "true"}).status, 0);
  EXPECT_NE(access(left.c_str(), F_OK), 0) << left << " is swept by the next run";
}

// Of two runs at once each has a directory of its own, which nobody else can look into: no name is shared between
// users.
TEST_F(ChildrenTest, C13_EachRunHasADirectoryOfItsOwnUser) {
  NEEDS_PLAIN_BUILD();
  const std::string inner =
      std::string(SLIPSTREAM_COMMAND) + " run -- sh -c 'stat -c \"%a %u %n\" $SLIPSTREAM_RUN_DIRECTORY'";
  const Finished finished = RunProgram(
      {SLIPSTREAM_COMMAND, "run", "--", "sh", "-c", "stat -c '%a %u %n' $SLIPSTREAM_RUN_DIRECTORY; " + inner});
  std::istringstream lines(finished.out);
  std::string first;
  std::string second;
  std::getline(lines, first);
  std::getline(lines, second);
  const std::string beginning = "700 " + std::to_string(geteuid()) + " /";
  EXPECT_EQ(first.rfind(beginning, 0), 0U) << first;
  EXPECT_EQ(second.rfind(beginning, 0), 0U) << second;
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace slipstream::test
