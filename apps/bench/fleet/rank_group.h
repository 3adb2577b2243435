// rank_group.h: what a step takes when several ranks compute it together by gathers alone (model/ranks/gathers.h);
// `espalier plan` and the simulator use the same formulas.
//
// seconds = (split / ranks + 1 - split) x one rank's time + gathers x the link's delay
//           + bytes x (ranks - 1) / ranks / the link's bytes a second,
// for every rank receives the parts of all others, and all at once. `split` is the share of a step's time that is
// shared out; norms, residual sums, the head's choice and the start of a step are everyone's.
// Units:   seconds, bytes. Threads: values. Fails: never.
#pragma once

#include <optional>

#include "bench/fleet/link.h"
#include "bench/sim/step_times.h"
#include "model/ranks/gathers.h"

namespace espalier::bench {

struct RankGroup {
  static constexpr double kSplit = 0.97;  // assumed, until two ranks were measured

  int ranks = 1;
  Link link;
  GatherWork gathers;
  double split = kSplit;

  double compute_share() const { return split / ranks + 1 - split; }
  // Of a step with so many rows, of which so many want a token.
  double received_bytes(double rows, double wanted) const { return gathers.bytes(rows, wanted) * (ranks - 1) / ranks; }
  double gather_seconds(double rows, double wanted) const;
  double seconds(double alone, double rows, double wanted) const {
    return alone * compute_share() + gather_seconds(rows, wanted);
  }
  // The slowest link, in bytes a second, with which the group is `times` as fast as one rank that takes `alone` seconds;
  // none: the delays alone are too long.
  std::optional<double> least_speed(double alone, double rows, double wanted, double times = 1) const;
};

}  // namespace espalier::bench
