#include "engine/step/step_meter.h"

namespace espalier {
namespace {

constexpr int kTellingRows = 64;  // of a step with prompt chunks, to say how quickly prompts are computed

}  // namespace

void StepMeter::planned(const StepPlan& plan) {
  start_ = now_();
  generated_before_ = metrics_.generated_tokens.value();
  chunks_ = static_cast<int>(plan.chunks.size());
  rows_ = plan.all_rows();
  decoding_rows_ = plan.decoding_rows();
  metrics_.expected_step.set(cost_.known() ? cost_.step(rows_) : 0);
  std::uint64_t read = 0, extents = 0;
  for (const auto& [sequence, count] : plan.chunks) {
    read += static_cast<std::uint64_t>(sequence->held.length());
    extents += static_cast<std::uint64_t>(sequence->held.extents());
  }
  metrics_.computed_tokens.add(static_cast<std::uint64_t>(rows_));
  metrics_.read_tokens.add(read);
  metrics_.read_extents.add(extents);
  metrics_.batch_size.observe(chunks_);
}

void StepMeter::committed(DiskPrefixes* disk) {
  const double took = seconds_of(now_() - start_);
  if (decoding_rows_ > 0) drafts_.observe(chunks_, decoding_rows_, took);
  const double drafting = drafts_.take_seconds();
  cost_.observe(rows_, took);
  if (disk != nullptr && decoding_rows_ == 0 && rows_ >= kTellingRows) disk->computed(rows_, took);
  const std::uint64_t generated = metrics_.generated_tokens.value() - generated_before_;
  generation_.add(static_cast<double>(generated), took + drafting);
  metrics_.generation_rate.set(generation_.per_second());
  ++steps_;
  metrics_.steps.add();
  last_step_ = seconds_of(now_() - begin_);
  metrics_.step.observe(seconds_of(now_() - start_) + drafting);
  metrics_.scheduling.observe(seconds_of(now_() - begin_) - model_seconds_ - drafting);
}

}  // namespace espalier
