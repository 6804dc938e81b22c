#include "tests/differential/generator.h"

#include <algorithm>

#include "tests/differential/model.h"
#include "tests/differential/random.h"

namespace differential {
namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kSmallCopy = 64 * kKiB;  // where CUDA, and an engine, change their ways
constexpr size_t kKernelBytes = 8 * kKiB;

// What kind of program this one is.
struct Profile {
  size_t length = 30;  // operations, about
  size_t largest = 4 * kKiB;
  bool legacy = true;
  bool graphs = false;
  bool bad_calls = false;
  int doors = 0;            // of a hundred calls that the driver has too, those that are made by it
  bool one_stream = false;  // all work is on one: of several threads, none has work of its own
};

// Makes the part of a program that is on threads [first_thread, last_thread]; object numbers are first_object, + 1...
class Generator {
 public:
  Generator(Program* program, Random* random, int first_thread, int last_thread)
      : program_(*program),
        random_(*random),
        model_(program->family),
        first_thread_(first_thread),
        last_thread_(last_thread) {
    // Threads of their own course share no numbers.
    const bool alone = IsSeparate(program->family);
    buffers_ = alone ? Range{first_thread * 20, first_thread * 20 + 19} : Range{0, kMaxBuffers - 1};
    streams_ = alone ? Range{kFirstStream + first_thread * 4, kFirstStream + first_thread * 4 + 3}
                     : Range{kFirstStream, kFirstStream + 5};
    events_ = alone ? Range{first_thread * 8, first_thread * 8 + 7} : Range{0, 9};
    graphs_ = alone ? Range{first_thread * 4, first_thread * 4 + 3} : Range{0, 7};
  }

  void Run() {
    ChooseProfile();
    SetUp();
    while (made_ < profile_.length && model_.node_count() + 60 < kMaxNodes) {
      Step();
      ++made_;  // what could not be made counts too, so that every program ends
    }
  }

 private:
  struct Range {
    int first, last;
  };

  // ---- choices
  int AnyThread() { return static_cast<int>(random_.Between(first_thread_, last_thread_)); }
  // The thread that most is done on, and now and then another.
  int Thread() {
    if (random_.Chance(first_thread_ == last_thread_ ? 0 : 12)) current_thread_ = AnyThread();
    return current_thread_;
  }
  Op Make(Kind kind) {
    Op op;
    op.kind = kind;
    op.thread = Thread();
    return op;
  }
  uint64_t Value() { return random_.Below(1000000); }

  template <typename Fits>
  int FindBuffer(Fits fits) {
    std::vector<int> found;
    for (int id = buffers_.first; id <= buffers_.last; ++id) {
      if (model_.buffer(id).alive() && fits(model_.buffer(id))) found.push_back(id);
    }
    return found.empty() ? -1 : found[random_.Below(found.size())];
  }
  int DeviceBuffer() {
    return FindBuffer([](const Model::Buffer& buffer) { return buffer.Device() && buffer.defined; });
  }
  int PageableBuffer() {
    return FindBuffer([](const Model::Buffer& buffer) { return buffer.Pageable(); });
  }
  int WritablePageable() {
    return FindBuffer([](const Model::Buffer& buffer) { return buffer.Pageable() && !buffer.read_only; });
  }
  int PinnedBuffer() {
    return FindBuffer([](const Model::Buffer& buffer) { return buffer.Host() && !buffer.Pageable(); });
  }
  int HostBuffer() {
    return FindBuffer([](const Model::Buffer& buffer) { return buffer.Touchable(); });
  }
  int KernelBuffer() {
    return FindBuffer(
        [](const Model::Buffer& buffer) { return (buffer.Device() && buffer.defined) || buffer.device_pointer; });
  }
  int FreeNumber(Range range, bool (*taken)(const Model&, int)) {
    for (int id = range.first; id <= range.last; ++id) {
      if (!taken(model_, id)) return id;
    }
    return -1;
  }
  int NewBuffer() {
    return FreeNumber(buffers_, [](const Model& model, int id) { return model.buffer(id).alive(); });
  }

  static bool IsLegacy(int stream) { return stream == kLegacyStream || stream == kLegacyHandle; }
  // A stream that exists, most often the one used last.
  int AnyStream(int thread) {
    const bool again = profile_.one_stream || random_.Chance(50);
    if (again && last_stream_ >= 0 && model_.stream(last_stream_, thread).alive) return last_stream_;
    std::vector<int> found;
    if (profile_.legacy) found.push_back(random_.Chance(80) ? kLegacyStream : kLegacyHandle);
    if (!profile_.one_stream && random_.Chance(30)) found.push_back(kThreadStream);
    for (int id = streams_.first; id <= streams_.last; ++id) {
      if (model_.stream(id, thread).alive) found.push_back(id);
    }
    if (found.empty()) found.push_back(kThreadStream);
    last_stream_ = found[random_.Below(found.size())];
    return last_stream_;
  }
  int AnyEvent() {
    std::vector<int> found;
    for (int id = events_.first; id <= events_.last; ++id) {
      if (model_.event(id).alive) found.push_back(id);
    }
    return found.empty() ? -1 : found[random_.Below(found.size())];
  }

