// The functions of an ELF file by address, from its symbol tables and those of its debug file: names are looked up
// where a trace is read, never in the process that it is of.
//
// A file whose build-id is not that of the mapped one gives no names, because a wrong name is worse than none. Neither
// does a file without a build-id.
//
// Memory: 32 bytes a symbol; names stay in the files, which are mapped.
// Threading: an object belongs to one thread.
// Errors: what cannot be read has no functions. Nothing is fetched from anywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream::trace_db {

class ModuleSymbols {
 public:
  // `build_id`: bytes. `debug_directory`: where the system keeps debug files, as /usr/lib/debug; empty: none is looked
  // for. Null: the file is gone, or is another one.
  static std::unique_ptr<ModuleSymbols> Read(const std::string& path, std::string_view build_id,
                                             const std::string& debug_directory);
  ~ModuleSymbols();
  ModuleSymbols(const ModuleSymbols&) = delete;
  ModuleSymbols& operator=(const ModuleSymbols&) = delete;

  struct Function {
    std::string name;    // demangled
    uint64_t begin = 0;  // as the file counts addresses
  };
  // The function that contains the address, by its symbol's size.
  std::optional<Function> At(uint64_t address) const;
  // Whether it has a function of that name (not demangled).
  bool Has(std::string_view function) const;

 private:
  class File;
  struct Symbol {
    uint64_t begin;
    uint64_t size;
    const char* name;
    bool is_global;
  };

  ModuleSymbols() = default;
  void Take(std::unique_ptr<File> file);

  std::vector<std::unique_ptr<File>> files_;
  std::vector<Symbol> symbols_;  // by where they begin
};

}  // namespace slipstream::trace_db
