#include "bench/plot/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace espalier::bench {
namespace {

using Anchor = Svg::Anchor;

struct Range {
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();
  void include(double value) {
    if (!std::isfinite(value)) return;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool empty() const { return least > most; }
};

// Rates on a logarithmic axis, and "inf" at a distance to the right of them.
class RateAxis {
 public:
  RateAxis(const std::vector<Series>& series, double left, double right) : left_(left), right_(right) {
    for (const Series& s : series)
      for (const double x : s.x) {
        values_.push_back(x);
        range_.include(x);
      }
    std::sort(values_.begin(), values_.end());
    values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
    const bool has_infinity = values_.size() > 1 && std::isinf(values_.back());
    finite_right_ = has_infinity ? right - (right - left) * 0.15 : right;
  }
  double place(double x) const {
    if (values_.size() < 2) return (left_ + right_) / 2;
    if (std::isinf(x)) return right_;
    if (range_.most <= range_.least) return left_;
    return left_ + (finite_right_ - left_) * std::log(x / range_.least) / std::log(range_.most / range_.least);
  }
  const std::vector<double>& values() const { return values_; }

 private:
  double left_, right_, finite_right_ = 0;
  Range range_;
  std::vector<double> values_;
};

class ValueAxis {
 public:
  ValueAxis(const std::vector<Series>& series, double bottom, double top) : bottom_(bottom), top_(top) {
    Range range;
    for (const Series& s : series)
      for (const double y : s.y) range.include(y);
    if (range.empty()) range.include(1);
    logarithmic_ = range.least > 0 && range.most / range.least > 30;
    marks_ = logarithmic_ ? logarithmic_ticks(range.least, range.most) : ticks(0, range.most, 5);
    least_ = marks_.front();
    most_ = marks_.back();
  }
  double place(double y) const {
    const double share =
        logarithmic_ ? std::log(y / least_) / std::log(most_ / least_) : (y - least_) / (most_ - least_);
    return bottom_ + (top_ - bottom_) * std::clamp(share, 0.0, 1.0);
  }
  const std::vector<double>& marks() const { return marks_; }

