#include "tracer/device/device_tracer.h"

#include <unistd.h>

#include <array>
#include <cstring>
#include <iterator>
#include <new>
#include <string_view>

#include "policy/helper_thread.h"
#include "tracer/base/clock.h"
#include "tracer/base/futex.h"
#include "tracer/device/cupti_clients.h"
#include "tracer/device/cupti_functions.h"
#include "tracer/spool/device_work.h"

namespace slipstream::tracer {
namespace {

// What a process that is killed may lose.
constexpr uint64_t kPeriodNs = 250'000'000;

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_SYNCHRONIZATION};

// The newest layouts; of older ones these are the first part, and no field behind it is read.
using Kernel = CUpti_ActivityKernel10;
using Copy = CUpti_ActivityMemcpy6;
using CopyBetweenDevices = CUpti_ActivityMemcpyPtoP4;
using Set = CUpti_ActivityMemset4;
using Synchronization = CUpti_ActivitySynchronization2;
static_assert(SynchronizationWork::kNotApplicable == CUPTI_SYNCHRONIZATION_INVALID_VALUE);

// The one that CUPTI's buffer callbacks mean, which have no argument for it.
constinit std::atomic<DeviceTracer*> g_device{nullptr};

// Launches, graph launches, copies and memsets, in all their versions; not the host functions. And what waits for them.
DriverUse UseOfDriver(std::string_view function) {
  if (function.starts_with("cuLaunchHostFunc")) return DriverUse::kNone;
  if (function.starts_with("cuStreamSynchronize") || function.starts_with("cuEventSynchronize") ||
      function.starts_with("cuCtxSynchronize")) {
    return DriverUse::kWait;
  }
  if (function.starts_with("cuStreamWaitEvent") || function.starts_with("cuCtxWaitEvent")) return DriverUse::kOrder;
  const bool makes_work = function.starts_with("cuLaunch") || function.starts_with("cuGraphLaunch") ||
                          function.starts_with("cuMemcpy") || function.starts_with("cuMemset");
  return makes_work ? DriverUse::kWork : DriverUse::kNone;
}

// What calls of one library have in common: the kernel, and for want of one the function and the line of Python.
uint64_t KeyOf(CUpti_CallbackId function, const CUpti_CallbackData& call, uint32_t site) {
  const void* kernel = nullptr;
  if (call.functionParams != nullptr) {
    if (function == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel || function == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz) {
      kernel = static_cast<const cuLaunchKernel_params*>(call.functionParams)->f;
    } else if (function == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx ||
               function == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz) {
      kernel = static_cast<const cuLaunchKernelEx_params*>(call.functionParams)->f;
    }
  }
  return kernel != nullptr ? reinterpret_cast<uint64_t>(kernel) : function | uint64_t{site} << 32;
}

template <typename Record>
DeviceWork WorkOf(const Record& record, uint64_t base_ns) {
  return {.start_ns = record.start - base_ns,
          .end_ns = record.end - base_ns,
          .device = record.deviceId,
          .context = record.contextId,
          .stream = record.streamId,
          .correlation = record.correlationId,
          .graph_node = record.graphNodeId,
          .graph = record.graphId};
}

// Another client's callback and what it wants with it.
struct Client {
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
};

// All that there ever were, each once: CUPTI may be calling.
class Clients {
 public:
  // nullptr: no memory.
  Client* Find(CUpti_CallbackFunc callback, void* user) {
    const std::lock_guard guard(mutex_);
    Entry** at = &first_;
    for (; *at != nullptr; at = &(*at)->next) {
      if ((*at)->client.callback == callback && (*at)->client.user == user) return &(*at)->client;
    }
    *at = new (std::nothrow) Entry{.client = {.callback = callback, .user = user}};
    return *at != nullptr ? &(*at)->client : nullptr;
  }

 private:
  struct Entry {
    Client client;
    Entry* next = nullptr;
  };
  std::mutex mutex_;
  Entry* first_ = nullptr;
};
constinit Clients g_clients;

// In a call's correlationData, which CUPTI keeps from its beginning to its end.
constexpr uint64_t kOurCall = 0x736c6970'64657666;

constinit thread_local bool t_in_cupti = false;

// The lock, and the mark by which calls of CUPTI are told from other clients'.
class Control {
 public:
  explicit Control(std::mutex* mutex) : guard_(*mutex) { t_in_cupti = true; }
  ~Control() { t_in_cupti = false; }
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

