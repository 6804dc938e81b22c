// Executes programs in every way that the C library has. Knows nothing of slipstream, but for saying whether a library
// of that name is in the process.
//
//   exec_calls show                     its variables, working directory, and whether the library is mapped
//   exec_calls calls PROGRAM            what it shows itself, and every call, each in a child of its own, of PROGRAM
//   exec_calls cuda-and-calls PROGRAM   the same once CUDA is in use
//   exec_calls shells PROGRAM           by way of system() and popen()
//   exec_calls missing PROGRAM          every call of a program that is not there: what it returns, and leaves behind
//   exec_calls with PROGRAM NAME=VALUE  execve with the process's variables but LD_PRELOAD, and these behind them
//   exec_calls many COUNT PROGRAM       execve with so many variables more
//   exec_calls stack PROGRAM            execve with 600 variables more, from a thread with the smallest stack there is
//   exec_calls room                     how much of such a stack a thread finds free, in bytes
//   exec_calls depth PROGRAM            how deep each call goes with 600 variables more, from a handler on a stack of
//   its
//                                       own: bytes
//   exec_calls often PROGRAM            every call many times, and once more: the mappings of the process before and
//   after exec_calls nested PROGRAM           a call, and inside of the real function a signal whose handler makes
//   another exec_calls threads PROGRAM          from several threads, while others allocate and load libraries
//   exec_calls workers PROGRAM          uses CUDA, forks workers, and each becomes PROGRAM with "workload"
//   exec_calls bad-addresses            execve of what is no address
// Under any other name or argument it shows: an interpreter of a script that is this program does.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

bool Mapped() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("libslipstream.so") != std::string::npos) return true;
  }
  return false;
}

int Show() {
  char place[PATH_MAX];
  std::string text;
  int entries = 0;
  for (char** entry = environ; *entry != nullptr; ++entry, ++entries) {
    if (std::strncmp(*entry, "FILLER", 6) != 0) text += std::string(*entry) + "\n";
  }
  text += "entries: " + std::to_string(entries) + "\n";
  text += std::string("cwd: ") + (getcwd(place, sizeof(place)) != nullptr ? place : "?") + "\n";
  text += std::string("mapped: ") + (Mapped() ? "yes" : "no") + "\n";
  std::cout << text << std::flush;
  return 0;
}

// What is passed on: its own strings, so that nobody can have changed those of the process instead.
class Variables {
 public:
  explicit Variables(const std::vector<std::string>& more = {}, const char* without = nullptr) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const bool left_out = without != nullptr && std::string(*entry).rfind(std::string(without) + "=", 0) == 0;
      if (!left_out) texts_.emplace_back(*entry);
    }
    texts_.insert(texts_.end(), more.begin(), more.end());
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
    before_ = texts_;
  }
  char* const* get() { return pointers_.data(); }
  bool unchanged() const {
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (pointers_[i] != texts_[i].data()) return false;
    }
    return texts_ == before_ && pointers_.back() == nullptr;
  }

 private:
  std::vector<std::string> texts_;
  std::vector<std::string> before_;
  std::vector<char*> pointers_;
};

struct Target {
  const char* path;  // whole
  const char* name;  // for PATH
  // The folder that it lies in, and itself; left open by exec, as an interpreter reads a script by way of them.
  int folder;
  int file;
  char* arguments[3];
  char* const* variables;
};

struct Way {
  const char* name;
  int (*call)(const Target&);
  bool spawns = false;  // else it replaces the process
};

int SpawnResult(int error, pid_t child) {
  if (error != 0) {
    errno = error;
    return -1;
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// By a path that looks like a link of the kernel's and is none. A call that goes well leaves errno alone.
int SpawnByProc(const Target& target) {
  const std::string path = std::string("/proc/self/root") + target.path;
  pid_t child = 0;
  errno = ERANGE;
  const int error = posix_spawn(&child, path.c_str(), nullptr, nullptr, target.arguments, target.variables);
  if (error == 0 && errno != ERANGE) std::cout << "errno has changed" << std::endl;
  return SpawnResult(error, child);
}

// With actions and attributes: the child begins in another directory and with a descriptor of its own.
int SpawnWithActions(const Target& target) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, "/");
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, 9);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int error = posix_spawn(&child, target.path, &actions, &attributes, target.arguments, target.variables);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return SpawnResult(error, child);
}

