// Finds the files that a policy is merged from.
//
// Purpose: lists system, user and project files, or named ones, in the order in which they are obeyed: a later one
//   wins. load.h reads and merges them.
// Threading: no state; asks the file system. Out of memory throws.
// Hazard: the working directory is whatever the process has at that moment, so only a command that a person has just
//   started looks for a project's file. A process that is preloaded never does: it may be anywhere.
// Which files:
//   system   kSystemDirectory/policy.toml, then kSystemDirectory/policy.d/*.toml by name (bytes), without those that
//            begin with a dot. SLIPSTREAM_SYSTEM_DIRECTORY names another directory; empty: no such layer.
//   user     $XDG_CONFIG_HOME/slipstream/policy.toml, else $HOME/.config/slipstream/policy.toml. A directory that is
//            not an absolute path counts as none.
//   project  slipstream.toml in the working directory, else in the nearest folder above it, up to the root of its
//            repository or the home directory, whichever comes first; where there is neither, in the working directory
//            alone. Folders above it that another user owns, or that everybody may write (/tmp), end the search.
//   named    what the command line names, else SLIPSTREAM_POLICY: then neither the user's nor a project's is looked
//            for, and the system's still is.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/environment.h"
#include "policy/problem.h"

namespace slipstream::policy {

inline constexpr const char* kSystemDirectory = "/etc/slipstream";
inline constexpr const char* kPolicyFileName = "policy.toml";
inline constexpr const char* kPolicyFolderName = "policy.d";
inline constexpr const char* kProjectFileName = "slipstream.toml";

// In the order in which they are obeyed.
enum class Layer : std::uint8_t { kSystem, kUser, kProject, kNamed };

// "system", "user", "project", "named".
const char* NameOf(Layer layer) noexcept;

// Who asks. This decides which layers there are.
enum class Search : std::uint8_t {
  kNamedOnly,  // one file for itself, whatever else there is; without a path, SLIPSTREAM_POLICY
  kProcess,    // a process that the library was preloaded into: system, and the user's or what SLIPSTREAM_POLICY names
  kCommand,    // a command that a person has started: a project's too
};

// A file of a layer, or a place without one.
struct LayerFile {
  Layer layer = Layer::kNamed;
  // As it was named or found. What is not there: the file, or pattern, that was looked for; empty where none was.
  std::string path{};
  // Whether there is such a file. A named file is assumed to exist: it is a mistake if it does not.
  bool found = false;
  // Where it was looked for, or why it was not, for people; empty where `path` says it.
  std::string note{};

  bool operator==(const LayerFile&) const = default;
};

struct LayerSearch {
  Search search = Search::kNamedOnly;
  // The one file that the command line names, whatever SLIPSTREAM_POLICY says.
  std::optional<std::string> named{};
};

// Every file, and every place where none was found, in the order in which they are obeyed. It is a problem if a place
// of the system's layer cannot be read, or has too many files.
std::vector<LayerFile> FindLayers(const LayerSearch& search, const Environment& env, std::vector<Problem>& problems);

// The value of SLIPSTREAM_POLICY: names of files with colons between them, a colon or a backslash in a name behind a
// backslash. Empty names are left out. A value that is itself the name of a file, colons and all, is that one file.
std::vector<std::string> SplitPolicyList(const std::string& value);
std::string JoinPolicyList(const std::vector<std::string>& names);

}  // namespace slipstream::policy
