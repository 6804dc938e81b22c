// How the ledger begins and ends, and what is in flight.

#include "cuda/ledger.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "cuda/primary_context.h"
#include "policy/log.h"

namespace slipstream::cuda {
namespace {

bool HasAttribute(const Driver& driver, CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  return driver.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

bool IsPrimary(const Driver& driver, CUdevice device, CUcontext context) {
  return context != nullptr && ActivePrimary(driver, device) == context;
}

const char* TextOf(Off why) {
  switch (why) {
    case Off::kNot:
      return "";
    case Off::kError:
      return "a driver call failed, or memory ran out";
    case Off::kContext:
      return "the context is not a device's primary one";
    case Off::kDriver:
      return "the driver has no events of a whole context (CUDA 12.5)";
    case Off::kSystemMemory:
      return "the device reaches ordinary host memory by itself";
    case Off::kNoPinning:
      return "the device lets no host memory be registered";
  }
  return "";
}

}  // namespace

constinit thread_local Ledger::OfThread Ledger::t_mine;

Ledger::Ledger(const Options& options) : options_(options), process_(getpid()) {
  has_thread_key_ = pthread_key_create(&thread_key_, ThreadEnds) == 0;
}

// ---- beginning and end

bool Ledger::DriverThere() {
  if (driver_there_.load(std::memory_order_acquire)) return true;
  // Nobody waits: the loader's lock is taken below, and a thread that holds it, in a constructor that calls CUDA, may
  // be here too.
  const std::unique_lock lock(begin_mutex_, std::try_to_lock);
  if (!lock) return driver_there_.load(std::memory_order_acquire);
  if (!driver_there_.load(std::memory_order_relaxed)) {
    driver_there_.store(LoadDriver(&driver_), std::memory_order_release);
  }
  return driver_there_.load(std::memory_order_relaxed);
}

void Ledger::TurnOff(Off why) {
  off_.store(why, std::memory_order_relaxed);
  phase_.store(Phase::kOff, std::memory_order_seq_cst);
}

Off Ledger::WhyNotDevice(CUdevice device) {
  const bool ats = HasAttribute(driver_, device, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
  const bool hmm = HasAttribute(driver_, device, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  if (hmm) device_reads_pageable_.store(true, std::memory_order_release);
  const bool reached = ats || (hmm && options_.hmm_is_system_memory);
  if (reached && !Broken(Mutant::kS02)) return Off::kSystemMemory;
  return HasAttribute(driver_, device, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) ? Off::kNot : Off::kNoPinning;
}

bool Ledger::CanFollow(CUcontext context, Off* why_not) {
  *why_not = Off::kContext;
  if (driver_.cuCtxGetDevice(&first_.device) != CUDA_SUCCESS || !IsPrimary(driver_, first_.device, context))
    return false;
  if (driver_.cuDeviceGetCount(&device_count_) != CUDA_SUCCESS) return false;

  *why_not = Off::kDriver;
  if (!HasContextEvents(driver_)) return false;

  *why_not = WhyNotDevice(first_.device);
  return *why_not == Off::kNot;
}

void Ledger::BeginIfPossible() {
  if (!DriverThere()) return;
  const std::unique_lock lock(begin_mutex_, std::try_to_lock);
  if (!lock || !Unbegun()) return;
  const RelaxedCapture relaxed(driver_);
  CUcontext context = nullptr;
  if (driver_.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return;
  Off why_not = Off::kError;
  if (!CanFollow(context, &why_not)) {
    policy::LogInfo(std::string("stands aside: ") + TextOf(why_not));
    TurnOff(why_not);
    return;
  }
  if (options_.begins != nullptr && !told_ && !options_.begins()) {
    TurnOff(Off::kError);
    return;
  }
  told_ = true;
  first_.context = context;
  // From here on every hook tells of its effects on host memory; what was submitted before is behind one fence that
  // stands for all of it, on a stream that is nobody's.
  phase_.store(Phase::kBeginning, std::memory_order_seq_cst);
  FenceRef before;
  if (!captures_.Without([&] { before = fences_.RecordContext(context); })) {
    phase_.store(Phase::kUnbegun, std::memory_order_seq_cst);  // a capture is live: with the next question
    return;
  }
  if (!before) {
    TurnOff(Off::kError);
    return;
  }
  effects_.Add(StreamKey(), 0, HostEffectKind::kWrite, AddressRange::All(), std::move(before));
  AddEffectsOfOtherContexts(context);
  Phase beginning = Phase::kBeginning;  // unless the device was reset meanwhile
  phase_.compare_exchange_strong(beginning, Phase::kServing, std::memory_order_seq_cst);
}

void Ledger::StandAside() {
  SecondContext();  // a wait that is being deferred meanwhile is settled too
  TurnOff(Off::kContext);
}

bool Ledger::DeviceReset(int device) {
  const Phase before = phase();
  TurnOff(Off::kContext);
  // It has had no fence that anybody will ask about.
  if (before == Phase::kUnbegun || before == Phase::kBeginning || first_.context == nullptr) return false;
  CUdevice current = device;
  // A thread that has made no call yet has the first device (CUDA runtime API, cudaGetDevice).
  if (device < 0 && driver_.cuCtxGetDevice(&current) != CUDA_SUCCESS) current = 0;
  if (current == first_.device) {
    fences_.Abandon(first_.context);
    // Nothing is owed any more. Else whoever settles next would make the context current that is gone.
    OrTurnOff([this] { (void)run_ahead_.Open(); });
    return true;
  }
  if (static_cast<size_t>(current) < others_.size()) {
    fences_.Abandon(others_[static_cast<size_t>(current)].load(std::memory_order_acquire));
  }
  return false;
}

// ---- threads, streams and contexts

bool Ledger::ServesCurrent(Served* current) {
  CUcontext context = nullptr;
  if (driver_.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return false;
  *current = {context, first_.device};
  if (context == first_.context) return true;
  const auto known = std::find(others_.begin(), others_.end(), context);
  if (known != others_.end()) {
    current->device = static_cast<CUdevice>(known - others_.begin());
    return true;
  }
  CUdevice& device = current->device;
  if (driver_.cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= static_cast<int>(others_.size())) {
    return false;
  }
  // One of the program's own making, perhaps on the first device: no hold of the primary one reaches its work.
  if (!IsPrimary(driver_, device, context)) {
    if (!several_contexts_.load(std::memory_order_relaxed) && !Broken(Mutant::kS12Contexts)) SecondContext();
    return false;
  }
  if (WhyNotDevice(device) != Off::kNot) return false;
  others_[static_cast<size_t>(device)].store(context, std::memory_order_release);
  return true;
}

bool Ledger::SeveralContexts() {
  if (Broken(Mutant::kS12Contexts)) return false;
  if (several_contexts_.load(std::memory_order_acquire)) return true;
  for (int device = 0; device < device_count_; ++device) {
    if (device == first_.device) continue;
    unsigned flags = 0;
    int active = 1;
    if (driver_.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active == 0) continue;
    SecondContext();
    return true;
  }
  return false;
}

// Work of another context is not held behind what is deferred here: all of it is settled, and none is made again. Who
// is just deferring and did not see the flag is seen here, or sees it when the debt is entered.
void Ledger::SecondContext() {
  several_contexts_.store(true, std::memory_order_seq_cst);
  SettleForAll(Before::kSynchronization);
}

void Ledger::UsesDevice(int device) {
  if (!Serving() || device == first_.device || several_contexts_.load(std::memory_order_relaxed)) return;
  if (!Broken(Mutant::kS12Contexts)) SecondContext();
}

void Ledger::StreamDestroyed(cudaStream_t stream) {
  const CUstream handle = Explicit(stream, false);
  effects_.Retire(handle);
  run_ahead_.Retire(handle);
  marks_.Retire(handle);
  for (Deferred& deferred : DeferredHere()) {
    if (deferred.stream.handle == handle) deferred.stream = {};
  }
}

// ---- effects on host memory

// What the other devices were given so far may do, each behind a fence of its own; one that cannot be fenced counts as
// unfinished for good.
void Ledger::AddEffectsOfOtherContexts(CUcontext known) {
  for (CUdevice device = 0; device < device_count_; ++device) {
    unsigned flags = 0;
    int active = 0;
    if (driver_.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active == 0) continue;
    FenceRef before;
    CUcontext context = nullptr;
    if (driver_.cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS) {
      if (context == known) {
        driver_.cuDevicePrimaryCtxRelease(device);
        continue;
      }
      captures_.Without([&] { before = fences_.RecordContext(context); });
      driver_.cuDevicePrimaryCtxRelease(device);
    }
    const uint64_t nobody = NextNumber();  // or one would replace another
    effects_.Add(StreamKey(), nobody, HostEffectKind::kWrite, AddressRange::All(), std::move(before));
  }
}

void Ledger::HostEffect(HostEffectKind kind, const AddressRange& range, cudaStream_t stream, bool per_thread) {
  if (!Tracking()) return;
  OrTurnOff([&] {
    const CUstream handle = Explicit(stream, per_thread);
    const uint64_t thread = ThreadId();
    const RelaxedCapture relaxed(driver_);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (driver_.cuStreamIsCapturing(handle, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE) {
      return;  // it went into a graph, which is looked at when it is instantiated
    }
    CUcontext context = nullptr;
    FenceRef fence;
    if (driver_.cuStreamGetCtx(handle, &context) == CUDA_SUCCESS) fence = fences_.Record(context, handle);
    effects_.Add(KeyOf(handle, thread), thread, kind, range, std::move(fence));
    watch_.Recorded(Broken(Mutant::kAsleepSoon) ? 2 : EffectWatch::kIdleAfter);
  });
}

void Ledger::HostEffectAnywhere() {
  if (!Tracking()) return;
  OrTurnOff([&] {
    const RelaxedCapture relaxed(driver_);
    CUcontext context = nullptr;
    FenceRef fence;
    // During a capture nobody can say when it is over: then it never is.
    if (driver_.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr) {
      captures_.Without([&] { fence = fences_.RecordContext(context); });
    }
    effects_.Add(StreamKey(), ThreadId(), HostEffectKind::kWrite, AddressRange::All(), std::move(fence));
    AddEffectsOfOtherContexts(context);
  });
}

void Ledger::Touches(const Touched& touched, cudaStream_t stream, bool per_thread) {
  if (!Tracking()) return;
  const auto kind_of = [this](const void* memory, size_t span) {
    return memory == nullptr || span == 0 ? MemoryKind::kDevice : KindOfOrPinned(memory);
  };
  const MemoryKind destination = kind_of(touched.destination, touched.destination_span);
  const MemoryKind source = kind_of(touched.source, touched.source_span);
  // Pageable memory is done with when the call returns, as a destination and as a source; so is a copy from host to
  // host (CUDA runtime API, API synchronization behavior). A fence of ours behind such a call would be the only work of
  // an idle stream, and a query would see it.
  const auto lasts = [](MemoryKind kind) { return kind != MemoryKind::kDevice && kind != MemoryKind::kPageable; };
  const auto on_host = [](MemoryKind kind) { return kind == MemoryKind::kHost || kind == MemoryKind::kPageable; };
  if (on_host(destination) && on_host(source)) return;
  if (destination == MemoryKind::kPageable) return;
  if (lasts(destination)) {
    HostEffect(HostEffectKind::kWrite, AddressRange::Of(touched.destination, touched.destination_span), stream,
               per_thread);
  }
  if (lasts(source)) {
    HostEffect(HostEffectKind::kRead, AddressRange::Of(touched.source, touched.source_span), stream, per_thread);
  }
}

uint64_t Ledger::AskForEffects() {
  const uint64_t ticket = watch_.Ticket();
  if (ticket != 0) return ticket;
  const bool awake = watch_.Wake([this] {
    const RelaxedCapture relaxed(driver_);
    FenceRef before;
    if (!captures_.Without([&] { before = fences_.RecordContext(first_.context); }) || !before) return false;
    if (!Broken(Mutant::kS10Asleep)) {
      effects_.Add(StreamKey(), 0, HostEffectKind::kWrite, AddressRange::All(), std::move(before));
      AddEffectsOfOtherContexts(first_.context);
    }
    return true;
  });
  return awake ? watch_.Ticket() : 0;
}

bool Ledger::MayBeWritten(const AddressRange& range) {
  const uint64_t ticket = AskForEffects();
  return (effects_.MayWrite(HostEffectKind::kHostCode, range) && !Broken(Mutant::kS03)) ||
         (effects_.MayWrite(HostEffectKind::kWrite, range) && !Broken(Mutant::kS04)) || !watch_.IsValid(ticket);
}

bool Ledger::EffectsOnlyOn(const StreamKey& stream, std::vector<FenceRef>* fences) {
  const uint64_t ticket = AskForEffects();
  if (Broken(Mutant::kS10Other)) {
    effects_.On(stream, fences);
  } else if (!effects_.OnlyOn(stream, fences)) {
    return false;
  }
  return watch_.IsValid(ticket);
}

bool Ledger::WaitForHostEffects(CUcontext context) {
  if (Unbegun()) BeginIfPossible();
  if (!Serving() || MemoryIsMapped() || shared_work_.load(std::memory_order_acquire)) return false;
  try {
    std::vector<FenceRef> effects;
    const uint64_t ticket = AskForEffects();
    if (!effects_.All(context, &effects) || !watch_.IsValid(ticket)) return false;
    if (effects.empty()) return true;
    const RelaxedCapture relaxed(driver_);
    for (const FenceRef& effect : effects) {
      if (effect.Wait() != CUDA_SUCCESS) return false;
    }
    return true;
  } catch (...) {
    return false;
  }
}

// ---- captures and graphs

void Ledger::CaptureMayHaveEnded(cudaStream_t stream, bool per_thread) {
  // A table of its own: a question that is not asked leaves the capture open for good, and another thread may be at
  // filling in ours.
  Driver driver;
  if (!captures_.live() || !LoadDriver(&driver)) return;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  const RelaxedCapture relaxed(driver);
  if (driver.cuStreamIsCapturing(Explicit(stream, per_thread), &status) != CUDA_SUCCESS) return;  // unsure = live
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) captures_.Ended(KeyOfStream(stream, per_thread));
}

void Ledger::GraphInstantiated(cudaGraphExec_t executable, cudaGraph_t graph) {
  if (!DriverThere()) return;
  OrTurnOff([&] { graphs_.Instantiated(driver_, executable, graph); });
}

void Ledger::GraphLaunched(cudaGraphExec_t executable, cudaStream_t stream, bool per_thread) {
  if (!Tracking() || graphs_.IsHarmless(executable)) return;
  HostEffect(HostEffectKind::kWrite, AddressRange::All(), stream, per_thread);
}

// ---- memory

void Ledger::HostRegistered(const void* address, size_t bytes, bool mapped) {
  OrTurnOff([&] { registered_.Add(AddressRange::Of(address, bytes)); });
  pinned_life_.fetch_add(1, std::memory_order_release);  // a thread may have asked about the page since the call
  if (mapped) UsesMappedMemory();
}

bool Ledger::WasPinned(const void* address) {
  const Kept* const kept = KeptHere::Find();
  const uintptr_t page = PinnedPages::PageOf(address);
  return kept != nullptr && kept->pinned.life == pinned_life_.load(std::memory_order_acquire) &&
         kept->pinned.pages[PinnedPages::PlaceOf(page)] == page;
}

MemoryKind Ledger::KindOfOrPinned(const void* address) {
  if (WasPinned(address)) return MemoryKind::kHost;
  const uint64_t life = pinned_life_.load(std::memory_order_acquire);  // before the question
  const MemoryKind kind = KindOf(driver_, address);
  if (kind != MemoryKind::kHost) return kind;
  Kept* const kept = KeptHere::Get();
  if (kept == nullptr) return kind;
  PinnedPages& pinned = kept->pinned;
  if (pinned.life != life) {
    pinned.life = life;
    std::fill(std::begin(pinned.pages), std::end(pinned.pages), 0);
  }
  const uintptr_t page = PinnedPages::PageOf(address);
  const uintptr_t begin = page * PinnedPages::kPageBytes;
  if (registered_.OverlapInPart({begin, begin + PinnedPages::kPageBytes})) return kind;
  pinned.pages[PinnedPages::PlaceOf(page)] = page;
  return kind;
}

void Ledger::AdvisesMemory(const void* address) {
  if (!DriverThere() || KindOf(driver_, address) == MemoryKind::kPageable)
    system_memory_.store(true, std::memory_order_release);
}

void Ledger::TellOfTransport() {
  if (!options_.heeds_transports || transports_.name()[0] == '\0' || transport_told_.exchange(true)) return;
  const std::string text =
      std::string(transports_.name()) + " may let others read device memory, so every wait is made";
  policy::LogInfo(text);
  if (options_.explain != nullptr) options_.explain("transport", text.c_str());
}

}  // namespace slipstream::cuda
