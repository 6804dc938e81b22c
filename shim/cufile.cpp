// cuFile (GPUDirect Storage): its reads and writes reach device memory by a disk's own adapter, beside every stream. A
// program has to register a file before the first of them (cuFile API reference, cuFileHandleRegister), which is where
// it is seen (S22). The call itself is the program's own, whatever happens.
//
// Threading: any thread.
// Hazard: a library that looks the function up in libcufile itself is not seen here; KvikIO does, and is known by its
// name (transfer/transports.h).

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <string_view>

#include "shim/loaded_object.h"
#include "shim/runtime.h"

namespace slipstream::shim {
namespace {

struct Question {
  char path[512] = "";
};

int FindCuFile(dl_phdr_info* info, size_t, void* data) {
  const std::string_view path = info->dlpi_name != nullptr ? info->dlpi_name : "";
  auto* const question = static_cast<Question*>(data);
  if (!BaseName(path).starts_with("libcufile.so") || path.size() >= sizeof(question->path)) return 0;
  path.copy(question->path, path.size());
  return 1;
}

// What the dynamic linker finds behind us; else that of the libcufile in the process, which may be nobody's but its
// user's.
void* FindReal(const char* name) {
  void* const next = dlsym(RTLD_NEXT, name);
  if (next != nullptr && !IsOurs(next)) return next;
  Question question;
  dl_iterate_phdr(FindCuFile, &question);
  void* const handle = question.path[0] != '\0' ? dlopen(question.path, RTLD_NOLOAD | RTLD_LAZY) : nullptr;
  return handle != nullptr ? dlsym(handle, name) : nullptr;  // it stays loaded: its function was handed out
}

// CUfileError_t as it is returned, two numbers in one register: CU_FILE_DRIVER_NOT_INITIALIZED, and no error of CUDA's.
constexpr uint64_t kNoCuFile = 5001;

}  // namespace
}  // namespace slipstream::shim

extern "C" [[gnu::visibility("default")]] uint64_t cuFileHandleRegister(void** handle, void* description) {
  using slipstream::shim::FindReal;
  auto* const real = reinterpret_cast<decltype(&cuFileHandleRegister)>(FindReal("cuFileHandleRegister"));
  slipstream::shim::Runtime::SharesMemoryWithFiles();
  return real != nullptr ? real(handle, description) : slipstream::shim::kNoCuFile;
}
