#include "lang/graph/prefix.h"

#include "lang/chat/turns.h"

namespace espalier::lang {

std::string constant_prefix(const Graph& graph, const ChatFormat& format) {
  Document document;
  for (const Graph::Node& one : graph.nodes) {
    if (one.stream != 0) continue;
    if (const auto* text = std::get_if<node::Text>(&one.content))
      document.text += text->text;
    else if (const auto* begin = std::get_if<node::RoleBegin>(&one.content))
      (void)begin_turn(document, format, begin->role);
    else if (const auto* end = std::get_if<node::RoleEnd>(&one.content))
      (void)end_turn(document, format, end->role);
    else if (!std::holds_alternative<Graph::Fork>(one.content) || !document.text.empty())
      break;  // a fork of a state without a text is nothing that stands in its prompt
  }
  return document.text;
}

}  // namespace espalier::lang
