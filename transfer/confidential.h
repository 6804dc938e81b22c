// Confidential computing, in which pinned memory is not what it is elsewhere and copies are encrypted (S14).
//
// Threading: any thread. Loads the management library (libnvidia-ml.so.1) and asks it, which takes milliseconds.
#pragma once

namespace slipstream::transfer {

// False also where the management library is missing or too old to know.
bool ConfidentialComputing();

}  // namespace slipstream::transfer
