#include "tools/trace/report/call_kind.h"

#include <algorithm>
#include <cctype>

namespace slipstream::report {
namespace {

// "cudaMemcpy" and "cuMemcpy" without what stands in front; empty: neither of CUDA's.
std::string_view WithoutPrefix(std::string_view name) {
  while (name.starts_with('_')) name.remove_prefix(1);
  if (name.starts_with("cuda")) return name.substr(4);
  if (name.starts_with("cu")) return name.substr(2);
  return {};
}

bool BeginsWithAny(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [name](std::string_view beginning) { return name.starts_with(beginning); });
}

}  // namespace

std::string_view PlainName(std::string_view function) {
  // "_v" and digits, as CUPTI writes it; the runtime's own _v2 functions are "..._v2_v12000".
  const size_t version = function.rfind("_v");
  if (version != std::string_view::npos && version + 2 < function.size() &&
      std::all_of(function.begin() + static_cast<std::ptrdiff_t>(version) + 2, function.end(),
                  [](unsigned char c) { return std::isdigit(c) != 0; })) {
    function = function.substr(0, version);
  }
  for (const std::string_view suffix : {"_ptsz", "_ptds"}) {
    if (function.ends_with(suffix)) function.remove_suffix(suffix.size());
  }
  return function;
}

CallKind KindOf(std::string_view function) {
  const std::string_view plain = PlainName(function);
  const std::string_view name = WithoutPrefix(plain);
  if (BeginsWithAny(name, {"Memcpy", "MemBatchDecompress"})) return CallKind::kCopy;
  if (name.ends_with("Synchronize")) return CallKind::kSynchronize;
  if (BeginsWithAny(name, {"Launch", "GraphLaunch", "StreamAddCallback"})) return CallKind::kLaunch;
  // The driver's are called cuMem...: those of virtual memory allocate, too.
  if (BeginsWithAny(name, {"Malloc",
                           "Free",
                           "HostAlloc",
                           "HostRegister",
                           "HostUnregister",
                           "MemAlloc",
                           "MemFree",
                           "MemHostAlloc",
                           "MemHostRegister",
                           "MemHostUnregister",
                           "MemCreate",
                           "MemRelease",
                           "MemMap",
                           "MemUnmap",
                           "MemAddressReserve",
                           "MemAddressFree",
                           "MemSetAccess",
                           "ArrayCreate",
                           "Array3DCreate",
                           "ArrayDestroy",
                           "MipmappedArrayCreate",
                           "MipmappedArrayDestroy"})) {
    return CallKind::kAllocator;
  }
  return CallKind::kOther;
}

bool Waits(std::string_view function) {
  const CallKind kind = KindOf(function);
  if (kind == CallKind::kSynchronize) return true;
  // Between devices a copy is asynchronous to the host whatever its name (CUDA Runtime API, "API synchronization
  // behavior").
  return kind == CallKind::kCopy && function.find("Async") == std::string_view::npos &&
         function.find("Peer") == std::string_view::npos;
}

bool NamesItsStream(std::string_view function) {
  function = PlainName(function);
  while (function.starts_with('_')) function.remove_prefix(1);
  return function == "cudaLaunchKernel" || function == "cudaLaunchKernelExC" ||
         function == "cudaLaunchCooperativeKernel" || function == "cudaMemsetAsync" || function == "cudaMemcpyAsync";
}

bool IsStreamSynchronize(std::string_view function) {
  return function == "cudaStreamSynchronize" || function == "cuStreamSynchronize";
}

bool IsBlockingCopy(std::string_view function) {
  const std::string_view plain = PlainName(function);
  return plain == "cudaMemcpy" || plain == "cuMemcpy" || plain == "cuMemcpyHtoD";
}

}  // namespace slipstream::report
