// Finds before a run what stands in slipstream's way here: for `slipstream doctor`, and what `slipstream run` leaves
// alone.
//
// Threading: no state. Asks the kernel and reads files; one function asks the program's own loader what it would load.
#pragma once

#include <string>
#include <vector>

#include "policy/policy.h"

namespace slipstream::cli {

// Of the machine, or the container: no /dev/shm, system calls that are refused, little memory. A line each.
std::vector<std::string> MachineObstacles();

// What slipstream does otherwise here, and does well: it has no watcher, or pins less than it may.
std::vector<std::string> MachineNotes(const policy::Policy& policy);

// Of the program that the command begins with, a script's being the one that its first line names: another C library,
// an older glibc, AddressSanitizer, no loader at all, other rights, another root. `library` is what is to be preloaded.
std::vector<std::string> ProgramObstacles(const std::string& program, const std::string& library);

// Why that program would not start with a library for glibc preloaded, as far as its first bytes tell: it is linked to
// another C library. Empty: it may. Cheap: a file is read, or a few where it is a script.
std::string WhyNotPreloaded(const std::string& program);

}  // namespace slipstream::cli