 private:
  const std::lock_guard<std::mutex> guard_;
};

std::string Said(const char* what, CUptiResult result) {
  return std::string(what) + " returned " + std::to_string(static_cast<int>(result));
}

}  // namespace

struct DeviceCallbacks {
  static void CUPTIAPI OnRequest(uint8_t** buffer, size_t* size, size_t* most_records) {
    DeviceTracer* const device = g_device.load(std::memory_order_acquire);
    *buffer = !DeviceTracer::IsForkedChild() ? device->buffers_.Take() : nullptr;
    *size = *buffer != nullptr ? DeviceBuffers::kBytes : 0;
    *most_records = 0;
  }
  static void CUPTIAPI OnComplete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
    DeviceTracer* const device = g_device.load(std::memory_order_acquire);
    if (buffer == nullptr || DeviceTracer::IsForkedChild()) return;
    if (!device->buffers_.Has(buffer)) {
      // That of a client whose place this was, and who did not wait for it.
      const CuptiBufferCallbacks theirs = g_cupti_clients.callbacks();
      if (theirs.complete != nullptr) theirs.complete(context, stream, buffer, size, valid);
      return;
    }
    device->Deliver(buffer, valid);
    device->CountDropped(context, stream);
    device->buffers_.Give(buffer, valid);
  }
  static void OnLibrary(void* self, uint32_t number, std::string_view path) {
    static_cast<DeviceTracer*>(self)->records_.AddName(NameTable::kLibraries, number, path);
  }
  static void CUPTIAPI OnCall(void* self, CUpti_CallbackDomain, CUpti_CallbackId function, const void* data) {
    const auto* const call = static_cast<const CUpti_CallbackData*>(data);
    auto* const device = static_cast<DeviceTracer*>(self);
    CallRecorder& calls = device->calls_;
    if (call->callbackSite == CUPTI_API_ENTER) {
      if (const auto* const caller = calls.EnterDriver(call->correlationId, device->UseOf(function))) {
        CallRecorder::CalledBy(device->libraries_.Of(KeyOf(function, *call, caller->site)));
      }
    } else {
      const auto* const result = static_cast<const int32_t*>(call->functionReturnValue);
      calls.LeaveDriver(static_cast<uint16_t>(function), call->correlationId, result != nullptr ? *result : 0);
    }
  }
  // In the place of a client's, which has asked for none of the driver's functions while slipstream borrows. A call
  // that began then bears a mark, and ends as slipstream's whatever has happened since.
  static void CUPTIAPI OnSharedCall(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId function,
                                    const void* data) {
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
      const auto* const call = static_cast<const CUpti_CallbackData*>(data);
      DeviceTracer* const device = g_device.load(std::memory_order_acquire);
      const bool begins = call->callbackSite == CUPTI_API_ENTER;
      const bool began = !begins && *call->correlationData == kOurCall;
      const bool ours = device->borrows_.load(std::memory_order_acquire);
      if (ours || began) {
        *call->correlationData = begins ? kOurCall : 0;
        return OnCall(device, domain, function, data);
      }
    }
    const Client& client = *static_cast<const Client*>(user);
    client.callback(client.user, domain, function, data);
  }
  // As CUPTI's was when it was first read.
  static uint64_t CUPTIAPI OwnClock() { return NowNs() + g_device.load(std::memory_order_acquire)->base_ns_; }
};

DeviceTracer::DeviceTracer(CallRecorder* calls, const DeviceWindow& window)
    : calls_(*calls),
      pid_(getpid()),
      window_(window),
      start_ns_(NowNs()),
      cupti_(std::make_unique<CuptiFunctions>()),
      libraries_(DeviceCallbacks::OnLibrary, this) {}

DeviceTracer* DeviceTracer::Start(CallRecorder* calls, const DeviceWindow& window, const std::string& runtime,
                                  std::string* problem) {
  // Leaked where it fails: that is once in a process, and nobody has to think about what may still refer to it.
  auto* const device = new DeviceTracer(calls, window);
  if (!device->cupti_->Find(runtime, problem)) return nullptr;
  g_device.store(device, std::memory_order_release);
  device->buffers_.Prepare();
  device->ListFunctions();
  {
    const Control control(&device->control_);
    device->ReadClock(DeviceReading::kBetween);
    // Somebody was here first, or it is not time yet: then later.
    const bool now = window.Has(device->start_ns_, NowNs()) && !g_cupti_clients.present();
    if (now && !device->Enter(problem)) return nullptr;
  }
  device->records_.Say("deviceWork", "cupti " + std::to_string(device->cupti_->version) + " " + device->cupti_->path);
  calls->SetDevice(&device->records_);
  if (!device->StartThread()) {
    const Control control(&device->control_);
    if (device->state_ == State::kActive) device->Leave();
    *problem = "no thread for it";
    return nullptr;
  }
  return device;
}

