// Shell patterns, as in a policy's lists of programs.
//
// Purpose: fnmatch(3) of the C library may allocate and reads the locale, so it must not be called between vfork and
// exec.
// Threading: a pure function; async-signal-safe. Time at most the product of the two lengths.
// Rules: as fnmatch(3) without flags, byte by byte. `*` is any text, slashes and leading dots included, `?` any byte,
//   `[a-z]` one of those, `[!a-z]` or `[^a-z]` one of the others, `\` takes the meaning from the byte behind it. A `[`
//   without a `]` is a `[`. No classes such as [[:digit:]].

#pragma once

#include <string_view>

namespace slipstream::policy {

// Whether the pattern matches the whole text.
bool MatchesPattern(std::string_view pattern, std::string_view text) noexcept;

}  // namespace slipstream::policy
