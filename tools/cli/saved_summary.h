// The summaries of the last runs, so that they can be read again: one file for each, in the user's state directory.
//
// $XDG_STATE_HOME/slipstream/runs, else $HOME/.local/state/slipstream/runs (XDG Base Directory Specification); 0700,
// and the files 0600. The newest kMostSavedRuns stay.
// Threading: no state.
// Errors: what cannot be written is not kept, silently.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "policy/environment.h"

namespace slipstream::cli {

inline constexpr size_t kMostSavedRuns = 32;

struct SavedSummary {
  int64_t start_unix_ns = 0;
  int64_t root = 0;         // the number that the command had
  std::string trace{};      // directory; empty: none was recorded
  std::string text{};       // as it was printed, or would have been
  std::string json{};       // as --summary writes it
  std::string file_name{};  // set by those who read it
};

// Empty where the variables name no place.
std::string SavedSummariesPlace(const policy::Environment& environment);

void SaveSummary(const std::string& place, const SavedSummary& summary);

// Of the run that `which` names: the directory of its trace, or the number of its command. Empty: the last one.
std::optional<SavedSummary> FindSavedSummary(const std::string& place, const std::string& which);

}  // namespace slipstream::cli
