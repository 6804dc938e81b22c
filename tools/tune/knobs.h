// The policy keys that `slipstream tune` may change, and the values that it tries.
//
// Only keys that decide how fast something is done are here: none changes what the program computes, nor what it may
// observe. Variables of the environment that do ([environment], TF32 say) are tried where the user names them.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/policy.h"

namespace slipstream::tune {

struct Knob {
  std::string key;                  // "transfer.threads", "environment.NVIDIA_TF32_OVERRIDE"
  std::vector<std::string> values;  // as TOML has them, in the order in which they are tried; never the base's own
};

// What a run of the program did, as far as it decides what is worth trying.
struct Traffic {
  bool copies_to_device = false;
  bool copies_to_host = false;
  bool allocates = false;     // memory of a device
  bool uses_pytorch = false;  // whose allocator can be told to ask for stream-ordered memory
  uint64_t pool_peak = 0;     // the most that the pool of a device held, in bytes; 0: not known
};

struct Machine {
  int processors = 1;          // that the program may use
  uint64_t device_memory = 0;  // bytes of the smallest device; 0: not known
};

struct NotTried {
  std::string key;
  std::string why;
};

// `environment`: NAME=value, as the user named them.
std::vector<Knob> KnobsFor(const policy::Policy& base, const Traffic& traffic, const Machine& machine,
                           const std::vector<std::string>& environment, std::vector<NotTried>* not_tried);

// All keys of the policy that may be changed, in the order in which they are tried.
std::vector<std::string> KeysToTune();

// Whether `name` is the key, or a section that it is in.
bool NamesKey(const std::string& name, const std::string& key);

}  // namespace slipstream::tune
