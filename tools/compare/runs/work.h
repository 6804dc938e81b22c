// Kernels by their names, and copies and sets by their kinds, in two recorded runs: of the devices that are compared.
//
// Threading: pure functions.
#pragma once

#include <vector>

#include "tools/compare/runs/runs.h"

namespace slipstream::compare {

// Both by the change of their time, the largest first, then by name. Both runs know what their devices did.
// The reports must have been made with ReportOptions::all_kernels: a name that is left out would pass for new or gone.
std::vector<WorkChange> CompareKernels(const RecordedRun& first, const RecordedRun& second);
std::vector<WorkChange> CompareCopies(const RecordedRun& first, const RecordedRun& second);

}  // namespace slipstream::compare
