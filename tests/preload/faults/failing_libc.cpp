// A library to preload in front of slipstream's: functions of the C library that fail where slipstream calls them, and
// nowhere else.
//
//   FAIL_LIBC=malloc@3,pthread_create@1+   its third call of malloc fails, and all of pthread_create
//   FAIL_LIBC_CALLS=FILE                   gets "name calls" lines when the process ends by exit
//   MEET_LIBC=posix_fallocate@1 with MEET_LIBC_AT=5:6
//                                          such a call does not fail: it writes a byte to descriptor 5, and goes on
//                                          when it has read one from 6
//
// Threading: any thread.
// Hazard: it is inside malloc; nothing here may allocate.

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Function {
  const char* name;
  std::atomic<uint64_t> calls{0};  // of slipstream's
  std::atomic<void*> real{nullptr};
};

constexpr size_t kMostFunctions = 64;
Function* g_functions[kMostFunctions];
size_t g_count = 0;

uintptr_t g_begin = 0;  // slipstream's code; 0: nothing fails
uintptr_t g_end = 0;
const char* g_failures = nullptr;
const char* g_meetings = nullptr;
int g_come = -1;
int g_go = -1;

int FindSlipstream(dl_phdr_info* object, size_t, void*) {
  const char* const slash = std::strrchr(object->dlpi_name, '/');
  if (slash == nullptr || std::strncmp(slash + 1, "libslipstream", 13) != 0) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    g_begin = object->dlpi_addr + part.p_vaddr;
    g_end = g_begin + part.p_memsz;
  }
  return 1;
}

[[gnu::constructor]] void Begin() {
  g_failures = std::getenv("FAIL_LIBC");
  g_meetings = std::getenv("MEET_LIBC");
  if (const char* const at = std::getenv("MEET_LIBC_AT")) std::sscanf(at, "%d:%d", &g_come, &g_go);
  dl_iterate_phdr(FindSlipstream, nullptr);
}

[[gnu::destructor]] void End() {
  const char* const path = std::getenv("FAIL_LIBC_CALLS");
  if (path == nullptr) return;
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  for (size_t i = 0; i < g_count && file >= 0; ++i) {
    const uint64_t calls = g_functions[i]->calls.load();
    if (calls != 0) dprintf(file, "%s %llu\n", g_functions[i]->name, static_cast<unsigned long long>(calls));
  }
  if (file >= 0) close(file);
}

// Whether "name@call" is in the list.
bool Names(const char* list, const char* name, uint64_t call) {
  const size_t length = std::strlen(name);
  for (const char* item = list; item != nullptr; item = std::strchr(item, ',')) {
    item += *item == ',' ? 1 : 0;
    if (std::strncmp(item, name, length) != 0 || item[length] != '@') continue;
    char* end = nullptr;
    const uint64_t nth = std::strtoull(item + length + 1, &end, 10);
    if (call == nth || (*end == '+' && call > nth)) return true;
  }
  return false;
}

// Counts slipstream's calls; whether this one is to fail.
bool Fails(Function& function, const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  if (address < g_begin || address >= g_end) return false;
  const uint64_t call = function.calls.fetch_add(1, std::memory_order_relaxed) + 1;
  if (Names(g_meetings, function.name, call)) {
    char byte = 0;
    if (syscall(SYS_write, g_come, &byte, 1) == 1) syscall(SYS_read, g_go, &byte, 1);
  }
  return Names(g_failures, function.name, call);
}

template <typename Real>
Real* RealOf(Function& function) {
  void* real = function.real.load(std::memory_order_relaxed);
  if (real == nullptr) {
    real = dlsym(RTLD_NEXT, function.name);
    function.real.store(real, std::memory_order_relaxed);
  }
  return reinterpret_cast<Real*>(real);
}

// Constant-initialized, for malloc is called before any constructor runs; put into the list by one.
#define FUNCTION(name)                                   \
  constinit Function g_##name = {#name, {0}, {nullptr}}; \
  [[gnu::constructor]] void Enlist_##name() { g_functions[g_count++] = &g_##name; }

}  // namespace

