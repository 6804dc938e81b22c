// Exceptions of others, and the C library's way to cancel a thread, on their way through our frames.
//
// The C++ library is linked into us, with an unwinder of its own. The program's unwinder is another one: it asks each
// frame's personality routine what is to be done there, and ours would take that unwinder's data for its own (measured:
// an exception of another preload's cudaMalloc ended the process, by abort() or SIGSEGV). So it is answered, for every
// frame of ours, that there is nothing to be done. Destructors do not run then; what a call has changed of its thread
// is put back here, or by the next call (IsInsideAnother). Around the real function, where such an exception can come
// from, no lock is held, with one exception: a capture that begins (cuda/capture_watch.h), where it would stay locked.
//
// An exception of our own is raised by our own unwinder: then it is as ever. So is everything where the C++ library is
// not linked in.
//
// Threading: any thread, without locks or allocation.
#include <unwind.h>

#include "shim/gate.h"
#include "shim/loaded_object.h"

extern "C" {

_Unwind_Reason_Code __gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                         _Unwind_Exception* exception, _Unwind_Context* context);

// In the place of that one, for all frames of this library.
[[gnu::visibility("hidden"), gnu::used]] _Unwind_Reason_Code slipstream_personality(int version, _Unwind_Action actions,
                                                                                    _Unwind_Exception_Class kind,
                                                                                    _Unwind_Exception* exception,
                                                                                    _Unwind_Context* context) {
  using slipstream::shim::IsOurs;
  const bool has_own = IsOurs(reinterpret_cast<const void*>(&_Unwind_RaiseException));
  if (!has_own || IsOurs(__builtin_return_address(0))) {
    return __gxx_personality_v0(version, actions, kind, exception, context);
  }
  if ((actions & _UA_CLEANUP_PHASE) != 0) slipstream::shim::LeaveCall();
  return _URC_CONTINUE_UNWIND;
}

}  // extern "C"

// The word by which frames name their routine. The compiler defines it weakly in each object that has such frames
// (Itanium C++ ABI for x86-64, exception handling); this definition, which is not weak, stands for all of them.
asm(R"(
  .pushsection .data.rel.ro.local, "aw", @progbits
  .balign 8
  .globl DW.ref.__gxx_personality_v0
  .hidden DW.ref.__gxx_personality_v0
  .type DW.ref.__gxx_personality_v0, @object
  .size DW.ref.__gxx_personality_v0, 8
DW.ref.__gxx_personality_v0:
  .quad slipstream_personality
  .popsection
)");
