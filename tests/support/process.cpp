#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace slipstream::test {
namespace {

std::vector<std::string> MergedEnvironment(const Variables& changes) {
  Variables merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) merged[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : changes) {
    if (value.empty()) {
      merged.erase(name);
    } else {
      merged[name] = value;
    }
  }
  std::vector<std::string> variables;
  for (const auto& [name, value] : merged) variables.push_back(name + "=" + value);
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

void Remove(const std::string& directory) {
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

std::string MakeDirectory() {
  std::string path = (std::filesystem::temp_directory_path() / "slipstream-test-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) throw std::runtime_error(path + ": " + std::strerror(errno));
  return path;
}

struct Directories {
  std::vector<std::string> paths;
  ~Directories() {
    for (const std::string& path : paths) Remove(path);
  }
};

}  // namespace

Finished RunProgram(const std::vector<std::string>& command, const Variables& variables, const std::string& input,
                    std::chrono::seconds limit) {
  std::vector<std::string> arguments = command;
  // This machine's own policies are not what is tested, and nothing is left in a home.
  static const std::string state = NewDirectory();
  Variables all = {
      {"SLIPSTREAM_SYSTEM_DIRECTORY", "/nonexistent"}, {"XDG_CONFIG_HOME", "/nonexistent"}, {"XDG_STATE_HOME", state}};
  for (const auto& [name, value] : variables) all[name] = value;
  std::vector<std::string> environment = MergedEnvironment(all);
  int in[2];
  int out[2];
  int err[2];
  Finished finished;
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return {-1, "", ""};
  const std::vector<char*> argument_pointers = Pointers(arguments);
  const std::vector<char*> environment_pointers = Pointers(environment);
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    execvpe(argument_pointers[0], argument_pointers.data(), environment_pointers.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  close(err[1]);
  [[maybe_unused]] const ssize_t written = write(in[1], input.data(), input.size());
  close(in[1]);

  std::array<pollfd, 2> waiting = {pollfd{out[0], POLLIN, 0}, pollfd{err[0], POLLIN, 0}};
  std::array<std::string*, 2> texts = {&finished.out, &finished.err};
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      kill(-child, SIGKILL);
      break;
    }
    poll(waiting.data(), waiting.size(), static_cast<int>(left.count()));
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].fd < 0 || waiting[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t got = read(waiting[i].fd, buffer, sizeof(buffer));
      if (got > 0) {
        texts[i]->append(buffer, static_cast<size_t>(got));
      } else {
        waiting[i].fd = -1;
      }
    }
  }
  close(out[0]);
  close(err[0]);
  int status = 0;
  waitpid(child, &status, 0);
  finished.status = StatusOf(status);
  return finished;
}

Variables Preload(const std::string& library) {
#if defined(__SANITIZE_ADDRESS__)
  // The sanitizer's runtime is a dependency of both program and library; it only minds not being the first.
  return {{"LD_PRELOAD", library}, {"ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0"}};
#else
  return {{"LD_PRELOAD", library}};
#endif
}

Folder::Folder() : path_(MakeDirectory()) { chmod(path_.c_str(), 0755); }

Folder::~Folder() { Remove(path_); }

std::string NewDirectory() {
  static Directories directories;
  return directories.paths.emplace_back(MakeDirectory());
}

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void WriteFile(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file || chmod(path.c_str(), mode) != 0) throw std::runtime_error("cannot write " + path);
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::string Unwrapped(const std::string& text) {
  static const std::regex kBreak("\n {8,}");
  return std::regex_replace(text, kBreak, " ");
}

mode_t ModeOf(const std::string& path) {
  struct stat status = {};
  return lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
}

std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

bool BecomeNobody() {
  constexpr id_t kNobody = 65534;
  if (geteuid() != 0) return true;
  return setgid(kNobody) == 0 && setuid(kNobody) == 0;
}

}  // namespace slipstream::test
