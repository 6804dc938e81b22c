#include "tools/cli/runs_here.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>

#include "policy/text.h"
#include "tools/cli/run_directory.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::cli {
namespace {

// More are a matter of `ls`.
constexpr size_t kMostOthers = 5;

}  // namespace

// The time stands in the name, behind what all names begin with.
std::vector<std::string> RunsHere() {
  std::vector<std::string> runs;
  std::error_code error;
  for (std::filesystem::directory_iterator at(".", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::string ignored;
    if (name.starts_with(kTracePrefix) && !tracer::ListSpools(name, &ignored).empty()) runs.push_back(name);
  }
  std::sort(runs.begin(), runs.end(), std::greater<>());
  return runs;
}

std::vector<std::string> TakeNewest(const std::string& command, size_t count) {
  std::vector<std::string> runs = RunsHere();
  if (runs.size() < count) return {};
  std::vector<std::string> taken(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(count));
  std::reverse(taken.begin(), taken.end());
  std::string text = "slipstream " + command + ":";
  for (const std::string& run : taken) text += " " + policy::Escape(run);
  text += runs.size() == count ? std::string(count == 1 ? ", the only run here" : ", the only runs here")
                               : ", the newest of " + std::to_string(runs.size()) + " runs here";
  const size_t end = std::min(runs.size(), count + kMostOthers);
  for (size_t i = count; i < end; ++i) text += (i == count ? "; others: " : ", ") + policy::Escape(runs[i]);
  if (end < runs.size()) text += ", ...";
  std::fprintf(stderr, "%s\n", text.c_str());
  return taken;
}

}  // namespace slipstream::cli
