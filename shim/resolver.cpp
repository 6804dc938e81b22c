#include "shim/resolver.h"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "cuda/mutant.h"
#include "shim/caller.h"
#include "shim/hook_address.h"
#include "shim/loaded_object.h"
#include "shim/runtime.h"

namespace slipstream::shim {
namespace {

using tracer::HookId;

constexpr std::string_view kRuntimePrefix = "libcudart";

constinit RuntimeLibrary g_libraries[kMaxRuntimes]{};
constinit std::atomic<uint32_t> g_count{0};
constinit std::atomic<bool> g_scanning{false};
constinit std::atomic<bool> g_any_unknown{false};

// "libcudart.so.13", and "libcudart-<hash>.so.12" as some wheels rename it.
bool IsRuntimeName(std::string_view name) {
  return name.substr(0, kRuntimePrefix.size()) == kRuntimePrefix && name.find(".so") != std::string_view::npos;
}

void CopyText(char* to, size_t capacity, std::string_view from) {
  const size_t length = from.size() < capacity ? from.size() : capacity - 1;
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

// Of an object that is loaded: its own name and the names that it needs, straight from its dynamic section.
struct DynamicNames {
  std::string_view soname;
  std::string_view needed_runtime;  // the first DT_NEEDED that is a libcudart; empty: none
};

DynamicNames ReadDynamicNames(const ElfW(Dyn) * dynamic) {
  DynamicNames names;
  if (dynamic == nullptr) return names;
  const char* strings = nullptr;
  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
    // The loader has relocated this entry in place (glibc does for every object but the vDSO, which is none of ours).
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
  }
  if (strings == nullptr) return names;
  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
    const char* text = strings + entry->d_un.d_val;
    if (entry->d_tag == DT_SONAME) names.soname = text;
    if (entry->d_tag == DT_NEEDED && names.needed_runtime.empty() && IsRuntimeName(text)) names.needed_runtime = text;
  }
  return names;
}

struct LoadedRuntimes {
  char paths[kMaxRuntimes][sizeof(RuntimeLibrary::path)];
  uint32_t count;
};

int CollectRuntime(dl_phdr_info* info, size_t, void* data) {
  auto* found = static_cast<LoadedRuntimes*>(data);
  if (info->dlpi_name == nullptr || !IsRuntimeName(BaseName(info->dlpi_name))) return 0;
  if (found->count == kMaxRuntimes) return 1;
  CopyText(found->paths[found->count++], sizeof(found->paths[0]), info->dlpi_name);
  return 0;
}

bool IsKnown(std::string_view path) {
  for (uint32_t i = 0; i < g_count.load(std::memory_order_acquire); ++i) {
    if (path == g_libraries[i].path) return true;
  }
  return false;
}

void Remember(const char* path) {
  const uint32_t index = g_count.load(std::memory_order_relaxed);
  if (index == kMaxRuntimes) return;
  void* handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);  // counts a reference: it stays loaded from here on
  if (handle == nullptr || dlsym(handle, "cudaMalloc") == nullptr) return;
  RuntimeLibrary& library = g_libraries[index];
  CopyText(library.path, sizeof(library.path), path);
  const LoadedObject object = LoadedObject::At(dlsym(handle, "cudaMalloc"));
  const std::string_view soname = ReadDynamicNames(object.dynamic).soname;
  library.begin = object.begin;
  library.end = object.end;
  CopyText(library.soname, sizeof(library.soname), soname.empty() ? BaseName(path) : soname);
  library.handle = handle;
  library.unknown = UnknownFunctionsOf(object.dynamic, object.begin);
  if (library.unknown.count != 0) g_any_unknown.store(true, std::memory_order_release);
  g_count.store(index + 1, std::memory_order_release);
}

// What the dynamic linker finds after us in the global scope.
void* NextInGlobalScope(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  return function != nullptr && !IsOurs(function) ? function : nullptr;
}

void* FromHandle(void* handle, const char* name) {
  void* function = handle != nullptr ? dlsym(handle, name) : nullptr;
  return function != nullptr && !IsOurs(function) ? function : nullptr;
}

