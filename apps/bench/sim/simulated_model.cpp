#include "bench/sim/simulated_model.h"

#include <algorithm>
#include <cmath>

namespace espalier::bench {
namespace {

TokenId next_token(const Sequence& s, const PlannedRequest& planned) {
  const int position = s.generated();
  if (position + 1 >= planned.answer_length && planned.answer_length < planned.max_new_tokens())
    return PromptEncoder::end_token;
  return planned.answer(s.choice, position);
}

}  // namespace

void StepShares::add(const StepShares& other) {
  base += other.base;
  prompts += other.prompts;
  decoding += other.decoding;
  attention += other.attention;
  gathers += other.gathers;
  gathered_bytes += other.gathered_bytes;
  steps += other.steps;
}

StepShares SimulatedModel::shares_of(const StepPlan& plan) const {
  const StepWork work = StepWork::of(plan);
  const double rows = work.prompt_rows + work.decode_rows, wanted = static_cast<double>(plan.rows.size());
  const double share = ranks_.compute_share();
  return {share * times_.base,
          share * work.prompt_rows * times_.prefill,
          share * work.decode_rows * times_.decode,
          share * work.attention_seconds(times_),
          ranks_.gather_seconds(rows, wanted),
          ranks_.received_bytes(rows, wanted),
          1};
}

double SimulatedModel::least_seconds(bool going_on) const {
  const StepWork work = going_on ? decoding_ : StepWork();
  const double share = ranks_.compute_share();
  return share * work.seconds(times_) + ranks_.gather_seconds(work.decode_rows, work.decode_rows);
}

std::vector<espalier::Outcome> SimulatedModel::run(const StepPlan& plan) {
  const StepShares shares = shares_of(plan);
  const double seconds = ranks_.ranks == 1 ? StepWork::of(plan).seconds(times_) : shares.seconds();
  clock_.set(clock_.nanoseconds() + std::llround(1e9 * seconds));
  const std::int64_t now = clock_.nanoseconds();
  const bool watched = now >= watch_.from && now < watch_.until;
  if (watched) watch_.shares.add(shares);
  std::vector<espalier::Outcome> outcomes(plan.rows.size());
  decoding_ = {};
  std::int64_t gap = 0;  // between tokens, of the last `gaps` rows: mostly the same of all that decode
  int gaps = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Sequence& s = *plan.rows[i].sequence;
    const auto& planned = static_cast<const PlannedRequest&>(*s.request);
    outcomes[i].token = next_token(s, planned);
    planned.said = std::max(planned.said, s.generated() + 1);
    if (s.generated() + 1 >= planned.answer_length) ended_.push_back(planned.call);
    if (plan.rows[i].computed_by == &s) {
      decoding_.decode_rows += 1;
      decoding_.decode_pairs += s.known();
    }
    if (s.choice > 0) continue;
    const std::int64_t before = std::exchange(planned.last_token, now);
    if (!watched || before == 0) continue;
    if (now - before != gap) add_gaps(std::exchange(gap, now - before), std::exchange(gaps, 0));
    ++gaps;
  }
  add_gaps(gap, gaps);
  decoding_.pairs = decoding_.decode_pairs;
  return outcomes;
}

void SimulatedModel::add_gaps(std::int64_t nanoseconds, int count) {
  if (count > 0) watch_.gaps.add(1e-9 * static_cast<double>(nanoseconds), count);
}

}  // namespace espalier::bench
