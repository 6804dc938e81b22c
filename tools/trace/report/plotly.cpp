#include "tools/trace/report/plotly.h"

#ifdef SLIPSTREAM_PLOTLY_Z
#include <zlib.h>

#include <cstddef>

// The file as it is (SlipstreamThirdParty.cmake makes it), between two symbols.
__asm__(
    ".pushsection .rodata\n"
    ".global kSlipstreamPlotlyBegin\n"
    ".hidden kSlipstreamPlotlyBegin\n"
    "kSlipstreamPlotlyBegin:\n"
    ".incbin \"" SLIPSTREAM_PLOTLY_Z
    "\"\n"
    ".global kSlipstreamPlotlyEnd\n"
    ".hidden kSlipstreamPlotlyEnd\n"
    "kSlipstreamPlotlyEnd:\n"
    ".byte 0\n"
    ".popsection\n");

extern "C" {
__attribute__((visibility("hidden"))) extern const unsigned char kSlipstreamPlotlyBegin[];
__attribute__((visibility("hidden"))) extern const unsigned char kSlipstreamPlotlyEnd[];
}
#endif

namespace slipstream::report {

#ifdef SLIPSTREAM_PLOTLY_Z
std::string PlotlyJs() {
  constexpr size_t kPiece = size_t{1} << 20;
  z_stream stream{};
  // zlib only reads it.
  stream.next_in = const_cast<unsigned char*>(kSlipstreamPlotlyBegin);
  stream.avail_in = static_cast<unsigned>(kSlipstreamPlotlyEnd - kSlipstreamPlotlyBegin);
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
