#include "image/resize/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace espalier::pictures {

namespace {

constexpr int precision = 32 - 8 - 2;  // binary places of a weight: 8 bits of the pixel and 2 for overshoot stay

double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

double sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double hamming(double x) {
  x = std::fabs(x);
  if (x == 0.0) return 1.0;
  if (x >= 1.0) return 0.0;
  x *= std::numbers::pi;
  return std::sin(x) / x * (0.54F + 0.46F * std::cos(x));  // constants of single precision, as the reference has them
}

double weight(Filter filter, double x) {
  switch (filter) {
    case Filter::box:
      return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case Filter::bilinear:
      return std::fabs(x) < 1.0 ? 1.0 - std::fabs(x) : 0.0;
    case Filter::hamming:
      return hamming(x);
    case Filter::bicubic:
      return bicubic(x);
    default:
      return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
  }
}

double half_width(Filter filter) {
  switch (filter) {
    case Filter::box:
      return 0.5;
    case Filter::bicubic:
      return 2.0;
    case Filter::lanczos:
      return 3.0;
    default:
      return 1.0;
  }
}

// Which inputs an output is made of: inputs [first, first + count), their weights at `weights`.
struct Tap {
  int first = 0, count = 0;
  std::size_t weights = 0;
};

// The taps of all outputs along one axis.
struct Axis {
  std::vector<Tap> taps;
  std::vector<std::int32_t> weights;
};

std::int32_t fixed_point(double value) {
  double scaled = value * (1 << precision);
  return static_cast<std::int32_t>(value < 0 ? scaled - 0.5 : scaled + 0.5);
}

Axis make_axis(int inputs, float from, float to, int outputs, Filter filter) {
  double scale = static_cast<double>(to - from) / outputs;
  double widened = std::max(scale, 1.0);
  double support = half_width(filter) * widened;
  Axis axis;
  std::vector<double> row;
  for (int i = 0; i < outputs; ++i) {
    double center = from + (i + 0.5) * scale;
    const double begin = center - support + 0.5, end = center + support + 0.5;
    int first = std::max(static_cast<int>(begin), 0);
    int last = std::min(static_cast<int>(end), inputs);
    double sum = 0.0, narrow = 1.0 / widened;
    row.clear();
    for (int x = first; x < last; ++x) {
      row.push_back(weight(filter, (x - center + 0.5) * narrow));
      sum += row.back();
    }
    axis.taps.push_back({first, std::max(last - first, 0), axis.weights.size()});
    for (double value : row) axis.weights.push_back(fixed_point(sum != 0.0 ? value / sum : value));
  }
  return axis;
}

std::uint8_t to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> precision, 0, 255));
}

// Rows [first, first + count) of the input, made `axis.taps.size()` pixels wide.
Picture resize_rows(const Picture& picture, const Axis& axis, int first, int count) {
  Picture out(static_cast<int>(axis.taps.size()), count);
  for (int y = 0; y < count; ++y) {
    const std::uint8_t* from = picture.row(first + y);
    std::uint8_t* to = out.row(y);
    for (const Tap& tap : axis.taps) {
      std::int32_t red = 1 << (precision - 1), green = red, blue = red;
      const std::uint8_t* pixel = from + static_cast<std::ptrdiff_t>(tap.first) * 3;
      const std::int32_t* weights = axis.weights.data() + tap.weights;
      for (int i = 0; i < tap.count; ++i, pixel += 3) {
        red += pixel[0] * weights[i];
        green += pixel[1] * weights[i];
        blue += pixel[2] * weights[i];
      }
      *to++ = to_byte(red);
      *to++ = to_byte(green);
      *to++ = to_byte(blue);
    }
  }
  return out;
}

// `above`: the input's first row in the numbers of the taps.
Picture resize_columns(const Picture& picture, const Axis& axis, int above) {
  Picture out(picture.width, static_cast<int>(axis.taps.size()));
  std::size_t bytes = static_cast<std::size_t>(picture.width) * 3;
  std::vector<std::int32_t> sums(bytes);
  for (int y = 0; y < out.height; ++y) {
    const Tap& tap = axis.taps[static_cast<std::size_t>(y)];
    std::fill(sums.begin(), sums.end(), 1 << (precision - 1));
    for (int i = 0; i < tap.count; ++i) {
      const std::uint8_t* from = picture.row(tap.first - above + i);
      std::int32_t w = axis.weights[tap.weights + static_cast<std::size_t>(i)];
      for (std::size_t x = 0; x < bytes; ++x) sums[x] += from[x] * w;
    }
    std::uint8_t* to = out.row(y);
    for (std::size_t x = 0; x < bytes; ++x) to[x] = to_byte(sums[x]);
  }
  return out;
}

// The order shows, because the picture between the passes is rounded to bytes. Pillow 13 goes through the columns first
// where the height shrinks by more than twice as many pixels as the width (found by trying; older ones never do).
bool columns_first(Size from, Size to) {
  return to.height < from.height && from.height - to.height > 2 * (from.width - to.width);
}

// The pixels of one axis that `nearest` takes; -1 outside. The steps are added up, as in the reference.
std::vector<int> nearest_inputs(int inputs, float from, float to, int outputs) {
  double step = static_cast<double>(to - from) / outputs, at = from + step * 0.5;
  std::vector<int> chosen;
  for (int i = 0; i < outputs; ++i, at += step) {
    int input = at < 0.0 ? -1 : static_cast<int>(at);
    chosen.push_back(input < inputs ? input : -1);
  }
  return chosen;
}

Picture resize_nearest(const Picture& picture, Size size, const Box& box) {
  Picture out(size.width, size.height);
  fill(out, {0, 0, 0});
  std::vector<int> columns = nearest_inputs(picture.width, box.left, box.right, size.width);
  std::vector<int> rows = nearest_inputs(picture.height, box.top, box.bottom, size.height);
  for (int y = 0; y < size.height; ++y) {
    if (rows[static_cast<std::size_t>(y)] < 0) continue;
    const std::uint8_t* from = picture.row(rows[static_cast<std::size_t>(y)]);
    std::uint8_t* to = out.row(y);
    for (int column : columns) {
      if (column >= 0)
        std::copy(from + static_cast<std::ptrdiff_t>(column) * 3, from + static_cast<std::ptrdiff_t>(column) * 3 + 3,
                  to);
      to += 3;
    }
  }
  return out;
}

}  // namespace

Picture resize(const Picture& picture, Size size, Filter filter, std::optional<Box> part) {
  Box whole{0, 0, static_cast<float>(picture.width), static_cast<float>(picture.height)};
  Box box = part.value_or(whole);
  bool whole_width = box.left == 0 && box.right == whole.right && size.width == picture.width;
  bool whole_height = box.top == 0 && box.bottom == whole.bottom && size.height == picture.height;
  if (whole_width && whole_height) return picture;
  if (filter == Filter::nearest) return resize_nearest(picture, size, box);
  Axis rows = make_axis(picture.height, box.top, box.bottom, size.height, filter);
  if (whole_width) return resize_columns(picture, rows, 0);
  Axis columns = make_axis(picture.width, box.left, box.right, size.width, filter);
  if (whole_height) return resize_rows(picture, columns, 0, picture.height);
  if (columns_first(picture.size(), size))
    return resize_rows(resize_columns(picture, rows, 0), columns, 0, size.height);
  int first = rows.taps.front().first, last = rows.taps.back().first + rows.taps.back().count;
  return resize_columns(resize_rows(picture, columns, first, last - first), rows, first);
}

}  // namespace espalier::pictures
