#include "engine/draft/guesser.h"

#include <chrono>
#include <cmath>

#include "engine/output/choose_token.h"
#include "sampling/logprobs.h"

namespace espalier {

double Guesser::step(std::span<Turn> turns) {
  const auto start = std::chrono::steady_clock::now();
  const std::span<float> logits = forward(turns);
  const auto vocabulary = static_cast<std::size_t>(model_.vocabulary());
  std::vector<Turn*> guessing;
  for (Turn& turn : turns)
    if (turn.wants_guess) guessing.push_back(&turn);
  team_.run(static_cast<int>(guessing.size()), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    if (unseen_[at] == 0) guess(*guessing[at], logits.subspan(at * vocabulary, vocabulary));
  });
  for (std::size_t i = 0; i < draws_.size(); ++i) take(*guessing[static_cast<std::size_t>(draws_[i].row)], drawn_[i]);
  for (const Turn& turn : turns) computed(turn);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::span<float> Guesser::forward(std::span<const Turn> turns) {
  batch_.clear();
  draws_.clear();
  unseen_.clear();
  for (const Turn& turn : turns) {
    const int row_begin = add(batch_, turn);
    if (turn.wants_guess) add_draw(turn, batch_.want_logits(row_begin + turn.rows - 1));
  }
  drawn_.resize(draws_.size());
  Batch batch = batch_.finish();
  const RowDraws draws{draws_, drawn_, unseen_};
  if (model_.draws()) batch.draws = &draws;
  return model_.forward(batch, kv_);
}

int Guesser::guess_index(const Turn& turn) {
  return turn.sequence->drafting.cache.stored + turn.rows - turn.sequence->prompt_tokens();
}

void Guesser::add_draw(const Turn& turn, int logit_row) {
  const Sequence& s = *turn.sequence;
  const int index = guess_index(turn);
  const bool draws = model_.draws() && can_be_drawn(s.request->sampling()) && !forbids_tokens(s, index, end_tokens_);
  unseen_.push_back(draws ? 1 : 0);
  if (draws) draws_.push_back(draw_at(s, index, logit_row));
}

void Guesser::take(Turn& turn, const DrawnToken& drawn) const {
  if (drawn.fault != RowFault::none) return;
  turn.guess = drawn.token;
  turn.confidence = turn.sequence->request->sampling().greedy() ? std::exp(-std::log(drawn.total)) : drawn.probability;
}

// Runs on any member of the team. A row that is not numbers gives no guess: it is the target that answers for those.
void Guesser::guess(Turn& turn, std::span<float> logits) const {
  thread_local Logprobs logprobs;
  const Sequence& s = *turn.sequence;
  const auto pick = choose_token(logits, s, guess_index(turn), end_tokens_);
  if (!pick.ok()) return;
  turn.guess = pick->token;
  turn.confidence = pick->probability;
  if (s.request->sampling().greedy() && logprobs.read(logits).ok())
    turn.confidence = std::exp(logprobs.of(pick->token));
}

}  // namespace espalier
