// What all that print JSON share. Included by the files that make it alone: the library's header is slow to compile.
//
// Threading: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/text/json_bytes.h"

namespace slipstream::text {

using Json = nlohmann::ordered_json;

template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}
inline Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// For a file or a terminal. Paths and names come from the system and need not be UTF-8 (json_bytes.h).
inline std::string JsonText(const Json& root) { return DumpBytes(root, 2) + "\n"; }

}  // namespace slipstream::text
