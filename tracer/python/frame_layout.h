// How to get from a native frame to its caller: what the unwind information of a function says about one place in it,
// as far as x86-64 compilers use it.
//
// Why not libunwind: it may not be on the machine. It keeps a pipe open in the process and uses it later, whatever the
// program has done with that descriptor. And it reuses what it once learned of an address without a check, even if
// another library is there now.
//
// Source: System V ABI for AMD64, 3.7 "Stack Unwind Algorithm"; DWARF 5, 6.4 "Call Frame Information"; Linux Standard
// Base 5, 10.6 "Exception Frames" (.eh_frame).
//
// Threading: any thread. No lock, no allocation: glibc finds the unwind information without either
//   (base/loaded_object_at.h), so it may be asked for inside a constructor of a library that is being loaded, too.
// Hazard: the code must stay loaded meanwhile, as code does that is on the calling thread's stack.
// Errors: what cannot be followed is kUnknown: code that was compiled at run time, a signal's frame, and rules in
//   expressions of a form that compilers do not use to realign a stack.
#pragma once

#include <cstdint>

namespace slipstream::tracer {

// CFA: the address behind the return address, which is what rsp was before the call.
struct FrameLayout {
  // Those first that most functions have.
  enum class Cfa : uint8_t {
    kFromRsp,    // rsp + cfa_offset
    kFromRbp,    // rbp + cfa_offset
    kAtRbp,      // what stands at rbp + cfa_offset
    kOutermost,  // nobody called it: a program's or a thread's first function
    kUnknown,
  };
  // The caller's rbp, the same.
  enum class Rbp : uint8_t {
    kSame,   // what it is
    kAtCfa,  // what stands at CFA + rbp_offset
    kAtRbp,  // what stands at rbp + rbp_offset
  };

  Cfa cfa = Cfa::kUnknown;
  Rbp rbp = Rbp::kSame;
  int32_t cfa_offset = 0;
  int32_t rbp_offset = 0;

  bool operator==(const FrameLayout&) const = default;

  // In one word, which is never 0. What does not fit (a frame of hundreds of megabytes) becomes kUnknown.
  uint64_t Pack() const;
  static FrameLayout Unpack(uint64_t packed) {
    // Up to the top, and down again with the sign.
    return {.cfa = static_cast<Cfa>(packed & 7),
            .rbp = static_cast<Rbp>(packed >> 3 & 3),
            .cfa_offset = static_cast<int32_t>(static_cast<int64_t>(packed << (64 - kBits - kCfaAt)) >> (64 - kBits)),
            .rbp_offset = static_cast<int32_t>(static_cast<int64_t>(packed << (64 - kBits - kRbpAt)) >> (64 - kBits))};
  }

 private:
  static constexpr int kBits = 29;  // of an offset
  static constexpr int kCfaAt = 5;
  static constexpr int kRbpAt = 34;
  static constexpr uint64_t kIsPacked = uint64_t{1} << 63;
};

// Of the code that a call returns to: the instruction before it counts, since the call may be its function's last one.
FrameLayout LayoutBefore(uintptr_t return_address);

}  // namespace slipstream::tracer
