// A program that names what it does by NVTX, in all the ways that there are.
//
//   nvtx_ranges steps N    uses CUDA, then N steps with ranges of every kind
//   nvtx_ranges no_cuda    ranges, and no CUDA; says how many threads it has
//   nvtx_ranges unpreload  steps 3 in a process without LD_PRELOAD, in place of this one
// Prints what NVTX answers, and whether a tool is there.

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtSync.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

namespace {

nvtxEventAttributes_t Event(nvtxStringHandle_t name) {
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = name;
  return event;
}

int Steps(int count) {
  int levels = nvtxRangePushA("before CUDA");
  levels += nvtxRangePop();
  void* memory = nullptr;
  if (cudaMalloc(&memory, 4096) != cudaSuccess) return 1;
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  const nvtxStringHandle_t sums = nvtxDomainRegisterStringA(domain, "all_reduce");
  const nvtxStringHandle_t wide = nvtxDomainRegisterStringW(domain, L"gr\u00f6\u00dfe \U0001F680");
  nvtxNameCategoryA(1, "nobody keeps this");
  const nvtxRangeId_t whole = nvtxRangeStartA("whole");
  for (int i = 0; i < count; ++i) {
    levels += nvtxRangePushA(("step " + std::to_string(i)).c_str());
    levels += nvtxRangePushW(L"forward");
    cudaMemset(memory, i, 4096);
    levels += nvtxRangePop();
    nvtxEventAttributes_t event = Event(sums);
    event.category = 7;
    event.colorType = NVTX_COLOR_ARGB;
    event.color = 0xff00ff00;
    event.payloadType = NVTX_PAYLOAD_TYPE_INT32;
    event.payload.iValue = -i;
    levels += nvtxDomainRangePushEx(domain, &event);
    levels += nvtxDomainRangePop(domain);
    event = Event(wide);
    event.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
    event.payload.dValue = 0.5 * i;
    nvtxDomainMarkEx(domain, &event);
    nvtxMarkA("here");
    levels += nvtxRangePop();
  }
  std::thread([whole] { nvtxRangeEnd(whole); }).join();
  nvtxDomainDestroy(domain);
  cudaFree(memory);
  std::printf("%d steps, sum of levels %d\n", count, levels);
  return 0;
}

int WithoutCuda() {
  for (int i = 0; i < 3; ++i) {
    nvtxRangePushA("step");
    nvtxRangePop();
  }
  const std::filesystem::directory_iterator threads("/proc/self/task");
  std::printf("%td threads\n", std::distance(begin(threads), end(threads)));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "steps" && argc > 2) return Steps(std::atoi(argv[2]));
  if (what == "no_cuda") return WithoutCuda();
  if (what == "unpreload") {
    unsetenv("LD_PRELOAD");
    execl("/proc/self/exe", argv[0], "steps", "3", static_cast<char*>(nullptr));
  }
  return 2;
}
