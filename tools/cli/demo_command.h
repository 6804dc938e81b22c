// `slipstream demo`: one training program, bare and under slipstream, and the lines that lead on to a first report.
//
// Purpose: for who has just installed slipstream. With a GPU that PyTorch sees it is the small ResNet of
//   share/slipstream/demo; elsewhere a training loop on the simulated device, which is a package of its own (the extra
//   `demo`), and every line of figures says so.
// Threading: from a process with one thread.
#pragma once

#include <string>

namespace slipstream::cli {

struct DemoOptions {
  bool simulated = false;  // even where there is a GPU
};

int Demo(const DemoOptions& options);

// ---- for tests

// Every line that has words, said to be simulated, in 80 columns.
std::string Labeled(const std::string& text);

// Without the middle of a long output.
std::string Shortened(const std::string& text);

// What training came to: every loss and checksum of weights, a line each.
std::string Losses(const std::string& text);

}  // namespace slipstream::cli
