// Places in native code that stacks of all processes refer to, as rows: SLIPSTREAM_MODULES and SLIPSTREAM_ADDRESSES.
//
// A function has its name where the module's file is there, and is the one that was mapped (module_symbols.h); else a
// place is "libtorch.so+0x1234".
//
// Memory: the symbols of every module that is on a stack, until the object goes.
// Threading, errors: as their Database.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tools/trace/db/module_symbols.h"
#include "tools/trace/db/table.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::trace_db {

class NativePlaces {
 public:
  explicit NativePlaces(Database* database) : modules_(database, kOwnModules), addresses_(database, kOwnAddresses) {}

  bool Create() { return modules_.Create() && addresses_.Create(); }
  void SetDebugDirectory(const std::string& directory) { debug_directory_ = directory; }

  struct Place {
    int64_t id = 0;
    std::string name;      // of the function, or "libtorch.so+0x1234"
    std::string path;      // of the module; empty: none, or nobody knows
    bool is_cuda = false;  // the module is one of NVIDIA's, or the loader's way to it
  };
  // `address` of a spool; an unknown one is an unknown place.
  const Place& PlaceOf(const tracer::SpoolReader& spool, uint32_t address);

 private:
  struct Module {
    int64_t id = 0;
    std::unique_ptr<ModuleSymbols> symbols;  // null: its names are not known
  };

  Module& ModuleOf(const tracer::SpoolModule& module);

  Table modules_;
  Table addresses_;
  std::string debug_directory_;
  std::map<std::pair<std::string, std::string>, Module> by_file_;  // by path and build-id
  std::map<std::pair<int64_t, uint64_t>, Place> by_offset_;        // by module and offset
};

// Whether a library of that path is one of CUDA's (the runtime, the driver, CUPTI, cuBLAS, cuDNN, NCCL and so on): not
// where a program's own call is.
bool IsCudaLibrary(std::string_view path);

}  // namespace slipstream::trace_db
