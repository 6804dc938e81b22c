// Runs the rule tests, each in a process of its own: bare, under the library, or under the library with one rule
// broken.
//
//   run_rules PROGRAM FILTER SEEDS [LIBRARY [NAME=VALUE...]]
//   run_rules PROGRAM --named RULE,RULE...    whether each test is one of a rule that is run: "RULE_..."
//
// PROGRAM is a GoogleTest program (rules.h), FILTER one of its filters, SEEDS seeds of the simulated device with commas
// in between, NAME=VALUE a variable for the runs under the library. BROKEN_RULE breaks a rule, which must be found out:
// at least one test fails, by a failed expectation, and none crashes. Exit status 0: as it must be; 77: a broken rule
// that no test could look for on this machine.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace {

using slipstream::test::Finished;
using slipstream::test::RunProgram;
using slipstream::test::Split;
using slipstream::test::Variables;

// Full names of the program's tests that the filter lets through.
std::vector<std::string> TestsOf(const std::string& program, const std::string& filter) {
  const Finished listed = RunProgram({program, "--gtest_list_tests", "--gtest_filter=" + filter});
  std::vector<std::string> tests;
  std::string suite;
  for (const std::string& line : Split(listed.out, '\n')) {
    if (line.rfind("  ", 0) == 0) {
      tests.push_back(suite + line.substr(2, line.find(' ', 2) - 2));
    } else if (!line.empty() && line.back() == '.') {
      suite = line;
    }
  }
  return tests;
}

// Exit status 0: every test of the program is one of a rule.
int AllAreNamed(const std::string& program, const std::vector<std::string>& rules) {
  const std::vector<std::string> tests = TestsOf(program, "*");
  int nameless = 0;
  for (const std::string& test : tests) {
    const std::string name = test.substr(test.find('.') + 1);
    const bool named = std::any_of(rules.begin(), rules.end(),
                                   [&](const std::string& rule) { return name.rfind(rule + "_", 0) == 0; });
    if (named) continue;
    ++nameless;
    std::printf("%s is never run: RULES and UNBROKEN of its CMakeLists.txt have no word that it begins with\n",
                test.c_str());
  }
  std::printf("%zu tests, %d of no rule\n", tests.size(), nameless);
  return !tests.empty() && nameless == 0 ? 0 : 1;
}

bool IsMutant(const std::string& name) { return name == "BROKEN_RULE"; }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("run_rules PROGRAM FILTER SEEDS [LIBRARY [NAME=VALUE...]]\n", stderr);
    return 2;
  }
  const std::string program = argv[1];
  if (std::string(argv[2]) == "--named") return AllAreNamed(program, Split(argv[3], ','));
  Variables variables;
  bool mutant = false;
  if (argc > 4) {
    variables = slipstream::test::Preload(argv[4]);
  }
  for (int i = 5; i < argc; ++i) {
    const std::string text = argv[i];
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      std::fprintf(stderr, "run_rules: '%s' is no NAME=VALUE\n", argv[i]);
      return 2;
    }
    const std::string name = text.substr(0, equals);
    variables[name] = text.substr(equals + 1);
    mutant |= IsMutant(name);
  }
  // A broken rule must be found out by what the program observes, not by what the library says of itself.
  if (argc > 4 && !mutant) {
    variables["RULES_ENGINE"] = "1";
  }
  // Unbroken, the same tests take a second or two.
  if (mutant) {
    variables["RULES_SECONDS"] = "15";
    variables["RULES_BROKEN"] = "1";
  }
  int passed = 0;
  int failed = 0;
  int crashed = 0;
  int skipped = 0;
  for (const std::string& test : TestsOf(program, argv[2])) {
    if (mutant && failed > 0) break;  // found out
    for (const std::string& seed : Split(argv[3], ',')) {
      variables["SIMCUDA_SEED"] = seed;
      // Its own: a test reads the counters of every process in there again and again.
      if (argc > 4) variables["SLIPSTREAM_RUN_DIRECTORY"] = slipstream::test::NewDirectory();
      const Finished run = RunProgram({program, "--gtest_filter=" + test, "--gtest_brief=1"}, variables);
      ++(run.status == 0 ? passed : run.status == 1 ? failed : crashed);
      skipped += run.out.find("[  SKIPPED ]") != std::string::npos;
      if (run.status != 0) {
        std::printf("%s with seed %s ended with %d\n%s%s", test.c_str(), seed.c_str(), run.status, run.out.c_str(),
                    run.err.c_str());
      }
    }
  }
  std::printf("%d passed, %d failed, %d crashed\n", passed, failed, crashed);
  if (mutant && skipped > 0 && skipped == passed + failed + crashed) {
    std::puts("every test of the rule was skipped");
    return 77;
  }
  const bool found_out = failed > 0 && crashed == 0;
  const bool clean = passed > 0 && failed + crashed == 0;
  return (mutant ? found_out : clean) ? 0 : 1;
}
