// guesser.h: who guesses tokens for sequences, many in one batch: a small model (draft_model.h), or a layer that the model
// brings along (layer_guesser.h).
//
// It chooses by the sequence's own parameters and noise, which the target's choice is made with as well: the closer the
// two, the more often both choose the same. Which guesses are made, and how many, is for drafts.h.
// Units: positions and rows in tokens.
// Threads: the engine thread. Fails: make_room() says that there is no room. Order: it outlives every sequence it has
// followed.
#pragma once

#include <span>
#include <vector>

#include "base/threads/compute_team.h"
#include "engine/memory/held_tokens.h"
#include "engine/run/ragged_batch.h"
#include "model/model.h"

namespace espalier {

struct Sequence;

// What a guesser has of a sequence; part of it.
struct DraftCache {
  bool begun = false;            // rows were computed for it
  HeldTokens held;               // in a draft model's pool
  int stored = 0;                // leading positions whose keys and values are there
  std::vector<TokenId> guessed;  // the tokens at the last of those positions, which were guesses
};

// Follows sequences and guesses their next tokens.
class Guesser {
 public:
  virtual ~Guesser() = default;

  // How many rows are to be computed before it can guess what follows the sequence's last token, at least 1. Guesses
  // that were not said are forgotten. 0: it cannot follow.
  virtual int behind(Sequence& sequence) = 0;
  virtual bool make_room(Sequence& sequence, int rows) = 0;

  struct Turn {
    Sequence* sequence;
    int rows;               // the next ones, of known tokens or of guesses in Sequence::draft
    bool wants_guess;       // of what follows the last of them
    TokenId guess = -1;     // -1: none could be made
    double confidence = 0;  // the probability that it was given
  };
  // One batch. Requires: room was made for the rows; together at most most_rows(). Seconds it took.
  double step(std::span<Turn> turns);
  int most_rows() const { return model_.max_rows(); }

  virtual void let_go(Sequence& sequence) = 0;  // it stops running
  virtual void clear() = 0;                     // forgets all texts
  virtual Result<> check(int owned_by_sequences) const = 0;

 protected:
  // end_tokens: the target's; they wait for a request's minimum.
  Guesser(Model& model, KvView kv, ComputeTeam& team, std::vector<TokenId> end_tokens)
      : model_(model), kv_(kv), team_(team), end_tokens_(std::move(end_tokens)) {}

 private:
  virtual int add(RaggedBatch& batch, const Turn& turn) const = 0;  // its first row
  virtual void computed(const Turn& turn) = 0;
  std::span<float> forward(std::span<const Turn> turns);
  static int guess_index(const Turn& turn);  // in the sequence's output
  void add_draw(const Turn& turn, int logit_row);
  void guess(Turn& turn, std::span<float> logits) const;
  void take(Turn& turn, const DrawnToken& drawn) const;

  Model& model_;
  KvView kv_;
  ComputeTeam& team_;
  std::vector<TokenId> end_tokens_;

  // Kept to reuse memory.
  RaggedBatch batch_;
  std::vector<RowDraw> draws_;         // of a model that draws: guesses that it can draw
  std::vector<DrawnToken> drawn_;      // [draws]
  std::vector<unsigned char> unseen_;  // [rows of logits]
};

}  // namespace espalier