bool DeviceTracer::StartThread() { return policy::StartHelperThread("slipstream-dev", ThreadMain, this); }

// By CUPTI's own list, so that functions of a newer driver are in it.
void DeviceTracer::ListFunctions() {
  for (uint32_t id = 1; id < kFunctions; ++id) {
    const char* name = nullptr;
    if (cupti_->get_callback_name(CUPTI_CB_DOMAIN_DRIVER_API, id, &name) != CUPTI_SUCCESS || name == nullptr) continue;
    const DriverUse use = UseOfDriver(name);
    if (use == DriverUse::kNone) continue;
    uses_[id] = use;
    functions_.push_back(id);
    records_.AddName(NameTable::kDriverFunctions, id, name);
  }
}

bool DeviceTracer::Enter(std::string* problem) {
  CUpti_SubscriberHandle subscriber = g_cupti_clients.shared();
  const bool borrows = subscriber != nullptr;
  const CUptiResult subscribed =
      borrows ? CUPTI_SUCCESS : cupti_->subscribe(&subscriber, DeviceCallbacks::OnCall, this);
  if (subscribed != CUPTI_SUCCESS) {
    *problem = subscribed == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED ? "another profiler has subscribed to CUPTI"
                                                                            : Said("cuptiSubscribe", subscribed);
    return false;
  }
  subscriber_ = subscriber;
  state_ = State::kActive;
  borrows_.store(borrows, std::memory_order_release);
  Listen(true);
  CUptiResult result = CUPTI_SUCCESS;
  const char* what = "cuptiActivityRegisterTimestampCallback";
  // Another client's clock tells times that mean nothing here, and nobody can ask for CUPTI's own again.
  if (g_cupti_clients.clock() != nullptr) {
    result = cupti_->register_clock(DeviceCallbacks::OwnClock);
    own_clock_ = result == CUPTI_SUCCESS;
  }
  if (result == CUPTI_SUCCESS) {
    PromiseZeros();
    result = cupti_->register_callbacks(DeviceCallbacks::OnRequest, DeviceCallbacks::OnComplete);
    what = "cuptiActivityRegisterCallbacks";
  }
  for (size_t i = 0; i < std::size(kKinds) && result == CUPTI_SUCCESS; ++i) {
    result = cupti_->enable(kKinds[i]);
    what = "cuptiActivityEnable";
  }
  if (result == CUPTI_SUCCESS) {
    ReadClock(DeviceReading::kBegins);
    return true;
  }
  *problem = Said(what, result);
  Leave();
  return false;
}

// Else CUPTI zeroes each buffer itself, inside a launch of the program's.
void DeviceTracer::PromiseZeros() {
  uint8_t promised = 1;
  size_t size = sizeof promised;
  const CUptiResult asked = cupti_->get_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &promised);
  if (asked != CUPTI_SUCCESS || promised != 0) return;
  promised = 1;
  promises_zeros_ =
      cupti_->set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &promised) == CUPTI_SUCCESS;
}

// Another client's buffers are zero only if that client said so.
void DeviceTracer::TakeBackPromise() {
  if (!promises_zeros_) return;
  promises_zeros_ = false;
  uint8_t promised = 0;
  size_t size = sizeof promised;
  cupti_->set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &promised);
}

void DeviceTracer::Listen(bool on) {
  for (const uint32_t function : functions_) {
    cupti_->enable_callback(on ? 1 : 0, static_cast<CUpti_SubscriberHandle>(subscriber_), CUPTI_CB_DOMAIN_DRIVER_API,
                            function);
  }
}

