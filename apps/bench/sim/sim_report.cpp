#include "bench/sim/sim_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::bench {
namespace {

std::string short_time(double seconds) {
  if (seconds < 0.9995) return fmt::format("{:.0f}ms", 1e3 * seconds);
  if (seconds < 99.95) return fmt::format("{:.1f}s", seconds);
  return fmt::format("{:.0f}s", seconds);
}

std::string short_count(std::int64_t count) {
  const auto n = static_cast<double>(count);
  if (n < 99'999.5) return fmt::format("{}", count);
  if (n < 9'999'500) return fmt::format("{:.0f}k", n / 1e3);
  return fmt::format("{:.0f}M", n / 1e6);
}

std::string mean_median_p99(const Summary& s) {
  return short_time(s.mean) + "/" + short_time(s.median) + "/" + short_time(s.p99);
}

std::string fleet_line(const SimRow& row) {
  const SimReport& r = row.report;
  const auto [least, most] = std::ranges::minmax(r.calls_of);
  return fmt::format("     {} replicas behind {}: {} to {} calls each; {} tokens came over links\n",
                     row.fleet->replicas, row.fleet->router, least, most, r.counts.brought_tokens);
}

Json summary_json(const Summary& s) {
  return {{"mean_ms", 1e3 * s.mean}, {"median_ms", 1e3 * s.median}, {"p99_ms", 1e3 * s.p99}, {"max_ms", 1e3 * s.most}};
}

constexpr auto kLine = "{:<11}{:<6}{:>8}{:>7}{:>9}{:>10}{:>10}{:>9}{:>21}{:>21}{:>21}{:>7}{:>9}{:>8}\n";

}  // namespace

std::string sim_heading(const SimWorkload& w, const SimSettings& settings, std::size_t items, const std::string& ids) {
  const SimulatedServer::Settings& server = settings.transport.fleet.server;
  return fmt::format(
      "==== {}: {} items ({} in the file), ids: {}; working set {} tokens, longest call {}\n     cost {}, {} running "
      "at "
      "most, chunks of {}\n",
      w.workload().name, items, w.workload().items.size(), ids, w.working_set(), w.longest(), server.times.text(),
      server.core.max_running, server.core.prefill_chunk);
}

std::string sim_columns() {
  return fmt::format(kLine, "policy", "evict", "pool", "hit %", "ideal %", "of ideal", "out tok/s", "calls/s",
                     "wait mean/p50/p99", "TTFT mean/p50/p99", "E2E mean/p50/p99", "retr.", "evicted", "extent");
}

std::string sim_line(const SimRow& row) {
  const SimReport& r = row.report;
  const double ideal = r.ideal_hit_rate();
  std::string line = fmt::format(
      kLine, row.policy, row.eviction, short_count(row.pool_tokens), fmt::format("{:.2f}", 100 * r.hit_rate()),
      fmt::format("{:.2f}", 100 * ideal), ideal > 0 ? fmt::format("{:.2f} %", 100 * r.hit_rate() / ideal) : "-",
      fmt::format("{:.1f}", r.per_second(static_cast<double>(r.counts.output_tokens))),
      fmt::format("{:.2f}", r.per_second(static_cast<double>(r.counts.calls))), mean_median_p99(r.wait),
      mean_median_p99(r.ttft), mean_median_p99(r.e2e), short_count(r.retractions), short_count(r.evicted_tokens),
      fmt::format("{:.0f}", r.tokens_per_extent));
  if (r.counts.failed > 0) line += fmt::format("     {} calls failed: {}\n", r.counts.failed, r.counts.first_error);
  return row.fleet ? line + fleet_line(row) : line;
}

Json sim_json(const SimRow& row) {
  const SimReport& r = row.report;
  const SimCounts& c = r.counts;
  Json json = {{"workload", row.workload},
               {"policy", row.policy},
               {"eviction", row.eviction},
               {"pool_tokens", row.pool_tokens},
               {"working_set_tokens", row.working_set},
               {"items", r.items},
               {"completed", c.calls},
               {"failed", c.failed},
               {"input_tokens", c.prompt_tokens},
               {"output_tokens", c.output_tokens},
               {"cached_tokens", c.cached_tokens},
               {"cache_hit_rate_pct", 100 * r.hit_rate()},
               {"ideal_hit_rate_pct", 100 * r.ideal_hit_rate()},
               {"duration_s", r.duration},
               {"request_throughput", r.per_second(static_cast<double>(c.calls))},
               {"input_throughput", r.per_second(static_cast<double>(c.prompt_tokens))},
               {"output_throughput", r.per_second(static_cast<double>(c.output_tokens))},
               {"wait", summary_json(r.wait)},
               {"ttft", summary_json(r.ttft)},
               {"e2e", summary_json(r.e2e)},
               {"steps", r.steps},
               {"computed_tokens", r.computed_tokens},
               {"retractions", r.retractions},
               {"retracted_tokens", r.retracted_tokens},
               {"evicted_tokens", r.evicted_tokens},
               {"tokens_per_extent", r.tokens_per_extent}};
  if (!row.fleet) return json;
  json["replicas"] = row.fleet->replicas;
  json["router"] = row.fleet->router;
  json["calls_of_replicas"] = r.calls_of;
  json["busy_seconds_of_replicas"] = r.busy_of;
  json["brought_tokens"] = c.brought_tokens;
  json["bytes"] = {{"remote_read", r.traffic.remote_read},
                   {"remote_written", r.traffic.remote_written},
                   {"streamed", r.traffic.streamed},
                   {"ranks", r.traffic.ranks}};
  return json;
}

}  // namespace espalier::bench
