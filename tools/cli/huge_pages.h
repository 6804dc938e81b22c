// The variable that makes PyTorch ask for huge pages for its tensors in host memory, for host.huge_pages = "auto".
//
// Source: PyTorch, c10/core/impl/alloc_cpu.cpp: since 2.2, where THP_MEM_ALLOC_ENABLE is 1, memory of 2 MiB and more gets
// madvise(MADV_HUGEPAGE). Read once, by the first allocation. Linux obeys it where
// /sys/kernel/mm/transparent_hugepage/enabled says "madvise" or "always" (the kernel's documentation, admin-guide/mm).
// Threading: pure functions, but for HugePagesHere, which reads that file.
#pragma once

#include <map>
#include <string>

namespace slipstream::cli {

// What the kernel does about huge pages: the file's text, such as "always [madvise] never". Empty: it has none.
std::string HugePagesHere();

// The variable to set; none where the user has set it, to whatever, or the kernel gives no huge pages.
std::map<std::string, std::string> AskForHugePages(const std::map<std::string, std::string>& environment,
                                                   const std::string& huge_pages_here);

}  // namespace slipstream::cli
