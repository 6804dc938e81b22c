// Makes text from a trace fit for a database. To the system, file names, functions and arguments are any bytes. SQLite
// would keep them, but readers take a TEXT column for UTF-8 (Python's sqlite3 raises), and many end it at a NUL.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace slipstream::trace_db {

// What is not UTF-8 becomes \xff and a NUL \0, so that different names stay different. All else is as it was.
std::string CleanText(std::string_view text);

// An argument list, with a NUL behind every argument, as one line: arguments that hold spaces, quotes or nothing are in
// single quotes, as a shell takes them.
std::string CommandText(std::string_view arguments);

}  // namespace slipstream::trace_db
