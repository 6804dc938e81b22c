// Another library that people preload: a profiler of the heap that writes a line for every 16th allocation, by
// whichever thread makes it, and goes on in a new file every 64 lines, as such tools do. Says at exit what could not be
// written. HEAP_PROFILE names the file.

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" void* __libc_malloc(size_t);  // NOLINT(bugprone-reserved-identifier)

namespace {

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
const char* g_path = nullptr;
int g_file = -1;
long g_allocations = 0;
long g_lines = 0;
long g_failed = 0;

int Opened() { return open(g_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600); }

void Note(size_t bytes) {
  if (g_file < 0 || ++g_allocations % 16 != 0) return;
  char line[64];
  const int size = std::snprintf(line, sizeof(line), "malloc %zu\n", bytes);
  if (write(g_file, line, static_cast<size_t>(size)) == size) {
    ++g_lines;
  } else {
    ++g_failed;
  }
  if (g_lines % 64 != 0) return;
  const int next = Opened();
  if (next < 0 || close(g_file) != 0) ++g_failed;
  g_file = next;
}

[[gnu::constructor]] void Begin() {
  g_path = std::getenv("HEAP_PROFILE");
  if (g_path != nullptr) g_file = Opened();
}

[[gnu::destructor]] void End() {
  pthread_mutex_lock(&g_lock);
  char text[96];  // dprintf allocates
  const int size = std::snprintf(text, sizeof(text), "heap profiler: %ld lines, %ld failed\n", g_lines, g_failed);
  if (g_path != nullptr && write(STDERR_FILENO, text, static_cast<size_t>(size)) != size) _exit(70);
  close(g_file);
  g_file = -1;
  pthread_mutex_unlock(&g_lock);
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void* malloc(size_t bytes) {
  pthread_mutex_lock(&g_lock);
  Note(bytes);
  pthread_mutex_unlock(&g_lock);
  return __libc_malloc(bytes);
}