  size_t AnySize() {
    switch (random_.Below(10)) {
      case 0:
        return random_.Between(1, 16);
      case 1:
      case 2:
        return random_.Between(1, 512);
      case 3:
        return std::min(profile_.largest, kSmallCopy + random_.Between(0, 2) - 1);
      default:
        return random_.Between(1, profile_.largest);
    }
  }
  // Some bytes of a buffer, at most `most`: all of it often.
  void Part(int buffer, size_t most, size_t* offset, size_t* bytes) {
    const size_t whole = model_.buffer(buffer).bytes;
    if (whole <= most && random_.Chance(40)) {
      *offset = 0;
      *bytes = whole;
      return;
    }
    *bytes = std::min({most, whole, AnySize()});
    *offset = random_.Below(whole - *bytes + 1);
    if (random_.Chance(50)) *offset = *offset / 16 * 16;
  }

  // ---- adding operations
  // The same call by another door, at times.
  Op ByADoor(Op op) {
    if (profile_.doors == 0 || op.door != kRuntime || !random_.Chance(profile_.doors)) return op;
    if (op.kind == Kind::kCopy || op.kind == Kind::kCopyAsync) op.flavor = kDefault;
    if (HasDriverCall(op)) op.door = static_cast<int>(random_.Of({kLinked, kLinked, kByName}));
    return op;
  }
  bool Add(const Op& wanted) {
    const Op op = ByADoor(wanted);
    if (model_.Apply(op) != Verdict::kFine) return false;
    program_.ops.push_back(op);
    ++made_;
    return true;
  }

  // Adds it, behind whatever orders it.
  bool AddOrdered(const Op& wanted) {
    const Op op = ByADoor(wanted);
    for (int tries = 0; tries < 5; ++tries) {
      const Verdict verdict = model_.Apply(op);
      if (verdict == Verdict::kFine) {
        program_.ops.push_back(op);
        ++made_;
        return true;
      }
      if (verdict == Verdict::kInvalid || !Order(op)) return false;
    }
    return false;
  }

  // A stream that has the node before its end, or -1.
  int StreamBehind(size_t node, int* thread) {
    std::vector<std::pair<int, int>> found;
    for (int id = streams_.first; id <= streams_.last; ++id) {
      const Model::Stream& stream = model_.stream(id, *thread);
      if (stream.alive && stream.capture < 0 && stream.front[node]) found.emplace_back(id, *thread);
    }
    if (profile_.legacy && model_.stream(kLegacyStream, 0).front[node]) found.emplace_back(kLegacyStream, *thread);
    for (int other = first_thread_; !profile_.one_stream && other <= last_thread_; ++other) {
      const Model::Stream& stream = model_.stream(kThreadStream, other);
      if (stream.capture < 0 && stream.front[node]) found.emplace_back(kThreadStream, other);
    }
    if (found.empty()) return -1;
    const auto& [id, owner] = found[random_.Below(found.size())];
    *thread = owner;
    return id;
  }
  int EventBehind(size_t node) {
    for (int id = events_.first; id <= events_.last; ++id) {
      const Model::Event& event = model_.event(id);
      if (event.alive && event.recorded && !event.captured && event.front[node]) return id;
    }
    return -1;
  }
  int EventForUse() {
    const int event = AnyEvent();
    if (event >= 0 && random_.Chance(60)) return event;
    const int fresh = FreeNumber(events_, [](const Model& model, int id) { return model.event(id).alive; });
    if (fresh < 0) return event;
    Op op = Make(Kind::kEventCreate);
    op.event = fresh;
    op.flavor = random_.Chance(60) ? kTiming : kNoTiming;
    return Add(op) ? fresh : event;
  }

  // One of the ways to order `op` behind what it misses.
  bool Order(const Op& op) {
    const Nodes missing = model_.missing();
    const bool host = model_.host_must_wait() || op.stream < 0;
    size_t node = random_.Below(kMaxNodes);
    while (!missing[node]) node = (node + 1) % kMaxNodes;

    int thread = random_.Chance(85) ? op.thread : AnyThread();
    const bool query = op.kind == Kind::kStreamQuery || op.kind == Kind::kEventQuery || op.kind == Kind::kElapsed;
    if (query) thread = op.thread;  // only who waited may ask
    const int event = EventBehind(node);
    int owner = thread;
    const int stream = StreamBehind(node, &owner);
    // The thread's own stream is nobody else's.
    const int stream_thread = stream == kThreadStream ? owner : thread;
    if (query && stream_thread != op.thread) return DeviceSync(thread);

    Op order;
    order.thread = thread;
    if (!host && random_.Chance(60)) {
      // On the device.
      order.kind = Kind::kStreamWait;
      order.stream = op.stream;
      order.thread = op.thread;
      if (event >= 0 && random_.Chance(40)) {
        order.event = event;
        if (Add(order)) return true;
      }
      if (stream >= 0) {
        Op record;
        record.kind = Kind::kEventRecord;
        record.thread = stream_thread;
        record.stream = stream;
        record.event = order.event = EventForUse();
        if (record.event >= 0 && Add(record) && Add(order)) return true;
      }
    }
    switch (random_.Below(12)) {
      case 0:
        if (DeviceSync(thread)) return true;
        break;
      case 1:
      case 2:
        order.kind = Kind::kEventSync;
        order.event = event;
        if (event >= 0 && Add(order)) return true;
        break;
      case 3:
      case 4:
        if (stream >= 0) {
          Op record;
          record.kind = Kind::kEventRecord;
          record.thread = stream_thread;
          record.stream = stream;
          record.event = order.event = EventForUse();
          order.kind = Kind::kEventSync;
          if (record.event >= 0 && Add(record) && Add(order)) return true;
        }
        break;
      case 5:
      case 6:
      case 7:
        if (stream >= 0 && BlockingCopyOn(stream, stream_thread)) return true;
        break;
      case 8:
        if (stream >= 0 && ReadBackOn(stream, stream_thread)) return true;
        break;
      case 9:
        if (profile_.legacy && BlockingCall(thread)) return true;
        break;
      default:
        break;
    }
    if (stream >= 0) {
      order.kind = Kind::kStreamSync;
      order.stream = stream;
      order.thread = stream_thread;
      if (Add(order)) return true;
    }
    return DeviceSync(thread);
  }

