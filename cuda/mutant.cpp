#include "cuda/mutant.h"

#ifdef SLIPSTREAM_MUTANTS

#include <string_view>

#include "policy/environment.h"

namespace slipstream {
namespace {

// kNone: the variable names none.
Mutant Chosen() {
  const char* const text = policy::EnvironmentValue("BROKEN_RULE");
  if (text == nullptr) return Mutant::kNone;
#define SLIPSTREAM_ROW(enumerator, name, meaning) \
  if (std::string_view(text) == (name)) return Mutant::enumerator;
  SLIPSTREAM_MUTANT_ROWS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
  return Mutant::kNone;
}

}  // namespace

bool Broken(Mutant mutant) {
  static const Mutant chosen = Chosen();
  return chosen == mutant;
}

}  // namespace slipstream

#endif
