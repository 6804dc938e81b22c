#include "policy/layers.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "policy/source_file.h"

namespace slipstream::policy {
namespace {

// More in policy.d are a mistake: an archive unpacked in the wrong place, perhaps.
constexpr std::size_t kMostSystemFiles = 64;

// What a repository has in its root.
constexpr std::array<const char*, 3> kRepositoryMarks = {".git", ".hg", ".svn"};

bool IsAbsolute(std::string_view path) { return path.starts_with('/'); }

bool Exists(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0;
}

// Whether there is such a file, for a layer that may be missing. What cannot be known counts as missing in a place of
// the user's (HOME may be one that this process may not enter) and is a problem in the system's: a limit that somebody
// has set must not vanish because of a slip with the permissions.
LayerFile LookFor(Layer layer, const std::string& path, std::vector<Problem>& problems) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0) return {.layer = layer, .path = path, .found = true};
  const int error = errno;
  if (error == ENOENT || error == ENOTDIR) return {.layer = layer, .path = path};
  if (layer == Layer::kSystem) problems.push_back({.file = path, .what = "cannot be looked at: " + ErrorText(error)});
  return {.layer = layer, .path = path, .note = "cannot be looked at: " + ErrorText(error)};
}

void FindSystem(const Environment& env, std::vector<LayerFile>& files, std::vector<Problem>& problems) {
  const auto named = env.Get(kSystemDirectoryVariable);
  if (named && named->empty()) {
    files.push_back({.layer = Layer::kSystem,
                     .path = kSystemDirectory,
                     .note = std::string("not looked for: ") + kSystemDirectoryVariable + " is empty"});
    return;
  }
  const std::string directory(named ? *named : kSystemDirectory);
  if (!IsAbsolute(directory)) {
    problems.push_back(
        {.variable = kSystemDirectoryVariable, .what = "is not an absolute path", .expected = "a directory"});
    return;
  }
  files.push_back(LookFor(Layer::kSystem, directory + "/" + kPolicyFileName, problems));
  const std::string folder = directory + "/" + kPolicyFolderName;
  const LayerFile pattern = {.layer = Layer::kSystem, .path = folder + "/*.toml"};
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
  if (dir == nullptr) {
    const int error = errno;
    if (error != ENOENT && error != ENOTDIR) {
      problems.push_back({.file = folder, .what = "cannot be listed: " + ErrorText(error)});
    }
    files.push_back(pattern);
    return;
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with('.') && name.ends_with(".toml")) names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) problems.push_back({.file = folder, .what = "cannot be listed: " + ErrorText(errno)});
  if (names.size() > kMostSystemFiles) {
    problems.push_back({.file = folder, .what = "holds more than " + std::to_string(kMostSystemFiles) + " policies"});
    names.clear();
  }
  if (names.empty()) files.push_back(pattern);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    files.push_back({.layer = Layer::kSystem, .path = folder + "/" + name, .found = true});
  }
}

void FindUser(const Environment& env, std::vector<LayerFile>& files, std::vector<Problem>& problems) {
  const std::string_view config = env.Get("XDG_CONFIG_HOME").value_or("");
  const std::string_view home = env.Get("HOME").value_or("");
  std::string directory;
  if (IsAbsolute(config)) {
    directory = config;
  } else if (IsAbsolute(home)) {
    directory = std::string(home) + "/.config";
  } else {
    files.push_back({.layer = Layer::kUser,
                     .path = "~/.config/slipstream/policy.toml",
                     .note = "not looked for: neither XDG_CONFIG_HOME nor HOME names a directory"});
    return;
  }
  files.push_back(LookFor(Layer::kUser, directory + "/slipstream/" + kPolicyFileName, problems));
}

std::string FolderAbove(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

std::string Resolved(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), &std::free);
  return resolved == nullptr ? std::string() : std::string(resolved.get());
}

bool IsRepositoryRoot(const std::string& folder) {
  return std::any_of(kRepositoryMarks.begin(), kRepositoryMarks.end(),
                     [&folder](const char* mark) { return Exists(folder + "/" + mark); });
}

// Whether strangers could have put a file there: then what lies there, or above, is nobody's project.
bool IsShared(const std::string& folder) {
  struct stat status = {};
  if (::stat(folder.c_str(), &status) != 0) return true;
  return (status.st_mode & S_IWOTH) != 0 || (status.st_uid != ::geteuid() && status.st_uid != 0);
}

