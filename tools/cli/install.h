// Finds slipstream's own files.
#pragma once

#include <string>
#include <vector>

namespace slipstream::cli {

// Absolute path of the running executable; empty where neither /proc nor the kernel says.
std::string OwnExecutable();

// Absolute path of libslipstream.so beside this executable (a build folder) or in the lib folder beside its bin folder
// (an installation). Empty when there is none; *tried then names the places.
std::string FindLibrary(std::vector<std::string>* tried);

}  // namespace slipstream::cli
