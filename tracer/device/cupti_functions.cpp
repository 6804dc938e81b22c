#include "tracer/device/cupti_functions.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <string_view>
#include <vector>

namespace slipstream::tracer {
namespace {

// Records have grown at their ends only, from CUDA 12.0 on (18) and through CUDA 13.
constexpr uint32_t kFirstVersion = 18;
constexpr uint32_t kEndVersion = 140000;

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// "libcupti.so.13", and "libcupti-<hash>.so.12" as some wheels rename it.
bool IsCuptiName(std::string_view name) {
  return (name.starts_with("libcupti.") || name.starts_with("libcupti-")) && name.find(".so") != std::string_view::npos;
}

int Collect(dl_phdr_info* info, size_t, void* data) {
  if (info->dlpi_name != nullptr && IsCuptiName(BaseName(info->dlpi_name))) {
    static_cast<std::vector<std::string>*>(data)->emplace_back(info->dlpi_name);
  }
  return 0;
}

// "13" of "/somewhere/libcudart.so.13.0.96".
std::string MajorOf(const std::string& runtime) {
  const size_t at = runtime.rfind(".so.");
  if (at == std::string::npos) return "";
  const size_t end = runtime.find('.', at + 4);
  return runtime.substr(at + 4, end == std::string::npos ? end : end - at - 4);
}

void* Open(const std::string& runtime, std::string* path, std::string* problem) {
  std::vector<std::string> loaded;
  dl_iterate_phdr(Collect, &loaded);
  if (loaded.size() > 1) {
    *problem = "the process has two libcupti: " + loaded[0] + " and " + loaded[1];
    return nullptr;
  }
  if (!loaded.empty()) {
    *path = loaded[0];
    return dlopen(loaded[0].c_str(), RTLD_NOW | RTLD_NOLOAD);
  }
  const std::string major = MajorOf(runtime);
  const std::string file = "libcupti.so." + (major.empty() ? "13" : major);
  const size_t slash = runtime.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : runtime.substr(0, slash + 1);
  std::vector<std::string> places;
  if (!folder.empty()) {
    for (const char* const below :
         {"", "../extras/CUPTI/lib64/", "../../../extras/CUPTI/lib64/", "../../cuda_cupti/lib/"}) {
      places.push_back(folder + below + file);
    }
  }
  for (const std::string& place : places) {
    if (access(place.c_str(), R_OK) != 0) continue;
    *path = place;
    if (void* const handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  *path = file;
  if (void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  *problem = "no " + file + " beside " + runtime + ", nor where the system's libraries are";
  return nullptr;
}

}  // namespace

bool CuptiFunctions::Find(const std::string& runtime, std::string* problem) {
  void* const handle = Open(runtime, &path, problem);
  if (handle == nullptr) {
    if (problem->empty()) *problem = path + " cannot be opened";
    return false;
  }
  const char* missing = nullptr;
#define SLIPSTREAM_ROW(name, function)                               \
  name = reinterpret_cast<decltype(name)>(dlsym(handle, #function)); \
  if (name == nullptr) missing = #function;
  SLIPSTREAM_CUPTI_FUNCTIONS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
  if (missing != nullptr) {
    *problem = path + " has no " + missing;
    return false;
  }
  if (get_version(&version) != CUPTI_SUCCESS || version < kFirstVersion || version >= kEndVersion) {
    *problem = path + " has version " + std::to_string(version) + ", which slipstream does not know";
    return false;
  }
  return true;
}

}  // namespace slipstream::tracer
