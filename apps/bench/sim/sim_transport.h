// sim_transport.h: calls of a workload to simulated servers: one, or a fleet behind a router (bench/fleet/fleet.h).
//
// A call that is sent while a step is under way waits for its end, as it would in a server. Selects are generated.
// Routers that look at clients see items.
// Units:   seconds on the simulated clock.
// Threads: one.
// Fails:   calls that the engine refuses (a prompt larger than the pool) have a failed Outcome.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/fleet/fleet.h"
#include "bench/load/transport.h"
#include "bench/sim/ideal_cache.h"
#include "bench/workload/workload.h"

namespace espalier::bench {

struct SimCounts {
  std::int64_t calls = 0, failed = 0;
  std::int64_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0, ideal_tokens = 0;
  std::int64_t brought_tokens = 0;  // of cached ones, those that came over a link
  int longest = 0;                  // prompt and allowed output of a call
  std::string first_error;
  std::vector<double> waits, first_tokens, ends;  // seconds, of each call
};

// A call whose end was reported, for those who compare runs.
struct SimCall {
  std::size_t item = 0, number = 0;
  int prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
};

class SimTransport final : public Transport {
 public:
  struct Settings {
    Fleet::Settings fleet;
    std::uint64_t seed = 42;
    int tenants = 0;  // items are dealt to so many; 0: none is named
    std::size_t kept_rounds = 3;
    std::function<void(const SimCall&)> on_call;
  };

  // `prompts`: of each of the workload's items that is one request; programs bring their texts with each call.
  SimTransport(const Workload& workload, const std::vector<PromptIds>& prompts, const PromptEncoder& encoder,
               const Answers& answers, Settings settings);

  void send(const Call& call, Done done) override;
  void score(const std::string& prompt, int prompt_tokens, const std::vector<std::string>& choices,
             Scored done) override;
  bool scores_choices() const override { return false; }
  void run(double until) override;
  double now() const override { return 1e-9 * static_cast<double>(fleet_.now()); }

  const SimCounts& counts() const { return counts_; }
  const Fleet& fleet() const { return fleet_; }
  std::int64_t working_set() const { return ideal_.distinct_tokens(); }

 private:
  struct Pending {
    Done done;
    SimCall call;
    bool of_program = false;
    double sent = 0;
    std::shared_ptr<const PlannedRequest> request;
  };

  PromptIds prompt_of(const Call& call, std::uint64_t round) const;
  int answer_length(const Call& call) const;
  Result<Request> request_of(const Call& call, std::vector<TokenId> ids, std::uint64_t seed) const;
  void keep_answer(const PlannedRequest& request, const Call& call, std::uint64_t round);
  void deliver_refused();
  void finish(const FleetEnd& end);

  const Workload& workload_;
  const std::vector<PromptIds>& prompts_;
  const PromptEncoder& encoder_;
  const Answers& answers_;
  const Settings settings_;

  Fleet fleet_;
  IdealCache ideal_;
  SimCounts counts_;

  std::size_t last_call_ = 0;
  boost::unordered_flat_map<std::size_t, std::unique_ptr<Pending>> pending_;
  std::vector<std::pair<Done, Outcome>> refused_;
};

}  // namespace espalier::bench
