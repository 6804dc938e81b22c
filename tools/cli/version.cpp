#include "tools/cli/version.h"

#include <string_view>

#include "generated/commit.h"

namespace slipstream::cli {

const char* const kVersion = SLIPSTREAM_VERSION;

std::string VersionLine() {
  constexpr std::string_view kCommit = SLIPSTREAM_COMMIT;
  std::string line = std::string("slipstream ") + kVersion;
  if (kCommit != "unknown") line += " (commit " + std::string(kCommit) + ")";
  return line;
}

}  // namespace slipstream::cli
