#include "allocator/mutant.h"

#ifdef SLIPSTREAM_MUTANTS

#include <string_view>

#include "policy/environment.h"

namespace slipstream::allocator {
namespace {

struct Name {
  std::string_view name;
  Mutant mutant;
};

constexpr Name kNames[] = {
    {"S30", Mutant::kS30},
    {"S30wait", Mutant::kS30Wait},
    {"S30access", Mutant::kS30Access},
    {"S30b", Mutant::kS30b},
    {"S31", Mutant::kS31},
    {"S32", Mutant::kS32},
    {"S33", Mutant::kS33},
    {"S34", Mutant::kS34},
    {"S35", Mutant::kS35},
    {"S36", Mutant::kS36},
    {"S36others", Mutant::kS36Others},
    {"S36decay", Mutant::kS36Decay},
    {"S36cap", Mutant::kS36Cap},
    {"S36reserve", Mutant::kS36Reserve},
    {"S37", Mutant::kS37},
    {"S38", Mutant::kS38},
    {"S38wait", Mutant::kS38Wait},
    {"S38fence", Mutant::kS38Fence},
    {"S38destroy", Mutant::kS38Destroy},
    {"S39", Mutant::kS39},
    {"S40", Mutant::kS40},
    {"S55", Mutant::kS55},
    {"S65", Mutant::kS65},
};

Mutant Chosen() {
  const char* const text = policy::EnvironmentValue("ALLOCATOR_BROKEN_RULE");
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

}  // namespace slipstream::allocator

#endif
