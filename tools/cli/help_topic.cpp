#include "tools/cli/help_topic.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include "policy/environment.h"
#include "policy/nearest.h"
#include "tools/cli/child.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/install.h"
#include "tools/cli/screen.h"

namespace slipstream::cli {
namespace {

constexpr std::string_view kPageSuffix = ".txt";
constexpr char kNoPages[] =
    "This slipstream was built without its manual (lowdown was missing). The same text\n"
    "is in the folder docs of its sources.\n";

std::string PagePath(const std::string& name) {
  const std::string folder = FindShared("help");
  return folder.empty() ? "" : folder + "/" + name;
}

std::optional<std::string> ReadPage(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (path.empty() || !file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// What shows the page on a terminal, as a line for the shell; empty: nothing does, or nothing should.
std::string Pager() {
  if (!OutputTakesEscapes()) return "";
  if (const char* const chosen = policy::EnvironmentValue("PAGER"); chosen != nullptr) return chosen;
  // As git has it: a page that fits the screen ends at once, and stays there.
  return "if command -v less >/dev/null 2>&1; then LESS=\"${LESS-FRX}\" exec less; else exec cat; fi";
}

// Becomes the pager, with the page as its input. Returns only where it cannot.
void PageThrough(const std::string& pager, const std::string& path) {
  const int page = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (page < 0) return;
  if (dup2(page, STDIN_FILENO) == STDIN_FILENO) {
    const policy::Environment environment = policy::Environment::FromProcess();
    std::vector<std::string> variables;
    for (const auto& [name, value] : environment.variables()) variables.push_back(name + "=" + value);
    ExecCommand({"/bin/sh", "-c", pager}, variables);
  }
  close(page);
}

}  // namespace

std::vector<std::string> Topics() {
  std::vector<std::string> topics;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(FindShared("help"), error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kPageSuffix)) topics.push_back(name.substr(0, name.size() - kPageSuffix.size()));
  }
  std::sort(topics.begin(), topics.end());
  return topics;
}

std::string TopicsText() { return ReadPage(PagePath("../topics")).value_or(kNoPages); }

bool ShowTopic(const std::string& topic, int* status) {
  // A name, and no path that leads elsewhere.
  if (topic.find('/') != std::string::npos) return false;
  const std::string path = PagePath(topic + std::string(kPageSuffix));
  const std::optional<std::string> page = ReadPage(path);
  if (!page) return false;
  if (const std::string pager = Pager(); !pager.empty()) PageThrough(pager, path);
  std::fputs(page->c_str(), stdout);
  *status = std::fflush(stdout) == 0 ? kSuccess : kFailed;
  return true;
}

std::string NoTopicText(const std::string& topic, std::vector<std::string> verbs) {
  std::vector<std::string> names = Topics();
  const bool has_pages = !names.empty();
  names.insert(names.end(), std::make_move_iterator(verbs.begin()), std::make_move_iterator(verbs.end()));
  const std::string nearest = policy::Nearest(topic, names);
  return "slipstream: no help on \"" + topic + "\"" +
         (nearest.empty() ? std::string() : "; did you mean " + nearest + "?") + "\n" +
         (has_pages ? "  `slipstream help` lists the topics.\n" : kNoPages);
}

}  // namespace slipstream::cli