  bool DeviceSync(int thread) {
    Op op;
    op.kind = Kind::kDeviceSync;
    op.thread = thread;
    return Add(op);
  }

  // cudaMemcpyAsync to a pageable buffer: complete when it returns.
  bool ReadBackOn(int stream, int thread) {
    Op op;
    op.kind = Kind::kCopyAsync;
    op.thread = thread;
    op.stream = stream;
    if (!Sides(DeviceBuffer(), WritablePageable(), &op)) return false;
    op.flavor = random_.Chance(80) ? kDeviceToHost : kDefault;
    return Add(op);
  }

  bool BlockingCall(int thread) {
    Op op;
    op.kind = Kind::kCopy;
    op.thread = thread;
    if (!Sides(DeviceBuffer(), random_.Chance(50) ? WritablePageable() : PinnedBuffer(), &op)) return false;
    op.flavor = kDeviceToHost;
    return Add(op);
  }

  // Chooses bytes on both sides.
  bool Sides(int src, int dst, Op* op, size_t most = SIZE_MAX) {
    if (src < 0 || dst < 0) return false;
    op->src = src;
    op->dst = dst;
    Part(src, std::min(most, model_.buffer(dst).bytes), &op->src_offset, &op->bytes);
    op->dst_offset = random_.Chance(50) ? 0 : random_.Below(model_.buffer(dst).bytes - op->bytes + 1);
    return true;
  }

  // ---- the most frequent one: what PyTorch's tensor.to(device) does
  bool BlockingCopyOn(int stream, int thread) {
    Op copy;
    copy.kind = Kind::kCopyAsync;
    copy.thread = thread;
    copy.stream = stream;
    if (!Sides(PageableBuffer(), DeviceBuffer(), &copy)) return false;
    copy.flavor = random_.Chance(80) ? kHostToDevice : kDefault;
    if (!AddPlain(copy)) return false;
    last_copy_ = copy;
    if (random_.Chance(10)) {
      // What stands between: mostly what must not stand in the way, at times what must.
      Op between = Make(random_.Of({Kind::kLastError, Kind::kPeekError, Kind::kWrite, Kind::kPointerType}));
      between.thread = thread;
      between.dst = copy.src;
      between.dst_offset = copy.src_offset;
      between.bytes = copy.bytes;
      between.value = Value();
      Add(between);
    }
    Op sync;
    sync.kind = Kind::kStreamSync;
    sync.thread = thread;
    if (random_.Chance(4)) {
      // Another stream's first: no synchronization of the copy.
      sync.stream = AnyStream(thread);
      Add(sync);
      if (random_.Chance(50)) return true;
    }
    sync.stream = stream;
    return Add(sync);
  }
  // Not by AddOrdered, which calls this.
  bool AddPlain(const Op& op) { return ordering_ ? Add(op) : AddWithOrder(op); }
  bool AddWithOrder(const Op& op) {
    ordering_ = true;
    const bool added = AddOrdered(op);
    ordering_ = false;
    return added;
  }

  void BlockingCopy() {
    const int thread = Thread();
    if (!BlockingCopyOn(AnyStream(thread), thread)) return;
    for (int i = 0; i < 2 && random_.Chance(60); ++i) FollowUp();
  }

  // What a program may do after copy and synchronization, with no further word.
  void FollowUp() {
    const Op copy = last_copy_;
    if (!model_.buffer(copy.src).alive() || !model_.buffer(copy.dst).alive()) return;
    switch (random_.Below(9)) {
      case 0: {  // overwrite the source
        Op op = Make(Kind::kWrite);
        op.dst = copy.src;
        op.dst_offset = copy.src_offset;
        op.bytes = copy.bytes;
        op.value = Value();
        Add(op);
        break;
      }
      case 1: {  // or let it go
        Op op = Make(Kind::kDrop);
        op.dst = copy.src;
        if (Add(op)) NewPageable();
        break;
      }
      case 2:
      case 3:
      case 4: {  // a kernel on another stream, or thread, that uses the destination
        Op op = Make(random_.Chance(50) ? Kind::kKernel : Kind::kUnseenKernel);
        op.stream = AnyStream(op.thread);
        op.src = copy.dst;
        op.src_offset = copy.dst_offset;
        op.dst = KernelBuffer();
        if (op.dst < 0) return;
        op.bytes = std::min({copy.bytes, kKernelBytes, model_.buffer(op.dst).bytes});
        op.flavor = random_.Of({kMix, kMove});
        op.value = Value();
        if (random_.Chance(25)) {
          std::swap(op.src, op.dst);
          std::swap(op.src_offset, op.dst_offset);
        }
        AddWithOrder(op);
        break;
      }
      case 5: {
        Op op = Make(Kind::kStreamQuery);
        op.thread = copy.thread;
        op.stream = copy.stream;
        Add(op);
        break;
      }
      case 6:
        Query();
        break;
      case 7: {  // read what earlier work of the stream wrote to host memory
        Op op = Make(Kind::kRead);
        op.dst = PinnedBuffer();
        if (op.dst < 0) return;
        Part(op.dst, SIZE_MAX, &op.dst_offset, &op.bytes);
        Add(op);
        break;
      }
      default: {  // read the destination back on another stream
        Op op = Make(Kind::kCopyAsync);
        op.stream = AnyStream(op.thread);
        if (!Sides(copy.dst, random_.Chance(50) ? WritablePageable() : PinnedBuffer(), &op)) return;
        op.flavor = kDeviceToHost;
        AddWithOrder(op);
        break;
      }
    }
  }

