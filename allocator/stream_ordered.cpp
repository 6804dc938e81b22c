#include "allocator/stream_ordered.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "allocator/device_use.h"
#include "cuda/sharded.h"
#include "cuda/stream_ref.h"

namespace slipstream::allocator {
namespace {

StreamName NameOfDefault(CUstream stream) {
  if (stream != CU_STREAM_PER_THREAD) return {.stream = stream, .id = 0};
  return {.stream = stream, .id = cuda::ThreadNumber()};
}

Decision DecisionOf(Source source) {
  switch (source) {
    case Source::kReused:
      return Decision::kStreamReused;
    case Source::kGrown:
      return Decision::kStreamGrown;
    case Source::kMoved:
      return Decision::kStreamMoved;
    case Source::kBehind:
      return Decision::kStreamBehind;
    case Source::kWaited:
      return Decision::kStreamWaited;
  }
  return Decision::kStreamReused;
}

bool IsDefault(CUstream stream) { return stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD; }

}  // namespace

StreamOrdered::StreamOrdered(const policy::Allocator& policy, cuda::Ledger& ledger, const Reports& reports)
    : policy_(policy),
      ledger_(ledger),
      reports_(reports),
      trimmer_("slipstream-trim", std::chrono::seconds(policy.decay),
               {.pool = this,
                .trim = [](void* self) { static_cast<StreamOrdered*>(self)->Decay(); },
                .idle = [](void* self) { return static_cast<StreamOrdered*>(self)->AnythingIdle(); }}) {}

void StreamOrdered::Stop() {
  stopped_.store(true, std::memory_order_release);
  trimmer_.Stop();
}

// ---- whose heap

StreamOrdered::Found StreamOrdered::Find(CUstream stream) {
  CUcontext context = nullptr;
  if (IsDefault(stream)) {
    if (driver_.cuCtxGetCurrent(&context) != CUDA_SUCCESS) return {};
    return {.context = context, .name = NameOfDefault(stream)};
  }
  KnownStreams::Facts facts;
  if (streams_.Find(stream, &facts)) return {.context = facts.context, .name = {.stream = stream, .id = facts.id}};
  unsigned long long id = 0;  // NOLINT(google-runtime-int): the driver's type
  if (driver_.cuStreamGetCtx(stream, &context) != CUDA_SUCCESS || driver_.cuStreamGetId(stream, &id) != CUDA_SUCCESS) {
    return {};
  }
  return {.context = context, .name = {.stream = stream, .id = Broken(Mutant::kS38Destroy) ? 0 : id}};
}

void StreamOrdered::StreamBegins(cudaStream_t stream) {
  if (!Alive() || stream == nullptr || !contexts_.Find()) return;
  streams_.Remove(stream);  // which may have ended unseen
  if (const Found found = Find(stream); found.context != nullptr) {
    streams_.Add(stream, {.context = found.context, .id = found.name.id});
  }
}

StreamHeap* StreamOrdered::HeapOfContext(CUcontext context) {
  if (context == nullptr) return nullptr;
  for (int device = 0; device < contexts_.device_count(); ++device) {
    StreamHeap* const heap = devices_[device].heap.load(std::memory_order_acquire);
    if (heap != nullptr && heap->context() == context) return heap;
  }
  CUdevice device = 0;
  const cuda::InContext in(driver_, context);
  return contexts_.Current(&device) == context ? MakeHeap(device, context) : nullptr;
}

StreamHeap* StreamOrdered::MakeHeap(CUdevice device, CUcontext context) {
  Device& place = devices_[device];
  if (place.refused.load(std::memory_order_relaxed)) return nullptr;
  StreamHeap* old = place.heap.load(std::memory_order_acquire);
  if (old != nullptr) return nullptr;  // of a context before a reset that left memory behind
  size_t free = 0;
  size_t total = 0;
  CUmemoryPool pool = nullptr;
  auto* const made = driver_.cuMemGetInfo(&free, &total) == CUDA_SUCCESS &&
                             driver_.cuDeviceGetDefaultMemPool(&pool, device) == CUDA_SUCCESS
                         ? new (std::nothrow) StreamHeap(driver_, ledger_, device, context, total)
                         : nullptr;
  if (made == nullptr) return nullptr;
  if (!made->Init()) {
    place.refused.store(true, std::memory_order_relaxed);
    (void)made->Clear();
    delete made;
    return nullptr;
  }
  place.pool.store(pool, std::memory_order_release);
  // S33: before anybody has memory of it; and again, for what was opened meanwhile and found no heap.
  OpenToPeers(*made, pool);
  if (place.heap.compare_exchange_strong(old, made, std::memory_order_seq_cst)) {
    OpenToPeers(*made, pool);
    ledger_.MapsItself(device, made->range());
    return made;
  }
  (void)made->Clear();
  delete made;
  return old->context() == context ? old : nullptr;
}

// To whom the device's own pool is open, or all of its memory.
void StreamOrdered::OpenToPeers(StreamHeap& heap, CUmemoryPool pool) {
  for (CUdevice device = 0; device < contexts_.device_count(); ++device) {
    if (device == heap.device()) continue;
    CUmemLocation location = {};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device;
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    const bool open =
        driver_.cuMemPoolGetAccess(&flags, pool, &location) == CUDA_SUCCESS && flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    const uint64_t peers = devices_[heap.device()].peers.load(std::memory_order_seq_cst);
    if (open || (peers >> device & 1) != 0) (void)heap.Open(device);
  }
}

// That of the calling thread's context, if there is one.
StreamHeap* StreamOrdered::HeapOfThread() {
  CUcontext context = nullptr;
  if (!Alive() || !contexts_.there() || driver_.cuCtxGetCurrent(&context) != CUDA_SUCCESS) return nullptr;
  for (int device = 0; context != nullptr && device < contexts_.device_count(); ++device) {
    StreamHeap* const heap = devices_[device].heap.load(std::memory_order_acquire);
    if (heap != nullptr && heap->context() == context) return heap;
  }
  return nullptr;
}

StreamHeap* StreamOrdered::HeapOfAddress(CUdeviceptr address) {
  for (int device = 0; device < contexts_.device_count(); ++device) {
    StreamHeap* const heap = devices_[device].heap.load(std::memory_order_acquire);
    if (heap != nullptr && heap->Owns(address)) return heap;
  }
  return nullptr;
}

// Unsure is yes. Nothing is asked while no capture is live: a question about the legacy stream could break one.
bool StreamOrdered::Capturing(CUstream stream, bool unless_known) {
  if (!ledger_.CaptureLive() || Broken(Mutant::kS37)) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver_.cuStreamIsCapturing(stream, &status);
  // The legacy stream, which may not be used while another one is being captured (cuda.h).
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
  return result == CUDA_SUCCESS ? status != CU_STREAM_CAPTURE_STATUS_NONE : unless_known;
}

// ---- allocations and frees

void* StreamOrdered::Take(size_t bytes, cudaStream_t stream, bool per_thread, cudaMemPool_t pool) {
  if (!Alive()) return nullptr;
  if (!contexts_.Find()) {
    if (contexts_.driver_is_old()) Count(Decision::kStreamPassedDriver, bytes);
    return nullptr;
  }
  const CUstream handle = cuda::Explicit(stream, per_thread);
  Decision how = Decision::kStreamPassedCapture;
  CUdeviceptr address = 0;
  if (!Capturing(handle, true)) {
    const Found found = Find(handle);
    StreamHeap* const heap = HeapOfContext(found.context);
    how = Decision::kStreamPassedContext;
    if (heap != nullptr && !contexts_.others()) {
      const Device& device = devices_[heap->device()];
      const bool ours = pool == nullptr ? !device.other_pool.load(std::memory_order_relaxed)
                                        : pool == device.pool.load(std::memory_order_relaxed);
      how = Decision::kStreamPassedPool;
      if (ours) {
        Source source = Source::kReused;
        address = heap->Allocate(found.name, bytes, &source);
        how = address != 0 ? DecisionOf(source) : Decision::kStreamPassedMemory;
        if (how != Decision::kStreamReused) Report(*heap);
      }
    }
  }
  Count(how, bytes);
  return reinterpret_cast<void*>(address);
}

bool StreamOrdered::GiveTo(void* memory, cudaStream_t stream, bool per_thread) {
  if (!contexts_.there()) return false;
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  StreamHeap* const heap = HeapOfAddress(address);
  if (heap == nullptr) return false;
  if (!Alive()) return true;  // the process is exiting, and its memory with it
  const CUstream handle = cuda::Explicit(stream, per_thread);
  // Which the driver refuses: the memory is not the graph's. Where it does not say, it knows nothing of the memory.
  if (Capturing(handle, false)) return false;
  size_t bytes = 0;
  bool freed = false;
  const Found found = Find(handle);
  if (found.context == heap->context()) {
    freed = heap->Free(address, found.name, &bytes);
  } else if (found.context != nullptr) {
    // A stream of another device, which no fence of this one's context is behind.
    const cuda::InContext in(driver_, found.context);
    freed = driver_.cuStreamSynchronize(handle) == CUDA_SUCCESS && heap->FreeDone(address, &bytes);
  }
  if (!freed) return false;
  Count(Decision::kStreamFreed, bytes);
  if (trimmer_.Start()) trimmer_.MemoryIsIdle();
  return true;
}

bool StreamOrdered::GiveBehindAll(void* memory) {
  if (!contexts_.there()) return false;
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  StreamHeap* const heap = HeapOfAddress(address);
  if (heap == nullptr) return false;
  if (!Alive()) return true;
  {
    // As the program's own call would, under its captures too.
    const cuda::InContext in(driver_, heap->context(), cuda::UnderCapture::kAsTheProgram);
    if (driver_.cuCtxSynchronize() != CUDA_SUCCESS && !heap->WaitForAll()) return false;
  }
  size_t bytes = 0;
  if (!heap->FreeDone(address, &bytes)) return false;
  Count(Decision::kStreamFreed, bytes);
  if (trimmer_.Start()) trimmer_.MemoryIsIdle();
  return true;
}

void StreamOrdered::Report(StreamHeap& heap) {
  const HeapFigures figures = heap.Figures();
  PoolFigures told = {.live_bytes = figures.used, .idle_bytes = figures.reserved - figures.used};
  // Its idle pieces can be put together (kMoved): the largest says nothing.
  if (Alive() && reports_.wants_more(heap.device())) {
    told.device_used = AskDeviceUse(driver_, ledger_, heap.context());
  }
  reports_.holds(heap.device(), told);
}

void StreamOrdered::StreamEnds(cudaStream_t stream) {
  if (!Alive() || !contexts_.there() || stream == nullptr || IsDefault(stream)) return;
  const Found found = Find(stream);
  streams_.Remove(stream);
  if (found.context == nullptr) return;
  for (int device = 0; device < contexts_.device_count(); ++device) {
    if (StreamHeap* const heap = devices_[device].heap.load(std::memory_order_acquire)) heap->StreamEnds(found.name);
  }
}

bool StreamOrdered::GiveBack() {
  if (!Alive() || !contexts_.there() || Broken(Mutant::kS36Others) || Broken(Mutant::kS36)) return false;
  CUcontext context = nullptr;
  const bool known = driver_.cuCtxGetCurrent(&context) == CUDA_SUCCESS;
  bool any = false;
  for (int device = 0; device < contexts_.device_count(); ++device) {
    StreamHeap* const heap = devices_[device].heap.load(std::memory_order_acquire);
    // Where nobody says which device has run out, it may be any.
    if (heap != nullptr && (!known || heap->context() == context) && GiveBack(*heap)) any = true;
  }
  return any;
}

bool StreamOrdered::GiveBack(StreamHeap& heap) {
  bool waited = false;
  const size_t bytes = heap.TrimBehindAll(0, &waited);
  if (bytes != 0) Count(Decision::kStreamTrimmed, bytes);
  Report(heap);
  return bytes != 0;
}

void StreamOrdered::AddIdle(size_t* free, const size_t* total) {
  StreamHeap* const heap = HeapOfThread();
  if (free == nullptr || heap == nullptr || Broken(Mutant::kS32)) return;
  const HeapFigures figures = heap->Figures();
  const uint64_t kept = std::max(figures.used, devices_[heap->device()].threshold.load(std::memory_order_relaxed));
  const size_t idle = figures.reserved - std::min(figures.reserved, kept);
  const size_t most = total != nullptr ? *total : heap->total_bytes();
  *free = idle >= most - std::min(*free, most) ? most : *free + idle;
}

bool StreamOrdered::RangeOf(const void* address, void** begin, size_t* bytes) {
  if (!Alive() || !contexts_.there()) return false;
  StreamHeap* const heap = HeapOfAddress(reinterpret_cast<CUdeviceptr>(address));
  CUdeviceptr first = 0;
  if (heap == nullptr || !heap->RangeOf(reinterpret_cast<CUdeviceptr>(address), &first, bytes)) return false;
  *begin = reinterpret_cast<void*>(first);
  return true;
}

// ---- the default pool (S40)

// Null: no heap stands for it.
StreamOrdered::Device* StreamOrdered::DeviceOfPool(cudaMemPool_t pool) {
  if (!Alive() || !contexts_.there() || pool == nullptr || Broken(Mutant::kS40)) return nullptr;
  for (int device = 0; device < contexts_.device_count(); ++device) {
    Device& place = devices_[device];
    if (place.pool.load(std::memory_order_acquire) == pool && place.heap.load(std::memory_order_acquire) != nullptr) {
      return &place;
    }
  }
  return nullptr;
}

void StreamOrdered::AddAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  Device* const device = DeviceOfPool(pool);
  if (device == nullptr || value == nullptr) return;
  const HeapFigures figures = device->heap.load(std::memory_order_acquire)->Figures();
  auto* const bytes = static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case cudaMemPoolAttrUsedMemCurrent:
      *bytes += figures.used;
      break;
    case cudaMemPoolAttrUsedMemHigh:
      *bytes += figures.most_used;
      break;
    case cudaMemPoolAttrReservedMemCurrent:
      *bytes += figures.reserved;
      break;
    case cudaMemPoolAttrReservedMemHigh:
      *bytes += figures.most_reserved;
      break;
    default:
      break;
  }
}