// The known libcudart that holds the function; null: none does.
const RuntimeLibrary* LibraryHolding(const void* function) {
  const auto address = reinterpret_cast<uintptr_t>(function);
  for (uint32_t i = 0; i < g_count.load(std::memory_order_acquire); ++i) {
    if (address >= g_libraries[i].begin && address < g_libraries[i].end) return &g_libraries[i];
  }
  return nullptr;
}

// With several libcudarts loaded: the one that the caller names in its DT_NEEDED, or one that it needs indirectly.
// Null: none.
const RuntimeLibrary* LinkedLibraryOf(const LoadedObject& caller) {
  const std::string_view needed = ReadDynamicNames(caller.dynamic).needed_runtime;
  for (uint32_t i = 0; !needed.empty() && i < g_count.load(std::memory_order_acquire); ++i) {
    if (needed == g_libraries[i].soname || needed == BaseName(g_libraries[i].path)) return &g_libraries[i];
  }
  if (caller.name[0] == '\0') return nullptr;
  void* const handle = dlopen(caller.name, RTLD_NOLOAD | RTLD_LAZY);
  void* const function = FromHandle(handle, "cudaMalloc");  // searches the caller's own dependencies, in order
  if (handle != nullptr) dlclose(handle);
  return LibraryHolding(function);
}

// A caller that is linked to none (its symbols came from whoever had loaded one globally, as in parts of PyTorch): what
// the dynamic linker finds for it, else the libcudart that was there first.
const RuntimeLibrary* UnlinkedLibrary() {
  const RuntimeLibrary* const library = LibraryHolding(NextInGlobalScope("cudaMalloc"));
  return library != nullptr ? library : Resolver::Count() != 0 ? Resolver::At(0) : nullptr;
}

const RuntimeLibrary* FindLibraryOf(const LoadedObject& caller) {
  const RuntimeLibrary* library = LinkedLibraryOf(caller);
  if (library == nullptr) {
    Resolver::Scan();  // the caller may have come in together with a libcudart of its own
    library = LinkedLibraryOf(caller);
  }
  return library != nullptr ? library : UnlinkedLibrary();
}

// Which libcudart the calls of an object go to, remembered by the object's whole range: a program has few objects that
// call CUDA, and thousands of places in them that do. Filled in order, never emptied; a thread that finds the table
// full, or another thread writing to it, asks the loader.
// Hazard: an object that is unloaded leaves its entry behind. What is loaded there later is taken for it, which is
// wrong only if that calls another libcudart.
struct Caller {
  std::atomic<uintptr_t> begin;
  std::atomic<uintptr_t> end;
  std::atomic<const RuntimeLibrary*> library;
};
constexpr uint32_t kMaxCallers = 64;
constinit Caller g_callers[kMaxCallers]{};
constinit std::atomic<uint32_t> g_caller_count{0};
constinit std::atomic<bool> g_adding_caller{false};

void RememberCaller(const LoadedObject& object, const RuntimeLibrary* library) {
  if (g_adding_caller.exchange(true, std::memory_order_acquire)) return;
  const uint32_t index = g_caller_count.load(std::memory_order_relaxed);
  if (index < kMaxCallers) {
    g_callers[index].begin.store(object.begin, std::memory_order_relaxed);
    g_callers[index].end.store(object.end, std::memory_order_relaxed);
    g_callers[index].library.store(library, std::memory_order_relaxed);
    g_caller_count.store(index + 1, std::memory_order_release);
  }
  g_adding_caller.store(false, std::memory_order_release);
}

const RuntimeLibrary* LibraryOfCaller(const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  const uint32_t count = g_caller_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    if (address >= g_callers[i].begin.load(std::memory_order_relaxed) &&
        address < g_callers[i].end.load(std::memory_order_relaxed)) {
      return g_callers[i].library.load(std::memory_order_relaxed);
    }
  }
  const LoadedObject object = LoadedObject::At(caller);
  if (object.end == 0) return UnlinkedLibrary();  // code that was made at run time
  const RuntimeLibrary* library = FindLibraryOf(object);
  if (library != nullptr) RememberCaller(object, library);
  return library;
}

