#include "policy/children.h"

#include <algorithm>
#include <cstring>

#include "policy/pattern.h"

namespace slipstream::policy {
namespace {

constexpr std::string_view kPreloads[] = {"all", "python", "none"};

// As ld.so(8) has it: nothing escapes either.
constexpr std::string_view kSeparators = ": ";

constexpr std::string_view kPreloadVariable = "LD_PRELOAD=";
constexpr std::string_view kNvtxVariable = "NVTX_INJECTION64_PATH=";

constexpr std::string_view kPythons[] = {"python*", "pypy*", "graalpy*"};

// A launcher that is a script of Python's (torchrun, accelerate, deepspeed) is known by its first line.
constexpr std::string_view kStarters[] = {
    // Shells.
    "sh", "bash", "rbash", "dash", "ash", "zsh", "ksh*", "mksh", "fish", "csh", "tcsh", "busybox",
    // Programs that change something about a process and then become another.
    "env", "nice", "ionice", "nohup", "timeout", "time", "taskset", "numactl", "stdbuf", "setsid", "xargs", "chrt",
    "prlimit", "setarch", "unshare", "nsenter", "flock", "script", "unbuffer", "parallel", "watch", "make", "tini",
    "dumb-init", "catchsegv", "gosu", "setpriv", "uv", "uvx", "pixi", "micromamba", "apptainer", "singularity",
    // Launchers of many processes.
    "srun", "sbatch", "slurmstepd", "mpirun*", "mpiexec*", "orterun", "orted", "prterun", "prted", "hydra_*", "jsrun",
    "aprun",
    // Debuggers and profilers.
    "gdb", "strace", "ltrace", "perf", "valgrind", "nsys", "ncu", "rocgdb", "cuda-gdb", "compute-sanitizer", "py-spy"};

bool MatchesAny(std::span<const std::string_view> patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [name](std::string_view pattern) { return MatchesPattern(pattern, name); });
}

std::string_view BaseName(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool KeepsByName(std::string_view name) { return MatchesAny(kPythons, name) || MatchesAny(kStarters, name); }

// Whether a pattern of this sign matches the program.
bool Listed(std::string_view patterns, char sign, std::string_view path) {
  while (!patterns.empty()) {
    const std::size_t end = std::min(patterns.find(':'), patterns.size());
    const std::string_view one = patterns.substr(0, end);
    patterns.remove_prefix(std::min(end + 1, patterns.size()));
    if (one.empty() || one.front() != sign) continue;
    const std::string_view pattern = one.substr(1);
    const bool whole = pattern.find('/') != std::string_view::npos;
    if (MatchesPattern(pattern, whole ? path : BaseName(path))) return true;
  }
  return false;
}

// Copies the entries of a list like LD_PRELOAD that are not `library`, each with what separated it from the one before.
std::size_t CopyOthers(std::string_view list, std::string_view library, char* out) {
  std::size_t written = 0;
  std::size_t begin = 0;
  while (begin < list.size()) {
    const std::size_t end = std::min(list.find_first_of(kSeparators, begin), list.size());
    if (list.substr(begin, end - begin) != library && end > begin) {
      if (written > 0) out[written++] = list[begin - 1];
      std::memcpy(out + written, list.data() + begin, end - begin);
      written += end - begin;
    }
    begin = end + 1;
  }
  return written;
}

bool Holds(std::string_view list, std::string_view library) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(kSeparators), list.size());
    if (list.substr(0, end) == library) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

}  // namespace

std::string ChildrenVariable(const Children& children, std::string_view library) {
  if (children.preload == ChildrenPreload::kAll && children.drop.empty()) return {};  // `keep` adds nothing to all
  std::string out(kPreloads[static_cast<std::size_t>(children.preload)]);
  out.append(":").append(library);
  for (const std::string& pattern : children.keep) out.append(":+").append(pattern);
  for (const std::string& pattern : children.drop) out.append(":-").append(pattern);
  return out;
}

bool ParseChildren(std::string_view text, ChildrenRule* rule) noexcept {
  const std::size_t first = text.find(':');
  if (first == std::string_view::npos) return false;
  const auto* const found = std::find(std::begin(kPreloads), std::end(kPreloads), text.substr(0, first));
  if (found == std::end(kPreloads)) return false;
  rule->preload = static_cast<ChildrenPreload>(found - std::begin(kPreloads));
  const std::size_t second = std::min(text.find(':', first + 1), text.size());
  rule->library = text.substr(first + 1, second - first - 1);
  rule->patterns = text.substr(std::min(second + 1, text.size()));
  return !rule->library.empty();
}

Keeps MayKeep(const ChildrenRule& rule, std::string_view path) noexcept {
  if (Listed(rule.patterns, '-', path)) return Keeps::kNo;
  if (rule.preload == ChildrenPreload::kAll || Listed(rule.patterns, '+', path)) return Keeps::kYes;
  if (rule.preload == ChildrenPreload::kNone) return Keeps::kNo;
  return KeepsByName(BaseName(path)) ? Keeps::kYes : Keeps::kByContent;
}

bool KeepsByContent(std::string_view head) noexcept {
  if (head.starts_with("\177ELF")) return false;
  if (!head.starts_with("#!")) return true;
  std::string_view line = head.substr(2, std::min(head.find('\n'), head.size()) - 2);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  const std::string_view interpreter = line.substr(0, line.find_first_of(" \t\r"));
  return interpreter.empty() || KeepsByName(BaseName(interpreter));
}

std::span<const std::string_view> Starters() noexcept { return kStarters; }

bool WithoutPreload(char* const* variables, std::string_view library, std::span<char*> entries,
                    std::span<char> text) noexcept {
  if (variables == nullptr) return false;
  bool edited = false;
  std::size_t used = 0;
  std::size_t written = 0;
  for (char* const* entry = variables; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    char* passed = *entry;
    if (variable.starts_with(kNvtxVariable) && variable.substr(kNvtxVariable.size()) == library) {
      edited = true;
      continue;
    }
    if (variable.starts_with(kPreloadVariable) && Holds(variable.substr(kPreloadVariable.size()), library)) {
      edited = true;
      if (text.size() - used < variable.size() + 1) return false;
      passed = text.data() + used;
      std::memcpy(passed, kPreloadVariable.data(), kPreloadVariable.size());
      const std::size_t others =
          CopyOthers(variable.substr(kPreloadVariable.size()), library, passed + kPreloadVariable.size());
      if (others == 0) continue;
      passed[kPreloadVariable.size() + others] = '\0';
      used += kPreloadVariable.size() + others + 1;
    }
    if (written + 1 >= entries.size()) return false;
    entries[written++] = passed;
  }
  if (written >= entries.size()) return false;
  entries[written] = nullptr;
  return edited;
}

}  // namespace slipstream::policy
