// A CUDA program with many ways to behave, for the simulated device. Linked to libcudart like any other, and unaware of
// slipstream; what it prints must be the same bare and under the preload.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/simcuda.h"

namespace {

constexpr int kFloats = 4096;

void Scale() {}  // stands for the kernel: its address is the handle, as the stub that nvcc makes

void ScaleBody(const simLaunch*, void** arguments) {
  auto* const device = *static_cast<float**>(arguments[0]);
  const float factor = *static_cast<float*>(arguments[1]);
  auto* const values = static_cast<float*>(simDevicePointer(device, kFloats * sizeof(float)));
  if (values == nullptr) return;
  for (int i = 0; i < kFloats; ++i) values[i] *= factor;
}

const void* ScaleKernel() { return reinterpret_cast<const void*>(&Scale); }

int Register() {
  const size_t sizes[] = {sizeof(float*), sizeof(float)};
  return simRegisterKernel(ScaleKernel(), "scale", ScaleBody, sizes, 2, 1000);
}

bool Failed(const char* what, cudaError_t status) {
  if (status != cudaSuccess) std::printf("%s: %d\n", what, static_cast<int>(status));
  return status != cudaSuccess;
}

// `steps` training steps in small: batch in, kernel, loss out, a temporary allocated and freed.
// Where an allocation may throw: another preload is in front of the runtime, or behind it.
int Catch() {
  void* memory = nullptr;
  float number = 1;
  for (int i = 0; i < 6; ++i) {
    try {
      Failed("cudaMalloc", cudaMalloc(&memory, 1 << 20));
      Failed("copy in", cudaMemcpy(memory, &number, sizeof(number), cudaMemcpyHostToDevice));
      Failed("cudaFree", cudaFree(memory));
      std::printf("allocated\n");
    } catch (const std::exception& error) {
      std::printf("caught: %s\n", error.what());
    }
    int state = -1;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    if (state != PTHREAD_CANCEL_ENABLE) std::printf("cancellation is disabled\n");
  }
  return 0;
}

int Allocate() {
  for (int i = 0; i < 4; ++i) {
    void* memory = nullptr;
    if (Failed("cudaMalloc", cudaMalloc(&memory, 8 << 20))) return 1;
  }
  return 0;
}

int Workload(int steps) {
  Register();
  std::vector<float> batch(kFloats);
  float* device = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  if (Failed("cudaMalloc", cudaMalloc(reinterpret_cast<void**>(&device), kFloats * sizeof(float)))) return 1;
  if (Failed("cudaStreamCreate", cudaStreamCreate(&stream))) return 1;
  if (Failed("cudaEventCreate", cudaEventCreate(&event))) return 1;
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < kFloats; ++i) batch[i] = static_cast<float>(step + i % 7);
    const size_t bytes = kFloats * sizeof(float);
    float factor = 0.5F;
    void* arguments[] = {&device, &factor};
    void* temporary = nullptr;
    Failed("cudaMalloc", cudaMalloc(&temporary, 1 << 20));
    Failed("copy in", cudaMemcpyAsync(device, batch.data(), bytes, cudaMemcpyHostToDevice, stream));
    Failed("launch", cudaLaunchKernel(ScaleKernel(), dim3(16), dim3(256), arguments, 0, stream));
    Failed("last error", cudaGetLastError());
    Failed("record", cudaEventRecord(event, stream));
    float loss = 0;
    Failed("copy out", cudaMemcpyAsync(&loss, device + step % kFloats, sizeof(loss), cudaMemcpyDeviceToHost, stream));
    Failed("synchronize", cudaStreamSynchronize(stream));
    Failed("query", cudaEventQuery(event));
    Failed("cudaFree", cudaFree(temporary));
    std::printf("step %d loss %a\n", step, static_cast<double>(loss));
  }
  // A refused call: its status, and what the last error says after it.
  int on_stack = 0;
  std::printf("bad free: %d", static_cast<int>(cudaFree(&on_stack)));
  std::printf(", last error %d", static_cast<int>(cudaGetLastError()));
  std::printf(", then %d\n", static_cast<int>(cudaGetLastError()));
  Failed("cudaEventDestroy", cudaEventDestroy(event));
  Failed("cudaStreamDestroy", cudaStreamDestroy(stream));
  Failed("cudaFree", cudaFree(device));
  return 0;
}