  // ---- single operations
  void AnyCopy() {
    const bool blocking = profile_.legacy && random_.Chance(20);
    const bool plane = random_.Chance(10);
    Op op = Make(plane ? (blocking ? Kind::kCopy2D : Kind::kCopy2DAsync) : (blocking ? Kind::kCopy : Kind::kCopyAsync));
    if (!blocking) op.stream = AnyStream(op.thread);
    bool fits = false;
    switch (random_.Below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
        fits = Sides(PageableBuffer(), DeviceBuffer(), &op);
        op.flavor = kHostToDevice;
        break;
      case 4:
      case 5:
      case 6:
        fits = Sides(PinnedBuffer(), DeviceBuffer(), &op);
        op.flavor = kHostToDevice;
        break;
      case 7:
      case 8:
      case 9:
      case 10:
        fits = Sides(DeviceBuffer(), PinnedBuffer(), &op);
        op.flavor = kDeviceToHost;
        break;
      case 11:
      case 12:
        fits = Sides(DeviceBuffer(), WritablePageable(), &op);
        op.flavor = kDeviceToHost;
        break;
      case 13:
      case 14:
        fits = Sides(DeviceBuffer(), DeviceBuffer(), &op);
        op.flavor = kDeviceToDevice;
        break;
      default:
        fits = Sides(HostBuffer(), HostBuffer(), &op);
        op.flavor = kHostToHost;
        break;
    }
    if (!fits) return;
    if (random_.Chance(15)) op.flavor = kDefault;
    if (random_.Chance(2)) op.flavor = static_cast<int>(random_.Below(5));  // the pointers decide, mostly
    if (plane) {
      op.rows = std::min<size_t>(random_.Between(1, 6), op.bytes);
      op.bytes /= op.rows;
      op.dst_pitch = op.src_pitch = op.bytes;
      // A pitch of more than the row, on the side that has room.
      const size_t room = model_.buffer(op.src).bytes - op.src_offset - op.rows * op.bytes;
      if (op.rows > 1 && random_.Chance(60)) op.src_pitch += room / op.rows;
    }
    AddWithOrder(op);
  }

  void Memset() {
    const bool blocking = profile_.legacy && random_.Chance(20);
    Op op = Make(blocking ? Kind::kMemset : Kind::kMemsetAsync);
    if (!blocking) op.stream = AnyStream(op.thread);
    op.dst = random_.Chance(60) ? DeviceBuffer() : PinnedBuffer();
    if (op.dst < 0) return;
    Part(op.dst, SIZE_MAX, &op.dst_offset, &op.bytes);
    op.value = random_.Below(256);
    AddWithOrder(op);
  }

  void Kernel() {
    Op op = Make(random_.Chance(60) ? Kind::kKernel : Kind::kUnseenKernel);
    op.stream = AnyStream(op.thread);
    op.flavor = random_.Of({kFill, kMix, kMix, kMove});
    op.value = Value();
    const int src = KernelBuffer();
    const int dst = KernelBuffer();
    if (!Sides(src, dst, &op, kKernelBytes)) return;
    if (op.flavor == kFill) {
      op.src = -1;
      op.src_offset = 0;
    }
    AddWithOrder(op);
  }

  void HostFunction() {
    Op op = Make(Kind::kHostFunction);
    op.stream = AnyStream(op.thread);
    op.dst = random_.Chance(60) ? WritablePageable() : PinnedBuffer();
    if (op.dst < 0) return;
    Part(op.dst, kSmallCopy, &op.dst_offset, &op.bytes);
    op.flavor = random_.Of({kHostRead, kHostWrite, kHostWrite, kCallbackRead, kCallbackWrite});
    op.value = Value();
    AddWithOrder(op);
  }

  void HostAccess() {
    Op op = Make(random_.Chance(50) ? Kind::kRead : Kind::kWrite);
    op.dst = HostBuffer();
    if (op.dst < 0) return;
    Part(op.dst, SIZE_MAX, &op.dst_offset, &op.bytes);
    if (op.kind == Kind::kWrite) op.value = Value();
    AddWithOrder(op);
  }

  void Record() {
    Op op = Make(Kind::kEventRecord);
    op.stream = AnyStream(op.thread);
    op.event = EventForUse();
    if (op.event >= 0) Add(op);
  }

  void Wait() {
    Op op = Make(Kind::kStreamWait);
    op.stream = AnyStream(op.thread);
    op.event = AnyEvent();
    if (op.event >= 0) Add(op);
  }

  void Query() {
    Op op = Make(random_.Of({Kind::kStreamQuery, Kind::kEventQuery, Kind::kElapsed}));
    if (op.kind == Kind::kStreamQuery) {
      op.stream = AnyStream(op.thread);
    } else {
      op.event = AnyEvent();
      if (op.event < 0) return;
      if (op.kind == Kind::kElapsed) op.end_event = AnyEvent();
    }
    // Most often only where nothing has to be waited for.
    if (random_.Chance(25)) {
      AddWithOrder(op);
    } else {
      Add(op);
    }
  }

  void Synchronize() {
    Op op = Make(random_.Chance(70) ? Kind::kStreamSync : Kind::kEventSync);
    if (op.kind == Kind::kStreamSync) {
      op.stream = AnyStream(op.thread);
    } else {
      op.event = AnyEvent();
      if (op.event < 0) return;
    }
    Add(op);
  }

