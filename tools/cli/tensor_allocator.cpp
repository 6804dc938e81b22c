#include "tools/cli/tensor_allocator.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace slipstream::cli {
namespace {

constexpr const char* kVariables[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
constexpr std::string_view kKey = "backend:";
constexpr std::string_view kBackend = "cudaMallocAsync";

std::string WithoutSpaces(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
             text.end());
  return text;
}

// What the value says of the backend; empty: nothing. Of several, PyTorch takes the last.
std::string BackendIn(const std::string& value) {
  const std::string text = WithoutSpaces(value);
  std::string backend;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view pair = std::string_view(text).substr(begin, end - begin);
    if (pair.substr(0, kKey.size()) == kKey) backend = std::string(pair.substr(kKey.size()));
    begin = end + 1;
  }
  return backend;
}

}  // namespace

TensorAllocator TellPyTorch(const std::map<std::string, std::string>& environment) {
  TensorAllocator told;
  const std::string wanted = std::string(kKey) + std::string(kBackend);
  bool said = false;
  for (const char* const name : kVariables) {
    const auto own = environment.find(name);
    const std::string value = own != environment.end() ? own->second : "";
    if (WithoutSpaces(value).empty()) continue;
    said = true;
    const std::string backend = BackendIn(value);
    if (!backend.empty() && backend != kBackend) {
      told.refused = true;
      told.variables.clear();
      told.message = std::string("allocator.mode = \"stream_ordered\" serves no tensor of PyTorch's: ") + name + "=" +
                     value +
                     " names another backend. Take it out of the variable, or use allocator.mode = \"segments\"";
      return told;
    }
    if (backend.empty()) told.variables[name] = value + "," + wanted;
  }
  if (!said) {
    for (const char* const name : kVariables) told.variables[name] = wanted;
  }
  if (told.variables.empty()) return told;
  told.message = "for PyTorch's tensors:";
  for (const auto& [name, value] : told.variables) told.message += " " + name + "=" + value;
  told.message +=
      ". That backend refuses torch.compile(mode=\"reduce-overhead\"), memory snapshots and tensors shared between "
      "processes: allocator.mode = \"segments\" for those";
  return told;
}

}  // namespace slipstream::cli
