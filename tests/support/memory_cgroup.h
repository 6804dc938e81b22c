// A memory cgroup of a test's own. Needs root, and a cgroup that another one can be made in.
//
// Threading: one thread. Ownership: the cgroup goes with the object; by then its processes have ended, but for this
// one, which goes back to the root.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <string>

namespace slipstream::test {

class MemoryCgroup {
 public:
  // Of at most so many bytes; see made().
  explicit MemoryCgroup(size_t bytes) {
    for (const Kind& kind : kKinds) {
      const std::string folder =
          std::string(kind.root) + "/slipstream-test-" + std::to_string(getpid()) + "-" + std::to_string(bytes);
      if (mkdir(folder.c_str(), 0755) != 0) continue;
      if (Write(folder + kind.limit, std::to_string(bytes))) {
        kind_ = &kind;
        folder_ = folder;
        return;
      }
      (void)rmdir(folder.c_str());
    }
  }
  ~MemoryCgroup() {
    if (folder_.empty()) return;
    (void)Write(std::string(kind_->root) + "/cgroup.procs", std::to_string(getpid()));
    (void)rmdir(folder_.c_str());
  }
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;

  bool made() const { return !folder_.empty(); }
  // A process that writes its number there is in it. What it had before counts elsewhere.
  std::string processes() const { return folder_ + "/cgroup.procs"; }
  // This process is in it from now on.
  bool Enter() const { return made() && Write(processes(), std::to_string(getpid())); }
  // The most that it ever had; 0: unknown.
  size_t Peak() const {
    std::ifstream file(folder_ + kind_->peak);
    size_t bytes = 0;
    file >> bytes;
    return bytes;
  }

 private:
  struct Kind {
    const char* root;
    const char* limit;
    const char* peak;
  };
  static constexpr Kind kKinds[] = {
      {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.max_usage_in_bytes"},
      {"/sys/fs/cgroup", "/memory.max", "/memory.peak"},
  };

  static bool Write(const std::string& path, const std::string& text) {
    std::fstream file(path, std::ios::in | std::ios::out);  // which makes no file where there is none
    file << text;
    file.close();
    return static_cast<bool>(file);
  }

  const Kind* kind_ = nullptr;
  std::string folder_;
};

}  // namespace slipstream::test
