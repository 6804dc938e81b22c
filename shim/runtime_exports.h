// Whether slipstream knows every function of a libcudart (S66): those that it hooks (hooks.def), and those that were
// judged and left alone (unhooked.def). A function that is in neither may enqueue work, write host memory, wait, free
// or share unseen, so that neither a skipped synchronization nor a reused block would be sound: such a runtime is not
// served.
//
// Of an unknown function only the name can be looked at. One that only answers questions, going by it, is no reason.
//
// Threading: any thread; no lock, no allocation, no CUDA call. The object must stay loaded meanwhile.
// Source: the System V ABI's dynamic section and the GNU hash table, which holds every defined symbol that is exported.
#pragma once

#include <link.h>

#include <cstddef>
#include <string_view>

namespace slipstream::shim {

struct UnknownFunctions {
  size_t count = 0;
  char names[160] = "";  // the first of them, with ", " between

  void Add(std::string_view name);
};

// `name` is one that a libcudart exports.
bool IsKnownFunction(std::string_view name);
bool OnlyAsks(std::string_view name);

// What the loaded object exports that begins with "cuda" or "__cuda", is not known and does more than ask. An object
// that has no GNU hash table cannot be looked at: it has one function, whose name says so.
UnknownFunctions UnknownFunctionsOf(const ElfW(Dyn) * dynamic, ElfW(Addr) base);

}  // namespace slipstream::shim
