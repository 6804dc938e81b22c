// cuFile's registration of a file, which answers with what it was given.
#include <cstdint>

struct CuFileError {
  int error;
  int cuda_error;
};

extern "C" [[gnu::visibility("default")]] CuFileError cuFileHandleRegister(void** handle, void* description) {
  *handle = description;
  return {.error = 7, .cuda_error = static_cast<int>(reinterpret_cast<uintptr_t>(description))};
}
