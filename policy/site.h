// Where in a program a call is made, for rules: the file and the line in it.
//
// Purpose: `site` of a [[transfer.rule]] is matched here, for a copy of the program's as for one that a user describes
//   to `slipstream policy explain`.
// Threading: pure functions; no allocation.
// Errors: none; ParseSite has no answer for a text that is no site.

#pragma once

#include <optional>
#include <string_view>

namespace slipstream::policy {

struct Site {
  static constexpr int kAnyLine = 0;

  std::string_view file;
  int line = kAnyLine;  // the first one is 1
};

// "train.py:42", or "train.py" for any line. What stands behind the last colon is a line if it is a number; a file's
// name may have a colon.
std::optional<Site> ParseSite(std::string_view text) noexcept;

// Whether a call at `at` is meant by `wanted`: the same line, if one is wanted, of that file or of one whose path ends
// with it, from a slash on. "train.py" means "/data/me/train.py", not "/data/me/pretrain.py". If `at` is itself the
// site of a rule: whether `wanted` covers all of it.
bool Matches(const Site& wanted, const Site& at) noexcept;

}  // namespace slipstream::policy
