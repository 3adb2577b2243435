#include "grammar/rules/rule_grammar.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace espalier::grammar {
namespace {

using Kind = RuleNode::Kind;
constexpr std::size_t kSmallRule = 48;          // nodes of a rule that becomes part of its callers
constexpr std::size_t kMostLeftRecursive = 64;  // through one another: their equations are squared

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

RuleGrammar::RuleGrammar(ExpressionStore& store, const RuleText& rules)
    : store_(store), text_(rules), spelling_(store, Spelling::Kind::plain) {}

Result<std::unique_ptr<RuleGrammar>> RuleGrammar::make(ExpressionStore& store, const RuleText& rules) {
  std::unique_ptr<RuleGrammar> grammar(new RuleGrammar(store, rules));
  store.sources().add(*grammar);
  ESP_CHECK(grammar->build());
  return grammar;
}

Result<> RuleGrammar::build() {
  productive_ = spread([](const RuleText& text, const RuleNode& node) {
    return node.kind == Kind::literal || !text.sets[at(node.index)].empty();
  });
  nullable_ =
      spread([](const RuleText&, const RuleNode& node) { return node.kind == Kind::literal && node.bytes.empty(); });
  const auto start = at(text_.start);
  if (!productive_[at(body(start))])
    return bad_request("grammar: the start rule allows no text", "", "grammar_invalid");
  for (const CodePointSet& set : text_.sets) sets_.push_back(spelling_.character(set));
  not_empty_.assign(text_.nodes.size(), ExpressionStore::nothing);
  bodies_.assign(text_.rules.size(), ExpressionStore::nothing);
  uses_.assign(text_.rules.size(), ExpressionStore::nothing);
  weights_.assign(text_.rules.size(), 0);
  for (const std::size_t rule : callees_first()) write_rule(rule);
  ESP_CHECK(remove_left_recursion());
  root_ = uses_[start];
  if (nullable_[at(body(start))]) root_ = store_.optional(root_);
  return success();
}

// ---- what rules can do

// The nodes that have what some leaves have, a choice when one of its ways has it, a sequence when all its parts do,
// and a repeat that may be left out always. Each node is looked at once, from what it consists of to where it is used.
std::vector<bool> RuleGrammar::spread(bool (*leaf)(const RuleText&, const RuleNode&)) const {
  std::vector<std::vector<int>> users(text_.nodes.size());
  std::vector<std::size_t> waits(text_.nodes.size());
  std::vector<int> reached;
  for (std::size_t i = 0; i < text_.nodes.size(); ++i) {
    const RuleNode& node = text_.nodes[i];
    const int index = static_cast<int>(i);
    const bool all = node.kind == Kind::concat, free = node.kind == Kind::repeat && node.low == 0;
    waits[i] = all ? node.children.size() : free ? 0 : 1;
    if (node.kind == Kind::rule) users[at(body(at(node.index)))].push_back(index);
    for (const int child : node.children) users[at(child)].push_back(index);
    const bool is_leaf = node.kind == Kind::literal || node.kind == Kind::chars;
    if (is_leaf ? leaf(text_, node) : waits[i] == 0) reached.push_back(index);
  }
  std::vector<bool> has(text_.nodes.size());
  for (const int node : reached) has[at(node)] = true;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (const int user : users[at(reached[i])]) {
      if (has[at(user)] || --waits[at(user)] > 0) continue;
      has[at(user)] = true;
      reached.push_back(user);
    }
  }
  return has;
}

std::vector<int> RuleGrammar::nodes_of(std::size_t rule) const {
  std::vector<int> nodes{text_.rules[rule].body};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& children = text_.nodes[at(nodes[i])].children;
    nodes.insert(nodes.end(), children.begin(), children.end());
  }
  std::ranges::sort(nodes);  // children before parents
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

// Rules behind those that they call, as far as no ring forbids it; members of rings last.
std::vector<std::size_t> RuleGrammar::callees_first() const {
  std::vector<std::vector<std::size_t>> callers(text_.rules.size());
  std::vector<std::size_t> waits(text_.rules.size()), order;
  for (std::size_t rule = 0; rule < text_.rules.size(); ++rule) {
    for (const int node : nodes_of(rule)) {
      if (text_.nodes[at(node)].kind != Kind::rule) continue;
      callers[at(text_.nodes[at(node)].index)].push_back(rule);
      ++waits[rule];
    }
    if (waits[rule] == 0) order.push_back(rule);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const std::size_t caller : callers[order[i]]) {
      if (--waits[caller] == 0) order.push_back(caller);
    }
  }
  for (std::size_t rule = 0; rule < text_.rules.size(); ++rule) {
    if (waits[rule] > 0) order.push_back(rule);
  }
  return order;
}

