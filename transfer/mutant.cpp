#include "transfer/mutant.h"

#ifdef SLIPSTREAM_MUTANTS

#include <string_view>

#include "policy/environment.h"

namespace slipstream::transfer {
namespace {

struct Name {
  std::string_view name;
  Mutant mutant;
};

constexpr Name kNames[] = {
#define SLIPSTREAM_ROW(enumerator, name, meaning) {name, Mutant::enumerator},
    SLIPSTREAM_TRANSFER_MUTANTS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
};

Mutant Chosen() {
  const char* const text = policy::EnvironmentValue("TRANSFER_BROKEN_RULE");
  if (text == nullptr) return Mutant::kNone;
  for (const Name& name : kNames) {
    if (name.name == text) return name.mutant;
  }
  return Mutant::kNone;
}

}  // namespace

bool Broken(Mutant mutant) {
  static const Mutant chosen = Chosen();
  return chosen == mutant;
}

}  // namespace slipstream::transfer

#endif
