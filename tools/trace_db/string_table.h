// Texts and lines of programs that many rows refer to: each is in the database once, under a number.
//
// In memory once, too: as many as there are different ones, which a trace has few of.
//
// Threading, errors: as their Database.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tools/trace_db/table.h"
#include "tracer/spool_reader.h"

namespace slipstream::trace_db {

// StringIds.
class StringTable {
 public:
  explicit StringTable(Database* database) : table_(database, kStringIds) {}

  bool Create() { return table_.Create(); }
  int64_t IdOf(const std::string& text);

 private:
  Table table_;
  std::unordered_map<std::string, int64_t> ids_;
};

// SLIPSTREAM_SITES: of all processes, so that a line is one line on every rank.
class SiteTable {
 public:
  explicit SiteTable(Database* database) : table_(database, kOwnSites) {}

  bool Create() { return table_.Create(); }
  int64_t IdOf(const tracer::SpoolSite& site);

 private:
  Table table_;
  std::unordered_map<std::string, int64_t> ids_;  // by file, line and function
};

}  // namespace slipstream::trace_db
