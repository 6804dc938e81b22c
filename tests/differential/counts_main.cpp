// differential_counts DIRECTORY: what the library counted in the processes that had this run directory, one line each:
// `call cudaMemcpyAsync 12`, `decision transfer.sync.skipped 3`; sums over the processes, without what is 0.
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tracer/counters/counter_reader.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "differential_counts DIRECTORY\n";
    return 2;
  }
  std::map<std::string, uint64_t> sums;
  std::vector<std::string> problems;
  for (const auto& process : slipstream::tracer::ReadRunDirectory(argv[1], &problems)) {
    for (const auto& function : process.functions) sums["call " + function.name] += function.calls;
    for (const auto& decision : process.decisions) sums["decision " + decision.name] += decision.count;
  }
  for (const auto& [name, count] : sums) {
    if (count != 0) std::cout << name << " " << count << "\n";
  }
  for (const std::string& problem : problems) std::cerr << problem << "\n";
  return problems.empty() ? 0 : 1;
}
