#include "tests/differential/executor.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/differential/driver_calls.h"
#include "tests/differential/kernels.h"
#include "tests/differential/pattern.h"
#include "tests/sim/simcuda.h"

namespace differential {
namespace {

constexpr size_t kPage = 4096;
constexpr int kDevices = 2;
constexpr cudaMemcpyKind kKinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice,
                                     cudaMemcpyHostToHost, cudaMemcpyDefault};

}  // namespace

// What Executor::Impl is made of, for which it is not in the anonymous namespace.

// A thread that does what it is told and says when it is done.
class Worker {
 public:
  Worker() : thread_([this] { Loop(); }) {}
  ~Worker() {
    Start({});
    thread_.join();
  }
  void Start(std::function<void()> work) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      work_ = std::move(work);
      busy_ = true;
    }
    changed_.notify_all();
  }
  void Finish() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
  }

 private:
  void Loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return busy_; });
      if (!work_) return;
      const std::function<void()> work = std::move(work_);
      lock.unlock();
      work();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool busy_ = false;
  std::thread thread_;  // last: it uses the others
};

struct Buffer {
  Kind made_as = Kind::kCount;  // kCount: not there
  unsigned char* address = nullptr;
  unsigned char* base = nullptr;  // host memory: what to free
  size_t bytes = 0;
  int flavor = 0;
  bool registered = false;
  bool alive() const { return made_as != Kind::kCount; }
  bool OnDevice() const { return made_as == Kind::kMalloc || made_as == Kind::kMallocAsync; }
};

// What a host function of the program does; a graph may do it again.
struct HostJob {
  unsigned char* address = nullptr;
  size_t bytes = 0;
  bool write = false;
  uint64_t value = 0;
  uint64_t hash = 0;
  size_t operation = 0;

  void Run(int status) {
    if (write) {
      FillPattern(address, bytes, value++);
      hash = Mixed(hash, value + static_cast<uint64_t>(status));
    } else {
      hash = Mixed(hash, HashOf(address, bytes) + static_cast<uint64_t>(status));
    }
  }
};

namespace {

void CUDART_CB OnHostFunction(void* job) { static_cast<HostJob*>(job)->Run(0); }
void CUDART_CB OnCallback(cudaStream_t, cudaError_t status, void* job) { static_cast<HostJob*>(job)->Run(status); }

}  // namespace

struct Executor::Impl {
  std::array<std::optional<Worker>, kMaxThreads - 1> workers;  // threads 1, 2...: of the program that runs
  const Program* program = nullptr;
  Observations* observations = nullptr;
  const std::function<void(const Op&)>* announce = nullptr;

  std::array<Buffer, kMaxBuffers> buffers;
  std::array<cudaStream_t, kMaxStreams> streams = {};
  std::array<cudaStream_t, kDevices> fresh = {};  // on which memory of a device gets its first value
  std::array<cudaEvent_t, kMaxEvents> events = {};
  std::array<cudaGraph_t, kMaxGraphs> graphs = {};
  std::array<cudaGraphExec_t, kMaxGraphs> execs = {};
  std::array<std::deque<HostJob>, kMaxThreads> jobs;  // of each thread that made them; they stay where they are

  Observations Run(const Program& wanted, uint64_t sim_offset, const std::function<void(const Op&)>& announcer);
  // Operations [first, last) on the calling thread, or, with `only` >= 0, those of that thread.
  void RunRange(size_t first, size_t last, int only);
  void InOrder();
  void Freely();
  void OnDevices();
  void OnThread(int thread, std::function<void()> work);
  void EndProgram();

  Observation Do(const Op& op, size_t index);
  cudaError_t Memory(const Op& op);
  cudaError_t StreamOrEvent(const Op& op);
  cudaError_t Copy(const Op& op);
  cudaError_t Launch(const Op& op);
  cudaError_t HostFunction(const Op& op, size_t index);
  cudaError_t GraphCall(const Op& op);
  cudaError_t Bad(const Op& op);
  cudaError_t MakePageable(const Op& op);
  static void FreeHostMemory(const Buffer& buffer);

