// metrics_text.h: counters, gauges and histograms as Prometheus text, or as OpenMetrics.
//
// Order:   (family sample+)*, text(). Samples of one family stand together, as both formats want.
// Threads: one. Fails: never; label values are escaped.
// Source:  Prometheus text exposition format 0.0.4; OpenMetrics 1.0.0.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/metrics.h"

namespace espalier::server {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// A metrics page in the making.
class MetricsText {
 public:
  enum class Format { prometheus, open_metrics };
  explicit MetricsText(Format format) : format_(format) {}

  // `name` of a counter without "_total"; the sample gets it.
  void counter(std::string_view name, std::string_view help);
  void gauge(std::string_view name, std::string_view help);
  void histogram(std::string_view name, std::string_view help);

  // Of the family begun last, the second of a histogram.
  void sample(double value, const Labels& labels);
  void samples(const Histogram& values, const Labels& labels);

  std::string text() &&;
  static std::string_view content_type(Format format);

 private:
  void family(std::string_view name, std::string_view type, std::string_view help, std::string_view suffix);
  void line(std::string_view name, const Labels& labels, double value);

  const Format format_;
  std::string out_;
  std::string sample_name_;
};

}  // namespace espalier::server
