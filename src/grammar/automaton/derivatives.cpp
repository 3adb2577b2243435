#include "grammar/automaton/derivatives.h"

#include <algorithm>

#include "grammar/automaton/expression.h"

namespace espalier::grammar {

Steps Derivatives::steps(Expression e) {
  if (store_.known(e).steps == KnownOfExpression::kUnknown) {
    Found found = find(e);
    std::erase_if(found.first, [](const Step& step) { return step.to == ExpressionStore::nothing; });
    const std::uint32_t list = keep(found);
    store_.known(e).steps = list;
  }
  return step_lists_[store_.known(e).steps];
}

void Derivatives::keep_only(Expression e, const std::vector<Step>& bytes) {
  const Steps all = steps(e);
  const std::uint32_t list = keep({bytes, {all.calls.begin(), all.calls.end()}});
  store_.known(e).steps = list;
}

Expression Derivatives::expanded(Expression later) {
  if (const auto known = expansions_.find(later); known != expansions_.end()) return known->second;
  const Expression given = store_.sources().expand(store_.payload(later));
  if (!store_.exhausted()) expansions_.emplace(later, given);
  return given;
}

// Splits overlapping sets; what several steps lead to becomes their alternatives. Steps to the same place are joined.
void Derivatives::make_disjoint(std::vector<Step>& steps) {
  struct Class {
    ByteSet on;
    std::vector<Expression> to;
  };
  ByteSet seen;
  bool overlap = false;
  for (const Step& step : steps) {
    overlap |= !(seen & step.on).empty();
    seen = seen | step.on;
  }
  if (overlap) {
    std::vector<Class> classes;
    for (const Step& step : steps) {
      ByteSet left = step.on;
      for (std::size_t i = 0, count = classes.size(); i < count && !left.empty(); ++i) {
        const ByteSet common = classes[i].on & left;
        if (common.empty()) continue;
        left = left - common;
        if (common == classes[i].on) {
          classes[i].to.push_back(step.to);
          continue;
        }
        classes[i].on = classes[i].on - common;
        Class split{common, classes[i].to};
        split.to.push_back(step.to);
        classes.push_back(std::move(split));
      }
      if (!left.empty()) classes.push_back({left, {step.to}});
    }
    steps.clear();
    for (Class& one : classes) steps.push_back({one.on, store_.either(std::move(one.to))});
  }
  if (steps.size() < 2) return;
  std::ranges::sort(steps, {}, &Step::to);
  std::size_t kept = 0;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (steps[i].to == steps[kept].to) {
      steps[kept].on = steps[kept].on | steps[i].on;
    } else {
      steps[++kept] = steps[i];
    }
  }
  steps.resize(kept + 1);
}

std::uint32_t Derivatives::keep(const Found& found) {
  step_lists_.push_back({step_pool_.add(found.first), opening_pool_.add(found.second)});
  return static_cast<std::uint32_t>(step_lists_.size() - 1);
}

Derivatives::Found Derivatives::find(Expression e) {
  const ExpressionNode node = store_.node(e);
  switch (node.op) {
    case Op::nothing:
    case Op::empty:
      return {};
    case Op::bytes:
      return {{{store_.set(e), ExpressionStore::empty}}, {}};
    case Op::literal:
      return {{{ByteSet::of(static_cast<unsigned char>(store_.literal(e)[0])), store_.suffix(e)}}, {}};
    case Op::concat:
      return of_concat(node.a, node.b);
    case Op::either:
      return of_either(e);
    case Op::both:
      return of_both(e);
    case Op::negation:
      return of_negation(node.a);
    case Op::repeat:
      return of_repeat(e);
    case Op::call:
      return {{}, {{node.a, ExpressionStore::empty}}};
    case Op::lexeme:
      return of_lexeme(e);
    case Op::later: {
      const Steps of_it = steps(expanded(e));
      return {{of_it.bytes.begin(), of_it.bytes.end()}, {of_it.calls.begin(), of_it.calls.end()}};
    }
  }
  return {};
}

Derivatives::Found Derivatives::of_concat(Expression first, Expression rest) {
  Found found;
  const Steps of_first = steps(first);
  for (const Step& step : of_first.bytes) found.first.push_back({step.on, store_.concat(step.to, rest)});
  for (const Opening& call : of_first.calls) found.second.push_back({call.rule, store_.concat(call.rest, rest)});
  if (!store_.nullable(first)) return found;
  const Steps of_rest = steps(rest);
  found.first.insert(found.first.end(), of_rest.bytes.begin(), of_rest.bytes.end());
  found.second.insert(found.second.end(), of_rest.calls.begin(), of_rest.calls.end());
  make_disjoint(found.first);
  return found;
}

Derivatives::Found Derivatives::of_either(Expression e) {
  Found found;
  for (const Expression part : store_.parts(e)) {
    const Steps of_part = steps(part);
    found.first.insert(found.first.end(), of_part.bytes.begin(), of_part.bytes.end());
    found.second.insert(found.second.end(), of_part.calls.begin(), of_part.calls.end());
  }
  make_disjoint(found.first);
  return found;
}

