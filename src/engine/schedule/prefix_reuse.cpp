#include "engine/schedule/prefix_reuse.h"

#include <algorithm>
#include <utility>

namespace espalier {

void PrefixReuse::name_scope(Sequence& s) const {
  s.rope_length = options_.rope_lengths.of(s.known());
  s.scope = options_.rope_lengths.scope(s.request->scope(), s.rope_length);
}

Match PrefixReuse::find(const Sequence& s) {
  return memory_.shares_prefixes() ? memory_.tree().match(s.key(), {.length = s.match_limit()}) : Match{};
}

void PrefixReuse::begin(Sequence& s, Match match) {
  s.computed = match.length;
  s.rows.clear();
  s.read_again = 0;
  s.extents_left = 0;
  memory_.states().begin(s, match);
  if (memory_.remote() != nullptr) memory_.remote()->used_again(s.key(), match.length);
  if (s.pictures && towers_ != nullptr) s.pictures.begin(*towers_, s.computed);
  s.held.begin(std::move(match.pin), std::move(match.extents));
  const int from_disk = memory_.disk() != nullptr ? memory_.disk()->forget(s.arrival) : 0;
  if (!std::exchange(s.was_admitted, true)) note_first_admission(s, match, from_disk);
}

void PrefixReuse::note_first_admission(Sequence& s, const Match& match, int from_disk) {
  s.channel->note_begun();
  s.admitted = now_();
  s.cached_tokens = std::min(match.length, s.prompt_tokens() - 1);
  s.disk_tokens = std::min(from_disk, s.cached_tokens);
  s.cache_end = why_it_ended(s, match);
  output_.jump_at_start(s);
  metrics_.queue.observe(seconds_of(s.admitted - s.submitted));
  metrics_.queried_tokens.add(static_cast<std::uint64_t>(s.prompt_tokens()));
  metrics_.cached_tokens.add(static_cast<std::uint64_t>(s.cached_tokens));
  metrics_.disk_hit_tokens.add(static_cast<std::uint64_t>(s.disk_tokens));
  if (!s.pictures) return;
  const PromptPictures& pictures = s.pictures.of_prompt();
  s.image_tokens = pictures.image_tokens_before(s.prompt_tokens());
  s.cached_image_tokens = pictures.image_tokens_before(s.cached_tokens);
  metrics_.pictures.pictures.add(pictures.list.size());
  metrics_.pictures.image_tokens.add(static_cast<std::uint64_t>(s.image_tokens));
  metrics_.pictures.cached_image_tokens.add(static_cast<std::uint64_t>(s.cached_image_tokens));
}

void PrefixReuse::read_anew_if_longer(Sequence& s) {
  if (options_.rope_lengths.of(s.known()) == s.rope_length) return;
  release(s);
  s.computed = 0;
  s.drafting.peeked = {};
  name_scope(s);
  begin(s, find(s));
}

void PrefixReuse::release(Sequence& s) {
  s.held.give_to(memory_.tree(), s.tokens, s.computed, s.pictures.whole());
  if (memory_.remote() != nullptr && s.held.in_tree()) memory_.remote()->computed(s.key(), s.computed);
  memory_.states().release(s);
  s.pictures.let_go();
  s.held.reset();
  drafts_.let_go(s);
}

// "salt": without its own name space the request would have found more. That is told of the common one only, whose
// contents anybody can ask about by leaving the salt out.
const char* PrefixReuse::why_it_ended(const Sequence& s, const Match& match) const {
  if (!memory_.shares_prefixes()) return "disabled";
  const bool all = match.end == MatchEnd::whole_key || match.end == MatchEnd::limit;
  const auto in_common = [&] {
    const std::string scope = options_.rope_lengths.scope({}, s.rope_length);
    const CacheKey key{scope, s.tokens, s.pictures.whole()};
    return memory_.tree().peek(key, {.length = s.match_limit()}).length;
  };
  if (!all && !s.request->scope().empty() && in_common() > match.length) return "salt";
  return name(match.end).data();
}

}  // namespace espalier
