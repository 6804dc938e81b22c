// Pages, and those of the program's own memory that is about to be read or written.
//
// Threading: any thread; system calls on memory that the caller may write.
#pragma once

#include <cstddef>

#include "policy/transfer_plan.h"

namespace slipstream::transfer {

using policy::kHugePageBytes;
using policy::kWorthHugePages;

size_t PageBytes();
constexpr size_t RoundUp(size_t size, size_t step) { return (size + step - 1) / step * step; }

// Reads a byte of every page, on the calling thread: what cannot be read faults here, and nowhere else. 20 to 30 ns for
// each page.
void ReadEveryPage(const char* memory, size_t bytes);

// Whether the program has a handler for such a fault. Two system calls.
bool HandlesFaults();

// Makes every page of [memory, memory + bytes) present and writable, and changes no byte. False: some of it may not be
// written, or is not there, or the kernel cannot do that (before Linux 5.14): then whoever writes finds out.
bool MakeWritable(char* memory, size_t bytes);

// Whether the kernel can. Asked once.
bool CanMakeWritable();

// Whether every byte may be written, as the mappings say: then pages are made fastest by writing to them, which takes
// no lock of the whole process (MakeWritable does, and eight threads stand in each other's way). Private memory without
// a file only: behind the end of a file pages cannot be made. Linux 6.11 and later can be asked (PROCMAP_QUERY);
// before, false. A few microseconds.
bool IsWritableMemory(const char* memory, size_t bytes);

// Whether the memory has been touched, as its middle tells.
bool HasPages(const char* memory, size_t bytes);

// Where the memory is large and its pages are not there yet, asks for huge ones: a fresh destination is then filled
// with one fault for each 2 MiB.
void AskForHugePages(char* memory, size_t bytes);

}  // namespace slipstream::transfer
