// How wide a text on standard output may be.
//
// Threading: reads the environment; call from one thread.
#pragma once

#include <cstddef>

namespace slipstream::cli {

// As the variable COLUMNS says, else as wide as the terminal, else 80; between 80 and 160 (text::ColumnsFor).
size_t ScreenColumns();

}  // namespace slipstream::cli
