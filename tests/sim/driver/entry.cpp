#include "tests/sim/driver/entry.h"

#include <link.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace simcuda {
namespace {

struct Failure {
  std::string function;
  int code;
  uint64_t nth;
  bool repeat;
  bool own;  // only calls that slipstream makes
  uint64_t seen;
};

// Its own mutex: counters are used where World::mutex may be held or its owner gone (a forked child).
struct Ledger {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Counter>> counters;
  std::vector<Failure> failures;
  std::atomic<bool> any_failure{false};
  std::atomic<bool> knows_own{false};  // which calls are slipstream's is asked
  std::string held_function;           // empty: none
  int held_calls = 0;
  std::atomic<bool> any_held{false};
  std::condition_variable released;
  simBetween between = nullptr;
  void* between_data = nullptr;
  std::atomic<bool> any_between{false};
  std::vector<Procedure> procedures;
  pid_t owner = 0;  // who used it first
};

Ledger& TheLedger() {
  static Ledger* const ledger = new Ledger;
  return *ledger;
}

// A child must find nothing half made, and no mutex of the ledger held by a thread that it does not have.
[[maybe_unused]] const bool kForkSafe = [] {
  const auto prepare = [] {
    TheWorld();
    ThisThread();
    TheLedger().mutex.lock();
  };
  const auto unlock = [] { TheLedger().mutex.unlock(); };
  return pthread_atfork(prepare, unlock, unlock) == 0;
}();

bool WorksAnywhere(const char* function) {
  static const char* const kNames[] = {"cuInit",
                                       "cuDeviceGetCount",    // both measured: a count is known in a child
                                       "cudaGetDeviceCount",  // and in a host function
                                       "cuDriverGetVersion",
                                       "cuGetErrorName",
                                       "cuGetErrorString",
                                       "cuGetProcAddress",
                                       "cuGetProcAddress_v2",
                                       "cuGetExportTable",
                                       "cudaGetErrorName",
                                       "cudaGetErrorString",
                                       "cudaGetLastError",
                                       "cudaPeekAtLastError",
                                       "cudaRuntimeGetVersion",
                                       "cudaDriverGetVersion",
                                       "cudaGetDriverEntryPoint",
                                       "cudaGetDriverEntryPoint_ptsz",
                                       "cudaGetDriverEntryPointByVersion",
                                       "cudaGetDriverEntryPointByVersion_ptsz",
                                       "cudaGetExportTable"};
  for (const char* name : kNames) {
    if (std::strcmp(name, function) == 0) {
      return true;
    }
  }
  return std::strncmp(function, "__cuda", 6) == 0 && std::strncmp(function, "__cudaLaunchKernel", 18) != 0;
}

constexpr char kOwn[] = "own:";

// Whether the code belongs to slipstream's library (any build of it), which is in the process from the start or not at
// all.
bool IsSlipstreams(const void* code) {
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
  };
  static const Range range = [] {
    Range found;
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* data) {
          const char* const slash = std::strrchr(object->dlpi_name, '/');
          if (std::strncmp(slash != nullptr ? slash + 1 : object->dlpi_name, "libslipstream", 13) != 0) {
            return 0;
          }
          auto* const place = static_cast<Range*>(data);
          for (int i = 0; i < object->dlpi_phnum; ++i) {
            const ElfW(Phdr)& part = object->dlpi_phdr[i];
            if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0) {
              place->begin = object->dlpi_addr + part.p_vaddr;
              place->end = place->begin + part.p_memsz;
            }
          }
          return 1;
        },
        &found);
    return found;
  }();
  const auto address = reinterpret_cast<uintptr_t>(code);
  return address >= range.begin && address < range.end;
}

int Injected(Ledger& ledger, const std::string& function, bool own) {
  std::lock_guard<std::mutex> guard(ledger.mutex);
  int code = 0;
  for (Failure& failure : ledger.failures) {
    if (failure.function != function || (failure.own && !own)) {
      continue;
    }
    ++failure.seen;
    if (failure.seen == failure.nth || (failure.repeat && failure.seen > failure.nth)) {
      code = failure.code;
    }
  }
  return code;
}

bool CountOwn(Ledger& ledger, Counter* counter, const void* caller) {
  // What slipstream passes on for a libcudart is the program's.
  const bool own = ledger.knows_own.load(std::memory_order_acquire) && caller != nullptr &&
                   ThisThread().runtime_depth == 0 && IsSlipstreams(caller);
  if (own) {
    counter->own.fetch_add(1, std::memory_order_relaxed);
  }
  return own;
}

void StandWhileHeld(Ledger& ledger, const std::string& function) {
  std::unique_lock<std::mutex> lock(ledger.mutex);
  if (ledger.held_function != function) {
    return;
  }
  ++ledger.held_calls;
  ledger.released.wait(lock, [&ledger, &function] { return ledger.held_function != function; });
  --ledger.held_calls;
}

