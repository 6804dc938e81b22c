// An independent count of CUDA runtime calls: a CUPTI callback library that shares nothing with slipstream but the
// process.
//
// Purpose: CUDA_INJECTION64_PATH=libcupti_count.so makes the driver load this library inside cuInit and call
//   InitializeInjection (CUPTI documentation, "CUDA_INJECTION64_PATH"). From then on every entry of a runtime function
//   is counted by name and by the module that holds the CUDA runtime: the shared libcudart.so, whose calls a preloaded
//   hook can see, or a library with the runtime linked in statically (cuBLAS, cuDNN, NCCL), whose calls it cannot.
// Which module: the first stack frame outside this library, CUPTI and the driver lies in the runtime function itself.
// The name string that the runtime hands to CUPTI lies in the same module, a second witness; the two are compared.
// Who called: the first frame beyond the runtime's own. Of calls through the shared runtime it is the hook
// (libslipstream.so) or whoever went past it; this is what a difference between the counts is explained by.
// With CUPTI_COUNT_DRIVER=1 the driver's functions are counted as well: by the runtime function that the thread is in
// and the module of that runtime, by the module that called the driver, and by whether the stack shows that a hook
// (libslipstream.so) called the shared runtime that called the driver: a hook has counted such a call under the
// runtime's name already.
// Output: <CUPTI_COUNT_DIRECTORY>/<pid>.json, written at exit by the process that was injected, never by a fork of it.
// Each function has its calls up to CuptiCountMark() and up to the exit.
// Environment: CUPTI_COUNT_DIRECTORY; CUPTI_COUNT_LIBCUPTI, the libcupti to load when none is in the process yet; and
//   CUPTI_COUNT_DRIVER.
// Threading: the callback runs on every thread that calls CUDA; counters are relaxed atomics, new modules and the calls
//   of the driver take a lock.
// Hazard: no CUDA call may be made here, and nothing may throw through CUPTI's frames.

#include <cupti.h>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <tuple>

namespace {

constexpr size_t kMaxModules = 128;
constexpr size_t kMaxCallbacks =
    1024;  // CUPTI_RUNTIME_TRACE_CBID_SIZE is 523 in CUDA 13.0; a newer CUPTI may have more
constexpr int kMaxFrames = 64;

using Calls = std::array<std::atomic<uint64_t>, kMaxCallbacks>;

struct Module {
  std::atomic<const link_map*> map{nullptr};
  std::string path;   // written before `map` is published
  bool tool = false;  // this library, CUPTI, the driver: never the owner of a runtime function
  bool shared_runtime = false;
  bool hook = false;  // slipstream's own library
  Calls calls{};
  std::array<uint64_t, kMaxCallbacks> calls_at_mark{};
  std::array<std::atomic<Calls*>, kMaxModules>
      by_caller{};  // index of the calling module; made at its first call, leaked
};

// The module of calls that neither witness could place.
constexpr size_t kUnknown = 0;
// The runtime function of a thread that is in none.
constexpr uint32_t kNoFunction = UINT32_MAX;

// Calls of one function of the driver from one place.
struct DriverPlace {
  uint32_t function = 0;
  uint32_t inside = kNoFunction;  // the runtime function that the thread entered first
  size_t runtime = kUnknown;      // the module of that one
  size_t first = kUnknown;        // the first module outside the driver
  size_t caller = kUnknown;       // the first one that is no hook either
  bool behind_hook = false;       // that is the shared runtime, and a hook called it

