#include "espalier/constraint_graph.h"

#include "grammar/graph/automaton_graph.h"

namespace espalier {
namespace {

using grammar::Automaton;
using grammar::Grammar;
using grammar::State;

GrammarLimits limits_for(const ConstraintGraphLimits& limits) {
  GrammarLimits small;
  small.text_bytes = 1 << 20;
  small.nodes = 200'000;
  small.memory = 24 << 20;
  small.states = 20'000;
  small.compile_time = limits.compile_time;
  small.step_time = limits.compile_time;
  return small;
}

// How many of these bytes may come one after the other; `at` is where they lead.
Result<std::size_t> accepted_bytes(Grammar& grammar, std::string_view text, State& at) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    ESP_TRY(const State next, grammar.read(at, text.substr(i, 1)));
    if (next == Automaton::dead) return i;
    at = next;
  }
  return text.size();
}

}  // namespace

Result<ConstraintGraph> draw_constraint(const Constraint& constraint, std::string_view tried,
                                        const ConstraintGraphLimits& limits) {
  const auto bytes = std::make_shared<grammar::Vocabulary>(std::vector<std::string>());
  ESP_TRY(const auto compiled, Grammar::compile(constraint, bytes, limits_for(limits)));
  ESP_TRY(grammar::ExplainedGrammar explained, grammar::explain(*compiled, limits.states, true));
  ConstraintGraph out;
  out.followed = explained.raw.nodes.size();
  out.graph = std::move(explained.compressed);
  State at = compiled->start();
  ESP_TRY(out.accepted, accepted_bytes(*compiled, tried, at));
  out.complete = compiled->complete(at);
  return out;
}

}  // namespace espalier
