// simulation.h: one workload through the real scheduler and cache with a simulated model, and what came of it.
//
// The same settings give the same report, bit for bit; host times are the only exception and stand apart.
// Units:   seconds of simulated time, tokens. Threads: one. Fails: never; calls that do not fit are counted.
#pragma once

#include <string>
#include <vector>

#include "bench/load/statistics.h"
#include "bench/sim/sim_transport.h"
#include "bench/workload/conductor.h"

namespace espalier::bench {

// A workload made ready: its token ids, and how large it is.
class SimWorkload {
 public:
  SimWorkload(Workload workload, const PromptEncoder& encoder, std::uint64_t seed);

  const Workload& workload() const { return workload_; }
  const std::vector<PromptIds>& prompts() const { return prompts_; }
  const PromptEncoder& encoder() const { return encoder_; }
  const Answers& answers() const { return answers_; }
  // Distinct tokens of all prompts and answers of the items, each once: what an unlimited cache would come to hold.
  std::int64_t working_set() const { return working_set_; }
  int longest() const { return longest_; }  // prompt and allowed output of a call

 private:
  Workload workload_;  // without the prompts that are ids already
  const PromptEncoder& encoder_;
  Answers answers_;
  std::vector<PromptIds> prompts_;
  std::int64_t working_set_ = 0;
  int longest_ = 0;
};

struct SimSettings {
  SimTransport::Settings transport;
  Pace pace;
};

struct SimReport {
  SimCounts counts;  // without its samples
  Summary wait, ttft, e2e;
  double duration = 0;
  std::int64_t steps = 0, retractions = 0, retracted_tokens = 0, evicted_tokens = 0, computed_tokens = 0;
  double tokens_per_extent = 0;  // that attention read: how fragmented the pool is
  double host_seconds = 0;       // of this process, for all of it
  std::size_t items = 0;
  FleetTraffic traffic;
  std::vector<std::int64_t> calls_of;  // of each server
  std::vector<double> busy_of;         // seconds of its steps

  double hit_rate() const;
  double ideal_hit_rate() const;
  double per_second(double amount) const { return duration > 0 ? amount / duration : 0; }
};

SimReport simulate(const SimWorkload& workload, const SimSettings& settings,
                   const std::function<bool()>& interrupted = {});

}  // namespace espalier::bench
