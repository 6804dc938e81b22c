#include "tools/cli/preload_name.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <system_error>
#include <vector>

#include "tools/cli/private_umask.h"

namespace slipstream::cli {
namespace {

namespace fs = std::filesystem;

// Folders of the user's own, the ones that last first.
std::vector<std::string> OwnFolders(const policy::Environment& environment) {
  std::vector<std::string> folders;
  std::error_code error;
  const std::string state(environment.Get("XDG_STATE_HOME").value_or(""));
  if (state.starts_with('/')) folders.push_back(state + "/slipstream");
  const std::string home(environment.Get("HOME").value_or(""));
  if (home.starts_with('/') && fs::is_directory(home, error)) folders.push_back(home + "/.local/state/slipstream");
  folders.push_back("/tmp/slipstream-" + std::to_string(geteuid()));
  return folders;
}

// Where others may write, they may have been there first.
bool IsOursAlone(const std::string& folder) {
  struct stat status {};
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool PointsTo(const std::string& link, const std::string& library) {
  std::error_code error;
  return fs::read_symlink(link, error) == library && !error;
}

// Another run may do the same at the same time: the link is there whole, or not at all.
bool MakeLink(const std::string& link, const std::string& library) {
  std::error_code error;
  fs::create_directories(fs::path(link).parent_path(), error);
  if (error) return false;
  const std::string made = link + "." + std::to_string(getpid());
  if (symlink(library.c_str(), made.c_str()) != 0) return false;
  if (std::rename(made.c_str(), link.c_str()) == 0) return true;
  unlink(made.c_str());
  return false;
}

}  // namespace

bool FitsPreload(const std::string& path) { return path.find_first_of(": ") == std::string::npos; }

std::string PreloadName(const std::string& library, const policy::Environment& environment) {
  if (FitsPreload(library)) return library;
  const PrivateUmask only_ours;
  char name[17];  // one for each place of installation
  std::snprintf(name, sizeof(name), "%016zx", std::hash<std::string>{}(library));
  for (const std::string& own : OwnFolders(environment)) {
    std::string link = fs::path(own) / "preload" / name / fs::path(library).filename();
    if (!FitsPreload(link)) continue;
    std::error_code error;
    fs::create_directories(own, error);
    if (!IsOursAlone(own)) continue;
    if (PointsTo(link, library) || MakeLink(link, library)) return link;
  }
  return library;
}

}  // namespace slipstream::cli
