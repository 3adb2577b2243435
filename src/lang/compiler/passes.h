// passes.h: what changes a graph, one function a pass; include/espalier/compiler.h says what each is for.
//
// A pass takes a graph that checks and leaves one that checks. Numbers of streams stay; a stream that is gone has no
// nodes.
// Threads: pure.
#pragma once

#include "espalier/compiler.h"

namespace espalier::lang {

void fold_constants(Graph& graph, PassReport& report);
void move_pieces(Graph& graph, PassReport& report);
// `defaults`: what a generation without a temperature of its own has.
void merge_equal(Graph& graph, const GenOptions& defaults, PassReport& report);
// Generations of a stream that follow each other and will be one call: by speculation those of a turn, as a chain all.
struct ServedRows {
  bool speculated = false, chained = false;
};
void share_samples(Graph& graph, const GenOptions& defaults, const ServedRows& rows, PassReport& report);
void drop_dead(Graph& graph, const std::optional<std::vector<std::string>>& outputs, PassReport& report);
// Who looks at the scores of a stream's choices.
struct ScoreReaders {
  MetaRead meta = MetaRead::own_state;
  const std::optional<std::vector<std::string>>& outputs;
};
void choice_paths(Graph& graph, const BackendTraits& traits, const ScoreReaders& readers, PassReport& report);
void choice_grammar(Graph& graph, PassReport& report);
void chain_calls(Graph& graph, const GenOptions& defaults, PassReport& report);
// The tokens that a call of API speculation should ask for; 0: it would save nothing.
int plan_speculation(const Graph& graph, const BackendTraits& traits, const GenOptions& defaults, PassReport& report);

}  // namespace espalier::lang