  // Keeps a stream from being done, even when somebody asks: every question lets the device do a little.
  void Burst(int stream, int thread) {
    Op op;
    op.kind = Kind::kKernel;
    op.thread = thread;
    op.stream = stream;
    op.dst = DeviceBuffer();
    if (op.dst < 0) return;
    op.bytes = std::min<size_t>(model_.buffer(op.dst).bytes, 64);
    op.flavor = kFill;
    const size_t made = made_;
    for (uint64_t left = random_.Between(4, 16); left > 0; --left) {
      op.value = left;
      if (!AddWithOrder(op)) break;
    }
    made_ = made + 1;  // many, but one to the length of the program
  }

  // ---- short stories about work that the host can see
  void Story() {
    const int thread = Thread();
    const int stream = AnyStream(thread);
    int effect_stream = stream;
    const bool elsewhere = random_.Chance(25);
    if (elsewhere) effect_stream = AnyStream(thread);

    Op effect;
    effect.thread = thread;
    effect.stream = effect_stream;
    int seen = -1;  // where the effect shows
    switch (random_.Below(4)) {
      case 0:
      case 1:
        effect.kind = Kind::kCopyAsync;
        if (!Sides(DeviceBuffer(), PinnedBuffer(), &effect)) return;
        effect.flavor = kDeviceToHost;
        break;
      case 2:
        effect.kind = Kind::kMemsetAsync;
        effect.dst = PinnedBuffer();
        if (effect.dst < 0) return;
        Part(effect.dst, SIZE_MAX, &effect.dst_offset, &effect.bytes);
        effect.value = random_.Below(256);
        break;
      default:
        effect.kind = Kind::kHostFunction;
        effect.dst = random_.Chance(50) ? WritablePageable() : PinnedBuffer();
        if (effect.dst < 0) return;
        Part(effect.dst, kSmallCopy, &effect.dst_offset, &effect.bytes);
        effect.flavor = random_.Of({kHostWrite, kCallbackWrite});
        effect.value = Value();
        break;
    }
    seen = effect.dst;
    if (random_.Chance(30)) Burst(effect_stream, thread);
    const bool record = random_.Chance(30);
    if (!AddWithOrder(effect)) return;
    Op mark;
    mark.kind = Kind::kEventRecord;
    mark.thread = thread;
    mark.stream = effect_stream;
    const bool marked = (record || elsewhere) && (mark.event = EventForUse()) >= 0 && Add(mark);
    if (elsewhere && marked) {
      Op wait;
      wait.kind = Kind::kStreamWait;
      wait.thread = thread;
      wait.stream = stream;
      wait.event = mark.event;
      Add(wait);
    }
    if (random_.Chance(30)) Kernel();
    if (!BlockingCopyOn(stream, thread)) return;
    // Now it must be visible: to the host, to a copy from there, to a question about the event.
    Op look = Make(Kind::kRead);
    look.dst = seen;
    look.dst_offset = effect.dst_offset;
    look.bytes = effect.bytes;
    if (marked && random_.Chance(40)) {
      Op ask;
      ask.kind = Kind::kEventQuery;
      ask.thread = thread;
      ask.event = mark.event;
      Add(ask);
    }
    if (random_.Chance(70)) {
      AddWithOrder(look);
    } else {
      Op copy = Make(Kind::kCopyAsync);
      copy.stream = AnyStream(copy.thread);
      if (Sides(seen, DeviceBuffer(), &copy)) {
        copy.flavor = kHostToDevice;
        AddWithOrder(copy);
      }
    }
  }

  // A host function that writes the end of a large source while the copy from it waits for the stream: in force,
  // because only the beginning is read at the call.
  void LateSource() {
    const int src = FindBuffer([](const Model::Buffer& buffer) {
      return buffer.Pageable() && !buffer.read_only && buffer.bytes > kReadAtCall + 1;
    });
    const int dst = FindBuffer(
        [](const Model::Buffer& buffer) { return buffer.place == Place::kDevice && buffer.bytes > kReadAtCall + 1; });
    if (src < 0 || dst < 0) return;
    Op late = Make(Kind::kHostFunction);
    late.stream = AnyStream(late.thread);
    late.dst = src;
    late.bytes = std::min<size_t>(model_.buffer(src).bytes - kReadAtCall, 4 * kKiB);
    late.dst_offset = model_.buffer(src).bytes - late.bytes;
    late.flavor = random_.Of({kHostWrite, kCallbackWrite});
    late.value = Value();
    if (random_.Chance(60)) Burst(late.stream, late.thread);
    if (!AddWithOrder(late)) return;
    Op copy;
    copy.kind = Kind::kCopyAsync;
    copy.thread = late.thread;
    copy.stream = late.stream;
    copy.src = src;
    copy.dst = dst;
    copy.bytes = std::min(model_.buffer(src).bytes, model_.buffer(dst).bytes);
    copy.flavor = kHostToDevice;
    if (!AddWithOrder(copy) || random_.Chance(30)) return;
    Op sync;
    sync.kind = Kind::kStreamSync;
    sync.thread = late.thread;
    sync.stream = late.stream;
    Add(sync);
  }

