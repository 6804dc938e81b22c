// Pages of the program's own memory that is about to be written.
//
// Threading: any thread; system calls on memory that the caller may write.
#pragma once

#include <cstddef>

namespace slipstream::transfer {

// Makes every page of [memory, memory + bytes) present and writable, and changes no byte. False: some of it may not be
// written, or is not there, or the kernel cannot do that (before Linux 5.14): then whoever writes finds out.
bool MakeWritable(char* memory, size_t bytes);

// Whether the kernel can. Asked once.
bool CanMakeWritable();

// Where the memory is large and its pages are not there yet, asks for huge ones: a fresh destination is then filled
// with one fault for each 2 MiB.
void AskForHugePages(char* memory, size_t bytes);

}  // namespace slipstream::transfer
