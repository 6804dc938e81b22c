// Ordinary memory that becomes pinned: filled before it is registered, on huge pages and by several threads.
//
// Little of the work is under the driver's locks, and pages are filled in parallel. A forked child does not inherit it
// (S51).
// Threading: any thread. The helper threads of a call are gone when it returns.
// Ownership: the caller's, until UnmapHost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace slipstream::allocator {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// Memory that the system can give without taking it from anybody, by the machine and by the process's control groups: a
// filling that goes beyond ends in a killed process, where the driver's allocation ends in an error. 0: unknown.
uint64_t AvailableHostMemory();
// Of AvailableHostMemory. The value behind `name` at the start of a line of `text`; 0: there is none.
uint64_t NumberBehind(std::string_view text, std::string_view name);

// Memory of at least `bytes`, at a multiple of kHugePageBytes, all of its pages there. `threads`: that fill, the
// calling one included; they start by `start_thread` (Surroundings), as many as it gives. Null: there is none.
char* MapFilledHost(size_t bytes, int threads, bool (*start_thread)(const char*, void* (*)(void*), void*));
void UnmapHost(void* memory, size_t bytes);

}  // namespace slipstream::allocator
