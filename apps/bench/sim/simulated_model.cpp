#include "bench/sim/simulated_model.h"

#include <cmath>

namespace espalier::bench {

std::vector<espalier::Outcome> SimulatedModel::run(const StepPlan& plan) {
  clock_.set(clock_.nanoseconds() + std::llround(1e9 * StepWork::of(plan).seconds(times_)));
  std::vector<espalier::Outcome> outcomes(plan.rows.size());
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Sequence& s = *plan.rows[i].sequence;
    outcomes[i].token = next_token(s);
    const auto& planned = static_cast<const PlannedRequest&>(*s.request);
    if (s.generated() + 1 >= planned.answer_length) ended_.push_back(planned.call);
  }
  return outcomes;
}

TokenId SimulatedModel::next_token(const Sequence& s) const {
  const auto& planned = static_cast<const PlannedRequest&>(*s.request);
  const int position = s.generated();
  if (position + 1 >= planned.answer_length && planned.answer_length < planned.max_new_tokens())
    return PromptEncoder::end_token;
  return PromptEncoder::in_round(answers_.token(planned.seed_of(s.choice), position), planned.answer_round);
}

}  // namespace espalier::bench
