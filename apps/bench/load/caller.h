// caller.h: makes the calls that items ask for, in the way this run wants them made, and keeps a record of each.
//
// A select is made as the server can: by likelihood where it scores continuations, else constrained to the choices,
// else as free text of which the beginning is compared with the choices. A record counts the prompt once, whichever
// way.
// Order:   (generate | select)*, also from `done`. Threads: one; `done` is called from Transport::run(). Fails: a
//          failed call gives ok = false; its record has the sentence.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/load/transport.h"

namespace espalier::bench {

enum class SelectMethod { automatic, generate, constrain, likelihood };

struct CallPolicy {
  SelectMethod select = SelectMethod::automatic;
  bool constraints = true;            // send regular expressions and schemas along; false: leave them out
  bool ignore_eos = true;             // false: never ask for it
  bool split_samples = false;         // a server without `n` gets as many requests
  std::vector<std::string> adapters;  // LoRA, drawn at random for each item
  std::uint64_t adapter_seed = 0;
  std::string salt;  // stands before every prompt: no earlier run's prefixes fit, this run's still share
};

struct CallRecord {
  std::size_t item = 0;  // of the workload
  int max_tokens = 0;
  int expected_prompt_tokens = 0;
  Outcome outcome;

  int prompt_tokens() const { return outcome.prompt_tokens > 0 ? outcome.prompt_tokens : expected_prompt_tokens; }
};

struct Journal {
  bool kept = true;               // false: calls are not written down
  std::vector<CallRecord> calls;  // in the order in which they ended
  int scorings = 0;               // extra requests that only scored the choices of a select
  int unmatched_selects = 0;      // the text was none of the choices
};

class Caller {
 public:
  using Generated = std::function<void(bool ok, const std::string& text)>;
  using Selected = std::function<void(bool ok, std::size_t choice)>;

  Caller(Transport& transport, CallPolicy policy, Journal& journal)
      : transport_(transport), policy_(std::move(policy)), journal_(journal) {}

  void generate(std::size_t item, Call call, Generated done);
  // `call` brings the prompt and the tokens that a text may have.
  void select(std::size_t item, Call call, const std::vector<std::string>& choices, Selected done);

 private:
  void prepare(std::size_t item, Call& call) const;
  void record(std::size_t item, const Call& call, Outcome outcome);
  void select_by_likelihood(std::size_t item, Call call, std::vector<std::string> choices, Selected done);
  void select_by_text(std::size_t item, Call call, std::vector<std::string> choices, Selected done);

  Transport& transport_;
  const CallPolicy policy_;
  Journal& journal_;
};

// The choice that `text` begins with (the longest), or that begins with `text`; the number of choices if there is none.
std::size_t matching_choice(std::string_view text, const std::vector<std::string>& choices);

}  // namespace espalier::bench