Derivatives::Found Derivatives::of_both(Expression e) {
  const auto operands = store_.parts(e);
  const auto first = steps(operands[0]).bytes;
  std::vector<std::pair<ByteSet, std::vector<Expression>>> common;
  for (const Step& step : first) common.push_back({step.on, {step.to}});
  for (std::size_t i = 1; i < operands.size(); ++i) {
    std::vector<std::pair<ByteSet, std::vector<Expression>>> narrower;
    const auto of_operand = steps(operands[i]).bytes;
    for (const auto& [on, to] : common) {
      for (const Step& step : of_operand) {
        const ByteSet shared = on & step.on;
        if (shared.empty()) continue;
        narrower.emplace_back(shared, to);
        narrower.back().second.push_back(step.to);
      }
    }
    common = std::move(narrower);
  }
  Found found;
  for (auto& [on, to] : common) found.first.push_back({on, store_.both(std::move(to))});
  make_disjoint(found.first);
  return found;
}

Derivatives::Found Derivatives::of_negation(Expression operand) {
  Found found;
  ByteSet rest = ByteSet::all();
  for (const Step& step : steps(operand).bytes) {
    found.first.push_back({step.on, store_.negation(step.to)});
    rest = rest - step.on;
  }
  if (!rest.empty()) found.first.push_back({rest, store_.anything()});
  make_disjoint(found.first);
  return found;
}

Derivatives::Found Derivatives::of_repeat(Expression e) {
  const Expression item = store_.operand(e), more = after_one(e);
  Found found;
  const Steps of_item = steps(item);
  for (const Step& step : of_item.bytes) found.first.push_back({step.on, store_.concat(step.to, more)});
  for (const Opening& call : of_item.calls) found.second.push_back({call.rule, store_.concat(call.rest, more)});
  return found;
}

// The similar word reads along; where it cannot it is `nothing`.
Derivatives::Found Derivatives::of_lexeme(Expression e) {
  const Expression word = store_.operand(e), like = store_.like(e);
  Found found;
  const auto beside = like == ExpressionStore::nothing ? std::span<const Step>() : steps(like).bytes;
  for (const Step& step : steps(word).bytes) {
    ByteSet rest = step.on;
    for (const Step& other : beside) {
      const ByteSet shared = step.on & other.on;
      if (shared.empty()) continue;
      found.first.push_back({shared, store_.read_lexeme(step.to, other.to)});
      rest = rest - shared;
    }
    if (!rest.empty()) found.first.push_back({rest, store_.read_lexeme(step.to)});
  }
  make_disjoint(found.first);
  return found;
}

// What may follow the first item.
Expression Derivatives::after_one(Expression repetition) {
  const std::uint32_t least = store_.low(repetition), most = store_.high(repetition);
  return store_.repeat(store_.operand(repetition), least == 0 ? 0 : least - 1,
                       most == ExpressionStore::unbounded ? ExpressionStore::unbounded : most - 1);
}

Expression Derivatives::after(Expression e, unsigned char byte) {
  if (store_.known(e).steps == KnownOfExpression::kUnknown) return after_parts(e, byte);
  for (const Step& step : step_lists_[store_.known(e).steps].bytes)
    if (step.on.contains(byte)) return step.to;
  return ExpressionStore::nothing;
}

// From what it is made of.
Expression Derivatives::after_parts(Expression e, unsigned char byte) {
  const ExpressionNode node = store_.node(e);
  switch (node.op) {
    case Op::bytes:
      return store_.set(e).contains(byte) ? ExpressionStore::empty : ExpressionStore::nothing;
    case Op::literal:
      return static_cast<unsigned char>(store_.literal(e)[0]) == byte ? store_.suffix(e) : ExpressionStore::nothing;
    case Op::concat: {
      const Expression of_first = store_.concat(after(node.a, byte), node.b);
      const Expression of_rest = store_.nullable(node.a) ? after(node.b, byte) : ExpressionStore::nothing;
      return of_first == ExpressionStore::nothing || of_rest == ExpressionStore::nothing
                 ? of_first | of_rest
                 : store_.either(of_first, of_rest);
    }
    case Op::either:
    case Op::both: {
      std::vector<Expression> left;
      for (const Expression part : store_.parts(e)) {
        left.push_back(after(part, byte));
        if (left.back() != ExpressionStore::nothing) continue;
        if (node.op == Op::both) return ExpressionStore::nothing;
        left.pop_back();
      }
      return node.op == Op::both ? store_.both(std::move(left)) : store_.either(std::move(left));
    }
    case Op::negation:
      return store_.negation(after(node.a, byte));
    case Op::repeat: {
      const Expression of_item = after(node.a, byte);
      return of_item == ExpressionStore::nothing ? ExpressionStore::nothing : store_.concat(of_item, after_one(e));
    }
    case Op::lexeme:
      return store_.read_lexeme(after(node.a, byte), after(node.b, byte));
    case Op::later:
      return after(expanded(e), byte);
    default:
      return ExpressionStore::nothing;
  }
}

}  // namespace espalier::grammar
