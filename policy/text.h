// Makes untrusted text fit for one line of a terminal or a log.
//
// Threading: pure functions.

#pragma once

#include <string>
#include <string_view>

namespace slipstream::policy {

// Length in bytes of the UTF-8 character that `text` begins with; 0 where it begins with something else (or is empty).
std::size_t Utf8CharacterLength(std::string_view text) noexcept;

// The text with control characters, marks that turn the direction of text, and what is not UTF-8 written as \n, \t,
// \u001b, \u202e or \xff. Without quotes.
std::string Escape(std::string_view text);

// The text as a TOML basic string, in quotes; long ones are cut at `limit` characters, with "..." after the quotes.
std::string Quote(std::string_view text, std::size_t limit = 80);

}  // namespace slipstream::policy
