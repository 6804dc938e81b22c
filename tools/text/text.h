// Numbers and words for people. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slipstream::text {

// "1,234,567"
std::string WithThousands(uint64_t number);

// Bytes, three digits: "0 B", "1.50 MiB", "12.3 GiB".
std::string HumanBytes(uint64_t bytes);

// Nanoseconds, three digits: "0 ns", "1.23 us", "45.6 ms", "7.89 s".
std::string HumanTime(uint64_t ns);

// A duration that nobody knows exactly: "42 s", "7 min", "2 h 5 min".
std::string AboutTime(double seconds);

// To so many columns, each a character of UTF-8.
std::string PadLeft(const std::string& text, size_t width);
std::string PadRight(const std::string& text, size_t width);

// What a fact about Python's lines (tracer/base/python_lines.h) says behind "Python lines: ", for example
// "none, this is a free-threaded CPython 3.14.0 (not supported)".
std::string PythonLinesText(std::string_view fact);

// The same lines with everything that a terminal takes for more than text made visible (policy/text.h). What goes into
// a line and may hold a newline has been escaped before.
std::string ForTerminal(std::string_view lines);

}  // namespace slipstream::text
