// The devices of this process, as the driver describes them.
//
// Driver entry points only, of the libcuda that is already in the process, and none that makes or needs a context:
// nothing is linked, loaded or initialized, and the runtime's last error stays as it was.
//
// Threading: any thread of the program's. Not a thread that has an own table of descriptors, as the spool's writer: the
//   driver may open a device in it, and others would find the number in theirs.
// Hazard: takes the loader's lock, and may take milliseconds: some attributes are read from the device.
#pragma once

#include <cstdint>
#include <vector>

#include "tracer/spool/device_facts.h"

namespace slipstream::tracer {

// By the numbers that the process counts them by. False: the driver does not answer now, because it is not there, not
// initialized, or may not be asked here (in a host function). What it does not know of a device is left out.
bool AskDriverForDevices(std::vector<DeviceFacts>* devices);

// The ordinal of the device that this memory is on; -1: the driver does not say. Takes the loader's lock once.
int DeviceOfMemory(uint64_t address);

}  // namespace slipstream::tracer
