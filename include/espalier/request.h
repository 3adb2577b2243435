// request.h: what the engine is asked to do, validated once.
//
// RequestFields is what an edge (an HTTP route, a language back end, a test) fills in; Request::make is the only way to
// a Request, and every refusal names the field at fault. What the scheduler receives can therefore not be invalid.
// Threads: values; a Request is immutable.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "espalier/grammar.h"
#include "espalier/handoff.h"
#include "espalier/sampling.h"
#include "espalier/types.h"

namespace espalier {

class LoraAdapter;  // what is added to a model's weights (model/adapters/adapter.h)
struct Stops;       // what ends a text (text/stream/stop_matcher.h)
namespace pictures {
struct PixelBlock;  // what a tower reads (image/processors/processor.h)
}

// Which log-probabilities (natural logarithm, of the model's distribution before penalties and filters) to report.
struct LogprobFields {
  bool enabled = false;      // of every generated token
  int prompt_start = -1;     // of prompt tokens from this position on; -1 = none. Position 0 has none to report
  int top = 0;               // the most likely tokens beside the chosen one; up to the whole vocabulary
  std::vector<TokenId> ids;  // and these tokens, at every reported position
};

// A section at the start of an output in which a model thinks: its marks, as texts, and how long it may be.
struct Thinking {
  std::vector<std::string> begins =
      {};                           // it begins with one of them, or there is none; empty: the output begins within it
  std::vector<TokenId> begin = {};  // one of them, which a constraint lets through; empty: it lets none through
  std::vector<std::string> ends = {};    // one or more
  std::vector<std::string> leaves = {};  // likewise, but the constraint does not begin there: calls of tools
  std::vector<TokenId> opens = {};       // one of these ends it, too, and is the first of what the constraint reads
  std::optional<int> budget = {};        // tokens that it may have; behind them comes `close`
  std::vector<TokenId> close = {};       // one of `ends`, and what belongs to it
};

// A picture or a film in a prompt, made ready for the model's tower.
struct PictureInput {
  std::shared_ptr<const pictures::PixelBlock> pixels;
  std::array<std::uint64_t, 2> content = {};  // its hash: equal pixels made ready alike have the same
  // Where its image tokens stand in the prompt, in order. Each takes one row of what the tower gives.
  struct Span {
    int first = 0, count = 0;
  };
  std::vector<Span> spans;
};

// A text that is to become a vector or scores instead of being continued, for a model that pools.
struct PooledFields {
  int leave_out = 0;     // so many first tokens count for no mean (a prompt before the text)
  int second_part = -1;  // from there on tokens are of the second text of a pair; -1: there is none
  bool each = false;     // every row by itself, instead of the model's pooling
};

// Everything that a request may say, before it is checked.
struct RequestFields {
  std::string id;  // the caller's name for it; made up when empty
  std::vector<TokenId> prompt;
  std::vector<PictureInput> pictures = {};  // in the order of the prompt
  std::optional<PooledFields> pooled = {};  // set: nothing is generated
  SamplingParams sampling;
  Constraint constraint;                      // on the output; end tokens come exactly where it is complete
  std::shared_ptr<grammar::Grammar> grammar;  // `constraint` compiled (Engine::compile); else submit() does it
  std::string constraint_place;  // the caller's name for it, in errors of limits that it meets while text is generated
  std::optional<Thinking> thinking;  // what the constraint leaves alone, and its budget; needs the model's tokenizer
  std::shared_ptr<const std::vector<TokenId>>
      shown_special;                // special tokens that are in the text though others are not
  std::vector<TokenId> prediction;  // a text that much of the output may repeat: its tokens are guesses
  bool json_closing = false;  // an output that ends for its length gets a shortest text that completes it, beyond it
  LogprobFields logprobs;
  std::string scope;  // cache name space: tenant salt, ...; requests of different scopes share nothing
  std::shared_ptr<const LoraAdapter> adapter =
      {};                   // of Engine::load_adapter; null: the model alone. It lives until the end
  int priority = 0;         // larger runs first under the priority policy
  bool background = false;  // runs only when nothing else waits, and gives way to what comes
  std::string tenant;       // who is asking, for fair sharing; empty: nobody in particular
  std::string user;         // of that tenant
  std::optional<std::chrono::milliseconds> deadline;  // waits at most so long to begin
  int expected_output = 0;              // tokens that requests like it took, for admission; 0: nobody knows
  std::optional<Handoff> handoff = {};  // its prompt is computed by one server and its output by another
};

// What a loaded model and its token pool can do. Lengths in tokens.
struct ModelLimits {
  int vocabulary = 0;
  int context_length = 0;       // prompt and output together
  int pool_tokens = 0;          // slots of the token pool
  bool has_tokenizer = true;    // stop strings and patterns need one
  int max_output = 0;           // 0 = up to the context
  bool takes_pictures = false;  // it has a tower
  bool pools = false;           // it gives vectors or scores, no tokens
};

// A checked request, constant from then on.
class Request {
 public:
  // Field names in errors are those of the native API ("input_ids", "max_new_tokens"); a dialect maps its own.
  // max_new_tokens is cut to what context and pool leave after the prompt; a prompt that does not fit is an Error with
  // code context_length_exceeded and both numbers. Patterns of stop_regex are compiled here, which takes up to a second
  // for the worst and microseconds for the usual.
  static Result<Request> make(RequestFields fields, const ModelLimits& limits);

  const RequestFields& fields() const { return fields_; }
  const std::string& id() const { return fields_.id; }
  const std::vector<TokenId>& prompt() const { return fields_.prompt; }
  const SamplingParams& sampling() const { return fields_.sampling; }
  // The cache name space: that of the fields, in one of the adapter's own where there is one.
  const std::string& scope() const { return scope_; }
  static std::string scope_of(const RequestFields& fields);
  // The print of the adapter in such a name space, as the engine tells it (CacheEvent); empty: there is none.
  static std::string_view adapter_in(std::string_view scope);
  int max_new_tokens() const { return max_new_tokens_; }
  std::uint64_t seed() const { return seed_; }  // the caller's, or drawn here
  // The stop strings and patterns, compiled; null when there are none.
  const std::shared_ptr<const Stops>& stops() const { return stops_; }

  // For a request that brought no seed: this one, so that a whole run can be repeated (--random-seed).
  void draw_seed(std::uint64_t seed) {
    if (!sampling().seed) seed_ = seed;
  }
  // The constraint, compiled.
  void constrain(std::shared_ptr<grammar::Grammar> grammar) { fields_.grammar = std::move(grammar); }

 private:
  Request() = default;
  RequestFields fields_;
  std::string scope_;
  int max_new_tokens_ = 0;
  std::uint64_t seed_ = 0;
  std::shared_ptr<const Stops> stops_;
};

}  // namespace espalier
