// What a fuzz target is: readers of bytes that somebody else wrote, which must bear whatever they say.
//
// A target defines the two functions below; fuzz_main.cpp has a main that plays damaged seeds to it, and libFuzzer's
// entry in their place where the build has libFuzzer (README.md).
// Threading: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream::fuzz {

// Whole inputs, made by the project's own writers. Called once.
std::vector<std::string> Seeds();

// Reads the bytes. What must not happen ends the process: a crash, what a sanitizer finds, or Must(false).
void OneInput(std::string_view bytes);

// Says what is wrong and aborts.
void Must(bool holds, const char* what);

// A file of the bytes, in a directory of this process's own that is there until it ends.
std::string FileOf(std::string_view bytes, const std::string& name);
const std::string& Directory();

}  // namespace slipstream::fuzz
