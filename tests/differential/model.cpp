#include "tests/differential/model.h"

#include <algorithm>

namespace differential {
namespace {

constexpr size_t kMaxSteps = 24;

bool IsWork(Kind kind) {
  switch (kind) {
    case Kind::kCopyAsync:
    case Kind::kCopy2DAsync:
    case Kind::kMemsetAsync:
    case Kind::kKernel:
    case Kind::kUnseenKernel:
    case Kind::kHostFunction:
    case Kind::kEventRecord:
    case Kind::kStreamWait:
      return true;
    default:
      return false;
  }
}

// Calls that CUDA forbids during a capture in global mode (of anybody) or thread-local mode (of the same thread).
bool IsUnsafe(Kind kind) {
  switch (kind) {
    case Kind::kMalloc:
    case Kind::kMallocAsync:
    case Kind::kFree:
    case Kind::kFreeAsync:
    case Kind::kPinned:
    case Kind::kFreeHost:
    case Kind::kRegister:
    case Kind::kUnregister:
    case Kind::kManaged:
    case Kind::kDevicePointer:
    case Kind::kStreamSync:
    case Kind::kStreamQuery:
    case Kind::kEventSync:
    case Kind::kEventQuery:
    case Kind::kElapsed:
    case Kind::kCopy:
    case Kind::kCopy2D:
    case Kind::kMemset:
    case Kind::kInstantiate:
    case Kind::kUpdate:
    case Kind::kExecDestroy:
    case Kind::kGraphDestroy:
    case Kind::kLaunch:
      return true;
    default:
      return false;
  }
}

bool UsesLegacy(const Op& op) {
  return op.stream == kLegacyStream || op.stream == kLegacyHandle || op.kind == Kind::kCopy ||
         op.kind == Kind::kCopy2D || op.kind == Kind::kMemset;
}

}  // namespace

Model::Model(Family family) : family_(family) {
  streams_[kLegacyStream].alive = streams_[kLegacyStream].blocking = true;
  for (Stream& stream : thread_streams_) stream.alive = stream.blocking = true;
}

Verdict Model::Invalid(const char* why) {
  why_ = why;
  return Verdict::kInvalid;
}

const Model::Stream* Model::FindStream(int id, int thread) const {
  if (id == kThreadStream) return &thread_streams_[static_cast<size_t>(thread)];
  if (id == kLegacyHandle) id = kLegacyStream;
  return &streams_[static_cast<size_t>(id)];
}
Model::Stream* Model::FindStream(int id, int thread) {
  return const_cast<Stream*>(static_cast<const Model*>(this)->FindStream(id, thread));
}

Nodes Model::Fronts(const Stream& stream) const {
  Nodes before = stream.front;
  if (IsLegacy(stream)) {
    for (const Stream& other : streams_) {
      if (other.alive && other.blocking) before |= other.front;
    }
    for (const Stream& other : thread_streams_) before |= other.front;
  } else if (stream.blocking) {
    before |= streams_[kLegacyStream].front;
  }
  return before;
}

Nodes Model::Before(const Stream& stream) const { return Fronts(stream) | done_; }

Nodes Model::Awaited(const Stream& stream) const {
  if (!IsLegacy(stream)) return stream.front;
  // Work left on a destroyed stream may or may not count: claim nothing from it, but do not ask before it is done.
  return Fronts(stream) | ghosts_;
}

Model::Access Model::Touching(int buffer, size_t begin, size_t end, bool write) const {
  const Buffer& found = buffers_[static_cast<size_t>(buffer)];
  return {buffer, begin, end, write, found.generation, found.Pageable()};
}

void Model::AddConflicts(const Access& access, const Nodes& before, Nodes* conflicts) const {
  for (const Buffer::Touch& touch : buffers_[static_cast<size_t>(access.buffer)].touches) {
    const bool overlap = touch.begin < access.end && access.begin < touch.end;
    if (overlap && (touch.write || access.write) && !before[touch.node]) conflicts->set(touch.node);
  }
}

Verdict Model::Ordered(const std::vector<Access>& accesses, const Nodes& before, bool host_must_wait) {
  Nodes conflicts;
  for (const Access& access : accesses) AddConflicts(access, before, &conflicts);
  if (conflicts.none()) return Verdict::kFine;
  missing_ = conflicts;
  host_must_wait_ = host_must_wait;
  why_ = "not ordered behind earlier work on the same bytes";
  return Verdict::kRace;
}

Verdict Model::HostAccess(int buffer, size_t begin, size_t end, bool write) {
  return Ordered({Touching(buffer, begin, end, write)}, done_, true);
}

size_t Model::AddNode(const Nodes& before, const std::vector<Access>& accesses) {
  const size_t node = node_count_++;
  Nodes closure = before;
  closure.set(node);
  closures_.push_back(closure);
  for (const Access& access : accesses) {
    auto& touches = buffers_[static_cast<size_t>(access.buffer)].touches;
    std::erase_if(touches, [this](const Buffer::Touch& touch) { return done_[touch.node]; });
    touches.push_back({node, access.begin, access.end, access.write});
  }
  return node;
}

Verdict Model::Submit(const Op& op, const std::vector<Access>& accesses, const Nodes& also, Nodes* behind) {
  Stream& stream = *FindStream(op.stream, op.thread);
  if (stream.capture >= 0) {
    Capture& capture = captures_[static_cast<size_t>(stream.capture)];
    if (capture.steps.size() >= kMaxSteps) return Invalid("too many nodes in the graph");
    for (size_t i = 0; i < capture.steps.size(); ++i) {
      if ((stream.capture_front >> i & 1) != 0) continue;
      for (const Access& mine : accesses) {
        for (const Access& theirs : capture.steps[i].accesses) {
          const bool overlap = mine.buffer == theirs.buffer && theirs.begin < mine.end && mine.begin < theirs.end;
          if (overlap && (mine.write || theirs.write)) return Invalid("a race within the graph");
        }
      }
    }
    const size_t index = capture.steps.size();
    capture.steps.push_back({op.kind, accesses, stream.capture_front});
    stream.capture_front |= uint32_t{1} << index;
    behind->reset();
    return Verdict::kFine;
  }
  // A wait for an event that is complete is nothing, and then also no barrier between the legacy and other streams.
  const Nodes before = (op.kind == Kind::kStreamWait ? stream.front | done_ : Before(stream)) | also;
  if (const Verdict verdict = Ordered(accesses, before, false); verdict != Verdict::kFine) return verdict;
  stream.front = closures_[AddNode(before, accesses)];
  *behind = stream.front;
  return Verdict::kFine;
}

void Model::WaitFor(const Nodes& nodes, int thread) {
  done_ |= nodes;
  done_by_[static_cast<size_t>(thread)] |= nodes & ~ordered_by_executable_;
}

bool Model::UnsafeNow(int thread) const {
  return std::any_of(captures_.begin(), captures_.end(), [thread](const Capture& capture) {
    return capture.live &&
           (capture.mode == kGlobalCapture || (capture.mode == kThreadLocalCapture && capture.thread == thread));
  });
}

Verdict Model::CheckCaptures(const Op& op) {
  if (live_captures_ == 0) return Verdict::kFine;
  if (op.kind == Kind::kDeviceSync || op.kind == Kind::kBad) return Invalid("not during a capture");
  if (IsUnsafe(op.kind) && UnsafeNow(op.thread)) return Invalid("unsafe during a capture");
  if (UsesLegacy(op)) {
    const auto captured = [](const Stream& stream) { return stream.blocking && stream.capture >= 0; };
    if (std::any_of(streams_.begin(), streams_.end(), captured) ||
        std::any_of(thread_streams_.begin(), thread_streams_.end(), captured)) {
      return Invalid("the legacy stream while a blocking one is captured");
    }
  }
  if (op.stream >= 0 && op.kind != Kind::kStreamCreate) {
    const Stream& stream = *FindStream(op.stream, op.thread);
    const bool captured = stream.alive && stream.capture >= 0;
    if (captured && !IsWork(op.kind) && op.kind != Kind::kEndCapture) return Invalid("the stream is captured");
    if (captured && op.kind == Kind::kHostFunction && (op.flavor == kCallbackRead || op.flavor == kCallbackWrite)) {
      return Invalid("callbacks cannot be captured");
    }
  }
  return Verdict::kFine;
}

bool Model::Inside(int buffer, size_t offset, size_t bytes) const {
  if (buffer < 0) return false;
  const Buffer& found = buffers_[static_cast<size_t>(buffer)];
  return found.alive() && offset < found.bytes && bytes <= found.bytes - offset;
}

bool Model::UsableByKernel(int buffer) const {
  const Buffer& found = buffers_[static_cast<size_t>(buffer)];
  return found.Device() || found.device_pointer;
}

Verdict Model::Apply(const Op& op) {
  must_fail_ = false;
  // A graph of kMaxSteps nodes must fit.
  if (op.kind != Kind::kEndCapture && node_count_ + kMaxSteps + 2 >= kMaxNodes) return Invalid("too many nodes");
  if (op.stream >= 0 && op.kind != Kind::kStreamCreate && !FindStream(op.stream, op.thread)->alive) {
    return Invalid("no such stream");
  }
  if (family_ == Family::kFree && (UsesLegacy(op) || op.kind == Kind::kDeviceSync || op.kind == Kind::kBad ||
                                   (op.kind == Kind::kBeginCapture && op.flavor == kGlobalCapture))) {
    return Invalid("concerns other threads");
  }
  // One thread may be playing both.
  if (family_ == Family::kDevices &&
      (op.kind == Kind::kBad || (op.kind == Kind::kBeginCapture && op.flavor != kRelaxedCapture))) {
    return Invalid("concerns other threads");
  }
  if (const Verdict verdict = CheckCaptures(op); verdict != Verdict::kFine) return verdict;
  switch (op.kind) {
    case Kind::kStreamCreate:
    case Kind::kStreamDestroy:
    case Kind::kStreamSync:
    case Kind::kStreamQuery:
    case Kind::kStreamWait:
    case Kind::kDeviceSync:
      return ApplyStream(op);
    case Kind::kEventCreate:
    case Kind::kEventDestroy:
    case Kind::kEventRecord:
    case Kind::kEventSync:
    case Kind::kEventQuery:
    case Kind::kElapsed:
      return ApplyEvent(op);
    case Kind::kCopyAsync:
    case Kind::kCopy:
    case Kind::kCopy2DAsync:
    case Kind::kCopy2D:
      return ApplyCopy(op);
    case Kind::kMemsetAsync:
    case Kind::kMemset:
      return ApplyMemset(op);
    case Kind::kKernel:
    case Kind::kUnseenKernel:
      return ApplyKernel(op);
    case Kind::kHostFunction:
      return ApplyHostFunction(op);
    case Kind::kBeginCapture:
    case Kind::kEndCapture:
    case Kind::kInstantiate:
    case Kind::kUpdate:
    case Kind::kLaunch:
    case Kind::kGraphDestroy:
    case Kind::kExecDestroy:
      return ApplyGraph(op);
    case Kind::kLastError:
    case Kind::kPeekError:
      return Verdict::kFine;
    case Kind::kBad:
      return ApplyBad(op);
    default:
      return ApplyMemory(op);
  }
}

Verdict Model::ApplyMemory(const Op& op) {
  if (op.dst < 0) return Invalid("no buffer");
  Buffer& buffer = buffers_[static_cast<size_t>(op.dst)];
  const auto make = [&buffer, &op](Place place) {
    buffer = {.place = place, .bytes = op.bytes, .generation = buffer.generation + 1, .touches = {}};
  };
  const auto end = [&buffer] {
    buffer.place = Place::kNowhere;
    buffer.touches.clear();
  };
  switch (op.kind) {
    case Kind::kMalloc:
    case Kind::kPinned:
    case Kind::kManaged:
    case Kind::kPageable: {
      if (buffer.alive()) return Invalid("the buffer is there already");
      if (op.kind == Kind::kManaged && family_ != Family::kManaged) return Invalid("managed memory in this family");
      const Place place = op.kind == Kind::kMalloc    ? Place::kDevice
                          : op.kind == Kind::kPinned  ? Place::kPinned
                          : op.kind == Kind::kManaged ? Place::kManaged
                                                      : Place::kPageable;
      make(place);
      buffer.read_only = op.kind == Kind::kPageable && op.flavor == kReadOnly;
      return Verdict::kFine;
    }
    case Kind::kMallocAsync: {
      if (buffer.alive()) return Invalid("the buffer is there already");
      if (FindStream(op.stream, op.thread)->capture >= 0) return Invalid("the stream is captured");
      make(Place::kPooled);
      buffer.defined = false;
      Nodes behind;
      // Its memory may hold anything until the allocation has run.
      return Submit(op, {Touching(op.dst, 0, op.bytes, true)}, {}, &behind);
    }
    case Kind::kFree:
      if (buffer.place == Place::kPooled) {
        // Waits for nothing (measured).
        if (const Verdict verdict = HostAccess(op.dst, 0, buffer.bytes, true); verdict != Verdict::kFine)
          return verdict;
      } else if (buffer.place != Place::kDevice && buffer.place != Place::kManaged) {
        return Invalid("not device memory");
      }
      // Waits for work that uses the memory; that it waits for more is not claimed.
      end();
      return Verdict::kFine;
    case Kind::kFreeAsync: {
      if (buffer.place != Place::kPooled) return Invalid("not stream-ordered memory");
      Nodes behind;
      const Verdict verdict = Submit(op, {Touching(op.dst, 0, buffer.bytes, true)}, {}, &behind);
      if (verdict == Verdict::kFine) end();
      return verdict;
    }
    case Kind::kDrop: {
      if (!buffer.Pageable()) return Invalid("not pageable memory");
      const Verdict verdict = HostAccess(op.dst, 0, buffer.bytes, true);
      if (verdict == Verdict::kFine) end();
      return verdict;
    }
    case Kind::kFreeHost:
      if (buffer.place != Place::kPinned) return Invalid("not pinned memory");
      end();
      return Verdict::kFine;
    case Kind::kRegister:
      if (!buffer.Pageable() || buffer.read_only) return Invalid("not memory to be registered");
      buffer.registered = true;
      return Verdict::kFine;
    case Kind::kUnregister:
      if (buffer.place != Place::kPageable || !buffer.registered) return Invalid("not registered");
      buffer.registered = false;
      return Verdict::kFine;
    case Kind::kDevicePointer:
      if (buffer.place != Place::kPinned || family_ != Family::kManaged) return Invalid("not to be mapped");
      buffer.device_pointer = true;
      return Verdict::kFine;
    case Kind::kPointerType:
      return Inside(op.dst, op.dst_offset, 1) ? Verdict::kFine : Invalid("no such byte");
    case Kind::kWrite:
    case Kind::kRead:
      if (!buffer.Touchable() || !Inside(op.dst, op.dst_offset, op.bytes)) return Invalid("not host memory");
      if (op.kind == Kind::kWrite && buffer.read_only) return Invalid("read-only memory");
      return HostAccess(op.dst, op.dst_offset, op.dst_offset + op.bytes, op.kind == Kind::kWrite);
    default:
      return Invalid("unknown");
  }
}

Verdict Model::ApplyStream(const Op& op) {
  if (op.kind == Kind::kDeviceSync) {
    Nodes all;
    for (size_t i = 0; i < node_count_; ++i) all.set(i);
    done_ |= all;
    done_by_[static_cast<size_t>(op.thread)] |= all;
    return Verdict::kFine;
  }
  Stream& stream = *FindStream(op.stream, op.thread);
  switch (op.kind) {
    case Kind::kStreamCreate:
      if (op.stream < kFirstStream || op.stream == kLegacyHandle || stream.alive) {
        return Invalid("the stream is there already");
      }
      stream = {};
      stream.alive = true;
      stream.blocking = op.flavor == kBlocking;
      return Verdict::kFine;
    case Kind::kStreamDestroy:
      if (op.stream < kFirstStream || op.stream == kLegacyHandle) return Invalid("not a stream of the program's");
      if (stream.blocking) ghosts_ |= stream.front;
      stream = {};
      return Verdict::kFine;
    case Kind::kStreamSync:
      // A wait for the legacy stream is one for the blocking streams.
      WaitFor(IsLegacy(stream) ? Fronts(stream) : stream.front, op.thread);
      return Verdict::kFine;
    case Kind::kStreamQuery: {
      // Whether a thread that has not waited itself learns of completion at once is left open.
      const Nodes open = Awaited(stream) & ~done_by_[static_cast<size_t>(op.thread)];
      if (open.none()) return Verdict::kFine;
      missing_ = open;
      host_must_wait_ = true;
      why_ = "the answer is not determined";
      return Verdict::kRace;
    }
    case Kind::kStreamWait: {
      const Event& event = events_[static_cast<size_t>(op.event)];
      if (!event.alive) return Invalid("no such event");
      if (event.captured) {
        if (event.capture < 0 || !captures_[static_cast<size_t>(event.capture)].live) {
          return Invalid("an event of a capture that is over");
        }
        if (stream.capture >= 0 && stream.capture != event.capture) return Invalid("two captures");
        if (IsLegacy(stream)) return Invalid("the legacy stream cannot be captured");
        stream.capture = event.capture;
        stream.capture_front |= event.capture_front;
        return Verdict::kFine;
      }
      if (stream.capture >= 0) return Invalid("an event from outside of the capture");
      Nodes behind;
      return Submit(op, {}, event.front, &behind);
    }
    default:
      return Invalid("unknown");
  }
}

Verdict Model::ApplyEvent(const Op& op) {
  Event& event = events_[static_cast<size_t>(op.event)];
  if (op.kind == Kind::kEventCreate) {
    if (event.alive) return Invalid("the event is there already");
    event = {};
    event.alive = true;
    event.timing = op.flavor == kTiming;
    return Verdict::kFine;
  }
  if (!event.alive) return Invalid("no such event");
  const auto complete = [this, &op](const Nodes& front) {
    const Nodes open = front & ~done_by_[static_cast<size_t>(op.thread)];
    if (open.none()) return Verdict::kFine;
    missing_ = open;
    host_must_wait_ = true;
    why_ = "the answer is not determined";
    return Verdict::kRace;
  };
  switch (op.kind) {
    case Kind::kEventDestroy:
      event = {};
      return Verdict::kFine;
    case Kind::kEventRecord: {
      Stream& stream = *FindStream(op.stream, op.thread);
      if (stream.capture >= 0) {
        event.captured = true;
        event.recorded = false;
        event.capture = stream.capture;
        event.capture_front = stream.capture_front;
        return Verdict::kFine;
      }
      Nodes behind;
      const Verdict verdict = Submit(op, {}, {}, &behind);
      event.captured = false;
      event.recorded = true;
      event.front = behind;
      return verdict;
    }
    case Kind::kEventSync:
      if (event.captured) return Invalid("the event is captured");
      WaitFor(event.front, op.thread);
      return Verdict::kFine;
    case Kind::kEventQuery:
      if (event.captured) return Invalid("the event is captured");
      return complete(event.front);
    case Kind::kElapsed: {
      const Event& end = events_[static_cast<size_t>(op.end_event)];
      if (!end.alive || event.captured || end.captured) return Invalid("no such events");
      if (!event.timing || !end.timing || !event.recorded || !end.recorded) {
        must_fail_ = true;
        return Verdict::kFine;
      }
      return complete(event.front | end.front);
    }
    default:
      return Invalid("unknown");
  }
}

Verdict Model::ApplyCopy(const Op& op) {
  const bool blocking = op.kind == Kind::kCopy || op.kind == Kind::kCopy2D;
  if (op.Is2D() && (op.dst_pitch < op.bytes || op.src_pitch < op.bytes)) return Invalid("rows overlap");
  if (!Inside(op.dst, op.dst_offset, op.DstSpan()) || !Inside(op.src, op.src_offset, op.SrcSpan())) {
    return Invalid("not inside of a buffer");
  }
  Buffer& dst = buffers_[static_cast<size_t>(op.dst)];
  const Buffer& src = buffers_[static_cast<size_t>(op.src)];
  const size_t dst_end = op.dst_offset + op.DstSpan();
  const size_t src_end = op.src_offset + op.SrcSpan();
  if (op.dst == op.src && op.dst_offset < src_end && op.src_offset < dst_end) return Invalid("onto itself");
  if (dst.read_only) return Invalid("read-only memory");
  if (!src.defined) return Invalid("memory that holds anything");
  Op work = op;
  if (blocking) work.stream = kLegacyStream;
  Stream& stream = *FindStream(work.stream, work.thread);
  const bool captured = stream.capture >= 0;
  // A kind that calls pageable memory device memory is refused; else the pointers decide.
  const bool dst_device = op.flavor == kHostToDevice || op.flavor == kDeviceToDevice;
  const bool src_device = op.flavor == kDeviceToHost || op.flavor == kDeviceToDevice;
  if ((dst_device && dst.Pageable()) || (src_device && src.Pageable())) {
    if (captured) return Invalid("would spoil the capture");
    must_fail_ = true;
    return Verdict::kFine;
  }
  if (captured && dst.Host() && src.Host()) return Invalid("host to host in a capture");

  const Access write = Touching(op.dst, op.dst_offset, dst_end, true);
  const Access read = Touching(op.src, op.src_offset, src_end, false);
  std::vector<Access> accesses = {write};
  if (src.Pageable() && !dst.Host() && !captured) {
    // Read at the call, except for what is known to be read in the stream's order.
    const Nodes fronts = Fronts(stream);
    const Nodes before = Before(stream);
    const bool in_order = !op.Is2D() && !blocking;
    const size_t head_end = in_order ? std::min(src_end, op.src_offset + kReadAtCall) : src_end;
    const Access head = Touching(op.src, op.src_offset, head_end, false);
    if (const Verdict verdict = Ordered({head}, blocking ? before : done_, true); verdict != Verdict::kFine) {
      return verdict;
    }
    if (head_end < src_end) {
      const Access tail = Touching(op.src, head_end, src_end, false);
      if (const Verdict verdict = Ordered({tail}, before, true); verdict != Verdict::kFine) return verdict;
    }
    Nodes behind;
    const Verdict verdict = Submit(work, accesses, {}, &behind);
    if (verdict != Verdict::kFine) return verdict;
    // "A stream sync is performed before the copy is initiated"; of one without a stream only.
    if (blocking) WaitFor(fronts, op.thread);
  } else {
    accesses.push_back(read);
    Nodes behind;
    const Verdict verdict = Submit(work, accesses, {}, &behind);
    if (verdict != Verdict::kFine) return verdict;
    const bool both_host = src.Host() && dst.Host();
    const bool any_host = src.Host() || dst.Host();
    if (!captured && (both_host || dst.Pageable() || (blocking && any_host))) WaitFor(behind, op.thread);
  }
  if (!captured && !op.Is2D() && op.dst_offset == 0 && op.bytes == dst.bytes) dst.defined = true;
  return Verdict::kFine;
}

Verdict Model::ApplyMemset(const Op& op) {
  if (!Inside(op.dst, op.dst_offset, op.bytes)) return Invalid("not inside of a buffer");
  Buffer& dst = buffers_[static_cast<size_t>(op.dst)];
  if (dst.Pageable()) return Invalid("pageable memory");
  Op work = op;
  if (op.kind == Kind::kMemset) work.stream = kLegacyStream;
  const bool captured = FindStream(work.stream, work.thread)->capture >= 0;
  Nodes behind;
  const Verdict verdict = Submit(work, {Touching(op.dst, op.dst_offset, op.dst_offset + op.bytes, true)}, {}, &behind);
  if (verdict != Verdict::kFine) return verdict;
  // "Asynchronous with respect to the host except when the target is pinned host memory"
  if (op.kind == Kind::kMemset && dst.Host()) WaitFor(behind, op.thread);
  if (!captured && op.dst_offset == 0 && op.bytes == dst.bytes) dst.defined = true;
  return Verdict::kFine;
}

Verdict Model::ApplyKernel(const Op& op) {
  if (!Inside(op.dst, op.dst_offset, op.bytes) || !UsableByKernel(op.dst)) return Invalid("not a kernel's memory");
  std::vector<Access> accesses = {Touching(op.dst, op.dst_offset, op.dst_offset + op.bytes, true)};
  if (op.flavor == kMix && !buffers_[static_cast<size_t>(op.dst)].defined) return Invalid("memory that holds anything");
  if (op.flavor != kFill) {
    if (!Inside(op.src, op.src_offset, op.bytes) || !UsableByKernel(op.src)) return Invalid("not a kernel's memory");
    if (!buffers_[static_cast<size_t>(op.src)].defined) return Invalid("memory that holds anything");
    if (op.dst == op.src && op.dst_offset < op.src_offset + op.bytes && op.src_offset < op.dst_offset + op.bytes) {
      return Invalid("onto itself");
    }
    accesses.push_back(Touching(op.src, op.src_offset, op.src_offset + op.bytes, false));
  }
  Nodes behind;
  return Submit(op, accesses, {}, &behind);
}

Verdict Model::ApplyHostFunction(const Op& op) {
  const bool write = op.flavor == kHostWrite || op.flavor == kCallbackWrite;
  if (!Inside(op.dst, op.dst_offset, op.bytes)) return Invalid("not inside of a buffer");
  const Buffer& buffer = buffers_[static_cast<size_t>(op.dst)];
  if (!buffer.Host() || (write && buffer.read_only)) return Invalid("not host memory");
  Nodes behind;
  return Submit(op, {Touching(op.dst, op.dst_offset, op.dst_offset + op.bytes, write)}, {}, &behind);
}

Verdict Model::ApplyGraph(const Op& op) {
  switch (op.kind) {
    case Kind::kBeginCapture: {
      Stream& stream = *FindStream(op.stream, op.thread);
      if (IsLegacy(stream) || stream.capture >= 0) return Invalid("cannot be captured");
      captures_.push_back({true, op.stream, op.thread, op.flavor, {}});
      stream.capture = static_cast<int>(captures_.size()) - 1;
      stream.capture_front = 0;
      ++live_captures_;
      return Verdict::kFine;
    }
    case Kind::kEndCapture: {
      Stream& stream = *FindStream(op.stream, op.thread);
      Graph& graph = graphs_[static_cast<size_t>(op.graph)];
      if (stream.capture < 0 || graph.alive) return Invalid("no capture to end");
      const int ended = stream.capture;
      Capture& capture = captures_[static_cast<size_t>(ended)];
      if (capture.origin != op.stream || capture.thread != op.thread) return Invalid("another stream's capture");
      const uint32_t joined = stream.capture_front;
      const auto left = [ended, joined](const Stream& other) {
        return other.capture == ended && (other.capture_front & ~joined) != 0;
      };
      if (std::any_of(streams_.begin(), streams_.end(), left) ||
          std::any_of(thread_streams_.begin(), thread_streams_.end(), left)) {
        return Invalid("not joined");
      }
      for (auto* streams : {streams_.data(), thread_streams_.data()}) {
        const size_t count = streams == streams_.data() ? streams_.size() : thread_streams_.size();
        for (size_t i = 0; i < count; ++i) {
          if (streams[i].capture != ended) continue;
          streams[i].capture = -1;
          streams[i].capture_front = 0;
        }
      }
      capture.live = false;
      --live_captures_;
      graph = {true, std::move(capture.steps), {}};
      return Verdict::kFine;
    }
    case Kind::kInstantiate: {
      const Graph& graph = graphs_[static_cast<size_t>(op.graph)];
      Graph& exec = execs_[static_cast<size_t>(op.exec)];
      if (!graph.alive || exec.alive || graph.steps.empty()) return Invalid("nothing to instantiate");
      exec = {true, graph.steps, {}};
      return Verdict::kFine;
    }
    case Kind::kUpdate: {
      const Graph& graph = graphs_[static_cast<size_t>(op.graph)];
      Graph& exec = execs_[static_cast<size_t>(op.exec)];
      if (!graph.alive || !exec.alive) return Invalid("nothing to update");
      // Only what is known to be the same shape: a real device refuses some changes that the simulator takes.
      const bool same =
          std::equal(graph.steps.begin(), graph.steps.end(), exec.steps.begin(), exec.steps.end(),
                     [](const Step& a, const Step& b) { return a.kind == b.kind && a.before == b.before; });
      if (!same) return Invalid("another shape");
      exec.steps = graph.steps;
      return Verdict::kFine;
    }
    case Kind::kLaunch:
      return ApplyLaunch(op);
    case Kind::kGraphDestroy:
      if (!graphs_[static_cast<size_t>(op.graph)].alive) return Invalid("no such graph");
      graphs_[static_cast<size_t>(op.graph)] = {};
      return Verdict::kFine;
    case Kind::kExecDestroy: {
      Graph& exec = execs_[static_cast<size_t>(op.exec)];
      if (!exec.alive || (exec.last_launch & ~done_).any()) return Invalid("no such executable, or it is in use");
      exec = {};
      return Verdict::kFine;
    }
    default:
      return Invalid("unknown");
  }
}

Verdict Model::ApplyLaunch(const Op& op) {
  Graph& exec = execs_[static_cast<size_t>(op.exec)];
  Stream& stream = *FindStream(op.stream, op.thread);
  if (!exec.alive || stream.capture >= 0) return Invalid("nothing to launch");
  Nodes before = Before(stream) | exec.last_launch;
  Nodes conflicts;
  for (const Step& step : exec.steps) {
    for (const Access& access : step.accesses) {
      const Buffer& buffer = buffers_[static_cast<size_t>(access.buffer)];
      if (!buffer.alive() || buffer.generation != access.generation || buffer.Pageable() != access.pageable ||
          !buffer.defined) {
        return Invalid("memory of the graph is gone");
      }
      AddConflicts(access, before, &conflicts);
    }
  }
  if (conflicts.any()) {
    missing_ = conflicts;
    host_must_wait_ = false;
    why_ = "not ordered behind earlier work on the same bytes";
    return Verdict::kRace;
  }
  ordered_by_executable_ |= exec.last_launch & ~Before(stream);
  std::vector<size_t> nodes;
  for (const Step& step : exec.steps) {
    Nodes behind = before;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if ((step.before >> i & 1) != 0) behind |= closures_[nodes[i]];
    }
    nodes.push_back(AddNode(behind, step.accesses));
  }
  for (const size_t node : nodes) before |= closures_[node];
  stream.front = exec.last_launch = closures_[AddNode(before, {})];
  return Verdict::kFine;
}

