// Reads what the system says about other processes (proc(5)): which run a process belongs to, who started whom, and
// whether it is still there. This slows the other process no more than `ps` does.
//
// Threading: any thread.
// Errors: what cannot be read is missing; a process may end between two questions.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream::top {

class ProcFiles {
 public:
  // `root`: for tests.
  explicit ProcFiles(std::string root = "/proc") : root_(std::move(root)) {}

  // A text that is the number of a process; nothing: it is none.
  static std::optional<int32_t> PidIn(std::string_view text);

  // Numbers of all processes, ascending.
  std::vector<int32_t> All() const;
  bool Exists(int32_t pid) const;
  // It exists and is not a zombie.
  bool IsAlive(int32_t pid) const;
  std::optional<int32_t> ParentOf(int32_t pid) const;
  std::string NameOf(int32_t pid) const;  // "python3"; empty: not known
  // What it was started with; empty: not known.
  std::vector<std::string> CommandOf(int32_t pid) const;
  std::optional<uid_t> OwnerOf(int32_t pid) const;

  struct Variables {
    bool readable = false;      // else it is another user's
    std::string run_directory;  // SLIPSTREAM_RUN_DIRECTORY; empty: none
    bool has_library = false;   // LD_PRELOAD names libslipstream.so
  };
  // As they were when the process began its program.
  Variables VariablesOf(int32_t pid) const;

 private:
  std::optional<std::string> Read(int32_t pid, const char* name) const;
  // What stands behind the name in "stat": its first field is the state. Names may hold spaces and brackets.
  std::optional<std::string> Stat(int32_t pid) const;

  std::string root_;
};

}  // namespace slipstream::top
