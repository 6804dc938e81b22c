#include "shim/runtime.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "allocator/allocator.h"
#include "allocator/decision.h"
#include "allocator/segments.h"
#include "cuda/ledger.h"
#include "cuda/mutant.h"
#include "policy/environment.h"
#include "policy/helper_thread.h"
#include "policy/load.h"
#include "policy/log.h"
#include "policy/memory_left.h"
#include "policy/no_cancellation.h"
#include "policy/policy.h"
#include "policy/thread_owned.h"
#include "policy/transfer_plan.h"
#include "shim/call_share.h"
#include "shim/caller.h"
#include "shim/driver_library.h"
#include "shim/engines.h"
#include "shim/gate.h"
#include "shim/host_memory.h"
#include "shim/loaded_object.h"
#include "tracer/base/python_lines.h"
#include "tracer/python/program_sites.h"
#include "tracer/python/python_process.h"
#include "tracer/spool/job_identity.h"
#include "tracer/tracer.h"
#include "transfer/background_unmap.h"
#include "transfer/decision.h"
#include "transfer/kept_blocks.h"
#include "transfer/transfer.h"

namespace slipstream::shim {
namespace {

using tracer::HookId;

constinit std::atomic<tracer::Tracer*> g_tracer{nullptr};
constinit std::atomic<cuda::Ledger*> g_ledger{nullptr};
constinit std::atomic<transfer::Engine*> g_transfer{nullptr};
constinit std::atomic<allocator::Segments*> g_allocator{nullptr};
constinit std::atomic<transfer::BackgroundUnmap*> g_unmap{nullptr};
constinit std::atomic<transfer::KeptBlocks*> g_kept_blocks{nullptr};
constinit std::atomic<pid_t> g_built_by{
    0};  // outlives a fork, unlike the gate: tells a forked child from a fresh process

constinit std::atomic<bool> g_managed_variables{false};
constinit std::atomic<bool> g_shares_files{false};

// For example 13000. cudaRuntimeGetVersion returns a constant: it initialises nothing and leaves the last
// error alone. 0: unknown.
int VersionOf(const RuntimeLibrary& library) {
  auto* const get_version = reinterpret_cast<cudaError_t (*)(int*)>(dlsym(library.handle, "cudaRuntimeGetVersion"));
  int version = 0;
  return get_version != nullptr && get_version(&version) == cudaSuccess ? version : 0;
}

// "13000 /path/libcudart.so.13"
std::string RuntimeFact(const RuntimeLibrary& library) {
  return std::to_string(VersionOf(library)) + " " + library.path;
}

// Why a process whose runtime has functions that slipstream does not know is not served (S66); empty: it has none.
std::string WhyUnknown() {
  if (Broken(Mutant::kS66)) return "";
  for (uint32_t i = 0; i < Resolver::Count(); ++i) {
    const RuntimeLibrary& library = *Resolver::At(i);
    if (library.unknown.count == 0) continue;
    return std::string(BaseName(library.path)) + " is newer than slipstream, which does not know " +
           std::to_string(library.unknown.count) + " of its functions (" + library.unknown.names + ")";
  }
  return "";
}

// Why an engine would keep calls from another preloaded library that wraps one of these functions (S72); empty: none
// does.
std::string WhyWrapped(std::initializer_list<HookId> functions) {
  if (Broken(Mutant::kS72)) return "";
  for (const HookId id : functions) {
    if (IsOfDriver(id) && !Runtime::InterceptsDriver()) continue;
    const char* const wrapper = IsOfDriver(id) ? DriverLibrary::WrapperOf(id) : Resolver::WrapperOf(id);
    if (wrapper[0] != '\0')
      return std::string(wrapper) + " wraps " + tracer::NameOf(id) + ", and is to see each call of it";
  }
  return "";
}
std::string WhyPoolIsWrapped() {
  return WhyWrapped({HookId::cudaMalloc, HookId::cudaFree, HookId::cuMemAlloc_v2, HookId::cuMemFree_v2});
}
std::string WhyCopiesAreWrapped() {
  return WhyWrapped({HookId::cudaMemcpyAsync, HookId::cudaMemcpyAsync_ptsz, HookId::cudaMemcpy, HookId::cudaMemcpy_ptds,
                     HookId::cudaStreamSynchronize, HookId::cudaStreamSynchronize_ptsz, HookId::cuMemcpyHtoDAsync_v2,
                     HookId::cuMemcpyHtoD_v2, HookId::cuMemcpyDtoHAsync_v2, HookId::cuMemcpyDtoH_v2,
                     HookId::cuMemcpyAsync, HookId::cuMemcpy, HookId::cuStreamSynchronize});
}

void AddRuntimeFacts(tracer::Tracer& tracer) {
  for (uint32_t i = 0; i < Resolver::Count(); ++i) tracer.AddFact("runtime", RuntimeFact(*Resolver::At(i)));
  if (Runtime::InterceptsDriver() && DriverLibrary::Path()[0] != '\0') {
    tracer.AddFact("driver_library", DriverLibrary::Path());
  }
  for (size_t i = 0; i < tracer::kHookCount; ++i) {
    const auto id = static_cast<HookId>(i);
    bool bound = false;
    if (IsOfDriver(id)) {
      bound = Runtime::InterceptsDriver() && DriverLibrary::Function(id) != nullptr;
    } else {
      for (uint32_t r = 0; r < Resolver::Count(); ++r)
        bound |= Resolver::At(r)->functions[i].load(std::memory_order_relaxed) != nullptr;
    }
    tracer.SetBound(id, bound);
  }
}

// The engines' decisions, one after the other, in the tracer's one list.
constexpr size_t kTransferDecisions = 0;
constexpr size_t kAllocatorDecisions = transfer::kDecisionCount;
constexpr size_t kDecisions = transfer::kDecisionCount + allocator::kDecisionCount;
static_assert(kDecisions <= tracer::kMaxDecisions);

std::array<const char*, kDecisions> DecisionNames() {
  std::array<const char*, kDecisions> names;
  for (size_t i = 0; i < transfer::kDecisionCount; ++i) {
    names[kTransferDecisions + i] = transfer::kDecisionTexts[i].name;
  }
  for (size_t i = 0; i < allocator::kDecisionCount; ++i) {
    names[kAllocatorDecisions + i] = allocator::kDecisionTexts[i].name;
  }
  return names;
}

void CountDecision(size_t index, uint64_t bytes, uint64_t time_ns, tracer::CallShare share, uint64_t contents = 0) {
  if (tracer::Tracer* const tracer = g_tracer.load(std::memory_order_acquire)) {
    tracer->CountDecision(index, bytes, time_ns, share, contents);
  }
}

void CountTransfer(transfer::Decision decision, uint64_t bytes, uint64_t time_ns) {
  const bool promoted =
      decision == transfer::Decision::kH2dPromotedSmall || decision == transfer::Decision::kH2dPromotedLarge;
  CountDecision(kTransferDecisions + static_cast<size_t>(decision), bytes, time_ns, ShareOf(decision),
                promoted ? transfer::Engine::Fingerprint() : 0);
}

// The debts of skipped synchronizations are the ledger's, and stand in the list of the engine that skips them.
void CountSettled(cuda::Before what, uint64_t time_ns) {
  const auto first = static_cast<size_t>(transfer::Decision::kSyncSettledSynchronize);
  CountTransfer(static_cast<transfer::Decision>(first + static_cast<size_t>(what)), 0, time_ns);
}
#define SAME_PLACE(decision, before)                                               \
  static_assert(static_cast<size_t>(transfer::Decision::decision) ==               \
                static_cast<size_t>(transfer::Decision::kSyncSettledSynchronize) + \
                    static_cast<size_t>(cuda::Before::before))
SAME_PLACE(kSyncSettledCopy, kCopy);
SAME_PLACE(kSyncSettledFree, kFree);
SAME_PLACE(kSyncSettledShare, kShare);
SAME_PLACE(kSyncSettledCapture, kCapture);
SAME_PLACE(kSyncSettledReset, kReset);
SAME_PLACE(kSyncSettledProfiler, kProfilerStop);
SAME_PLACE(kSyncSettledQuery, kQuery);
SAME_PLACE(kSyncSettledThreadExit, kThreadExit);
SAME_PLACE(kSyncSettledBound, kThirdDebt);
#undef SAME_PLACE

void CountRanOn(uint64_t time_ns) { CountTransfer(transfer::Decision::kSyncRanOn, 0, time_ns); }

void CountAllocator(allocator::Decision decision, uint64_t bytes) {
  CountDecision(kAllocatorDecisions + static_cast<size_t>(decision), bytes, 0, ShareOf(decision));
}

void CountAllocatorTime(allocator::Decision decision, uint64_t time_ns) {
  CountDecision(kAllocatorDecisions + static_cast<size_t>(decision), 0, time_ns, ShareOf(decision));
}

void Explain(const char* key, const char* text) {
  if (tracer::Tracer* const tracer = g_tracer.load(std::memory_order_acquire)) tracer->AddFact(key, text);
}

// Inside a call: what throws must not come out of it.
void SayPythonLines(const char* fact) {
  tracer::Tracer* const tracer = g_tracer.load(std::memory_order_acquire);
  if (tracer == nullptr) return;
  try {
    tracer->AddLateFact(tracer::kFactPythonLines, fact);
  } catch (...) {
    policy::LogWarn("no memory to say why there are no lines");
  }
}

void RecordMemory(CUdevice device, const allocator::PoolFigures& figures) {
  if (tracer::Tracer* const tracer = g_tracer.load(std::memory_order_acquire)) {
    tracer->RecordMemory({.device = device,
                          .live_bytes = figures.live_bytes,
                          .idle_bytes = figures.idle_bytes,
                          .parked_bytes = figures.parked_bytes,
                          .peak_idle_bytes = figures.peak_idle_bytes,
                          .trims = figures.trims,
                          .retries = figures.retries,
                          .device_used = figures.device_used,
                          .largest_idle = figures.largest_idle});
  }
}

bool WantsDeviceUse(CUdevice device) {
  tracer::Tracer* const tracer = g_tracer.load(std::memory_order_acquire);
  return tracer != nullptr && tracer->WantsDeviceUse(device);
}

// What a thread was at with the help of the engines is over, or in CUDA's hands, before CUDA takes itself apart: a call
// that comes later crashes there (S75). Of engines that takes milliseconds; a thread that is longer inside waits for
// CUDA, and would be there without them.
void WaitForCallsInside() {
  constexpr std::chrono::milliseconds kLongest{100};
  const auto end = std::chrono::steady_clock::now() + kLongest;
  while (OtherCallsInside() > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

// The process is exiting (S53).
void StopEngines() {
  // A forked child has none of the threads that would be waited for, and its engines serve nobody.
  if (getpid() != g_built_by.load(std::memory_order_relaxed)) return;
  static constinit std::atomic<bool> stopped{false};
  if (stopped.exchange(true, std::memory_order_acq_rel)) return;
  TheGate().recording.fetch_and(~kRouteEngines, std::memory_order_seq_cst);
  WaitForCallsInside();
  if (allocator::Segments* const pool = g_allocator.load(std::memory_order_acquire)) pool->Stop();
  if (cuda::Ledger* const ledger = g_ledger.load(std::memory_order_acquire)) ledger->Stop();
  if (transfer::Engine* const engine = g_transfer.load(std::memory_order_acquire)) engine->Stop();
}

// In front of the exit handlers of the driver, which has initialized itself: it must find no thread of ours inside
// (S75).
bool WillStopAtExit() { return std::atexit(StopEngines) == 0; }

// Whether it says that device work has failed, and not that the driver would rather not answer.
bool IsDeviceFault(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

// exit() or a return from main; the driver, which the first deferred wait came after, is still whole (S79). A program
// that ends with another status has been told.
void SettleAtExit(int status, void*) {
  if (getpid() != g_built_by.load(std::memory_order_relaxed)) return;
  // A signal handler ends the process from inside a call, which may be one of the ledger's own.
  if (t_call.frame != nullptr) return;
  const CUresult result = g_ledger.load(std::memory_order_acquire)->SettleAtExit();
  if (status != 0 || !IsDeviceFault(result)) return;
  std::array<char, 256> line;
  (void)std::snprintf(
      line.data(), line.size(),
      "device work in front of this program's last blocking copy failed with error %d, which no call has "
      "returned since; with transfer.skip_synchronize = false that copy returns it",
      static_cast<int>(result));
  policy::LogOnceToStderr(line.data());
}
void WillOweAtExit() { (void)on_exit(SettleAtExit, nullptr); }

// The process is exiting, and the NVTX tool's own exit handlers have not run: they were there first.
void StopNvtx() {
  if (getpid() != g_built_by.load(std::memory_order_relaxed)) return;
  if (tracer::Tracer* const tracer = g_tracer.load(std::memory_order_acquire)) tracer->StopNvtx();
}

// The process is exiting, and its libraries are still whole.
void StopDevice() {
  if (getpid() != g_built_by.load(std::memory_order_relaxed)) return;
  if (tracer::Tracer* const tracer = g_tracer.load(std::memory_order_acquire)) tracer->FinishDevice();
}

// Behind the program's exit handlers and static destructors, whose calls belong into the trace too (S53). A process
// that never called CUDA has no tracer.
[[gnu::destructor]] void FinishTrace() {
  tracer::Tracer* const tracer = g_tracer.load(std::memory_order_acquire);
  if (tracer == nullptr || getpid() != g_built_by.load(std::memory_order_relaxed)) return;
  tracer->FinishTrace();
}

bool TransportLoaded() { return g_ledger.load(std::memory_order_acquire)->TransportLoaded(); }

bool DescribeSite(uint32_t site, transfer::CallSites::Place* place) {
  tracer::CallSite found;
  if (!tracer::ProgramSites::Describe(site, &found)) return false;
  *place = {.at = {.file = found.file, .line = found.line}, .function = found.function};
  return true;
}

// Nobody's stack is read that no rule asks for and no message.
transfer::CallSites SitesFor(const policy::Transfer& policy) {
  if (!policy::RulesHaveSites(policy) && !policy.verify) return {};
  return {.current = tracer::ProgramSites::Current, .describe = DescribeSite};
}

// Whether they are kept. An allocator other than the C library's, a sanitizer's or a profiler's among them, sees every
// block that is freed; and so does who has freed memory filled.
bool KeepHostBlocks(const policy::Host& policy, int ranks_here) {
  if (policy.max_kept == 0 || !LibcAllocates() || policy::FreedMemoryIsFilled()) return false;
  static constinit std::atomic<int> ranks{0};
  ranks.store(ranks_here, std::memory_order_relaxed);
  const transfer::KeptBlocks::Parts parts = {
      .count = CountTransfer,
      .start_thread = policy::StartHelperThread,
      .free = FreeHostBlock,
      .most =
          [](uint64_t kept) {
            if (policy::MappingsAreLimited()) return uint64_t{0};
            return policy::MostPinned(policy::MemoryLeft(), kept, ranks.load(std::memory_order_relaxed));
          },
      .pinned =
          [](const void* block, size_t bytes) {
            return g_ledger.load(std::memory_order_acquire)->Registered(cuda::AddressRange::Of(block, bytes));
          }};
  auto* const kept = new (std::nothrow) transfer::KeptBlocks(policy.max_kept, transfer::KeptBlocks::kIdle, parts);
  g_kept_blocks.store(kept, std::memory_order_release);
  if (kept == nullptr) return false;
  const auto before = [] { g_kept_blocks.load(std::memory_order_acquire)->BeforeFork(); };
  const auto after = [] { g_kept_blocks.load(std::memory_order_acquire)->AfterFork(); };
  // A child's library does nothing any more (gate.h).
  if (pthread_atfork(before, after, nullptr) == 0) return true;
  g_kept_blocks.store(nullptr, std::memory_order_release);
  return false;
}

// The bits for the gate: those of the engines that are on. They are never destroyed: threads may be inside them until
// the process is gone.
uint32_t StartEngines(const policy::Policy& policy, bool transfer_serves, const allocator::EngineStatus& allocator,
                      int ranks_here) {
  if (!transfer_serves && !allocator.serves) return 0;
  // For a process whose ledger never begins; else it was done before (WillStopAtExit).
  if (std::atexit(StopEngines) != 0) return 0;
  auto* const ledger =
      new (std::nothrow) cuda::Ledger({.hmm_is_system_memory = policy.transfer.hmm == policy::HmmMode::kStandAside,
                                       .heeds_transports = !policy.transfer.skip_with_rdma,
                                       .begins = WillStopAtExit,
                                       .settled = CountSettled,
                                       .ran_on = CountRanOn,
                                       .defers = WillOweAtExit,
                                       .explain = Explain});
  if (ledger == nullptr) return 0;
  g_ledger.store(ledger, std::memory_order_seq_cst);
  if (g_managed_variables.load(std::memory_order_seq_cst)) ledger->UsesMappedMemory();
  if (g_shares_files.load(std::memory_order_seq_cst)) ledger->SharesMemory();
  uint32_t routes = kRouteLedger;
  transfer::Engine* engine = nullptr;
  if (transfer_serves) {
    const int threads = policy::CopyThreads(policy.transfer, ranks_here);
    engine = new (std::nothrow)
        transfer::Engine(policy.transfer, threads, ranks_here, CountTransfer, SitesFor(policy.transfer), *ledger);
    g_transfer.store(engine, std::memory_order_release);
  }
  const allocator::Reports reports = {
      .decided = CountAllocator, .holds = RecordMemory, .wants_more = WantsDeviceUse, .timed = CountAllocatorTime};
  if (allocator.serves) {
    auto* const pool = new (std::nothrow) allocator::Segments(policy.allocator, *ledger, reports);
    g_allocator.store(pool, std::memory_order_release);
    if (pool != nullptr) routes |= kRouteAllocator;
  }
  if (engine != nullptr && policy.transfer.unmap_in_background) {
    const transfer::BackgroundUnmap::Parts parts = {
        .count = CountTransfer, .start_thread = policy::StartHelperThread, .watched = TransportLoaded};
    auto* const unmap = new (std::nothrow) transfer::BackgroundUnmap(transfer::BackgroundUnmap::MostBytes(), parts);
    g_unmap.store(unmap, std::memory_order_release);
    if (unmap != nullptr) routes |= kRouteUnmap;
  }
  if (engine != nullptr && KeepHostBlocks(policy.host, ranks_here)) routes |= kRouteHostMemory;
  return routes;
}

// Why CUPTI is somebody else's in this process: Nsight Systems, Nsight Compute, or whatever the driver was asked to
// load.
std::string OtherProfiler(const policy::Environment& environment) {
  for (const char* const name :
       {"NSYS_PROFILING_SESSION_ID", "NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "CUDA_INJECTION64_PATH"}) {
    if (!environment.Get(name).value_or("").empty()) return std::string("a profiler is attached: ") + name + " is set";
  }
  return "";
}

// Behind the start of the trace that it is a part of.
void StartDevice(tracer::Tracer& tracer, const policy::Tracer& policy, const tracer::TraceFacts& about) {
  std::string problem;
  if (tracer.StartDevice(policy, about, &problem)) {
    tracer.AddLateFact(tracer::kFactDeviceWork, "on");
    if (std::atexit(StopDevice) != 0) StopDevice();
    return;
  }
  const bool wanted = !problem.empty();
  if (!wanted) problem = "tracer.device is off";
  tracer.AddLateFact(tracer::kFactDeviceWork, (tracer::kDeviceWorkOff + problem).c_str());
  if (wanted) policy::LogWarn("nothing of the devices is in the trace: " + problem);
}

// Said once where it fails, in the log and for the summary.
void StartTrace(tracer::Tracer& tracer, const policy::Tracer& policy, std::string_view run_directory,
                const policy::Environment& now, tracer::TraceFacts about) {
  std::string problem;
  // A file has one fact of a name.
  for (uint32_t i = 0; i < Resolver::Count(); ++i) {
    about.facts.emplace_back(i == 0 ? "runtime" : "runtime." + std::to_string(i), RuntimeFact(*Resolver::At(i)));
  }
  const bool started = tracer.StartTrace(policy, std::string(run_directory), about, &problem);
  if (started) {
    tracer.AddFact("trace", "on");
    about.runtime = Resolver::Count() != 0 ? Resolver::At(0)->path : "";
    about.other_profiler = OtherProfiler(now);
    StartDevice(tracer, policy, about);
  }
  if (problem.empty()) return;
  tracer.AddFact("trace", "off: " + problem);
  policy::LogWarn("no trace: " + problem);
}

DriverLevel LevelOfDriver(const policy::Loaded& loaded) {
  const policy::Policy& policy = loaded.policy;
  if (!loaded.ok() || !policy.enabled) return DriverLevel::kPassing;
  if (policy.intercept.level == policy::InterceptLevel::kDriver) return DriverLevel::kIntercepted;
  const bool serves = allocator::StatusOf(policy.allocator).serves || policy::OffByPolicy(policy.transfer) == nullptr;
  return serves && !Broken(Mutant::kS70) ? DriverLevel::kWatched : DriverLevel::kPassing;
}

// What the policy says beside that.
constexpr uint32_t kKnown = 1u << 0;
constexpr uint32_t kEnabled = 1u << 1;
constexpr uint32_t kTracesDevices = 1u << 2;
constinit std::atomic<uint32_t> g_says{0};

uint32_t SaysOf(const policy::Loaded& loaded) {
  if (!loaded.ok() || !loaded.policy.enabled) return kKnown;
  return kKnown | kEnabled | (loaded.policy.tracer.device != policy::DeviceWork::kOff ? kTracesDevices : 0);
}

// The first who knows says so; what was handed out by then stays right, since everybody reads the same policy.
void KnowDriverLevel(DriverLevel level) {
  Gate& gate = TheGate();
  gate.driver_level.store(level, std::memory_order_release);
  if (level != DriverLevel::kIntercepted) gate.driver_straight.store(true, std::memory_order_release);
  if (level == DriverLevel::kPassing) gate.watched_straight.store(true, std::memory_order_release);
}

// Before anything of the program runs but other libraries' constructors.
[[gnu::constructor]] void RememberSettings() {
  policy::RememberVariables();
  policy::ThreadPages::Prepare();
}

// Everything that may allocate, read files or throw. Returns the recording bits.
uint32_t Start() {
  const policy::Environment settings = policy::Environment::AtStart();
  const policy::Loaded loaded =
      policy::Load({.path = std::nullopt, .env = settings, .search = policy::Search::kProcess});
  KnowDriverLevel(LevelOfDriver(loaded));
  g_says.store(SaysOf(loaded), std::memory_order_release);
  if (!loaded.ok()) {
    // S59: `slipstream run` refuses such a policy; a bare preload says so once and stands aside.
    std::string message = "the policy cannot be used, so every CUDA call passes through: ";
    message += loaded.problems.empty() ? "out of memory" : loaded.problems.front().Format();
    policy::LogOnceToStderr(message);
    return tracer::kRecordNothing;
  }
  const policy::Policy& policy = loaded.policy;
  policy::ConfigureLog(policy.log);
  for (const policy::Problem& note : loaded.notes) policy::LogWarn(note.Format());
  if (!policy.enabled) {
    policy::LogInfo("enabled = false: every CUDA call passes through");
    return tracer::kRecordNothing;
  }

  const std::string_view run_directory = settings.Get(policy::kRunDirectoryVariable).value_or("");
  // What CUDA itself goes by; and a worker that multiprocessing made is told its rank by its program.
  const policy::Environment now = policy::Environment::FromProcess();
  tracer::JobIdentity job = tracer::JobIdentityOf(now);
  if (job.rank < 0) job = tracer::JobIdentityOf(settings);
  const tracer::ProcessIdentity identity = {.rank = job.rank, .local_rank = job.local_rank};
  std::string problem;
  tracer::Tracer* tracer = tracer::Tracer::Start(policy.tracer, std::string(run_directory), identity, &problem);
  if (!problem.empty()) policy::LogWarn("no counters: " + problem);
  if (tracer == nullptr) return tracer::kRecordNothing;

  if (tracer->nvtx() != nullptr && std::atexit(StopNvtx) != 0) tracer->StopNvtx();

  allocator::EngineStatus allocator = allocator::StatusOf(policy.allocator);
  transfer::EngineStatus transfer = transfer::StatusOf(policy.transfer, now.Get("CUDA_LAUNCH_BLOCKING").value_or(""));
  if (const std::string why = WhyUnknown(); !why.empty() && (allocator.serves || transfer.serves)) {
    policy::LogWarn("stands aside: " + why);
    if (allocator.serves) allocator = {.why = why};
    if (transfer.serves) transfer = {.why = why};
  }
  if (const std::string why = allocator.serves ? WhyPoolIsWrapped() : ""; !why.empty()) allocator = {.why = why};
  if (const std::string why = transfer.serves ? WhyCopiesAreWrapped() : ""; !why.empty()) transfer = {.why = why};
  const std::array<const char*, kDecisions> decisions = DecisionNames();
  tracer->NameDecisions(decisions);
  tracer::Facts facts = {{"policy", loaded.Files()},
                         {"intercept", Runtime::InterceptsDriver() ? "driver" : "runtime"},
                         {"allocator", (allocator.serves ? "serves: " : "off: ") + allocator.why},
                         {"transfer", (transfer.serves ? "serves: " : "off: ") + transfer.why},
                         {"nvtx", tracer->nvtx() != nullptr ? "a tool is attached" : "no tool is attached"}};
  if (std::string lines = tracer::LinesFactOfThisProcess(); !lines.empty()) {
    facts.emplace_back(tracer::kFactPythonLines, std::move(lines));
  }
  tracer::ProgramSites::OnUnreadable(SayPythonLines);
  StartTrace(*tracer, policy.tracer, run_directory, now, {.job = job, .facts = facts, .decisions = decisions});
  if (tracer->has_counter_file()) {
    for (const auto& [key, value] : facts) tracer->AddFact(key, value);
    AddRuntimeFacts(*tracer);
  }
  if (policy::LogEnabled(policy::LogLevel::kInfo)) {
    policy::LogInfo("policy: " + loaded.Files());
    policy::LogInfo("allocator " + allocator.why + "; transfer " + transfer.why);
    for (uint32_t i = 0; i < Resolver::Count(); ++i) {
      policy::LogInfo(std::string("CUDA runtime: ") + Resolver::At(i)->path);
    }
  }
  g_tracer.store(tracer, std::memory_order_release);
  return tracer->may_record() | StartEngines(policy, transfer.serves, allocator, job.local_size);
}

uint32_t StartOrStandAside() noexcept {
  try {
    return Start();
  } catch (const std::exception& error) {
    policy::LogOnceToStderr(error.what());
  } catch (...) {
    policy::LogOnceToStderr("cannot start; every CUDA call passes through");
  }
  return tracer::kRecordNothing;
}

// A policy that cannot be used intercepts nothing; Start() says so.
template <typename Answer>
Answer PolicySays(Answer (*what)(const policy::Loaded&), Answer nothing) noexcept {
  if (policy::DisabledByEnvironment()) return nothing;
  const pid_t built_by = g_built_by.load(std::memory_order_relaxed);
  if (built_by != 0 && built_by != getpid()) return nothing;  // a forked child: all passes through (S51)
  try {
    const policy::Environment settings = policy::Environment::AtStart();
    return what(policy::Load({.path = std::nullopt, .env = settings, .search = policy::Search::kProcess}));
  } catch (...) {
    return nothing;  // no memory
  }
}

uint32_t Says() noexcept {
  uint32_t says = g_says.load(std::memory_order_acquire);
  if (says != 0) return says;
  says = PolicySays(SaysOf, kKnown);
  g_says.store(says, std::memory_order_release);
  return says;
}

}  // namespace

DriverLevel Runtime::LevelOfDriver() noexcept {
  Gate& gate = TheGate();
  DriverLevel level = gate.driver_level.load(std::memory_order_acquire);
  if (level == DriverLevel::kUnknown) {
    KnowDriverLevel(PolicySays(slipstream::shim::LevelOfDriver, DriverLevel::kPassing));
    level = gate.driver_level.load(std::memory_order_acquire);
  }
  return level;
}

bool Runtime::TracesDevices() noexcept { return (Says() & kTracesDevices) != 0; }

bool Runtime::IsEnabled() noexcept { return (Says() & kEnabled) != 0; }

void Runtime::Build() noexcept {
  Gate& gate = TheGate();
  const policy::NoCancellation whole;
  GateState unbuilt = GateState::kUnbuilt;
  if (!gate.state.compare_exchange_strong(unbuilt, GateState::kBuilding, std::memory_order_acq_rel)) return;

  const pid_t self = getpid();
  pid_t nobody = 0;
  uint32_t recording = tracer::kRecordNothing;
  ProcessUsesCuda();
  Resolver::Scan();
  Resolver::ResolveAll();
  DriverLibrary::ResolveAll();
  if (g_built_by.compare_exchange_strong(nobody, self, std::memory_order_relaxed)) {
    EmptyGateInForkedChildren();
    if (!policy::DisabledByEnvironment()) recording = StartOrStandAside();
  }  // else: a forked child, which passes through (S51); CUDA itself does not work there either
  (void)LevelOfDriver();
  dlerror();  // what was looked for and is not there is no error of the program's
  gate.recording.store(recording, std::memory_order_release);
  if (recording == tracer::kRecordNothing) {
    gate.watched_straight.store(true, std::memory_order_release);
    gate.driver_straight.store(true, std::memory_order_release);
  }
  gate.library.store(Resolver::Sole(), std::memory_order_release);
  gate.state.store(GateState::kReady, std::memory_order_release);
}

// A libcudart that came in later, with functions that nobody has judged: all that is deferred is settled, and from here
// on the program's calls are made as they are.
void Runtime::StandAside() noexcept {
  static constinit std::atomic<bool> g_done{false};
  if (Broken(Mutant::kS66) || g_done.exchange(true, std::memory_order_acq_rel)) return;
  const policy::NoCancellation whole;
  if (allocator::Segments* const pool = g_allocator.load(std::memory_order_acquire)) pool->StandAside();
  if (cuda::Ledger* const ledger = g_ledger.load(std::memory_order_acquire)) ledger->StandAside();
  try {
    const std::string why = "off since a library was loaded: " + WhyUnknown();
    policy::LogWarn("stands aside: " + why);
    for (const char* const engine : {"allocator", "transfer"}) Explain(engine, why.c_str());
  } catch (...) {
    // No memory to say so.
  }
}

Route Runtime::Enter(HookId id, const void* caller) noexcept {
  Gate& gate = TheGate();
  if (gate.state.load(std::memory_order_acquire) == GateState::kUnbuilt) Build();
  const bool ready = gate.state.load(std::memory_order_acquire) == GateState::kReady;
  const RuntimeLibrary* sole = gate.library.load(std::memory_order_acquire);
  void* const function = sole != nullptr ? Resolver::Function(*sole, id) : Resolver::FunctionForCaller(id, caller);
  const uint32_t recording = ready ? gate.recording.load(std::memory_order_relaxed) : tracer::kRecordNothing;
  if ((recording & kRouteEngines) != 0 && Resolver::AnyUnknown()) [[unlikely]]
    StandAside();
  return {.function = function, .recording = recording};
}

Route Runtime::EnterByCaller(HookId id, const void* caller) noexcept {
  Route route = Enter(id, caller);
  route.function = Resolver::FunctionForCaller(id, caller);
  if (Resolver::Count() > 1) TheGate().library.store(nullptr, std::memory_order_release);
  return route;
}

Route Runtime::EnterDriver(HookId id) noexcept {
  Gate& gate = TheGate();
  const DriverLevel level = LevelOfDriver();
  if (level == DriverLevel::kIntercepted && gate.state.load(std::memory_order_acquire) == GateState::kUnbuilt) Build();
  const bool ready = gate.state.load(std::memory_order_acquire) == GateState::kReady;
  const uint32_t recording = ready ? gate.recording.load(std::memory_order_relaxed) : tracer::kRecordNothing;
  if (DriverLibrary::Known(id) == nullptr) DriverLibrary::ResolveAll();  // a program that calls no runtime
  return {.function = DriverLibrary::Function(id), .recording = RecordingOfDriver(level, recording)};
}

void* Runtime::EnterUnseen(HookId id, const void* caller) noexcept {
  // Before the first hooked call nobody needs to know; the scan of that call sees every libcudart that
  // is there by then.
  if (Resolver::Count() != 0 && Resolver::Scan() > 1) TheGate().library.store(nullptr, std::memory_order_release);
  return Resolver::FunctionForCaller(id, caller);
}

// Nobody who builds the ledger meanwhile misses it: whichever of the two comes second sees the other.
void Runtime::HasManagedVariables(const void* caller) noexcept {
  if (KeepsItsOwnOrder(caller)) return;
  g_managed_variables.store(true, std::memory_order_seq_cst);
  if (cuda::Ledger* const ledger = g_ledger.load(std::memory_order_seq_cst)) ledger->UsesMappedMemory();
}

void Runtime::SharesMemoryWithFiles() noexcept {
  g_shares_files.store(true, std::memory_order_seq_cst);
  cuda::Ledger* const ledger = g_ledger.load(std::memory_order_seq_cst);
  if (ledger == nullptr || getpid() != g_built_by.load(std::memory_order_relaxed)) return;
  ledger->SharesMemory();
  ledger->SettleForAll(cuda::Before::kShare);
}

tracer::Tracer& Runtime::tracer() noexcept { return *g_tracer.load(std::memory_order_acquire); }

allocator::Segments& Runtime::allocator() noexcept { return *g_allocator.load(std::memory_order_acquire); }

transfer::KeptBlocks& Runtime::kept_blocks() noexcept { return *g_kept_blocks.load(std::memory_order_acquire); }

transfer::BackgroundUnmap& Runtime::unmap() noexcept { return *g_unmap.load(std::memory_order_acquire); }

cuda::Ledger& Runtime::ledger() noexcept { return *g_ledger.load(std::memory_order_acquire); }

Engines Runtime::engines() noexcept {
  return {.ledger = *g_ledger.load(std::memory_order_acquire), .transfer = g_transfer.load(std::memory_order_acquire)};
}

}  // namespace slipstream::shim