void StreamOrdered::TakeAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, const void* value) {
  if (!Alive() || value == nullptr || !contexts_.Find()) return;
  Device* device = DeviceOfPool(pool);
  if (device == nullptr) {
    // PyTorch sets its pool up before it takes anything from it.
    CUcontext context = nullptr;
    if (driver_.cuCtxGetCurrent(&context) == CUDA_SUCCESS) (void)HeapOfContext(context);
    device = DeviceOfPool(pool);
  }
  if (device == nullptr) return;
  StreamHeap& heap = *device->heap.load(std::memory_order_acquire);
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      device->threshold.store(*static_cast<const cuuint64_t*>(value), std::memory_order_relaxed);
      break;
    case cudaMemPoolAttrUsedMemHigh:
      heap.ResetMostUsed();
      break;
    case cudaMemPoolAttrReservedMemHigh:
      heap.ResetMostReserved();
      break;
    default:
      break;
  }
}

void StreamOrdered::TrimOf(cudaMemPool_t pool, size_t keep_bytes) {
  Device* const device = DeviceOfPool(pool);
  if (device == nullptr) return;
  StreamHeap& heap = *device->heap.load(std::memory_order_acquire);
  const size_t bytes = heap.Trim(keep_bytes);
  if (bytes != 0) Count(Decision::kStreamTrimmed, bytes);
  Report(heap);
}

