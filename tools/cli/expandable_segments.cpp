#include "tools/cli/expandable_segments.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

namespace slipstream::cli {
namespace {

constexpr const char* kNewVariable = "PYTORCH_ALLOC_CONF";
constexpr const char* kOldVariable = "PYTORCH_CUDA_ALLOC_CONF";
constexpr std::string_view kPair = "expandable_segments:True";

std::string WithoutSpaces(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
             text.end());
  return text;
}

// The value of the last pair with this key.
std::optional<std::string> ValueOf(const std::string& variable, const std::string& key) {
  const std::string text = WithoutSpaces(variable);
  std::optional<std::string> value;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view pair = std::string_view(text).substr(begin, end - begin);
    if (pair.starts_with(key + ":")) value = pair.substr(key.size() + 1);
    begin = end + 1;
  }
  return value;
}

// Why the user's own variable leaves PyTorch without expandable segments; empty: it does not.
std::string WhyRefused(const std::string& variable) {
  const std::optional<std::string> backend = ValueOf(variable, "backend");
  if (backend && *backend != "native") return "its backend " + *backend + " has none";
  const std::optional<std::string> segments = ValueOf(variable, "expandable_segments");
  if (segments && *segments != "True") return "it says expandable_segments:" + *segments;
  return "";
}

}  // namespace

ExpandableSegments AskForExpandableSegments(const std::map<std::string, std::string>& environment) {
  const auto own = [&environment](const char* name) {
    const auto found = environment.find(name);
    return found != environment.end() && !WithoutSpaces(found->second).empty() ? found->second : std::string();
  };
  const std::string new_value = own(kNewVariable);
  const std::string old_value = own(kOldVariable);
  ExpandableSegments asked;
  const char* const deciding = new_value.empty() ? kOldVariable : kNewVariable;
  const std::string& decides = new_value.empty() ? old_value : new_value;
  if (const std::string why = WhyRefused(decides); !why.empty()) {
    asked.refused = true;
    asked.message = std::string("allocator.mode = \"expandable\" changes nothing for PyTorch's tensors: ") + deciding +
                    "=" + decides + " is set, and " + why + ". Take that out of the variable to have them";
    return asked;
  }
  const auto add = [&asked](const char* name, const std::string& value) {
    if (ValueOf(value, "expandable_segments")) return;
    asked.variables[name] = (value.empty() ? "" : value + ",") + std::string(kPair);
  };
  // Set by us alone, the new variable would hide what the user has in the old one.
  if (!new_value.empty() || old_value.empty()) add(kNewVariable, new_value);
  add(kOldVariable, old_value);
  if (asked.variables.empty()) return asked;
  asked.message = "for PyTorch's tensors:";
  for (const auto& [name, value] : asked.variables) asked.message += " " + name + "=" + value;
  return asked;
}

std::vector<std::string> WhyNotExpandable(const std::string& pytorch, const std::vector<MapsMemory>& devices) {
  std::vector<std::string> reasons;
  int major = 0;
  int minor = 0;
  if (std::sscanf(pytorch.c_str(), "%d.%d", &major, &minor) == 2 && (major < 2 || (major == 2 && minor < 1))) {
    reasons.push_back("PyTorch " + std::to_string(major) + "." + std::to_string(minor) +
                      " has no expandable segments, and refuses the variable: 2.1 is the first that has them");
  }
  for (const MapsMemory& device : devices) {
    if (device.by_hand) continue;
    reasons.push_back(
        "device " + std::to_string(device.device) +
        " cannot map memory by hand (a virtual GPU, or an old driver): PyTorch cannot allocate there with "
        "expandable segments");
  }
  // How PyTorch sends a segment to another process (pidfd_getfd comes with it).
  const long descriptor = syscall(SYS_pidfd_open, getpid(), 0);
  if (descriptor < 0) {
    reasons.push_back(
        std::string("tensors in expandable segments cannot be shared between processes here: pidfd_open: ") +
        std::strerror(errno));
  } else {
    close(static_cast<int>(descriptor));
  }
  return reasons;
}

}  // namespace slipstream::cli