int MallocAndFree() {
  void* pointer = nullptr;
  const cudaError_t status = cudaMalloc(&pointer, 4096);
  if (status == cudaSuccess) cudaFree(pointer);
  return static_cast<int>(status);
}

// A program whose only context is one of its own, as with cuCtxCreate: it never has the device's primary one, or not
// before it lets go of its own.
int OwnContext(bool then_primary) {
  CUcontext own = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v4(&own, nullptr, 0, 0) != CUDA_SUCCESS) return 1;
  std::vector<char> host(size_t{1} << 20, 'x');
  void* device = nullptr;
  int failed = 0;
  for (int i = 0; i < 3; ++i) {
    failed += cudaMalloc(&device, host.size()) != cudaSuccess ? 1 : 0;
    failed += cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice) != cudaSuccess ? 1 : 0;
    failed += cudaFree(device) != cudaSuccess ? 1 : 0;
  }
  unsigned flags = 0;
  int active = -1;
  cuDevicePrimaryCtxGetState(0, &flags, &active);
  std::printf("%d failed, primary context active: %d\n", failed, active);
  if (then_primary) {
    cuCtxSetCurrent(nullptr);
    for (int i = 0; i < 3; ++i) failed += MallocAndFree() != 0 ? 1 : 0;
    std::printf("%d failed\n", failed);
  }
  return cuCtxDestroy_v2(own) == CUDA_SUCCESS ? failed : 2;
}

void PrintChild(const char* what, pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("%s: %s %d\n", what, WIFSIGNALED(status) ? "signal" : "exit",
              WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

// A child of a process that has used CUDA: its calls fail as they do bare, and it can exec.
int Fork() {
  std::printf("parent before: %d\n", MallocAndFree());
  std::fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(MallocAndFree());
  PrintChild("fork", child);
  child = fork();
  if (child == 0) {
    execlp("true", "true", static_cast<char*>(nullptr));
    _exit(99);
  }
  PrintChild("fork and exec", child);
  child = vfork();
  if (child == 0) {
    execlp("true", "true", static_cast<char*>(nullptr));
    _exit(99);
  }
  PrintChild("vfork and exec", child);
  std::vector<char> stack(1 << 20);
  child = clone([](void*) { return MallocAndFree(); }, stack.data() + stack.size(), SIGCHLD, nullptr);
  PrintChild("clone", child);
  std::printf("parent after: %d\n", MallocAndFree());
  return 0;
}

// A child of a process that has not used CUDA yet: it is the first to use it.
int ForkFirst() {
  const pid_t child = fork();
  if (child == 0) _exit(MallocAndFree());
  PrintChild("fork", child);
  std::printf("parent: %d\n", MallocAndFree());
  return 0;
}

// Forks while other threads are in CUDA calls, the first of the process among them.
int ForkInStorm() {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop.load()) MallocAndFree();
    });
  }
  int clean = 0;
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      cudaGetLastError();
      _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (status == 0) ++clean;
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  std::printf("%d of 50 children ended well\n", clean);
  return 0;
}

// Inside the loader's list of objects, with its lock, until it is destroyed.
class InsideLoader {
 public:
  InsideLoader() {
    thread_ = std::thread([this] {
      const auto stay = [](dl_phdr_info*, size_t, void* data) {
        auto* const here = static_cast<InsideLoader*>(data);
        here->inside_.store(true);
        here->inside_.notify_all();
        here->leave_.wait(false);
        return 1;
      };
      dl_iterate_phdr(stay, this);
    });
    inside_.wait(false);
  }
  ~InsideLoader() {
    leave_.store(true);
    leave_.notify_all();
    thread_.join();
  }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<bool> leave_{false};
  std::thread thread_;
};

