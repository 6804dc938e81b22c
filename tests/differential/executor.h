// Carries a program out on the CUDA that the process is linked to, and keeps all that it observed.
//
// Purpose: the same program gives the same Observations whatever order the device chose, bare or under a library.
// Threading: one Executor in a process. Run is called from one thread, which is thread 0; the others live as
//   long as the program. In order: each operation begins when the one before it has returned. Without (Family::kFree):
//   all threads start together and go on by themselves.
// Ownership: after Run nothing of the program is left, device work included. The device itself is not reset.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/differential/program.h"

namespace differential {

struct Observation {
  int status = 0;     // what the call returned; of an access to memory 0
  uint64_t hash = 0;  // of the bytes read; 0 where none are
  bool read = false;  // whether `hash` says anything
};

struct Observations {
  std::vector<Observation> operations;  // of the program, in its order
  // Of what is there at the end: the last wait, and every live buffer.
  struct Final {
    std::string what;
    Observation observation;
  };
  std::vector<Final> finals;

  uint64_t Digest() const;
};

class Executor {
 public:
  Executor();
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // `sim_offset` is added to the program's seed for the simulator's scheduler. `announce`, where given, is called
  // before each operation, on its thread.
  Observations Run(const Program& program, uint64_t sim_offset, const std::function<void(const Op&)>& announce = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace differential
