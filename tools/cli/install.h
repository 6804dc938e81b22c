// Finds slipstream's own files.
#pragma once

#include <string>
#include <vector>

namespace slipstream::cli {

// Absolute path of the running executable; empty where neither /proc nor the kernel says.
std::string OwnExecutable();

// Absolute path of libslipstream.so beside this executable (a build folder) or in libexec beside its bin folder (an
// installation by pip, by CMake or from an archive: every way of pip's keeps these two folders together, which it does
// not with lib, and uninstalls both whole). Empty when there is none; *tried then names the places.
std::string FindLibrary(std::vector<std::string>* tried);

// Absolute path of a folder of slipstream's own data, such as "help": in share/slipstream beside this executable or
// beside its bin folder. Empty where there is none.
std::string FindShared(const std::string& name);

}  // namespace slipstream::cli
