// ideal_cache.h: how much of each prompt a cache without limits would have held, calls taken one after another as they
// were sent.
//
// Every prefix of what was seen is kept as a hash: two different ones among 10^7 meet with a chance of about 10^-5.
// Those of a round of the workload are forgotten some rounds later, so that a long run stays small: nothing of them
// comes again.
// Units: tokens. Cost: O(prompt) and a look-up for each doubling of its length. Threads: one. Fails: never.
#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "espalier/types.h"

namespace espalier::bench {

class IdealCache {
 public:
  explicit IdealCache(std::size_t kept_rounds) : kept_rounds_(kept_rounds) {}

  struct Found {
    std::size_t length = 0;  // the last token of a prompt is always computed
    std::uint64_t hash = 0;  // of the whole prompt
  };
  // The prompt's ids are the round's own from position `own` on. Looks up the prompt, then keeps it.
  Found ask(std::span<const TokenId> prompt, std::size_t own, std::uint64_t round);
  // What was generated behind the prompt that was asked for last, kept too.
  void add_output(std::span<const TokenId> output, std::uint64_t round);

  std::int64_t distinct_tokens() const { return distinct_; }  // of all prompts and kept outputs

 private:
  struct IsMixed {
    using is_avalanching = void;
    std::size_t operator()(std::uint64_t hash) const { return hash; }
  };
  using Seen = boost::unordered_flat_set<std::uint64_t, IsMixed>;
  Seen& of_round(std::uint64_t round);

  const std::size_t kept_rounds_;
  std::int64_t distinct_ = 0;
  Seen shared_;
  std::map<std::uint64_t, Seen> rounds_;
  std::vector<std::uint64_t> prefixes_;  // of the last prompt
};

}  // namespace espalier::bench