  // Operations that name no object never look at what they get.
  template <typename Table>
  static auto* At(Table* table, int id) {
    return &(*table)[id < 0 ? 0 : static_cast<size_t>(id)];
  }
  // The first table entry may be what another thread makes at this moment.
  cudaEvent_t EventAt(int id) const { return id < 0 ? nullptr : events[static_cast<size_t>(id)]; }
  Buffer& BufferAt(int id) { return buffers[static_cast<size_t>(id)]; }
  unsigned char* Dst(const Op& op) { return BufferAt(op.dst).address + op.dst_offset; }
  unsigned char* Src(const Op& op) { return op.src < 0 ? nullptr : BufferAt(op.src).address + op.src_offset; }
  cudaStream_t StreamOf(const Op& op) const {
    if (op.stream == kThreadStream) return cudaStreamPerThread;
    if (op.stream == kLegacyHandle) return cudaStreamLegacy;
    return op.stream <= kLegacyStream ? nullptr : streams[static_cast<size_t>(op.stream)];
  }
};

uint64_t Observations::Digest() const {
  uint64_t digest = operations.size();
  const auto add = [&digest](const Observation& observation) {
    digest = Mixed(digest, static_cast<uint64_t>(observation.status) * 2 + (observation.read ? 1 : 0));
    digest = Mixed(digest, observation.hash);
  };
  for (const Observation& observation : operations) add(observation);
  for (const Final& last : finals) add(last.observation);
  return digest;
}

Executor::Executor() : impl_(std::make_unique<Impl>()) {
  RegisterKernels();
  (void)cudaFree(nullptr);
  (void)cudaStreamCreateWithFlags(&impl_->fresh[0], cudaStreamNonBlocking);
}
Executor::~Executor() = default;

Observations Executor::Run(const Program& program, uint64_t sim_offset,
                           const std::function<void(const Op&)>& announce) {
  return impl_->Run(program, sim_offset, announce);
}

Observations Executor::Impl::Run(const Program& wanted, uint64_t sim_offset,
                                 const std::function<void(const Op&)>& announcer) {
  Observations result;
  result.operations.resize(wanted.ops.size());
  program = &wanted;
  observations = &result;
  announce = &announcer;
  simSetSeed(wanted.sim_seed + sim_offset);
  (void)cudaGetLastError();
  for (int thread = 1; thread < wanted.threads; ++thread) {
    workers[static_cast<size_t>(thread) - 1].emplace();
    // What does not come through the runtime finds a context only on threads that have one.
    OnThread(thread, [] { (void)cudaFree(nullptr); });
  }
  if (wanted.family == Family::kFree) {
    Freely();
  } else if (wanted.family == Family::kDevices) {
    OnDevices();
  } else {
    InOrder();
  }
  EndProgram();
  for (std::optional<Worker>& worker : workers) worker.reset();
  return result;
}

void Executor::Impl::OnThread(int thread, std::function<void()> work) {
  if (thread == 0) {
    work();
    return;
  }
  Worker& worker = *workers[static_cast<size_t>(thread) - 1];
  worker.Start(std::move(work));
  worker.Finish();
}

void Executor::Impl::RunRange(size_t first, size_t last, int only) {
  for (size_t i = first; i < last; ++i) {
    const Op& op = program->ops[i];
    if (only >= 0 && op.thread != only) continue;
    if (*announce) (*announce)(op);
    observations->operations[i] = Do(op, i);
  }
}

void Executor::Impl::InOrder() {
  const std::vector<Op>& ops = program->ops;
  for (size_t first = 0; first < ops.size();) {
    size_t last = first + 1;
    while (last < ops.size() && ops[last].thread == ops[first].thread) ++last;
    OnThread(ops[first].thread, [this, first, last] { RunRange(first, last, -1); });
    first = last;
  }
}

