// The file that a run's summary is written to, as JSON: where its user says, and nowhere else.
//
// A new one is its owner's alone (0600, whatever the umask). What is there already is written over, its mode kept,
// unless somebody else may have put it there to read along or to have us write elsewhere (S59): a symbolic link, a FIFO
// or a regular file of another user, and a file with a second hard link, are refused. Links of one's own and root's
// ("/dev/stdout") are followed, and pipes and terminals written to.
// Threading: no state.
#pragma once

#include <string>

namespace slipstream::cli {

// A descriptor that an exec closes, of an empty file; below 0, with *error filled, where there is none.
int OpenSummaryFile(const std::string& path, std::string* error);

}  // namespace slipstream::cli
