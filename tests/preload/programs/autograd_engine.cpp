// Stands in for PyTorch's autograd engine in programs of Python's: a thread that Python did not start, with a name,
// that copies what it is told to while whoever told it waits.

#include <cuda_runtime_api.h>
#include <pthread.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

class Engine {
 public:
  explicit Engine(const std::string& name) {
    std::thread([this, name] {
      pthread_setname_np(pthread_self(), name.c_str());
      Serve();
    }).detach();
  }
  // Until it has done the work.
  void Run(const std::function<void()>& work) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return work_ == nullptr; });
    work_ = &work;
    changed_.notify_all();
    changed_.wait(lock, [&] { return work_ != &work; });
  }

 private:
  void Serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return work_ != nullptr; });
      lock.unlock();
      (*work_)();
      lock.lock();
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
};

}  // namespace

EXPORT void* EngineStart(const char* name) { return new Engine(name); }

// So many copies of so many bytes; 0, or what the first one that failed returned.
EXPORT int EngineCopy(void* engine, size_t bytes, int copies) {
  int status = 0;
  static_cast<Engine*>(engine)->Run([&] {
    void* device = nullptr;
    std::vector<char> source(bytes);
    status = cudaMalloc(&device, bytes);
    for (int i = 0; i < copies && status == 0; ++i) {
      status = cudaMemcpyAsync(device, source.data(), bytes, cudaMemcpyHostToDevice, nullptr);
      if (status == 0) status = cudaStreamSynchronize(nullptr);
    }
    cudaFree(device);
  });
  return status;
}

// Calls a function, as an engine calls that of a program's own.
EXPORT void EngineCall(void* engine, void (*function)()) { static_cast<Engine*>(engine)->Run(function); }
