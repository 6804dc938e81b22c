// Runs operations: on demand and as late as allowed (adversarial), or by themselves in time (executor.cpp).
#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/sim/driver/executor.h"
#include "tests/sim/driver/observe.h"
#include "tests/sim/driver/world.h"

namespace simcuda {
namespace {

bool Runnable(const Op& op) { return !op.work.condition || op.work.condition(); }

void SetTimes(World& world, const OpPtr& op) {
  uint64_t start = op->ready_ns;
  if (op->work.engine != Engine::kNone) {
    uint64_t& engine_free = world.devices[op->device].engine_free_ns[static_cast<int>(op->work.engine)];
    start = std::max(start, engine_free);
    op->end_ns = start + op->work.duration_ns;
    engine_free = op->end_ns;
  } else {
    op->end_ns = start;
  }
}

void AddReady(World& world, const OpPtr& op) {
  const auto place = std::lower_bound(world.ready.begin(), world.ready.end(), op,
                                      [](const OpPtr& a, const OpPtr& b) { return a->serial < b->serial; });
  world.ready.insert(place, op);
  world.changed.notify_all();
  if (world.settings.timed) {
    world.engine_wake[op->device][static_cast<int>(op->work.engine)].notify_one();
  }
}

bool Broken(const Op& op) { return op.context != nullptr && op.context->sticky != CUDA_SUCCESS; }

// Ends `first` and, in timed mode, at once what costs no time and was only waiting for it.
void Complete(World& world, const OpPtr& first) {
  std::vector<OpPtr> ended = {first};
  while (!ended.empty()) {
    const OpPtr op = ended.back();
    ended.pop_back();
    op->state = Op::State::kDone;
    --world.pending;
    ReportFinished(*op);
    const std::vector<OpPtr> dependents = std::move(op->dependents);
    op->dependents.clear();
    op->dependencies.clear();
    op->work.body = nullptr;
    op->work.condition = nullptr;
    op->stream = nullptr;  // its tail may be this operation: a circle
    for (const OpPtr& dependent : dependents) {
      dependent->ready_ns = std::max(dependent->ready_ns, op->end_ns);
      if (--dependent->unmet > 0) {
        continue;
      }
      if (world.settings.timed && dependent->work.engine == Engine::kNone && !dependent->work.condition) {
        dependent->state = Op::State::kRunning;
        SetTimes(world, dependent);
        if (dependent->work.body && !Broken(*dependent)) {
          dependent->work.body(*dependent);
        }
        ended.push_back(dependent);
      } else {
        AddReady(world, dependent);
      }
    }
  }
  world.changed.notify_all();
}

void TakeFromReady(World& world, const OpPtr& op) {
  world.ready.erase(std::find(world.ready.begin(), world.ready.end(), op));
  op->state = Op::State::kRunning;
}

// Everything that must be complete before `op` can be, itself included.
void MarkNeeded(const OpPtr& op) {
  std::vector<Op*> work = {op.get()};
  while (!work.empty()) {
    Op* next = work.back();
    work.pop_back();
    if (next->done() || next->needed) {
      continue;
    }
    next->needed = true;
    for (const OpPtr& dependency : next->dependencies) {
      work.push_back(dependency.get());
    }
  }
}

// Null when nothing can run. `only_needed` when nothing unrelated may be picked.
OpPtr Pick(World& world, bool only_needed) {
  std::vector<OpPtr> candidates;
  for (const OpPtr& op : world.ready) {
    if ((!only_needed || op->needed) && Runnable(*op)) {
      candidates.push_back(op);
    }
  }
  if (candidates.empty()) {
    return nullptr;
  }
  return candidates[Random(world, candidates.size())];
}

// Seeds 0, 4, 8.. run nothing that nobody asked for; the others now and then let unrelated work overtake.
bool LetUnrelatedRun(World& world) {
  static const uint64_t chance_of_eight[] = {0, 1, 2, 4};
  return Random(world, 8) < chance_of_eight[world.settings.seed % 4];
}

}  // namespace

uint64_t Random(World& world, uint64_t below) {
  // SplitMix64: every seed gives its own order, the same on every machine.
  world.random_state += 0x9E3779B97F4A7C15u;
  uint64_t value = world.random_state;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  value ^= value >> 31;
  return below == 0 ? value : value % below;
}

uint64_t NowNs(World& world) {
  if (!world.settings.timed) {
    return world.clock_ns;
  }
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

void Fault(Context* context, CUresult error) {
  if (context != nullptr && context->sticky == CUDA_SUCCESS) {
    context->sticky = error;
  }
}

// Ends a taken operation of Engine::kNone.
static void ExecuteTaken(World& world, const OpPtr& op) {
  SetTimes(world, op);
  if (op->work.body && !Broken(*op)) {
    op->work.body(*op);
  }
  Complete(world, op);
}

// Runs a taken operation to its end.
void ExecuteTaken(World& world, Lock& lock, const OpPtr& op) {
  SetTimes(world, op);
  // On a broken context nothing runs any more, but everything ends, or its waiters would hang.
  if (op->work.body && !Broken(*op)) {
    if (op->work.engine == Engine::kNone) {
      op->work.body(*op);
    } else {
      op->began_ns = ObservedNowNs();
      lock.unlock();
      if (op->work.engine == Engine::kHost && !world.settings.timed) {
        RunOnCallbackThread(*op);
      } else {
        RunBody(*op);
      }
      lock.lock();
    }
  }
  Complete(world, op);
}

void StreamDependencies(const StreamPtr& stream, std::vector<OpPtr>* dependencies) {
  Context* context = stream->context;
  const auto add = [dependencies](const OpPtr& op) {
    if (op && !op->done()) {
      dependencies->push_back(op);
    }
  };
  add(stream->tail);
  add(context->barrier);
  if (stream->legacy) {
    for (const StreamPtr& other : context->streams) {
      if ((other->flags & CU_STREAM_NON_BLOCKING) == 0 && other != stream) {
        add(other->tail);
      }
    }
  } else if ((stream->flags & CU_STREAM_NON_BLOCKING) == 0) {
    add(context->legacy->tail);
  }
}

OpPtr SubmitAfter(World& world, Context* context, const StreamPtr& stream, Work work,
                  const std::vector<OpPtr>& dependencies, bool becomes_tail) {
  auto op = std::make_shared<Op>();
  op->serial = world.next_serial++;
  op->context = context;
  op->stream = stream;
  op->device = context->device->ordinal;
  op->work = std::move(work);
  if (!world.settings.timed) {
    world.clock_ns += 1000;
  }
  op->ready_ns = NowNs(world);
  op->correlation = CorrelationOfThisCall();
  op->stream_id = stream != nullptr ? static_cast<uint32_t>(stream->id) : 0;
  if (op->work.kind == Work::Kind::kKernel) {
    ++world.kernels_submitted;
  }
  for (const OpPtr& dependency : dependencies) {
    if (dependency && !dependency->done()) {
      op->dependencies.push_back(dependency);
      dependency->dependents.push_back(op);
      ++op->unmet;
    } else if (dependency) {
      op->ready_ns = std::max(op->ready_ns, dependency->end_ns);
    }
  }
  ++world.pending;
  if (stream && becomes_tail) {
    stream->tail = op;
  }
  if (op->unmet == 0) {
    if (world.settings.timed && op->work.engine == Engine::kNone && !op->work.condition) {
      op->state = Op::State::kRunning;
      ExecuteTaken(world, op);
    } else {
      AddReady(world, op);
    }
  }
  return op;
}

OpPtr Submit(World& world, const StreamPtr& stream, Work work) {
  std::vector<OpPtr> dependencies;
  StreamDependencies(stream, &dependencies);
  return SubmitAfter(world, stream->context, stream, std::move(work), dependencies, true);
}

void RunUntilDone(World& world, Lock& lock, const std::vector<OpPtr>& targets) {
  const auto all_done = [&targets] {
    return std::all_of(targets.begin(), targets.end(), [](const OpPtr& op) { return !op || op->done(); });
  };
  if (world.settings.timed) {
    world.changed.wait(lock, all_done);
    return;
  }
  for (const OpPtr& target : targets) {
    if (target) {
      MarkNeeded(target);
    }
  }
  while (!all_done()) {
    OpPtr op = Pick(world, !LetUnrelatedRun(world));
    if (!op) {
      op = Pick(world, true);
    }
    if (!op) {
      // What is needed waits for a value in memory, or for another thread. Unrelated work may bring the value.
      op = Pick(world, false);
    }
    if (op) {
      TakeFromReady(world, op);
      ExecuteTaken(world, lock, op);
    } else {
      // A value in memory changes without telling anybody, so look again after a while.
      ++world.stuck_waits;
      world.changed.wait_for(lock, std::chrono::microseconds(200));
      --world.stuck_waits;
    }
  }
  for (const OpPtr& target : targets) {
    if (target) {
      world.clock_ns = std::max(world.clock_ns, target->end_ns);
    }
  }
}

void RunSome(World& world, Lock& lock, const OpPtr& preferred) {
  if (world.settings.timed) {
    return;
  }
  for (uint64_t steps = Random(world, 4); steps > 0; --steps) {
    if (preferred && !preferred->done() && Random(world, 2) == 0) {
      MarkNeeded(preferred);
      if (OpPtr op = Pick(world, true)) {
        TakeFromReady(world, op);
        ExecuteTaken(world, lock, op);
        continue;
      }
    }
    if (OpPtr op = Pick(world, false)) {
      TakeFromReady(world, op);
      ExecuteTaken(world, lock, op);
    }
  }
}

std::vector<OpPtr> PendingOf(World& world, Context* context) {
  std::vector<OpPtr> pending;
  for (const auto& owner : world.contexts) {
    if (context != nullptr && owner.get() != context) {
      continue;
    }
    for (const StreamPtr& stream : owner->streams) {
      if (stream->tail && !stream->tail->done()) {
        pending.push_back(stream->tail);
      }
    }
    std::erase_if(owner->streams,
                  [](const StreamPtr& stream) { return stream->destroyed && (!stream->tail || stream->tail->done()); });
  }
  return pending;
}

// For the executors (timed mode): the first operation of the engine that can run, taken; null if none.
OpPtr TakeFor(World& world, int device, Engine engine) {
  for (const OpPtr& op : world.ready) {
    if (op->device == device && op->work.engine == engine && Runnable(*op)) {
      OpPtr taken = op;
      TakeFromReady(world, taken);
      return taken;
    }
  }
  return nullptr;
}

bool AnyConditionPending(World& world) {
  return std::any_of(world.ready.begin(), world.ready.end(),
                     [](const OpPtr& op) { return op->work.condition != nullptr; });
}

void CompleteTimed(World& world, const OpPtr& op) { Complete(world, op); }

}  // namespace simcuda