// In this order: no new buffer is asked for, those that are out come back, and then the places are free.
void DeviceTracer::Leave() {
  const bool borrows = borrows_.load(std::memory_order_relaxed);
  for (const CUpti_ActivityKind kind : kKinds) cupti_->disable(kind);
  if (borrows) Listen(false);
  cupti_->flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  CountDropped(nullptr, 0);
  TakeBackPromise();
  if (!borrows) cupti_->unsubscribe(static_cast<CUpti_SubscriberHandle>(subscriber_));
  borrows_.store(false, std::memory_order_release);
  subscriber_ = nullptr;
  state_ = State::kAside;
  // A client that registered once, and enables what it wants now and then, finds its places as it left them.
  const CuptiBufferCallbacks theirs = g_cupti_clients.callbacks();
  if (theirs.complete != nullptr) cupti_->register_callbacks(theirs.request, theirs.complete);
  const CUpti_TimestampCallbackFunc clock = g_cupti_clients.clock();
  if (clock != nullptr && own_clock_) cupti_->register_clock(clock);
  own_clock_ = false;
}

bool DeviceTracer::Share(CUpti_CallbackFunc* callback, void** user) {
  DeviceTracer* const device = g_device.load(std::memory_order_acquire);
  if (device == nullptr || getpid() != device->pid_ || *callback == nullptr) return false;
  Client* const client = g_clients.Find(*callback, *user);
  if (client == nullptr) return false;
  *callback = DeviceCallbacks::OnSharedCall;
  *user = client;
  return true;
}

void DeviceTracer::StepAside() {
  DeviceTracer* const device = g_device.load(std::memory_order_acquire);
  if (device == nullptr || getpid() != device->pid_) return;
  const Control control(&device->control_);
  if (device->state_ != State::kActive) return;
  device->ReadClock(DeviceReading::kEnds);
  device->Leave();
}

bool DeviceTracer::IsInCupti() { return t_in_cupti; }

bool DeviceTracer::IsForkedChild() {
  const DeviceTracer* const device = g_device.load(std::memory_order_acquire);
  return device != nullptr && getpid() != device->pid_;
}

// Whoever is interrupted in between makes the other clock look later than it is: the narrowest of a few.
void DeviceTracer::ReadClock(DeviceReading reading) {
  if (own_clock_) {
    const uint64_t now = NowNs();
    records_.AddReading(DeviceClockRecord(now, now, now + base_ns_, base_ns_, reading));
    return;
  }
  constexpr int kTries = 5;
  uint64_t narrowest = UINT64_MAX;
  uint64_t before = 0;
  uint64_t after = 0;
  uint64_t device = 0;
  for (int i = 0; i < kTries; ++i) {
    uint64_t now = 0;
    const uint64_t start = NowNs();
    if (cupti_->get_timestamp(&now) != CUPTI_SUCCESS) return;
    const uint64_t end = NowNs();
    if (end - start >= narrowest) continue;
    narrowest = end - start;
    before = start;
    after = end;
    device = now;
  }
  if (!has_base_) base_ns_ = device - (before + (after - before) / 2);
  has_base_ = true;
  records_.AddReading(DeviceClockRecord(before, after, device, base_ns_, reading));
}

