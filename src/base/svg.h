// svg.h: pieces of an SVG drawing that carries its own colours for light and dark surroundings.
// Units:   user units, about CSS pixels. Threads: one at a time. Fails: never.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace espalier {

std::string escape_xml(std::string_view text);

// An SVG document in the making: shapes and texts appended in the order in which they are drawn.
class Svg {
 public:
  enum class Anchor { start, middle, end };

  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  // `title`: what is told of it when it is pointed at; empty: nothing.
  void rect(double x, double y, double width, double height, std::string_view css_class, std::string_view title = {});
  void dot(double x, double y, std::string_view css_class, std::string_view title);
  using Points = std::vector<std::pair<double, double>>;
  void path(const Points& points, std::string_view css_class);
  void arrow(const Points& points, std::string_view css_class);  // the same with a head at its last point
  void text(double x, double y, std::string_view text, Anchor anchor = Anchor::start, std::string_view css_class = "");

  // The whole document; `title` is read out in place of the picture.
  std::string document(double width, double height, std::string_view title) const;

 private:
  std::string body_;
};

inline constexpr std::size_t kSeriesColours = 5;  // classes s0..s4 (strokes and dots), f0..f4 (fills), b0..b4 (boxes)

// The drawing's style sheet, also used by the page around it.
std::string_view style_sheet();

}  // namespace espalier
