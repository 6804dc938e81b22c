// Makes programs (program.h) from seeds: the same seed, the same program, everywhere.
//
// Purpose: programs full of copies from pageable memory and of all that could tell when they happen, with as little
//   synchronization as CUDA requires. What would race is ordered by one of the ways there are, drawn at random.
// Threading: pure functions.
#pragma once

#include "tests/differential/program.h"

namespace differential {

Program Generate(Family family, uint64_t seed);

}  // namespace differential
