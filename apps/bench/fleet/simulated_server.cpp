#include "bench/fleet/simulated_server.h"

namespace espalier::bench {

void SimulatedServer::add(const Arrival& arrival, std::int64_t now) {
  const std::int64_t end_of_step = clock_.nanoseconds();
  clock_.set(now);
  core_.add(arrival);
  clock_.set(end_of_step);
}

bool SimulatedServer::step(std::int64_t now) {
  clock_.set(now);
  const bool stepped = !core_.idle() && core_.step();
  busy_ += clock_.nanoseconds() - now;
  return stepped;
}

}  // namespace espalier::bench
