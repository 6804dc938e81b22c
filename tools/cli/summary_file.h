// The file that a run's summary is written to, as JSON: where its user says, and nowhere else.
//
// A new one is its owner's alone (0600, whatever the umask). What is there already is replaced when there is a summary,
// at every moment one of the two being there whole, and its mode kept; unless somebody else may have put it there to
// read along or to have us write elsewhere (S59): a symbolic link, a FIFO or a regular file of another user, and a file
// with a second hard link, are refused. Links of one's own and root's
// ("/dev/stdout") are followed, and pipes and terminals written to.
// Threading: no state.
#pragma once

#include <string>

namespace slipstream::cli {

// Why it could not be written in the end, for people, as far as that can be said before; empty: it could. Nothing is
// changed or made.
std::string WhySummaryFileRefused(const std::string& path);

// Why it could not be written, for people; empty: it is there.
std::string WriteSummaryFile(const std::string& path, const std::string& text);

}  // namespace slipstream::cli