// NOLINTBEGIN(cppcoreguidelines-pro-type-vararg): the point of it
const Way kWays[] = {
    {"execve", [](const Target& t) { return execve(t.path, t.arguments, t.variables); }},
    {"execv", [](const Target& t) { return execv(t.path, t.arguments); }},
    {"execvp", [](const Target& t) { return execvp(t.name, t.arguments); }},
    {"execvpe", [](const Target& t) { return execvpe(t.name, t.arguments, t.variables); }},
    {"execl",
     [](const Target& t) { return execl(t.path, t.arguments[0], t.arguments[1], static_cast<char*>(nullptr)); }},
    {"execlp",
     [](const Target& t) { return execlp(t.name, t.arguments[0], t.arguments[1], static_cast<char*>(nullptr)); }},
    {"execle",
     [](const Target& t) {
       return execle(t.path, t.arguments[0], t.arguments[1], static_cast<char*>(nullptr), t.variables);
     }},
    {"execveat", [](const Target& t) { return execveat(t.folder, t.name, t.arguments, t.variables, 0); }},
    {"execveat-file", [](const Target& t) { return execveat(t.file, "", t.arguments, t.variables, AT_EMPTY_PATH); }},
    {"fexecve", [](const Target& t) { return fexecve(t.file, t.arguments, t.variables); }},
    {"posix_spawn",
     [](const Target& t) {
       pid_t child = 0;
       return SpawnResult(posix_spawn(&child, t.path, nullptr, nullptr, t.arguments, t.variables), child);
     },
     true},
    {"posix_spawnp",
     [](const Target& t) {
       pid_t child = 0;
       return SpawnResult(posix_spawnp(&child, t.name, nullptr, nullptr, t.arguments, t.variables), child);
     },
     true},
    {"posix_spawn-actions", SpawnWithActions, true},
    {"posix_spawn-proc", SpawnByProc, true},
};
// NOLINTEND(cppcoreguidelines-pro-type-vararg)

