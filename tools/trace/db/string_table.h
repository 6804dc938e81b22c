// Texts, lines of programs and stacks that many rows refer to: each is in the database once, under a number.
//
// Each different one is in memory once, too; a trace has few of them.
//
// Threading, errors: as their Database.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tools/trace/db/table.h"
#include "tracer/spool/spool_reader.h"

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
  // `pytorch`: as IsLibraryFile has it (tracer/python/call_site.h).
  int64_t IdOf(const tracer::SpoolSite& site, std::string_view pytorch = {});

 private:
  Table table_;
  std::unordered_map<std::string, int64_t> ids_;  // by file, line and function
};

// SLIPSTREAM_STACKS: of all processes too. Frames at one line are one frame, whatever the instruction.
class StackTable {
 public:
  explicit StackTable(Database* database) : table_(database, kOwnStacks) {}

  bool Create() { return table_.Create(); }

  struct Stack {
    int64_t id = 0;
    int64_t depth = -1;  // of its innermost frame; the outermost has 0
  };
  // A frame at a line, or of native code; neither if the line is not known.
  struct Frame {
    std::optional<int64_t> site = std::nullopt;
    std::optional<int64_t> address = std::nullopt;
  };
  // It called from `parent`; null: from none, or, if `is_cut`, from one that was not recorded.
  Stack IdOf(const Frame& frame, const Stack* parent, bool is_cut);

 private:
  struct Key {
    int64_t place;   // a site, or an address below 0
    int64_t parent;  // 0: none, -1: cut off
    bool operator==(const Key&) const = default;
  };
  struct HashOfKey {
    size_t operator()(const Key& key) const { return std::hash<int64_t>()(key.place * 0x100000001b3 ^ key.parent); }
  };

  Table table_;
  std::unordered_map<Key, int64_t, HashOfKey> ids_;
};

}  // namespace slipstream::trace_db