 private:
  double bottom_, top_, least_ = 0, most_ = 1;
  bool logarithmic_ = false;
  std::vector<double> marks_;
};

constexpr double kBarStep = 24, kBarHeight = 12, kChartHead = 48;

}  // namespace

std::vector<double> ticks(double least, double most, int about) {
  if (!(most > least)) most = least + 1;
  const double rough = (most - least) / std::max(about, 1), power = std::pow(10, std::floor(std::log10(rough)));
  double step = power * 10;
  for (const double factor : {5.0, 2.0, 1.0})
    if (power * factor >= rough) step = power * factor;
  std::vector<double> marks = {least};
  while (marks.back() < most) marks.push_back(least + step * static_cast<double>(marks.size()));
  return marks;
}

std::vector<double> logarithmic_ticks(double least, double most) {
  std::vector<double> marks;
  for (double power = std::pow(10, std::floor(std::log10(least))); marks.empty() || marks.back() < most; power *= 10)
    for (const double factor : {1.0, 2.0, 5.0})
      if (marks.empty() || marks.back() < most) marks.push_back(power * factor);
  while (marks.size() > 2 && marks[1] <= least) marks.erase(marks.begin());
  return marks;
}

std::string rate_text(double rate) {
  return std::isinf(rate) ? "inf" : fmt::format("{:g}", rate);
}

std::string short_number(double value) {
  if (value >= 1e6) return fmt::format("{:g} M", std::round(value / 1e4) / 100);
  if (value >= 1e4) return fmt::format("{:g} k", std::round(value / 100) / 10);
  return fmt::format("{:g}", value >= 100 ? std::round(value) : std::round(value * 1000) / 1000);
}

void draw(Svg& svg, const LineChart& chart, const Box& box) {
  const double left = box.x + 64, right = box.x + box.width - 22, top = box.y + 34, bottom = box.y + box.height - 42;
  svg.text(box.x + 8, box.y + 18, fmt::format("{} ({})", chart.title, chart.unit), Anchor::start, "sub");
  const ValueAxis y(chart.series, bottom, top);
  const RateAxis x(chart.series, left + 10, right - 10);
  for (const double mark : y.marks()) {
    svg.line(left, y.place(mark), right, y.place(mark), "grid");
    svg.text(left - 8, y.place(mark) + 4, short_number(mark), Anchor::end, "dim");
  }
  svg.line(left, bottom, right, bottom, "axis");
  double last = -1e9;
  for (const double rate : x.values()) {
    svg.line(x.place(rate), bottom, x.place(rate), bottom + 4, "axis");
    if (x.place(rate) - last < 24) continue;  // labels must not touch
    svg.text(last = x.place(rate), bottom + 18, rate_text(rate), Anchor::middle, "dim");
  }
  svg.text((left + right) / 2, bottom + 35, chart.x_label, Anchor::middle, "dim");
  for (const Series& s : chart.series) {
    const std::string colour = fmt::format("{}", s.colour % kSeriesColours);
    std::vector<std::pair<double, double>> points;
    for (std::size_t i = 0; i < s.x.size(); ++i) points.emplace_back(x.place(s.x[i]), y.place(s.y[i]));
    svg.path(points, "s" + colour + (s.dashed ? " p99" : ""));
    for (std::size_t i = 0; i < points.size(); ++i)
      svg.dot(points[i].first, points[i].second, "f" + colour,
              fmt::format("{}: {} {} at {}", s.name, short_number(s.y[i]), chart.unit, rate_text(s.x[i])));
  }
}

double height_of(const RatioChart& chart) {
  return kChartHead + kBarStep * static_cast<double>(chart.bars.size()) + 30;
}

// Bars start at 1, which is the first server; their length is the logarithm, so that 2x and 0.5x are equally long.
void draw(Svg& svg, const RatioChart& chart, const Box& box) {
  const double left = box.x + 190, right = box.x + box.width - 170, top = box.y + kChartHead;
  const double bottom = top + kBarStep * static_cast<double>(chart.bars.size());
  double widest = std::log(1.25);
  for (const RatioBar& bar : chart.bars)
    for (const double value : {bar.least, bar.most})
      if (value > 0) widest = std::max(widest, std::abs(std::log(value)));
  const auto place = [&](double ratio) {
    const double share = std::clamp(std::log(std::max(ratio, 1e-9)) / widest, -1.0, 1.0);
    return (left + right) / 2 + share * (right - left) / 2;
  };
  svg.text(box.x + 8, box.y + 20, chart.title, Anchor::start, "sub");
  for (const double mark : {0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0}) {
    if (std::abs(std::log(mark)) > widest * 1.001) continue;
    svg.line(place(mark), top - 6, place(mark), bottom, mark == 1 ? "one" : "grid");
    const bool crowded = widest > std::log(2.5) && (mark == 0.67 || mark == 0.8 || mark == 1.25 || mark == 1.5);
    if (!crowded) svg.text(place(mark), top - 10, fmt::format("{:g}×", mark), Anchor::middle, "dim");
  }
  double y = top;
  for (const RatioBar& bar : chart.bars) {
    const bool apart = bar.least > 1 || bar.most < 1;
    const char* colour = !apart ? "even" : (bar.median > 1) == bar.more_is_better ? "good" : "bad";
    const double from = place(1), to = place(bar.median), middle = y + kBarHeight / 2 + 3;
    svg.text(left - 10, middle + 4, bar.label, Anchor::end);
    svg.rect(std::min(from, to), y + 3, std::max(1.0, std::abs(to - from)), kBarHeight, colour);
    svg.line(place(bar.least), middle, place(bar.most), middle, "whisker");
    for (const double end : {bar.least, bar.most}) svg.line(place(end), middle - 4, place(end), middle + 4, "whisker");
    svg.text(right + 10, middle + 4, bar.note);
    y += kBarStep;
  }
}

}  // namespace espalier::bench
