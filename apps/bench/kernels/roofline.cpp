#include "bench/kernels/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/svg.h"
#include "bench/plot/chart.h"

namespace espalier::bench {
namespace {

constexpr double kWidth = 920, kHeight = 520, kLeft = 70, kRight = 900, kTop = 60, kBottom = 470;

// Values of several powers of ten on a line.
struct LogAxis {
  double least, most, begin, end;
  double place(double value) const { return begin + (end - begin) * std::log(value / least) / std::log(most / least); }
};

struct Roof {
  const char* name;
  Multiplier multiplier;
};
constexpr Roof kRoofs[] = {{"int8", Multiplier::int8}, {"bf16", Multiplier::bf16}, {"f32", Multiplier::f32}};

std::size_t colour_of(const KernelResult& result, const std::vector<std::string>& types) {
  return static_cast<std::size_t>(std::find(types.begin(), types.end(), result.type) - types.begin()) % kSeriesColours;
}

}  // namespace

std::string draw_roofline(const std::vector<KernelResult>& results, const MachineLimits& limits,
                          const std::string& title) {
  std::vector<KernelResult> shown;
  std::vector<std::string> types;
  for (const KernelResult& r : results) {
    if (r.operations <= 0) continue;
    shown.push_back(r);
    if (std::find(types.begin(), types.end(), r.type) == types.end()) types.push_back(r.type);
  }
  double least = 1, most = 1e3, low = limits.read_bytes_per_second, high = 0;
  for (const KernelResult& r : shown) {
    least = std::min(least, r.operations / r.bytes);
    most = std::max(most, r.operations / r.bytes);
    low = std::min(low, r.operations_per_second());
    high = std::max({high, r.operations_per_second(), peak_of(limits, r.multiplier)});
  }
  const LogAxis x{least / 1.5, most * 1.5, kLeft, kRight}, y{low / 1.5, high * 1.5, kBottom, kTop};

  Svg svg;
  svg.text(12, 24, title);
  for (const double tick : logarithmic_ticks(x.least, x.most)) {
    if (tick < x.least || tick > x.most) continue;
    svg.line(x.place(tick), kTop, x.place(tick), kBottom, "grid");
    svg.text(x.place(tick), kBottom + 18, short_number(tick), Svg::Anchor::middle, "dim");
  }
  for (const double tick : logarithmic_ticks(y.least / 1e9, y.most / 1e9)) {
    if (tick * 1e9 < y.least || tick * 1e9 > y.most) continue;
    svg.line(kLeft, y.place(tick * 1e9), kRight, y.place(tick * 1e9), "grid");
    svg.text(kLeft - 8, y.place(tick * 1e9) + 4, short_number(tick), Svg::Anchor::end, "dim");
  }
  svg.text(kRight, kBottom + 38, "operations for each byte of memory", Svg::Anchor::end, "dim");
  svg.text(12, kBottom + 38, "GOP/s, upwards", Svg::Anchor::start, "dim");

  for (const Roof& roof : kRoofs) {
    if (roof.multiplier == Multiplier::bf16 && limits.bf16_flops <= 0) continue;
    const double peak = peak_of(limits, roof.multiplier), ridge = peak / limits.read_bytes_per_second;
    const double from = std::clamp(ridge, x.least, x.most),
                 start = std::max(x.least, y.least / limits.read_bytes_per_second);
    const double reached = std::min(peak, from * limits.read_bytes_per_second);
    svg.path({{x.place(start), y.place(start * limits.read_bytes_per_second)},
              {x.place(from), y.place(reached)},
              {x.place(x.most), y.place(std::min(peak, x.most * limits.read_bytes_per_second))}},
             "one");
    svg.text(kRight, y.place(reached) - 5, fmt::format("{} {:.0f}", roof.name, peak / 1e9), Svg::Anchor::end, "dim");
  }
  for (const KernelResult& r : shown)
    svg.dot(x.place(r.operations / r.bytes), y.place(r.operations_per_second()),
            fmt::format("f{}", colour_of(r, types)),
            fmt::format("{} {} {}, {} rows: {:.1f} GB/s, {:.0f} GOP/s, {:.0f} % of the limit", r.type, r.kernel, r.part,
                        r.rows, r.bytes_per_second() / 1e9, r.operations_per_second() / 1e9,
                        100 * roofline_share(r, limits)));
  double at = 12;
  for (std::size_t i = 0; i < types.size(); ++i) {
    svg.rect(at, 33, 12, 12, fmt::format("f{}", i % kSeriesColours));
    svg.text(at + 18, 43, types[i]);
    at += 48 + 7.2 * static_cast<double>(types[i].size());
  }
  svg.text(at, 43, fmt::format("roof: {:.1f} GB/s", limits.read_bytes_per_second / 1e9), Svg::Anchor::start, "dim");
  return svg.document(kWidth, kHeight, title);
}

}  // namespace espalier::bench
