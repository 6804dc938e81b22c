// The files that slipstream reads and writes while the program runs, out of the program's reach.
//
// The program may close descriptors that are not its own, and their numbers are reused at once: whoever writes by such
// a number then writes into a file of the program's. So a thread of its own opens them all, in a table of descriptors
// of its own. The program's threads cannot reach that, children do not inherit it, and exec has nothing to close.
//
// Hazard: what is called on that thread sees other files behind the process's numbers. An allocator with a log, a
// profiler, a library that wraps read and write: none of them may run there. So that thread does nothing but system
// calls, made by syscall(), on memory that others have allocated.
// Threading: one thread may use an object. Errors: an errno.
// Source of the rules: S58, S77.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace slipstream::tracer {

// Gives the calling thread an empty table of descriptors of its own. 0 or an errno: then it may have a table of its own
// that is not empty. Allocates nothing. Linux, close_range(2), CLOSE_RANGE_UNSHARE; unshare(2), CLONE_FILES.
int LeaveDescriptors();

// At most to.size() bytes of a file: how many, or a negative errno. System calls only; any thread.
ssize_t ReadFile(const char* path, std::span<char> to);

class OwnFiles {
 public:
  OwnFiles() = default;
  OwnFiles(const OwnFiles&) = delete;
  OwnFiles& operator=(const OwnFiles&) = delete;
  // Waits until the thread is through with the object.
  ~OwnFiles();

  enum class Started : uint8_t { kYes, kNoThread, kNoDescriptors };
  // Once. `error`: why not.
  Started Start(int* error);

  // Runs `work` on the thread, which makes system calls there and nothing else, and waits until it has returned.
  template <typename Work>
  std::invoke_result_t<Work&> Do(Work&& work) {
    using Result = std::invoke_result_t<Work&>;
    if constexpr (std::is_void_v<Result>) {
      Ask([](void* what) { (*static_cast<std::remove_reference_t<Work>*>(what))(); }, &work);
    } else {
      struct {
        std::remove_reference_t<Work>* work;
        Result result;
      } task = {&work, Result()};
      using Task = decltype(task);
      Ask([](void* what) { static_cast<Task*>(what)->result = (*static_cast<Task*>(what)->work)(); }, &task);
      return task.result;
    }
  }

  // As ReadFile.
  ssize_t Read(const char* path, std::span<char> to) {
    return Do([=] { return ReadFile(path, to); });
  }
  // The names in a directory that are numbers, in no order; at most numbers->capacity() of them are added to it. 0 or
  // an errno.
  int ListNumbers(const char* path, std::vector<uint32_t>* numbers);

 private:
  enum State : uint32_t { kStarting, kIdle, kAsked, kEnding, kGone };

  static void* ThreadMain(void* self);
  void Serve();
  void Ask(void (*call)(void*), void* what);
  void Become(State state);
  State WaitWhile(State state);

  std::atomic<uint32_t> state_{kGone};
  int error_ = 0;
  void (*call_)(void*) = nullptr;
  void* what_ = nullptr;
};

}  // namespace slipstream::tracer