Verdict Model::ApplyBad(const Op& op) {
  must_fail_ = op.flavor != kZeroBytes;
  const auto is = [this](int id, bool device, bool pageable) {
    if (id < 0) return false;
    const Buffer& found = buffers_[static_cast<size_t>(id)];
    return (device && (found.place == Place::kDevice)) || (pageable && found.Pageable() && !found.read_only);
  };
  const bool has_stream = op.stream >= 0;
  switch (op.flavor) {
    case kBadStreamSync:
    case kBadEventQuery:
      return Verdict::kFine;
    case kBadLaunch:
    case kBadFunction:
      return has_stream ? Verdict::kFine : Invalid("no stream");
    case kBadNull:
      return has_stream && is(op.src, false, true) ? Verdict::kFine : Invalid("no such call");
    case kBadPageableSet:
      return has_stream && is(op.dst, false, true) ? Verdict::kFine : Invalid("no such call");
    case kBadFree:
      return is(op.dst, true, false) ? Verdict::kFine : Invalid("no such call");
    case kBadPastSource:
      // Refused before anything is read or written.
      return has_stream && is(op.dst, false, true) && is(op.src, true, false) ? Verdict::kFine
                                                                              : Invalid("no such call");
    case kBadKind:
    case kBadBlockingKind:
    case kBadPastDestination:
    case kBadStreamCopy:
    case kZeroBytes: {
      if (!has_stream || !is(op.dst, true, false) || !is(op.src, false, true)) return Invalid("no such call");
      // An engine that stages before it asks may read the source; CUDA does not forbid a program to write it meanwhile.
      return Verdict::kFine;
    }
    default:
      return Invalid("unknown");
  }
}

