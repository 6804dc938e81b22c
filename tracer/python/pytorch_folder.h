// Where PyTorch lies if it is not installed in site-packages or dist-packages, as after `pip install -e`.
//
// A folder called torch may be the program's own. PyTorch's is known by files that lie in it, in every release from 1.9
// on; nothing is imported, and Python is not asked. The loader is not asked either, because an editable PyTorch may
// have its libraries in another place than its code.
//
// Threading: pure function; asks the system whether files are there. errno stays as it was.
// Errors: where the system does not say that they are there, they are not.
#pragma once

#include <string_view>

namespace slipstream::tracer {

// The part of an absolute path that is PyTorch's folder, with the slash behind it; empty: the path leads through none.
// One system call for each folder called torch on the way that is not PyTorch's; three for PyTorch's.
std::string_view PyTorchFolderOf(std::string_view file);

}  // namespace slipstream::tracer
