// earley_recogniser.h: is this text of that grammar? For tests: Earley's method, character by character, over the tree
// of a RuleText as it stands, so that it shares nothing with what the engine makes of the same tree.
//
// Slow (a set look-up an item) and made for short texts; counted repetitions of what may be empty cost their count.
// Threads: values. Fails: never; requires UTF-8.
// Source:  J. Earley, An Efficient Context-Free Parsing Algorithm, 1970; for rules that match the empty text, J. Aycock
//          and R. N. Horspool, Practical Earley Parsing, 2002, in the form "what is already complete here counts".
#pragma once

#include <algorithm>
#include <compare>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "grammar/rules/rule_text.h"
#include "text/utf8.h"

namespace espalier::testing {

// Recognises texts of a RuleText with Earley's method.
class EarleyRecogniser {
 public:
  explicit EarleyRecogniser(const grammar::RuleText& rules) : rules_(rules) {}

  bool accepts(std::string_view text) {
    read(text);
    columns_.assign(characters_.size() + 1, {});
    const int body = rules_.rules[static_cast<std::size_t>(rules_.start)].body;
    add({body, 0, 0}, 0);
    for (std::size_t at = 0; at < columns_.size(); ++at)
      for (std::size_t i = 0; i < columns_[at].items.size(); ++i) step(columns_[at].items[i], at);
    return columns_.back().complete.contains({body, 0});
  }

 private:
  // A node of which a part, counted by `state`, has matched from the character `origin` on: bytes of a literal,
  // children of a sequence, turns of a repetition, or all (1).
  struct Item {
    int node = 0, state = 0;
    std::size_t origin = 0;
    auto operator<=>(const Item&) const = default;
  };
  struct Column {
    std::vector<Item> items;
    std::set<Item> seen;
    std::map<int, std::vector<Item>> waiting;        // for a node that begins here
    std::set<std::pair<int, std::size_t>> complete;  // nodes that end here, with their origins
  };

  void read(std::string_view text) {
    characters_.clear();
    while (!text.empty()) {
      const Utf8Step character = utf8_step(text);
      characters_.push_back(character.character);
      text.remove_prefix(character.length);
    }
  }

  void add(const Item& item, std::size_t at) {
    if (columns_[at].seen.insert(item).second) columns_[at].items.push_back(item);
  }

  const grammar::RuleNode& node(const Item& item) const { return rules_.nodes[static_cast<std::size_t>(item.node)]; }

  void step(Item item, std::size_t at) {  // a copy: the column grows
    const grammar::RuleNode& it = node(item);
    switch (it.kind) {
      case grammar::RuleNode::Kind::literal:
        return step_literal(item, at);
      case grammar::RuleNode::Kind::chars:
        if (item.state == 1) return complete(item, at);
        if (at < characters_.size() && rules_.sets[static_cast<std::size_t>(it.index)].contains(characters_[at]))
          add({item.node, 1, item.origin}, at + 1);
        return;
      case grammar::RuleNode::Kind::rule:
        if (item.state == 1) return complete(item, at);
        return await(item, rules_.rules[static_cast<std::size_t>(it.index)].body, at);
      case grammar::RuleNode::Kind::concat:
        if (item.state == static_cast<int>(it.children.size())) return complete(item, at);
        return await(item, it.children[static_cast<std::size_t>(item.state)], at);
      case grammar::RuleNode::Kind::either:
        if (item.state == 1) return complete(item, at);
        for (const int child : it.children) await(item, child, at);
        return;
      case grammar::RuleNode::Kind::repeat:
        if (item.state >= it.low) complete(item, at);
        if (it.high == grammar::RuleNode::kUnbounded || item.state < it.high) await(item, it.children[0], at);
    }
  }

  void step_literal(const Item& item, std::size_t at) {
    const std::string_view rest = std::string_view(node(item).bytes).substr(static_cast<std::size_t>(item.state));
    if (rest.empty()) return complete(item, at);
    const Utf8Step next = utf8_step(rest);
    if (at < characters_.size() && characters_[at] == next.character)
      add({item.node, item.state + static_cast<int>(next.length), item.origin}, at + 1);
  }

  Item advanced(Item item) const {
    const grammar::RuleNode& it = node(item);
    const bool endless = it.kind == grammar::RuleNode::Kind::repeat && it.high == grammar::RuleNode::kUnbounded;
    item.state = endless ? std::min(item.state + 1, it.low) : item.state + 1;
    return item;
  }

  void await(const Item& item, int child, std::size_t at) {
    columns_[at].waiting[child].push_back(item);
    add({child, 0, at}, at);
    if (columns_[at].complete.contains({child, at})) add(advanced(item), at);
  }

  void complete(const Item& item, std::size_t at) {
    if (!columns_[at].complete.insert({item.node, item.origin}).second) return;
    const std::vector<Item> waiting = columns_[item.origin].waiting[item.node];
    for (const Item& waiter : waiting) add(advanced(waiter), at);
  }

  const grammar::RuleText& rules_;
  std::vector<char32_t> characters_;
  std::vector<Column> columns_;
};

}  // namespace espalier::testing
