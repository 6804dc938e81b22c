#include "tools/trace/report/plotly.h"

#ifdef SLIPSTREAM_PLOTLY_Z
#include <zlib.h>

#include <cstddef>

// The file as it is (SlipstreamThirdParty.cmake makes it), between two symbols.
__asm__(
    ".pushsection .rodata\n"
    ".global slipstream_plotly_begin\n"
    ".hidden slipstream_plotly_begin\n"
    "slipstream_plotly_begin:\n"
    ".incbin \"" SLIPSTREAM_PLOTLY_Z
    "\"\n"
    ".global slipstream_plotly_end\n"
    ".hidden slipstream_plotly_end\n"
    "slipstream_plotly_end:\n"
    ".byte 0\n"
    ".popsection\n");

extern "C" {
__attribute__((visibility("hidden"))) extern const unsigned char slipstream_plotly_begin[];
__attribute__((visibility("hidden"))) extern const unsigned char slipstream_plotly_end[];
}
#endif

namespace slipstream::report {

#ifdef SLIPSTREAM_PLOTLY_Z
std::string PlotlyJs() {
  constexpr size_t kPiece = size_t{1} << 20;
  z_stream stream{};
  // zlib only reads it.
  stream.next_in = const_cast<unsigned char*>(slipstream_plotly_begin);
  stream.avail_in = static_cast<unsigned>(slipstream_plotly_end - slipstream_plotly_begin);
  if (inflateInit(&stream) != Z_OK) return "";
  std::string text;
  int status = Z_OK;
  while (status == Z_OK) {
    const size_t from = text.size();
    text.resize(from + kPiece);
    stream.next_out = reinterpret_cast<unsigned char*>(text.data() + from);
    stream.avail_out = static_cast<unsigned>(kPiece);
    status = inflate(&stream, Z_NO_FLUSH);
    text.resize(from + kPiece - stream.avail_out);
  }
  inflateEnd(&stream);
  return status == Z_STREAM_END ? text : "";
}
#else
std::string PlotlyJs() { return ""; }
#endif

}  // namespace slipstream::report
