#include "policy/program_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace slipstream::policy {
namespace {

// Where execvp looks without PATH (confstr(_CS_PATH) of the C library).
constexpr std::string_view kDefaultSearch = "/bin:/usr/bin";

constexpr std::string_view kRemoved = " (deleted)";

// As execvp has it.
constexpr std::size_t kLongestName = NAME_MAX;

// Not the C library's functions: some are cancellation points, and any may be somebody's hook.
long Call(long number, long a, long b = 0, long c = 0, long d = 0) { return syscall(number, a, b, c, d); }

long Word(const void* pointer) { return reinterpret_cast<long>(pointer); }

bool IsRegular(const char* path) {
  struct stat found {};
  return Call(SYS_newfstatat, AT_FDCWD, Word(path), Word(&found), 0) == 0 && S_ISREG(found.st_mode);
}

// "/proc/self/fd/7"
struct DescriptorName {
  char text[32];

  explicit DescriptorName(int descriptor) {
    constexpr std::string_view kFolder = "/proc/self/fd/";
    char digits[12];
    std::size_t count = 0;
    auto left = static_cast<unsigned>(descriptor);
    do {
      digits[count++] = static_cast<char>('0' + left % 10);
      left /= 10;
    } while (left != 0);
    std::memcpy(text, kFolder.data(), kFolder.size());
    std::reverse_copy(digits, digits + count, text + kFolder.size());
    text[kFolder.size() + count] = '\0';
  }
};

}  // namespace

bool ProgramPath::Append(std::string_view part) noexcept {
  if (part.size() >= sizeof(text_) - size_) return false;
  std::memmove(text_ + size_, part.data(), part.size());  // `part` may lie in the room behind
  size_ += part.size();
  text_[size_] = '\0';
  return true;
}

bool ProgramPath::FromLink(const char* link) noexcept {
  const long got = Call(SYS_readlinkat, AT_FDCWD, Word(link), Word(text_), static_cast<long>(sizeof(text_) - 1));
  if (got <= 0) return false;
  size_ = static_cast<std::size_t>(got);
  if (view().ends_with(kRemoved)) size_ -= kRemoved.size();
  text_[size_] = '\0';
  return true;
}

bool ProgramPath::IsProgram(const char* path) noexcept {
  return IsRegular(path) && Call(SYS_faccessat, AT_FDCWD, Word(path), X_OK) == 0;
}

void ProgramPath::FromPath(const char* path) noexcept {
  // The kernel says whether it can be read before this process tries.
  if (Call(SYS_faccessat, AT_FDCWD, Word(path), F_OK) != 0 && errno == EFAULT) {
    readable_ = false;
    return;
  }
  const std::string_view name = path;
  if (!name.starts_with("/proc/") || !FromLink(path)) MakeAbsolute(name, sizeof(text_));
}

void ProgramPath::MakeAbsolute(std::string_view name, std::size_t room) noexcept {
  size_ = 0;
  if (!name.starts_with('/')) {
    const long got = Call(SYS_getcwd, Word(text_), static_cast<long>(room));  // with the NUL
    if (got > 1 && text_[0] == '/') {                                         // else "(unreachable)/..."
      size_ = static_cast<std::size_t>(got) - 1;
      if (size_ > 1 && !Append("/")) size_ = 0;
    }
    while (size_ > 0 && name.starts_with("./")) {
      name.remove_prefix(std::min(name.find_first_not_of('/', 2), name.size()));
    }
  }
  if (Append(name)) return;
  size_ = 0;
  // Too long with its directory, or at all: what is at its end says most.
  Append(name.substr(name.size() - std::min(name.size(), sizeof(text_) - 1)));
}

void ProgramPath::FromSearch(const char* name, const char* search) noexcept {
  const std::string_view wanted = name;
  if (wanted.find('/') != std::string_view::npos || wanted.empty() || wanted.size() > kLongestName) {
    FromPath(name);
    return;
  }
  std::string_view left = search != nullptr ? std::string_view(search) : kDefaultSearch;
  for (bool more = true; more;) {
    const std::size_t end = std::min(left.find(':'), left.size());
    const std::string_view folder = left.substr(0, end);
    more = end < left.size();
    left.remove_prefix(std::min(end + 1, left.size()));
    size_ = 0;
    if (!Append(folder.empty() ? "." : folder) || !Append("/") || !Append(wanted) || !IsProgram(text_)) continue;
    if (text_[0] == '/') return;
    // Relative, which is rare: behind the working directory, from the end of the same room.
    char* const relative = text_ + sizeof(text_) - size_;
    std::memmove(relative, text_, size_);
    MakeAbsolute({relative, size_}, sizeof(text_) - size_);
    return;
  }
  size_ = 0;
  Append(wanted);
}

void ProgramPath::FromDescriptor(int descriptor, const char* path) noexcept {
  if (path != nullptr && Call(SYS_faccessat, AT_FDCWD, Word(path), F_OK) != 0 && errno == EFAULT) {
    readable_ = false;
    return;
  }
  const bool itself = path == nullptr || *path == '\0';
  if (!itself && (descriptor == AT_FDCWD || *path == '/')) {
    FromPath(path);
    return;
  }
  size_ = 0;
  const bool known = descriptor >= 0 && FromLink(DescriptorName(descriptor).text);
  if (itself) {
    descriptor_ = descriptor;
    return;
  }
  if (known && Append("/") && Append(path)) return;
  size_ = 0;
  Append(path);
}

std::string_view ProgramPath::Head(std::span<char> buffer) const noexcept {
  const DescriptorName name(std::max(descriptor_, 0));
  const char* const path = descriptor_ >= 0 ? name.text : text_;
  if (size_ == 0 && descriptor_ < 0) return {};
  // Opening something else than a file may do something, or wait.
  if (!IsRegular(path)) return {};
  const long file = Call(SYS_openat, AT_FDCWD, Word(path), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return {};
  const long got = Call(SYS_pread64, file, Word(buffer.data()), static_cast<long>(buffer.size()), 0);
  Call(SYS_close, file);
  return {buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

}  // namespace slipstream::policy