bool IsDetermined(const Program& program, std::string* why) {
  std::vector<Model> models(IsSeparate(program.family) ? kMaxThreads : 1, Model(program.family));
  // With threads of their own course, numbers of objects are not shared either: the runner keeps them in one table.
  std::array<std::array<int, kMaxBuffers>, 5> owners;
  for (auto& owner : owners) owner.fill(-1);
  const auto shared = [&owners](int table, int id, int thread) {
    if (id < 0) return false;
    int& owner = owners[static_cast<size_t>(table)][static_cast<size_t>(id)];
    if (owner < 0) owner = thread;
    return owner != thread;
  };
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const auto at = [&program, &op, i](const char* what) {
      return "operation " + std::to_string(i) + " (" + ToText(program, op) + "): " + what;
    };
    if (IsSeparate(program.family)) {
      if (shared(0, op.dst, op.thread) || shared(0, op.src, op.thread) || shared(1, op.event, op.thread) ||
          shared(1, op.end_event, op.thread) || shared(2, op.graph, op.thread) || shared(3, op.exec, op.thread) ||
          (op.stream >= kFirstStream && op.stream != kLegacyHandle && shared(4, op.stream, op.thread))) {
        *why = at("another thread's object");
        return false;
      }
    }
    Model& model = models[IsSeparate(program.family) ? static_cast<size_t>(op.thread) : 0];
    if (model.Apply(op) != Verdict::kFine) {
      *why = at(model.why());
      return false;
    }
  }
  for (const Model& model : models) {
    if (model.Finished()) continue;
    *why = "a capture is left open";
    return false;
  }
  return true;
}

}  // namespace differential
