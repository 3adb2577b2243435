#include "lang/execute/queue_item.h"

namespace espalier::lang {
namespace {

void collect_names(const std::vector<Node>& nodes, std::vector<std::string>& names) {
  const auto add = [&](const std::string& name) {
    if (!name.empty()) names.push_back(name);
  };
  for (const Node& one : nodes) {
    if (const auto* gen = std::get_if<node::Gen>(&one)) add(gen->name);
    if (const auto* select = std::get_if<node::Select>(&one)) add(select->name);
    if (const auto* score = std::get_if<node::Score>(&one)) add(score->name);
    if (const auto* scope = std::get_if<node::ScopeBegin>(&one)) add(scope->name);
    const auto* reasoning = std::get_if<node::Reasoning>(&one);
    if (reasoning == nullptr) continue;
    for (const std::string& name : names_of(reasoning->inside->nodes())) {
      names.push_back(name);
      names.push_back(name);  // set again when it is split
      names.push_back(name + "_reasoning_content");
    }
  }
}

}  // namespace

std::vector<std::string> names_of(const std::vector<Node>& nodes) {
  std::vector<std::string> names;
  collect_names(nodes, names);
  return names;
}

}  // namespace espalier::lang
