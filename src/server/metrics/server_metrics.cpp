#include "server/metrics/server_metrics.h"

namespace espalier::server {

void ServerMetrics::answered(std::string_view endpoint, std::string_view finish_reason, int code,
                             std::string_view model) {
  RequestLabels labels{std::string(model), std::string(endpoint), std::string(finish_reason), code};
  const std::scoped_lock lock(mutex_);
  ++requests_[std::move(labels)];
}

void ServerMetrics::refused(std::string_view reason) {
  const std::scoped_lock lock(mutex_);
  ++refusals_[std::string(reason)];
}

std::map<RequestLabels, std::uint64_t> ServerMetrics::requests() const {
  const std::scoped_lock lock(mutex_);
  return requests_;
}

std::map<std::string, std::uint64_t> ServerMetrics::refusals() const {
  const std::scoped_lock lock(mutex_);
  return refusals_;
}

}  // namespace espalier::server
