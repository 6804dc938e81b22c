// The devices of a trace as its spools describe them (tracer/spool/device_facts.h): TARGET_INFO_GPU,
// TARGET_INFO_CUDA_DEVICE and SLIPSTREAM_DEVICES.
//
// A process counts the devices that it may see, so one device may have different numbers in two processes. The UUID
// identifies a device; without one, its place on the bus of its host does.
//
// Threading: one thread.
// Errors: kept by the Database.
#pragma once

#include <vector>

#include "tools/trace/db/database.h"
#include "tools/trace/db/survey.h"
#include "tools/trace/db/time_base.h"

namespace slipstream::trace_db {

// Processes are numbered from 1, in the order of their spools. NVIDIA's tables are there only if there are rows.
void WriteGpus(Database* database, const std::vector<SpoolSurvey>& spools, const TimeBase& times);

}  // namespace slipstream::trace_db
