// sequence.h: one choice of one request on its way: its tokens, where their keys and values lie, and what is still to
// do.
//
// Numbers that follow from others are functions. A sequence owns what it holds in the pool (`held`), so dropping it
// gives everything back.
// Threads: the engine thread only.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/disk/disk_prefixes.h"
#include "cache/tree/radix_tree.h"
#include "engine/constrain/constrained_text.h"
#include "engine/constrain/row_mask.h"
#include "engine/draft/drafts.h"
#include "engine/memory/held_tokens.h"
#include "engine/memory/sequence_states.h"
#include "engine/pictures/sequence_pictures.h"
#include "engine/pooled/row_fold.h"
#include "engine/schedule/fair_share.h"
#include "engine/schedule/scheduler.h"
#include "engine/stream/stream_channel.h"
#include "espalier/request.h"
#include "sampling/penalties.h"

namespace espalier {

// One choice of a request, from its arrival to its end.
struct Sequence {
  using Clock = std::chrono::steady_clock;

  WaitingView view;  // while waiting; first, since planning reads it of all who wait and nothing else

  std::shared_ptr<const Request> request;
  std::shared_ptr<StreamChannel> channel;
  int choice = 0;
  std::uint64_t arrival = 0;     // order of submission, also across retraction
  std::int64_t rope_length = 0;  // the class of its length (rope_lengths.h), which is part of
  std::string scope;             // the name space of its tokens

  std::vector<TokenId> tokens;                 // prompt, then what was generated; as the tree knows them
  SequencePictures pictures;                   // whose image tokens the tree knows by other ids
  ConstrainedText text;                        // empty: no constraint
  std::vector<ConstrainedText::Place> places;  // in this step, by tokens of the draft
  std::shared_ptr<RowMask> late_mask;          // of a row that is computed again
  DraftState drafting;
  std::vector<TokenId> draft;  // guesses of what follows, in this step's chunk to be verified
  int computed = 0;            // leading tokens whose keys and values are stored
  HeldTokens held;             // in the pool
  SequenceState state;         // of a model that keeps one
  int read_again = 0;          // tokens behind `computed` that were computed before: the state went back

  FairShare::Place share;
  DiskMemory on_disk;
  PeekMemory peeked;  // while waiting

  RowFold rows;        // of one that is pooled, so far
  PooledEvent pooled;  // what it became
  int unpooled = 0;    // so many first rows are not wanted
  bool whole = false;  // its rows see all of it, so that it is computed at once

  TokenCounts counts;
  PromptLogprobsEvent prompt_logprobs;
  bool prompt_logprobs_sent = false;

  int cached_tokens = 0;  // of the prompt, when first admitted
  int disk_tokens = 0;    // of these, read from disk while it waited
  const char* cache_end = "";
  int image_tokens = 0, cached_image_tokens = 0;  // of the prompt; of cached_tokens
  int retractions = 0;
  int slots_ahead = 0;  // beyond what is planned, for the next step (step_ahead.h)
  int draft_steps = 0, drafted = 0,
      accepted = 0;  // decoding steps where drafts are on, their tokens, those that came true
  int forced_tokens = 0, passes_saved = 0;
  bool draft_is_forced = false, closed = false, left_open = false;
  std::optional<Error> broken;  // it ends with this at its next token
  int extents_left = 0;         // of its tokens in the tree, when they were last to be gathered (compaction.h)
  Clock::time_point submitted{}, admitted{}, first_token{}, last_token{};
  bool was_admitted = false;

  int known() const { return static_cast<int>(tokens.size()); }
  int prompt_tokens() const { return static_cast<int>(request->prompt().size()); }
  int generated() const { return known() - prompt_tokens(); }
  std::span<const TokenId> output() const { return std::span(tokens).subspan(request->prompt().size()); }
  int to_compute() const { return known() - computed; }
  TokenId token_at(int position) const {  // as the model knows it
    if (position < prompt_tokens()) return request->prompt()[static_cast<std::size_t>(position)];
    return position < known() ? tokens[static_cast<std::size_t>(position)]
                              : draft[static_cast<std::size_t>(position - known())];
  }
  int remaining_output() const { return request->max_new_tokens() - generated(); }
  bool wants_prompt_logprobs() const { return request->fields().logprobs.prompt_start >= 0 && !prompt_logprobs_sent; }
  // How much of its tokens a cached prefix may cover: the last one must be computed for its logits, and so must every
  // token whose successor's log-probability is wanted.
  int match_limit() const {
    const int all = known() - 1;
    if (request->fields().pooled) return std::min(all, unpooled);
    if (!wants_prompt_logprobs()) return all;
    const int start = request->fields().logprobs.prompt_start;
    return std::min(all, start > 1 ? start - 1 : 0);
  }
  // Beside what it must read again, the next token is all that it computes.
  bool decodes() const { return generated() > 0 && to_compute() - read_again == 1; }
  CacheKey key() const { return {scope, tokens, pictures.whole()}; }
  // Of so many tokens that its next chunk may have, how many it gets: as far as pictures are there, and none cut that
  // must not be, for which it may get more.
  int chunk_within(int most) const {
    if (whole) return most > 0 ? to_compute() : 0;
    const int end = std::min(computed + most, pictures.ready_until(known()));
    return end <= computed ? 0 : pictures.chunk_end(computed, end) - computed;
  }
};

}  // namespace espalier
