// plots.h: reports as one SVG drawing, or as a page that holds it and the figures as a table. Nothing is loaded from
// elsewhere; colours follow the reader's light or dark setting.
// Threads: pure functions but for the file.
// Fails:   bad_request for a name that ends in neither .svg nor .html; bad_file when it cannot be written.
#pragma once

#include <string>
#include <vector>

#include "bench/compare/comparison.h"
#include "bench/serving/report.h"

namespace espalier::bench {

Result<> check_plot_path(const std::string& path);

struct NamedReports {
  std::string name;
  std::vector<Report> reports;  // of one server, by rate
};

// Latency against rate.
Result<> plot_sweep(const std::string& path, const std::vector<NamedReports>& servers);
// Ratios, and latency against rate where there are several.
Result<> plot_comparison(const std::string& path, const Comparison& comparison);

}  // namespace espalier::bench
