// chart.h: two kinds of charts: lines over a rate, and bars of ratios with their spread.
// Units:   user units of the drawing; values in their own unit. Threads: pure functions over an Svg. Fails: never.
#pragma once

#include <string>
#include <vector>

#include "base/svg.h"

namespace espalier::bench {

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};

struct Series {
  std::string name;
  std::size_t colour = 0;
  bool dashed = false;
  std::vector<double> x, y;  // x may be infinite: the rightmost place
};

struct LineChart {
  std::string title, x_label, unit;
  std::vector<Series> series;
};
void draw(Svg& svg, const LineChart& chart, const Box& box);

struct RatioBar {
  std::string label, note;
  double least = 1, median = 1, most = 1;
  bool more_is_better = true;
};
struct RatioChart {
  std::string title;
  std::vector<RatioBar> bars;
};
double height_of(const RatioChart& chart);
void draw(Svg& svg, const RatioChart& chart, const Box& box);

// Round values that cover least..most: multiples of 1, 2 or 5 times a power of ten, about as many as asked for.
std::vector<double> ticks(double least, double most, int about);
// 1, 2 and 5 times powers of ten that cover least..most. Requires: 0 < least.
std::vector<double> logarithmic_ticks(double least, double most);
std::string short_number(double value);
std::string rate_text(double requests_per_second);  // "inf", "2.5"

}  // namespace espalier::bench
