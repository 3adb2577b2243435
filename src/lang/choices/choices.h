// choices.h: the three ways to find the likeliest of some continuations, as numbers; what a select tells of them.
//
//   token_length_normalized              the largest mean
//   greedy_token_selection               position by position those with the largest value, until one is left; a choice
//                                        that is over counts with its mean
//   unconditional_likelihood_normalized  the largest mean of what each token gains by standing behind the prompt; the
//                                        first token alone counts as 0
// Equal ones: the first.
// Threads: pure functions.
// Fails:   check_select: bad_request naming the field.
//          decided: as the method; internal for one that names a choice which is not there.
// Source:  SGLang, lang/choices.py.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "espalier/backend.h"

namespace espalier::lang {

// Gives the call a method when it has none; refuses what no back end takes: no choices, an empty one, a temperature
// that draws.
Result<> check_select(SelectCall& call);

// The three methods of the language, by name.
enum class ChoicesRule { token_length_normalized, greedy_token_selection, unconditional_likelihood_normalized };

std::string_view name_of(ChoicesRule rule);
Result<ChoicesRule> choices_rule_named(std::string_view name);  // bad_request naming the three

// One of the three, or none, which means the default. One of somebody's own may want to see every choice.
bool is_of_the_language(const ChoicesMethod* method);

std::string_view name_of(SelectWay way);
std::optional<SelectWay> select_way_named(std::string_view name);

// The log-probabilities of a choice's tokens, with and without the prompt.
struct ScoredChoice {
  std::vector<double> logprobs;       // of its tokens
  std::vector<double> unconditional;  // the same without the prompt; empty where they are not wanted
};

// Which choice a method takes, and the figures that it rests on.
struct Decision {
  std::size_t choice = 0;
  std::vector<double> means;                // of logprobs
  std::vector<double> unconditional_means;  // of what is gained
  std::vector<std::vector<double>> matrix;  // of greedy_token_selection
};

// Requires: at least one choice.
Decision decide(ChoicesRule rule, const std::vector<ScoredChoice>& choices);

// What a method takes, and in its meta what every method tells of a selection, the mean of each choice and its tokens,
// [logprob, id, text] each; beside it what this one tells.
// Requires: at least one choice; `unconditional` where the method needs it, as long as `tokens`.
Result<SelectOutput> decided(const ChoicesMethod& method, const std::vector<ChoiceScore>& choices);

}  // namespace espalier::lang
