// Plots as inline SVG: text that an HTML page holds, without a script and without anything from elsewhere. A color is
// CSS's, so that it may be a variable of the page ("var(--lane)").
//
// Threading: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace slipstream::report {

// Text as it may stand between tags and in a quoted attribute: with &lt; and the like, control characters written out.
std::string HtmlText(const std::string& text);

// About `count` round numbers from `from` to `to`, both perhaps among them: 0, 200, 400. In powers of two for bytes.
std::vector<double> Ticks(double from, double to, int count, bool bytes = false);

class Plot {
 public:
  struct Frame {
    double width = 960;
    double height = 230;
    double left = 76;
    double right = 32;
    double top = 12;
    double bottom = 34;
  };
  // Axes from x0 to x1 and from y0 to y1, in whatever the caller plots.
  Plot(const Frame& frame, double x0, double x1, double y0, double y1);

  double X(double x) const;
  double Y(double y) const;
  // Lines across, with what they stand for at the left; the same below.
  void YAxis(const std::vector<double>& ticks, const std::function<std::string(double)>& label);
  void XAxis(const std::vector<double>& ticks, const std::function<std::string(double)>& label);
  void XTitle(const std::string& text);

  // A rectangle between two corners of the plot; `title` is shown when the pointer is over it.
  void Box(double x0, double y0, double x1, double y1, const std::string& color, const std::string& title);
  void Line(const std::vector<std::pair<double, double>>& points, const std::string& color, double width = 1.5);
  // From a line down to the axis.
  void Area(const std::vector<std::pair<double, double>>& points, const std::string& color);
  void Dot(double x, double y, double radius, const std::string& color, const std::string& title);
  // Free text at a place of the picture, in its own units.
  void Label(double x, double y, const std::string& text, const std::string& anchor = "start");
  // A dot with its text above it, on whichever side there is room.
  void Mark(double x, double y, const std::string& text);

  // `name`: what it is for those who cannot see it.
  std::string Finish(const std::string& name);

 private:
  const Frame frame_;
  const double x0_;
  const double x1_;
  const double y0_;
  const double y1_;
  std::string body_;
};

}  // namespace slipstream::report