// The working directory and those above it in which a project's file may lie, the nearest first.
std::vector<std::string> ProjectFolders(const std::string& working, const std::string& home) {
  std::vector<std::string> folders;
  for (std::string folder = working;; folder = FolderAbove(folder)) {
    if (!folders.empty() && IsShared(folder)) break;
    folders.push_back(folder);
    // A home of "/", as daemons have it, is nobody's.
    if (folder != "/" && (folder == home || IsRepositoryRoot(folder))) return folders;
    if (folder == "/") break;
  }
  folders.resize(1);  // Nothing says how far the project goes.
  return folders;
}

void FindProject(const Environment& env, std::vector<LayerFile>& files) {
  const std::string working = Resolved(".");
  if (working.empty()) {
    files.push_back({.layer = Layer::kProject,
                     .path = kProjectFileName,
                     .note = "not looked for: the working directory cannot be found"});
    return;
  }
  const std::string_view home = env.Get("HOME").value_or("");
  const std::vector<std::string> folders = ProjectFolders(working, IsAbsolute(home) ? Resolved(std::string(home)) : "");
  const auto file_in = [](const std::string& folder) {
    return (folder == "/" ? folder : folder + "/") + kProjectFileName;
  };
  for (const std::string& folder : folders) {
    if (Exists(file_in(folder))) {
      files.push_back({.layer = Layer::kProject, .path = file_in(folder), .found = true});
      return;
    }
  }
  files.push_back({.layer = Layer::kProject,
                   .path = file_in(working),
                   .note = folders.size() > 1 ? "nor in a folder above, up to " + folders.back() : ""});
}

}  // namespace

const char* NameOf(Layer layer) noexcept {
  switch (layer) {
    case Layer::kSystem:
      return "system";
    case Layer::kUser:
      return "user";
    case Layer::kProject:
      return "project";
    case Layer::kNamed:
      return "named";
  }
  return "unknown";
}

std::vector<LayerFile> FindLayers(const LayerSearch& search, const Environment& env, std::vector<Problem>& problems) {
  std::vector<LayerFile> files;
  const auto not_looked_for = [&](const char* why) {
    if (search.search == Search::kNamedOnly) return;
    files.push_back({.layer = Layer::kUser, .note = std::string("not looked for: ") + why});
    if (search.search == Search::kCommand) files.push_back({.layer = Layer::kProject, .note = files.back().note});
  };
  if (search.search != Search::kNamedOnly) FindSystem(env, files, problems);
  if (search.named) {
    not_looked_for("the command line names a file");
    files.push_back({.layer = Layer::kNamed, .path = *search.named, .found = true});
    return files;
  }
  if (const auto list = env.Get(kPolicyVariable)) {
    not_looked_for(list->empty() ? "SLIPSTREAM_POLICY is empty" : "SLIPSTREAM_POLICY names the files");
    for (std::string& name : SplitPolicyList(std::string(*list))) {
      if (!env.directory().empty() && !IsAbsolute(name)) name = env.directory() + "/" + name;
      files.push_back({.layer = Layer::kNamed, .path = std::move(name), .found = true});
    }
    return files;
  }
  if (search.search == Search::kNamedOnly) return files;
  FindUser(env, files, problems);
  if (search.search == Search::kCommand) FindProject(env, files);
  return files;
}

std::vector<std::string> SplitPolicyList(const std::string& value) {
  if (value.empty()) return {};
  if (value.find_first_of(":\\") == std::string::npos || Exists(value)) return {value};
  std::vector<std::string> names(1);
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] == ':') {
      names.emplace_back();
    } else {
      if (value[i] == '\\' && i + 1 < value.size() && (value[i + 1] == ':' || value[i + 1] == '\\')) ++i;
      names.back() += value[i];
    }
  }
  names.erase(std::remove(names.begin(), names.end(), std::string()), names.end());
  return names;
}

std::string JoinPolicyList(const std::vector<std::string>& names) {
  std::string value;
  for (const std::string& name : names) {
    if (!value.empty()) value += ':';
    for (const char c : name) {
      if (c == ':' || c == '\\') value += '\\';
      value += c;
    }
  }
  return value;
}

}  // namespace slipstream::policy
