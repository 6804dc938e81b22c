// A name for libslipstream.so that LD_PRELOAD can carry.
#pragma once

#include <string>

#include "policy/environment.h"

namespace slipstream::cli {

// `library`, an absolute path, or, where that holds a space or a colon, a symbolic link to it that does not: ld.so(8)
// separates the entries of LD_PRELOAD by those, and nothing escapes them. The link is in
// $XDG_STATE_HOME/slipstream/preload, else in ~/.local/state, else in /tmp/slipstream-UID, each only where it is the
// user's alone, and stays there: programs that outlive the run still start others.
// Errors: returns `library` where no link can be made, which MakePreloadEnvironment refuses. Makes no folder for a home
//   that is not there.
std::string PreloadName(const std::string& library, const policy::Environment& environment);

// Whether LD_PRELOAD can name it.
bool FitsPreload(const std::string& path);

}  // namespace slipstream::cli
