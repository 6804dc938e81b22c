// JSON with texts that need not be UTF-8: names of files, arguments, whatever the system gave.
//
// A byte that is no part of a character of UTF-8 is written as a lone surrogate, "\udc80" to "\udcff", which is how
// Python names such bytes (PEP 383): json.loads() and os.fsencode() give the bytes back. So does ParseBytes.
//
// Threading: pure functions.
// Errors: what is no JSON throws the library's exception.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace slipstream::text {

// `indent` as the library has it: below 0, one line.
std::string DumpBytes(const nlohmann::json& json, int indent);
std::string DumpBytes(const nlohmann::ordered_json& json, int indent);

nlohmann::json ParseBytes(std::string_view text);

// For who reads JSON part by part: the text as the library takes it, and a text in it as it was.
std::string ForParser(std::string_view text);
std::string FromParser(std::string_view text);

}  // namespace slipstream::text
