// Runs the rule tests, each in a process of its own: bare, under the library, or under the library with one rule
// broken.
//
//   run_rules PROGRAM FILTER SEEDS [LIBRARY [MUTANT]]
//
// PROGRAM is a GoogleTest program (rule_test.h), FILTER one of its filters, SEEDS seeds of the simulated device with
// commas in between. With a MUTANT (the library's TRANSFER_BROKEN_RULE) the rule is broken and must be found out: at
// least one test fails, by a failed expectation, and none crashes. Exit status 0: as it must be.
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "tests/preload/process.h"

namespace {

using slipstream::test::Finished;
using slipstream::test::RunProgram;
using slipstream::test::Variables;

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

const char* const kMutantVariable = "TRANSFER_BROKEN_RULE";

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

Variables VariablesFor(const std::string& library, const std::string& mutant, const std::string& seed) {
  Variables variables;
  if (!library.empty()) {
    variables = slipstream::test::Preload(library);
    variables["SLIPSTREAM_RUN_DIRECTORY"] = slipstream::test::NewDirectory();
    variables["SLIPSTREAM_TRANSFER_START"] = "now";
    variables["SLIPSTREAM_TRANSFER_THREADS"] = "3";  // on however few processors
    // A broken rule must be found out by what the program observes, not by what the library says of itself.
    variables[mutant.empty() ? "RULES_ENGINE" : kMutantVariable] = mutant.empty() ? "1" : mutant;
  }
  variables["SIMCUDA_SEED"] = seed;
  return variables;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 6) {
    std::fputs("run_rules PROGRAM FILTER SEEDS [LIBRARY [MUTANT]]\n", stderr);
    return 2;
  }
  const std::string program = argv[1];
  const std::string library = argc > 4 ? argv[4] : "";
  const std::string mutant = argc > 5 ? argv[5] : "";
  const std::vector<std::string> tests = TestsOf(program, argv[2]);
  int passed = 0;
  int failed = 0;
  int crashed = 0;
  for (const std::string& test : tests) {
    for (const std::string& seed : Split(argv[3], ',')) {
      const Finished run =
          RunProgram({program, "--gtest_filter=" + test, "--gtest_brief=1"}, VariablesFor(library, mutant, seed));
      ++(run.status == 0 ? passed : run.status == 1 ? failed : crashed);
      if (run.status != 0) {
        std::printf("%s with seed %s ended with %d\n%s%s", test.c_str(), seed.c_str(), run.status, run.out.c_str(),
                    run.err.c_str());
      }
    }
  }
  std::printf("%d passed, %d failed, %d crashed\n", passed, failed, crashed);
  const bool found_out = failed > 0 && crashed == 0;
  const bool clean = passed > 0 && failed + crashed == 0;
  return (mutant.empty() ? clean : found_out) ? 0 : 1;
}
