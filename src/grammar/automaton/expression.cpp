#include "grammar/automaton/expression.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace espalier::grammar {
namespace {

constexpr std::size_t kLiteralBytes = 64;  // longer texts are chains, so that hashing a suffix stays cheap

void flatten(const ExpressionNodes& nodes, std::vector<Expression>& parts_given, Op wanted) {
  for (std::size_t i = 0; i < parts_given.size(); ++i) {
    if (nodes.op(parts_given[i]) != wanted) continue;
    const auto inner = nodes.parts(parts_given[i]);
    parts_given[i] = inner[0];
    parts_given.insert(parts_given.end(), inner.begin() + 1, inner.end());
  }
}

}  // namespace

ExpressionStore::ExpressionStore(std::size_t most_nodes)
    : ExpressionNodes(most_nodes), needless_(*this), derivatives_(*this), possible_(*this, derivatives_) {
  intern(ExpressionNode{.op = Op::nothing});
  intern(ExpressionNode{.op = Op::empty, .flags = ExpressionNode::kNullable});
  anything_ = star(bytes(ByteSet::all()));
}

void ExpressionStore::set_any_character(Alphabet alphabet, Expression any) {
  set_characters(alphabet, any);
  needless_.set_any_text(alphabet, star(any));
}

Expression ExpressionStore::bytes(const ByteSet& set) {
  if (set.empty()) return nothing;
  return intern(ExpressionNode{.op = Op::bytes, .a = set_index(set)});
}

Expression ExpressionStore::text(std::string_view whole) {
  if (whole.empty()) return empty;
  const std::string_view kept = keep(whole);
  Expression result = empty;
  for (std::size_t end = kept.size(); end > 0;) {
    const std::size_t size = (end - 1) % kLiteralBytes + 1;
    const std::string_view piece = kept.substr(end - size, size);
    const Expression head =
        size == 1 ? bytes(ByteSet::of(static_cast<unsigned char>(piece[0])))
                  : intern(ExpressionNode{.op = Op::literal, .b = static_cast<std::uint32_t>(size)}, {}, piece);
    result = concat(head, result);
    end -= size;
  }
  return result;
}

// Built from the sorted texts: those that share a beginning are neighbours.
Expression ExpressionStore::any_of(std::vector<std::string_view> texts) {
  struct Branch {
    std::size_t depth;  // bytes that all below it begin with
    std::vector<Expression> ways;
  };
  const auto shared = [&](std::size_t i) {  // of a text and the next
    if (i + 1 >= texts.size()) return std::size_t{0};
    return static_cast<std::size_t>(std::ranges::mismatch(texts[i], texts[i + 1]).in1 - texts[i].begin());
  };
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  std::vector<Branch> path{{0, {}}};
  const auto reach = [&](std::size_t depth) {
    if (path.back().depth < depth) path.push_back({depth, {}});
  };
  for (std::size_t i = 0; i < texts.size() && !exhausted(); ++i) {
    const std::size_t next = shared(i);
    reach(next);
    path.back().ways.push_back(text(texts[i].substr(path.back().depth)));
    while (path.back().depth > next) {
      Branch done = std::move(path.back());
      path.pop_back();
      reach(next);
      const std::size_t from = path.back().depth;
      path.back().ways.push_back(concat(text(texts[i].substr(from, done.depth - from)), either(std::move(done.ways))));
    }
  }
  return either(std::move(path.front().ways));
}

// The literal without its first byte.
Expression ExpressionStore::suffix(Expression e) {
  const std::string_view rest = literal(e).substr(1);
  if (rest.size() == 1) return bytes(ByteSet::of(static_cast<unsigned char>(rest[0])));
  return intern(ExpressionNode{.op = Op::literal, .b = static_cast<std::uint32_t>(rest.size())}, {}, rest);
}

Expression ExpressionStore::concat(Expression first, Expression rest) {
  if (first == nothing || rest == nothing) return nothing;
  if (first == empty) return rest;
  if (rest == empty) return first;
  if (op(first) == Op::concat) {  // lean to the right, without recursion
    std::vector<Expression> heads;
    for (; op(first) == Op::concat; first = nodes_[first].b) heads.push_back(nodes_[first].a);
    rest = concat(first, rest);
    for (; !heads.empty(); heads.pop_back()) rest = concat(heads.back(), rest);
    return rest;
  }
  if (op(first) == Op::repeat) {
    const Expression next = op(rest) == Op::concat ? nodes_[rest].a : rest;
    if (op(next) == Op::repeat && nodes_[next].a == nodes_[first].a) {
      const std::uint64_t least = std::uint64_t{low(first)} + low(next), most = std::uint64_t{high(first)} + high(next);
      const bool open = high(first) == unbounded || high(next) == unbounded;
      if (least < unbounded && (open || most < unbounded)) {
        const Expression joined = repeat(nodes_[first].a, static_cast<std::uint32_t>(least),
                                         open ? unbounded : static_cast<std::uint32_t>(most));
        return op(rest) == Op::concat ? concat(joined, nodes_[rest].b) : joined;
      }
    }
  }
  const bool may_be_empty = nullable(first) && nullable(rest);
  const auto flags =
      static_cast<std::uint8_t>((may_be_empty ? ExpressionNode::kNullable : 0) | inherited(std::array{first, rest}));
  return intern(ExpressionNode{.op = Op::concat, .flags = flags, .a = first, .b = rest});
}

