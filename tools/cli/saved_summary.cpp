#include "tools/cli/saved_summary.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "tools/cli/private_umask.h"
#include "tools/cli/summary_file.h"
#include "tools/text/json_bytes.h"

namespace slipstream::cli {
namespace {

namespace fs = std::filesystem;
using SavedJson = nlohmann::json;

constexpr char kSuffix[] = ".json";

// The names of the files, the oldest first: they begin with the time, in as many digits each.
std::vector<std::string> Names(const std::string& place) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == kSuffix) names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string NameOf(const SavedSummary& summary) {
  char name[64];
  std::snprintf(name, sizeof(name), "%020lld-%lld", static_cast<long long>(summary.start_unix_ns),
                static_cast<long long>(summary.root));
  return name;
}

std::optional<SavedSummary> Read(const std::string& place, const std::string& name) {
  std::ifstream file(place + "/" + name, std::ios::binary);
  try {
    const SavedJson json =
        text::ParseBytes(std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
    SavedSummary summary;
    json.at("start_unix_ns").get_to(summary.start_unix_ns);
    json.at("root").get_to(summary.root);
    json.at("trace").get_to(summary.trace);
    json.at("text").get_to(summary.text);
    json.at("json").get_to(summary.json);
    summary.file_name = place + "/" + name;
    return summary;
  } catch (const SavedJson::exception&) {
    return std::nullopt;
  }
}

std::string Canonical(const std::string& path) {
  std::error_code error;
  const fs::path canonical = fs::canonical(path, error);
  return error ? path : canonical.string();
}

}  // namespace

std::string SavedSummariesPlace(const policy::Environment& environment) {
  const std::string state(environment.Get("XDG_STATE_HOME").value_or(""));
  if (state.starts_with('/')) return state + "/slipstream/runs";
  const std::string home(environment.Get("HOME").value_or(""));
  std::error_code error;  // a home that is not there is not made
  return home.starts_with('/') && fs::is_directory(home, error) ? home + "/.local/state/slipstream/runs" : "";
}

void SaveSummary(const std::string& place, const SavedSummary& summary) {
  if (place.empty()) return;
  const PrivateUmask only_ours;
  std::error_code error;
  fs::create_directories(place, error);
  if (error) return;
  const std::string name = place + "/" + NameOf(summary) + kSuffix;
  const SavedJson json = {{"start_unix_ns", summary.start_unix_ns},
                          {"root", summary.root},
                          {"trace", summary.trace},
                          {"text", summary.text},
                          {"json", summary.json}};
  const std::string text = text::DumpBytes(json, -1);
  if (!WriteSummaryFile(name, text).empty()) return;
  const std::vector<std::string> names = Names(place);
  for (size_t i = 0; i + kMostSavedRuns < names.size(); ++i) unlink((place + "/" + names[i]).c_str());
}

std::optional<SavedSummary> FindSavedSummary(const std::string& place, const std::string& which) {
  if (place.empty()) return std::nullopt;
  std::vector<std::string> names = Names(place);
  std::reverse(names.begin(), names.end());
  const std::string directory = which.empty() ? "" : Canonical(which);
  for (const std::string& name : names) {
    std::optional<SavedSummary> summary = Read(place, name);
    if (!summary) continue;
    const bool chosen = which.empty() || std::to_string(summary->root) == which ||
                        (!summary->trace.empty() && Canonical(summary->trace) == directory);
    if (chosen) return summary;
  }
  return std::nullopt;
}

}  // namespace slipstream::cli
