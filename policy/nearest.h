// Finds the valid name that a user probably meant.
//
// Threading: pure functions.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace slipstream::policy {

// Insertions, deletions, replacements and swaps of neighbors that turn one name into the other (bytes,
// not characters).
std::size_t EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, the first of equals. None is near if more than a third of the name, or more than
// two edits of a short one, would have to change: then the only candidate with the same last part after a dot ("h2d"
// and "tracer.h2d" mean "transfer.h2d"), else empty.
std::string Nearest(std::string_view name, std::span<const std::string> candidates);

}  // namespace slipstream::policy
