#include "tests/sim/driver/world.h"

#include <limits.h>
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

namespace {

thread_local ThreadState* this_thread = nullptr;
thread_local int rounds_of_exit = 0;
pthread_key_t exit_key;

// Other libraries' thread-exit handlers may call CUDA, and run in no order that anybody knows: this one waits for the
// last round that the C library makes. ThreadSanitizer forgets the thread in that round, perhaps before us.
#if defined(__SANITIZE_THREAD__)
constexpr int kLastRound = PTHREAD_DESTRUCTOR_ITERATIONS - 1;
#else
constexpr int kLastRound = PTHREAD_DESTRUCTOR_ITERATIONS;
#endif

void ForgetThread(void* state) {
  if (++rounds_of_exit < kLastRound) {
    pthread_setspecific(exit_key, state);
    return;
  }
  delete this_thread;
  this_thread = nullptr;
}

}  // namespace

ThreadState& ThisThread() {
  static const bool have_key = pthread_key_create(&exit_key, ForgetThread) == 0;
  if (this_thread == nullptr) {
    this_thread = new ThreadState;
    if (have_key) {
      pthread_setspecific(exit_key, this_thread);
    }
  }
  return *this_thread;
}

// The streams themselves belong to their contexts; nothing is to be waited for (semantics: thread exit is no
// synchronization).
ThreadState::~ThreadState() = default;

void RegisterForkHandler() {
  static const int registered = pthread_atfork(nullptr, nullptr, AfterForkInChild);
  (void)registered;
}

}  // namespace simcuda
