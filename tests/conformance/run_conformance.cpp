// Starts the conformance tests, or the fuzzer, over one of the things that may stand underneath, and says whether it
// went as it must.
//
//   run_conformance --program PROGRAM [--library LIBRARY --allocator off|segments] [--seeds 0,1] [--filter FILTER]
//                   [--set VARIABLE=VALUE,...] [--mutant RULE] [--require DECISION,...] [--limit SECONDS]
//                   [-- ARGUMENTS]
//
// Without a library the program runs bare. Each suite of a GoogleTest program has a process of its own; with arguments
// after -- there is one process, which gets them. --seeds are orders of the simulated device. With --mutant the rule is
// broken in the library (BROKEN_RULE) and must be found out: at least one process fails, by a failed
// expectation, and none crashes. --set changes the environment, --require names decisions that the library must have
// taken in all. A process that takes nearly --limit seconds (120) says where it is stuck, and has failed; one that does
// not end even so is killed, and has crashed. Exit status 0: as it must be.
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tracer/counters/counter_reader.h"

namespace {

using slipstream::test::Finished;
using slipstream::test::RunProgram;
using slipstream::test::Split;
using slipstream::test::Variables;

struct Arguments {
  std::map<std::string, std::string> options;  // without the dashes
  std::vector<std::string> rest;
  std::string Of(const std::string& name) const {
    const auto found = options.find(name);
    return found != options.end() ? found->second : "";
  }
};

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") {
      arguments->rest.assign(argv + i + 1, argv + argc);
      break;
    }
    if (word.rfind("--", 0) != 0 || i + 1 == argc) {
      return false;
    }
    arguments->options[word.substr(2)] = argv[++i];
  }
  return !arguments->Of("program").empty();
}

// Seconds.
int LimitOf(const Arguments& arguments) {
  const std::string limit = arguments.Of("limit");
  return limit.empty() ? 120 : std::atoi(limit.c_str());
}

// The tests that the filter lets through, one filter for each suite.
std::vector<std::string> FiltersOf(const std::string& program, const std::string& filter) {
  const Finished listed = RunProgram({program, "--gtest_list_tests", "--gtest_filter=" + filter});
  std::vector<std::string> filters;
  std::string suite;
  for (const std::string& line : Split(listed.out, '\n')) {
    if (line.rfind("  ", 0) == 0) {
      filters.back() += (filters.back().empty() ? "" : ":") + suite + line.substr(2, line.find(' ', 2) - 2);
    } else if (const std::string name = line.substr(0, line.find(' ')); !name.empty() && name.back() == '.') {
      suite = name;
      filters.emplace_back();
    }
  }
  return filters;
}

Variables VariablesFor(const Arguments& arguments, const std::string& directory, const std::string& seed) {
  Variables variables;
  if (!arguments.Of("library").empty()) {
    variables = slipstream::test::Preload(arguments.Of("library"));
    variables["SLIPSTREAM_RUN_DIRECTORY"] = directory;
    variables["SLIPSTREAM_ALLOCATOR_MODE"] = arguments.Of("allocator");
    variables["SLIPSTREAM_ALLOCATOR_KEEP_FREE"] = "0B";  // the simulated device is small
    variables["SLIPSTREAM_ALLOCATOR_DECAY"] = "3600";    // the program decides when memory goes, not the clock
    variables["SLIPSTREAM_TRANSFER_START"] = "now";
    variables["BROKEN_RULE"] = arguments.Of("mutant");
  }
  const int limit = LimitOf(arguments);
  variables["CONFORMANCE_SECONDS"] = std::to_string(limit - limit / 6);  // its stacks take time too
  variables["SIMCUDA_MEMORY"] = "256MiB";                                // what fills it is done sooner
  if (!seed.empty()) {
    variables["SIMCUDA_SEED"] = seed;
  }
  for (const std::string& change : Split(arguments.Of("set"), ',')) {
    const size_t equals = change.find('=');
    if (equals != std::string::npos) {
      variables[change.substr(0, equals)] = change.substr(equals + 1);
    }
  }
  return variables;
}

// Adds up what the processes that wrote there have decided.
void AddDecisions(const std::string& directory, std::map<std::string, uint64_t>* decisions) {
  std::vector<std::string> problems;
  for (const auto& process : slipstream::tracer::ReadRunDirectory(directory, &problems)) {
    for (const auto& decision : process.decisions) {
      (*decisions)[decision.name] += decision.count;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::fputs("run_conformance: wrong usage; see the head of run_conformance.cpp\n", stderr);
    return 2;
  }
  // The loader would go on without it, and the program would run bare.
  if (const std::string library = arguments.Of("library"); !library.empty() && access(library.c_str(), R_OK) != 0) {
    std::fprintf(stderr, "run_conformance: there is no library %s\n", library.c_str());
    return 2;
  }
  const std::string program = arguments.Of("program");
  const std::string filter = arguments.Of("filter").empty() ? "*" : arguments.Of("filter");
  std::vector<std::vector<std::string>> commands;
  if (!arguments.rest.empty()) {
    commands.push_back({program});
    commands.back().insert(commands.back().end(), arguments.rest.begin(), arguments.rest.end());
  } else {
    for (const std::string& tests : FiltersOf(program, filter)) {
      commands.push_back({program, "--gtest_filter=" + tests, "--gtest_brief=1"});
    }
  }
  std::vector<std::string> seeds = Split(arguments.Of("seeds"), ',');
  if (seeds.empty()) {
    seeds.emplace_back();
  }
  const std::chrono::seconds limit(LimitOf(arguments));
  int passed = 0;
  int failed = 0;
  int crashed = 0;
  std::map<std::string, uint64_t> decisions;
  for (const std::string& seed : seeds) {
    for (const std::vector<std::string>& command : commands) {
      const std::string directory = slipstream::test::NewDirectory();
      Variables variables = VariablesFor(arguments, directory, seed);
      // With a second device about, the pool puts nothing behind a wait of the device.
      const bool two = command[1].find("Devices/") != std::string::npos;
      variables.emplace("SIMCUDA_DEVICES", two ? "2" : "1");
      const Finished run = RunProgram(command, variables, "", limit);
      ++(run.status == 0 ? passed : run.status == 1 ? failed : crashed);
      AddDecisions(directory, &decisions);
      if (run.status != 0) {
        std::printf("%s with seed \"%s\" ended with %d\n%s%s", command[1].c_str(), seed.c_str(), run.status,
                    run.out.c_str(), run.err.c_str());
      }
    }
  }
  std::printf("%d passed, %d failed, %d crashed\n", passed, failed, crashed);
  bool required = true;
  for (const std::string& name : Split(arguments.Of("require"), ',')) {
    if (decisions["allocator." + name] == 0) {
      std::printf("the library never decided allocator.%s: nothing is shown\n", name.c_str());
      required = false;
    }
  }
  for (const auto& [name, count] : decisions) {
    if (name.rfind("allocator.", 0) == 0 && count != 0) {
      std::printf("%s %llu\n", name.c_str(), static_cast<unsigned long long>(count));
    }
  }
  const bool found_out = failed > 0 && crashed == 0;
  const bool clean = passed > 0 && failed + crashed == 0 && required;
  return (arguments.Of("mutant").empty() ? clean : found_out) ? 0 : 1;
}
