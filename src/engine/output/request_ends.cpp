#include "engine/output/request_ends.h"

namespace espalier {

FinishEvent RequestEnds::of(const Sequence& s, FinishReason reason) {
  FinishEvent event;
  event.choice = s.choice;
  event.reason = reason;
  event.usage = {.prompt_tokens = s.prompt_tokens(),
                 .cached_tokens = s.cached_tokens,
                 .completion_tokens = s.generated(),
                 .retractions = s.retractions,
                 .disk_tokens = s.disk_tokens,
                 .draft_steps = s.draft_steps,
                 .drafted_tokens = s.drafted,
                 .accepted_tokens = s.accepted,
                 .forced_tokens = s.forced_tokens,
                 .passes_saved = s.passes_saved,
                 .closed = s.closed,
                 .left_open = s.left_open,
                 .image_tokens = s.image_tokens,
                 .cached_image_tokens = s.cached_image_tokens,
                 .pictures_computed = s.pictures.computes(),
                 .cache_end = s.cache_end};
  const auto now = now_();
  event.timing.queued = seconds_of((s.was_admitted ? s.admitted : now) - s.submitted);
  event.timing.first_token =
      s.first_token == Sequence::Clock::time_point{} ? 0.0 : seconds_of(s.first_token - s.submitted);
  event.timing.finished = seconds_of(now - s.submitted);
  count(s, reason);
  return event;
}

FinishEvent RequestEnds::of(const Sequence& s, FinishReason reason, const Error& error) {
  FinishEvent event = of(s, reason);
  event.error = error;
  return event;
}

void RequestEnds::count(const Sequence& s, FinishReason reason) {
  (reason == FinishReason::stop     ? metrics_.finished_stop
   : reason == FinishReason::length ? metrics_.finished_length
   : reason == FinishReason::abort  ? metrics_.finished_abort
                                    : metrics_.finished_error)
      .add();
  metrics_.duration.observe(seconds_of(now_() - s.submitted));
  metrics_.request_generated_tokens.observe(s.generated());
  if (s.generated() > 0) metrics_.decode.observe(seconds_of(s.last_token - s.first_token));
}

}  // namespace espalier
