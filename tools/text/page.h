// What a text is to be shown on, and what color it has there.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tools/text/columns.h"

namespace slipstream::text {

struct Page {
  size_t columns = kLeastColumns;
  bool color = false;
};

// Whole lines, each in bold or as code by itself, since a pager shows some of them. The same text on a page without
// color.
std::string Bold(const std::string& lines, const Page& page);
std::string Code(const std::string& lines, const Page& page);

// The words in capitals with which a line begins, in bold: up to a colon, or up to the first word that is none. On a
// page without color the same text.
std::string BoldHeadings(const std::string& lines, const Page& page);

}  // namespace slipstream::text
