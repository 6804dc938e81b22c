// Which rule is broken on purpose, in the test build of an engine (its mutant.h).
//
// Threading: a pure function of the process's variables.
#pragma once

#include <span>
#include <string_view>

#include "policy/environment.h"

namespace slipstream::cuda {

template <typename Mutant>
struct MutantName {
  std::string_view name;
  Mutant mutant;
};

// The one that the variable names; kNone: it names none.
template <typename Mutant>
Mutant ChosenMutant(const char* variable, std::span<const MutantName<Mutant>> names) {
  const char* const text = policy::EnvironmentValue(variable);
  if (text == nullptr) return Mutant::kNone;
  for (const MutantName<Mutant>& name : names) {
    if (name.name == text) return name.mutant;
  }
  return Mutant::kNone;
}

}  // namespace slipstream::cuda
