#include "bench/serving/report.h"

#include <algorithm>
#include <cmath>

#include "base/json/json_fields.h"

namespace espalier::bench {
namespace {

// Samples in milliseconds, over the calls that went well.
struct Samples {
  std::vector<double> e2e, ttft, tpot, itl;
};

double time_per_output_token(const Outcome& outcome) {
  return outcome.output_tokens > 1 ? (outcome.ended - outcome.first_token) / (outcome.output_tokens - 1) : 0;
}

Samples samples_of(const Journal& journal) {
  Samples s;
  for (const CallRecord& call : journal.calls) {
    const Outcome& o = call.outcome;
    if (!o.ok) continue;
    s.e2e.push_back(1e3 * o.latency());
    s.ttft.push_back(1e3 * o.time_to_first_token());
    if (o.output_tokens > 1) s.tpot.push_back(1e3 * time_per_output_token(o));
    for (const double gap : o.gaps) s.itl.push_back(1e3 * gap);
  }
  return s;
}

int most_at_once(const Journal& journal) {
  std::vector<std::pair<double, int>> changes;
  for (const CallRecord& call : journal.calls) {
    changes.emplace_back(call.outcome.sent, 1);
    changes.emplace_back(call.outcome.ended, -1);
  }
  std::sort(changes.begin(), changes.end());
  int now = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, now += change);
  return most;
}

// Output tokens in the fullest of the run's seconds.
double fullest_second(const Journal& journal, double began, double seconds) {
  std::vector<double> buckets(static_cast<std::size_t>(std::max(seconds, 0.0)) + 1);
  const auto count = [&](double at) {
    const double second = std::clamp(at - began, 0.0, seconds);
    buckets[static_cast<std::size_t>(second)] += 1;
  };
  for (const CallRecord& call : journal.calls) {
    if (!call.outcome.ok || call.outcome.output_tokens == 0) continue;
    double at = call.outcome.first_token;
    count(at);
    for (const double gap : call.outcome.gaps) count(at += gap);
  }
  return *std::max_element(buckets.begin(), buckets.end());
}

void count_calls(const Journal& journal, const Tokenizer* tokenizer, Report& r) {
  double busy = 0;
  for (const CallRecord& call : journal.calls) {
    const Outcome& o = call.outcome;
    if (!o.ok) {
      if (r.failed++ == 0) r.first_error = o.error;
      continue;
    }
    ++r.completed;
    busy += o.latency();
    r.input_tokens += call.prompt_tokens();
    r.output_tokens += o.output_tokens;
    if (tokenizer)
      if (const auto ids = tokenizer->encode(o.text, {.add_special = false}); ids.ok())
        r.retokenized_output_tokens += static_cast<std::int64_t>(ids->size());
    if (!o.cached_tokens) continue;
    r.cached_tokens = r.cached_tokens.value_or(0) + *o.cached_tokens;
    r.cached_of_tokens += call.prompt_tokens();
  }
  if (!tokenizer) r.retokenized_output_tokens = r.output_tokens;
  r.concurrency = r.per_second(busy);
}

std::optional<double> within_limits(const Journal& journal, const LoadOptions& options, const Report& r) {
  if (options.goodput_limits.empty()) return std::nullopt;
  const auto limit = [&](const char* name) {
    const auto found = options.goodput_limits.find(name);
    return found == options.goodput_limits.end() ? std::numeric_limits<double>::infinity() : found->second / 1e3;
  };
  int good = 0;
  for (const CallRecord& call : journal.calls) {
    const Outcome& o = call.outcome;
    good += o.ok && o.time_to_first_token() <= limit("ttft") && time_per_output_token(o) <= limit("tpot") &&
            o.latency() <= limit("e2el");
  }
  return r.per_second(good);
}

std::optional<double> accept_length(const Json& info) {
  const Json* states = find_field(info, "internal_states");
  if (!states || !states->is_array() || states->empty()) return std::nullopt;
  for (const char* name : {"avg_spec_accept_length", "spec_accept_length"})
    if (const Json* length = find_field((*states)[0], name); length && length->is_number())
      return length->get<double>();
  return std::nullopt;
}

}  // namespace

std::optional<double> Report::hit_rate() const {
  if (!cached_tokens || cached_of_tokens == 0) return std::nullopt;
  return static_cast<double>(*cached_tokens) / static_cast<double>(cached_of_tokens);
}

Report make_report(const Workload& workload, const RunResult& run, const Target& target, const LoadOptions& options,
                   double rate) {
  Report r;
  r.backend = target.server.backend->name;
  r.model = target.model;
  r.dataset = options.dataset.name;
  r.workload = workload.name;
  r.programs = workload.programs;
  r.request_rate = rate;
  r.max_concurrency = options.max_concurrency;
  r.duration = run.seconds();
  r.items = static_cast<int>(workload.items.size());
  r.items_ended = static_cast<int>(run.ended);
  r.interrupted = run.interrupted;
  count_calls(run.journal, options.dataset.tokenizer.get(), r);
  const Samples s = samples_of(run.journal);
  r.e2e = summarise(s.e2e, options.percentiles);
  r.ttft = summarise(s.ttft, options.percentiles);
  r.tpot = summarise(s.tpot, options.percentiles);
  r.itl = summarise(s.itl, options.percentiles);
  r.most_concurrent = most_at_once(run.journal);
  r.most_output_tokens_per_s = fullest_second(run.journal, run.began, run.seconds());
  r.scorings = run.journal.scorings;
  r.unmatched_selects = run.journal.unmatched_selects;
  r.accuracy = accuracy_of(workload, run);
  r.accept_length = accept_length(target.info);
  r.goodput = within_limits(run.journal, options, r);
  if (options.report_ideal) r.ideal_hit_rate = ideal_hit_rate(run.journal);
  return r;
}

std::vector<Figure> figures_of(const Report& r) {
  std::vector<Figure> figures = {
      {"output throughput", "tok/s", r.per_second(static_cast<double>(r.output_tokens)), true},
      {"input throughput", "tok/s", r.per_second(static_cast<double>(r.input_tokens)), true},
      {"total throughput", "tok/s", r.per_second(static_cast<double>(r.input_tokens + r.output_tokens)), true},
      {"request throughput", "req/s", r.per_second(r.completed), true},
      {"duration", "s", r.duration, false},
  };
  const auto add = [&](const char* name, const Summary& s) {
    if (s.count == 0) return;
    figures.push_back({std::string(name) + " median", "ms", s.median, false});
    figures.push_back({std::string(name) + " p99", "ms", s.p99, false});
  };
  add("TTFT", r.ttft);
  add("TPOT", r.tpot);
  add("ITL", r.itl);
  add("E2E", r.e2e);
  return figures;
}

}  // namespace espalier::bench
