// Drafts: whom the draft model is asked for, and how far.
#include <algorithm>

#include "engine/draft/drafts.h"
#include "engine/step/sequence.h"

namespace espalier {
namespace {

constexpr double kStep = 0.15, kGainStep = 0.05;  // of running means
constexpr int kLag = 32;          // rows behind that are a matter of course; more is a text to be read first
constexpr int kReadAtOnce = 256;  // rows of such a text in one step: the others' tokens wait for them

// What `guesses` guesses win that each come true with chance `a`: a token's worth each, less what each costs.
double gain_of(double a, int guesses, double worth, double price) {
  double gain = 0, chance = a;
  for (int i = 0; i < guesses && chance * worth > price; ++i, chance *= a) gain += chance * worth - price;
  return gain;
}

}  // namespace

// Whether the draft model's guesses are expected to win more than those that texts gave (in Sequence::draft).
bool Drafts::prefers_model(Sequence& s, int most, int batch) {
  DraftState& state = s.drafting;
  const int rows = model_->behind(s);
  if (rows == 0) return false;
  if (limits_.forced > 0) return true;
  if (state.model_acceptance < 0) state.model_acceptance = usual_acceptance_;
  state.model_acceptance += 0.005 * (0.9 - state.model_acceptance);  // forgives slowly, as above
  if (!model_credit_.may_try()) return false;
  const double row = cost_.row(), step = model_cost_.known() ? model_cost_.step(batch) / batch : 0;
  const double model = gain_of(state.model_acceptance, most, worth_, row + step),
               texts = gain_of(state.acceptance, static_cast<int>(s.draft.size()), worth_, row);
  return model > texts && (rows <= kLag || pays_to_catch_up(s, rows));
}

// Whether the tokens that the sequence is expected to say still are worth reading its text first; now and then, when
// there is time to lose, that is tried.
bool Drafts::pays_to_catch_up(const Sequence& s, int rows) const {
  const double price = rows * catch_up_row_;
  const double remaining = std::min<double>(s.remaining_output(), std::max<double>(usual_output_, s.generated()));
  if (s.drafting.cache.begun) return true;
  return model_credit_.may_spend(price) && (model_credit_.rested() || gain_ * remaining > price);
}

void Drafts::ask_model(std::vector<Asked> asked) {
  std::vector<Sequence*> all;
  for (const Asked& a : asked) all.push_back(a.sequence);
  for (int round = 0; round < limits_.most_steps && round_pays(asked); ++round)
    if (!take_round(asked)) break;
  for (Sequence* s : all)
    if (s->drafting.by_model && limits_.forced == 0) trim(*s);
}

// Leaves those whose next guess is worth its row; whether they are worth a step of the draft model together.
bool Drafts::round_pays(std::vector<Asked>& asked) const {
  double worth = 0;
  std::erase_if(asked, [&](const Asked& a) {
    if (a.made >= a.most) return true;
    const double gain = a.chance * a.sequence->drafting.model_acceptance * worth_ - cost_.row();
    worth += std::max(gain, 0.0);
    return limits_.forced == 0 && gain <= 0;
  });
  if (asked.empty() || limits_.forced > 0) return !asked.empty();
  return !model_cost_.known() || worth > model_cost_.step(static_cast<int>(asked.size()));
}

// One step of the draft model: the next guess of everybody that has caught up. Texts are read one in a step: another
// may turn out to be the same. False when nobody can go on.
bool Drafts::take_round(std::vector<Asked>& asked) {
  std::vector<Guesser::Turn> turns;
  int all = 0;
  bool reads = false;
  std::erase_if(asked, [&](const Asked& a) {
    const int rows = std::min(a.rows, kReadAtOnce);
    if (rows > kLag && std::exchange(reads, true)) return true;
    if (all + rows > model_->most_rows() || !model_->make_room(*a.sequence, rows)) return true;
    all += rows;
    turns.push_back({a.sequence, rows, rows == a.rows});
    return false;
  });
  if (turns.empty()) return false;
  const double seconds = model_->step(turns);
  charge_round(all, static_cast<int>(turns.size()), seconds);
  std::size_t i = 0;
  std::erase_if(asked,
                [&](Asked& a) { return !take_guess(a, turns[i++], seconds / static_cast<double>(turns.size())); });
  return !asked.empty();
}

void Drafts::charge_round(int rows, int turns, double seconds) {
  model_seconds_ += seconds;
  model_credit_.lost(seconds);
  if (rows <= 4 * turns)
    model_cost_.observe(rows, seconds);
  else
    catch_up_row_ += (catch_up_row_ > 0 ? 0.2 : 1.0) * (seconds / rows - catch_up_row_);
}

// False when the sequence has no more guesses to expect in this draft.
bool Drafts::take_guess(Asked& a, const Guesser::Turn& turn, double seconds) {
  if (turn.guess < 0) return false;
  DraftState& state = a.sequence->drafting;
  if (!std::exchange(state.by_model, true)) {  // in place of what texts gave
    a.sequence->draft.clear();
    state.confidence.clear();
    state.seconds = 0;
  }
  a.sequence->draft.push_back(turn.guess);
  state.confidence.push_back(turn.confidence);
  if (turn.rows <= kLag) state.seconds += seconds;
  a.chance *= acceptance_.of(turn.confidence, a.sequence->request->sampling().greedy());
  a.rows = 1;
  ++a.made;
  return true;
}

// Leaves out guesses that are not worth their rows, now that the draft model has said how sure it is.
void Drafts::trim(Sequence& s) {
  DraftState& state = s.drafting;
  const bool greedy = s.request->sampling().greedy();
  double chance = 1;
  std::size_t paying = 0;
  for (const double confidence : state.confidence) {
    const double odds = acceptance_.of(confidence, greedy);
    chance *= odds;
    if (chance * worth_ <= cost_.row()) {  // nobody will tell whether it was right
      state.model_acceptance += kStep * (odds - state.model_acceptance);
      break;
    }
    ++paying;
  }
  s.draft.resize(paying);
  if (paying == 0) gain_ += kGainStep * (-state.seconds - gain_);
}

void Drafts::model_verified(Sequence& s, int accepted, int rejected) {
  DraftState& state = s.drafting;
  const bool greedy = s.request->sampling().greedy();
  for (int i = 0; i < accepted; ++i) acceptance_.learn(state.confidence[static_cast<std::size_t>(i)], greedy, true);
  if (rejected > 0) acceptance_.learn(state.confidence[static_cast<std::size_t>(accepted)], greedy, false);
  usual_acceptance_ += 0.02 * (state.model_acceptance - usual_acceptance_);
  const double won = accepted * worth_ - (accepted + rejected) * cost_.row();
  gain_ += kGainStep * ((won - state.seconds) / (accepted + 1) - gain_);
}

}  // namespace espalier
