#include "bench/fleet/day_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/plot/chart.h"
#include "bench/serving/console.h"

namespace espalier::bench {
namespace {

constexpr auto kLine = "  {:<9}{:>10}{:>8}{:>8}{:>18}{:>18}{:>18}{:>12}{:>12}{}\n";

std::string time_of(double seconds) {
  if (seconds < 0.09995) return fmt::format("{:.1f}ms", 1e3 * seconds);
  if (seconds < 0.9995) return fmt::format("{:.0f}ms", 1e3 * seconds);
  return seconds < 99.95 ? fmt::format("{:.2f}s", seconds) : fmt::format("{:.0f}s", seconds);
}

std::string middle_and_tail(const QuantileSketch& s) {
  return time_of(s.quantile(0.5)) + "/" + time_of(s.quantile(0.99));
}

std::string amount(double value) {
  for (const auto& [unit, size] : {std::pair("T", 1e12), std::pair("G", 1e9), std::pair("M", 1e6), std::pair("k", 1e3)})
    if (value >= size) return fmt::format("{:.3g}{}", value / size, unit);
  return fmt::format("{:.3g}", value);
}

std::string line(const std::string& name, const WindowReport& w) {
  return fmt::format(kLine, name, fmt::format("{:.1f}", w.rate), fmt::format("{:.2f}", 100 * w.hit_rate()),
                     fmt::format("{:.1f}", 100 * w.busy()), middle_and_tail(w.first_token), middle_and_tail(w.gaps),
                     middle_and_tail(w.finished), amount(w.prompt_tokens / w.seconds),
                     amount(w.output_tokens / w.seconds), w.overloaded() ? "   more comes than goes" : "");
}

std::string steps_line(const WindowReport& w) {
  const double all = std::max(w.steps.seconds(), 1e-300);
  return fmt::format(
      "  steps: {:.1f} % base, {:.1f} % prompts, {:.1f} % decoding, {:.1f} % attention, {:.1f} % gathers\n",
      100 * w.steps.base / all, 100 * w.steps.prompts / all, 100 * w.steps.decoding / all,
      100 * w.steps.attention / all, 100 * w.steps.gathers / all);
}

std::string traffic_line(const WindowReport& w) {
  std::string line;
  const auto add = [&](const char* name, double bytes) {
    if (bytes > 0)
      line += fmt::format("{}{} {}B/s", line.empty() ? "  moved: " : ", ", name, amount(bytes / w.seconds));
  };
  add("between ranks", w.traffic.ranks);
  add("out of the remote tier", w.traffic.remote_read);
  add("into it", w.traffic.remote_written);
  add("streamed to servers that answer", w.traffic.streamed);
  return line.empty() ? line : line + "\n";
}

Json sketch_json(const QuantileSketch& s) {
  return {{"mean_ms", 1e3 * s.mean()},        {"median_ms", 1e3 * s.quantile(0.5)}, {"p90_ms", 1e3 * s.quantile(0.9)},
          {"p99_ms", 1e3 * s.quantile(0.99)}, {"p999_ms", 1e3 * s.quantile(0.999)}, {"max_ms", 1e3 * s.most()}};
}

Json window_json(const WindowReport& w) {
  return {{"request_rate", w.rate},
          {"completed", w.calls},
          {"failed", w.failed},
          {"overloaded", w.overloaded()},
          {"cache_hit_rate_pct", 100 * w.hit_rate()},
          {"busy_pct", 100 * w.busy()},
          {"request_throughput", w.calls / w.seconds},
          {"input_throughput", w.prompt_tokens / w.seconds},
          {"output_throughput", w.output_tokens / w.seconds},
          {"computed_throughput", w.computed_tokens / w.seconds},
          {"brought_throughput", w.brought_tokens / w.seconds},
          {"wait", sketch_json(w.wait)},
          {"ttft", sketch_json(w.first_token)},
          {"itl", sketch_json(w.gaps)},
          {"e2e", sketch_json(w.finished)},
          {"step_seconds",
           {{"base", w.steps.base},
            {"prompts", w.steps.prompts},
            {"decoding", w.steps.decoding},
            {"attention", w.steps.attention},
            {"gathers", w.steps.gathers}}},
          {"bytes_per_second",
           {{"ranks", w.traffic.ranks / w.seconds},
            {"remote_read", w.traffic.remote_read / w.seconds},
            {"remote_written", w.traffic.remote_written / w.seconds},
            {"streamed", w.traffic.streamed / w.seconds}}}};
}

// --- pictures ---

constexpr double kWidth = 920, kPanel = 260, kTop = 78;

using Figure = double (*)(const DayRow&);
struct Panel {
  const char *title, *unit;
  Figure figure;
};

LineChart chart_of(const Panel& panel, const std::vector<DayRow>& rows, const std::vector<std::string>& names) {
  LineChart chart{panel.title, "servers", panel.unit, {}};
  for (std::size_t i = 0; i < names.size(); ++i) {
    Series series{names[i], i, i >= kSeriesColours, {}, {}};
    for (const DayRow& row : rows)
      if (row.router == names[i]) {
        series.x.push_back(row.servers());
        series.y.push_back(panel.figure(row));
      }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

double DayRow::cost_of(double tokens) const {
  return tokens > 0 ? replica_cost * servers() * report.day.seconds / 3600 / tokens * 1e6 : 0;
}

std::string day_heading(const DaySettings& d, bool each, const std::string& machine) {
  const SessionShape& s = d.sessions;
  const SimulatedServer::Settings& server = d.fleet.server;
  return fmt::format(
      "==== {:.0f} requests a day{}, {:.0f} % around the mean in {} windows of {:g} s (after {:g} s); {}\n"
      "     sessions: {} applications of {} tokens (skew {:g}), {:g} turns of {:g} + {:g} tokens, pauses of {:g} s\n"
      "     cost {}, pool {}, {} running at most, chunks of {}{}\n"
      "  {:<9}{:>10}{:>8}{:>8}{:>18}{:>18}{:>18}{:>12}{:>12}\n",
      d.requests_per_day, each ? " for each server" : "", 100 * d.swing, d.levels, d.window, d.warm_up, machine, s.apps,
      s.app_tokens, s.app_skew, s.turns, s.question_tokens, s.answer_tokens, s.pause, server.times.text(),
      server.pool_tokens, server.core.max_running, server.core.prefill_chunk,
      server.ranks.ranks > 1 ? fmt::format(", {} ranks over {}", server.ranks.ranks, server.ranks.link.text()) : "",
      "load", "calls/s", "hit %", "busy %", "TTFT p50/p99", "ITL p50/p99", "E2E p50/p99", "in tok/s", "out tok/s");
}

std::string day_lines(const DayRow& row) {
  std::string text =
      fmt::format("{} servers, {}, {}{}\n", row.servers(), row.router, row.policy,
                  row.prompt_servers > 0 ? fmt::format(", {} of them compute prompts", row.prompt_servers) : "");
  for (const WindowReport& level : row.report.levels)
    text += line(fmt::format("{:.0f} %", 100 * level.rate / std::max(row.report.day.rate, 1e-300)), level);
  text += line("day", row.report.day) + steps_line(row.report.day) + traffic_line(row.report.day);
  if (row.replica_cost > 0)
    text += fmt::format("  cost: {:.4g} for a million tokens answered, {:.4g} for a million asked or answered\n",
                        row.cost_of_output(), row.cost_of_all());
  return text;
}

Json day_json(const DayRow& row) {
  Json levels = Json::array();
  for (const WindowReport& level : row.report.levels) levels.push_back(window_json(level));
  return {{"router", row.router},
          {"policy", row.policy},
          {"replicas", row.replicas},
          {"prefill_replicas", row.prompt_servers},
          {"ranks", row.ranks},
          {"cost_per_million_output_tokens", row.cost_of_output()},
          {"cost_per_million_tokens", row.cost_of_all()},
          {"day", window_json(row.report.day)},
          {"levels", std::move(levels)}};
}

Result<> plot_days(const std::string& path, const std::vector<DayRow>& rows, const std::string& title) {
  std::vector<std::string> names;
  for (const DayRow& row : rows)
    if (std::ranges::find(names, row.router) == names.end()) names.push_back(row.router);
  std::vector<Panel> panels = {
      {"Prompt tokens from the cache", "%", [](const DayRow& r) { return 100 * r.report.day.hit_rate(); }},
      {"Time to first token, p99", "ms", [](const DayRow& r) { return 1e3 * r.report.day.first_token.quantile(0.99); }},
      {"Between tokens, p99", "ms", [](const DayRow& r) { return 1e3 * r.report.day.gaps.quantile(0.99); }}};
  if (std::ranges::any_of(rows, [](const DayRow& r) { return r.replica_cost > 0; }))
    panels.push_back(
        {"Cost of a million tokens answered", "currency", [](const DayRow& r) { return r.cost_of_output(); }});
  Svg svg;
  svg.text(12, 26, title, Svg::Anchor::start, "head");
  double x = 12;
  for (std::size_t i = 0; i < names.size(); ++i) {
    svg.rect(x, 44, 12, 12, fmt::format("f{}", i % kSeriesColours));
    const std::string shown = names[i] + (i >= kSeriesColours ? " (dashed)" : "");
    svg.text(x + 18, 54, shown);
    x += 40 + 7.2 * static_cast<double>(shown.size());
  }
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const std::size_t line = i / 2;
    draw(svg, chart_of(panels[i], rows, names),
         {i % 2 == 0 ? 0 : kWidth / 2, kTop + static_cast<double>(line) * kPanel, kWidth / 2, kPanel});
  }
  const std::size_t lines = (panels.size() + 1) / 2;
  const double height = kTop + kPanel * static_cast<double>(lines);
  return write_text(path, svg.document(kWidth, height, title), false);
}

}  // namespace espalier::bench
