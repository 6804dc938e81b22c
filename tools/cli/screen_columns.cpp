#include "tools/cli/screen_columns.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "policy/environment.h"
#include "tools/text/columns.h"

namespace slipstream::cli {

size_t ScreenColumns() {
  winsize size{};
  const bool known = isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return text::ColumnsFor(policy::EnvironmentValue("COLUMNS"), known ? size.ws_col : 0);
}

}  // namespace slipstream::cli
