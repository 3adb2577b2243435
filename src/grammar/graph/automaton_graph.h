// automaton_graph.h: the automaton of a constraint as a graph, raw (one byte an edge) and compressed (a chain of states
// with a single way on is one edge), and its pictures.
//
// The automaton has no end of states for most grammars, so it is followed breadth first up to a number of them; states
// whose ways on were not followed any more are marked open.
// Units:   user units of the drawing. Threads: one at a time. Fails: as grammar.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/constraint_graph.h"
#include "grammar/grammar.h"

namespace espalier::grammar {

// The graph with an edge for each byte, and the same without chains.
struct ExplainedGrammar {
  AutomatonGraph raw, compressed;
};

// At most `states` raw states. Tokens are counted where the vocabulary is a tokenizer's. `characters`: in the compressed
// graph the bytes of a character beyond ASCII are one edge, whichever character it is.
Result<ExplainedGrammar> explain(Grammar& grammar, std::size_t states, bool characters = false);

// The text, or as much of it as `most` bytes hold together with a sign that there is more; characters stay whole.
std::string shortened(std::string text, std::size_t most);
std::string bytes_label(const ByteSet& set);  // "[a-z_]", "\x80-\xbf"

std::string to_dot(const ExplainedGrammar& explained, std::string_view title);
std::string to_svg(const ExplainedGrammar& explained, std::string_view title);

}  // namespace espalier::grammar
