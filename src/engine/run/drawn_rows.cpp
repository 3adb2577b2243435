#include "engine/run/drawn_rows.h"

#include "engine/output/choose_token.h"
#include "sampling/plain_draw.h"

namespace espalier {
namespace {

int index_of(const WantedRow& row) {
  return row.position + 1 - row.sequence->prompt_tokens();
}

}  // namespace

void DrawnRows::clear(std::size_t wanted, std::size_t logit_rows) {
  states_.assign(wanted, State::read);
  wanted_.resize(wanted);
  tokens_.resize(wanted);
  if (words_.size() < wanted) words_.resize(wanted);
  unseen_.assign(logit_rows, 1);
}

bool DrawnRows::can_draw(const WantedRow& row) const {
  const RequestFields& fields = row.sequence->request->fields();
  return index_of(row) >= 0 && row.forced < 0 && !fields.pooled && !fields.logprobs.enabled &&
         can_be_drawn(row.sequence->request->sampling());
}

void DrawnRows::add(std::size_t at, const WantedRow& row, int logit_row) {
  if (!can_draw(row)) return void(unseen_[static_cast<std::size_t>(logit_row)] = 0);
  wanted_[at] = draw_at(*row.sequence, index_of(row), logit_row);
  states_[at] = State::now;
  if (row.mask == nullptr) return set_mask(at, row, nullptr);
  const auto* known = row.mask->ready() ? row.mask->wait({}) : nullptr;
  if (known != nullptr && known->ok()) return set_mask(at, row, &**known);
  states_[at] = State::waits;
}

void DrawnRows::set_mask(std::size_t at, const WantedRow& row, const grammar::Allowed* allowed) {
  wanted_[at].mask =
      mask_at(*row.sequence, index_of(row), end_tokens_, allowed, row.may_end, model_.vocabulary(), words_[at]);
}

void DrawnRows::give_mask(std::size_t at, const WantedRow& row, const grammar::Allowed& allowed) {
  set_mask(at, row, &allowed);
  states_[at] = State::given;
}

void DrawnRows::gather(State state) {
  places_.clear();
  draws_.clear();
  for (std::size_t at = 0; at < states_.size(); ++at) {
    if (states_[at] != state) continue;
    places_.push_back(at);
    draws_.push_back(wanted_[at]);
  }
  drawn_.resize(draws_.size());
}

void DrawnRows::take() {
  for (std::size_t i = 0; i < places_.size(); ++i) tokens_[places_[i]] = drawn_[i];
}

const RowDraws* DrawnRows::for_batch() {
  gather(State::now);
  of_batch_ = {draws_, drawn_, unseen_};
  return &of_batch_;
}

void DrawnRows::draw_rest() {
  take();
  gather(State::given);
  if (draws_.empty()) return;
  model_.draw(draws_, drawn_);
  take();
}

Outcome DrawnRows::outcome(std::size_t at) const {
  const DrawnToken& drawn = tokens_[at];
  Outcome outcome;
  if (drawn.fault == RowFault::none)
    outcome.token = drawn.token;
  else
    outcome.error = drawn.fault == RowFault::not_finite ? sampling::not_finite() : sampling::none_allowed();
  return outcome;
}

}  // namespace espalier