Expression ExpressionStore::concat(std::initializer_list<Expression> parts) {
  Expression result = empty;
  for (const Expression* part = parts.end(); part != parts.begin();) result = concat(*--part, result);
  return result;
}

// Alternatives of one byte each become one set.
void ExpressionStore::merge_bytes(std::vector<Expression>& parts_given) {
  const auto is_bytes = [&](Expression e) { return op(e) == Op::bytes; };
  if (std::ranges::count_if(parts_given, is_bytes) < 2) return;
  ByteSet all;
  for (const Expression part : parts_given) {
    if (is_bytes(part)) all = all | set(part);
  }
  std::erase_if(parts_given, is_bytes);
  parts_given.push_back(bytes(all));
}

// `x{0,5}t | x{3,9}t` is `x{0,9}t`: without this, counters inside counters would multiply.
void ExpressionStore::join_counters(std::vector<Expression>& parts_given) {
  struct Counter {
    Expression item = 0, tail = 0;
    std::uint32_t low = 0, high = 0;
  };
  std::vector<Counter> counters;
  const auto take = [&](Expression e) {
    const Expression head = op(e) == Op::concat ? nodes_[e].a : e;
    if (op(head) != Op::repeat) return false;
    counters.push_back({nodes_[head].a, op(e) == Op::concat ? nodes_[e].b : empty, low(head), high(head)});
    return true;
  };
  const auto is_counter = [&](Expression e) { return op(op(e) == Op::concat ? nodes_[e].a : e) == Op::repeat; };
  if (std::ranges::count_if(parts_given, is_counter) < 2) return;
  std::erase_if(parts_given, take);
  std::ranges::sort(counters, [](const Counter& a, const Counter& b) {
    return std::tie(a.item, a.tail, a.low, a.high) < std::tie(b.item, b.tail, b.low, b.high);
  });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < counters.size(); ++i) {
    Counter& last = counters[kept];
    const Counter& next = counters[i];
    const bool touches = last.high == unbounded || next.low <= std::uint64_t{last.high} + 1;
    if (last.item == next.item && last.tail == next.tail && touches) {
      last.high = std::max(last.high, next.high);
    } else {
      counters[++kept] = next;
    }
  }
  counters.resize(kept + 1);
  for (const Counter& c : counters) parts_given.push_back(concat(repeat(c.item, c.low, c.high), c.tail));
}

Expression ExpressionStore::either(std::vector<Expression> alternatives) {
  flatten(*this, alternatives, Op::either);
  std::erase(alternatives, nothing);
  if (std::ranges::find(alternatives, anything_) != alternatives.end() && anything_ != nothing) return anything_;
  needless_.drop_alternatives(alternatives);
  merge_bytes(alternatives);
  join_counters(alternatives);
  std::ranges::sort(alternatives);
  alternatives.erase(std::unique(alternatives.begin(), alternatives.end()), alternatives.end());
  const bool needless_empty =
      std::ranges::any_of(alternatives, [&](Expression e) { return e != empty && nullable(e); });
  if (needless_empty) std::erase(alternatives, empty);
  if (alternatives.empty()) return nothing;
  if (alternatives.size() == 1) return alternatives[0];
  const bool may_be_empty = std::ranges::any_of(alternatives, [&](Expression e) { return nullable(e); });
  const auto flags =
      static_cast<std::uint8_t>((may_be_empty ? ExpressionNode::kNullable : 0) | inherited(alternatives));
  return intern(ExpressionNode{.op = Op::either, .flags = flags}, alternatives);
}

Expression ExpressionStore::both(std::vector<Expression> operands) {
  flatten(*this, operands, Op::both);
  std::erase(operands, anything_);
  std::ranges::sort(operands);
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  if (operands.empty()) return anything_;
  if (operands[0] == nothing || !needless_.drop_conditions(operands)) return nothing;
  if (operands.size() == 1) return operands[0];
  const bool may_be_empty = std::ranges::all_of(operands, [&](Expression e) { return nullable(e); });
  if (operands[0] == empty) return may_be_empty ? empty : nothing;
  for (const Expression e : operands) {
    if (op(e) == Op::negation && std::ranges::binary_search(operands, nodes_[e].a)) return nothing;
  }
  if (std::ranges::all_of(operands, [&](Expression e) { return op(e) == Op::bytes; })) {
    ByteSet common = ByteSet::all();
    for (const Expression e : operands) common = common & set(e);
    return bytes(common);
  }
  const auto flags = static_cast<std::uint8_t>((may_be_empty ? ExpressionNode::kNullable : 0) |
                                               ExpressionNode::kBoolean | inherited(operands));
  return intern(ExpressionNode{.op = Op::both, .flags = flags}, operands);
}

