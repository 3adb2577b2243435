// day_report.h: a simulated day of a fleet as lines of text, as JSON and as pictures.
// Units:   seconds in reports, ms in JSON keys that say so. Threads: pure functions. Fails: plot_days() as writing a file.
#pragma once

#include <string>
#include <vector>

#include "base/json/json.h"
#include "bench/fleet/day.h"

namespace espalier::bench {

struct DayRow {
  std::string router, policy;
  int replicas = 1, prompt_servers = 0, ranks = 1;
  double replica_cost = 0;  // of a server for an hour; 0: not told
  DayReport report;

  int servers() const { return replicas + prompt_servers; }
  // Of a million tokens that are answered, or asked and answered; 0: not told.
  double cost_of_output() const { return cost_of(report.day.output_tokens); }
  double cost_of_all() const { return cost_of(report.day.prompt_tokens + report.day.output_tokens); }

 private:
  double cost_of(double tokens) const;
};

std::string day_heading(const DaySettings& settings, bool of_each_server, const std::string& machine);
std::string day_lines(const DayRow& row);
Json day_json(const DayRow& row);
// Hit rate, p99 of the first token and cost over the number of servers, a line for each router.
Result<> plot_days(const std::string& path, const std::vector<DayRow>& rows, const std::string& title);

}  // namespace espalier::bench