// ---- rules to expressions

Expression RuleGrammar::whole(int node) const {
  const Expression e = not_empty_[at(node)];
  return nullable_[at(node)] ? store_.optional(e) : e;
}

void RuleGrammar::write_node(int index) {
  const RuleNode& node = text_.nodes[at(index)];
  Expression& out = not_empty_[at(index)];
  switch (node.kind) {
    case Kind::literal:
      out = node.bytes.empty() ? ExpressionStore::nothing : store_.text(node.bytes);
      return;
    case Kind::chars:
      out = sets_[at(node.index)];
      return;
    case Kind::rule: {
      const auto rule = at(node.index);
      const bool written = uses_[rule] != ExpressionStore::nothing;
      out = !productive_[at(index)] ? ExpressionStore::nothing
            : written               ? uses_[rule]
                                    : store_.call(static_cast<Rule>(rule));
      return;
    }
    case Kind::either: {
      std::vector<Expression> ways;
      for (const int child : node.children) ways.push_back(not_empty_[at(child)]);
      out = store_.either(std::move(ways));
      return;
    }
    case Kind::concat: {
      // Some part is the first that is not empty.
      const auto may_be_empty = [&](int child) { return bool{nullable_[at(child)]}; };
      const auto must = std::ranges::find_if_not(node.children, may_be_empty) - node.children.begin();
      std::vector<Expression> ways;
      Expression behind = ExpressionStore::empty;
      for (std::size_t i = node.children.size(); i-- > 0;) {
        const int child = node.children[i];
        if (static_cast<std::ptrdiff_t>(i) <= must) ways.push_back(store_.concat(not_empty_[at(child)], behind));
        behind = store_.concat(whole(child), behind);
      }
      out = store_.either(std::move(ways));
      return;
    }
    case Kind::repeat: {
      const int child = node.children[0];
      if (node.high == 0) return;
      const bool open = node.high == RuleNode::kUnbounded;
      const std::uint32_t more = open ? ExpressionStore::unbounded : static_cast<std::uint32_t>(node.high - 1);
      const bool any_count = nullable_[at(child)] || node.low == 0;
      const std::uint32_t least = any_count ? 0 : static_cast<std::uint32_t>(node.low - 1);
      const Expression item = not_empty_[at(child)];
      out = store_.concat(item, store_.repeat(item, least, more));
      return;
    }
  }
}

void RuleGrammar::write_rule(std::size_t rule) {
  const std::vector<int> nodes = nodes_of(rule);
  std::size_t weight = nodes.size();
  for (const int node : nodes) {
    if (text_.nodes[at(node)].kind == Kind::rule) weight += weights_[at(text_.nodes[at(node)].index)];
    write_node(node);
  }
  bodies_[rule] = not_empty_[at(text_.rules[rule].body)];
  const bool small = weight <= kSmallRule && !store_.calls(bodies_[rule]);
  weights_[rule] = small ? weight : 1;
  if (bodies_[rule] == ExpressionStore::nothing) return;
  uses_[rule] = small ? bodies_[rule] : store_.call(static_cast<Rule>(rule));
}

// ---- left recursion

Expression RuleGrammar::without_empty(Expression e) {
  if (!store_.nullable(e)) return e;
  std::vector<Expression> ways;
  const Steps steps = store_.steps(e);
  for (const Step& step : steps.bytes) ways.push_back(store_.concat(store_.bytes(step.on), step.to));
  for (const Opening& call : steps.calls) ways.push_back(store_.concat(store_.call(call.rule), call.rest));
  return store_.either(std::move(ways));
}

