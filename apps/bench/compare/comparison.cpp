#include "bench/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace espalier::bench {
namespace {

const Figure* find(const std::vector<Figure>& figures, const std::string& name) {
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

std::vector<const Repetition*> counted(const ComparedCase& compared, std::size_t server, double limit) {
  std::vector<const Repetition*> all, quiet;
  for (const Repetition& repetition : compared.repetitions) {
    if (repetition.visits.size() <= server) continue;
    all.push_back(&repetition);
    if (!repetition.noisy(limit)) quiet.push_back(&repetition);
  }
  return quiet.empty() ? all : quiet;
}

std::string rate_text(double rate) {
  return std::isinf(rate) ? "inf" : fmt::format("{:g}", rate);
}

Json conditions_json(const Conditions& c) {
  return {{"seconds", c.seconds},
          {"server_cpu_s", c.server_seconds},
          {"server_cpu_share", c.server_share},
          {"load_generator_cpu_share", c.own_share},
          {"strangers_cpu_share", c.strangers_share ? Json(*c.strangers_share) : Json()},
          {"steal_s", c.steal_seconds}};
}

Json visit_json(const Visit& visit) {
  Json json = Json::object();
  for (const Figure& figure : figures_of(visit.report)) json[figure.name] = figure.value;
  json["completed"] = visit.report.completed;
  json["failed"] = visit.report.failed;
  json["input_tokens"] = visit.report.input_tokens;
  json["output_tokens"] = visit.report.output_tokens;
  if (visit.report.cached_tokens) json["cached_tokens"] = *visit.report.cached_tokens;
  if (const auto hit = visit.report.hit_rate()) json["cache_hit_rate_pct"] = 100 * *hit;
  if (visit.report.accuracy.checked > 0)
    json["accuracy"] = static_cast<double>(visit.report.accuracy.right) / visit.report.accuracy.checked;
  if (visit.cold_start_s > 0) json["cold_start_s"] = visit.cold_start_s;
  if (!visit.report.first_error.empty()) json["first_error"] = visit.report.first_error;
  if (!visit.report.notes.empty()) json["notes"] = visit.report.notes;
  json["conditions"] = conditions_json(visit.conditions);
  return json;
}

Json case_json(const Comparison& comparison, const ComparedCase& compared) {
  Json json = {{"name", compared.name},
               {"request_rate", std::isinf(compared.rate) ? Json("inf") : Json(compared.rate)}};
  Json repetitions = Json::array();
  for (const Repetition& repetition : compared.repetitions) {
    Json one = {{"noisy", repetition.noisy(comparison.strangers_limit)}};
    for (std::size_t i = 0; i < repetition.visits.size(); ++i)
      one["servers"][comparison.servers[i].name] = visit_json(repetition.visits[i]);
    repetitions.push_back(std::move(one));
  }
  for (std::size_t i = 1; i < comparison.servers.size(); ++i) {
    Json& ratios = json["ratios"][comparison.servers[i].name + "/" + comparison.servers[0].name];
    for (const Ratio& r : ratios_of(compared, i, comparison.strangers_limit))
      ratios[r.figure] = {{"min", r.least}, {"median", r.median}, {"max", r.most}, {"repetitions", r.repetitions}};
  }
  json["repetitions"] = std::move(repetitions);
  return json;
}

// "1.83x faster" would hide which way a figure counts: the sign says it.
std::string verdict(const Ratio& r) {
  const bool better = r.more_is_better ? r.least > 1 : r.most < 1;
  const bool worse = r.more_is_better ? r.most < 1 : r.least > 1;
  return better ? "better" : worse ? "worse" : "";
}

}  // namespace

std::vector<Figure> figures_of(const Visit& visit) {
  std::vector<Figure> figures = figures_of(visit.report);
  if (visit.conditions.server_seconds > 0)
    figures.push_back({"server CPU", "s", visit.conditions.server_seconds, false});
  return figures;
}

bool Repetition::noisy(double strangers_limit) const {
  return std::any_of(visits.begin(), visits.end(), [&](const Visit& visit) {
    return visit.conditions.strangers_share.value_or(0) > strangers_limit;
  });
}

std::vector<Ratio> ratios_of(const ComparedCase& compared, std::size_t server, double strangers_limit) {
  std::vector<Ratio> ratios;
  const auto repetitions = counted(compared, server, strangers_limit);
  if (repetitions.empty()) return ratios;
  for (const Figure& named : figures_of(repetitions.front()->visits[0])) {
    std::vector<double> values, bases, own;
    for (const Repetition* repetition : repetitions) {
      const auto base = figures_of(repetition->visits[0]), other = figures_of(repetition->visits[server]);
      const Figure *b = find(base, named.name), *o = find(other, named.name);
      if (!b || !o || !(b->value > 0)) continue;
      values.push_back(o->value / b->value);
      bases.push_back(b->value);
      own.push_back(o->value);
    }
    if (values.empty()) continue;
    const Summary s = summarise(values);
    ratios.push_back({named.name, named.unit, named.more_is_better, s.least, s.median, s.most, s.count,
                      summarise(bases).median, summarise(own).median});
  }
  return ratios;
}

Json comparison_json(const Comparison& comparison) {
  Json servers = Json::array(), cases = Json::array();
  for (const ComparedServer& server : comparison.servers) {
    Json json = {{"name", server.name}, {"backend", server.backend}, {"model", server.model}};
    if (!server.command.empty()) json["command"] = server.command;
    if (server.peak_resident_bytes > 0) json["peak_rss_mib"] = server.peak_resident_bytes >> 20;
    if (!server.cold_starts_s.empty()) json["cold_start_s"] = server.cold_starts_s;
    servers.push_back(std::move(json));
  }
  for (const ComparedCase& compared : comparison.cases) cases.push_back(case_json(comparison, compared));
  Json json = {
      {"servers", std::move(servers)}, {"strangers_limit", comparison.strangers_limit}, {"cases", std::move(cases)}};
  if (comparison.interrupted) json["interrupted"] = true;
  return json;
}

std::string visit_line(const ComparedCase& compared, std::size_t repetition, const ComparedServer& server,
                       const Visit& visit, double strangers_limit) {
  const Report& r = visit.report;
  const auto strangers = visit.conditions.strangers_share;
  std::string line =
      fmt::format("{} rate {} #{} {:<12} {:>8.1f} tok/s out, TTFT {:.0f} ms, E2E {:.0f} ms, {:.1f} s", compared.name,
                  rate_text(compared.rate), repetition + 1, server.name,
                  r.per_second(static_cast<double>(r.output_tokens)), r.ttft.median, r.e2e.median, r.duration);
  if (const auto hit = r.hit_rate()) line += fmt::format(", {:.0f} % cached", 100 * *hit);
  if (r.failed > 0) line += fmt::format(", {} FAILED ({})", r.failed, r.first_error);
  if (visit.cold_start_s > 0) line += fmt::format(", cold start {:.2f} s", visit.cold_start_s);
  if (strangers)
    line += fmt::format(", strangers {:.0f} %{}", 100 * *strangers, *strangers > strangers_limit ? " NOISY" : "");
  return line + "\n";
}

std::string comparison_table(const Comparison& comparison) {
  std::string out;
  const std::string& first = comparison.servers.front().name;
  for (const ComparedServer& s : comparison.servers) {
    out += fmt::format("{}: {} {}", s.name, s.backend, s.model);
    if (s.peak_resident_bytes > 0) out += fmt::format(", peak memory {} MiB", s.peak_resident_bytes >> 20);
    if (!s.cold_starts_s.empty()) {
      const Summary cold = summarise(s.cold_starts_s);
      out += fmt::format(", cold start {:.2f} s ({:.2f}..{:.2f})", cold.median, cold.least, cold.most);
    }
    out += '\n';
  }
  for (const ComparedCase& compared : comparison.cases)
    for (std::size_t i = 1; i < comparison.servers.size(); ++i) {
      const auto ratios = ratios_of(compared, i, comparison.strangers_limit);
      if (ratios.empty()) continue;
      const auto noisy = std::count_if(compared.repetitions.begin(), compared.repetitions.end(),
                                       [&](const Repetition& r) { return r.noisy(comparison.strangers_limit); });
      out += fmt::format("\n{}, rate {}: {} / {}, {} repetitions, {} with strangers above {:.0f} %{}\n", compared.name,
                         rate_text(compared.rate), comparison.servers[i].name, first, compared.repetitions.size(),
                         noisy, 100 * comparison.strangers_limit,
                         noisy > 0 && ratios[0].repetitions < compared.repetitions.size() ? ", left out" : "");
      out += fmt::format("{:<20}{:>12}{:>12}{:>9}{:>9}{:>9}\n", "", first.substr(0, 11),
                         comparison.servers[i].name.substr(0, 11), "min", "median", "max");
      for (const Ratio& r : ratios)
        out += fmt::format("{:<20}{:>12.2f}{:>12.2f}{:>9.3f}{:>9.3f}{:>9.3f}  {}\n", r.figure + " " + r.unit, r.base,
                           r.value, r.least, r.median, r.most, verdict(r));
    }
  return out;
}

}  // namespace espalier::bench
