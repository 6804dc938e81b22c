// The ways by which a program comes to one function of the driver's: a linked name, dlsym, cuGetProcAddress, and the
// runtime's own look-up. What the engines defer or withhold must not show by any of them (S70).
//
// Threading: any thread.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rules {

template <typename Function>
struct Door {
  const char* how;
  Function* function;

  template <typename... Arguments>
  auto operator()(Arguments... arguments) const {
    return function(arguments...);
  }
};

// `linked`: the function as the headers name it; `symbol`: as libcuda exports it; `name`: as cuGetProcAddress knows it.
template <typename Function>
std::vector<Door<Function>> DoorsTo(Function* linked, const char* symbol, const char* name) {
  std::vector<Door<Function>> doors = {{"linked", linked}};
  const auto add = [&doors](const char* how, void* function) {
    EXPECT_NE(function, nullptr) << how;
    if (function != nullptr) doors.push_back({how, reinterpret_cast<Function*>(function)});
  };
  add("dlsym", dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), symbol));
  void* asked = nullptr;
  EXPECT_EQ(cuGetProcAddress_v2(name, &asked, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, nullptr), CUDA_SUCCESS);
  add("cuGetProcAddress", asked);
  void* of_runtime = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion(name, &of_runtime, CUDA_VERSION, cudaEnableDefault, &found), cudaSuccess);
  add("cudaGetDriverEntryPointByVersion", of_runtime);
  return doors;
}

#define RULES_QUOTED(text) #text
#define RULES_SYMBOL(text) RULES_QUOTED(text)
// Names are macros in CUDA's headers: the linked one is the newest version that the headers know, and so is the symbol.
#define DOORS_TO(name) ::rules::DoorsTo(&name, RULES_SYMBOL(name), #name)

}  // namespace rules