// A child that calls CUDA; an alarm ends it where it waits for a lock that nobody gives back.
int StatusOfChild() {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    cudaGetLastError();
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status;
}

// Forks while another thread has the loader's lock, which the child then has for ever.
int ForkBesideLoader() {
  MallocAndFree();
  int status = 1;
  {
    const InsideLoader inside;
    status = StatusOfChild();
  }
  std::printf("child ended with %d\n", status);
  return 0;
}

bool WaitsForLock(pid_t thread) {
  char call[8] = {};
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/syscall";
  FILE* const file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return false;
  const bool is_futex = std::fgets(call, sizeof(call), file) != nullptr && std::atoi(call) == SYS_futex;
  std::fclose(file);
  return is_futex;
}

// The same, while another thread is at the first call of the process, and waits for that lock.
int ForkBesideFirstCall() {
  std::atomic<pid_t> caller{0};
  std::thread first;
  int status = 1;
  {
    const InsideLoader inside;
    first = std::thread([&] {
      caller.store(gettid());
      cudaPeekAtLastError();
    });
    while (caller.load() == 0 || !WaitsForLock(caller.load())) {
    }
    status = StatusOfChild();
  }
  first.join();
  std::printf("child ended with %d\n", status);
  return 0;
}

// The first hooked calls of the process come from many threads at once.
int FirstCallRace(int threads, int calls) {
  std::atomic<int> waiting{threads};
  std::atomic<int> failures{0};
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) {
    pool.emplace_back([&] {
      waiting.fetch_sub(1);
      while (waiting.load() != 0) {
      }
      for (int c = 0; c < calls; ++c) {
        if (MallocAndFree() != 0) failures.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  std::printf("%d failures\n", failures.load());
  return 0;
}

// Many threads allocate at once, all of them behind the process's first call.
int AllocateOnThreads(int threads, int calls) {
  std::atomic<int> failures{MallocAndFree() == 0 ? 0 : 1};
  pthread_barrier_t together;
  pthread_barrier_init(&together, nullptr, static_cast<unsigned>(threads));
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) {
    pool.emplace_back([&] {
      pthread_barrier_wait(&together);
      for (int c = 0; c < calls; ++c) {
        if (MallocAndFree() != 0) failures.fetch_add(1);
      }
      pthread_barrier_wait(&together);  // none ends before all have called: each has a thread id of its own
    });
  }
  for (std::thread& thread : pool) thread.join();
  pthread_barrier_destroy(&together);
  std::printf("%d failures\n", failures.load());
  return 0;
}

constexpr int kCallsOfAThread = 5000;

// Many threads at once, again and again: more than there are slots for.
int ManyThreads(int threads, int at_once) {
  cudaGetLastError();  // the process's first call, alone
  for (int i = 0; i < threads; i += at_once) {
    pthread_barrier_t together;
    pthread_barrier_init(&together, nullptr, static_cast<unsigned>(at_once));
    std::vector<std::thread> pool;
    for (int k = 0; k < at_once; ++k) {
      pool.emplace_back([&] {
        cudaPeekAtLastError();
        pthread_barrier_wait(&together);  // all of them hold a slot now
        for (int call = 1; call < kCallsOfAThread; ++call) cudaPeekAtLastError();
      });
    }
    for (std::thread& thread : pool) thread.join();
    pthread_barrier_destroy(&together);
  }
  std::printf("done\n");
  return 0;
}

struct CallsAtExit {
  bool armed = false;
  ~CallsAtExit() {
    if (!armed) return;
    std::printf("at exit: %d\n", static_cast<int>(cudaPeekAtLastError()));
    std::fflush(stdout);
  }
};
CallsAtExit g_calls_at_exit;

int AtExit() {
  g_calls_at_exit.armed = true;
  std::printf("before: %d\n", MallocAndFree());
  // A thread that is still calling when the process ends.
  std::thread([] {
    while (true) cudaPeekAtLastError();
  }).detach();
  return 0;
}

int UseLibraries(const std::vector<std::string>& paths, int flags) {
  std::vector<int (*)()> uses;
  for (const std::string& path : paths) {
    void* const handle = dlopen(path.c_str(), RTLD_NOW | flags);
    if (handle == nullptr) {
      std::printf("%s\n", dlerror());
      return 1;
    }
    uses.push_back(reinterpret_cast<int (*)()>(dlsym(handle, "UseCuda")));
    std::printf("uses runtime %d\n", uses.back()());
  }
  for (auto* const use : uses) std::printf("again %d\n", use());
  return 0;
}

// The first library is loaded, and unused, when the process forks; the child loads the second, and uses both.
int UseInChild(const std::vector<std::string>& paths) {
  if (dlopen(paths[0].c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) return 1;
  // As a library with kernels does when it is loaded: no use of CUDA, but slipstream looks for runtimes.
  void* const enroll = dlsym(RTLD_DEFAULT, "__cudaRegisterFatBinary");
  void** const enrolled = enroll == nullptr ? nullptr : reinterpret_cast<void** (*)(void*)>(enroll)(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int status = UseLibraries(paths, RTLD_LOCAL);
    std::fflush(stdout);
    _exit(status);
  }
  int status = 1;
  waitpid(child, &status, 0);
  void* const strike = dlsym(RTLD_DEFAULT, "__cudaUnregisterFatBinary");
  if (strike != nullptr && enrolled != nullptr) reinterpret_cast<void (*)(void**)>(strike)(enrolled);
  return status;
}

// Calls of a library that names no libcudart itself, many times over, while two are loaded.
int UseOften(const std::vector<std::string>& paths) {
  std::vector<int (*)()> uses;
  for (const std::string& path : paths) {
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      std::printf("%s\n", dlerror());
      return 1;
    }
    uses.push_back(reinterpret_cast<int (*)()>(dlsym(handle, "UseCuda")));
    uses.back()();
  }
  int right = 0;
  for (int i = 0; i < 200; ++i) right += uses.back()() == 13000 ? 1 : 0;
  std::printf("%d of 200 answered by the program's own runtime\n", right);
  return 0;
}

// The library's own calls of functions whose signature depends on the runtime.
int UsePrefetch(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      std::printf("%s\n", dlerror());
      return 1;
    }
    std::printf("prefetch %d\n", reinterpret_cast<int (*)()>(dlsym(handle, "UsePrefetch"))());
  }
  return 0;
}