void Executor::Impl::Freely() {
  const size_t count = program->ops.size();
  for (int thread = 1; thread < program->threads; ++thread) {
    workers[static_cast<size_t>(thread) - 1]->Start([this, count, thread] { RunRange(0, count, thread); });
  }
  RunRange(0, count, 0);
  for (int thread = 1; thread < program->threads; ++thread) workers[static_cast<size_t>(thread) - 1]->Finish();
}

// A second device comes into use here and not before: what is allowed with one is explored with one.
void Executor::Impl::OnDevices() {
  const size_t count = program->ops.size();
  if (fresh[1] == nullptr) {
    (void)cudaSetDevice(1);
    (void)cudaStreamCreateWithFlags(&fresh[1], cudaStreamNonBlocking);
  }
  if (program->sim_seed % 2 == 0) {
    (void)cudaSetDevice(0);
    workers[0]->Start([this, count] {
      (void)cudaSetDevice(1);
      RunRange(0, count, 1);
    });
    RunRange(0, count, 0);
    workers[0]->Finish();
    return;
  }
  std::array<size_t, kDevices> next = {};
  const auto advance = [&](int thread) {
    size_t& at = next[static_cast<size_t>(thread)];
    while (at < count && program->ops[at].thread != thread) ++at;
    if (at == count) return false;
    (void)cudaSetDevice(thread);
    RunRange(at, at + 1, thread);
    ++at;
    return true;
  };
  while (advance(0) | advance(1)) {
  }
}

Observation Executor::Impl::Do(const Op& op, size_t index) {
  Observation seen;
  switch (op.kind) {
    case Kind::kStreamCreate:
    case Kind::kStreamDestroy:
    case Kind::kStreamSync:
    case Kind::kStreamQuery:
    case Kind::kStreamWait:
    case Kind::kEventCreate:
    case Kind::kEventDestroy:
    case Kind::kEventRecord:
    case Kind::kEventSync:
    case Kind::kEventQuery:
    case Kind::kElapsed:
    case Kind::kDeviceSync:
      seen.status = StreamOrEvent(op);
      break;
    case Kind::kCopyAsync:
    case Kind::kCopy:
    case Kind::kCopy2DAsync:
    case Kind::kCopy2D:
    case Kind::kMemsetAsync:
    case Kind::kMemset:
      seen.status = Copy(op);
      break;
    case Kind::kKernel:
    case Kind::kUnseenKernel:
      seen.status = Launch(op);
      break;
    case Kind::kHostFunction:
      seen.status = HostFunction(op, index);
      break;
    case Kind::kWrite:
      FillPattern(Dst(op), op.bytes, op.value);
      break;
    case Kind::kRead:
      seen.hash = HashOf(Dst(op), op.bytes);
      seen.read = true;
      break;
    case Kind::kBeginCapture:
    case Kind::kEndCapture:
    case Kind::kInstantiate:
    case Kind::kUpdate:
    case Kind::kLaunch:
    case Kind::kGraphDestroy:
    case Kind::kExecDestroy:
      seen.status = GraphCall(op);
      break;
    case Kind::kLastError:
      seen.status = cudaGetLastError();
      break;
    case Kind::kPeekError:
      seen.status = cudaPeekAtLastError();
      break;
    case Kind::kBad:
      seen.status = Bad(op);
      break;
    case Kind::kPointerType: {
      cudaPointerAttributes attributes = {};
      seen.status = cudaPointerGetAttributes(&attributes, Dst(op));
      seen.hash = static_cast<uint64_t>(attributes.type);
      seen.read = true;
      break;
    }
    default:
      seen.status = Memory(op);
      break;
  }
  return seen;
}

