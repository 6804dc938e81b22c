// Writes docs/hooks.md, the table of intercepted functions, from the hook table. With no argument: to standard output.

#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tracer/hook_id.h"

namespace {

using slipstream::tracer::HookId;
using slipstream::tracer::kHookCount;

void Write(std::ostream& out) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> functions;
  for (size_t i = 0; i < kHookCount; ++i) {
    const auto id = static_cast<HookId>(i);
    const std::string group(NameOf(GroupOf(id)));
    if (functions[group].empty()) order.push_back(group);
    functions[group].emplace_back(NameOf(id));
  }
  out << "# Intercepted functions\n\n"
         "Generated from `shim/hooks.def` by the target `hooks-reference`; do not edit.\n\n"
         "Names that end in `_ptsz` or `_ptds` are those of programs compiled for per-thread default streams; names "
         "that\n"
         "end in `_v2` or `_v3` exist in CUDA 12 only. A function that the loaded runtime does not have answers\n"
         "`cudaErrorNotSupported`; `slipstream doctor` lists which those are.\n\n"
         "| group | functions ("
      << kHookCount << ") |\n|---|---|\n";
  for (const std::string& group : order) {
    out << "| " << group << " | ";
    bool first = true;
    for (const std::string& function : functions[group]) {
      out << (first ? "" : ", ") << '`' << function << '`';
      first = false;
    }
    out << " |\n";
  }
  out << "\nOf the C library, and neither counted nor traced:";
#define HOOK_LIBC(function) out << " `" #function "`";
#include "shim/hooks.def"
  out << ". They concern the shared memory of batches only\n([transfer.md](transfer.md)); all else goes straight to "
         "the "
         "real function.\n\nAsked for by the loader of a tools interface:";
#define HOOK_TOOL(function) out << " `" #function "`";
#include "shim/hooks.def"
  out << " (NVTX, [trace.md](trace.md)).\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    Write(std::cout);
    return 0;
  }
  std::ofstream file(argv[1]);
  Write(file);
  file.close();
  if (!file) {
    std::cerr << "cannot write " << argv[1] << "\n";
    return 1;
  }
  return 0;
}
