#include "tools/trace/report/figure.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "policy/text.h"

namespace slipstream::report {
namespace {

// JSON that ends no <script> and begins no comment in it: "<" and the like stand only in strings, where they may be
// written so; what is not ASCII, too.
std::string ScriptText(const PlotlyJson& value) {
  std::string text;
  for (const char c : value.dump(-1, ' ', /*ensure_ascii=*/true, PlotlyJson::error_handler_t::replace)) {
    switch (c) {
      case '<':
        text += "\\u003c";
        break;
      case '>':
        text += "\\u003e";
        break;
      case '&':
        text += "\\u0026";
        break;
      default:
        text += c;
    }
  }
  return text;
}

std::string Drawn(const std::string& name, const char* kind, const PlotlyJson& value) {
  return "<div class=\"plot\" role=\"img\" aria-label=\"" + HtmlText(name) +
         "\"></div>\n<script type=\"application/json\" class=\"" + kind + "\">" + ScriptText(value) + "</script>\n";
}

// Of characters that `named` has no name for: as they are.
std::string Named(const std::string& text, const char* (*named)(char)) {
  std::string markup;
  for (const char c : policy::Escape(text)) {
    if (const char* const name = named(c); name != nullptr) {
      markup += name;
    } else {
      markup += c;
    }
  }
  return markup;
}

const char* PlotName(char c) { return c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : nullptr; }
const char* HtmlName(char c) { return c == '"' ? "&quot;" : c == '\'' ? "&#39;" : PlotName(c); }

}  // namespace

std::string HtmlText(const std::string& text) { return Named(text, HtmlName); }
std::string PlotText(const std::string& text) { return Named(text, PlotName); }

Unit UnitOfTime(int64_t largest_ns) {
  if (largest_ns >= 1'000'000'000) return {1e9, " s"};
  if (largest_ns >= 1'000'000) return {1e6, " ms"};
  if (largest_ns >= 1000) return {1e3, " us"};
  return {1, " ns"};
}

Unit UnitOfBytes(int64_t largest) {
  if (largest >= int64_t{1} << 30) return {1 << 30, " GiB"};
  if (largest >= int64_t{1} << 20) return {1 << 20, " MiB"};
  if (largest >= int64_t{1} << 10) return {1 << 10, " KiB"};
  return {1, " B"};
}

PlotlyJson Bars(const std::string& name, const char* color) {
  return {{"type", "bar"},
          {"name", PlotText(name)},
          {"marker", {{"color", color}, {"line", {{"width", 0}}}}},
          {"hoverinfo", "text"},
          {"x", PlotlyJson::array()},
          {"y", PlotlyJson::array()},
          {"hovertext", PlotlyJson::array()}};
}

void AddBar(PlotlyJson* bars, const PlotlyJson& x, const PlotlyJson& y, const std::string& title) {
  (*bars)["x"].push_back(x);
  (*bars)["y"].push_back(y);
  (*bars)["hovertext"].push_back(PlotText(title));
}

std::string Figure(const std::string& name, const PlotlyJson& traces, const PlotlyJson& layout) {
  return Drawn(name, "figure", {{"data", traces}, {"layout", layout}});
}

std::string FlameFigure(const std::string& name, const PlotlyJson& frames) { return Drawn(name, "flame", frames); }

}  // namespace slipstream::report