Expression ExpressionStore::negation(Expression operand) {
  if (operand == nothing) return anything_;
  if (operand == anything_) return nothing;
  if (op(operand) == Op::negation) return nodes_[operand].a;
  const auto flags = static_cast<std::uint8_t>((nullable(operand) ? 0 : ExpressionNode::kNullable) |
                                               ExpressionNode::kBoolean | inherited({&operand, 1}));
  return intern(ExpressionNode{.op = Op::negation, .flags = flags, .a = operand});
}

Expression ExpressionStore::repeat(Expression operand, std::uint32_t least, std::uint32_t most) {
  if (most == 0) return empty;
  if (operand == nothing) return least == 0 ? empty : nothing;
  if (operand == empty) return empty;
  if (least == 1 && most == 1) return operand;
  if (op(operand) == Op::repeat) {
    // (x{a,b}){c,d} is x{ac,bd} when the counts that it can reach have no gaps.
    const std::uint64_t a = low(operand), b = high(operand), c = least, d = most;
    const bool inner_open = b == unbounded, outer_open = d == unbounded;
    const bool first_step = c == 0 ? a <= 1 : true;  // none, then at least a
    const std::uint64_t from = std::max<std::uint64_t>(c, 1);
    const bool no_gaps = first_step && (inner_open || (from + 1) * a <= from * b + 1 || c == d);
    const std::uint64_t product = inner_open || outer_open ? unbounded : b * d;
    const bool fits = a * c < unbounded && (inner_open || outer_open || product < unbounded);
    if (no_gaps && fits) {
      return repeat(nodes_[operand].a, static_cast<std::uint32_t>(a * c), static_cast<std::uint32_t>(product));
    }
  }
  if (nullable(operand)) least = 0;
  const auto flags =
      static_cast<std::uint8_t>((least == 0 ? ExpressionNode::kNullable : 0) |
                                (most == unbounded ? 0 : ExpressionNode::kCounts) | inherited({&operand, 1}));
  return intern(ExpressionNode{.op = Op::repeat, .flags = flags, .a = operand, .b = least, .c = most});
}

Expression ExpressionStore::call(Rule rule) {
  return intern(ExpressionNode{
      .op = Op::call, .flags = ExpressionNode::kCalls | ExpressionNode::kLocal, .a = sources_.numbered(rule)});
}

Expression ExpressionStore::lexeme(Expression operand, Expression like) {
  const Expression made = read_lexeme(operand, like);
  if (op(made) == Op::lexeme) lexemes_.push_back(made);
  return made;
}

Expression ExpressionStore::read_lexeme(Expression operand, Expression like) {
  if (operand == nothing || operand == empty) return operand;
  if (op(like) == Op::lexeme) like = nodes_[like].a;
  if (like == operand || like == empty) like = nothing;
  const auto flags =
      static_cast<std::uint8_t>((nodes_[operand].flags & ExpressionNode::kNullable) | inherited({&operand, 1}));
  return intern(ExpressionNode{.op = Op::lexeme, .flags = flags, .a = operand, .b = like});
}

Expression ExpressionStore::later(std::uint32_t payload, bool may_be_empty, bool regular) {
  const auto flags = static_cast<std::uint8_t>((may_be_empty ? ExpressionNode::kNullable : 0) | ExpressionNode::kLocal |
                                               (regular ? 0 : ExpressionNode::kCalls));
  return intern(ExpressionNode{.op = Op::later, .flags = flags, .a = sources_.numbered(payload), .b = regular});
}

Expression ExpressionStore::awaiting(std::uint32_t payload, bool few) {
  return intern(ExpressionNode{.op = Op::later,
                               .flags = ExpressionNode::kLocal | ExpressionNode::kCalls,
                               .a = sources_.numbered(payload),
                               .c = few ? 2u : 1u});
}

Expression ExpressionStore::recalled(Expression e, std::string_view given) {
  const bool has_rest = op(e) == Op::concat;
  const Expression behind = has_rest ? rest(e) : empty;
  return concat(sources_.recall(payload(has_rest ? operand(e) : e), given), behind);
}

Expression ExpressionStore::as_short(Expression later) {
  const ExpressionNode node = nodes_[later];
  if (node.c != 0) return later;
  const std::uint32_t number = sources_.as_short(node.a);
  if (number == node.a) return later;
  return intern(ExpressionNode{.op = Op::later, .flags = node.flags, .a = number, .b = node.b});
}

Expression ExpressionStore::after(Expression e, unsigned char byte) {
  for (const Step& step : steps(e).bytes) {
    if (step.on.contains(byte)) return step.to;
  }
  return nothing;
}

bool ExpressionStore::accepts(Expression e, std::string_view text) {
  for (const char byte : text) {
    e = after(e, static_cast<unsigned char>(byte));
    if (e == nothing) return false;
  }
  return nullable(e);
}

}  // namespace espalier::grammar
