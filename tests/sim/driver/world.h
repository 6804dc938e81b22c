// Everything the simulated driver knows: devices, contexts, streams, events, operations, allocations.
//
// Purpose: the data model and the scheduler's interface; api_*.cpp turn CUDA calls into changes of it.
// Threading: World::mutex guards all of it. A function that takes a Lock& expects it held and returns with it held, but
// may let it go in between where its comment says so. Bodies of operations run with no lock held, except where Op says.
// Ownership: operations and streams are shared_ptr, for work outlives the handle that submitted it. The World is never
// destroyed: CUDA calls may come from destructors that run at exit.
// Hazard: host memory that an operation touches belongs to the program; it is touched only from Op::body.
#ifndef TESTS_SIM_DRIVER_WORLD_H_
#define TESTS_SIM_DRIVER_WORLD_H_

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/sim/simcuda.h"

namespace simcuda {

inline constexpr size_t kPage = 4096;

struct Context;
struct Stream;
struct Graph;
struct GraphExec;
struct Capture;
struct GraphNode;
struct Op;
struct Pool;
struct Physical;
using Lock = std::unique_lock<std::mutex>;
using OpPtr = std::shared_ptr<Op>;
using StreamPtr = std::shared_ptr<Stream>;

inline constexpr int kDeviceCount = 2;
inline constexpr int kDriverVersion = 13000;

// What carries an operation out. Operations on one engine of one device run one after the other; kNone costs no time.
enum class Engine { kNone, kCompute, kCopyToDevice, kCopyToHost, kHost };
inline constexpr int kEngineCount = 5;

// What an operation does, free of where and when: a stream operation and a graph node are made from the same Work.
struct Work {
  enum class Kind {
    kEmpty,
    kKernel,
    kCopy,
    kSet,
    kHost,
    kEventRecord,
    kEventWait,
    kAlloc,
    kFree,
    kWaitValue,
    kWriteValue
  };
  Kind kind = Kind::kEmpty;
  Engine engine = Engine::kNone;
  uint64_t duration_ns = 0;
  // Engine::kNone: runs with World::mutex held, must be short. Else: runs with no lock held, on any thread.
  std::function<void(Op&)> body;
  // Not to be started before this holds; asked with the mutex held. Null: no condition.
  std::function<bool()> condition;
  // What a graph node of this work answers about itself; each for its kind.
  struct Kernel* kernel = nullptr;
  simLaunch shape = {};
  std::shared_ptr<struct KernelArguments> arguments;
  std::shared_ptr<struct CopyRequest> copy;
  std::shared_ptr<struct SetRequest> set;
  CUhostFn host_function = nullptr;
  void* host_data = nullptr;
  CUevent event = nullptr;
  CUdeviceptr memory = 0;
  size_t memory_bytes = 0;
  int from = 0;  // of a copy: SIM_PLACE_* (simobserve.h)
  int to = 0;
  int from_device = -1;  // of a copy; -1: the host
  int to_device = -1;
  uint64_t graph_node = 0;  // of a launched graph
};

struct Op : std::enable_shared_from_this<Op> {
  enum class State { kPending, kRunning, kDone };
  uint64_t serial = 0;
  State state = State::kPending;
  Context* context = nullptr;
  StreamPtr stream;
  Work work;
  int device = 0;
  bool needed = false;              // somebody waits for it, or for something behind it
  std::vector<OpPtr> dependencies;  // those not complete at submission; emptied at completion
  std::vector<OpPtr> dependents;
  int unmet = 0;
  uint64_t ready_ns = 0;  // on the device's clock
  uint64_t end_ns = 0;
  // For whoever observes (observe.h).
  uint32_t correlation = 0;
  uint32_t stream_id = 0;
  uint64_t began_ns = 0;
  bool done() const { return state == State::kDone; }
};

struct Allocation {
  enum class Kind { kDevice, kManaged, kPinned, kRegistered, kMapped, kImported, kPooled };
  Kind kind = Kind::kDevice;
  uintptr_t base = 0;          // what the program has
  size_t bytes = 0;            // what the program asked for
  size_t reserved = 0;         // what it costs
  std::byte* alias = nullptr;  // where the host side of the simulator finds the bytes
  int device = 0;              // where it lives; for host memory the device that was current
  Context* context = nullptr;
  unsigned flags = 0;
  uint64_t id = 0;
  bool sync_memops = false;
  bool accessible = true;  // kMapped: cuMemSetAccess has been called
  uint8_t access = 0xff;   // bit per device that may touch it
  Pool* pool = nullptr;
  bool freed_in_stream = false;  // cuMemFreeAsync has been called; the memory lives until its operation runs
  size_t file_offset = 0;        // in the device's memory file, for IPC
  bool read_mostly = false;      // kManaged: what the program advised
  int preferred = CU_DEVICE_INVALID;
  int last_prefetch = CU_DEVICE_INVALID;
  bool exported = false;
  Physical* physical = nullptr;  // kMapped: the handle behind it
  uint64_t freed_in = 0;         // kPooled, freed_in_stream: id of the stream
  bool HostSide() const { return kind == Kind::kPinned || kind == Kind::kRegistered; }
};

struct Kernel {
  std::string name;
  const void* host_function = nullptr;
  simKernelBody body = nullptr;  // null: of a fat binary, and nobody gave it one
  std::vector<size_t> arg_sizes;
  uint64_t duration_ns = 0;
  std::map<int, int> attributes;
};

struct Variable {
  std::string name;
  size_t bytes = 0;
  std::map<Context*, uintptr_t> instances;
};

// Device memory: one file per device, mapped twice. The program gets addresses in a range without access, the simulator
// uses the second mapping (semantics: device pointers are not host pointers).
struct Arena {
  int file = -1;
  uintptr_t base = 0;
  std::byte* alias = nullptr;
  size_t bytes = 0;
  size_t top = 0;                                           // never handed out above this
  std::map<uintptr_t, size_t> free_ranges;                  // offset -> bytes, coalesced
  std::map<size_t, std::vector<uintptr_t>> recently_freed;  // exact size -> offsets, last freed first out
};

struct Device {
  int ordinal = 0;
  Arena physical;  // what cuMemCreate hands out: a file only, mapped by cuMemMap
  size_t total_bytes = 0;
  size_t used_bytes = 0;
  std::map<int, int> attributes;
  Context* primary = nullptr;
  Arena arena;
  uint64_t engine_free_ns[kEngineCount] = {};
  Pool* default_pool = nullptr;
  Pool* current_pool = nullptr;
};

struct Context {
  Device* device = nullptr;
  bool primary = false;
  bool alive = false;
  uint64_t generation = 0;  // a primary context that was reset is another context under the same handle
  int references = 0;
  unsigned flags = 0;
  CUresult sticky = CUDA_SUCCESS;
  StreamPtr legacy;
  std::vector<StreamPtr> streams;  // all, the legacy and per-thread ones too, and destroyed ones with work left
  OpPtr barrier;                   // all later work waits for it (cuCtxWaitEvent)
  std::vector<OpPtr> records;      // of events behind everything, which are in no stream
  std::set<Context*> peers;        // contexts whose memory this one may touch
  std::map<int, size_t> limits;
};

struct Stream {
  Context* context = nullptr;
  uint64_t context_generation = 0;
  uint64_t id = 0;
  unsigned flags = 0;  // CU_STREAM_NON_BLOCKING
  int priority = 0;
  bool legacy = false;
  bool per_thread = false;
  bool destroyed = false;
  OpPtr tail;
  // Capture (capture.cpp)
  std::shared_ptr<Capture> capture;
  std::vector<GraphNode*> capture_tail;
};

struct SharedEvent;  // the part of an IPC event that lies in memory shared between processes (ipc_event.cpp)

struct Event {
  Context* context = nullptr;
  unsigned flags = 0;
  OpPtr recorded;                    // null: never recorded
  std::shared_ptr<Capture> capture;  // recorded in a capturing stream
  std::vector<GraphNode*> capture_nodes;
  SharedEvent* shared = nullptr;  // mapped for good: operations and other processes refer to it
  int shared_file = -1;
  uint64_t ticket = 0;  // of this process's last record
  bool imported = false;
};

struct Settings {
  bool timed = false;
  uint64_t seed = 1;
  bool poison = true;
  uint64_t idle_progress_ns = 0;
  int devices = kDeviceCount;  // that a program finds
  bool empty_kernels = false;  // kernels of fat binaries do nothing instead of failing
  size_t pinnable_bytes = SIZE_MAX;
  double bytes_per_ns[3] = {20.0, 20.0, 1000.0};  // to device, to host, device to device
};

struct World {
  std::mutex mutex;
  std::condition_variable changed;                                  // an operation completed or became runnable
  std::condition_variable engine_wake[kDeviceCount][kEngineCount];  // timed mode: one became runnable there

