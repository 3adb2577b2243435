// drafts.h: guesses of what a sequence says next, and how many of them are worth verifying.
//
// Guesses come from texts, longest agreement first: what the request predicts, the radix tree (another sequence went on from the very same
// tokens), the sequence's own text, finished texts of the same scope (what followed the same suffix before); or from a
// guesser (guesser.h: a small draft model, a layer of the model itself), which several sequences ask in one batch. A guess costs one more row in the next
// step, a model's also its own time, and gives a token when the target model would have said it; results do not depend
// on guesses, only time does. How many pay follows from what rows and the draft model's steps cost (measured) and how
// often guesses came true.
// Threads: the engine thread. Fails: never; no guess is an answer.
// Source: prompt look-up decoding; REST (He et al. 2023); speculative decoding (Leviathan et al. 2023), with equality
// under the request's own noise in place of the acceptance probability.
#pragma once

#include <climits>
#include <map>
#include <string>
#include <vector>

#include "cache/tree/radix_tree.h"
#include "engine/draft/draft_acceptance.h"
#include "engine/draft/guesser.h"
#include "engine/draft/step_cost.h"
#include "engine/draft/suffix_index.h"
#include "engine/draft/undrafted_step_times.h"

namespace espalier {

struct Sequence;

// ngram: own text; tree: also the radix tree and finished texts; model: also a draft model; layer: also a layer that the
// checkpoint brings.
enum class DraftSource { none, ngram, tree, model, layer };

// Part of a sequence; empty until it first decodes.
struct DraftState {
  SuffixIndex own, predicted;
  PeekMemory peeked;
  double acceptance = 0.7;       // how often a guess from a text came true, lately
  double model_acceptance = -1;  // and one of the draft model; below 0: it was not asked for this sequence yet
  DraftCache cache;
  bool by_model = false;           // who made the draft that is being verified
  std::vector<double> confidence;  // of its guesses, when the model made them,
  double seconds = 0;              // and their share of its time
};

// How long drafts may get.
struct DraftLimits {
  int most_tokens = 16;  // of one draft
  int most_steps = 16;   // of the draft model for one draft
  int forced = 0;        // draft that many tokens whether they pay or not; for tests, which have no stable times
};

// Makes the guesses of all sequences, and learns from what came true how many are worth a row.
class Drafts {
 public:
  // vocabulary: ids from there on, which stand for pictures, are no guesses.
  Drafts(DraftSource source, const RadixTree& tree, DraftLimits limits = {}, int vocabulary = INT_MAX)
      : source_(source), limits_(limits), vocabulary_(vocabulary), tree_(tree) {}

  void use(Guesser& model) { model_ = &model; }
  bool on() const { return source_ != DraftSource::none; }
  bool on(const Sequence& sequence) const;  // on, or the request brings a prediction
  bool by_layer() const { return source_ == DraftSource::layer; }

  // Puts guesses behind the last tokens of decoding sequences, at most `room` in all.
  void propose(std::span<Sequence* const> sequences, int room);
  void verified(Sequence& sequence, int accepted, int rejected);
  // A decoding step, after its drafts were verified; rows with drafts.
  void observe(int sequences, int rows, double seconds);
  double take_seconds() { return std::exchange(model_seconds_, 0); }  // that the draft model took since the last call

  void finished(const Sequence& sequence);  // its text may be of use to others of its scope
  void let_go(Sequence& sequence) {         // it stops running
    if (model_) model_->let_go(sequence);
  }
  void clear() {  // forgets all texts
    logs_.clear();
    if (model_) model_->clear();
  }
  Result<> check(int slots_of_sequences) const { return model_ ? model_->check(slots_of_sequences) : success(); }

 private:
  // Finished texts of one scope, one behind the other; the older half goes when it is full.
  struct Log {
    std::vector<TokenId> text;
    SuffixIndex index;
    std::uint64_t last_use = 0;
  };
  struct Verified {  // in the step under way
    int drafted = 0, accepted = 0;
  };
  struct Asked {  // a sequence whose guesses the draft model makes
    Sequence* sequence;
    int most;       // guesses
    int rows;       // of the draft model before the next guess
    double chance;  // that all guesses so far come true
    int made = 0;   // guesses
  };
  std::vector<TokenId> from_texts(Sequence& sequence, int most);
  std::vector<TokenId> guess(Sequence& sequence, int most);
  std::vector<TokenId> from_tree(Sequence& sequence, int most) const;
  void cut_pictures(std::vector<TokenId>& draft) const;
  static std::vector<TokenId> from_prediction(Sequence& sequence, int most);

  // model_drafts.cpp
  bool prefers_model(Sequence& sequence, int most, int batch);
  bool pays_to_catch_up(const Sequence& sequence, int rows) const;
  void ask_model(std::vector<Asked> asked);
  bool round_pays(std::vector<Asked>& asked) const;
  bool take_round(std::vector<Asked>& asked);
  void charge_round(int rows, int turns, double seconds);
  bool take_guess(Asked& asked, const Guesser::Turn& turn, double seconds);
  void trim(Sequence& sequence);
  void model_verified(Sequence& sequence, int accepted, int rejected);

  static constexpr std::size_t kLogTokens = 1 << 18, kLogs = 64;
  DraftSource source_;
  DraftLimits limits_;
  int vocabulary_;
  const RadixTree& tree_;
  Guesser* model_ = nullptr;       // the draft model, or what stands for one
  StepCost cost_, model_cost_;     // of decoding steps; of the draft model's
  double worth_ = 0;               // of a token: the time that one takes now
  double catch_up_row_ = 0;        // seconds of a row of text that the draft model reads
  double usual_acceptance_ = 0.8;  // of the draft model's guesses
  double usual_output_ = 128;      // tokens
  double gain_ = 0;                // seconds a token that the draft model's guesses win, its own time counted
  double model_seconds_ = 0;
  DraftAcceptance acceptance_;
  UndraftedStepTimes plain_;
  Verified of_texts_, of_model_;
  DraftTimeCredit text_credit_{0.1};  // guesses from texts cost a row or two at a time,
  DraftTimeCredit model_credit_{1};   // those of a model first a reading of the prompt
  std::map<std::string, Log, std::less<>> logs_;
  std::uint64_t uses_ = 0;
};

}  // namespace espalier