// The exported name by its label, so that no header's declaration is in the way.
#define FAILING(result, name, parameters, arguments, error, failure)                         \
  namespace {                                                                                \
  FUNCTION(name)                                                                             \
  }                                                                                          \
  extern "C" [[gnu::visibility("default")]] result Failing_##name parameters __asm__(#name); \
  extern "C" result Failing_##name parameters {                                              \
    if (Fails(g_##name, __builtin_return_address(0))) {                                      \
      errno = error;                                                                         \
      return failure;                                                                        \
    }                                                                                        \
    return RealOf<result parameters>(g_##name) arguments;                                    \
  }

// These are called by dlsym itself.
#define FAILING_ALLOCATION(name, parameters, arguments)                                     \
  namespace {                                                                               \
  FUNCTION(name)                                                                            \
  }                                                                                         \
  extern "C" void* __libc_##name parameters;                                                \
  extern "C" [[gnu::visibility("default")]] void* Failing_##name parameters __asm__(#name); \
  extern "C" void* Failing_##name parameters {                                              \
    if (Fails(g_##name, __builtin_return_address(0))) {                                     \
      errno = ENOMEM;                                                                       \
      return nullptr;                                                                       \
    }                                                                                       \
    return __libc_##name arguments;                                                         \
  }

FAILING_ALLOCATION(malloc, (size_t bytes), (bytes))
FAILING_ALLOCATION(realloc, (void* at, size_t bytes), (at, bytes))
FAILING(void*, aligned_alloc, (size_t alignment, size_t bytes), (alignment, bytes), ENOMEM, nullptr)
FAILING(char*, strdup, (const char* text), (text), ENOMEM, nullptr)
FAILING(void*, mmap, (void* at, size_t bytes, int protection, int flags, int file, off_t offset),
        (at, bytes, protection, flags, file, offset), ENOMEM, MAP_FAILED)
FAILING(void*, mremap, (void* at, size_t bytes, size_t now, int flags, void* to), (at, bytes, now, flags, to), ENOMEM,
        MAP_FAILED)
FAILING(int, madvise, (void* at, size_t bytes, int advice), (at, bytes, advice), EINVAL, -1)
FAILING(int, mincore, (void* at, size_t bytes, unsigned char* pages), (at, bytes, pages), EAGAIN, -1)
FAILING(void*, dlopen, (const char* name, int mode), (name, mode), ENOENT, nullptr)
FAILING(char*, realpath, (const char* path, char* resolved), (path, resolved), ENOENT, nullptr)
FAILING(char*, getcwd, (char* buffer, size_t bytes), (buffer, bytes), ENOENT, nullptr)
FAILING(ssize_t, readlink, (const char* path, char* buffer, size_t bytes), (path, buffer, bytes), EACCES, -1)
FAILING(int, access, (const char* path, int mode), (path, mode), EACCES, -1)
FAILING(int, open, (const char* path, int flags, mode_t mode), (path, flags, mode), EMFILE, -1)
FAILING(int, openat, (int folder, const char* path, int flags, mode_t mode), (folder, path, flags, mode), EMFILE, -1)
FAILING(void*, fopen64, (const char* path, const char* mode), (path, mode), EMFILE, nullptr)
FAILING(int, mkdir, (const char* path, mode_t mode), (path, mode), EROFS, -1)
FAILING(int, rename, (const char* from, const char* to), (from, to), EROFS, -1)
FAILING(int, stat, (const char* path, void* facts), (path, facts), EACCES, -1)
FAILING(int, lstat, (const char* path, void* facts), (path, facts), EACCES, -1)
FAILING(int, fstat, (int file, void* facts), (file, facts), EIO, -1)
FAILING(int, fstat64, (int file, void* facts), (file, facts), EIO, -1)
FAILING(int, statfs, (const char* path, void* facts), (path, facts), EACCES, -1)
FAILING(off_t, lseek64, (int file, off_t offset, int from), (file, offset, from), EIO, -1)
FAILING(int, ftruncate, (int file, off_t bytes), (file, bytes), EIO, -1)
FAILING(int, posix_fallocate, (int file, off_t offset, off_t bytes), (file, offset, bytes), ENOSPC, ENOSPC)
FAILING(ssize_t, pwrite, (int file, const void* from, size_t bytes, off_t offset), (file, from, bytes, offset), ENOSPC,
        -1)
FAILING(ssize_t, write, (int file, const void* from, size_t bytes), (file, from, bytes), ENOSPC, -1)
FAILING(ssize_t, writev, (int file, const void* parts, int count), (file, parts, count), ENOSPC, -1)
FAILING(ssize_t, read, (int file, void* to, size_t bytes), (file, to, bytes), EIO, -1)
FAILING(int, fcntl, (int file, int command, long argument), (file, command, argument), EINVAL, -1)
FAILING(int, flock, (int file, int operation), (file, operation), ENOLCK, -1)
FAILING(int, pthread_create, (void* thread, const void* attributes, void* (*body)(void*), void* argument),
        (thread, attributes, body, argument), EAGAIN, EAGAIN)
FAILING(int, pthread_key_create, (void* key, void (*destroy)(void*)), (key, destroy), EAGAIN, EAGAIN)
FAILING(int, pthread_setspecific, (unsigned key, const void* value), (key, value), ENOMEM, ENOMEM)
FAILING(int, pthread_getattr_np, (pthread_t thread, void* attributes), (thread, attributes), ENOMEM, ENOMEM)
FAILING(int, __cxa_atexit, (void (*call)(void*), void* argument, void* object), (call, argument, object), ENOMEM, -1)
FAILING(int, __register_atfork, (void (*a)(), void (*b)(), void (*c)(), void* object), (a, b, c, object), ENOMEM,
        ENOMEM)
FAILING(int, getrlimit, (int resource, void* limit), (resource, limit), EPERM, -1)
FAILING(int, uname, (void* names), (names), EFAULT, -1)
FAILING(int, sysinfo, (void* facts), (facts), EFAULT, -1)
FAILING(int, sched_getaffinity, (pid_t process, size_t bytes, void* set), (process, bytes, set), EINVAL, -1)
FAILING(int, prctl, (int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d),
        (option, a, b, c, d), EINVAL, -1)
FAILING(ssize_t, process_vm_readv,
        (pid_t process, const void* to, unsigned long to_count, const void* from, unsigned long from_count,
         unsigned long flags),
        (process, to, to_count, from, from_count, flags), EPERM, -1)

// But for waiting and waking, which do not fail in a process that is sound, and for the thread's number.
namespace {
FUNCTION(syscall)
}
extern "C" [[gnu::visibility("default")]] long Failing_syscall(long number, long a, long b, long c, long d, long e,
                                                               long f) __asm__("syscall");
extern "C" long Failing_syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (number != SYS_futex && number != SYS_gettid && Fails(g_syscall, __builtin_return_address(0))) {
    errno = ENOSYS;
    return -1;
  }
  return RealOf<long(long, long, long, long, long, long, long)>(g_syscall)(number, a, b, c, d, e, f);
}
