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

// The name as programs write it: without version and without the suffix of per-thread default streams.
std::string_view PlainName(std::string_view function);

CallKind KindOf(std::string_view function);

// That the program's own call waits for the device: a synchronise, or a copy that is not asynchronous. What slipstream
// made of a single call is another matter (its decision). Copies that are called asynchronous and wait all the same,
// because their host memory is pageable, cannot be told by their names.
bool Waits(std::string_view function);

}  // namespace slipstream::report