// Rules that can begin with one another, in rings (Tarjan's components, without recursion).
std::vector<std::vector<Rule>> RuleGrammar::left_recursive_sets() {
  const auto rules = static_cast<Rule>(text_.rules.size());
  std::vector<std::vector<Rule>> first(rules);
  for (Rule rule = 0; rule < rules; ++rule) {
    for (const Opening& call : store_.steps(bodies_[rule]).calls) first[rule].push_back(call.rule);
  }
  std::vector<std::vector<Rule>> sets;
  std::vector<int> number(rules, -1), lowest(rules);
  std::vector<bool> open(rules);
  std::vector<Rule> stack;
  std::vector<std::pair<Rule, std::size_t>> path;
  int next = 0;
  for (Rule root = 0; root < rules; ++root) {
    if (number[root] >= 0) continue;
    path.push_back({root, 0});
    while (!path.empty()) {
      auto& [rule, edge] = path.back();
      if (edge == 0 && number[rule] < 0) {
        number[rule] = lowest[rule] = next++;
        stack.push_back(rule);
        open[rule] = true;
      }
      if (edge < first[rule].size()) {
        const Rule to = first[rule][edge++];
        if (number[to] < 0)
          path.push_back({to, 0});
        else if (open[to])
          lowest[rule] = std::min(lowest[rule], number[to]);
        continue;
      }
      const Rule done = rule;
      path.pop_back();
      if (!path.empty()) lowest[path.back().first] = std::min(lowest[path.back().first], lowest[done]);
      if (lowest[done] != number[done]) continue;
      std::vector<Rule> set;
      for (bool more = true; more;) {
        set.push_back(stack.back());
        open[stack.back()] = false;
        more = stack.back() != done;
        stack.pop_back();
      }
      const bool ring = set.size() > 1 || std::ranges::find(first[done], done) != first[done].end();
      if (ring) sets.push_back(std::move(set));
    }
  }
  return sets;
}

Result<> RuleGrammar::remove_left_recursion() {
  for (const std::vector<Rule>& set : left_recursive_sets()) {
    if (set.size() > kMostLeftRecursive) {
      return bad_request(
          "grammar: more than 64 rules are left-recursive through one another; begin them with what they "
          "read first",
          "", "grammar_too_complex");
    }
    turn_right(set);
  }
  return success();
}

// For rules A_i = A_j L_ij | N_i: a text of A_i is some N_j and then what leads from j to i, a word of the new rule
// T_ji = L_kj T_ki | (the empty text, for j = i).
void RuleGrammar::turn_right(const std::vector<Rule>& rules) {
  const std::size_t count = rules.size();
  const auto place = [&](Rule rule) {
    return static_cast<std::size_t>(std::ranges::find(rules, rule) - rules.begin());
  };
  std::vector<Expression> plain(count, ExpressionStore::nothing);  // N_i
  std::vector<std::vector<std::vector<Expression>>> left(count, std::vector<std::vector<Expression>>(count));
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Expression> ways;
    const Steps steps = store_.steps(bodies_[rules[i]]);
    for (const Step& step : steps.bytes) ways.push_back(store_.concat(store_.bytes(step.on), step.to));
    for (const Opening& call : steps.calls) {
      const std::size_t j = place(call.rule);
      if (j == count)
        ways.push_back(store_.concat(store_.call(call.rule), call.rest));
      else if (i != j || call.rest != ExpressionStore::empty)
        left[i][j].push_back(call.rest);
    }
    plain[i] = store_.either(std::move(ways));
  }
  // T_from,to may be empty where only empty words lead from one to the other.
  std::vector<std::vector<bool>> may_be_empty(count, std::vector<bool>(count));
  for (std::size_t i = 0; i < count; ++i) may_be_empty[i][i] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t from = 0; from < count; ++from) {
      for (std::size_t k = 0; k < count; ++k) {
        const bool steps = std::ranges::any_of(left[k][from], [&](Expression rest) { return store_.nullable(rest); });
        for (std::size_t to = 0; steps && to < count; ++to) {
          if (may_be_empty[from][to] || !may_be_empty[k][to]) continue;
          may_be_empty[from][to] = changed = true;
        }
      }
    }
  }
  const auto base = static_cast<Rule>(bodies_.size());
  bodies_.resize(bodies_.size() + count * count, ExpressionStore::nothing);
  const auto leads = [&](std::size_t from, std::size_t to) {  // T_from,to, with the empty text where it may be
    const Expression call = store_.call(base + static_cast<Rule>(from * count + to));
    return may_be_empty[from][to] ? store_.optional(call) : call;
  };
  for (std::size_t from = 0; from < count; ++from) {
    for (std::size_t to = 0; to < count; ++to) {
      std::vector<Expression> ways;
      for (std::size_t k = 0; k < count; ++k) {
        for (const Expression rest : left[k][from]) {
          ways.push_back(store_.concat(without_empty(rest), leads(k, to)));
          if (store_.nullable(rest)) ways.push_back(store_.call(base + static_cast<Rule>(k * count + to)));
        }
      }
      bodies_[base + from * count + to] = store_.either(std::move(ways));
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Expression> ways;
    for (std::size_t j = 0; j < count; ++j) ways.push_back(store_.concat(plain[j], leads(j, i)));
    bodies_[rules[i]] = store_.either(std::move(ways));
  }
}

}  // namespace espalier::grammar
