#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/plot/chart.h"
#include "bench/serving/report.h"

namespace espalier::bench {
namespace {

std::string percent_or_dash(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f} %", 100 * *share) : "-";
}

void latency_line(std::string& out, const char* name, const Summary& s) {
  if (s.count == 0) return;
  out += fmt::format("{:<28}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}\n", name, s.mean, s.median,
                     s.deviation, s.p90, s.p95, s.p99);
  for (const auto& [percent, value] : s.asked)
    out += fmt::format("  {:<26}{:>10.2f}\n", fmt::format("p{:g}", percent), value);
}

std::string accuracy_text(const Accuracy& a) {
  return a.checked > 0 ? fmt::format("{}/{} = {:.1f} %", a.right, a.checked, 100.0 * a.right / a.checked) : "-";
}

std::string cache_lines(const Report& r) {
  std::string out;
  if (!r.cached_tokens) return "Cached tokens                not told by the server\n";
  out += fmt::format("{:<28}{:>10}   {} of the prompts\n", "Cached tokens", *r.cached_tokens,
                     percent_or_dash(r.hit_rate()));
  if (r.ideal_hit_rate)
    out += fmt::format("{:<28}{:>10}   an unlimited cache, calls one after another\n", "Ideal hit rate",
                       percent_or_dash(r.ideal_hit_rate));
  return out;
}

}  // namespace

std::string report_table(const Report& r) {
  std::string out = fmt::format("==== {}: {}, {} requests/s{} ====\n", r.backend, r.workload, rate_text(r.request_rate),
                                r.max_concurrency ? fmt::format(", at most {} at once", *r.max_concurrency) : "");
  const auto line = [&](const char* name, const std::string& value) { out += fmt::format("{:<28}{}\n", name, value); };
  if (r.programs) line("Programs", fmt::format("{:>10} of {}", r.items_ended, r.items));
  line("Calls",
       fmt::format("{:>10} ended well, {} failed{}", r.completed, r.failed, r.interrupted ? "; interrupted" : ""));
  if (!r.first_error.empty()) line("First failure", "  " + r.first_error);
  line("Duration", fmt::format("{:>10.2f} s", r.duration));
  const auto tokens = [&](const char* name, std::int64_t count) {
    line(name, fmt::format("{:>10}   {:.1f} tok/s", count, r.per_second(static_cast<double>(count))));
  };
  tokens("Input tokens", r.input_tokens);
  tokens("Output tokens", r.output_tokens);
  tokens("Both", r.input_tokens + r.output_tokens);
  out += cache_lines(r);
  line("Requests", fmt::format("{:>10.2f} requests/s", r.per_second(r.completed)));
  if (r.goodput) line("Goodput", fmt::format("{:>10.2f} requests/s within the limits", *r.goodput));
  line("Concurrency", fmt::format("{:>10.2f} mean, {} at most", r.concurrency, r.most_concurrent));
  line("Output, fullest second", fmt::format("{:>10.0f} tok/s", r.most_output_tokens_per_s));
  if (r.accept_length) line("Accept length", fmt::format("{:>10.2f} tokens a step", *r.accept_length));
  if (r.scorings > 0) line("Selects by likelihood", fmt::format("{:>10}", r.scorings));
  if (r.unmatched_selects > 0)
    line("Selects without a match", fmt::format("{:>10}   first choice taken", r.unmatched_selects));
  if (r.accuracy.checked > 0) line("Right answers", "  " + accuracy_text(r.accuracy));
  out +=
      fmt::format("{:<28}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "ms", "mean", "median", "std", "p90", "p95", "p99");
  latency_line(out, "Time to first token (TTFT)", r.ttft);
  latency_line(out, "Time per output tok. (TPOT)", r.tpot);
  latency_line(out, "Inter-token latency (ITL)", r.itl);
  latency_line(out, "End to end (E2E)", r.e2e);
  for (const std::string& note : r.notes) out += "note: " + note + "\n";
  return out;
}

std::string sweep_table(const std::vector<Report>& reports) {
  std::string out = fmt::format("{:>8}{:>9}{:>10}{:>20}{:>20}{:>20}{:>22}\n{:>8}{:>9}{:>10}{:>20}{:>20}{:>20}{:>22}\n",
                                "rate", "req/s", "tok/s", "TTFT ms", "TPOT ms", "ITL ms", "E2E ms", "", "", "out",
                                "median / p99", "median / p99", "median / p99", "median / p99");
  for (const Report& r : reports) {
    const auto both = [](const Summary& s) { return fmt::format("{:.1f} / {:.1f}", s.median, s.p99); };
    out +=
        fmt::format("{:>8}{:>9.2f}{:>10.1f}{:>20}{:>20}{:>20}{:>22}{}\n", rate_text(r.request_rate),
                    r.per_second(r.completed), r.per_second(static_cast<double>(r.output_tokens)), both(r.ttft),
                    both(r.tpot), both(r.itl), both(r.e2e), r.failed > 0 ? fmt::format("  {} failed", r.failed) : "");
  }
  return out;
}

std::string workload_table(const std::vector<Report>& reports) {
  std::size_t widest = 8;
  for (const Report& r : reports) widest = std::max(widest, r.workload.size());
  std::string out =
      fmt::format("{:<{}}{:>7}{:>7}{:>10}{:>9}{:>10}{:>9}{:>9}{:>9}{:>9}  {}\n", "workload", widest, "items", "calls",
                  "in tok", "out tok", "cached", "hit", "ideal", "wall s", "failed", "right answers");
  for (const Report& r : reports)
    out += fmt::format("{:<{}}{:>7}{:>7}{:>10}{:>9}{:>10}{:>9}{:>9}{:>9.2f}{:>9}  {}\n", r.workload, widest,
                       r.items_ended, r.completed + r.failed, r.input_tokens, r.output_tokens,
                       r.cached_tokens ? fmt::format("{}", *r.cached_tokens) : "-", percent_or_dash(r.hit_rate()),
                       percent_or_dash(r.ideal_hit_rate), r.duration, r.failed, accuracy_text(r.accuracy));
  return out;
}

}  // namespace espalier::bench
