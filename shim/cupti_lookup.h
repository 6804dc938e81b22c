// Functions of CUPTI that are looked up by name rather than linked (cupti.cpp forwards them).
//
// Threading: any thread; no lock, nobody waits, but for the loader's own inside a look-up.
#pragma once

namespace slipstream::shim {

constexpr bool IsCuptiName(const char* name) {
  return name[0] == 'c' && name[1] == 'u' && name[2] == 'p' && name[3] == 't' && name[4] == 'i';
}

// What stands in place of `real`, which was found by that name for `caller`: ours, which forwards to `real`, where we
// have one and `real` is a libcupti's. `real` itself otherwise: also of the second of two libcuptis, because ours can
// forward to one, and for tools of CUDA's own.
void* CuptiInPlaceOf(const char* name, void* real, const void* caller);

}  // namespace slipstream::shim
