#include "bench/plot/plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "bench/plot/chart.h"
#include "bench/serving/console.h"

namespace espalier::bench {
namespace {

constexpr double kPlotWidth = 920, kPanelHeight = 260, kHead = 62;

using Rows = std::vector<std::vector<std::string>>;  // the first is the head

struct Picture {
  std::string title, svg;
  Rows table;
};

std::string page(const Picture& picture) {
  std::string rows;
  for (std::size_t i = 0; i < picture.table.size(); ++i) {
    rows += "<tr>";
    for (const std::string& cell : picture.table[i])
      rows += fmt::format("<{0}>{1}</{0}>", i == 0 ? "th" : "td", escape_xml(cell));
    rows += "</tr>\n";
  }
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{}</title>\n<style>{}body{{background:var(--paper);color:var(--ink);"
      "font:14px system-ui,sans-serif;margin:24px auto;max-width:{:.0f}px;padding:0 "
      "12px}}svg{{max-width:100%;height:auto}}"
      ".wide{{overflow-x:auto}}table{{border-collapse:collapse;margin-top:16px}}th,td{{padding:4px "
      "10px;text-align:right;"
      "border-bottom:1px solid "
      "var(--grid);white-space:nowrap}}th:first-child,td:first-child{{text-align:left}}</style></head>\n"
      "<body>\n{}<div class=\"wide\"><table>\n{}</table></div>\n</body></html>\n",
      escape_xml(picture.title), style_sheet(), kPlotWidth, picture.svg, rows);
}

Result<> write(const std::string& path, const Picture& picture) {
  return write_text(path, path.ends_with(".svg") ? picture.svg : page(picture), false);
}

// "TTFT median" of every report that has it.
Series series_of(const NamedReports& server, std::size_t colour, const std::string& figure, bool dashed) {
  Series s{server.name + (dashed ? " p99" : ""), colour, dashed, {}, {}};
  for (const Report& report : server.reports)
    for (const Figure& f : figures_of(report))
      if (f.name == figure) {
        s.x.push_back(report.request_rate);
        s.y.push_back(f.value);
      }
  return s;
}

struct Panel {
  const char *title, *unit, *solid, *dashed;
};
constexpr Panel kPanels[] = {
    {"Time to first token", "ms", "TTFT median", "TTFT p99"},
    {"Inter-token latency", "ms", "ITL median", "ITL p99"},
    {"End to end", "ms", "E2E median", "E2E p99"},
    {"Output throughput", "tok/s", "output throughput", nullptr},
};

double draw_legend(Svg& svg, const std::vector<NamedReports>& servers, double y) {
  double x = 12;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    svg.rect(x, y - 9, 12, 12, fmt::format("f{}", i % kSeriesColours));
    svg.text(x + 18, y + 1, servers[i].name);
    x += 40 + 7.2 * static_cast<double>(servers[i].name.size());
  }
  svg.text(x, y + 1, "solid: median, dashed: 99th percentile", Svg::Anchor::start, "dim");
  return y + 18;
}

// Four panels from `y` down; where they end.
double draw_panels(Svg& svg, const std::vector<NamedReports>& servers, double y) {
  y = draw_legend(svg, servers, y);
  int place = 0;
  for (const Panel& panel : kPanels) {
    LineChart chart{panel.title, "requests a second", panel.unit, {}};
    for (std::size_t i = 0; i < servers.size(); ++i) {
      if (panel.dashed) chart.series.push_back(series_of(servers[i], i, panel.dashed, true));
      chart.series.push_back(series_of(servers[i], i, panel.solid, false));
    }
    const int row = place / 2;
    draw(svg, chart, {place % 2 == 0 ? 0 : kPlotWidth / 2, y + row * kPanelHeight, kPlotWidth / 2, kPanelHeight});
    ++place;
  }
  return y + 2 * kPanelHeight;
}

void add_report_rows(Rows& rows, const NamedReports& server) {
  if (rows.empty())
    rows.push_back({"server, workload", "rate", "calls", "failed", "out tok/s", "TTFT med", "TTFT p99", "ITL med",
                    "ITL p99", "E2E med", "E2E p99", "cached"});
  for (const Report& r : server.reports) {
    const auto ms = [](double value) { return fmt::format("{:.1f}", value); };
    const auto hit = r.hit_rate();
    rows.push_back({server.name + ", " + r.workload, rate_text(r.request_rate), fmt::format("{}", r.completed),
                    fmt::format("{}", r.failed), ms(r.per_second(static_cast<double>(r.output_tokens))),
                    ms(r.ttft.median), ms(r.ttft.p99), ms(r.itl.median), ms(r.itl.p99), ms(r.e2e.median), ms(r.e2e.p99),
                    hit ? fmt::format("{:.1f} %", 100 * *hit) : "-"});
  }
}

// The median repetition of each server at each rate, of the workload `name`.
std::vector<NamedReports> median_reports(const Comparison& comparison, const std::string& name) {
  std::vector<NamedReports> servers;
  for (std::size_t i = 0; i < comparison.servers.size(); ++i) {
    NamedReports named{comparison.servers[i].name, {}};
    for (const ComparedCase& compared : comparison.cases) {
      if (compared.name != name || compared.repetitions.empty()) continue;
      std::vector<const Report*> reports;
      for (const Repetition& repetition : compared.repetitions) reports.push_back(&repetition.visits[i].report);
      std::sort(reports.begin(), reports.end(), [](auto* a, auto* b) { return a->e2e.median < b->e2e.median; });
      named.reports.push_back(*reports[reports.size() / 2]);
    }
    servers.push_back(std::move(named));
  }
  return servers;
}

RatioChart ratio_chart(const Comparison& comparison, const ComparedCase& compared, std::size_t server) {
  RatioChart chart;
  chart.title = fmt::format("{}, rate {}: {} ÷ {}", compared.name, rate_text(compared.rate),
                            comparison.servers[server].name, comparison.servers[0].name);
  for (const Ratio& r : ratios_of(compared, server, comparison.strangers_limit))
    chart.bars.push_back({r.figure,
                          fmt::format("{:.2f}× ({:.2f}..{:.2f}, n {})", r.median, r.least, r.most, r.repetitions),
                          r.least, r.median, r.most, r.more_is_better});
  return chart;
}

}  // namespace

Result<> check_plot_path(const std::string& path) {
  if (!path.ends_with(".svg") && !path.ends_with(".html"))
    return bad_request(fmt::format("--plot {} must end in .svg or .html", path), "plot");
  return success();
}

Result<> plot_sweep(const std::string& path, const std::vector<NamedReports>& servers) {
  std::set<std::string> workloads;
  for (const NamedReports& server : servers)
    for (const Report& report : server.reports) workloads.insert(report.workload);
  Svg svg;
  Picture picture;
  picture.title = "espalier bench serving";
  svg.text(12, 26, picture.title, Svg::Anchor::start, "head");
  double y = kHead;
  for (const std::string& workload : workloads) {
    std::vector<NamedReports> of_it;
    for (const NamedReports& server : servers) {
      NamedReports part{server.name, {}};
      std::copy_if(server.reports.begin(), server.reports.end(), std::back_inserter(part.reports),
                   [&](const Report& r) { return r.workload == workload; });
      add_report_rows(picture.table, part);
      of_it.push_back(std::move(part));
    }
    svg.text(12, y - 12, workload, Svg::Anchor::start, "sub");
    y = draw_panels(svg, of_it, y + 10) + 30;
  }
  picture.svg = svg.document(kPlotWidth, y - 10, picture.title + ": latency against request rate");
  return write(path, picture);
}

Result<> plot_comparison(const std::string& path, const Comparison& comparison) {
  Svg svg;
  Picture picture;
  picture.title = "espalier bench compare";
  svg.text(12, 26, picture.title, Svg::Anchor::start, "head");
  svg.text(12, 44,
           "bars: median ratio within a repetition, whiskers: least and most; green: better in every repetition",
           Svg::Anchor::start, "dim");
  double y = kHead;
  for (const ComparedCase& compared : comparison.cases)
    for (std::size_t i = 1; i < comparison.servers.size(); ++i) {
      const RatioChart chart = ratio_chart(comparison, compared, i);
      if (chart.bars.empty()) continue;
      draw(svg, chart, {0, y, kPlotWidth, 0});
      y += height_of(chart);
    }
  std::map<std::string, int> rates;
  for (const ComparedCase& compared : comparison.cases) ++rates[compared.name];
  for (const auto& [name, count] : rates) {
    const auto servers = median_reports(comparison, name);
    for (const NamedReports& server : servers) add_report_rows(picture.table, server);
    if (count < 2) continue;
    svg.text(12, y + 8, name + ": median repetition", Svg::Anchor::start, "sub");
    y = draw_panels(svg, servers, y + 30) + 30;
  }
  picture.svg = svg.document(kPlotWidth, y, picture.title + ": ratios to " + comparison.servers.front().name);
  return write(path, picture);
}

}  // namespace espalier::bench
