// The name of a CUDA runtime function in an export of Nsight Systems: CUPTI's name, which ends in the CUDA version that
// introduced it ("cudaMemcpyAsync_v3020"). Rules and reports match such names.
//
// The names come from CUPTI's header (cupti_runtime_cbid.h) when slipstream is built. Where it has several of one
// function, the newest is taken: which one a process called is not recorded. The second version of a function
// (cudaMemPrefetchAsync_v2) has the name of the first there, with another CUDA version behind it.
//
// Threading: any thread.
#pragma once

#include <string>
#include <string_view>

namespace slipstream::trace_db {

// The name itself where CUPTI has none.
std::string ApiName(std::string_view function);

// Whether it is a function of the driver ("cuMemcpyHtoD"), not of the runtime.
bool IsDriverFunction(std::string_view function);

}  // namespace slipstream::trace_db