  std::atomic<bool> initialized{false};
  Settings settings;
  Device devices[kDeviceCount];
  std::vector<std::unique_ptr<Context>> contexts;
  std::unordered_map<CUstream, StreamPtr> streams;  // live handles
  // Handles of streams that were destroyed: the last one is the next stream's, while work of the old one may be left.
  std::vector<CUstream> spare_stream_handles;
  uintptr_t next_stream_handle = 0;
  std::unordered_map<CUevent, std::unique_ptr<Event>> events;
  std::map<uintptr_t, Allocation> allocations;
  std::unordered_map<const void*, std::unique_ptr<Kernel>> kernels;
  std::unordered_map<const void*, std::string> compiled;                  // in fat binaries: host function -> name
  std::unordered_map<const void*, std::vector<const void*>> compiled_in;  // binary -> its host functions
  std::unordered_map<const void*, std::unique_ptr<Variable>> variables;
  std::vector<std::unique_ptr<Kernel>> retired_kernels;
  std::set<Capture*> captures;  // live, invalidated ones too until they are ended
  std::map<Graph*, std::unique_ptr<Graph>> graphs;
  std::map<GraphExec*, std::unique_ptr<GraphExec>> graph_execs;
  std::map<Pool*, std::unique_ptr<Pool>> pools;