// Loads the library, uses it, unloads it, and again.
int Reload(const std::string& path) {
  for (int i = 0; i < 3; ++i) {
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      std::printf("%s\n", dlerror());
      return 1;
    }
    std::printf("uses runtime %d\n", reinterpret_cast<int (*)()>(dlsym(handle, "UseCuda"))());
    dlclose(handle);
    // Takes the place that was freed, so that what comes back comes back elsewhere.
    for (int hole = 0; hole < 64; ++hole) mmap(nullptr, 128 << 10, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  return 0;
}

// As a program with weak references probes for newer functions.
int Probe(const char* name) {
  auto* const function = reinterpret_cast<int (*)(void*, void*, int)>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) {
    std::printf("%s is absent\n", name);
    return 0;
  }
  std::printf("%s answers %d\n", name, function(nullptr, nullptr, 0));
  return 0;
}

int Threads() {
  int count = 0;
  FILE* const status = std::fopen("/proc/self/status", "re");
  char line[256];
  while (status != nullptr && std::fgets(line, sizeof(line), status) != nullptr) {
    if (std::strncmp(line, "Threads:", 8) == 0) count = std::atoi(line + 8);
  }
  if (status != nullptr) std::fclose(status);
  return count;
}

// Loads a library whose constructor waits for a thread that calls CUDA, which the process uses already, by the runtime
// or by the driver alone.
int WaitInConstructor(const char* library, bool by_driver) {
  CUdeviceptr memory = 0;
  CUcontext context = nullptr;
  const bool failed = by_driver
                          ? cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
                                cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&memory, 4096) != CUDA_SUCCESS
                          : MallocAndFree() != 0;
  if (failed) return 1;
  std::fflush(stdout);
  alarm(20);
  if (dlopen(library, RTLD_LAZY | RTLD_LOCAL) == nullptr) return std::printf("%s\n", dlerror());
  return 0;
}

