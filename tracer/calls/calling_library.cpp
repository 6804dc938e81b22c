#include "tracer/calls/calling_library.h"

#include <errno.h>
#include <link.h>
#include <unwind.h>

namespace slipstream::tracer {
namespace {

constexpr int kMaxFrames = 64;
const char kInsideThisLibrary = 0;

// A loaded file, as dladdr tells it. Null: none was found.
struct Object {
  const void* base = nullptr;
  const char* name = nullptr;
};

// Without dladdr, which waits for a lock that a thread may hold while it waits for this one: it loads a library, whose
// constructor has this thread make the call (S78).
Object ObjectAt(uintptr_t address) {
  struct Question {
    uintptr_t address;
    Object object;
  } question = {.address = address, .object = {}};
  const auto look = [](dl_phdr_info* info, size_t, void* data) {
    auto* const asked = static_cast<Question*>(data);
    const void* base = nullptr;
    bool holds = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD) continue;
      const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
      // Segments stand in the order of their addresses.
      if (base == nullptr) base = reinterpret_cast<const void*>(begin);
      holds |= asked->address >= begin && asked->address < begin + segment.p_memsz;
    }
    if (!holds) return 0;
    // The program itself has no name there.
    asked->object = {.base = base, .name = info->dlpi_name[0] != '\0' ? info->dlpi_name : program_invocation_name};
    return 1;
  };
  dl_iterate_phdr(look, &question);
  return question.object;
}

const void* OwnBase() {
  static const void* const base = ObjectAt(reinterpret_cast<uintptr_t>(&kInsideThisLibrary)).base;
  return base;
}

// Whose code the stack of a thread begins with.
bool BeginsThreads(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  return file.starts_with("libc.so") || file.starts_with("libpthread.so");
}

// The first object on the stack that is not in between.
struct Search {
  int frames = 0;
  bool in_driver = false;  // past the callback, whose frames are slipstream's too
  Object found;
};

_Unwind_Reason_Code Look(_Unwind_Context* context, void* data) {
  auto* const search = static_cast<Search*>(data);
  int before = 0;
  const uintptr_t at = _Unwind_GetIPInfo(context, &before);
  if (at == 0 || ++search->frames > kMaxFrames) return _URC_END_OF_STACK;
  // A return address may be the first one behind its function.
  const Object object = ObjectAt(before != 0 ? at : at - 1);
  if (object.name == nullptr) return _URC_NO_REASON;
  if (IsBetween(object.name)) {
    search->in_driver = true;
    return _URC_NO_REASON;
  }
  if (object.base == OwnBase()) {
    // A call of the engines' own, or the program's through a hook that is watched only.
    if (search->in_driver) search->found = object;
    return _URC_NO_REASON;
  }
  const bool is_own = search->found.base != nullptr && BeginsThreads(object.name);
  if (!is_own) search->found = object;
  return _URC_END_OF_STACK;
}

}  // namespace

bool IsBetween(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (const std::string_view name : {"libcuda.so", "libcudart.so", "libcupti.so", "libnvidia-"}) {
    if (file.starts_with(name)) return true;
  }
  return false;
}

CallingLibraries::Entry* CallingLibraries::Find(uint64_t key) {
  // Handles are addresses: their low bits say nothing.
  size_t at = (key ^ key >> 17) * 0x9E3779B97F4A7C15u >> 32;
  for (size_t i = 0; i < entries_.size(); ++i, ++at) {
    Entry& entry = entries_[at % entries_.size()];
    const uint64_t there = entry.key.load(std::memory_order_acquire);
    if (there == key || there == 0) return &entry;
  }
  return nullptr;
}

uint32_t CallingLibraries::Of(uint64_t key) {
  const Entry* const known = Find(key);
  if (known != nullptr && known->key.load(std::memory_order_acquire) == key) {
    return known->library.load(std::memory_order_relaxed);
  }
  const std::lock_guard guard(mutex_);
  Entry* const entry = Find(key);
  if (entry == nullptr || entry->key.load(std::memory_order_relaxed) == key) {
    return entry != nullptr ? entry->library.load(std::memory_order_relaxed) : 0;
  }
  if (count_ == kMaxKeys) return 0;
  const uint32_t library = Walk();
  ++count_;
  entry->library.store(library, std::memory_order_relaxed);
  entry->key.store(key, std::memory_order_release);
  return library;
}

// With the lock held.
uint32_t CallingLibraries::Walk() {
  Search search;
  (void)_Unwind_Backtrace(Look, &search);
  for (const Known& library : known_) {
    if (library.base == search.found.base) return library.number;
  }
  const auto number = static_cast<uint32_t>(known_.size() + 1);
  try {
    known_.push_back({.base = search.found.base, .number = number});
  } catch (...) {
    return 0;
  }
  tell_(told_to_, number, search.found.name != nullptr ? search.found.name : "");
  return number;
}

}  // namespace slipstream::tracer