  std::vector<OpPtr> ready;  // pending, nothing unmet; ordered by serial
  uint64_t pending = 0;      // not complete
  int stuck_waits = 0;       // threads that wait while nothing can run (simStuckWaits)
  uint64_t next_serial = 1;
  uint64_t next_id = 1;
  uint64_t kernels_submitted = 0;
  std::string printed;  // by kernels, and not yet written out
  uint64_t random_state = 1;
  uint64_t clock_ns = 0;  // adversarial mode: the host's clock, which only submissions and waits advance
  std::atomic<bool> forked{false};
  std::atomic<uint64_t> calls{0};  // of anything exported, for the idle watch

  World();
  ~World() = delete;
};

// Never destroyed.
World& TheWorld();

// ---- per thread
struct ThreadState {
  struct Entry {
    Context* context;
    uint64_t generation;
  };
  std::vector<Entry> context_stack;
  std::map<std::pair<Context*, uint64_t>, StreamPtr> per_thread_streams;
  int runtime_depth = 0;            // inside a libcudart: its calls of cu* are not the program's
  bool in_device_work = false;      // in a kernel body or host function, which must not call CUDA
  bool per_thread_default = false;  // the call came by a _ptsz or _ptds name
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  Op* running = nullptr;
  bool running_faulted = false;
  uint32_t correlation = 0;  // of the driver call that the thread is in (observe.h)
  ~ThreadState();
};
ThreadState& ThisThread();

// ---- settings.cpp
void ReadEnvironment(World& world);

// ---- context.cpp
// The current context if it is alive and not broken; else the error to return.
CUresult CurrentContext(World& world, Context** context);
bool IsContext(World& world, Context* context);
int AttributeOf(const Device& device, CUdevice_attribute attribute);
Context* NewContext(World& world, Device& device, bool primary, unsigned flags);
// Waits for its work, frees what it owns. Lets the lock go while it waits.
void DestroyContext(World& world, Lock& lock, Context* context);

// ---- launch.cpp
// To stdout goes what kernels have printed. The mutex is held.
void WriteOutPrinted(World& world);

// ---- stream.cpp
// Handle -> stream: NULL is the legacy or (entered by a _ptsz name) per-thread stream of the current context.
CUresult FindStream(World& world, CUstream handle, StreamPtr* stream);
StreamPtr NewStream(World& world, Context* context, unsigned flags, int priority);

// ---- scheduler.cpp
// What a new operation on the stream must wait for by CUDA's rules.
void StreamDependencies(const StreamPtr& stream, std::vector<OpPtr>* dependencies);
// Submits; never runs anything in adversarial mode.
OpPtr Submit(World& world, const StreamPtr& stream, Work work);
OpPtr SubmitAfter(World& world, Context* context, const StreamPtr& stream, Work work,
                  const std::vector<OpPtr>& dependencies, bool becomes_tail);
// Returns when all targets are complete. Lets the lock go while bodies run.
void RunUntilDone(World& world, Lock& lock, const std::vector<OpPtr>& targets);
// For a query that has answered "not ready": lets a little of the pending work run, so that polling ends.
void RunSome(World& world, Lock& lock, const OpPtr& preferred);
// All work of the context (null: of every context).
std::vector<OpPtr> PendingOf(World& world, Context* context);
uint64_t Random(World& world, uint64_t below);
uint64_t NowNs(World& world);
void StartExecutors(World& world);
void StartIdleWatch(World& world);
// Breaks the context: a sticky error.
void Fault(Context* context, CUresult error);

// ---- memory.cpp
// Takes the streams out of a capture that nobody can end any more.
void AbandonCapture(World& world, const StreamPtr& origin);
// The reserved range that the address lies in; false if in none.
bool FindReservation(uintptr_t address, uintptr_t* base, size_t* bytes);
// The handle types that memory behind this handle may be exported as.
CUmemAllocationHandleType HandleTypesOf(const Physical* physical);
// Address ranges and physical handles are gone (simReset).
void ForgetVirtualMemory(World& world);
void CreateArenas(World& world);
bool TakeRange(Arena& arena, size_t bytes, uintptr_t* offset);
void GiveRange(Arena& arena, uintptr_t offset, size_t bytes);
// Null when out of memory. The memory holds garbage.
Allocation* AllocateDevice(World& world, Context* context, size_t bytes, Allocation::Kind kind);
Allocation* FindAllocation(World& world, uintptr_t address);
void ReleaseAllocation(World& world, uintptr_t base);
// As ReleaseAllocation, and its pool (if any) is told.
void FreeNow(World& world, uintptr_t base);
// Whether the device reaches plain host memory (HMM), and whether by the host's own page tables (ATS).
bool DeviceReadsPageable(World& world);
bool DeviceUsesHostPageTables(World& world);
void Poison(World& world, std::byte* bytes, size_t count, int value);
// Where the simulator finds [address, address + bytes), or null if that is not inside one live allocation. For an
// address that is nobody's (plain host memory): the address itself.
std::byte* Translate(World& world, uintptr_t address, size_t bytes, bool* known);

}  // namespace simcuda

#endif  // TESTS_SIM_DRIVER_WORLD_H_
