#include "engine/draft/draft_model.h"

#include "engine/step/sequence.h"

namespace espalier {

DraftModel::DraftModel(Model& model, KvView kv, ComputeTeam& team, DraftModelOptions options)
    : Guesser(model, kv, team, options.end_tokens),
      options_(std::move(options)),
      allocator_(options_.slots),
      tree_(allocator_) {}

int DraftModel::behind(Sequence& s) {
  DraftCache& cache = s.drafting.cache;
  if (s.known() >= options_.context || s.known() == 0) return 0;
  if (!cache.begun) begin(s);
  settle(s);
  return s.known() - cache.stored;
}

// On what the tree has of it by now; others may have read the same text since it was last asked.
void DraftModel::begin(Sequence& s) {
  if (!options_.keep_prefixes) return;
  DraftCache& cache = s.drafting.cache;
  Match match = tree_.match(s.key(), {.length = s.known() - 1});
  cache.stored = match.length;
  cache.held.begin(std::move(match.pin), std::move(match.extents));
}

// Positions behind the first guess that is not what was said are given back, and so is the last token's: its logits are
// wanted.
void DraftModel::settle(Sequence& s) {
  DraftCache& cache = s.drafting.cache;
  int valid = cache.stored - static_cast<int>(cache.guessed.size());
  for (const TokenId guessed : cache.guessed) {
    if (valid >= s.known() || s.tokens[static_cast<std::size_t>(valid)] != guessed) break;
    ++valid;
  }
  valid = std::min(valid, s.known() - 1);
  cache.guessed.clear();
  cache.stored = valid;
  cache.held.keep_first(valid);
}

bool DraftModel::make_room(Sequence& s, int rows) {
  DraftCache& cache = s.drafting.cache;
  cache.begun = true;
  const int wanted = cache.stored + rows - cache.held.length();
  if (wanted <= 0 || cache.held.grow(allocator_, wanted)) return true;
  tree_.evict(wanted - allocator_.free_slots());
  return cache.held.grow(allocator_, wanted);
}

int DraftModel::add(RaggedBatch& batch, const Turn& turn) const {
  const DraftCache& cache = turn.sequence->drafting.cache;
  return batch.add(*turn.sequence, cache.held, cache.stored, turn.rows);
}

void DraftModel::computed(const Turn& turn) {
  constexpr int kText = 32;  // rows that others may well have in common with it
  DraftCache& cache = turn.sequence->drafting.cache;
  for (int i = 0; i < turn.rows; ++i, ++cache.stored)
    if (cache.stored >= turn.sequence->known()) cache.guessed.push_back(turn.sequence->token_at(cache.stored));
  if (turn.rows >= kText) cache.held.give_to(tree_, turn.sequence->tokens, cache.stored);
}

void DraftModel::let_go(Sequence& s) {
  settle(s);
  DraftCache& cache = s.drafting.cache;
  cache.held.give_to(tree_, s.tokens, cache.stored);
  cache = {};
}

Result<> DraftModel::check(int owned) const {
  ESP_CHECK(allocator_.check());
  ESP_CHECK(tree_.check());
  if (tree_.held_tokens() + owned == allocator_.used_slots()) return success();
  return internal_error("the draft model's tree and sequences hold " + std::to_string(tree_.held_tokens() + owned) +
                        " slots, but " + std::to_string(allocator_.used_slots()) + " are in use");
}

}  // namespace espalier