cudaError_t Executor::Impl::MakePageable(const Op& op) {
  Buffer& buffer = BufferAt(op.dst);
  if (op.flavor == kHeap) {
    buffer.base = static_cast<unsigned char*>(std::malloc(op.bytes + op.dst_offset));
  } else {
    void* mapped = mmap(nullptr, op.bytes + op.dst_offset, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    buffer.base = mapped == MAP_FAILED ? nullptr : static_cast<unsigned char*>(mapped);
  }
  if (buffer.base == nullptr) return cudaErrorMemoryAllocation;
  buffer.address = buffer.base + op.dst_offset;
  buffer.bytes = op.bytes;
  FillPattern(buffer.address, op.bytes, op.value);
  if (op.flavor == kReadOnly) mprotect(buffer.base, (op.bytes + op.dst_offset + kPage - 1) / kPage * kPage, PROT_READ);
  return cudaSuccess;
}

void Executor::Impl::FreeHostMemory(const Buffer& buffer) {
  if (buffer.flavor == kHeap) {
    std::free(buffer.base);
  } else {
    munmap(buffer.base, static_cast<size_t>(buffer.address - buffer.base) + buffer.bytes);
  }
}

cudaError_t Executor::Impl::Memory(const Op& op) {
  Buffer& buffer = BufferAt(op.dst);
  void* made = nullptr;
  cudaError_t status = cudaSuccess;
  const auto keep = [&](size_t fill) {
    if (status != cudaSuccess) return;
    buffer = {op.kind, static_cast<unsigned char*>(made), nullptr, op.bytes, op.flavor, false};
    // The value that fresh memory has is nobody's promise.
    if (fill != 0) FillPattern(made, fill, op.value);
  };
  // The same for memory of the device, which a free before may still have work pending on: nothing but work of the
  // device comes behind that.
  const auto keep_device = [&] {
    keep(0);
    if (status != cudaSuccess || op.bytes == 0) return;
    int device = 0;
    (void)cudaGetDevice(&device);
    const cudaStream_t stream = fresh[static_cast<size_t>(device)];
    const cudaError_t filled = LaunchKernel(kFill, true, made, nullptr, op.bytes, op.value, stream);
    if (filled == cudaSuccess) (void)simSynchronizeUnseen(stream);
  };
  switch (op.kind) {
    case Kind::kMalloc:
      status = op.door != kRuntime ? ByDriver(op, {.made = &made}) : cudaMalloc(&made, op.bytes);
      keep_device();
      return status;
    case Kind::kMallocAsync:
      status = op.door != kRuntime ? ByDriver(op, {.stream = StreamOf(op), .made = &made})
                                   : cudaMallocAsync(&made, op.bytes, StreamOf(op));
      keep(0);
      return status;
    case Kind::kPinned: {
      constexpr unsigned kFlags[] = {cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocWriteCombined};
      status = op.door != kRuntime ? ByDriver(op, {.made = &made}) : cudaHostAlloc(&made, op.bytes, kFlags[op.flavor]);
      keep(op.bytes);
      return status;
    }
    case Kind::kManaged:
      status = cudaMallocManaged(&made, op.bytes, cudaMemAttachGlobal);
      keep(op.bytes);
      return status;
    case Kind::kPageable:
      buffer = {};
      status = MakePageable(op);
      if (status == cudaSuccess) {
        buffer.made_as = op.kind;
        buffer.flavor = op.flavor;
      }
      return status;
    case Kind::kFree:
      status = op.door != kRuntime ? ByDriver(op, {.dst = buffer.address}) : cudaFree(buffer.address);
      break;
    case Kind::kFreeAsync:
      status = op.door != kRuntime ? ByDriver(op, {.dst = buffer.address, .stream = StreamOf(op)})
                                   : cudaFreeAsync(buffer.address, StreamOf(op));
      break;
    case Kind::kFreeHost:
      status = op.door != kRuntime ? ByDriver(op, {.dst = buffer.address}) : cudaFreeHost(buffer.address);
      break;
    case Kind::kDrop:
      FreeHostMemory(buffer);
      break;
    case Kind::kRegister:
      if (op.door != kRuntime) {
        Op whole = op;
        whole.bytes = buffer.bytes;
        status = ByDriver(whole, {.dst = buffer.address});
      } else {
        status = cudaHostRegister(buffer.address, buffer.bytes, cudaHostRegisterDefault);
      }
      buffer.registered = status == cudaSuccess;
      return status;
    case Kind::kUnregister:
      status = op.door != kRuntime ? ByDriver(op, {.dst = buffer.address}) : cudaHostUnregister(buffer.address);
      buffer.registered = buffer.registered && status != cudaSuccess;
      return status;
    case Kind::kDevicePointer:
      status = cudaHostGetDevicePointer(&made, buffer.address, 0);
      return status;
    default:
      return cudaErrorUnknown;
  }
  if (status == cudaSuccess) buffer = {};
  return status;
}

cudaError_t Executor::Impl::StreamOrEvent(const Op& op) {
  cudaStream_t* const stream = At(&streams, op.stream);
  cudaEvent_t* const event = At(&events, op.event);
  if (op.door != kRuntime) {
    const cudaError_t status =
        ByDriver(op, {.stream = StreamOf(op), .event = EventAt(op.event), .end_event = EventAt(op.end_event)});
    if (op.kind == Kind::kStreamDestroy) *stream = nullptr;
    if (op.kind == Kind::kEventDestroy) *event = nullptr;
    return status;
  }
  switch (op.kind) {
    case Kind::kStreamCreate:
      return cudaStreamCreateWithFlags(stream, op.flavor == kBlocking ? cudaStreamDefault : cudaStreamNonBlocking);
    case Kind::kStreamDestroy: {
      const cudaError_t status = cudaStreamDestroy(*stream);
      *stream = nullptr;
      return status;
    }
    case Kind::kStreamSync:
      return cudaStreamSynchronize(StreamOf(op));
    case Kind::kStreamQuery:
      return cudaStreamQuery(StreamOf(op));
    case Kind::kStreamWait:
      return cudaStreamWaitEvent(StreamOf(op), *event, 0);
    case Kind::kEventCreate:
      return cudaEventCreateWithFlags(event, op.flavor == kTiming ? cudaEventDefault : cudaEventDisableTiming);
    case Kind::kEventDestroy: {
      const cudaError_t status = cudaEventDestroy(*event);
      *event = nullptr;
      return status;
    }
    case Kind::kEventRecord:
      return cudaEventRecord(*event, StreamOf(op));
    case Kind::kEventSync:
      return cudaEventSynchronize(*event);
    case Kind::kEventQuery:
      return cudaEventQuery(*event);
    case Kind::kElapsed: {
      float ms = 0;
      return cudaEventElapsedTime(&ms, *event, events[static_cast<size_t>(op.end_event)]);
    }
    default:
      return cudaDeviceSynchronize();
  }
}

cudaError_t Executor::Impl::Copy(const Op& op) {
  if (op.door != kRuntime) return ByDriver(op, {.dst = Dst(op), .src = Src(op), .stream = StreamOf(op)});
  switch (op.kind) {
    case Kind::kCopyAsync:
      return cudaMemcpyAsync(Dst(op), Src(op), op.bytes, kKinds[op.flavor], StreamOf(op));
    case Kind::kCopy:
      return cudaMemcpy(Dst(op), Src(op), op.bytes, kKinds[op.flavor]);
    case Kind::kCopy2DAsync:
      return cudaMemcpy2DAsync(Dst(op), op.dst_pitch, Src(op), op.src_pitch, op.bytes, op.rows, kKinds[op.flavor],
                               StreamOf(op));
    case Kind::kCopy2D:
      return cudaMemcpy2D(Dst(op), op.dst_pitch, Src(op), op.src_pitch, op.bytes, op.rows, kKinds[op.flavor]);
    case Kind::kMemsetAsync:
      return cudaMemsetAsync(Dst(op), static_cast<int>(op.value & 255), op.bytes, StreamOf(op));
    default:
      return cudaMemset(Dst(op), static_cast<int>(op.value & 255), op.bytes);
  }
}

cudaError_t Executor::Impl::Launch(const Op& op) {
  void* dst = Dst(op);
  const void* src = Src(op);
  if (op.door == kRuntime) {
    return LaunchKernel(op.flavor, op.kind == Kind::kUnseenKernel, dst, src, op.bytes, op.value, StreamOf(op));
  }
  size_t bytes = op.bytes;
  uint64_t value = op.value;
  void* arguments[] = {&dst, &src, &bytes, &value};
  return ByDriver(op, {.stream = StreamOf(op), .kernel = KernelOf(op.flavor), .arguments = arguments});
}

cudaError_t Executor::Impl::HostFunction(const Op& op, size_t index) {
  auto& mine = jobs[static_cast<size_t>(op.thread)];
  const bool write = op.flavor == kHostWrite || op.flavor == kCallbackWrite;
  mine.push_back({Dst(op), op.bytes, write, op.value, 0, index});
  if (op.door != kRuntime) {
    return ByDriver(op, {.stream = StreamOf(op), .function = &OnHostFunction, .user_data = &mine.back()});
  }
  if (op.flavor == kHostRead || op.flavor == kHostWrite) {
    return cudaLaunchHostFunc(StreamOf(op), &OnHostFunction, &mine.back());
  }
  return cudaStreamAddCallback(StreamOf(op), &OnCallback, &mine.back(), 0);
}

cudaError_t Executor::Impl::GraphCall(const Op& op) {
  cudaGraph_t* const graph = At(&graphs, op.graph);
  cudaGraphExec_t* const exec = At(&execs, op.exec);
  switch (op.kind) {
    case Kind::kBeginCapture: {
      constexpr cudaStreamCaptureMode kModes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                                  cudaStreamCaptureModeRelaxed};
      return cudaStreamBeginCapture(StreamOf(op), kModes[op.flavor]);
    }
    case Kind::kEndCapture:
      return cudaStreamEndCapture(StreamOf(op), graph);
    case Kind::kInstantiate:
      return cudaGraphInstantiate(exec, *graph, 0);
    case Kind::kUpdate: {
      cudaGraphExecUpdateResultInfo info = {};
      return cudaGraphExecUpdate(*exec, *graph, &info);
    }
    case Kind::kLaunch:
      if (op.door != kRuntime) return ByDriver(op, {.stream = StreamOf(op), .exec = *exec});
      return cudaGraphLaunch(*exec, StreamOf(op));
    case Kind::kGraphDestroy: {
      const cudaError_t status = cudaGraphDestroy(*graph);
      *graph = nullptr;
      return status;
    }
    default: {
      const cudaError_t status = op.door != kRuntime ? ByDriver(op, {.exec = *exec}) : cudaGraphExecDestroy(*exec);
      *exec = nullptr;
      return status;
    }
  }
}

