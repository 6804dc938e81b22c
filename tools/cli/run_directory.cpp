#include "tools/cli/run_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include "tools/cli/private_umask.h"
#include "tools/cli/run_end.h"
#include "tools/cli/run_state.h"
#include "tracer/spool/spool_format.h"

namespace slipstream::cli {
namespace {

constexpr std::string_view kPrefix = "slipstream-run-";

// Ours are flat: files only. Those with names that end in `kept` stay; empty: none does.
void RemoveFlatDirectory(const std::string& path, std::string_view kept = {}) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(fdopendir(fd), closedir);
  if (dir == nullptr) {
    close(fd);
    return;
  }
  while (const dirent* entry = readdir(dir.get())) {
    const std::string_view name(entry->d_name);
    if (name == "." || name == ".." || (!kept.empty() && name.ends_with(kept))) continue;
    unlinkat(dirfd(dir.get()), entry->d_name, 0);
  }
  rmdir(path.c_str());
}

// Whether the run may still be going on although nobody holds its lock: its watcher was killed, or there was none.
bool MayLive(const std::string& path) {
  const std::optional<RunState> state = ReadRunState(path);
  if (!state) return false;
  const RootIs root = LookForRoot(*state);
  return root == RootIs::kAlive || (root == RootIs::kUnknown && !state->watched);
}

// With one that could not be ended somebody else is ending it: a root that was killed while it did.
bool HasState(const std::string& path) { return access((path + "/" + kRunStateName).c_str(), F_OK) == 0; }

// Removes what runs of this user left in `place` when they were killed: nobody holds their lock any more.
void SweepAbandoned(const std::string& place) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(place.c_str()), closedir);
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir.get())) {
    if (std::string_view(entry->d_name).substr(0, kPrefix.size()) != kPrefix) continue;
    const std::string path = place + "/" + entry->d_name;
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    struct stat status {};
    if (fstat(fd, &status) == 0 && status.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 && !MayLive(path) &&
        !EndRun(path, {.now = false, .print = false}) && !HasState(path)) {
      RemoveFlatDirectory(path);
    }
    close(fd);
  }
}

// The same for runs that recorded a trace. One whose root may live, in another PID namespace or on another machine, is
// left alone: it has no lock.
void EndAbandonedTraces(const std::string& place) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(place.c_str()), closedir);
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir.get())) {
    if (!std::string_view(entry->d_name).starts_with(kTracePrefix)) continue;
    const std::string path = place + "/" + entry->d_name;
    const std::optional<RunState> state = ReadRunState(path);
    if (state && LookForRoot(*state) == RootIs::kGone) EndRun(path, {.now = false, .print = false});
  }
}

}  // namespace

RunDirectory::~RunDirectory() { Remove(); }

void RunDirectory::Remove() {
  if (!path_.empty()) RemoveRun(path_, keeps_trace_);
  if (lock_ >= 0) close(lock_);
  path_.clear();
  lock_ = -1;
}

bool RunDirectory::Create(const std::vector<std::string>& places, std::string* error) {
  const PrivateUmask only_ours;
  for (const std::string& place : places) {
    SweepAbandoned(place);
    // Between mkdtemp and flock another run's sweep may take the empty directory for abandoned; then try again.
    for (int attempt = 0; attempt < 8; ++attempt) {
      std::string name = place + "/" + std::string(kPrefix) + "XXXXXX";
      if (mkdtemp(name.data()) == nullptr) {
        *error += (error->empty() ? "" : "; ") + place + ": " + std::strerror(errno);
        break;
      }
      const int fd = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      struct stat held {};
      struct stat named {};
      if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 && fstat(fd, &held) == 0 && held.st_nlink != 0 &&
          stat(name.c_str(), &named) == 0 && named.st_ino == held.st_ino) {
        path_ = name;
        lock_ = fd;
        error->clear();
        return true;
      }
      if (fd >= 0) close(fd);
      rmdir(name.c_str());
    }
  }
  return false;
}

bool RunDirectory::CreateForTrace(const std::vector<std::string>& places, std::string* error) {
  const PrivateUmask only_ours;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char time[32];
  if (std::strftime(time, sizeof(time), "%Y%m%d-%H%M%S", &local) == 0) time[0] = '\0';
  for (const std::string& place : places) {
    std::string name = place + "/" + kTracePrefix + time + "-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      *error += (error->empty() ? "" : "; ") + place + ": " + std::strerror(errno);
      continue;
    }
    path_ = name;
    lock_ = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    keeps_trace_ = true;
    error->clear();
    return true;
  }
  return false;
}

bool RunDirectory::CreateNamed(const std::string& path, std::string* error) {
  const PrivateUmask only_ours;
  std::error_code failed;
  const std::string name = std::filesystem::absolute(path, failed).lexically_normal().string();
  if (failed) {
    *error = failed.message();
    return false;
  }
  if (mkdir(name.c_str(), S_IRWXU) != 0) {
    const int why = errno;
    const bool is_free = why == EEXIST && std::filesystem::is_directory(name, failed) &&
                         std::filesystem::is_empty(name, failed) && access(name.c_str(), W_OK) == 0;
    if (!is_free) {
      *error = why == EEXIST ? "it is there, and is no empty directory that can be written" : std::strerror(why);
      return false;
    }
  }
  path_ = name;
  lock_ = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  keeps_trace_ = true;
  return true;
}

void RemoveRun(const std::string& path, bool keeps_trace) {
  RemoveFlatDirectory(path, keeps_trace ? tracer::kSpoolSuffix : "");
}

void EndAbandonedRuns(const std::string& tmpdir) {
  for (const std::string& place : RunDirectoryPlaces(tmpdir)) SweepAbandoned(place);
  for (const std::string& place : TraceDirectoryPlaces(tmpdir)) EndAbandonedTraces(place);
}

std::vector<std::string> RunDirectoryPlaces(const std::string& tmpdir) {
  std::vector<std::string> places = {"/dev/shm"};
  if (!tmpdir.empty()) places.push_back(tmpdir);
  places.emplace_back("/tmp");
  return places;
}

std::vector<std::string> TraceDirectoryPlaces(const std::string& tmpdir) {
  std::vector<std::string> places = RunDirectoryPlaces(tmpdir);
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (error) {
    places.erase(places.begin());  // it was removed
  } else {
    places.front() = here;
  }
  return places;
}

}  // namespace slipstream::cli
