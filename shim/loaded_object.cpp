#include "shim/loaded_object.h"

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

// Where this library begins and ends in memory: the linker's own symbols (ld.bfd, gold and lld have them).
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" [[gnu::visibility("hidden")]] const char __ehdr_start;
extern "C" [[gnu::visibility("hidden")]] const char _end;
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace slipstream::shim {
namespace {

struct Question {
  const void* address;
  LoadedObject answer;
};

// Not by dladdr: that walks the object's symbols, of which libtorch_cuda has so many that one question takes a
// millisecond.
int Answer(dl_phdr_info* info, size_t, void* data) {
  auto* question = static_cast<Question*>(data);
  LoadedObject object;
  object.begin = UINTPTR_MAX;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) object.dynamic = reinterpret_cast<const ElfW(Dyn)*>(start);
    if (header.p_type != PT_LOAD) continue;
    if (start < object.begin) object.begin = start;
    if (start + header.p_memsz > object.end) object.end = start + header.p_memsz;
  }
  if (!object.Holds(question->address)) return 0;
  object.name = info->dlpi_name != nullptr ? info->dlpi_name : "";
  question->answer = object;
  return 1;
}

constinit std::atomic<pid_t> g_used_by{0};  // the process that used CUDA first: this one or an ancestor

}  // namespace

bool MayAskLoader() {
  const pid_t used_by = g_used_by.load(std::memory_order_relaxed);
  return used_by == 0 || used_by == getpid();
}

void ProcessUsesCuda() {
  pid_t nobody = 0;
  g_used_by.compare_exchange_strong(nobody, getpid(), std::memory_order_relaxed);
}

LoadedObject LoadedObject::At(const void* address) {
  if (!MayAskLoader()) return {};
  Question question = {address, {}};
  dl_iterate_phdr(Answer, &question);
  return question.answer;
}

void* FoundFrom(const void* caller, const char* name) {
  const LoadedObject object = LoadedObject::At(caller);
  if (object.name[0] == '\0') return nullptr;
  void* const handle = dlopen(object.name, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr) return nullptr;
  void* const found = dlsym(handle, name);
  dlclose(handle);
  return found != nullptr && !IsOurs(found) ? found : nullptr;
}

bool IsOurs(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  return value >= reinterpret_cast<uintptr_t>(&__ehdr_start) && value < reinterpret_cast<uintptr_t>(&_end);
}

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace slipstream::shim
