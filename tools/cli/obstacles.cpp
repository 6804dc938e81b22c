#include "tools/cli/obstacles.h"

#include <elf.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include "policy/environment.h"
#include "policy/memory_left.h"
#include "policy/program_file.h"
#include "tools/cli/capture.h"
#include "tools/cli/watcher.h"
#include "tools/text/text.h"

namespace slipstream::cli {
namespace {

using text::HumanBytes;

constexpr int kLoaderSeconds = 20;
constexpr int kMostInterpreters = 5;  // as the kernel follows
constexpr uint64_t kLittleMemory = uint64_t{256} << 20;

// These start the command where this machine's files, or its environment, are not.
constexpr std::array<std::string_view, 8> kOtherRoots = {"docker", "podman",      "nerdctl", "apptainer",
                                                         "enroot", "singularity", "chroot",  "ssh"};

std::string Find(const std::string& name) {
  policy::ProgramPath path;
  path.FromSearch(name.c_str(), policy::EnvironmentValue("PATH"));
  return std::string(path.view());
}

// None of what is no file: a pipe's are somebody else's, and may never come.
std::string FirstBytes(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::string bytes(4096, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

// The words of a script's first line; of `#!/usr/bin/env python3`, without env.
std::string InterpreterOf(const std::string& bytes) {
  std::istringstream line(bytes.substr(2, bytes.find('\n') - 2));
  std::string program;
  line >> program;
  if (std::filesystem::path(program).filename() == "env") {
    for (std::string word; line >> word;) {
      if (!word.starts_with('-') && word.find('=') == std::string::npos) return word;
    }
  }
  return program;
}

// The program that is executed in the end.
std::string BinaryOf(const std::string& name) {
  std::string path = Find(name);
  for (int followed = 0; followed < kMostInterpreters; ++followed) {
    const std::string bytes = FirstBytes(path);
    if (!bytes.starts_with("#!")) break;
    path = Find(InterpreterOf(bytes));
  }
  return path;
}

struct Binary {
  bool is_elf = false;
  bool is_ours = false;  // of this machine's kind
  std::string loader;    // empty: none
};

Binary LookAt(const std::string& path) {
  Binary binary;
  const std::string bytes = FirstBytes(path);
  Elf64_Ehdr header;
  if (bytes.size() < sizeof(header) || !bytes.starts_with(ELFMAG)) return binary;
  std::memcpy(&header, bytes.data(), sizeof(header));
  binary.is_elf = true;
  binary.is_ours = header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == EM_X86_64;
  if (!binary.is_ours || header.e_phentsize != sizeof(Elf64_Phdr)) return binary;
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    if (!file.read(reinterpret_cast<char*>(&part), sizeof(part))) break;
    if (part.p_type != PT_INTERP || part.p_filesz > PATH_MAX) continue;
    binary.loader.resize(part.p_filesz);
    file.seekg(static_cast<std::streamoff>(part.p_offset));
    file.read(binary.loader.data(), static_cast<std::streamsize>(part.p_filesz));
    binary.loader.resize(std::strlen(binary.loader.c_str()));
    break;
  }
  return binary;
}

bool HasOtherRights(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && (facts.st_mode & (S_ISUID | S_ISGID)) != 0;
}

// The first line that has the text; empty: none has.
std::string LineWith(const std::string& text, std::string_view part) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(part) != std::string::npos) return line;
  }
  return {};
}

std::string WithoutIndent(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t");
  return first == std::string::npos ? std::string() : line.substr(first);
}

// What the program's own loader says when it is to load the library with it.
std::vector<std::string> AskLoader(const std::string& path, const std::string& loader, const std::string& library) {
  std::vector<std::string> variables = {"LD_PRELOAD=" + library};
  if (const char* const places = policy::EnvironmentValue("LD_LIBRARY_PATH")) {
    variables.push_back(std::string("LD_LIBRARY_PATH=") + places);
  }
  const Captured said = Capture({loader, "--list", path}, variables, kLoaderSeconds);
  std::vector<std::string> obstacles;
  for (const char* const sign : {"version `GLIBC", "cannot be preloaded", "error while loading"}) {
    const std::string line = LineWith(said.output, sign);
    if (line.empty()) continue;
    obstacles.push_back(path + " has a loader that does not load the library (" + WithoutIndent(line) +
                        "): the command would not start under slipstream");
    return obstacles;
  }
  for (const char* const runtime : {"libasan.so", "libclang_rt.asan"}) {
    const std::string line = LineWith(said.output, runtime);
    if (line.empty()) continue;
    const char* const preload = policy::EnvironmentValue("LD_PRELOAD");
    if (preload != nullptr && std::strstr(preload, runtime) != nullptr) continue;
    obstacles.push_back(path +
                        " is built with AddressSanitizer, whose runtime must come first: it would not start. "
                        "Test without slipstream, or without the sanitizer");
  }
  return obstacles;
}

