#include "tools/cli/run_state.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "policy/run_variable.h"
#include "tools/text/json_bytes.h"

namespace slipstream::cli {
namespace {

using StateJson = nlohmann::json;

bool SameFile(const struct stat& facts, const ErrorOutput& output) {
  return facts.st_dev == output.device && facts.st_ino == output.inode && facts.st_rdev == output.special;
}

StateJson ToJson(const RunState& state) {
  StateJson files = StateJson::array();
  for (const policy::LayerFile& file : state.policy_files) {
    files.push_back({{"layer", static_cast<int>(file.layer)}, {"path", file.path}});
  }
  return {{"command", state.command},
          {"root", state.root},
          {"root_started", state.root_started},
          {"pid_namespace", state.pid_namespace},
          {"boot", state.boot},
          {"watched", state.watched},
          {"start_ns", state.start_ns},
          {"start_unix_ns", state.start_unix_ns},
          {"quiet", state.quiet},
          {"report", state.report},
          {"counters", state.counters},
          {"trace", state.trace},
          {"children_chosen", state.children_chosen},
          {"summary_file", state.summary_file},
          {"saved_in", state.saved_in},
          {"error_output",
           {{"open", state.error_output.open},
            {"device", state.error_output.device},
            {"inode", state.error_output.inode},
            {"special", state.error_output.special},
            {"path", state.error_output.path}}},
          {"policy_files", std::move(files)},
          {"version", state.version},
          {"enabled", state.enabled},
          {"site_directory", state.site_directory},
          {"site_for_group", state.site_for_group}};
}

RunState FromJson(const StateJson& json) {
  RunState state;
  json.at("command").get_to(state.command);
  json.at("root").get_to(state.root);
  json.at("root_started").get_to(state.root_started);
  json.at("pid_namespace").get_to(state.pid_namespace);
  json.at("boot").get_to(state.boot);
  json.at("watched").get_to(state.watched);
  json.at("start_ns").get_to(state.start_ns);
  json.at("start_unix_ns").get_to(state.start_unix_ns);
  json.at("quiet").get_to(state.quiet);
  json.at("report").get_to(state.report);
  json.at("counters").get_to(state.counters);
  json.at("trace").get_to(state.trace);
  json.at("children_chosen").get_to(state.children_chosen);
  json.at("summary_file").get_to(state.summary_file);
  json.at("saved_in").get_to(state.saved_in);
  // A run may have begun under an earlier version.
  state.version = json.value("version", "");
  state.enabled = json.value("enabled", true);
  state.site_directory = json.value("site_directory", "");
  state.site_for_group = json.value("site_for_group", false);
  const StateJson& output = json.at("error_output");
  output.at("open").get_to(state.error_output.open);
  output.at("device").get_to(state.error_output.device);
  output.at("inode").get_to(state.error_output.inode);
  output.at("special").get_to(state.error_output.special);
  output.at("path").get_to(state.error_output.path);
  for (const StateJson& file : json.at("policy_files")) {
    state.policy_files.push_back({.layer = static_cast<policy::Layer>(file.at("layer").get<int>()),
                                  .path = file.at("path").get<std::string>(),
                                  .found = true});
  }
  return state;
}

}  // namespace

std::string WholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string WriteRunState(const std::string& directory, const RunState& state) {
  const std::string text = text::DumpBytes(ToJson(state), -1);
  const std::string path = directory + "/" + kRunStateName;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return std::strerror(errno);
  fchmod(file, S_IRUSR | S_IWUSR);  // whatever the umask
  const ssize_t written = write(file, text.data(), text.size());
  const int error = written < 0 ? errno : ENOSPC;
  const bool whole = static_cast<size_t>(written) == text.size();
  close(file);
  if (whole) return {};
  unlink(path.c_str());
  return std::strerror(error);
}

std::optional<RunState> ParseRunState(const std::string& text) {
  try {
    return FromJson(text::ParseBytes(text));
  } catch (const StateJson::exception&) {
    return std::nullopt;
  }
}

std::optional<RunState> ReadRunState(const std::string& directory) {
  return ParseRunState(WholeFile(directory + "/" + kRunStateName));
}

ErrorOutput LookAtErrorOutput() {
  ErrorOutput output;
  struct stat facts {};
  if (fstat(STDERR_FILENO, &facts) != 0) return output;
  output.open = true;
  output.device = facts.st_dev;
  output.inode = facts.st_ino;
  output.special = facts.st_rdev;
  if (!S_ISREG(facts.st_mode) && !S_ISCHR(facts.st_mode)) return output;
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/fd/2", path, sizeof(path));
  if (length <= 0 || path[0] != '/' || static_cast<size_t>(length) == sizeof(path)) return output;
  output.path.assign(path, static_cast<size_t>(length));
  if (stat(output.path.c_str(), &facts) != 0 || !SameFile(facts, output)) output.path.clear();
  return output;
}

int OpenErrorOutput(const ErrorOutput& output) {
  if (!output.open) return -1;
  struct stat facts {};
  if (fstat(STDERR_FILENO, &facts) == 0 && SameFile(facts, output)) {
    return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  }
  if (output.path.empty()) return -1;
  const int file = open(output.path.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (file >= 0 && fstat(file, &facts) == 0 && SameFile(facts, output)) return file;
  if (file >= 0) close(file);
  return -1;
}

uint64_t StartOf(pid_t pid) { return policy::StartedOf(WholeFile("/proc/" + std::to_string(pid) + "/stat")); }

uint64_t PidNamespace() {
  struct stat facts {};
  return stat("/proc/self/ns/pid", &facts) == 0 ? facts.st_ino : 0;
}

std::string Boot() { return WholeFile("/proc/sys/kernel/random/boot_id"); }

RootIs LookForRoot(const RunState& state) {
  if (state.boot.empty() || state.boot != Boot()) return RootIs::kUnknown;
  if (state.pid_namespace == 0 || state.pid_namespace != PidNamespace()) return RootIs::kUnknown;
  const auto pid = static_cast<pid_t>(state.root);
  if (kill(pid, 0) != 0 && errno == ESRCH) return RootIs::kGone;
  const uint64_t started = StartOf(pid);
  if (started == 0 || state.root_started == 0) return RootIs::kUnknown;
  return started == state.root_started ? RootIs::kAlive : RootIs::kGone;
}

}  // namespace slipstream::cli
