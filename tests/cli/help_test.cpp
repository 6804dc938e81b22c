// What the command line says of itself: help that fits a terminal, and mistakes that are told what was meant.

#include <gtest/gtest.h>

#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/plain_build.h"
#include "tests/support/process.h"
#include "tools/cli/duration.h"
#include "tools/cli/exit_codes.h"

namespace slipstream::cli {
namespace {

using test::Finished;

Finished Slipstream(std::vector<std::string> words) {
  words.insert(words.begin(), SLIPSTREAM_COMMAND);
  return test::RunProgram(words);
}

const std::vector<std::vector<std::string>> kCommands = {{},
                                                         {"run"},
                                                         {"report"},
                                                         {"advise"},
                                                         {"compare"},
                                                         {"tune"},
                                                         {"top"},
                                                         {"site"},
                                                         {"metrics"},
                                                         {"record"},
                                                         {"export"},
                                                         {"doctor"},
                                                         {"completion"},
                                                         {"demo"},
                                                         {"help"},
                                                         {"summary"},
                                                         {"policy"},
                                                         {"policy", "check"},
                                                         {"policy", "show"},
                                                         {"policy", "diff"},
                                                         {"policy", "explain"},
                                                         {"policy", "init"}};

std::string Joined(const std::vector<std::string>& words) {
  std::string text = "slipstream";
  for (const std::string& word : words) text += " " + word;
  return text;
}

TEST(HelpTest, EveryCommandHasUsageStatusesAndLinesThatFit) {
  for (std::vector<std::string> words : kCommands) {
    const std::string name = Joined(words);
    words.emplace_back("--help");
    const Finished help = Slipstream(words);
    EXPECT_EQ(help.status, kSuccess) << name;
    EXPECT_EQ(help.err, "") << name;
    EXPECT_TRUE(help.out.starts_with("Usage: " + name + " ")) << help.out;
    if (words[0] != "policy" || words.size() > 2) {
      EXPECT_NE(help.out.find("Exit status: "), std::string::npos) << help.out;
    }
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 80U) << line;
      EXPECT_FALSE(line.ends_with(" ")) << "\"" << line << "\"";
    }
  }
}

TEST(HelpTest, EveryCommandStandsInTheOverview) {
  const std::string overview = Slipstream({"--help"}).out;
  for (const std::vector<std::string>& words : kCommands) {
    if (words.size() == 1) {
      EXPECT_NE(overview.find("\n  " + words[0] + " "), std::string::npos) << words[0];
    }
  }
  EXPECT_TRUE(Slipstream({"--version"}).out.starts_with("slipstream "));
  EXPECT_EQ(Slipstream({"-V"}).out, Slipstream({"--version"}).out);
  EXPECT_TRUE(Slipstream({"help"}).out.starts_with(overview + "\n"));  // the topics: manual.py
  EXPECT_EQ(Slipstream({"help", "policy", "diff"}).out, Slipstream({"policy", "diff", "--help"}).out);
}

