// In the place of top_terminal.cpp where this was built without ncurses.
#include "tools/cli/top_terminal.h"

namespace slipstream::cli {

std::unique_ptr<TopTerminal> TopTerminal::Open(bool /*colors*/, std::string* why) {
  *why = "this slipstream was built without ncurses (package libncurses-dev)";
  return nullptr;
}

}  // namespace slipstream::cli
