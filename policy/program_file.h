// Inspects the file that an exec call would run, without running it.
//
// Purpose: finds what children.h decides by: the program's whole path, and its first bytes.
// Threading: async-signal-safe, and no cancellation point: system calls and little of the stack, nothing else. Safe
// between vfork and exec, and in a forked child of a process with many threads. errno is the caller's to put back.
// Hazard: ProgramPath is large (4 KiB); keep it off the stack on which the program is then executed.
// Errors: what cannot be found out stays as it was given, or empty. If a path is not a readable address, readable() is
// false; the real call then reports the error.

#pragma once

#include <climits>
#include <cstddef>
#include <span>
#include <string_view>

namespace slipstream::policy {

class ProgramPath {
 public:
  ProgramPath() = default;
  ProgramPath(const ProgramPath&) = delete;
  ProgramPath& operator=(const ProgramPath&) = delete;

  // As execve has it: relative to the working directory.
  void FromPath(const char* path) noexcept;

  // As execvp has it: a name without a slash is looked for in `search`, the value of PATH, which may be null. One that
  // is not found stays as it is.
  void FromSearch(const char* name, const char* search) noexcept;

  // As execveat has it; with an empty path, or none, the descriptor itself is the program.
  void FromDescriptor(int descriptor, const char* path) noexcept;

  // Absolute where everything could be found out. Symbolic links stay as they are, but for those of /proc, whose own
  // names say nothing ("/proc/self/exe").
  std::string_view view() const noexcept { return {text_, size_}; }

  bool readable() const noexcept { return readable_; }

  // The first bytes of the file, as many as fit; nothing where it is no regular file or cannot be read.
  std::string_view Head(std::span<char> buffer) const noexcept;

 private:
  bool Append(std::string_view part) noexcept;
  bool FromLink(const char* link) noexcept;
  // `name` may lie in text_, behind `room` bytes of it.
  void MakeAbsolute(std::string_view name, std::size_t room) noexcept;
  bool IsProgram(const char* path) noexcept;

  std::size_t size_ = 0;
  int descriptor_ = -1;  // the program itself, where it came as one
  bool readable_ = true;
  char text_[PATH_MAX];  // ends in a NUL; not initialized beyond
};

}  // namespace slipstream::policy
