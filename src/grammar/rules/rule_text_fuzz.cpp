// Any text as EBNF or Lark (the first byte says which, and how narrow the limits are): refused with a sentence, or
// accepted with a tree that keeps the promises of its header, fits its limits and, printed as EBNF, reads back as
// itself.
#include <cstdint>
#include <cstdlib>

#include "grammar/rules/rule_text_printer.h"

namespace {

using namespace espalier;
using namespace espalier::grammar;

void require(bool condition) {
  if (!condition) std::abort();
}

bool below(int index, std::size_t size) {
  return index >= 0 && static_cast<std::size_t>(index) < size;
}

void check_node(const RuleText& rules, std::size_t index) {
  const RuleNode& node = rules.nodes[index];
  for (const int child : node.children) require(below(child, index));
  switch (node.kind) {
    case RuleNode::Kind::literal:
      return require(node.children.empty() && is_utf8(node.bytes));
    case RuleNode::Kind::chars:
      return require(node.children.empty() && below(node.index, rules.sets.size()));
    case RuleNode::Kind::rule:
      return require(node.children.empty() && below(node.index, rules.rules.size()));
    case RuleNode::Kind::concat:
    case RuleNode::Kind::either:
      return require(node.children.size() >= 2);
    case RuleNode::Kind::repeat:
      require(node.children.size() == 1 && node.low >= 0);
      require(node.high == RuleNode::kUnbounded || node.high >= node.low);
  }
}

void check(const RuleText& rules, const RuleTextLimits& limits) {
  require(rules.nodes.size() <= limits.nodes && rules.rules.size() <= limits.rules);
  require(below(rules.start, rules.rules.size()));
  for (const RuleText::Rule& rule : rules.rules) require(below(rule.body, rules.nodes.size()));
  for (std::size_t i = 0; i < rules.nodes.size(); ++i) check_node(rules, i);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  RuleTextLimits limits;
  if (data[0] & 2) limits = {.bytes = 400, .depth = 4, .nodes = 60, .rules = 5};
  const auto rules = data[0] & 1 ? parse_lark(text, limits) : parse_ebnf(text, limits);
  if (!rules.ok()) {
    require(rules.error().message.starts_with("grammar line ") && rules.error().kind != Error::Kind::internal);
    return 0;
  }
  check(*rules, limits);
  for (const CodePointSet& set : rules->sets)
    if (set.empty()) return 0;
  const std::string once = testing::printed(*rules);
  const auto again = parse_ebnf(once, {.bytes = 1 << 28, .depth = 10'000, .nodes = 1 << 24, .rules = 1 << 24});
  require(again.ok() && testing::printed(*again) == once);
  return 0;
}
