// Writes the policy file of `slipstream tune`, with what each change in it gains.
//
// The file replaces the one that the search began with, so it holds that one's settings too: all that was read from the
// user's, the project's, or named files. Settings of the machine's own layer stay there.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/load.h"
#include "tools/tune/search.h"

namespace slipstream::tune {

// What a file says of how it came about, a line each where they are not empty.
struct Account {
  std::string program{};  // its name alone: arguments may hold secrets
  std::string when{};
  std::string where{};  // host and devices
  std::string ruler{};  // what was compared
  std::vector<std::string> notes{};
};

// "1.084 times as fast (95 %: 1.071 to 1.097, 6 pairs)"
std::string Worth(const compare::Estimate& estimate);
// Why a value is not in the policy, in a few words.
std::string Reason(const Tried& tried);

// A TOML string.
std::string Quoted(std::string_view text);

// A file that policy::LoadText accepts, whatever the command and the texts hold.
std::string PolicyFileText(const Search& search, const policy::Loaded& base, const std::vector<NotTried>& not_tried,
                           const Account& account);

}  // namespace slipstream::tune