  // ---- graphs
  void BeginCapture() {
    Op op = Make(Kind::kBeginCapture);
    op.stream = AnyStream(op.thread);
    if (IsLegacy(op.stream) || capturing_ || FreeGraph() < 0) return;
    op.flavor = static_cast<int>(program_.family == Family::kDevices ? kRelaxedCapture
                                 : program_.family == Family::kFree
                                     ? random_.Of({kThreadLocalCapture, kRelaxedCapture})
                                     : random_.Of({kGlobalCapture, kThreadLocalCapture, kRelaxedCapture}));
    if (!Add(op)) return;
    capturing_ = true;
    capture_ = op;
    const size_t begin = program_.ops.size();
    if (!captured_.empty() && random_.Chance(50)) {
      // The same once more, with other values: what an update of an executable takes.
      for (Op again : captured_) {
        again.thread = op.thread;
        again.stream = op.stream;
        again.value = random_.Below(256);
        Add(again);
      }
      EndCapture();
      return;
    }
    for (uint64_t left = random_.Between(1, 5); left > 0; --left) CaptureOne();
    captured_.assign(program_.ops.begin() + static_cast<ptrdiff_t>(begin), program_.ops.end());
    if (random_.Chance(15)) Fork();
    // Other things go on meanwhile.
    if (random_.Chance(30)) {
      for (uint64_t left = random_.Between(1, 4); left > 0; --left) StepOutsideOfCapture();
      CaptureOne();
    }
    EndCapture();
  }
  int FreeGraph() {
    return FreeNumber(graphs_, [](const Model& model, int id) { return model.graph(id).alive; });
  }
  // Another stream takes part in the capture for a while.
  void Fork() {
    const int event = EventForUse();
    const int stream = AnyStream(capture_.thread);
    if (event < 0 || stream == capture_.stream || IsLegacy(stream)) return;
    const Op origin = capture_;
    Op op;
    op.thread = origin.thread;
    op.event = event;
    const auto add = [this, &op](Kind kind, int where) {
      op.kind = kind;
      op.stream = where;
      return Add(op);
    };
    if (!add(Kind::kEventRecord, origin.stream) || !add(Kind::kStreamWait, stream)) return;
    capture_.stream = stream;
    CaptureOne();
    capture_.stream = origin.stream;
    CaptureOne();
    fork_ = op;
    fork_.stream = stream;
  }
  // A capture can only end when all that took part have come back. The origin waits for the other stream.
  void Join() {
    Op op = fork_;
    fork_.stream = -1;
    op.kind = Kind::kEventRecord;
    if (op.stream < 0 || !Add(op)) return;
    op.kind = Kind::kStreamWait;
    op.stream = capture_.stream;
    Add(op);
  }
  void CaptureOne() {
    Op op = Make(Kind::kKernel);
    op.thread = capture_.thread;
    op.stream = capture_.stream;
    op.value = Value();
    bool fits = true;
    switch (random_.Below(8)) {
      case 0:
      case 1:
        op.kind = Kind::kCopyAsync;
        op.flavor = kDeviceToHost;
        fits = Sides(DeviceBuffer(), random_.Chance(70) ? PinnedBuffer() : WritablePageable(), &op, kSmallCopy);
        break;
      case 2:
        op.kind = Kind::kCopyAsync;
        op.flavor = kHostToDevice;
        fits = Sides(random_.Chance(50) ? PinnedBuffer() : PageableBuffer(), DeviceBuffer(), &op, kSmallCopy);
        break;
      case 3:
        op.kind = Kind::kHostFunction;
        op.flavor = random_.Of({kHostRead, kHostWrite});
        op.dst = random_.Chance(50) ? WritablePageable() : PinnedBuffer();
        if (op.dst < 0) return;
        Part(op.dst, kKernelBytes, &op.dst_offset, &op.bytes);
        break;
      case 4:
        op.kind = Kind::kMemsetAsync;
        op.dst = random_.Chance(60) ? DeviceBuffer() : PinnedBuffer();
        if (op.dst < 0) return;
        Part(op.dst, kSmallCopy, &op.dst_offset, &op.bytes);
        break;
      default:
        if (random_.Chance(30)) op.kind = Kind::kUnseenKernel;
        op.flavor = random_.Of({kFill, kMix, kMove});
        fits = Sides(KernelBuffer(), KernelBuffer(), &op, kKernelBytes);
        if (op.flavor == kFill) {
          op.src = -1;
          op.src_offset = 0;
        }
        break;
    }
    if (fits) Add(op);
  }
  void StepOutsideOfCapture() {
    switch (random_.Below(4)) {
      case 0:
        BlockingCopy();
        break;
      case 1:
        AnyCopy();
        break;
      case 2:
        Kernel();
        break;
      default:
        HostAccess();
        break;
    }
  }
  void EndCapture() {
    Op op;
    op.kind = Kind::kEndCapture;
    op.thread = capture_.thread;
    op.stream = capture_.stream;
    op.graph = FreeGraph();
    Join();
    capturing_ = false;
    if (!Add(op)) return;
    if (random_.Chance(60) && UpdateFrom(op.graph)) {
      Launch();
    } else {
      Instantiate(op.graph);
    }
  }
  bool UpdateFrom(int graph) {
    for (int id = graphs_.first; id <= graphs_.last; ++id) {
      if (!model_.exec(id).alive) continue;
      Op op = Make(Kind::kUpdate);
      op.graph = graph;
      op.exec = id;
      if (Add(op)) return true;
    }
    return false;
  }
  void Instantiate(int graph) {
    Op op = Make(Kind::kInstantiate);
    op.graph = graph;
    op.exec = FreeNumber(graphs_, [](const Model& model, int id) { return model.exec(id).alive; });
    if (op.exec < 0 || !Add(op)) return;
    for (uint64_t launches = random_.Between(1, 2); launches > 0; --launches) Launch();
  }
  void Launch() {
    std::vector<int> found;
    for (int id = graphs_.first; id <= graphs_.last; ++id) {
      if (model_.exec(id).alive) found.push_back(id);
    }
    if (found.empty()) return;
    Op op = Make(Kind::kLaunch);
    op.stream = AnyStream(op.thread);
    op.exec = found[random_.Below(found.size())];
    if (!AddWithOrder(op)) return;
    if (random_.Chance(40) && BlockingCopyOn(op.stream, op.thread)) FollowUp();
  }
  void EndGraph() {
    Op op = Make(random_.Of({Kind::kGraphDestroy, Kind::kExecDestroy}));
    for (int id = graphs_.last; id >= graphs_.first; --id) {
      const bool destroys_graph = op.kind == Kind::kGraphDestroy;
      if (!(destroys_graph ? model_.graph(id) : model_.exec(id)).alive) continue;
      (destroys_graph ? op.graph : op.exec) = id;
      Add(op);
      return;
    }
  }

