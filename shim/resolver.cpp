#include "shim/resolver.h"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <string_view>

namespace slipstream::shim {
namespace {

using tracer::HookId;

constexpr std::string_view kRuntimePrefix = "libcudart";

constinit RuntimeLibrary g_libraries[kMaxRuntimes]{};
constinit std::atomic<uint32_t> g_count{0};
constinit std::atomic<bool> g_scanning{false};

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

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
  link_map* map = nullptr;
  std::string_view soname;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) soname = ReadDynamicNames(map->l_ld).soname;
  CopyText(library.soname, sizeof(library.soname), soname.empty() ? BaseName(path) : soname);
  library.handle = handle;
  g_count.store(index + 1, std::memory_order_release);
}

link_map* ObjectOf(const void* address) {
  Dl_info info;
  void* map = nullptr;
  if (dladdr1(address, &info, &map, RTLD_DL_LINKMAP) == 0) return nullptr;
  return static_cast<link_map*>(map);
}

bool IsOurs(const void* function) { return ObjectOf(function) == ObjectOf(&g_libraries); }

// What the dynamic linker finds after us in the global scope.
void* NextInGlobalScope(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  return function != nullptr && !IsOurs(function) ? function : nullptr;
}

void* FromHandle(void* handle, const char* name) {
  void* function = handle != nullptr ? dlsym(handle, name) : nullptr;
  return function != nullptr && !IsOurs(function) ? function : nullptr;
}

const RuntimeLibrary* LibraryAt(const link_map* map) {
  for (uint32_t i = 0; map != nullptr && i < g_count.load(std::memory_order_acquire); ++i) {
    link_map* known = nullptr;
    if (dlinfo(g_libraries[i].handle, RTLD_DI_LINKMAP, &known) == 0 && known == map) return &g_libraries[i];
  }
  return nullptr;
}

// With several libcudarts loaded: the one that the caller names in its DT_NEEDED, or one that it needs indirectly.
// Null: none.
const RuntimeLibrary* LinkedLibraryOf(const link_map* caller) {
  const std::string_view needed = ReadDynamicNames(caller->l_ld).needed_runtime;
  for (uint32_t i = 0; !needed.empty() && i < g_count.load(std::memory_order_acquire); ++i) {
    if (needed == g_libraries[i].soname || needed == BaseName(g_libraries[i].path)) return &g_libraries[i];
  }
  if (caller->l_name == nullptr || caller->l_name[0] == '\0') return nullptr;
  void* const handle = dlopen(caller->l_name, RTLD_NOLOAD | RTLD_LAZY);
  void* const function = FromHandle(handle, "cudaMalloc");  // searches the caller's own dependencies, in order
  if (handle != nullptr) dlclose(handle);
  return function != nullptr ? LibraryAt(ObjectOf(function)) : nullptr;
}

// A caller that is linked to none (its symbols came from whoever had loaded one globally, as in parts of PyTorch): what
// the dynamic linker finds for it, else the libcudart that was there first.
const RuntimeLibrary* UnlinkedLibrary() {
  void* const function = NextInGlobalScope("cudaMalloc");
  const RuntimeLibrary* const library = function != nullptr ? LibraryAt(ObjectOf(function)) : nullptr;
  return library != nullptr ? library : Resolver::Count() != 0 ? Resolver::At(0) : nullptr;
}

// Which library a return address is bound to, remembered: (address << 8 | index + 1), direct-mapped. A lost race or a
// collision costs another look.
constexpr size_t kCallerCacheSize = 1024;
constinit std::atomic<uint64_t> g_callers[kCallerCacheSize]{};

const RuntimeLibrary* CachedLibraryOf(const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  std::atomic<uint64_t>& slot = g_callers[(address >> 2) % kCallerCacheSize];
  const uint64_t entry = slot.load(std::memory_order_relaxed);
  if (entry >> 8 == address) return &g_libraries[(entry & 0xff) - 1];
  const link_map* const map = ObjectOf(caller);
  const RuntimeLibrary* library = map != nullptr ? LinkedLibraryOf(map) : nullptr;
  if (library == nullptr && map != nullptr) {
    Resolver::Scan();  // the caller may have come in together with a libcudart of its own
    library = LinkedLibraryOf(map);
  }
  // Always an answer to remember: an address that is looked up again on every call costs microseconds, not nanoseconds.
  if (library == nullptr) library = UnlinkedLibrary();
  if (library != nullptr) {
    const auto index = static_cast<uint64_t>(library - g_libraries);
    slot.store(static_cast<uint64_t>(address) << 8 | (index + 1), std::memory_order_relaxed);
  }
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

void* Resolver::FunctionForCaller(HookId id, const void* caller) {
  if (Count() == 0) Scan();
  const RuntimeLibrary* library = CachedLibraryOf(caller);
  if (library == nullptr) return NextInGlobalScope(tracer::NameOf(id));  // no libcudart that we know
  return Count() == 1 ? Function(*library, id) : FunctionOf(*library, id);
}

}  // namespace slipstream::shim