cudaError_t StreamOrdered::OpenAs(cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t count) {
  Device* const device = DeviceOfPool(pool);
  if (device == nullptr) return cudaSuccess;
  StreamHeap& heap = *device->heap.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    // Access that is taken away stays open: the program said that it does not use it.
    if (access[i].location.type != cudaMemLocationTypeDevice || access[i].flags == cudaMemAccessFlagsProtNone) continue;
    const CUresult opened = heap.Open(access[i].location.id);
    if (opened != CUDA_SUCCESS) return static_cast<cudaError_t>(opened);
  }
  return cudaSuccess;
}

void StreamOrdered::PoolIsSet(int device, cudaMemPool_t pool) {
  if (!Alive() || !contexts_.Find() || device < 0 || device >= contexts_.device_count()) return;
  CUmemoryPool own = nullptr;
  const bool known = driver_.cuDeviceGetDefaultMemPool(&own, device) == CUDA_SUCCESS;
  devices_[device].other_pool.store(!known || own != pool, std::memory_order_relaxed);
}

void StreamOrdered::PeerEnabled(int peer) {
  if (!Alive() || !contexts_.Find() || peer < 0 || peer >= contexts_.device_count()) return;
  CUdevice device = 0;
  if (contexts_.Current(&device) == nullptr) return;
  devices_[peer].peers.fetch_or(uint64_t{1} << device, std::memory_order_seq_cst);
  StreamHeap* const heap = devices_[peer].heap.load(std::memory_order_seq_cst);
  if (heap != nullptr) (void)heap->Open(device);
}