cudaError_t Executor::Impl::Bad(const Op& op) {
  const cudaStream_t stream = StreamOf(op);
  // Nobody's: a number that no handle has.
  unsigned char nothing[64] = {};
  const auto no_stream = reinterpret_cast<cudaStream_t>(&nothing);
  const auto no_event = reinterpret_cast<cudaEvent_t>(&nothing);
  const size_t dst_bytes = op.dst >= 0 ? BufferAt(op.dst).bytes : 0;
  const size_t src_bytes = op.src >= 0 ? BufferAt(op.src).bytes : 0;
  const size_t both = std::min(dst_bytes, src_bytes);
  switch (op.flavor) {
    case kBadKind:
      return cudaMemcpyAsync(Dst(op), Src(op), both, static_cast<cudaMemcpyKind>(7), stream);
    case kBadNull:
      return cudaMemcpyAsync(nullptr, Src(op), src_bytes, cudaMemcpyHostToDevice, stream);
    case kBadPastDestination:
      return cudaMemcpyAsync(Dst(op) + dst_bytes - both + 1, Src(op), both, cudaMemcpyHostToDevice, stream);
    case kBadPastSource:
      return cudaMemcpyAsync(Dst(op), Src(op) + src_bytes - both + 1, both, cudaMemcpyDeviceToHost, stream);
    case kBadStreamCopy:
      return cudaMemcpyAsync(Dst(op), Src(op), both, cudaMemcpyHostToDevice, no_stream);
    case kBadStreamSync:
      return cudaStreamSynchronize(no_stream);
    case kBadPageableSet:
      return cudaMemsetAsync(Dst(op), 1, dst_bytes, stream);
    case kBadEventQuery:
      return cudaEventQuery(no_event);
    case kBadFree:
      return cudaFree(Dst(op) + 1);
    case kBadBlockingKind:
      return cudaMemcpy(Dst(op), Src(op), both, static_cast<cudaMemcpyKind>(9));
    case kBadLaunch:
    case kBadFunction:
      return LaunchBadly(op.flavor == kBadFunction, stream);
    default:
      return cudaMemcpyAsync(Dst(op), Src(op), 0, cudaMemcpyHostToDevice, stream);
  }
}

