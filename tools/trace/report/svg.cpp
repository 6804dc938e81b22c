#include "tools/trace/report/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "policy/text.h"

namespace slipstream::report {
namespace {

std::string Units(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", std::clamp(value, -1e6, 1e6));
  return text;
}

std::string Attribute(const char* name, double value) { return std::string(" ") + name + "=\"" + Units(value) + "\""; }

}  // namespace

std::string HtmlText(const std::string& text) {
  std::string html;
  for (const char c : policy::Escape(text)) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::vector<double> Ticks(double from, double to, int count, bool bytes) {
  const double range = to - from;
  if (!(range > 0) || !std::isfinite(range)) return {from};
  double step = 0;
  if (bytes) {
    step = std::exp2(std::ceil(std::log2(range / count)));
  } else {
    const double least = range / count;
    const double ten = std::pow(10, std::floor(std::log10(least)));
    for (const double factor : {1, 2, 5, 10}) {
      step = factor * ten;
      if (step >= least * (1 - 1e-9)) break;
    }
  }
  std::vector<double> ticks;
  const double first = std::ceil(from / step - 1e-9);
  for (int i = 0; (first + i) * step <= to + step * 1e-9 && i < 100; ++i) ticks.push_back((first + i) * step);
  return ticks;
}

Plot::Plot(const Frame& frame, double x0, double x1, double y0, double y1)
    : frame_(frame), x0_(x0), x1_(x1 > x0 ? x1 : x0 + 1), y0_(y0), y1_(y1 > y0 ? y1 : y0 + 1) {}

double Plot::X(double x) const {
  return frame_.left + (x - x0_) / (x1_ - x0_) * (frame_.width - frame_.left - frame_.right);
}

double Plot::Y(double y) const {
  return frame_.height - frame_.bottom - (y - y0_) / (y1_ - y0_) * (frame_.height - frame_.top - frame_.bottom);
}

void Plot::Label(double x, double y, const std::string& text, const std::string& anchor) {
  body_ += "<text" + Attribute("x", x) + Attribute("y", y) + " text-anchor=\"" + anchor + "\">" + HtmlText(text) +
           "</text>\n";
}

void Plot::YAxis(const std::vector<double>& ticks, const std::function<std::string(double)>& label) {
  for (const double tick : ticks) {
    body_ += "<line class=\"grid\"" + Attribute("x1", frame_.left) + Attribute("x2", frame_.width - frame_.right) +
             Attribute("y1", Y(tick)) + Attribute("y2", Y(tick)) + "/>\n";
    Label(frame_.left - 6, Y(tick) + 4, label(tick), "end");
  }
}

void Plot::XAxis(const std::vector<double>& ticks, const std::function<std::string(double)>& label) {
  const double below = frame_.height - frame_.bottom;
  for (const double tick : ticks) {
    body_ += "<line class=\"tick\"" + Attribute("x1", X(tick)) + Attribute("x2", X(tick)) + Attribute("y1", below) +
             Attribute("y2", below + 4) + "/>\n";
    Label(X(tick), below + 16, label(tick), "middle");
  }
}

void Plot::XTitle(const std::string& text) { Label(frame_.width - frame_.right, frame_.height - 3, text, "end"); }

void Plot::Box(double x0, double y0, double x1, double y1, const std::string& color, const std::string& title) {
  const double left = X(std::clamp(x0, x0_, x1_));
  // What is too small to be seen is a hairline.
  const double width = std::max(0.4, X(std::clamp(x1, x0_, x1_)) - left);
  const double top = Y(std::clamp(y1, y0_, y1_));
  const double height = Y(std::clamp(y0, y0_, y1_)) - top;
  if (height <= 0) return;
  body_ += "<rect" + Attribute("x", left) + Attribute("y", top) + Attribute("width", width) +
           Attribute("height", height) + " fill=\"" + color + "\"";
  body_ += title.empty() ? "/>\n" : "><title>" + HtmlText(title) + "</title></rect>\n";
}

void Plot::Line(const std::vector<std::pair<double, double>>& points, const std::string& color, double width) {
  if (points.empty()) return;
  body_ += "<polyline fill=\"none\" stroke=\"" + color + "\" stroke-width=\"" + Units(width) + "\" points=\"";
  for (const auto& [x, y] : points) body_ += Units(X(x)) + "," + Units(Y(std::clamp(y, y0_, y1_))) + " ";
  body_ += "\"/>\n";
}

void Plot::Area(const std::vector<std::pair<double, double>>& points, const std::string& color) {
  if (points.empty()) return;
  body_ += "<polygon fill=\"" + color + "\" points=\"" + Units(X(points.front().first)) + "," + Units(Y(y0_)) + " ";
  for (const auto& [x, y] : points) body_ += Units(X(x)) + "," + Units(Y(std::clamp(y, y0_, y1_))) + " ";
  body_ += Units(X(points.back().first)) + "," + Units(Y(y0_)) + "\"/>\n";
}

void Plot::Dot(double x, double y, double radius, const std::string& color, const std::string& title) {
  body_ += "<circle" + Attribute("cx", X(x)) + Attribute("cy", Y(std::clamp(y, y0_, y1_))) + Attribute("r", radius) +
           " fill=\"" + color + "\"";
  body_ += title.empty() ? "/>\n" : "><title>" + HtmlText(title) + "</title></circle>\n";
}

void Plot::Mark(double x, double y, const std::string& text) {
  const double left = X(std::clamp(x, x0_, x1_));
  const double top = Y(std::clamp(y, y0_, y1_));
  body_ += "<circle class=\"mark\"" + Attribute("cx", left) + Attribute("cy", top) + Attribute("r", 3.5) + "/>\n";
  const bool to_the_right = left < (frame_.left + frame_.width - frame_.right) / 2;
  body_ += "<text class=\"mark\"" + Attribute("x", left) + Attribute("y", top - 7) + " text-anchor=\"" +
           (to_the_right ? "start" : "end") + "\">" + HtmlText(text) + "</text>\n";
}

std::string Plot::Finish(const std::string& name) {
  return "<svg role=\"img\" aria-label=\"" + HtmlText(name) + "\" viewBox=\"0 0 " + Units(frame_.width) + " " +
         Units(frame_.height) + "\">\n" + body_ + "</svg>\n";
}

}  // namespace slipstream::report
