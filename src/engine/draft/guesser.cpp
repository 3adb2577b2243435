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
    guess(*guessing[at], logits.subspan(at * vocabulary, vocabulary));
  });
  for (const Turn& turn : turns) computed(turn);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::span<float> Guesser::forward(std::span<const Turn> turns) {
  batch_.clear();
  for (const Turn& turn : turns) {
    const int row_begin = add(batch_, turn);
    if (turn.wants_guess) batch_.want_logits(row_begin + turn.rows - 1);
  }
  return model_.forward(batch_.finish(), kv_);
}

// Runs on any member of the team. A row that is not numbers gives no guess: it is the target that answers for those.
void Guesser::guess(Turn& turn, std::span<float> logits) const {
  thread_local Logprobs logprobs;
  const Sequence& s = *turn.sequence;
  const int position = s.drafting.cache.stored + turn.rows;  // of the guess
  const auto pick = choose_token(logits, s, position - s.prompt_tokens(), end_tokens_);
  if (!pick.ok()) return;
  turn.guess = pick->token;
  turn.confidence = pick->probability;
  if (s.request->sampling().greedy() && logprobs.read(logits).ok())
    turn.confidence = std::exp(logprobs.of(pick->token));
}

}  // namespace espalier
