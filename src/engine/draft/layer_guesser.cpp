#include "engine/draft/layer_guesser.h"

#include "engine/step/sequence.h"

namespace espalier {

// The last token alone: what is stored of those before is the target's own.
int LayerGuesser::behind(Sequence& s) {
  const int before = s.known() - 1;
  if (before < 1 || s.held.length() < before) return 0;
  s.drafting.cache.begun = true;
  s.drafting.cache.stored = before;
  return 1;
}

bool LayerGuesser::make_room(Sequence& s, int rows) {
  return take_slots_(s, s.drafting.cache.stored + rows);
}

int LayerGuesser::add(RaggedBatch& batch, const Turn& turn) const {
  const Sequence& s = *turn.sequence;
  const int row = batch.add(s, s.held, s.drafting.cache.stored, turn.rows);
  batch.set_rope_length(s.rope_length);
  if (s.pictures) batch.set_axis_shift(s.pictures.of_prompt().shift);
  return row;
}

void LayerGuesser::computed(const Turn& turn) {
  turn.sequence->drafting.cache.stored += turn.rows;
}

void LayerGuesser::let_go(Sequence& s) {
  s.drafting.cache = {};
}

}  // namespace espalier
