// An NVTX tool: what NVTX_INJECTION64_PATH names. Writes every event of the domain functions, a line each, to the file
// named by NVTX_CAPTURE_FILE; pushes, pops and marks end in their thread's number. With NVTX_CAPTURE_CALLS_CUDA set it
// also calls CUDA from inside a range and a mark, as profilers do. What comes in behind its exit handler, where Nsight
// Compute's injection library faults, is a line "behind the end".

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace {

std::mutex g_mutex;
FILE* g_file = nullptr;
bool g_calls_cuda = false;
bool g_ended = false;
std::map<const void*, std::string> g_strings;

struct DomainName {
  std::string name;
};

const void* AddString(const std::string& text) {
  auto* key = new char;
  g_strings[key] = text;
  return key;
}

nvtxDomainHandle_t NVTX_API DomainCreateA(const char* name) {
  const std::lock_guard lock(g_mutex);
  std::fprintf(g_file, "domain %s\n", name);
  return reinterpret_cast<nvtxDomainHandle_t>(new DomainName{name});
}

void NVTX_API DomainNameCategoryA(nvtxDomainHandle_t, uint32_t category, const char* name) {
  const std::lock_guard lock(g_mutex);
  std::fprintf(g_file, "category %u %s\n", category, name);
}

nvtxStringHandle_t NVTX_API DomainRegisterStringA(nvtxDomainHandle_t, const char* text) {
  const std::lock_guard lock(g_mutex);
  return reinterpret_cast<nvtxStringHandle_t>(const_cast<void*>(AddString(text)));
}

long ThreadNumber() { return syscall(SYS_gettid); }

// With the mutex held.
void SayIfEnded() {
  if (g_ended) std::fprintf(g_file, "behind the end\n");
}

void Write(const char* kind, nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  {
    const std::lock_guard lock(g_mutex);
    SayIfEnded();
    const bool registered = event->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
    const bool counted = event->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    std::fprintf(g_file, "%s %s %s category=%u payload=%llu thread=%ld\n", kind,
                 reinterpret_cast<DomainName*>(domain)->name.c_str(),
                 registered ? g_strings[event->message.registered].c_str() : "(not registered)", event->category,
                 counted ? static_cast<unsigned long long>(event->payload.ullValue) : ~0ULL, ThreadNumber());
    std::fflush(g_file);
  }
  if (g_calls_cuda) {
    // Whatever this process would get by name: the hook, when there is one.
    auto* const peek = reinterpret_cast<cudaError_t (*)()>(dlsym(RTLD_DEFAULT, "cudaPeekAtLastError"));
    if (peek != nullptr) peek();
  }
}

int NVTX_API DomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  Write("push", domain, event);
  return 0;
}

void NVTX_API DomainMarkEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  Write("mark", domain, event);
}

int NVTX_API DomainRangePop(nvtxDomainHandle_t domain) {
  const std::lock_guard lock(g_mutex);
  SayIfEnded();
  std::fprintf(g_file, "pop %s thread=%ld\n", reinterpret_cast<DomainName*>(domain)->name.c_str(), ThreadNumber());
  std::fflush(g_file);
  return 0;
}

template <typename Function>
void Set(NvtxFunctionTable table, unsigned int size, unsigned int index, Function* function) {
  if (index < size && table[index] != nullptr) *table[index] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const char* const path = std::getenv("NVTX_CAPTURE_FILE");
  g_calls_cuda = std::getenv("NVTX_CAPTURE_CALLS_CUDA") != nullptr;
  g_file = path != nullptr ? std::fopen(path, "ae") : nullptr;
  if (g_file == nullptr) return 0;
  std::atexit([] {
    const std::lock_guard lock(g_mutex);
    g_ended = true;
    std::fprintf(g_file, "end\n");
    std::fflush(g_file);
  });
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  Set(table, size, NVTX_CBID_CORE2_DomainCreateA, DomainCreateA);
  Set(table, size, NVTX_CBID_CORE2_DomainNameCategoryA, DomainNameCategoryA);
  Set(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, DomainRegisterStringA);
  Set(table, size, NVTX_CBID_CORE2_DomainRangePushEx, DomainRangePushEx);
  Set(table, size, NVTX_CBID_CORE2_DomainRangePop, DomainRangePop);
  Set(table, size, NVTX_CBID_CORE2_DomainMarkEx, DomainMarkEx);
  return 1;
}
