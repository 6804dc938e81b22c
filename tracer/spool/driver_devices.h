// Asks the driver to describe the devices of this process.
//
// Uses only driver functions of the libcuda that is already in the process, and none that makes or needs a context:
// nothing is linked, loaded or initialized, and the runtime's last error stays as it was.
//
// Threading: any thread of the program's. Not a thread with a descriptor table of its own, such as the spool's writer:
//   the driver may open a device in that table, and other threads would use the number in theirs.
// Hazard: takes the loader's lock, and may take milliseconds: some attributes are read from the device.
#pragma once

#include <cstdint>
#include <vector>

#include "tracer/spool/device_facts.h"

namespace slipstream::tracer {

// By the numbers that the process has for them. False: the driver does not answer now, because it is not there, is not
// initialized, or may not be asked here (in a host function). Unknown values are left out.
bool AskDriverForDevices(std::vector<DeviceFacts>* devices);

// The ordinal of the device that this memory is on; -1: the driver does not say. Takes the loader's lock once.
int DeviceOfMemory(uint64_t address);

}  // namespace slipstream::tracer
