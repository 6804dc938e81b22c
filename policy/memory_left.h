// How much memory a process may still have: what the machine has available, and what its container leaves it.
//
// Threading: no state. Time: some files of /proc and of the memory cgroup are read, tens of microseconds; for the
// thread that pins memory, not for a copy.
// Errors: what cannot be read limits nothing; std::bad_alloc.
// Source of the rule: S67. Where a memory cgroup is full the kernel ends a process of it, whoever asks for the page,
// the kernel itself included (seen on Linux 6.18 with MADV_POPULATE_WRITE).
#pragma once

#include <cstdint>
#include <string>

namespace slipstream::policy {

// Bytes. `root`: where "/" is, for tests.
uint64_t MemoryLeft(const std::string& root = "");

// What a process may have pinned in all, where so much is left beside what it has pinned already: an eighth, divided by
// the processes of the job on this machine. ranks_here below 1: unknown, that is, alone.
uint64_t MostPinned(uint64_t left, uint64_t pinned, int ranks_here);

// Whether memory that is mapped and not used can be missing elsewhere: the process's addresses or its data are limited
// (RLIMIT_AS, RLIMIT_DATA), or the machine promises no more than it has (vm.overcommit_memory = 2).
bool MappingsAreLimited(const std::string& root = "");

}  // namespace slipstream::policy
