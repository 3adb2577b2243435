#include "bench/fleet/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace espalier::bench {

Result<Link> Link::parse(const std::string& text, const std::string& flag) {
  double gigabytes = 0, microseconds = 0;
  const char* const end = text.data() + text.size();
  const auto [comma, first] = std::from_chars(text.data(), end, gigabytes);
  bool ok = first == std::errc() && comma != end && *comma == ',';
  if (ok) {
    const auto [behind, second] = std::from_chars(comma + 1, end, microseconds);
    ok = second == std::errc() && behind == end;
  }
  if (!ok || !std::isfinite(gigabytes) || !std::isfinite(microseconds) || gigabytes <= 0 || microseconds < 0)
    return bad_request(
        fmt::format("--{} {} must be gigabytes a second above 0 and microseconds, GB/s,us: for example 3.1,30", flag,
                    text),
        flag);
  return Link{1e9 * gigabytes, 1e-6 * microseconds};
}

std::string Link::text() const {
  return fmt::format("{:g},{:g}", bytes_per_second / 1e9, 1e6 * latency);
}

double SharedLink::arrival(double now, double bytes) const {
  return std::max(now, free_at_) + link_.seconds(bytes);
}

double SharedLink::send(double now, double bytes) {
  const double there = arrival(now, bytes);
  free_at_ = there - link_.latency;
  bytes_ += bytes;
  busy_ += bytes / link_.bytes_per_second;
  return there;
}

}  // namespace espalier::bench
