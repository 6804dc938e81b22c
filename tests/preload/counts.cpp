#include "tests/preload/counts.h"

#include <nlohmann/json.hpp>
#include <set>

#include "tracer/base/hook_id.h"

namespace slipstream::test {

CallCounts CountsOf(const tracer::ProcessCounts& process) {
  CallCounts counts;
  for (const tracer::FunctionCounts& function : process.functions) {
    if (function.calls != 0) counts[function.name] += function.calls;
  }
  return counts;
}

CallCounts CountsIn(const std::string& run_directory) {
  CallCounts counts;
  std::vector<std::string> problems;
  for (const tracer::ProcessCounts& process : tracer::ReadRunDirectory(run_directory, &problems)) {
    for (const auto& [name, calls] : CountsOf(process)) counts[name] += calls;
  }
  for (const std::string& problem : problems) counts[problem] = 1;  // shows up in any comparison
  return counts;
}

CallCounts SimulatorCounts(const std::string& path, const std::string& library) {
  std::set<std::string> hooked;
  for (size_t i = 0; i < tracer::kHookCount; ++i) hooked.insert(tracer::NameOf(static_cast<tracer::HookId>(i)));
  // Registration is hooked and not counted: it is not a use of CUDA.
  hooked.erase("__cudaRegisterFatBinary");
  hooked.erase("__cudaRegisterManagedVar");
  CallCounts counts;
  const nlohmann::json root = nlohmann::json::parse(ReadFile(path), nullptr, false);
  if (root.is_discarded()) return {{"not JSON: " + path, 1}};
  const auto functions = root.find(library);
  if (functions == root.end()) return counts;
  for (const auto& [name, calls] : functions->items()) {
    if (hooked.count(name) != 0 && calls.get<uint64_t>() != 0) counts[name] = calls.get<uint64_t>();
  }
  return counts;
}

Variables CountingPreload(const std::string& library, const std::string& run_directory) {
  Variables variables = Preload(library);
  variables["SLIPSTREAM_RUN_DIRECTORY"] = run_directory;
  variables["SLIPSTREAM_ALLOCATOR_MODE"] = "off";  // what a pool answers reaches no runtime
  return variables;
}

}  // namespace slipstream::test
