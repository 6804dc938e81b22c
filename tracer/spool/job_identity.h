// Finds which part of a distributed job this process is, from the variables that launchers set.
//
// Threading: pure function.
#pragma once

#include <cstdint>
#include <string>

#include "policy/environment.h"

namespace slipstream::tracer {

struct JobIdentity {
  std::string launcher;     // "torchrun", "slurm", "openmpi", "pmi"; empty: none
  std::string job;          // the launcher's name or number of the job; empty: it gives none
  int32_t rank = -1;        // -1: not known
  int32_t local_rank = -1;  // on this host
  int32_t world_size = -1;  // processes in the job
  int32_t local_size = -1;  // of them on this host
};

// All numbers are from the launcher that is nearest to the process and gives it a rank: torchrun under Slurm is
// torchrun. Numbers of two launchers are never mixed, except local_size, the number of processes that share the host:
// if the nearest launcher does not say it, another one's value is used.
JobIdentity JobIdentityOf(const policy::Environment& environment);

}  // namespace slipstream::tracer
