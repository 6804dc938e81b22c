#include "tools/cli/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <string_view>

#include "tools/text/columns.h"

namespace slipstream::cli {

size_t ScreenColumns() {
  winsize size{};
  const bool known = isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return text::ColumnsFor(policy::EnvironmentValue("COLUMNS"), known ? size.ws_col : 0);
}

bool OutputTakesColor(const policy::Environment& environment) {
  if (isatty(STDOUT_FILENO) == 0) return false;
  return environment.Get("NO_COLOR").value_or("").empty() && environment.Get("TERM") != "dumb";
}

text::Page OutputPage() {
  return {.columns = ScreenColumns(), .color = OutputTakesColor(policy::Environment::FromProcess())};
}

bool OutputTakesEscapes() {
  const char* const kind = policy::EnvironmentValue("TERM");
  return isatty(STDOUT_FILENO) != 0 && kind != nullptr && std::string_view(kind) != "dumb";
}

bool ErrorsTakeEscapes() {
  const char* const kind = policy::EnvironmentValue("TERM");
  return isatty(STDERR_FILENO) != 0 && (kind == nullptr || std::string_view(kind) != "dumb");
}

}  // namespace slipstream::cli
