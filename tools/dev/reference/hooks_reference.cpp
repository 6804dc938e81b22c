// Writes docs/hooks.md, the table of intercepted functions, from the hook table. With no argument: to standard output.

#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tracer/base/hook_id.h"

namespace {

using slipstream::tracer::HookId;
using slipstream::tracer::kHookCount;

// The functions of the runtime, or of the driver, by group.
void WriteTable(std::ostream& out, bool of_driver) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> functions;
  size_t count = 0;
  for (size_t i = 0; i < kHookCount; ++i) {
    const auto id = static_cast<HookId>(i);
    if (IsOfDriver(id) != of_driver) continue;
    ++count;
    const std::string group(NameOf(GroupOf(id)));
    if (functions[group].empty()) order.push_back(group);
    functions[group].emplace_back(NameOf(id));
  }
  out << "| group | functions (" << count << ") |\n|---|---|\n";
  for (const std::string& group : order) {
    out << "| " << group << " | ";
    bool first = true;
    for (const std::string& function : functions[group]) {
      out << (first ? "" : ", ") << '`' << function << '`';
      first = false;
    }
    out << " |\n";
  }
}

void Write(std::ostream& out) {
  out << "# Intercepted functions\n\n"
         "Generated from `shim/hooks.def` by the target `hooks-reference`; do not edit.\n\n"
         "## The CUDA runtime\n\n"
         "Names that end in `_ptsz` or `_ptds` are those of programs compiled for per-thread default streams. Not "
         "every\n"
         "CUDA from 12.0 to 13.5 has every function; one that the loaded runtime does not have answers\n"
         "`cudaErrorNotSupported`, and `slipstream doctor` lists which those are. What a runtime has besides was "
         "judged\n"
         "to be none of slipstream's business, and stands in `shim/unhooked.def` with the reason. A runtime that has "
         "a\n"
         "function in neither list, because it is newer, is not served: its calls are passed on and counted, and\n"
         "`slipstream doctor` and the summary name the function.\n\n";
  WriteTable(out, false);
  out << "\n## The CUDA driver\n\n"
         "Where the policy says `intercept.level = \"driver\"` ([driver-level.md](driver-level.md)). Names are the "
         "exported ones, which\n"
         "`cuda.h` gives to the functions that it declares. A function that the loaded driver does not have answers\n"
         "`CUDA_ERROR_NOT_FOUND`; a program that asks for it by name is told so by the driver.\n\n";
  WriteTable(out, true);
  out << "\n## Others\n";
  out << "\nOf the C library, and neither counted nor traced:";
#define HOOK_LIBC(function) out << " `" #function "`";
#include "shim/hooks.def"
  out << ".\n`mmap` and `munmap` concern the shared memory of batches only ([transfer.md](transfer.md)), `dlsym` the "
         "functions\nof CUDA ([driver-level.md](driver-level.md)) and CUPTI only, the functions of `exec` and "
         "`spawn` programs "
         "that a policy keeps "
         "the preload out of\n([children.md](children.md)), `_exit`, `_Exit`, `kill` and `raise` the end of a run "
         "([run.md](run.md)), `setrlimit` and `prlimit` limits of memory only ([transfer.md](transfer.md)); all else "
         "goes straight to the real\nfunction.\n";
  out << "\nOf CUPTI, and neither counted nor traced:";
#define HOOK_CUPTI(function) out << " `" #function "`";
#include "shim/hooks.def"
  out << ". They are forwarded; where\n`tracer.device` uses CUPTI itself ([trace.md](trace.md)), it leaves before "
         "them, and\n`dlsym` finds them in the place of libcupti's.\n";
  out << "\nOf cuFile, and neither counted nor traced:";
#define HOOK_CUFILE(function) out << " `" #function "`";
#include "shim/hooks.def"
  out << ". A program that uses it reads and writes device memory\nbeside every stream: from then on no "
         "synchronization is skipped.\n";
  out << "\nOf PyTorch's libc10, and neither counted nor traced:";
#define HOOK_PYTORCH(function) out << " `" #function "`";
#include "shim/hooks.def"
  out << " (`c10::alloc_cpu` and `c10::free_cpu`). They concern\nmemory of the host of 2 MiB and more "
         "([transfer.md](transfer.md)); all else goes straight to the real function.\n";
  out << "\nAsked for by the loader of a tools interface:";
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
