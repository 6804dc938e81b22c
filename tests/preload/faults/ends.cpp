// A CUDA program that ends in every way there is, while its other threads copy, allocate and free. Unaware of
// slipstream.
//
//   ends WAY            exit, return, exec, _exit, quick_exit, abort, terminate, thread_throws, pthread_exit,
//                       kill NUMBER, handled NUMBER
//   ends held FUNCTION  exit, while a thread stands inside that function of the driver (if it ever calls it)
//   ends late FUNCTION  the same, with a thread that makes one blocking copy, and leaves that function soon after
//                       exit has begun
//   ends signals        what is done about each signal, before and after the first use of CUDA
//   ends stack BYTES    all of its use of CUDA is on a thread with such a stack
//   ends waits          says "ready" when it has used CUDA, and goes on until it is killed

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/simcuda.h"

namespace {

constexpr size_t kBytes = size_t{3} << 20;
constexpr int kThreads = 3;

std::atomic<int> g_rounds{0};

void Round(cudaStream_t stream, std::vector<uint8_t>* host) {
  void* device = nullptr;
  if (cudaMalloc(&device, kBytes) != cudaSuccess) return;
  for (const size_t bytes : {size_t{4096}, kBytes}) {
    cudaMemcpyAsync(device, host->data(), bytes, cudaMemcpyHostToDevice, stream);
    cudaStreamSynchronize(stream);
    cudaMemcpyAsync(host->data(), device, bytes, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
  }
  cudaFree(device);
  g_rounds.fetch_add(1);
}

// Until the process is gone.
void Work() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  std::vector<uint8_t> host(kBytes, 1);
  while (true) Round(stream, &host);
}

// All of them are at it when this returns, and so is slipstream: threads whose first calls come while another one sets
// it up are not kept waiting, and could have done all that is waited for here by then.
void StartThreads() {
  std::vector<uint8_t> host(kBytes, 1);
  Round(nullptr, &host);
  for (int i = 0; i < kThreads; ++i) std::thread(Work).detach();
  while (g_rounds.load() < 1 + 2 * kThreads) {
  }
}

struct CallsAtExit {
  bool armed = false;
  ~CallsAtExit() {
    if (armed) std::printf("destructor: %d\n", static_cast<int>(cudaPeekAtLastError()));
  }
};
CallsAtExit g_calls_at_exit;

void AtExit() {
  void* device = nullptr;
  const int allocated = static_cast<int>(cudaMalloc(&device, 4096));
  std::printf("exit handler: %d %d\n", allocated, static_cast<int>(cudaFree(device)));
}

volatile sig_atomic_t g_signals = 0;
void Handle(int) { g_signals = g_signals + 1; }

int Held(const char* function) {
  // The context and the engines are there, and it is not their making that is held.
  std::vector<uint8_t> host(kBytes, 1);
  Round(nullptr, &host);
  simHoldCalls(function);
  std::thread(Work).detach();
  const int before = g_rounds.load();
  while (simHeldCalls() == 0 && g_rounds.load() < before + 20) {
  }
  std::printf("leaving\n");
  std::exit(3);
}

int Late(const char* function) {
  std::vector<uint8_t> host(kBytes, 1);
  Round(nullptr, &host);
  static void* device = nullptr;
  if (cudaMalloc(&device, kBytes) != cudaSuccess) return 1;
  static std::atomic<bool> done{false};
  simHoldCalls(function);
  std::thread([&host] {
    cudaMemcpy(device, host.data(), kBytes, cudaMemcpyHostToDevice);
    done.store(true);
    while (true) pause();
  }).detach();
  while (simHeldCalls() == 0 && !done.load()) {
  }
  // The function takes so long, and its caller goes on while the process ends.
  std::atexit([] {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      simReleaseCalls();
    }).detach();
  });
  std::printf("leaving\n");
  std::exit(3);
}

// The first use and all others: where the first is elsewhere, another thread has set slipstream up.
int OnSmallStack(size_t bytes) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, bytes) != 0) return 1;
  static std::vector<uint8_t> host(kBytes, 1);
  const auto body = [](void*) -> void* {
    for (int i = 0; i < 20; ++i) Round(nullptr, &host);
    return nullptr;
  };
  pthread_t thread;
  if (pthread_create(&thread, &attributes, body, nullptr) != 0) return 1;
  pthread_join(thread, nullptr);
  std::printf("%d rounds\n", g_rounds.load());
  return 0;
}

int Signals() {
  const auto print = [](const char* when) {
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction action = {};
      if (sigaction(number, nullptr, &action) != 0) continue;
      std::printf("%s %d: %s flags %x\n", when, number,
                  action.sa_handler == SIG_DFL ? "default" : (action.sa_handler == SIG_IGN ? "ignored" : "a handler"),
                  static_cast<unsigned>(action.sa_flags));
    }
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    for (int number = 1; number < NSIG; ++number) {
      if (sigismember(&blocked, number) == 1) std::printf("%s %d is blocked\n", when, number);
    }
  };
  signal(SIGUSR1, Handle);
  signal(SIGPIPE, SIG_IGN);
  print("before");
  std::vector<uint8_t> host(kBytes, 1);
  Round(nullptr, &host);
  print("after");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): one of the ways to end
  const std::string way = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  if (way == "held") return Held(argv[2]);
  if (way == "late") return Late(argv[2]);
  if (way == "signals") return Signals();
  if (way == "stack") return OnSmallStack(static_cast<size_t>(number));
  if (way == "waits") {
    StartThreads();
    std::printf("ready\n");
    std::fflush(stdout);
    while (true) pause();
  }
  if (way == "handled") signal(number, Handle);
  StartThreads();
  std::printf("before the end\n");
  std::fflush(stdout);
  if (way == "exit" || way == "return") {
    g_calls_at_exit.armed = true;
    std::atexit(AtExit);
    if (way == "return") return 4;
    std::exit(5);
  }
  if (way == "exec") execl("/bin/sh", "sh", "-c", "exit 6", static_cast<char*>(nullptr));
  if (way == "_exit") _exit(7);
  if (way == "quick_exit") {
    std::at_quick_exit([] {
      std::printf("quick handler\n");
      std::fflush(stdout);
    });
    std::quick_exit(8);
  }
  if (way == "abort") std::abort();
  if (way == "terminate") throw std::runtime_error("nobody catches this");
  if (way == "thread_throws") std::thread([] { throw std::runtime_error("nor this"); }).join();
  if (way == "pthread_exit") {
    // The process ends with the thread that ends it.
    std::thread([main_thread = pthread_self()] {
      pthread_join(main_thread, nullptr);
      std::exit(9);
    }).detach();
    pthread_exit(nullptr);
  }
  if (way == "kill") {
    kill(getpid(), number);
    while (true) pause();
  }
  if (way == "handled") {
    kill(getpid(), number);  // to any thread of the program's that does not block it
    while (g_signals == 0) {
    }
    std::printf("handled\n");
    return 10;
  }
  return 2;
}
