#include "shim/runtime_exports.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace slipstream::shim {
namespace {

constexpr std::string_view kFunctions[] = {
#define HOOK_NAME(group, function) #function,
#define HOOK_DRIVER_NAME(group, function, name)
#include "shim/hooks.def"
#define UNHOOKED(function) #function,
#include "shim/unhooked.def"
};

constexpr auto Sorted() {
  std::array<std::string_view, std::size(kFunctions)> sorted;
  std::copy(std::begin(kFunctions), std::end(kFunctions), sorted.begin());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}
constexpr auto kKnown = Sorted();

bool ContainsAny(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [name](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

bool IsOfCuda(std::string_view name) {
  if (name.starts_with("__")) name.remove_prefix(2);
  return name.size() > 4 && name.starts_with("cuda") && name[4] >= 'A' && name[4] <= 'Z';
}

// Of an object's dynamic section: what is needed to walk its exported symbols.
struct Symbols {
  const char* strings = nullptr;
  const ElfW(Sym) * table = nullptr;
  const uint32_t* gnu_hash = nullptr;
};

Symbols SymbolsOf(const ElfW(Dyn) * dynamic, ElfW(Addr) base) {
  Symbols symbols;
  for (const ElfW(Dyn)* entry = dynamic; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    // glibc has relocated these entries in place; others have not.
    const ElfW(Addr) address = entry->d_un.d_ptr < base ? entry->d_un.d_ptr + base : entry->d_un.d_ptr;
    if (entry->d_tag == DT_STRTAB) symbols.strings = reinterpret_cast<const char*>(address);
    if (entry->d_tag == DT_SYMTAB) symbols.table = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_GNU_HASH) symbols.gnu_hash = reinterpret_cast<const uint32_t*>(address);
  }
  return symbols;
}

}  // namespace

void UnknownFunctions::Add(std::string_view name) {
  const size_t used = std::strlen(names);
  const std::string_view between = count == 0 ? "" : ", ";
  ++count;
  if (used + between.size() + name.size() >= sizeof(names)) return;
  std::memcpy(names + used, between.data(), between.size());
  std::memcpy(names + used + between.size(), name.data(), name.size());
  names[used + between.size() + name.size()] = '\0';
}

bool IsKnownFunction(std::string_view name) { return std::binary_search(kKnown.begin(), kKnown.end(), name); }

// What hands out an address, a handle or another function is no mere question: what is done by way of that is unseen
// too.
bool OnlyAsks(std::string_view name) {
  return ContainsAny(name, {"Get", "Occupancy", "CanAccess"}) &&
         !ContainsAny(name, {"Address", "EntryPoint", "Export", "Global", "Handle", "Import", "Ipc", "Managed",
                             "Mapped", "Pointer", "Symbol", "Table"});
}

UnknownFunctions UnknownFunctionsOf(const ElfW(Dyn) * dynamic, ElfW(Addr) base) {
  UnknownFunctions unknown;
  const Symbols symbols = SymbolsOf(dynamic, base);
  if (symbols.strings == nullptr || symbols.table == nullptr || symbols.gnu_hash == nullptr) {
    unknown.Add("(its table of functions cannot be read)");
    return unknown;
  }
  const uint32_t buckets = symbols.gnu_hash[0];
  const uint32_t first_hashed = symbols.gnu_hash[1];
  const uint32_t filter_words = symbols.gnu_hash[2];
  const uint32_t* const bucket = symbols.gnu_hash + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* const chain = bucket + buckets;
  for (uint32_t i = 0; i < buckets; ++i) {
    if (bucket[i] < first_hashed) continue;  // empty
    for (uint32_t symbol = bucket[i];; ++symbol) {
      const std::string_view name = symbols.strings + symbols.table[symbol].st_name;
      if (IsOfCuda(name) && !IsKnownFunction(name) && !OnlyAsks(name)) unknown.Add(name);
      if ((chain[symbol - first_hashed] & 1) != 0) break;  // the last of its bucket
    }
  }
  return unknown;
}

}  // namespace slipstream::shim
