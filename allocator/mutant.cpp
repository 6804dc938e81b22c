#include "allocator/mutant.h"

#ifdef SLIPSTREAM_MUTANTS

#include "cuda/mutant_switch.h"

namespace slipstream::allocator {
namespace {

constexpr cuda::MutantName<Mutant> kNames[] = {
#define SLIPSTREAM_ROW(enumerator, name, meaning) {name, Mutant::enumerator},
    SLIPSTREAM_ALLOCATOR_MUTANTS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
};

}  // namespace

bool Broken(Mutant mutant) {
  static const Mutant chosen = cuda::ChosenMutant<Mutant>("ALLOCATOR_BROKEN_RULE", kNames);
  return chosen == mutant;
}

}  // namespace slipstream::allocator

#endif
