// drawn_rows.h: those wanted rows whose tokens the model draws itself (model/row_draw.h): without penalties and biases, and
// nobody asks for log-probabilities.
//
// What may come is known of some rows before the model computes: their tokens come with its step. The others' masks are waited
// for beside it, and these rows are drawn by a second call.
// Order: clear(); add() for each row that needs logits; for_batch(); behind the step give_mask() to rows that wait, then
// draw_rest(); outcome().
// Threads: give_mask() by any, for different rows; the rest by the engine thread. Fails: per row (Outcome::error).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/step/step.h"
#include "model/model.h"

namespace espalier {

// Rows of a step on their way to a model that draws.
class DrawnRows {
 public:
  DrawnRows(Model& model, std::span<const TokenId> end_tokens) : model_(model), end_tokens_(end_tokens) {}

  void clear(std::size_t wanted, std::size_t logit_rows);
  // The wanted row number `at`: it is drawn if it can be; else its logits are read.
  void add(std::size_t at, const WantedRow& row, int logit_row);
  const RowDraws* for_batch();

  bool has(std::size_t at) const { return states_[at] != State::read; }
  bool waits(std::size_t at) const { return states_[at] == State::waits; }
  void give_mask(std::size_t at, const WantedRow& row, const grammar::Allowed& allowed);
  void draw_rest();
  Outcome outcome(std::size_t at) const;  // Requires: has(), and a mask where it waited

 private:
  enum class State : std::uint8_t { read, now, waits, given };
  bool can_draw(const WantedRow& row) const;
  void set_mask(std::size_t at, const WantedRow& row, const grammar::Allowed* allowed);
  void gather(State state);
  void take();

  Model& model_;
  std::span<const TokenId> end_tokens_;
  std::vector<State> states_;  // [wanted rows], as the next two
  std::vector<RowDraw> wanted_;
  std::vector<DrawnToken> tokens_;
  std::vector<std::vector<std::uint32_t>> words_;  // of masks; never fewer: they keep memory
  std::vector<unsigned char> unseen_;              // [rows of logits]

  // Of one call, kept to reuse memory.
  std::vector<std::size_t> places_;
  std::vector<RowDraw> draws_;
  std::vector<DrawnToken> drawn_;
  RowDraws of_batch_;
};

}  // namespace espalier
