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
    {"S01", Mutant::kS01},
    {"S02", Mutant::kS02},
    {"S03", Mutant::kS03},
    {"S04", Mutant::kS04},
    {"S05", Mutant::kS05},
    {"S05growth", Mutant::kS05Growth},
    {"S06", Mutant::kS06},
    {"S07", Mutant::kS07},
    {"S07ahead", Mutant::kS07Ahead},
    {"S07arrived", Mutant::kS07Arrived},
    {"S08", Mutant::kS08},
    {"S08early", Mutant::kS08Early},
    {"S09", Mutant::kS09},
    {"S10", Mutant::kS10},
    {"S10other", Mutant::kS10Other},
    {"S11", Mutant::kS11},
    {"S12", Mutant::kS12},
    {"S12contexts", Mutant::kS12Contexts},
    {"S13query", Mutant::kS13Query},
    {"S13free", Mutant::kS13Free},
    {"S13all", Mutant::kS13All},
    {"S13thread", Mutant::kS13Thread},
    {"S14", Mutant::kS14},
    {"S15", Mutant::kS15},
    {"S16", Mutant::kS16},
    {"S17", Mutant::kS17},
    {"S22", Mutant::kS22},
    {"S23", Mutant::kS23},
    {"S36", Mutant::kS36},
    {"S36host", Mutant::kS36host},
    {"S62", Mutant::kS62},
    {"S63", Mutant::kS63},
    {"S64", Mutant::kS64},
    {"S65", Mutant::kS65},
    {"S66", Mutant::kS66},
    {"S10asleep", Mutant::kS10Asleep},
    {"AsleepSoon", Mutant::kAsleepSoon},
    {"S67", Mutant::kS67},
    {"Verify", Mutant::kVerify},
    {"R1", Mutant::kR1},
    {"R2", Mutant::kR2},
    {"R3", Mutant::kR3},
    {"U1", Mutant::kU1},
    {"U2", Mutant::kU2},
    {"U3", Mutant::kU3},
    {"U4", Mutant::kU4},
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
