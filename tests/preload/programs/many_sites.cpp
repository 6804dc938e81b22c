// A library with thousands of places that call CUDA, as libtorch_cuda is one.

#include <array>
#include <cstddef>
#include <utility>

extern "C" {
int cudaPeekAtLastError();
int cudaRuntimeGetVersion(int* version);
}

namespace {

template <size_t kPlace>
[[gnu::noinline]] int Place() {
  return cudaPeekAtLastError() + static_cast<int>(kPlace);  // a different function for each place
}

template <size_t... kPlaces>
constexpr auto Places(std::index_sequence<kPlaces...>) {
  return std::array<int (*)(), sizeof...(kPlaces)>{Place<kPlaces>...};
}

}  // namespace

// Returns the version of the runtime that it is linked to.
extern "C" [[gnu::visibility("default")]] int UseCuda() {
  static constexpr auto kPlaces = Places(std::make_index_sequence<3000>());
  for (auto* const place : kPlaces) place();
  int version = 0;
  return cudaRuntimeGetVersion(&version) == 0 ? version : -1;
}
