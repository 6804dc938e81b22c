// Names of functions from ELF files, which may be any file that has the right build-id.
#include <cstring>

#include "tests/fuzz/spool_input.h"
#include "tools/trace/db/module_symbols.h"

namespace slipstream::fuzz {

std::vector<std::string> Seeds() { return {BytesOf(SYMBOLS_LIBRARY)}; }

void OneInput(std::string_view bytes) {
  // What a build-id of SHA-1 is behind, so that most inputs are the file that is looked for.
  constexpr std::string_view kNote("\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", 16);
  const size_t at = bytes.find(kNote);
  const std::string_view id =
      at != std::string_view::npos ? bytes.substr(at + kNote.size(), 20) : "01234567890123456789";
  const auto symbols = trace_db::ModuleSymbols::Read(FileOf(bytes, "a.so"), id, "");
  if (symbols == nullptr) return;
  for (uint64_t address = 0; address < 0x4000; address += 0x31) symbols->At(address);
  for (const uint64_t address : {uint64_t{1} << 32, uint64_t{1} << 63, ~uint64_t{0}}) symbols->At(address);
  Must(!symbols->Has("no function has this name"), "no name is made up");
}

}  // namespace slipstream::fuzz
