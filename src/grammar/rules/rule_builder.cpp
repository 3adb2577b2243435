#include "grammar/rules/rule_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json.h"  // in_quotes

namespace espalier::grammar {
namespace {

// A bracket adds at most three levels to the tree (repeat, either, concat). The limit on brackets alone would let
// quantifiers upon quantifiers pass, on which whoever walks the tree would pay for its height.
constexpr int kLevelsPerGroup = 4;

// Of all sets together (32 MB). Few bytes of text can name a set of hundreds of ranges (\w in a regular expression).
constexpr std::size_t kMostRangesOfSets = 4'000'000;

}  // namespace

int RuleBuilder::add(RuleNode node) {
  if (!over_limit_.empty()) return 0;
  int height = 1;
  for (const int child : node.children) height = std::max(height, heights_[static_cast<std::size_t>(child)] + 1);
  if (text_.nodes.size() >= limits_.nodes) {
    over_limit_ = fmt::format("more than {} literals, classes, groups and quantifiers", limits_.nodes);
  } else if (height > kLevelsPerGroup * (limits_.depth + 1)) {
    over_limit_ = fmt::format("quantifiers and groups nest deeper than {}", kLevelsPerGroup * (limits_.depth + 1));
  }
  if (!over_limit_.empty()) return 0;
  text_.nodes.push_back(std::move(node));
  heights_.push_back(height);
  return static_cast<int>(text_.nodes.size()) - 1;
}

int RuleBuilder::literal(std::string bytes) {
  RuleNode node;
  node.bytes = std::move(bytes);
  return add(std::move(node));
}

int RuleBuilder::chars(CodePointSet set) {
  ranges_ += set.ranges().size();
  if (ranges_ > kMostRangesOfSets && over_limit_.empty())
    over_limit_ = fmt::format("the character classes have more than {} ranges together", kMostRangesOfSets);
  RuleNode node;
  node.kind = RuleNode::Kind::chars;
  node.index = static_cast<int>(text_.sets.size());
  const int index = add(std::move(node));
  if (over_limit_.empty()) text_.sets.push_back(std::move(set));
  return index;
}

int RuleBuilder::concat(const std::vector<int>& children) {
  if (children.empty()) return literal({});
  if (children.size() == 1) return children[0];
  RuleNode node;
  node.kind = RuleNode::Kind::concat;
  node.children = children;
  return add(std::move(node));
}

int RuleBuilder::either(const std::vector<int>& children) {
  if (children.size() == 1) return children[0];
  RuleNode node;
  node.kind = RuleNode::Kind::either;
  node.children = children;
  return add(std::move(node));
}

int RuleBuilder::repeat(int child, RepeatCounts counts) {
  if (counts.high == 0) return literal({});
  if (counts.low == 1 && counts.high == 1) return child;
  RuleNode node;
  node.kind = RuleNode::Kind::repeat;
  node.low = counts.low;
  node.high = counts.high;
  node.children = {child};
  return add(std::move(node));
}

int RuleBuilder::rule_named(std::string_view name, std::size_t where) {
  if (const auto found = rules_.find(name); found != rules_.end()) return found->second;
  if (text_.rules.size() >= limits_.rules && over_limit_.empty())
    over_limit_ = fmt::format("more than {} rules", limits_.rules);
  if (!over_limit_.empty()) return 0;
  const int rule = static_cast<int>(text_.rules.size());
  rules_.emplace(name, rule);
  text_.rules.push_back({std::string(name), -1});
  names_.push_back({where, kUndefined});
  return rule;
}

int RuleBuilder::reference(std::string_view name, std::size_t where) {
  RuleNode node;
  node.kind = RuleNode::Kind::rule;
  node.index = rule_named(name, where);
  return add(std::move(node));
}

Result<int> RuleBuilder::define(std::string_view name, std::size_t where) {
  const int rule = rule_named(name, where);
  ESP_CHECK(within_limits(where));
  Name& known = names_[static_cast<std::size_t>(rule)];
  if (known.defined != kUndefined)
    return cursor_.invalid(where, fmt::format("{} is defined a second time, after line {}", in_quotes(name),
                                              cursor_.line_of(known.defined)));
  known.defined = where;
  return rule;
}

Result<> RuleBuilder::within_limits(std::size_t where) const {
  if (!over_limit_.empty()) return cursor_.too_complex(where, over_limit_);
  return success();
}

Result<RuleText> RuleBuilder::finish(std::string_view start) {
  ESP_CHECK(within_limits(cursor_.offset()));
  for (std::size_t rule = 0; rule < names_.size(); ++rule)
    if (names_[rule].defined == kUndefined)
      return cursor_.invalid(names_[rule].mentioned,
                             fmt::format("{} is not defined", in_quotes(text_.rules[rule].name)));
  const auto found = rules_.find(start);
  if (found == rules_.end())
    return cursor_.invalid(0, fmt::format("a rule named {}, where every text begins, is missing", in_quotes(start)));
  text_.start = found->second;
  return std::move(text_);
}

void RuleBody::next_alternative() {
  Group& group = groups_.back();
  group.alternatives.push_back(builder_.concat(group.sequence));
  group.sequence.clear();
}

Result<> RuleBody::repeat(RepeatCounts counts, std::size_t where) {
  std::vector<int>& sequence = groups_.back().sequence;
  if (sequence.empty()) return cursor_.invalid(where, "there is nothing before this quantifier to repeat");
  sequence.back() = builder_.repeat(sequence.back(), counts);
  return success();
}

Result<> RuleBody::open(char bracket, std::size_t where) {
  const auto open_now = static_cast<int>(groups_.size()) - 1;
  if (open_now >= builder_.limits().depth)
    return cursor_.too_complex(where, fmt::format("more than {} brackets are open at once", builder_.limits().depth));
  groups_.push_back({bracket, where, {}, {}});
  return success();
}

Result<> RuleBody::close(char bracket, std::size_t where) {
  const char opening = bracket == ')' ? '(' : '[';
  if (!in_group()) return cursor_.invalid(where, fmt::format("'{}' closes nothing", bracket));
  if (groups_.back().bracket != opening)
    return cursor_.invalid(where, fmt::format("'{}' stands here, but '{}' of line {} is open", bracket,
                                              groups_.back().bracket, cursor_.line_of(groups_.back().where)));
  next_alternative();
  const int node = builder_.either(groups_.back().alternatives);
  groups_.pop_back();
  add(opening == '[' ? builder_.repeat(node, {0, 1}) : node);
  return success();
}

Error RuleBody::unclosed() const {
  return cursor_.invalid(groups_.back().where, fmt::format("'{}' is not closed", groups_.back().bracket));
}

Result<int> RuleBody::finish() {
  if (in_group()) return unclosed();
  next_alternative();
  const int node = builder_.either(groups_.back().alternatives);
  groups_.back() = {};
  return node;
}

}  // namespace espalier::grammar
