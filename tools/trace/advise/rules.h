// The rules of advice (advice.h). docs/advise.md has a section on each; a test holds the two together.
//
// Threading: constants.
#pragma once

#include <span>

#include "tools/trace/advise/advice.h"

namespace slipstream::advise {

std::span<const Rule> Rules();

// By what they are about; Rules() has all.
std::span<const Rule> CopyRules();
std::span<const Rule> WaitRules();
std::span<const Rule> DeviceRules();
std::span<const Rule> KernelRules();
std::span<const Rule> MemoryRules();
std::span<const Rule> ProcessRules();

}  // namespace slipstream::advise
