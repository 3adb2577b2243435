#include "bench/fleet/rank_group.h"

namespace espalier::bench {

double RankGroup::gather_seconds(double rows, double wanted) const {
  if (ranks == 1) return 0;
  return gathers.gathers * link.latency + received_bytes(rows, wanted) / link.bytes_per_second;
}

std::optional<double> RankGroup::least_speed(double alone, double rows, double wanted, double times) const {
  const double left = alone / times - alone * compute_share() - gathers.gathers * link.latency;
  if (ranks == 1 || left <= 0) return std::nullopt;
  return received_bytes(rows, wanted) / left;
}

}  // namespace espalier::bench