void DeviceTracer::Deliver(uint8_t* buffer, size_t valid) {
  std::array<ActivityRecord, 128> some;
  size_t count = 0;
  CUpti_Activity* next = nullptr;
  CUptiResult result = CUPTI_SUCCESS;
  while ((result = cupti_->get_next_record(buffer, valid, &next)) == CUPTI_SUCCESS) {
    const void* const record = next;
    ActivityRecord& to = some[count];
    switch (next->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& kernel = *static_cast<const Kernel*>(record);
        const auto number = [](int32_t value) { return static_cast<uint32_t>(value); };
        to = RecordOf(KernelWork{.work = WorkOf(kernel, base_ns_),
                                 .name = records_.KernelName(kernel.name),
                                 .grid = {number(kernel.gridX), number(kernel.gridY), number(kernel.gridZ)},
                                 .block = {number(kernel.blockX), number(kernel.blockY), number(kernel.blockZ)},
                                 .registers = kernel.registersPerThread,
                                 .static_shared_bytes = number(kernel.staticSharedMemory),
                                 .dynamic_shared_bytes = number(kernel.dynamicSharedMemory)});
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& copy = *static_cast<const Copy*>(record);
        to = RecordOf(CopyWork{.work = WorkOf(copy, base_ns_),
                               .bytes = copy.bytes,
                               .kind = copy.copyKind,
                               .from = copy.srcKind,
                               .to = copy.dstKind});
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY2: {
        const auto& copy = *static_cast<const CopyBetweenDevices*>(record);
        to = RecordOf(CopyWork{.work = WorkOf(copy, base_ns_),
                               .bytes = copy.bytes,
                               .kind = copy.copyKind,
                               .from = copy.srcKind,
                               .to = copy.dstKind,
                               .from_device = static_cast<int32_t>(copy.srcDeviceId),
                               .to_device = static_cast<int32_t>(copy.dstDeviceId)});
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& set = *static_cast<const Set*>(record);
        to = RecordOf(SetWork{.work = WorkOf(set, base_ns_),
                              .bytes = set.bytes,
                              .value = set.value,
                              .memory = static_cast<uint8_t>(set.memoryKind)});
        break;
      }
      // No device and no graph: CUPTI has neither.
      case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: {
        const auto& wait = *static_cast<const Synchronization*>(record);
        to = RecordOf(SynchronizationWork{.work = {.start_ns = wait.start - base_ns_,
                                                   .end_ns = wait.end - base_ns_,
                                                   .device = static_cast<uint32_t>(-1),
                                                   .context = wait.contextId,
                                                   .stream = wait.streamId,
                                                   .correlation = wait.correlationId},
                                          .type = static_cast<uint8_t>(wait.type),
                                          .event = wait.cudaEventId});
        break;
      }
      default:
        continue;
    }
    // Fetched before it was done: when that was is not known.
    if (to.end_ns + base_ns_ == 0 || to.start_ns + base_ns_ == 0) {
      records_.Dropped(1);
      continue;
    }
    if (++count == some.size()) {
      records_.Add(some);
      count = 0;
    }
  }
  if (count != 0) records_.Add({some.data(), count});
  // A record that this CUPTI cannot tell the length of; nobody knows how many lie behind it.
  if (result != CUPTI_ERROR_MAX_LIMIT_REACHED) records_.Dropped(1);
}

// Of a stream, or of the process where there is none. CUPTI then begins to count anew.
void DeviceTracer::CountDropped(CUcontext context, uint32_t stream) {
  size_t dropped = 0;
  if (cupti_->get_dropped_records(context, stream, &dropped) == CUPTI_SUCCESS && dropped != 0) {
    records_.Dropped(dropped);
  }
}

void* DeviceTracer::ThreadMain(void* self) {
  auto* const device = static_cast<DeviceTracer*>(self);
  try {
    device->Work();
  } catch (...) {
    device->End();  // no memory
  }
  return nullptr;
}

void DeviceTracer::End() {
  {
    const std::lock_guard guard(control_);
    state_ = State::kEnded;
  }
  ended_.store(1, std::memory_order_release);
  FutexWake(ended_);
}

void DeviceTracer::Work() {
  bool last = false;
  while (!last) {
    const uint32_t seen = wake_.load(std::memory_order_acquire);
    last = finish_.load(std::memory_order_acquire) != 0;
    if (!last) {
      FutexWait(wake_, seen, window_.Wait(start_ns_, NowNs(), kPeriodNs));
      last = finish_.load(std::memory_order_acquire) != 0;
    }
    const Control control(&control_);
    const bool wanted = window_.Has(start_ns_, NowNs()) && !calls_.pauses_devices();
    if (state_ == State::kAside && wanted && !last && !g_cupti_clients.present()) {
      std::string ignored;  // tried again
      Enter(&ignored);
    }
    if (state_ != State::kActive) continue;
    const bool ends = last || !wanted;
    ReadClock(ends ? DeviceReading::kEnds : DeviceReading::kBetween);
    if (ends) {
      Leave();
    } else {
      cupti_->flush_all(0);
      CountDropped(nullptr, 0);  // where no buffer comes back that it could be asked with
    }
  }
  End();
}

void DeviceTracer::Finish(uint64_t timeout_ns) {
  if (getpid() != pid_) return;
  finish_.store(1, std::memory_order_release);
  wake_.fetch_add(1, std::memory_order_release);
  FutexWake(wake_);
  const uint64_t start = NowNs();
  while (ended_.load(std::memory_order_acquire) == 0) {
    const uint64_t waited = NowNs() - start;
    if (waited >= timeout_ns) return;
    FutexWait(ended_, 0, timeout_ns - waited);
  }
}

}  // namespace slipstream::tracer
