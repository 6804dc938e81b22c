// Names of kernels as Nsight Systems' export has them.
//
// Threading: pure functions.
#pragma once

#include <string>

namespace slipstream::trace_db {

// "void add<float>(float*, int)" of "_Z3addIfEvPT_i"; the name itself where it is not mangled.
std::string DemangledName(const std::string& name);
// "add": without what it returns, namespaces, template arguments and parameters. Of what CUTLASS launches, the name of
// what is launched, where Nsight Systems says "Kernel2" of all of it.
std::string ShortName(const std::string& demangled);

}  // namespace slipstream::trace_db
