// API speculation of a program that is known beforehand: whether it can save calls, and how many tokens one call should
// ask for (lang/execute/speculation.h says how it is done).
#include <fmt/format.h>

#include <algorithm>

#include "lang/compiler/passes.h"
#include "lang/compiler/streams.h"
#include "lang/gen_options.h"

namespace espalier::lang {
namespace {

constexpr int kBytesPerToken = 3;  // of literals; fewer would be cut off, more are not paid

// A row of generations with literals between them that one call can serve.
struct Row {
  int generations = 0, tokens = 0, between = 0;  // `between`: tokens of literals since the last generation
};

class Rows {
 public:
  Rows(bool chat, const GenOptions& defaults) : chat_(chat), defaults_(defaults) {}

  void node(const Graph::Content& content) {
    if (const auto* text = std::get_if<node::Text>(&content)) {
      now_.between += 1 + static_cast<int>(text->text.size()) / kBytesPerToken;
    } else if (const auto* gen = std::get_if<node::Gen>(&content); gen != nullptr && can_be_served(*gen)) {
      now_.tokens += now_.generations == 0 ? 0 : now_.between;
      now_.tokens += gen->options.max_tokens.value_or(defaults_.max_tokens.value_or(kDefaultTokens));
      now_.between = 0;
      ++now_.generations;
    } else if (!is_literal(content)) {
      end();
    }
  }
  void end() {
    if (now_.generations > 1) longest_ = std::max(longest_, now_.tokens);
    if (now_.generations > 1) saved_ += now_.generations - 1;
    now_ = {};
  }
  int tokens() const { return longest_; }
  int saved() const { return saved_; }

 private:
  bool can_be_served(const node::Gen& gen) const {
    const bool ends = gen.options.stop.is_set() || defaults_.stop.is_set();
    return (ends || chat_) && gen.options.n.value_or(defaults_.n.value_or(1)) == 1;
  }

  const bool chat_;
  const GenOptions& defaults_;
  Row now_;
  int longest_ = 0, saved_ = 0;
};

}  // namespace

int plan_speculation(const Graph& graph, const BackendTraits& traits, const GenOptions& defaults, PassReport& report) {
  if (!traits.speculates) return 0;
  Rows rows(traits.chat, defaults);
  for (const auto& stream : nodes_by_stream(graph)) {
    for (const std::size_t i : stream) rows.node(graph.nodes[i].content);
    rows.end();
  }
  if (rows.saved() == 0) return 0;
  report.calls += rows.saved();
  report.changes.push_back(
      fmt::format("calls ask for {} tokens, so that one may serve the generations that follow", rows.tokens()));
  return rows.tokens();
}

}  // namespace espalier::lang
