// A library that is preloaded beside slipstream and writes down which programs were executed, and whether slipstream's
// library was in them: a line "NAME yes" or "NAME no" in the file that PROGRAM_WITNESS names, at the start of each.

#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int IsSlipstream(dl_phdr_info* info, size_t, void* found) {
  if (std::strstr(info->dlpi_name, "libslipstream.so") != nullptr) *static_cast<bool*>(found) = true;
  return 0;
}

[[gnu::constructor]] void Write() {
  const char* const file = std::getenv("PROGRAM_WITNESS");
  if (file == nullptr) return;
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0) return;
  bool found = false;
  dl_iterate_phdr(IsSlipstream, &found);
  const std::string program(path, static_cast<size_t>(length));
  const std::string line = program.substr(program.rfind('/') + 1) + (found ? " yes\n" : " no\n");
  const int out = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (out < 0) return;
  [[maybe_unused]] const ssize_t written = write(out, line.data(), line.size());  // at once, as others write there too
  close(out);
}

}  // namespace
