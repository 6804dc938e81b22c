#include "tools/cli/close_from.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace slipstream::cli {

// Not close_range of the C library, which is younger than the oldest that we serve.
void CloseFrom(int first) {
  if (syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0) return;
  rlimit limit{};
  const int end =
      getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 1 << 20 ? static_cast<int>(limit.rlim_cur) : 1 << 20;
  for (int descriptor = first; descriptor < end; ++descriptor) close(descriptor);
}

}  // namespace slipstream::cli