TEST(HelpTest, MistakesAreToldWhatWasMeant) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "slipstream: no command\n"},
      {{"rn"}, "slipstream: no command \"rn\"; did you mean run?\n"},
      {{"frobnicate"}, "slipstream: no command \"frobnicate\"\n"},
      {{"policy", "shw"}, "slipstream policy: no command \"shw\"; did you mean show?\n"},
      {{"policy"}, "slipstream policy: no command\n"},
      {{"run", "--polcy", "x", "--", "true"}, "slipstream run: no option --polcy; did you mean --policy?\n"},
      {{"report", "--htm=x"}, "slipstream report: no option --htm=x; did you mean --html?\n"},
      {{"top", "a", "b"}, "slipstream top: what is \"b\" for?\n"},
      {{"report", "--", "true"}, "slipstream report: takes no command behind --\n"},
      {{"tune", "-n", "2", "--", "true"}, "slipstream tune: --pairs: Value 2 not in range 3 to 1000\n"},
      {{"policy", "diff"}, "slipstream policy diff: A is required\n"},
      {{"advise"}, "slipstream: no run, and none here. Write:  slipstream advise RUN (or --list)\n"},
      {{"compare"}, "slipstream: no command. Write:  slipstream compare [options] -- COMMAND...\n"},
      {{"tune", "--budget", "10x", "--", "true"},
       "slipstream tune: --budget: \"10x\" is no time, such as 90, 90s, 10m or 1h30m\n"},
      {{"site", "--by", "host"}, "slipstream site: --by: host not in {user,program,version}"},
      {{"metrics", "--interval", "5s"}, "slipstream metrics: --interval requires --output\n"},
      {{"top", "--interval", "9h"}, "slipstream top: --interval: 9h is not from 100 ms to 60 min\n"},
      // The right line is printed, to be pasted.
      {{"run", "python3", "-c", "print(1)"},
       "slipstream: the command stands after --:\n  slipstream run -- python3 -c 'print(1)'\n"},
      {{"run", "--summary", "s.json", "--quiet", "true", "--x", "--", "y"}, "slipstream run: what is \"true\" for?\n"},
      {{"run", "train.py", "--epochs", "1"},
       "slipstream: the command stands after --:\n  slipstream run -- python train.py --epochs 1\n"},
      {{"--quiet", "run", "--summary", "s.json", "true"},
       "slipstream: the command stands after --:\n  slipstream run --quiet --summary s.json -- true\n"},
      {{"--quiet", "run", "--", "true", "--", "x"},
       "slipstream: the options stand after the command's name:\n  slipstream run --quiet -- true -- x\n"},
      {{"--json", "policy", "show"},
       "slipstream: the options stand after the command's name:\n  slipstream policy show --json\n"},
      {{"compare", "--pairs", "3", "sh", "-c", "true"},
       "slipstream: the command stands after --:\n  slipstream compare --pairs 3 -- sh -c true\n"},
      {{"doctor", "true"}, "slipstream: the command stands after --:\n  slipstream doctor -- true\n"},
      {{"sh", "-c", "true"},
       "slipstream: no command \"sh\". To run it under slipstream:\n  slipstream run -- sh -c true\n"},
  };
  for (const auto& [words, said] : cases) {
    const Finished finished = Slipstream(words);
    EXPECT_EQ(finished.status, kUsage) << Joined(words);
    EXPECT_EQ(finished.out, "") << Joined(words);
    EXPECT_TRUE(finished.err.starts_with(said)) << Joined(words) << ": " << finished.err;
  }
}

TEST(DurationTest, NumbersWithUnits) {
  const std::vector<std::pair<std::string, double>> times = {
      {"90", 90},        {"1.5", 1.5},    {"90s", 90},     {"10m", 600},     {"2h", 7200},           {"7d", 604800},
      {"1d12h", 129600}, {"250ms", 0.25}, {"1h30m", 5400}, {"1m0.5s", 60.5}, {"2400h", kMostSeconds}};
  for (const auto& [text, seconds] : times) {
    const std::optional<double> found = ParseDuration(text);
    ASSERT_TRUE(found) << text;
    EXPECT_DOUBLE_EQ(*found, seconds) << text;
  }
  for (const char* const text : {"",    "m",   "0",    "0s",   "-1",   "+1",  "1 m", "1w",    "30m1h", "1m1m", "1m30",
                                 "30 ", "1e3", "1d1d", "1h1d", "101d", "inf", "nan", "2401h", ".5",    "1..5"}) {
    EXPECT_FALSE(ParseDuration(text)) << text;
  }
}

// What stands behind "--" is the command's own.
TEST(HelpTest, OptionsOfTheCommandAreNotOurs) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = Slipstream({"run", "--quiet", "--", "echo", "--help", "--", "-x"});
  EXPECT_EQ(finished.out, "--help -- -x\n") << finished.err;
}

}  // namespace
}  // namespace slipstream::cli
