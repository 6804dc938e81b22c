#include "cuda/transports.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include "cuda/mutant.h"
#include "policy/environment.h"

namespace slipstream::cuda {
namespace {

constexpr std::string_view kTransports[] = {"libuct_",   "libgdrapi.so",      "nvshmem_transport",
                                            "libkvikio", "nvshmem_bootstrap", "libnixl"};

// Of these a program's library is a user; of each other and of nobody they are, too.
constexpr std::string_view kUsed[] = {"libibverbs.so", "librdmacm.so", "libfabric.so"};

// Linked to those, and no use by itself: they themselves and their parts; NCCL and its plugins; what has rules of its
// own here; and cuFile, whose first use is a call that is hooked.
constexpr std::string_view kOwn[] = {"libibverbs", "librdmacm", "libfabric",  "libmlx", "libefa",
                                     "libbnxt_re", "librxe",    "libnccl",    "libmpi", "libopen-",
                                     "libuc",      "libcufile", "libnvshmem", "libpsm", "libsharp"};
// The places of their parts.
constexpr std::string_view kOwnFolders[] = {"/libibverbs/", "/libfabric/", "/openmpi/"};

std::string_view FileOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool BeginsWithAny(std::string_view text, std::span<const std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [text](std::string_view b) { return text.starts_with(b); });
}

bool ContainsAny(std::string_view text, std::span<const std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [text](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

// glibc has relocated the address of the names in place.
bool NeedsAny(const ElfW(Dyn) * dynamic, std::span<const std::string_view> libraries) {
  const char* strings = nullptr;
  for (const ElfW(Dyn)* entry = dynamic; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
  }
  if (strings == nullptr) return false;
  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_NEEDED && BeginsWithAny(strings + entry->d_un.d_val, libraries)) return true;
  }
  return false;
}

bool NcclCopiesByProxy() {
  const char* const value = policy::EnvironmentValue("NCCL_P2P_USE_CUDA_MEMCPY");
  return value != nullptr && std::atoi(value) != 0 && !Broken(Mutant::kS64);
}

int CountObjects(dl_phdr_info* info, size_t, void* data) {
  *static_cast<uint64_t*>(data) = info->dlpi_adds;
  return 1;
}

struct Seen {
  char transport[64] = "";
  char mpi[512] = "";  // its path
};

void Copy(std::string_view from, std::span<char> to) {
  const size_t length = std::min(from.size(), to.size() - 1);
  std::memcpy(to.data(), from.data(), length);
  to[length] = '\0';
}

int FindTransport(dl_phdr_info* info, size_t, void* data) {
  auto* const seen = static_cast<Seen*>(data);
  const std::string_view path = info->dlpi_name != nullptr ? info->dlpi_name : "";
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    dynamic = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  }
  if (seen->mpi[0] == '\0' && IsMpi(path)) Copy(path, seen->mpi);
  if (!IsTransport(path, dynamic)) return 0;
  Copy(path.empty() ? "the program itself" : FileOf(path), seen->transport);
  return 1;
}

}  // namespace

bool IsTransport(std::string_view path, const ElfW(Dyn) * dynamic) {
  // The kernel's own object has no file, and its dynamic section is not relocated.
  if (path.starts_with("linux-vdso")) return false;
  const std::string_view file = FileOf(path);
  if (ContainsAny(file, kTransports)) return true;
  return !BeginsWithAny(file, kOwn) && !ContainsAny(path, kOwnFolders) && NeedsAny(dynamic, kUsed);
}

bool IsMpi(std::string_view path) {
  const std::string_view file = FileOf(path);
  return file.starts_with("libmpi.so") || file.starts_with("libmpi_") || file.starts_with("libmpich");
}

void Transports::Remember(std::string_view name) {
  if (!naming_.exchange(true, std::memory_order_relaxed)) {
    Copy(name, name_);
    named_.store(true, std::memory_order_release);
  }
  found_.store(true, std::memory_order_release);
}

// Not from inside the walk: the two of the loader's locks would be taken in the wrong order. One that cannot be asked
// counts as initialised. It stays loaded from here on, since its function's address is kept.
void Transports::AskFrom(const char* path) {
  void* const handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
  auto* const ask = handle != nullptr ? reinterpret_cast<Initialized*>(dlsym(handle, "MPI_Initialized")) : nullptr;
  if (ask == nullptr) {
    dlerror();  // no error of the program's, on whose thread this is
    return Remember(FileOf(path));
  }
  mpi_.store(ask, std::memory_order_release);
}

bool Transports::Found() {
  if (found_.load(std::memory_order_acquire)) return true;
  // May be called at any time and from any thread (MPI 4.1, 11.4.1).
  Initialized* const ask = mpi_.load(std::memory_order_acquire);
  int initialized = 0;
  if (ask == nullptr || (ask(&initialized) == 0 && initialized == 0)) return false;
  Remember("MPI");
  return true;
}

bool Transports::Look() {
  uint64_t loaded = 0;
  dl_iterate_phdr(CountObjects, &loaded);
  if (loaded == loaded_.load(std::memory_order_acquire)) return Found();
  Seen seen;
  dl_iterate_phdr(FindTransport, &seen);
  if (seen.transport[0] != '\0') Remember(seen.transport);
  if (seen.mpi[0] != '\0' && mpi_.load(std::memory_order_relaxed) == nullptr) AskFrom(seen.mpi);
  // A program may set it too, before it loads what NCCL needs. Not asked each time: another thread may be at the
  // environment.
  if (NcclCopiesByProxy()) nccl_by_proxy_.store(true, std::memory_order_relaxed);
  loaded_.store(loaded, std::memory_order_release);
  return Found();
}

}  // namespace slipstream::cuda