void* FunctionOf(const RuntimeLibrary& library, HookId id) {
  std::atomic<void*>& slot = library.functions[tracer::Index(id)];
  void* function = slot.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = FromHandle(library.handle, tracer::NameOf(id));
    slot.store(function, std::memory_order_relaxed);
  }
  return function;
}

}  // namespace

uint32_t Resolver::Scan() {
  if (!MayAskLoader()) return Count();
  if (g_scanning.exchange(true, std::memory_order_acquire)) return Count();  // another thread is at it
  LoadedRuntimes found{};
  dl_iterate_phdr(CollectRuntime, &found);
  for (uint32_t i = 0; i < found.count; ++i) {
    if (!IsKnown(found.paths[i])) Remember(found.paths[i]);
  }
  g_scanning.store(false, std::memory_order_release);
  return Count();
}

uint32_t Resolver::Count() { return g_count.load(std::memory_order_acquire); }

bool Resolver::AnyUnknown() { return g_any_unknown.load(std::memory_order_acquire); }

const RuntimeLibrary* Resolver::At(uint32_t index) { return &g_libraries[index]; }

void* Resolver::Function(const RuntimeLibrary& sole, HookId id) {
  std::atomic<void*>& slot = sole.functions[tracer::Index(id)];
  void* function = slot.load(std::memory_order_relaxed);
  if (function != nullptr) return function;
  function = NextInGlobalScope(tracer::NameOf(id));
  if (function == nullptr) function = FromHandle(sole.handle, tracer::NameOf(id));
  slot.store(function, std::memory_order_relaxed);
  return function;
}

void Resolver::ResolveAll() {
  if (!MayAskLoader()) return;
  const RuntimeLibrary* const sole = Sole();
  for (uint32_t i = 0; i < Count(); ++i) {
    for (size_t index = 0; index < tracer::kHookCount; ++index) {
      const auto id = static_cast<HookId>(index);
      if (tracer::IsOfDriver(id)) continue;
      static_cast<void>(sole != nullptr ? Function(*sole, id) : FunctionOf(*At(i), id));
    }
  }
}

void* Resolver::FunctionForCaller(HookId id, const void* caller) {
  if (Count() == 0) Scan();
  const RuntimeLibrary* library = LibraryOfCaller(caller);
  if (library == nullptr) return NextInGlobalScope(tracer::NameOf(id));  // no libcudart that we know
  return Count() == 1 ? Function(*library, id) : FunctionOf(*library, id);
}

void* Resolver::InPlaceOf(void* found, const char* name, const void* caller, bool is_behind_ours) {
  const HookId id = HookNamed(name);
  if (id == HookId::kCount || !MayAskLoader() || Broken(Mutant::kS70)) return found;
  if (!is_behind_ours && (!Runtime::IsEnabled() || IsToolOfCuda(caller))) return found;
  const bool is_known = LibraryHolding(found) != nullptr;  // then nobody asks the loader, hundreds of times
  void* const reached = is_known ? FunctionForCaller(id, caller) : Runtime::EnterUnseen(id, caller);
  return reached == found ? HookOf(id) : found;
}

const char* Resolver::WrapperOf(HookId id) {
  void* const function = NextInGlobalScope(tracer::NameOf(id));
  if (function == nullptr || LibraryHolding(function) != nullptr) return "";
  return LoadedObject::At(function).name;
}

void* Resolver::Beside(HookId id, const void* function, HookId wanted) {
  for (uint32_t i = 0; i < Count(); ++i) {
    const RuntimeLibrary& library = *At(i);
    if (library.functions[tracer::Index(id)].load(std::memory_order_relaxed) != function) continue;
    return Count() == 1 ? Function(library, wanted) : FunctionOf(library, wanted);
  }
  return nullptr;
}

}  // namespace slipstream::shim
