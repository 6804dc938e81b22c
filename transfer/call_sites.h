// Where in the program the calling thread is, as far as anybody knows, and which rules mean that place.
//
// The tracer can read the program's stack; it is handed in as functions, because rooms beside each other do not include
// each other. Nothing is asked where no rule has a site and no copy is verified.
//
// Threading: any thread, no lock, no allocation behind the constructor. What two threads find out at once is the same.
// Errors: where a stack cannot be read there is no site, and a rule that has one does not match.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "policy/policy.h"
#include "policy/site.h"
#include "policy/transfer_plan.h"

namespace slipstream::transfer {

struct CallSites {
  struct Place {
    policy::Site at;
    std::string_view function;
  };

  // A number for the line that the calling thread is at, the same for the same line; 0: nobody knows. Null: never.
  uint32_t (*current)() = nullptr;
  // False: it is no such number. The texts live as long as the process.
  bool (*describe)(uint32_t site, Place* place) = nullptr;

  uint32_t Current() const { return current != nullptr ? current() : 0; }
  // "train.py:42 (step)", or "an unknown line".
  std::string TextOf(uint32_t site) const;
};

class SiteRules {
 public:
  SiteRules(const policy::Transfer& policy, const CallSites& sites);

  // Those rules whose site is the calling thread's.
  policy::RulesAt Here();

 private:
  // Of so many sites the answer is kept; those with higher numbers are looked at every time.
  static constexpr uint32_t kKept = 1U << 16;

  const policy::Transfer& policy_;
  const CallSites sites_;
  // The complement of the answer, so that 0 is "not known yet"; null: no rule has a site.
  std::unique_ptr<std::atomic<policy::RulesAt>[]> kept_;
};

}  // namespace slipstream::transfer
