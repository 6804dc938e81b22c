// How a process says whether the lines of its Python program can be told: a fact in its counters and in its trace,
// whose value is one of these words and then what it is about.
//
// Threading: constants.
#pragma once

#include <string_view>

namespace slipstream::tracer {

inline constexpr char kFactPythonLines[] = "python_lines";
inline constexpr std::string_view kLinesRead = "read: ";                // which Python: "CPython 3.14.2"
inline constexpr std::string_view kLinesUnsupported = "unsupported: ";  // what this Python is, as a sentence
inline constexpr std::string_view kLinesNone = "none: ";                // why else, as a sentence

}  // namespace slipstream::tracer