  // ---- objects come and go
  void NewDevice() {
    Op op = Make(Kind::kMalloc);
    op.dst = NewBuffer();
    op.bytes = AnySize();
    if (op.dst < 0) return;
    if (program_.family == Family::kManaged && random_.Chance(50)) {
      op.kind = Kind::kManaged;
      op.value = Value();
    } else if (random_.Chance(15)) {
      op.kind = Kind::kMallocAsync;
      op.stream = AnyStream(op.thread);
    }
    if (!Add(op) || op.kind != Kind::kMallocAsync) return;
    Op set = op;
    set.kind = Kind::kMemsetAsync;
    set.value = random_.Below(256);
    Add(set);
  }
  void NewPageable() {
    Op op = Make(Kind::kPageable);
    op.dst = NewBuffer();
    op.bytes = AnySize();
    op.value = Value();
    const uint64_t from = random_.Below(10);
    op.flavor = from < 7 ? kHeap : (from < 9 ? kMapped : kReadOnly);
    if (op.flavor == kHeap && random_.Chance(40)) op.dst_offset = random_.Between(1, 63);
    if (op.dst >= 0) Add(op);
  }
  void NewPinned() {
    Op op = Make(Kind::kPinned);
    op.dst = NewBuffer();
    op.bytes = std::min(AnySize(), 256 * kKiB);
    op.value = Value();
    op.flavor = static_cast<int>(random_.Of({kDefaultPinned, kDefaultPinned, kPortable, kWriteCombined}));
    if (op.dst < 0 || !Add(op)) return;
    if (program_.family == Family::kManaged && random_.Chance(40)) {
      op.kind = Kind::kDevicePointer;
      Add(op);
    }
  }
  void NewStream() {
    Op op = Make(Kind::kStreamCreate);
    op.stream = FreeNumber(streams_, [](const Model& model, int id) { return model.stream(id, 0).alive; });
    op.flavor = random_.Chance(65) ? kNonBlocking : kBlocking;
    if (op.stream >= 0) Add(op);
  }
  // Registered memory is read when the copy runs; once it is pageable again, at the call.
  void UseRegistered(const Op& made) {
    for (int round = 0; round < 2; ++round) {
      Op copy = Make(Kind::kCopyAsync);
      copy.stream = AnyStream(copy.thread);
      if (Sides(made.dst, DeviceBuffer(), &copy)) {
        copy.flavor = kHostToDevice;
        AddWithOrder(copy);
      }
      if (random_.Chance(50)) return;
      Op end = made;
      end.kind = Kind::kUnregister;
      Add(end);
    }
  }
  void LifeCycle() {
    Op op = Make(Kind::kFree);
    switch (random_.Below(10)) {
      case 0:
      case 1: {
        op.dst = DeviceBuffer();
        if (op.dst < 0) return;
        if (model_.buffer(op.dst).place == Place::kPooled && random_.Chance(70)) {
          op.kind = Kind::kFreeAsync;
          op.stream = AnyStream(op.thread);
        }
        if (AddWithOrder(op)) NewDevice();
        break;
      }
      case 2:
        op.kind = Kind::kDrop;
        op.dst = PageableBuffer();
        if (op.dst >= 0 && AddWithOrder(op)) NewPageable();
        break;
      case 3:
        op.kind = Kind::kFreeHost;
        op.dst = FindBuffer([](const Model::Buffer& buffer) { return buffer.place == Place::kPinned; });
        if (op.dst >= 0 && AddWithOrder(op)) NewPinned();
        break;
      case 4:
        op.kind = Kind::kRegister;
        op.dst = WritablePageable();
        if (op.dst >= 0 && AddWithOrder(op)) UseRegistered(op);
        break;
      case 5:
      case 9:
        op.kind = Kind::kUnregister;
        op.dst = FindBuffer(
            [](const Model::Buffer& buffer) { return buffer.place == Place::kPageable && buffer.registered; });
        if (op.dst >= 0) AddWithOrder(op);
        break;
      case 6:
        op.kind = Kind::kStreamDestroy;
        op.stream = AnyStream(op.thread);
        if (op.stream >= kFirstStream && Add(op)) NewStream();
        break;
      case 7:
        op.kind = Kind::kEventDestroy;
        op.event = AnyEvent();
        if (op.event >= 0) Add(op);
        break;
      default:
        if (!profile_.one_stream) NewStream();
        break;
    }
  }

