// Finds the line of the program that called the backward pass which runs now.
//
// PyTorch's autograd engine runs it on threads of its own, one a device, which have no Python frames of the program's,
// so their calls have no line. The line is on the stack of the thread that called backward() and waits. Another
// thread's stack cannot be read without the GIL: the frames, and the memory they lie in, may go at any moment. So the
// line is inferred from what that thread did last:
//
//   - A thread that makes a call with PyTorch's backward() between the call and the line of the program is inside
//     backward() (call_site.h, IsBackwardCall). It makes such a call on its way in as a rule, because PyTorch makes the
//     gradient of the loss, a kernel, before it hands over to the engine.
//   - It stays inside until it makes a call that is not inside backward(): while it waits, it makes none.
//   - If all threads that are inside backward() are there at one line, that is the line. With two lines it is not
//     known.
//
// This is wrong if the program gives a backward() its gradient, so that PyTorch makes no call, and that backward()
// follows another one of the same thread, or another thread's, without a single call in between. Records therefore say
// that their line was inferred.
//
// The engine's threads are known by their names, pt_autograd_0 and so on, which PyTorch gives them before they do
// anything. Those of a PyTorch that gives them none keep their calls without a line.
//
// Threading: any thread, lock-free; nobody waits. What a thread sees of another's Set is at least what it did before it
//   handed over work.
// Hazard: a thread's first Set with a line may allocate in pthread_setspecific. More than kThreads threads inside
//   backward() at once: from then on no line is known.
// Ownership: leaked by the library; tests may delete it when no thread uses it any more.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "policy/thread_owned.h"

namespace slipstream::tracer {

// Whether a thread of this name is one of PyTorch's autograd engine.
bool IsAutogradThread(std::string_view name);
// Whether the calling thread is one. Asks the system once a thread.
bool IsAutogradThread();

class BackwardLines {
 public:
  static constexpr uint32_t kThreads = 128;

  // Null: the system has no thread-specific key, or no memory.
  static BackwardLines* Create();
  ~BackwardLines();
  BackwardLines(const BackwardLines&) = delete;
  BackwardLines& operator=(const BackwardLines&) = delete;

  // Says that the calling thread makes a call inside backward(), at this line of the program; 0: it makes a call that
  // is not inside.
  void Set(uint32_t site) {
    const Here* const here = policy::ThreadOwned<Here>::Find();
    const bool is_mine = here != nullptr && here->owner == number_;
    if (is_mine ? here->site == site : site == 0) [[likely]]
      return;
    Change(site);
  }

  // The line of the threads that are inside backward(); 0: there is none, or there are several.
  uint32_t Get() const;

 private:
  struct Slot {
    std::atomic<uint32_t> taken{0};
    std::atomic<uint32_t> site{0};
  };
  struct Here {
    uint64_t owner = 0;  // number_ of the object that the slot is in
    Slot* slot = nullptr;
    uint32_t site = 0;
  };

  explicit BackwardLines(pthread_key_t key);
  void Change(uint32_t site);
  Slot* TakeSlot();
  static void Leave(void* slot);

  const uint64_t number_;  // no two objects of a process have the same
  const pthread_key_t key_;
  std::atomic<uint32_t> used_{0};  // slots from there on were never taken
  std::atomic<bool> too_many_{false};
  Slot slots_[kThreads];
};

}  // namespace slipstream::tracer
