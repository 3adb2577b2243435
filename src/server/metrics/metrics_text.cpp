#include "server/metrics/metrics_text.h"

#include <fmt/format.h>

#include <cmath>

namespace espalier::server {
namespace {

void append_number(std::string& out, double value) {
  if (std::isnan(value))
    out += "NaN";
  else if (std::isinf(value))
    out += value > 0 ? "+Inf" : "-Inf";
  else
    fmt::format_to(std::back_inserter(out), "{}", value);
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '"' || c == '\\')
      (out += '\\') += c;
    else
      out += c;
  }
}

}  // namespace

void MetricsText::family(std::string_view name, std::string_view type, std::string_view help, std::string_view suffix) {
  sample_name_ = fmt::format("{}{}", name, suffix);
  // The family of a counter has the suffix in the older format and not in the newer.
  const std::string_view family = format_ == Format::open_metrics ? name : std::string_view(sample_name_);
  fmt::format_to(std::back_inserter(out_), "# HELP {} {}\n# TYPE {} {}\n", family, help, family, type);
}

void MetricsText::counter(std::string_view name, std::string_view help) {
  family(name, "counter", help, "_total");
}
void MetricsText::gauge(std::string_view name, std::string_view help) {
  family(name, "gauge", help, "");
}

void MetricsText::line(std::string_view name, const Labels& labels, double value) {
  out_ += name;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    fmt::format_to(std::back_inserter(out_), "{}{}=\"", i == 0 ? '{' : ',', labels[i].first);
    append_escaped(out_, labels[i].second);
    out_ += '"';
  }
  out_ += labels.empty() ? " " : "} ";
  append_number(out_, value);
  out_ += '\n';
}

void MetricsText::sample(double value, const Labels& labels) {
  line(sample_name_, labels, value);
}

void MetricsText::histogram(std::string_view name, std::string_view help) {
  family(name, "histogram", help, "");
}

void MetricsText::samples(const Histogram& values, const Labels& labels) {
  Labels with_bound = labels;
  with_bound.emplace_back("le", "");
  std::uint64_t below = 0;
  const auto bounds = values.bounds();
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    below += values.count(i);
    with_bound.back().second = i < bounds.size() ? fmt::format("{:#}", bounds[i]) : "+Inf";
    line(sample_name_ + "_bucket", with_bound, static_cast<double>(below));
  }
  line(sample_name_ + "_sum", labels, values.sum());
  line(sample_name_ + "_count", labels, static_cast<double>(below));
}

std::string MetricsText::text() && {
  if (format_ == Format::open_metrics) out_ += "# EOF\n";
  return std::move(out_);
}

std::string_view MetricsText::content_type(Format format) {
  return format == Format::open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                        : "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace espalier::server