void CallBetween(Ledger& ledger, const std::string& function) {
  static thread_local bool inside = false;
  if (inside) {
    return;
  }
  simBetween between = nullptr;
  void* data = nullptr;
  {
    std::lock_guard<std::mutex> guard(ledger.mutex);
    between = ledger.between;
    data = ledger.between_data;
  }
  if (between == nullptr) {
    return;
  }
  inside = true;
  between(function.c_str(), data);
  inside = false;
}

}  // namespace

Counter* FindCounter(const char* library, const char* function) {
  Ledger& ledger = TheLedger();
  std::lock_guard<std::mutex> guard(ledger.mutex);
  if (ledger.owner == 0) {
    ledger.owner = getpid();
  }
  std::unique_ptr<Counter>& counter = ledger.counters[{library, function}];
  if (!counter) {
    counter = std::make_unique<Counter>();
    counter->library = library;
    counter->function = function;
    counter->anywhere = WorksAnywhere(function);
  }
  return counter.get();
}

namespace {

std::atomic<bool> g_ending{false};

void EndDriver() {
  g_ending.store(true, std::memory_order_seq_cst);
  // As long as that takes; other threads go on meanwhile.
  const char* const milliseconds = std::getenv("SIMCUDA_EXIT");
  if (milliseconds != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(milliseconds)));
}

bool IsThreadOfSlipstreams() {
  char name[16] = {};
  return prctl(PR_GET_NAME, name) == 0 && std::strncmp(name, "slipstream-", 11) == 0;
}

}  // namespace

void RegisterExitHandler() {
  static const bool registered = std::getenv("SIMCUDA_EXIT") != nullptr && std::atexit(EndDriver) == 0;
  static_cast<void>(registered);
}

int EnterCounted(Counter* counter, bool* injected, const void* caller) {
  ThreadState& thread = ThisThread();
  (thread.runtime_depth > 0 ? counter->inside : counter->outside).fetch_add(1, std::memory_order_relaxed);
  Ledger& ledger = TheLedger();
  const bool own = CountOwn(ledger, counter, caller);
  World& world = TheWorld();
  world.calls.fetch_add(1, std::memory_order_relaxed);
  if (g_ending.load(std::memory_order_relaxed)) {
    if (IsThreadOfSlipstreams()) std::raise(SIGSEGV);
    return CUDA_ERROR_DEINITIALIZED;
  }
  if (!counter->anywhere) {
    if (world.forked.load(std::memory_order_relaxed)) {
      return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (thread.in_device_work) {
      return CUDA_ERROR_NOT_PERMITTED;
    }
  }
  // Inside a static libcudart too, whose calls of the driver lead slipstream to its own.
  if (ledger.any_between.load(std::memory_order_acquire) && caller != nullptr && IsSlipstreams(caller)) {
    CallBetween(ledger, counter->function);
  }
  if (ledger.any_held.load(std::memory_order_acquire)) {
    StandWhileHeld(ledger, counter->function);
  }
  if (ledger.any_failure.load(std::memory_order_acquire)) {
    if (const int code = Injected(ledger, counter->function, own)) {
      *injected = true;
      return code == SIM_LOST ? CUDA_SUCCESS : code;
    }
  }
  return 0;
}

int EnterOutsideDriver(Counter* counter, const void* caller) {
  Ledger& ledger = TheLedger();
  const bool own = CountOwn(ledger, counter, caller);
  return ledger.any_failure.load(std::memory_order_acquire) ? Injected(ledger, counter->function, own) : 0;
}

ProcedureRow::ProcedureRow(const char* base, int since, bool per_thread, void* address) {
  TheLedger().procedures.push_back({base, since, per_thread, address});
}

const Procedure* FindProcedure(const char* base, int version, bool per_thread, bool* exists) {
  // Filled before main and by nothing later, so read without the mutex.
  const Procedure* best = nullptr;
  *exists = false;
  for (const Procedure& row : TheLedger().procedures) {
    if (std::strcmp(row.base, base) != 0) {
      continue;
    }
    *exists = true;
    if (row.since > version || (row.per_thread && !per_thread)) {
      continue;
    }
    // The newest signature the caller knows; of two for the same signature the per-thread one.
    const bool better = best == nullptr || row.since > best->since || (row.since == best->since && row.per_thread);
    if (better) {
      best = &row;
    }
  }
  return best;
}

namespace {

[[maybe_unused]] const bool kCountsOwn = [] {
  const bool asked = std::getenv("SIMCUDA_OWN_CALLS") != nullptr;
  TheLedger().knows_own.store(asked, std::memory_order_release);
  return asked;
}();

// One line a function: its name and how many calls of it slipstream made.
void WriteOwnCallsAtExit() {
  const char* const path = std::getenv("SIMCUDA_OWN_CALLS");
  if (path == nullptr || TheLedger().owner != getpid()) {
    return;
  }
  std::ofstream file(path, std::ios::trunc);
  for (const auto& [name, counter] : TheLedger().counters) {
    if (const uint64_t count = counter->own.load(std::memory_order_relaxed)) {
      file << counter->function << ' ' << count << '\n';
    }
  }
}

__attribute__((destructor)) void WriteCountsAtExit() {
  WriteOwnCallsAtExit();
  const char* path = std::getenv("SIMCUDA_COUNTS");
  // A forked child has inherited the counts; they are its parent's to write.
  if (path == nullptr || TheLedger().owner != getpid()) {
    return;
  }
  // A process that only loaded the library has nothing to say, and must not write over one that has.
  for (const auto& [name, counter] : TheLedger().counters) {
    if (counter->outside.load(std::memory_order_relaxed) != 0) {
      simWriteCounts(path);
      return;
    }
  }
}

}  // namespace
}  // namespace simcuda