// ---- the end of a context

StreamHeap* StreamOrdered::ForgetDevice(CUdevice device) {
  if (!Alive() || !contexts_.there() || device >= contexts_.device_count()) return nullptr;
  if (device == cuda::kCurrentDevice) {
    CUcontext context = nullptr;
    if (driver_.cuCtxGetCurrent(&context) != CUDA_SUCCESS) return nullptr;
    // A thread that has used no device resets the first.
    if (context == nullptr) device = 0;
    for (int other = 0; context != nullptr && other < contexts_.device_count(); ++other) {
      const StreamHeap* const heap = devices_[other].heap.load(std::memory_order_acquire);
      if (heap != nullptr && heap->context() == context) device = other;
    }
    if (device == cuda::kCurrentDevice) return nullptr;
  }
  contexts_.BeginReset(device);
  streams_.Clear();
  devices_[device].peers.store(0, std::memory_order_relaxed);
  return devices_[device].heap.exchange(nullptr, std::memory_order_acq_rel);
}

// Memory of this kind belongs to no context, and would outlive the device's.
void StreamOrdered::EndReset(StreamHeap* heap) {
  contexts_.EndReset(heap->device());
  ledger_.MapsItself(heap->device(), {});
  if (heap->Clear()) delete heap;
}

// ---- idle memory

