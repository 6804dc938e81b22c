// Functions of CUPTI for clients that look them up: XLA, TensorFlow and Proton are not linked to libcupti, and open it
// themselves. Where the policy has the devices traced, whoever looks one of those up that slipstream exports
// (cupti.cpp) is given slipstream's, and slipstream makes room for it as for a client that is linked. The real look-up
// comes first: if it finds nothing, or something in no libcupti, that is the answer.
//
// Where devices are not traced there is nothing to make room for, and the client keeps the function that it found: that
// is the least that can go wrong.
//
// A process may have several libcuptis. The first one in which a function was looked up is the one that is called for
// clients that are linked to none; a function of another one is handed out as it is.
//
// Threading: any thread; the loader's own lock is taken, no other.
// Ownership: a libcupti of which a function was replaced is kept loaded.
// Hazard: in a forked child of a process that has used CUDA functions are handed out as they are found (S51).
#pragma once

namespace slipstream::shim {

constexpr bool IsCuptiName(const char* name) {
  return name[0] == 'c' && name[1] == 'u' && name[2] == 'p' && name[3] == 't' && name[4] == 'i';
}

// What stands in place of `found`, the function of that name that `caller` would have had: slipstream's own, or
// `found`.
void* CuptiInPlaceOf(void* found, const char* name, const void* caller);

// Whether slipstream has one of that name.
bool IsHookedCupti(const char* name);

// The real function of that name which clients looked up; null: none did.
void* LookedUpCupti(const char* name);

// Of cupti.cpp: the real function that a call from there goes to, and the one of the libcupti that the caller's object
// is linked to, directly or not. Null: there is none.
void* RealCupti(const char* name, const void* caller);
void* LinkedCupti(const char* name, const void* caller);

// "libcupti.so.13", "libcupti-1a2b3c.so.13": the name of a file.
constexpr bool IsLibcupti(const char* file) {
  constexpr const char* kBegins = "libcupti";
  for (int i = 0; i < 8; ++i) {
    if (file[i] != kBegins[i]) return false;
  }
  return file[8] == '.' || file[8] == '-';
}

}  // namespace slipstream::shim
