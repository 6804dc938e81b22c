// The file that a run's summary is written to, as JSON: where its user says, and nowhere else.
//
// A new file is readable by its owner only (0600, whatever the umask). An existing file is replaced atomically when
// there is a summary, and its mode is kept. Files that another user may have put there, to read along or to redirect us
// (S59), are refused: a symbolic link, a FIFO or a regular file of another user, and a file with a second hard link.
// Links of one's own and root's ("/dev/stdout") are followed, and pipes and terminals are written to.
// Threading: no state.
#pragma once

#include <string>

namespace slipstream::cli {

// Why it could not be written at the end, for people, as far as that is known before; empty: it could. Changes and
// makes nothing.
std::string WhySummaryFileRefused(const std::string& path);

// Why it could not be written, for people; empty: it is there.
std::string WriteSummaryFile(const std::string& path, const std::string& text);

}  // namespace slipstream::cli
