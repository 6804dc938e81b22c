// Writes docs/policy.md: slipstream_policy_reference FILE.

#include <cstdio>
#include <string>

#include "policy/render.h"

int main(int argc, char** argv) {
  std::FILE* out = argc == 2 ? std::fopen(argv[1], "we") : nullptr;
  if (out == nullptr) {
    std::fprintf(stderr, "usage: slipstream_policy_reference FILE (a file that can be written)\n");
    return 2;
  }
  const std::string text = slipstream::policy::ReferenceMarkdown();
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  return std::fclose(out) == 0 && written ? 0 : 1;
}