// Waits for everything, looks at what is there, and frees it.
void Executor::Impl::EndProgram() {
  const auto add = [this](std::string what, Observation observation) {
    observations->finals.push_back({std::move(what), observation});
  };
  if (program->family == Family::kDevices) {
    (void)cudaSetDevice(1);
    add("device_sync.1", {static_cast<int>(cudaDeviceSynchronize()), 0, false});
    (void)cudaSetDevice(0);
  }
  add("device_sync", {static_cast<int>(cudaDeviceSynchronize()), 0, false});
  for (auto& mine : jobs) {
    for (const HostJob& job : mine) {
      observations->operations[job.operation].hash = job.hash;
      observations->operations[job.operation].read = true;
    }
  }
  for (size_t id = 0; id < buffers.size(); ++id) {
    const Buffer& buffer = buffers[id];
    if (!buffer.alive()) continue;
    // Not by a copy: a copy can repair what is late.
    const void* bytes = buffer.OnDevice() ? simDevicePointer(buffer.address, buffer.bytes) : buffer.address;
    add("b" + std::to_string(id), {0, bytes != nullptr ? HashOf(bytes, buffer.bytes) : 0, true});
  }
  int status = 0;
  const auto also = [&status](cudaError_t result) { status = status != 0 ? status : static_cast<int>(result); };
  for (cudaGraphExec_t& exec : execs) {
    if (exec != nullptr) also(cudaGraphExecDestroy(exec));
    exec = nullptr;
  }
  for (cudaGraph_t& graph : graphs) {
    if (graph != nullptr) also(cudaGraphDestroy(graph));
    graph = nullptr;
  }
  for (cudaEvent_t& event : events) {
    if (event != nullptr) also(cudaEventDestroy(event));
    event = nullptr;
  }
  for (cudaStream_t& stream : streams) {
    if (stream != nullptr) also(cudaStreamDestroy(stream));
    stream = nullptr;
  }
  for (Buffer& buffer : buffers) {
    if (!buffer.alive()) continue;
    if (buffer.registered) also(cudaHostUnregister(buffer.address));
    if (buffer.made_as == Kind::kPageable) {
      FreeHostMemory(buffer);
    } else if (buffer.made_as == Kind::kPinned) {
      also(cudaFreeHost(buffer.address));
    } else {
      also(cudaFree(buffer.address));
    }
    buffer = {};
  }
  for (auto& mine : jobs) mine.clear();
  add("clean_up", {status, 0, false});
}

}  // namespace differential
