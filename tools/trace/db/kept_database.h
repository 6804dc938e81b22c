// A database that stays in the directory of its run, so that the next question does not wait until it is built again.
//
// It says what it was made of: every spool file by its name, bytes, inode and times, and the program that made it, by
// its version, those of its tables and the executable itself. It is used again only if that is exactly what there is
// now. A spool without an end is no exception: nothing but its writer's appending changes it, and then it has another
// size. So a run that was killed is read once, and one that still goes on each time.
//
// Nothing of others is believed. The directory and the file must belong to this user or to root, nobody else may be
// able to write to either, and a link is not followed. What is not so stays as it is. What is, and cannot be used, is
// replaced: an older slipstream's, one of other spools, a damaged one. It is read as anybody's database is
// (database_reader.h).
//
// Limit: names of native code, which are looked up in the files of the machine while a database is built, stay as they
// were found then.
//
// Threading: none of its own. Several processes may build and publish at once: each one's file is whole, and whoever
// opens it looks at what it was made of.
// Errors: as texts for people.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/db/database_reader.h"
#include "tools/trace/db/table.h"
#include "tools/trace/db/trace_db.h"

namespace slipstream::trace_db {

inline constexpr char kKeptName[] = "slipstream-cache.sqlite";

// The file in which a database of the run may be kept; empty, and *why: there can be none. `run`: BuildOptions.
std::string KeptPlace(const std::string& run, std::string* why);

// What a database of these spool files is made of, as a text. None: one of them cannot be looked at.
std::optional<std::string> MadeFrom(const std::vector<std::string>& spools, const std::string& product_version);

struct KeptDatabase {
  std::unique_ptr<DatabaseReader> reader;  // null: there is none that can be used
  BuildResult built;                       // of its processes, what is known of their spools; what could not be read
  std::string why;                         // there is none
  bool replaceable = false;                // what is there may be replaced, if anything is
};
// `file`: KeptPlace.
KeptDatabase OpenKept(const std::string& file, const std::string& made_from);

// Of a build: the rows by which OpenKept knows it again. `table`: META_DATA_EXPORT.
void WriteMadeFrom(Table* table, const std::string& made_from, const BuildResult& result);

}  // namespace slipstream::trace_db
