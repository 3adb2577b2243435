// penalties.h: which tokens a request has seen how often, and what that does to its logits.
//
// Threads: one thread at a time. Fails: never; ids outside the row (place-holders of pictures) are counted and ignored.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "espalier/sampling.h"
#include "espalier/types.h"

namespace espalier {

// Sparse counts of prompt and output tokens. O(1) to add one and to take it back.
class TokenCounts {
 public:
  struct Entry {
    TokenId token = 0;
    int prompt = 0, output = 0;
  };

  void add_prompt(std::span<const TokenId> tokens);
  void add_output(TokenId token);
  void undo_output(TokenId token);  // roll-back; nothing when the token is not in the output
  int output_count(TokenId token) const;
  std::span<const Entry> entries() const { return entries_; }  // each token once, in no particular order

 private:
  Entry& entry(TokenId token);

  std::vector<Entry> entries_;
  boost::unordered_flat_map<TokenId, std::uint32_t> index_;  // token -> place in entries_
};

// Logits under penalties, bias and forbidden tokens; restores them bit for bit when it goes.
class PenalisedRow {
 public:
  using Saved = std::vector<std::pair<TokenId, float>>;  // scratch that the caller keeps between rows

  // Order: repetition, frequency, presence, bias (each entry once); forbidden tokens become -infinity.
  // counts may be null when params.penalises() is false.
  PenalisedRow(std::span<float> logits, const SamplingParams& params, const TokenCounts* counts,
               std::span<const TokenId> forbidden, Saved& saved);
  PenalisedRow(const PenalisedRow&) = delete;
  PenalisedRow& operator=(const PenalisedRow&) = delete;
  ~PenalisedRow();

 private:
  void set(TokenId token, float value);

  std::span<float> logits_;
  Saved& saved_;
};

}  // namespace espalier