using simcuda::Counter;
using simcuda::kOwn;
using simcuda::Ledger;
using simcuda::TheLedger;

SIM_EXPORT int simFailCall(const char* function, int code, uint64_t nth, int repeat) {
  if (function == nullptr || nth == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Ledger& ledger = TheLedger();
  std::lock_guard<std::mutex> guard(ledger.mutex);
  const bool own = std::strncmp(function, kOwn, sizeof(kOwn) - 1) == 0;
  ledger.failures.push_back({function + (own ? sizeof(kOwn) - 1 : 0), code, nth, repeat != 0, own, 0});
  if (own) {
    ledger.knows_own.store(true, std::memory_order_release);
  }
  ledger.any_failure.store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

SIM_EXPORT void simClearFailures(void) {
  Ledger& ledger = TheLedger();
  std::lock_guard<std::mutex> guard(ledger.mutex);
  ledger.failures.clear();
  ledger.any_failure.store(false, std::memory_order_release);
}

SIM_EXPORT void simHoldCalls(const char* function) {
  Ledger& ledger = TheLedger();
  std::lock_guard<std::mutex> guard(ledger.mutex);
  ledger.held_function = function;
  ledger.any_held.store(true, std::memory_order_release);
}

SIM_EXPORT int simHeldCalls(void) {
  Ledger& ledger = TheLedger();
  std::lock_guard<std::mutex> guard(ledger.mutex);
  return ledger.held_calls;
}

SIM_EXPORT void simReleaseCalls(void) {
  Ledger& ledger = TheLedger();
  std::lock_guard<std::mutex> guard(ledger.mutex);
  ledger.held_function.clear();
  ledger.any_held.store(false, std::memory_order_release);
  ledger.released.notify_all();
}

SIM_EXPORT void simBetweenCalls(simBetween between, void* data) {
  Ledger& ledger = TheLedger();
  std::lock_guard<std::mutex> guard(ledger.mutex);
  ledger.between = between;
  ledger.between_data = data;
  ledger.any_between.store(between != nullptr, std::memory_order_release);
}

SIM_EXPORT uint64_t simCallCount(const char* function) { return simCallCountIn(nullptr, function); }

SIM_EXPORT uint64_t simCallCountIn(const char* library, const char* function) {
  Ledger& ledger = TheLedger();
  std::lock_guard<std::mutex> guard(ledger.mutex);
  uint64_t sum = 0;
  for (const auto& [name, counter] : ledger.counters) {
    if ((function == nullptr || name.second == function) && (library == nullptr || name.first == library)) {
      sum += counter->outside.load(std::memory_order_relaxed);
    }
  }
  return sum;
}

SIM_EXPORT void simResetCounts(void) {
  Ledger& ledger = TheLedger();
  std::lock_guard<std::mutex> guard(ledger.mutex);
  for (const auto& [name, counter] : ledger.counters) {
    counter->outside.store(0, std::memory_order_relaxed);
    counter->inside.store(0, std::memory_order_relaxed);
  }
}

SIM_EXPORT int simWriteCounts(const char* path) {
  std::string name(path);
  if (const size_t at = name.find("%p"); at != std::string::npos) {
    name.replace(at, 2, std::to_string(getpid()));
  }
  std::string json = "{\"simulated\": true, \"pid\": " + std::to_string(getpid());
  json += ", \"kernels\": " + std::to_string(simKernelCount());
  bool any = false;
  {
    Ledger& ledger = TheLedger();
    std::lock_guard<std::mutex> guard(ledger.mutex);
    std::string library;
    for (const auto& [key, counter] : ledger.counters) {
      const uint64_t count = counter->outside.load(std::memory_order_relaxed);
      if (count == 0) {
        continue;
      }
      if (key.first != library) {
        json += (library.empty() ? ", \"" : "}, \"") + key.first + "\": {";
        library = key.first;
      } else {
        json += ", ";
      }
      json += "\"" + key.second + "\": " + std::to_string(count);
      any = true;
    }
  }
  json += any ? "}}\n" : "}\n";
  std::ofstream file(name, std::ios::trunc);
  file << json;
  file.flush();
  return file.good() ? 0 : (errno != 0 ? errno : 5);
}