// What programs do to their variables before they use CUDA, and to the block that those lay in (setproctitle).
int Forget(const std::string& how) {
  if (how == "clear") clearenv();
  if (how == "overwrite") {
    for (char** variable = environ; *variable != nullptr; ++variable)
      std::memset(*variable, 'x', std::strlen(*variable));
  }
  if (how == "change") {
    for (const char* const on : {"SLIPSTREAM_ENABLED", "SLIPSTREAM_DISABLE"})
      setenv(on, on[11] == 'E' ? "true" : "0", 1);
    for (const char* const off : {"SLIPSTREAM_RUN_DIRECTORY", "SLIPSTREAM_POLICY"}) unsetenv(off);
  }
  return chdir("/") == 0 ? Workload(3) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const std::vector<std::string> rest(argv + (argc > 2 ? 2 : argc), argv + argc);
  const auto number = [&](size_t at, int otherwise) {
    return rest.size() > at ? std::atoi(rest[at].c_str()) : otherwise;
  };
  if (what == "nothing") {
    std::printf("%d threads\n", Threads());
    return 0;
  }
  if (what == "catch") return Catch();
  if (what == "allocate") return Allocate();
  if (what == "workload") return Workload(number(0, 3));
  if (what == "wait_in_constructor") return WaitInConstructor(rest[0].c_str(), false);
  if (what == "wait_in_constructor_by_driver") return WaitInConstructor(rest[0].c_str(), true);
  if (what == "forget") return Forget(rest[0]);
  if (what == "fork") return Fork();
  if (what == "fork_first") return ForkFirst();
  if (what == "fork_in_storm") return ForkInStorm();
  if (what == "fork_beside_loader") return ForkBesideLoader();
  if (what == "fork_beside_first_call") return ForkBesideFirstCall();
  if (what == "first_call_race") return FirstCallRace(number(0, 8), number(1, 100));
  if (what == "allocate_on_threads") return AllocateOnThreads(number(0, 8), number(1, 100));
  if (what == "many_threads") return ManyThreads(number(0, 64), number(1, 16));
  if (what == "at_exit") return AtExit();
  if (what == "exit_now") {
    MallocAndFree();
    _exit(number(0, 0));
  }
  if (what == "die") {
    MallocAndFree();
    std::fflush(stdout);
    kill(getpid(), number(0, SIGKILL));
    pause();
  }
  if (what == "own_context") return OwnContext(false);
  if (what == "own_context_first") return OwnContext(true);
  if (what == "use") return UseLibraries(rest, RTLD_LOCAL);
  if (what == "use_deepbind") return UseLibraries(rest, RTLD_LOCAL | RTLD_DEEPBIND);
  if (what == "use_in_child") return UseInChild(rest);
  if (what == "use_often") return UseOften(rest);
  if (what == "use_prefetch") return UsePrefetch(rest);
  if (what == "reload") return Reload(rest[0]);
  if (what == "probe") return Probe(rest[0].c_str());
  if (what == "failing_malloc") {
    simFailCall("cudaMalloc", static_cast<int>(cudaErrorMemoryAllocation), 2, 0);
    const int first = MallocAndFree();
    const int second = MallocAndFree();
    std::printf("%d %d, last error %d\n", first, second, static_cast<int>(cudaGetLastError()));
    return 0;
  }
  std::fprintf(stderr, "unknown: %s\n", what.c_str());
  return 2;
}