// The wait status of a child in which the call was made.
int InChild(const Way& way, const Target& target, bool vforked) {
  if (way.spawns) return way.call(target);
  // NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork): what programs do
  const pid_t child = vforked ? vfork() : fork();
  if (child == 0) {
    way.call(target);
    _exit(99);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

class Program {
 public:
  explicit Program(const std::string& path)
      : path_(path),
        name_(path.substr(path.rfind('/') + 1)),
        folder_(open(Folder().c_str(), O_PATH)),  // NOLINT(android-cloexec-open): see Target
        file_(open(path_.c_str(), O_RDONLY)) {}   // NOLINT(android-cloexec-open)
  ~Program() {
    close(folder_);
    close(file_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Target With(Variables& variables) {
    return {path_.c_str(), name_.c_str(), folder_, file_, {path_.data(), show_.data(), nullptr}, variables.get()};
  }

 private:
  std::string Folder() const { return path_.substr(0, path_.rfind('/') + 1); }

  std::string path_;
  std::string name_;
  std::string show_ = "show";
  int folder_;
  int file_;
};

int Calls(const std::string& path) {
  std::cout << "== self" << std::endl;
  Show();
  Program program(path);
  for (const bool vforked : {false, true}) {
    for (const Way& way : kWays) {
      if (way.spawns && vforked) continue;
      std::cout << "== " << (vforked ? "vfork " : "") << way.name << std::endl;
      Variables variables({std::string("MARK=") + way.name});
      const int status = InChild(way, program.With(variables), vforked);
      if (status != 0) std::cout << "status " << status << std::endl;
      if (!variables.unchanged()) std::cout << "the variables that were passed on have changed" << std::endl;
    }
  }
  return 0;
}

int Shells(const std::string& path) {
  // Inside of the C library, nobody's hook is called.
  std::cout << "== system" << std::endl;
  if (system((path + " show").c_str()) != 0) return 1;  // NOLINT(cert-env33-c)
  std::cout << "== popen" << std::endl;
  FILE* const pipe = popen((path + " show").c_str(), "r");  // NOLINT(cert-env33-c)
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) std::cout << static_cast<char>(c);
  return pclose(pipe);
}

std::string PreloadVariable() {
  const char* const value = getenv("LD_PRELOAD");
  return value != nullptr ? value : "";
}

int Missing(const std::string& path) {
  Program program(path);
  const std::string before = PreloadVariable();
  for (const Way& way : kWays) {
    if (std::string(way.name) == "fexecve" || std::string(way.name) == "execveat-file") continue;
    Variables variables;
    char** const own = environ;
    errno = 0;
    const int result = way.call(program.With(variables));
    std::cout << way.name << ": " << result << " " << (errno == ENOENT ? "ENOENT" : std::strerror(errno));
    if (!variables.unchanged() || environ != own) std::cout << ", variables have changed";
    if (before != PreloadVariable()) std::cout << ", LD_PRELOAD has changed";
    std::cout << std::endl;
  }
  return 0;
}

int With(const std::string& path, const std::vector<std::string>& more) {
  Program program(path);
  Variables variables(more, "LD_PRELOAD");
  return InChild(kWays[0], program.With(variables), true);
}

std::vector<std::string> Fillers(int count) {
  std::vector<std::string> more;
  for (int i = 0; i < count; ++i) more.push_back("FILLER" + std::to_string(i) + "=x");
  return more;
}

int Many(int count, const std::string& path) {
  Program program(path);
  Variables variables(Fillers(count));
  return InChild(kWays[0], program.With(variables), true);
}

struct OnThread {
  std::function<int()> call;
  int result = -1;
};

// A sanitizer's own needs more.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kForSanitizers = 8192;
#else
constexpr size_t kForSanitizers = 0;
#endif

// What `call` returns there; 98: there is no such thread.
int OnTheSmallestStack(std::function<int()> call) {
  OnThread given{std::move(call)};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 16384 + kForSanitizers);  // glibc's PTHREAD_STACK_MIN of x86-64
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    auto* const asked = static_cast<OnThread*>(argument);
    asked->result = asked->call();
    return nullptr;
  };
  if (pthread_create(&thread, &attributes, run, &given) != 0) return 98;
  pthread_join(thread, nullptr);
  return given.result;
}

int OnASmallStack(const std::string& path) {
  Program program(path);
  Variables variables(Fillers(600));
  return OnTheSmallestStack([&] { return InChild(kWays[0], program.With(variables), true); });
}

int Room() {
  size_t room = 0;
  const int result = OnTheSmallestStack([&] {
    pthread_attr_t attributes;
    void* lowest = nullptr;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 1;
    pthread_attr_getstack(&attributes, &lowest, &size);
    room = static_cast<size_t>(static_cast<char*>(__builtin_frame_address(0)) - static_cast<char*>(lowest));
    pthread_attr_destroy(&attributes);
    return 0;
  });
  std::cout << "room: " << room << std::endl;
  return result;
}

// What the handler is to do, and where it does it.
std::function<void()>* g_in_handler = nullptr;

void InHandler(int /*signal*/) { (*g_in_handler)(); }

void Put(std::string_view text) {
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(1);
}

int Depth(const std::string& path) {
  constexpr size_t kSize = size_t{256} << 10;
  constexpr char kUntouched = 0x5c;
  static char memory[kSize];  // not mapped: nobody looks up the functions behind a hook before the calls
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = kSize;
  struct sigaction action = {};
  action.sa_handler = InHandler;
  action.sa_flags = SA_ONSTACK;
  if (sigaltstack(&stack, nullptr) != 0 || sigaction(SIGUSR1, &action, nullptr) != 0) return 1;
  Program program(path);
  Variables variables(Fillers(600));
  for (const Way& way : kWays) {
    std::memset(memory, kUntouched, kSize);
    int status = -1;
    std::function<void()> call = [&] { status = InChild(way, program.With(variables), true); };
    g_in_handler = &call;
    raise(SIGUSR1);
    const auto* const deepest = std::find_if(memory, memory + kSize, [=](char byte) { return byte != kUntouched; });
    std::cout << "depth " << way.name << ": " << memory + kSize - deepest << std::endl;
    if (status != 0) std::cout << "status " << status << std::endl;
  }
  return 0;
}

// In the handler is the inner call, while the outer one is inside of the real function (interposer.cpp).
int Nested(const std::string& path) {
  Program program(path);
  Variables outer({"MARK=outer"});
  Variables inner({"MARK=inner"});
  const Way& spawn = *std::find_if(std::begin(kWays), std::end(kWays),
                                   [](const Way& way) { return std::strcmp(way.name, "posix_spawn") == 0; });
  const Target target = program.With(inner);
  std::function<void()> call = [&] {
    Put("== inner\n");  // no stream in a signal handler
    spawn.call(target);
    Put("== outer\n");
  };
  g_in_handler = &call;
  struct sigaction action = {};
  action.sa_handler = InHandler;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  if (sigaction(SIGUSR2, &action, nullptr) != 0) return 1;
  return spawn.call(program.With(outer));
}

size_t Mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

int Often(const std::string& path) {
  Program program(path);
  Variables variables;
  size_t before = 0;
  for (int round = 0; round < 41; ++round) {
    for (const Way& way : kWays) {
      if (InChild(way, program.With(variables), round % 2 == 0) != 0) return 1;
    }
    if (round == 0) before = Mappings();
  }
  std::cout << "mappings: " << before << " " << Mappings() << std::endl;
  return 0;
}

int FromThreads(const std::string& path) {
  std::atomic<bool> done = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> busy;
  busy.emplace_back([&] {
    while (!done) std::make_unique<std::vector<char>>(1 << 20)->at(7) = 1;
  });
  busy.emplace_back([&] {
    while (!done) {
      if (void* const library = dlopen("libdl.so.2", RTLD_NOW)) dlclose(library);
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Program program(path);
      for (int round = 0; round < 6; ++round) {
        for (const Way& way : kWays) {
          Variables variables;
          if (InChild(way, program.With(variables), (round + i) % 2 == 0) != 0) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  for (std::thread& thread : busy) thread.join();
  std::cout << "wrong: " << wrong << std::endl;
  return 0;
}

int Workers(const std::string& path) {
  if (cudaFree(nullptr) != cudaSuccess) return 97;
  std::string workload = "workload";
  std::string program = path;
  char* arguments[] = {program.data(), workload.data(), nullptr};
  pid_t workers[4];
  for (int i = 0; i < 4; ++i) {
    workers[i] = fork();
    if (workers[i] == 0) {
      i % 2 == 0 ? execv(program.c_str(), arguments) : execve(program.c_str(), arguments, environ);
      _exit(99);
    }
  }
  int wrong = 0;
  for (const pid_t worker : workers) {
    int status = 0;
    waitpid(worker, &status, 0);
    if (status != 0) ++wrong;
  }
  return wrong;
}

int BadAddresses() {
  auto* const nowhere = reinterpret_cast<char*>(8);
  char* arguments[] = {nowhere, nullptr};
  const int result = execve(nowhere, arguments, environ);
  std::cout << result << " " << (errno == EFAULT ? "EFAULT" : std::strerror(errno)) << std::endl;
  const int at = execveat(AT_FDCWD, nowhere, arguments, environ, 0);
  std::cout << at << " " << (errno == EFAULT ? "EFAULT" : std::strerror(errno)) << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "show";
  const std::string last = argv[argc - 1];
  if (mode == "calls") return Calls(last);
  if (mode == "cuda-and-calls") {
    if (cudaFree(nullptr) != cudaSuccess) return 97;
    return Calls(last);
  }
  if (mode == "shells") return Shells(last);
  if (mode == "missing") return Missing(last);
  if (mode == "with" && argc > 2) return With(argv[2], {argv + 3, argv + argc});
  if (mode == "many" && argc == 4) return Many(std::atoi(argv[2]), last);
  if (mode == "stack") return OnASmallStack(last);
  if (mode == "room") return Room();
  if (mode == "depth") return Depth(last);
  if (mode == "often") return Often(last);
  if (mode == "nested") return Nested(last);
  if (mode == "threads") return FromThreads(last);
  if (mode == "workers") return Workers(last);
  if (mode == "bad-addresses") return BadAddresses();
  return Show();
}
