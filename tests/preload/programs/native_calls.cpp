// A program whose native stacks are known: functions that call each other, and in the end CUDA. Unaware of slipstream.
//
//   native_calls chain                  by the main thread and by a thread of its own
//   native_calls deep DEPTH             out of a recursion
//   native_calls storm THREADS CALLS    each thread from four depths in turn; waits for the others before its first
//   call native_calls fork                   before, in the child, and after native_calls handler                in the
//   handler of a signal native_calls end                    when a thread is taken down native_calls plugin LIBRARY
//   while it is loaded, from it, and again when it was loaded once more

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

// Behind each call something is left to do, so that none is its function's last.
namespace chain {

std::atomic<int> g_left{0};

[[gnu::noinline]] int Inner(int more) {
  const int status = cudaPeekAtLastError();
  g_left.fetch_add(more, std::memory_order_relaxed);
  return status;
}
template <typename Number>
[[gnu::noinline]] int Middle(Number more) {
  const int status = Inner(static_cast<int>(more));
  g_left.fetch_add(static_cast<int>(more), std::memory_order_relaxed);
  return status;
}
[[gnu::noinline]] int Outer(int more) {
  const int status = Middle<long>(more);
  g_left.fetch_add(more, std::memory_order_relaxed);
  return status;
}
[[gnu::noinline]] int Recursion(int depth) {  // NOLINT(misc-no-recursion): what it is for
  const int status = depth == 0 ? Outer(1) : Recursion(depth - 1);
  g_left.fetch_add(depth, std::memory_order_relaxed);
  return status;
}

[[gnu::noinline]] void* Thread(void* failed) {
  const int status = Outer(2);
  g_left.fetch_add(1, std::memory_order_relaxed);
  return status == 0 ? nullptr : failed;
}
[[gnu::noinline]] void AtTheEnd(void* /*unused*/) {
  Outer(3);
  g_left.fetch_add(1, std::memory_order_relaxed);
}
[[gnu::noinline]] void Handler(int /*signal*/) {
  Outer(4);
  g_left.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace chain

namespace {

int g_something = 0;

int Say(int status) {
  std::printf("%d\n", status);
  return status;
}

int Storm(int threads, int calls) {
  chain::Recursion(0);  // while the first call sets slipstream up, those of other threads are not recorded
  std::atomic<int> waiting{threads};
  std::atomic<int> failed{0};
  std::vector<std::thread> all;
  all.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      waiting.fetch_sub(1);
      while (waiting.load() != 0) std::this_thread::yield();
      for (int call = 0; call < calls; ++call) failed.fetch_add(chain::Recursion(call % 4));
    });
  }
  for (std::thread& thread : all) thread.join();
  return failed.load();
}

int Fork() {
  chain::Outer(1);
  const pid_t child = fork();
  if (child == 0) _exit(chain::Outer(1) == 0 ? 5 : 6);
  int status = 0;
  waitpid(child, &status, 0);
  chain::Outer(1);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int ThreadThatEnds() {
  std::thread([] {
    pthread_key_t key = 0;
    if (pthread_key_create(&key, chain::AtTheEnd) == 0) pthread_setspecific(key, &g_something);
  }).join();
  return 0;
}

int Plugin(const char* path) {
  for (int i = 0; i < 2; ++i) {
    void* const plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) return std::printf("%s\n", dlerror());
    reinterpret_cast<int (*)()>(dlsym(plugin, "PluginCall"))();
    dlclose(plugin);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return i < argc ? std::atoi(argv[i]) : 0; };
  if (what == "chain") {
    pthread_t thread = 0;
    void* failed = nullptr;
    if (pthread_create(&thread, nullptr, chain::Thread, &g_something) != 0) return 1;
    pthread_join(thread, &failed);
    return Say(chain::Outer(1) + (failed != nullptr ? 1 : 0));
  }
  if (what == "deep") return Say(chain::Recursion(number(2)));
  if (what == "storm") return Say(Storm(number(2), number(3)));
  if (what == "fork") return Say(Fork()) == 5 ? 0 : 1;
  if (what == "end") return Say(ThreadThatEnds());
  if (what == "plugin" && argc > 2) return Say(Plugin(argv[2]));
  if (what == "handler") {
    chain::Outer(1);  // what a first call sets up is not made for a handler
    std::signal(SIGUSR1, chain::Handler);
    return Say(std::raise(SIGUSR1));
  }
  return 2;
}
