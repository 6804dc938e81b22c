#include "tests/sim/driver/world.h"

#include <pthread.h>

#include "tests/sim/driver/graph.h"
#include "tests/sim/driver/pool.h"

namespace simcuda {
namespace {

// A child of fork has no device: CUDA does not survive it, and the mutex may be held by a thread that is not there.
void AfterForkInChild() {
  World& world = TheWorld();
  world.forked.store(true, std::memory_order_relaxed);
}

World* MakeWorld() {
  auto* world = new World;
  for (int i = 0; i < kDeviceCount; ++i) {
    world->devices[i].ordinal = i;
    world->devices[i].total_bytes = size_t{1} << 30;
  }
  ReadEnvironment(*world);
  world->random_state = world->settings.seed * 0x9E3779B97F4A7C15u + 1;
  return world;
}

}  // namespace

World::World() = default;

World& TheWorld() {
  static World* const world = MakeWorld();
  return *world;
}

ThreadState& ThisThread() {
  static thread_local ThreadState state;
  return state;
}

// The streams themselves belong to their contexts; nothing is to be waited for (semantics: thread exit is no
// synchronise).
ThreadState::~ThreadState() = default;

void RegisterForkHandler() {
  static const int registered = pthread_atfork(nullptr, nullptr, AfterForkInChild);
  (void)registered;
}

}  // namespace simcuda