  void Errors() {
    Op op = Make(Kind::kBad);
    if (!profile_.bad_calls || random_.Chance(50)) {
      op.kind = random_.Of({Kind::kLastError, Kind::kPeekError, Kind::kPointerType});
      if (op.kind == Kind::kPointerType) op.dst = HostBuffer();
      if (op.kind != Kind::kPointerType || op.dst >= 0) Add(op);
      return;
    }
    op.flavor = static_cast<int>(random_.Below(kBadCount));
    op.stream = AnyStream(op.thread);
    // A block of the pool's that large may have something behind it (docs/allocator.md).
    const bool to_its_end = op.flavor == kBadPastDestination || op.flavor == kBadPastSource;
    op.dst = FindBuffer([to_its_end](const Model::Buffer& buffer) {
      return buffer.place == Place::kDevice && (!to_its_end || buffer.bytes < size_t{2} << 20);
    });
    op.src = WritablePageable();
    if (op.flavor == kBadPastSource) std::swap(op.dst, op.src);
    if (op.flavor == kBadPageableSet) op.dst = op.src;
    if (!Add(op)) return;
    if (random_.Chance(50)) {
      Op sync;
      sync.kind = Kind::kStreamSync;
      sync.thread = op.thread;
      sync.stream = op.stream;
      Add(sync);
    }
    if (random_.Chance(50)) {
      Op ask;
      ask.kind = random_.Of({Kind::kLastError, Kind::kPeekError});
      ask.thread = op.thread;
      Add(ask);
    }
  }

  void ChooseProfile() {
    current_thread_ = first_thread_;
    profile_.length = random_.Between(8, 45);
    const uint64_t size = random_.Below(1000);
    if (size < 450) {
      profile_.largest = random_.Between(64, 4 * kKiB);
    } else if (size < 880) {
      profile_.largest = random_.Between(4 * kKiB, 80 * kKiB);
    } else if (size < 993) {
      profile_.largest = random_.Between(100 * kKiB, 600 * kKiB);
      profile_.length = std::min<size_t>(profile_.length, 25);
    } else {
      profile_.largest = random_.Between(2500 * kKiB, 4500 * kKiB);
      profile_.length = std::min<size_t>(profile_.length, 14);
    }
    profile_.one_stream = first_thread_ != last_thread_ && random_.Chance(50);
    profile_.legacy = program_.family != Family::kFree && !profile_.one_stream && random_.Chance(55);
    profile_.graphs = random_.Chance(35);
    if (random_.Chance(40)) profile_.doors = random_.Chance(50) ? 15 : 50;
    profile_.bad_calls = !IsSeparate(program_.family) && random_.Chance(30);
  }

  void SetUp() {
    const auto number = [this](uint64_t least, uint64_t most) { return random_.Between(least, most); };
    for (uint64_t left = profile_.one_stream ? 1 : number(1, 3); left > 0; --left) NewStream();
    for (uint64_t left = number(2, 3); left > 0; --left) NewDevice();
    for (uint64_t left = number(1, 3); left > 0; --left) NewPageable();
    for (uint64_t left = number(1, 2); left > 0; --left) NewPinned();
    profile_.length += made_;
  }

  void GraphStep() {
    switch (random_.Below(8)) {
      case 0:
      case 1:
      case 2:
        BeginCapture();
        break;
      case 3:
        EndGraph();
        break;
      default:
        Launch();
        break;
    }
  }

  void Step() {
    if (profile_.graphs && random_.Chance(25)) {
      GraphStep();
      return;
    }
    if (profile_.largest > kReadAtCall && random_.Chance(25)) {
      LateSource();
      return;
    }
    const uint64_t draw = random_.Below(100);
    if (draw < 24) {
      BlockingCopy();
    } else if (draw < 34) {
      Story();
    } else if (draw < 46) {
      AnyCopy();
    } else if (draw < 58) {
      Kernel();
    } else if (draw < 61) {
      HostFunction();
    } else if (draw < 64) {
      Memset();
    } else if (draw < 71) {
      HostAccess();
    } else if (draw < 74) {
      Record();
    } else if (draw < 77) {
      Wait();
    } else if (draw < 81) {
      Query();
    } else if (draw < 84) {
      Synchronize();
    } else if (draw < 90) {
      LifeCycle();
    } else if (draw < 92) {
      Errors();
    } else {
      Story();
    }
  }

  Program& program_;
  Random& random_;
  Model model_;
  Profile profile_;
  int first_thread_;
  int last_thread_;
  int current_thread_ = 0;
  int last_stream_ = -1;
  Range buffers_{}, streams_{}, events_{}, graphs_{};
  size_t made_ = 0;
  bool ordering_ = false;
  bool capturing_ = false;
  Op capture_;
  std::vector<Op> captured_;  // by the last capture, before others took part
  Op fork_;                   // the record in the other stream; of no stream: none takes part
  Op last_copy_;
};

}  // namespace

Program Generate(Family family, uint64_t seed) {
  Program program;
  program.seed = seed;
  program.family = family;
  Random random(seed * 3 + static_cast<uint64_t>(family));
  program.sim_seed = random.Below(1000000);
  const uint64_t draw = random.Below(100);
  if (IsSeparate(family)) {
    program.threads = draw < 70 || family == Family::kDevices ? 2 : 3;
    // One part after the other; the threads pay no heed to the order of the whole.
    for (int thread = 0; thread < program.threads; ++thread) Generator(&program, &random, thread, thread).Run();
  } else {
    program.threads = draw < 65 ? 1 : (draw < 90 ? 2 : 3);
    Generator(&program, &random, 0, program.threads - 1).Run();
  }
  return program;
}

}  // namespace differential
