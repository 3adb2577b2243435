#include "lang/choices/choice_grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json.h"

namespace espalier::lang {

GenCall choice_call(const std::vector<std::string>& choices) {
  std::size_t longest = 0;
  for (const std::string& choice : choices) longest = std::max(longest, choice.size());
  GenCall call;
  call.sampling.temperature = 0;
  call.sampling.max_new_tokens = static_cast<int>(longest) + 1;  // a token has a byte at least; one ends it
  call.constraint = {Constraint::Kind::choice, Json(choices).dump()};
  return call;
}

Error none_of(const std::vector<std::string>& choices, const std::string& output) {
  return {Error::Kind::unsupported,
          fmt::format("the answer {} is none of the {} choices: switch the pass choice_grammar off to have them scored",
                      in_quotes(output, 40), choices.size()),
          "choices",
          {}};
}

}  // namespace espalier::lang
