// What sort of work a CUDA function does on the host, by its name as databases have it: with or without a version
// (cudaMemcpyAsync_v3020), of the runtime or of the driver.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace slipstream::report {

enum class CallKind : uint8_t { kCopy, kSynchronize, kAllocator, kLaunch, kOther };
inline constexpr size_t kCallKinds = 5;
// What a host was doing at a moment: a call of such a kind, else none.
inline constexpr size_t kHostStates = kCallKinds + 1;
inline constexpr size_t kHostOutside = kCallKinds;

// The name as programs write it: without version and without the suffix of per-thread default streams.
std::string_view PlainName(std::string_view function);

CallKind KindOf(std::string_view function);

// Whether the program's own call waits for the device: a synchronization, or a copy that is not asynchronous. What
// slipstream did with a single call is its decision. An asynchronous copy waits all the same if its host memory is
// pageable, which its name does not tell.
bool Waits(std::string_view function);

// Whether its one piece of work is on the stream that it names. False for functions whose stream the trace does not
// know.
bool NamesItsStream(std::string_view function);

// Of either interface; copies that return behind themselves, whose synchronization they contain.
bool IsStreamSynchronize(std::string_view function);
bool IsBlockingCopy(std::string_view function);

// Up to here a cudaMemcpy from pageable memory may return before its stream has come to it (CUDA Programming Guide,
// "Asynchronous Concurrent Execution": copies of 64 KB or less from host to device).
inline constexpr int64_t kMayReturnEarly = 64 << 10;

// What is known of a function by its name.
struct Function {
  std::string name;  // plain
  CallKind kind = CallKind::kOther;
  bool waits = false;
};

}  // namespace slipstream::report