// So much is not idle, or may be: what was wanted since the last time, and what the program has its pool keep; of the
// latter at most what the policy allows, and nothing where the driver is short of memory (S36b).
uint64_t StreamOrdered::Kept(int device, StreamHeap& heap, uint64_t wanted) const {
  const uint64_t threshold = devices_[device].threshold.load(std::memory_order_relaxed);
  if (threshold <= wanted) return wanted;
  size_t free = 0;
  size_t total = 0;
  const cuda::InContext in(driver_, heap.context());
  if (driver_.cuMemGetInfo(&free, &total) != CUDA_SUCCESS) return threshold;
  if (free < policy_.keep_free && !Broken(Mutant::kS36Reserve)) return wanted;
  const uint64_t most = policy_.max_idle != 0 ? policy_.max_idle : total / 4;
  return Broken(Mutant::kS36Cap) ? threshold : std::min(threshold, wanted + most);
}

void StreamOrdered::Decay() {
  if (!Alive()) return;
  for (int device = 0; device < contexts_.device_count(); ++device) {
    StreamHeap* const heap = devices_[device].heap.load(std::memory_order_acquire);
    if (heap == nullptr) continue;
    const uint64_t wanted = heap->UsedSinceLastAsked();
    if (heap->Figures().reserved <= wanted || Broken(Mutant::kS36Decay)) continue;
    const size_t bytes = heap->Trim(Kept(device, *heap, wanted));
    if (bytes == 0) continue;
    Count(Decision::kStreamTrimmed, bytes);
    Report(*heap);
  }
}

bool StreamOrdered::AnythingIdle() {
  for (int device = 0; device < contexts_.device_count(); ++device) {
    StreamHeap* const heap = devices_[device].heap.load(std::memory_order_acquire);
    if (heap == nullptr) continue;
    const HeapFigures figures = heap->Figures();
    if (figures.reserved > Kept(device, *heap, figures.used)) return true;
  }
  return false;
}

}  // namespace slipstream::allocator