bool IsForMusl(const Binary& binary) {
  return std::filesystem::path(binary.loader).filename().string().starts_with("ld-musl");
}

std::string LinkedToMusl(const std::string& path) {
  return path + " is linked to musl, which cannot load a library for glibc";
}

bool Refused(long result) { return result < 0 && (errno == ENOSYS || errno == EPERM); }

}  // namespace

std::vector<std::string> MachineObstacles() {
  std::vector<std::string> obstacles;
  if (access("/dev/shm", W_OK | X_OK) != 0) {
    obstacles.push_back(std::string("/dev/shm: ") + std::strerror(errno) +
                        "; counters are files in TMPDIR or /tmp, and written to its disk");
  }
  const long root = syscall(SYS_pidfd_open, getpid(), 0);
  if (Refused(root)) {
    obstacles.push_back(std::string("pidfd_open: ") + std::strerror(errno) +
                        " (an old kernel, or a seccomp filter): there is no watcher, and the next run ends one that is "
                        "killed");
  }
  if (root >= 0) close(static_cast<int>(root));
  // Either will do. A table of descriptors of its own is nothing new to a process without threads.
  if (Refused(syscall(SYS_close_range, ~0U - 1, ~0U, 0U)) && Refused(unshare(CLONE_FILES))) {
    obstacles.push_back(std::string("close_range and unshare: ") + std::strerror(errno) +
                        " (a seccomp filter): --record leaves no trace, which needs one of the two");
  }
  int mode = 0;
  if (Refused(syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, nullptr, 0UL))) {
    obstacles.emplace_back(
        "get_mempolicy is refused (a seccomp filter): pinned memory may lie far from its device where there are "
        "several "
        "NUMA nodes");
  }
  if (const uint64_t left = policy::MemoryLeft(); left < kLittleMemory) {
    obstacles.push_back("only " + HumanBytes(left) +
                        " of memory are left to a process here (the machine, or its cgroup): a program that uses CUDA "
                        "may be killed, and slipstream adds to what it needs");
  }
  return obstacles;
}

std::vector<std::string> MachineNotes(const policy::Policy& policy) {
  std::vector<std::string> notes;
  if (policy.run.watcher == policy::RunWatcher::kAuto && getpid() != 1 && !InitCollects()) {
    notes.emplace_back(
        "the first process here collects none that others leave (`docker run` without --init): there is no watcher, "
        "and the next run ends one that is killed");
  }
  const uint64_t left = policy::MemoryLeft();
  const uint64_t pinned = policy::MostPinned(left, 0, 1);
  if (left >= kLittleMemory && policy.enabled && pinned < policy.transfer.max_pinned) {
    notes.push_back(HumanBytes(left) + " of memory are left to a process here: it pins " + HumanBytes(pinned) +
                    " at most, less than transfer.max_pinned = " + HumanBytes(policy.transfer.max_pinned));
  }
  return notes;
}

std::vector<std::string> ProgramObstacles(const std::string& program, const std::string& library) {
  const std::string name = std::filesystem::path(program).filename().string();
  if (std::find(kOtherRoots.begin(), kOtherRoots.end(), name) != kOtherRoots.end()) {
    return {name +
            " starts the command in another place than this: run slipstream there, in front of the command itself"};
  }
  const std::string path = BinaryOf(program);
  const Binary binary = LookAt(path);
  if (!binary.is_elf) return {};  // starting it will say what it is
  if (!binary.is_ours) return {path + " is a program for another kind of machine: it cannot load the library"};
  if (binary.loader.empty()) {
    return {path +
            " is linked statically: it loads no library, and nothing of it is seen; programs that it starts are"};
  }
  if (HasOtherRights(path)) {
    return {path + " runs with the rights of another user or group (setuid): the loader ignores LD_PRELOAD there"};
  }
  if (IsForMusl(binary)) return {LinkedToMusl(path) + ": `slipstream run` runs it without, and a child ends with 127"};
  return AskLoader(path, binary.loader, library);
}

std::string WhyNotPreloaded(const std::string& program) {
  const std::string path = BinaryOf(program);
  return IsForMusl(LookAt(path)) ? LinkedToMusl(path) : "";
}

}  // namespace slipstream::cli