  bool operator<(const DriverPlace& other) const { return Key() < other.Key(); }
  std::tuple<uint32_t, uint32_t, size_t, size_t, size_t, bool> Key() const {
    return {function, inside, runtime, first, caller, behind_hook};
  }
};
struct DriverCalls {
  uint64_t calls = 0;
  uint64_t at_mark = 0;
};

// What the thread is in: a runtime function may call others.
struct InRuntime {
  int depth = 0;
  uint32_t function = kNoFunction;
  size_t module = kUnknown;
};
thread_local InRuntime t_in_runtime;

struct State {
  std::array<Module, kMaxModules> modules;
  std::atomic<size_t> module_count{1};  // kUnknown is there from the start
  std::mutex adding;
  std::atomic<uint64_t> agree{0}, disagree{0}, frames_only{0}, name_only{0}, neither{0};
  std::atomic<uint64_t> beyond_table{0};
  std::atomic<bool> marked{false};
  bool counts_driver = false;
  std::mutex driver_lock;
  std::map<DriverPlace, DriverCalls> driver;
  decltype(&cuptiGetCallbackName) get_name = nullptr;
  std::string libcupti;
  std::string error;
  std::string directory;
  pid_t pid = 0;
  const link_map* own = nullptr;
};

// Leaked: callbacks may come after static destructors have run.
State& GetState() {
  static State* state = new State;
  return *state;
}

const char* BaseName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool StartsWith(const char* text, const char* prefix) { return std::strncmp(text, prefix, std::strlen(prefix)) == 0; }

const link_map* MapOf(const void* address) {
  dl_find_object found;
  if (!address || _dl_find_object(const_cast<void*>(address), &found) != 0) return nullptr;
  return found.dlfo_link_map;
}

// Index of the module, added when new; kUnknown when there is none or the table is full.
size_t ModuleIndex(const link_map* map) {
  State& state = GetState();
  if (!map) return kUnknown;
  size_t count = state.module_count.load(std::memory_order_acquire);
  for (size_t i = 1; i < count; ++i) {
    if (state.modules[i].map.load(std::memory_order_relaxed) == map) return i;
  }
  const std::lock_guard lock(state.adding);
  count = state.module_count.load(std::memory_order_relaxed);
  for (size_t i = 1; i < count; ++i) {
    if (state.modules[i].map.load(std::memory_order_relaxed) == map) return i;
  }
  if (count == kMaxModules) return kUnknown;
  Module& module = state.modules[count];
  module.path = map->l_name && *map->l_name ? map->l_name : "main program";
  const char* name = BaseName(module.path.c_str());
  module.tool = map == state.own || StartsWith(name, "libcupti") || StartsWith(name, "libcuda.so") ||
                StartsWith(name, "libnvidia-");
  module.shared_runtime = StartsWith(name, "libcudart.so");
  module.hook = StartsWith(name, "libslipstream");
  module.map.store(map, std::memory_order_relaxed);
  state.module_count.store(count + 1, std::memory_order_release);
  return count;
}

size_t OwnerOf(const void* address) {
  const size_t index = ModuleIndex(MapOf(address));
  return GetState().modules[index].tool ? kUnknown : index;
}

struct Walk {
  size_t owner = kUnknown;
  size_t caller = kUnknown;
  int frames = 0;
};

_Unwind_Reason_Code OnFrame(_Unwind_Context* context, void* argument) {
  auto* walk = static_cast<Walk*>(argument);
  const uintptr_t address = _Unwind_GetIP(context);
  if (address == 0 || ++walk->frames > kMaxFrames) return _URC_END_OF_STACK;
  // The return address may be the first byte after the function; the call is one byte earlier.
  const size_t module = OwnerOf(reinterpret_cast<const void*>(address - 1));
  if (walk->owner == kUnknown) {
    walk->owner = module;
    return _URC_NO_REASON;
  }
  walk->caller = module == walk->owner ? kUnknown : module;
  return walk->caller == kUnknown ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void CountCaller(Module& owner, size_t caller, size_t id) {
  Calls* calls = owner.by_caller[caller].load(std::memory_order_acquire);
  if (!calls) {
    auto* fresh = new (std::nothrow) Calls{};
    if (!fresh) return;
    if (owner.by_caller[caller].compare_exchange_strong(calls, fresh)) {
      calls = fresh;
    } else {
      delete fresh;
    }
  }
  (*calls)[id].fetch_add(1, std::memory_order_relaxed);
}

// The modules of a stack from the driver outwards, each once where it stands several times in a row.
struct DriverWalk {
  DriverPlace* place;
  int frames = 0;
  bool at_caller = false;  // in the frames of `caller`
};

_Unwind_Reason_Code OnDriverFrame(_Unwind_Context* context, void* argument) {
  auto* walk = static_cast<DriverWalk*>(argument);
  const uintptr_t address = _Unwind_GetIP(context);
  if (address == 0 || ++walk->frames > kMaxFrames) return _URC_END_OF_STACK;
  const State& state = GetState();
  const size_t module = ModuleIndex(MapOf(reinterpret_cast<const void*>(address - 1)));
  if (state.modules[module].tool) return _URC_NO_REASON;
  DriverPlace& place = *walk->place;
  if (place.first == kUnknown) place.first = module;
  if (!walk->at_caller) {
    if (state.modules[module].hook) return _URC_NO_REASON;
    place.caller = module;
    walk->at_caller = true;
    return state.modules[module].shared_runtime ? _URC_NO_REASON : _URC_END_OF_STACK;
  }
  if (module == place.caller) return _URC_NO_REASON;
  place.behind_hook = state.modules[module].hook;
  return _URC_END_OF_STACK;
}

void CountDriverCall(State& state, uint32_t id) {
  DriverPlace place{.function = id, .inside = t_in_runtime.function, .runtime = t_in_runtime.module};
  DriverWalk walk{.place = &place};
  _Unwind_Backtrace(OnDriverFrame, &walk);
  const std::lock_guard lock(state.driver_lock);
  ++state.driver[place].calls;
}

void LeaveRuntime() {
  InRuntime& in = t_in_runtime;
  if (in.depth > 0 && --in.depth == 0) in = InRuntime{};
}

void CUPTIAPI OnCallback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  State& state = GetState();
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API && call->callbackSite == CUPTI_API_ENTER) CountDriverCall(state, id);
  if (domain != CUPTI_CB_DOMAIN_RUNTIME_API) return;
  if (call->callbackSite != CUPTI_API_ENTER) {
    LeaveRuntime();
    return;
  }
  const bool outermost = t_in_runtime.depth++ == 0;
  if (outermost) t_in_runtime.function = id;
  if (id >= kMaxCallbacks) {
    state.beyond_table.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Walk walk;
  _Unwind_Backtrace(OnFrame, &walk);
  const size_t by_name = OwnerOf(call->functionName);
  size_t owner = walk.owner;
  if (owner != kUnknown && by_name != kUnknown) {
    (owner == by_name ? state.agree : state.disagree).fetch_add(1, std::memory_order_relaxed);
  } else if (owner != kUnknown) {
    state.frames_only.fetch_add(1, std::memory_order_relaxed);
  } else if (by_name != kUnknown) {
    owner = by_name;
    state.name_only.fetch_add(1, std::memory_order_relaxed);
  } else {
    state.neither.fetch_add(1, std::memory_order_relaxed);
  }
  if (outermost) t_in_runtime.module = owner;
  state.modules[owner].calls[id].fetch_add(1, std::memory_order_relaxed);
  CountCaller(state.modules[owner], walk.caller, id);
}

void* OpenCupti(State& state) {
  const char* wanted = std::getenv("CUPTI_COUNT_LIBCUPTI");
  void* handle = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
  for (const char* name : {wanted ? wanted : "", "libcupti.so.13", "/usr/local/cuda/lib64/libcupti.so.13",
                           "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13", "libcupti.so.12"}) {
    if (!handle && *name) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (!handle) {
    state.error = std::string("libcupti not found: ") + dlerror();
    return nullptr;
  }
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map) state.libcupti = map->l_name;
  return handle;
}

void Subscribe(State& state) {
  void* handle = OpenCupti(state);
  if (!handle) return;
  const auto subscribe = reinterpret_cast<decltype(&cuptiSubscribe)>(dlsym(handle, "cuptiSubscribe"));
  const auto enable = reinterpret_cast<decltype(&cuptiEnableDomain)>(dlsym(handle, "cuptiEnableDomain"));
  state.get_name = reinterpret_cast<decltype(&cuptiGetCallbackName)>(dlsym(handle, "cuptiGetCallbackName"));
  if (!subscribe || !enable || !state.get_name) {
    state.error = "libcupti has no callback API";
    return;
  }
  CUpti_SubscriberHandle subscriber = nullptr;
  CUptiResult result = subscribe(&subscriber, OnCallback, nullptr);
  if (result == CUPTI_SUCCESS) result = enable(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
  if (result == CUPTI_SUCCESS && state.counts_driver) result = enable(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
  if (result != CUPTI_SUCCESS) state.error = "CUPTI refused the subscription: error " + std::to_string(result);
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

std::string CallbackName(const State& state, size_t id, CUpti_CallbackDomain domain = CUPTI_CB_DOMAIN_RUNTIME_API) {
  const char* name = nullptr;
  if (!state.get_name || state.get_name(domain, static_cast<uint32_t>(id), &name) != CUPTI_SUCCESS || !name) {
    return "callback_" + std::to_string(id);
  }
  return name;
}

// {"libtorch_cuda.so": {"cudaMalloc_v3020": 3}, ...}
std::string CallersJson(const State& state, const Module& module) {
  std::string callers;
  for (size_t index = 0; index < kMaxModules; ++index) {
    const Calls* calls = module.by_caller[index].load(std::memory_order_acquire);
    if (!calls) continue;
    std::string functions;
    for (size_t id = 0; id < kMaxCallbacks; ++id) {
      const uint64_t number = (*calls)[id].load(std::memory_order_relaxed);
      if (number == 0) continue;
      functions += (functions.empty() ? "" : ", ") + Quoted(CallbackName(state, id)) + ": " + std::to_string(number);
    }
    callers += (callers.empty() ? "\n" : ",\n") + ("    " + Quoted(BaseName(state.modules[index].path.c_str()))) +
               ": {" + functions + "}";
  }
  return "{" + callers + "}";
}

std::string ModuleJson(const State& state, const Module& module, bool marked) {
  std::string functions;
  for (size_t id = 0; id < kMaxCallbacks; ++id) {
    const uint64_t calls = module.calls[id].load(std::memory_order_relaxed);
    if (calls == 0) continue;
    functions += functions.empty() ? "\n" : ",\n";
    functions += "    " + Quoted(CallbackName(state, id)) +
                 ": {\"at_mark\": " + (marked ? std::to_string(module.calls_at_mark[id]) : "null") +
                 ", \"at_exit\": " + std::to_string(calls) + "}";
  }
  if (functions.empty()) return {};
  const bool shared = StartsWith(BaseName(module.path.c_str()), "libcudart.so");
  return "  {\"path\": " + Quoted(module.path) + ", \"shared_runtime\": " + (shared ? "true" : "false") +
         ", \"functions\": {" + functions + "},\n   \"callers\": " + CallersJson(state, module) + "}";
}

std::string ModuleName(const State& state, size_t index) {
  return index == kUnknown ? "null" : Quoted(BaseName(state.modules[index].path.c_str()));
}

// [{"function": "cuMemAlloc_v2", "inside": "cudaMalloc_v3020", "runtime": "libcudart.so.13", ...}, ...]
std::string DriverJson(State& state, bool marked) {
  const std::lock_guard lock(state.driver_lock);
  std::string rows;
  for (const auto& [place, calls] : state.driver) {
    const bool shared = state.modules[place.runtime].shared_runtime;
    rows += rows.empty() ? "\n  {\"function\": " : ",\n  {\"function\": ";
    rows += Quoted(CallbackName(state, place.function, CUPTI_CB_DOMAIN_DRIVER_API)) +
            ", \"inside\": " + (place.inside == kNoFunction ? "null" : Quoted(CallbackName(state, place.inside))) +
            ", \"runtime\": " + ModuleName(state, place.runtime) +
            ", \"shared_runtime\": " + (shared ? "true" : "false") + ", \"first\": " + ModuleName(state, place.first) +
            ", \"caller\": " + ModuleName(state, place.caller) +
            ", \"behind_hook\": " + (place.behind_hook ? "true" : "false") +
            ", \"at_mark\": " + (marked ? std::to_string(calls.at_mark) : "null") +
            ", \"at_exit\": " + std::to_string(calls.calls) + "}";
  }
  return "[" + rows + "]";
}

}  // namespace

// Remembers the counts so far; a test program calls it where its own work ends, so that calls made by static
// destructors during the exit can be told from those of the program.
extern "C" __attribute__((visibility("default"))) void CuptiCountMark() {
  State& state = GetState();
  const size_t count = state.module_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    for (size_t id = 0; id < kMaxCallbacks; ++id) {
      state.modules[i].calls_at_mark[id] = state.modules[i].calls[id].load(std::memory_order_relaxed);
    }
  }
  {
    const std::lock_guard lock(state.driver_lock);
    for (auto& [place, calls] : state.driver) calls.at_mark = calls.calls;
  }
  state.marked.store(true);
}

// Writes the file; called at exit. Returns 1 when it was written.
extern "C" __attribute__((visibility("default"))) int CuptiCountWrite() {
  State& state = GetState();
  if (state.directory.empty() || getpid() != state.pid) return 0;
  std::string modules;
  const size_t count = state.module_count.load(std::memory_order_acquire);
  const bool marked = state.marked.load();
  state.modules[kUnknown].path = "unknown";
  for (size_t i = 0; i < count; ++i) {
    const std::string text = ModuleJson(state, state.modules[i], marked);
    if (text.empty()) continue;
    modules += (modules.empty() ? "\n" : ",\n") + text;
  }
  const auto number = [](const std::atomic<uint64_t>& value) { return std::to_string(value.load()); };
  const std::string text = "{\"schema\": \"cupti-count-1\", \"pid\": " + std::to_string(state.pid) +
                           ", \"libcupti\": " + Quoted(state.libcupti) + ", \"error\": " + Quoted(state.error) +
                           ",\n \"attribution\": {\"agree\": " + number(state.agree) +
                           ", \"disagree\": " + number(state.disagree) +
                           ", \"frames_only\": " + number(state.frames_only) +
                           ", \"name_only\": " + number(state.name_only) + ", \"neither\": " + number(state.neither) +
                           ", \"beyond_table\": " + number(state.beyond_table) + "},\n \"modules\": [" + modules + "]" +
                           (state.counts_driver ? ",\n \"driver\": " + DriverJson(state, marked) : "") + "}\n";
  const std::string path = state.directory + "/" + std::to_string(state.pid) + ".json";
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) return 0;
  const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && whole ? 1 : 0;
}

// The driver calls this inside cuInit. 1 means success; anything else would make the driver drop the library.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  State& state = GetState();
  if (state.pid != 0) return 1;
  state.pid = getpid();
  state.own = MapOf(reinterpret_cast<const void*>(&InitializeInjection));
  if (const char* directory = std::getenv("CUPTI_COUNT_DIRECTORY")) state.directory = directory;
  const char* driver = std::getenv("CUPTI_COUNT_DRIVER");
  state.counts_driver = driver && std::strcmp(driver, "1") == 0;
  Subscribe(state);
  std::atexit([] { CuptiCountWrite(); });
  return 1;
}
