// How selects are carried out: by scoring, by the path of the choice that is taken, or by a grammar of the choices.
//
// A path finds the same choice as scoring does (lang/choices/choice_path.h), but not the scores of the others: it is
// taken where nobody reads them. A select of one choice needs no call. A grammar may find another choice
// (lang/choices/choice_grammar.h).
#include <fmt/format.h>

#include <algorithm>

#include "lang/choices/choices.h"
#include "lang/compiler/passes.h"

namespace espalier::lang {
namespace {

// The meta info of branches is read by nobody but a watcher: a join brings their values alone.
bool is_scored_for_somebody(int stream, const node::Select& select, const ScoreReaders& readers) {
  if (readers.meta != MetaRead::own_state) return readers.meta == MetaRead::every_node;
  if (stream != 0 || select.name.empty()) return false;
  return !readers.outputs || std::ranges::find(*readers.outputs, select.name) != readers.outputs->end();
}

bool is_greedy(const node::Select& select) {
  return select.method != nullptr && select.method == greedy_token_selection();
}

bool is_certain(const node::Select& select) {
  return select.choices.size() == 1 && !select.choices.front().empty() &&
         select.temperature < SamplingLimits::greedy_below && is_of_the_language(select.method.get());
}

// One of them becomes part of the text.
std::int64_t bytes_not_scored(const node::Select& select) {
  std::int64_t all = 0, longest = 0;
  for (const std::string& choice : select.choices) {
    all += std::ssize(choice);
    longest = std::max<std::int64_t>(longest, std::ssize(choice));
  }
  return all - longest;
}

}  // namespace

void choice_paths(Graph& graph, const BackendTraits& traits, const ScoreReaders& readers, PassReport& report) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    auto* select = std::get_if<node::Select>(&graph.nodes[i].content);
    if (select == nullptr || select->way != SelectWay::scoring) continue;
    if (is_scored_for_somebody(graph.nodes[i].stream, *select, readers)) continue;
    if (is_certain(*select)) {
      ++report.calls;
      report.changes.push_back(fmt::format("node {} has one choice: no call", i));
    } else if (traits.paths && is_greedy(*select)) {
      report.prompt_bytes += bytes_not_scored(*select);
      report.changes.push_back(
          fmt::format("node {} looks at its {} choices where they part", i, select->choices.size()));
    } else {
      continue;
    }
    select->way = SelectWay::path;
  }
}

void choice_grammar(Graph& graph, PassReport& report) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    auto* select = std::get_if<node::Select>(&graph.nodes[i].content);
    if (select == nullptr || select->way != SelectWay::scoring || !is_of_the_language(select->method.get())) continue;
    select->way = SelectWay::grammar;
    report.changes.push_back(
        fmt::format("node {} generates one of its {} choices; its method has no say", i, select->choices.size()));
  }
}

}  // namespace espalier::lang
