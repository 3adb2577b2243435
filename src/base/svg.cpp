#include "base/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace espalier {
namespace {

constexpr const char* kAnchors[] = {"start", "middle", "end"};

}  // namespace

std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
  }
  return out;
}

// Colours keep a contrast of at least 3:1 to their paper, text 4.5:1 and more.
std::string_view style_sheet() {
  return ":root,svg{color-scheme:light dark;--paper:#ffffff;--ink:#1c2328;--dim:#56616a;--grid:#dfe4e8;"
         "--c0:#2f7d4f;--c1:#b4531f;--c2:#3563a8;--c3:#8a3f8f;--c4:#8a6d00;"
         "--b0:#dff0e5;--b1:#f8e6db;--b2:#e2eaf7;--b3:#f2e3f3;--b4:#f5efd6;--good:#2f7d4f;--bad:#b4531f}"
         "@media(prefers-color-scheme:dark){:root,svg{--paper:#15191c;--ink:#e8ecef;--dim:#a3adb5;--grid:#333b41;"
         "--c0:#63c48b;--c1:#ee9a63;--c2:#86aeec;--c3:#d79bdb;--c4:#d9bb45;"
         "--b0:#1d3a29;--b1:#43291a;--b2:#1f2f49;--b3:#3d2540;--b4:#3a3213;--good:#63c48b;--bad:#ee9a63}}"
         "svg text{font:12px system-ui,sans-serif;fill:var(--ink)}svg .dim{fill:var(--dim)}"
         "svg .head{font-size:15px;font-weight:600}svg .sub{font-weight:600}.paper{fill:var(--paper)}"
         ".grid{stroke:var(--grid)}.axis{stroke:var(--dim)}.one{stroke:var(--ink);stroke-width:1.5}"
         ".whisker{stroke:var(--ink);stroke-width:1.5}.good{fill:var(--good)}.bad{fill:var(--bad)}.even{fill:var(--dim)"
         "}"
         "path{fill:none;stroke-width:2}.p99{stroke-dasharray:5 4}"
         ".s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}"
         ".f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}"
         ".plain{fill:var(--paper);stroke:var(--dim)}.band{fill:var(--grid);fill-opacity:.45}.dashed{stroke-dasharray:"
         "5 4}"
         ".b0{fill:var(--b0);stroke:var(--c0)}.b1{fill:var(--b1);stroke:var(--c1)}.b2{fill:var(--b2);stroke:var(--c2)}"
         ".b3{fill:var(--b3);stroke:var(--c3)}.b4{fill:var(--b4);stroke:var(--c4)}.thin{stroke-width:1.25}svg "
         ".small{font-size:9px}";
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  body_ += fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>)"
                       "\n",
                       x1, y1, x2, y2, css_class);
}

void Svg::rect(double x, double y, double width, double height, std::string_view css_class, std::string_view title) {
  body_ += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}")", x, y, width, height,
                       css_class);
  body_ += title.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escape_xml(title));
}

void Svg::dot(double x, double y, std::string_view css_class, std::string_view title) {
  body_ += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.5" class="{}"><title>{}</title></circle>)"
                       "\n",
                       x, y, css_class, escape_xml(title));
}

void Svg::path(const Points& points, std::string_view css_class) {
  if (points.size() < 2) return;
  std::string d;
  for (const auto& [x, y] : points) d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? "M" : "L", x, y);
  body_ += fmt::format(R"(<path d="{}" class="{}"/>)"
                       "\n",
                       d, css_class);
}

void Svg::arrow(const Points& points, std::string_view css_class) {
  if (points.size() < 2) return;
  path(points, css_class);
  constexpr double kLength = 6, kHalf = 4;
  const auto [x, y] = points.back();
  const auto [fx, fy] = points[points.size() - 2];
  const double length = std::max(std::hypot(x - fx, y - fy), 1e-9);
  const double dx = (x - fx) / length, dy = (y - fy) / length;
  const std::string_view whole = css_class.substr(0, css_class.find(" dashed"));  // a head is not dashed
  path({{x - kLength * dx - kHalf * dy, y - kLength * dy + kHalf * dx},
        {x, y},
        {x - kLength * dx + kHalf * dy, y - kLength * dy - kHalf * dx}},
       whole);
}

void Svg::text(double x, double y, std::string_view text, Anchor anchor, std::string_view css_class) {
  body_ += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>)"
                       "\n",
                       x, y, kAnchors[static_cast<int>(anchor)], css_class, escape_xml(text));
}

std::string Svg::document(double width, double height, std::string_view title) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "role=\"img\" aria-label=\"{}\">\n<style>{}</style>\n<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n{}"
      "</svg>\n",
      width, height, width, height, escape_xml(title), style_sheet(), body_);
}

}  // namespace espalier
