#include "grammar/automaton/expression.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <tuple>
#include <unordered_set>

#include "base/yield_to_model.h"
#include "grammar/automaton/hashing.h"

namespace espalier::grammar {
namespace {

// For which room is kept, so that no mask waits until all have moved; what is not used of it takes no memory.
constexpr std::size_t kRoom = 1 << 16;
constexpr std::size_t kLiteralBytes = 64;      // longer texts are chains, so that hashing a suffix stays cheap
constexpr std::size_t kSearchNodes = 300'000;  // that a search for a possible text may visit
constexpr std::size_t kShortSearchNodes = 32;  // and one for a short text

// Nobody outside the process can make two expressions share a fingerprint, which masks are shared by.
std::uint64_t process_seed() {
  static const std::uint64_t seed = (std::uint64_t{std::random_device{}()} << 32) ^ std::random_device{}();
  return seed;
}

}  // namespace

ExpressionStore::ExpressionStore(std::size_t most_nodes) : most_nodes_(most_nodes) {
  table_.resize(256);
  nodes_.reserve(kRoom);
  part_lists_.reserve(kRoom / 2);
  intern(Node{.op = Op::nothing});
  intern(Node{.op = Op::empty, .flags = kNullable});
  anything_ = star(bytes(ByteSet::all()));
}

std::size_t ExpressionStore::memory() const {
  return nodes_.size() * sizeof(Node) + table_.capacity() * 4 + part_pool_.memory() + text_pool_.memory() +
         step_pool_.memory() + opening_pool_.memory() + step_lists_.size() * sizeof(Steps) +
         part_lists_.size() * sizeof(std::span<const Expression>) + texts_.size() * sizeof(const char*) +
         sets_.capacity() * sizeof(ByteSet);
}

std::span<const Expression> ExpressionStore::parts(Expression e) const {
  return part_lists_[nodes_[e].a];
}

std::string_view ExpressionStore::literal(Expression e) const {
  return {texts_[nodes_[e].a], nodes_[e].b};
}

std::uint8_t ExpressionStore::inherited(std::span<const Expression> parts) const {
  std::uint8_t flags = 0;
  for (const Expression part : parts) flags |= inherited(part);
  return flags;
}

bool ExpressionStore::spend() {
  constexpr std::uint32_t kBetweenLooks = 512, kBetweenSteps = 32;
  if (spent_ % kBetweenSteps == 0) yield_to_model();
  if (++spent_ % kBetweenLooks == 0) {
    const auto now = std::chrono::steady_clock::now();
    check_long_work(now);
    const bool late = now > deadline_ || (allowance_ && allowance_->used_up());
    if (late || (room_ && !room_())) exhausted_ = true;
  }
  return !exhausted_;
}

// ---- keeping every expression once

std::uint64_t ExpressionStore::hash_of(const Node& node, std::span<const Expression> parts,
                                       std::string_view text) const {
  std::uint64_t hash = mix(process_seed(), static_cast<std::uint64_t>(node.op) * 8 + (node.flags & kNullable));
  const auto operand = [&](Expression e) { hash = mix(hash, nodes_[e].hash); };
  switch (node.op) {
    case Op::nothing:
    case Op::empty:
      break;
    case Op::bytes:
      for (const std::uint64_t word : sets_[node.a].words()) hash = mix(hash, word);
      break;
    case Op::literal:
      hash = mix(hash, text.size());
      for (std::size_t i = 0; i < text.size(); i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, text.data() + i, std::min<std::size_t>(8, text.size() - i));
        hash = mix(hash, word);
      }
      break;
    case Op::concat:
      operand(node.a), operand(node.b);
      break;
    case Op::either:
    case Op::both: {
      // Children stand in the order of their numbers, which differs between stores: an order-free sum.
      std::uint64_t sum = 0;
      for (const Expression part : parts) sum += mix(node.flags, nodes_[part].hash);
      hash = mix(hash, sum);
      break;
    }
    case Op::negation:
      operand(node.a);
      break;
    case Op::repeat:
      operand(node.a);
      hash = mix(hash, (std::uint64_t{node.b} << 32) | node.c);
      break;
    case Op::lexeme:
      operand(node.a), operand(node.b);
      break;
    case Op::call:
    case Op::later:
      hash = mix(hash, (std::uint64_t{node.a} << 32) | node.b);
      break;
  }
  return hash;
}

bool ExpressionStore::same(const Node& node, const Node& other, std::span<const Expression> parts,
                           std::string_view text) const {
  const bool alike = node.op == other.op && ((node.flags ^ other.flags) & ~kCharacters) == 0;
  if (node.hash != other.hash || !alike) return false;
  switch (node.op) {
    case Op::literal:
      return std::string_view(texts_[other.a], other.b) == text;
    case Op::either:
    case Op::both:
      return std::ranges::equal(part_lists_[other.a], parts);
    default:
      return node.a == other.a && node.b == other.b && node.c == other.c;
  }
}

Expression ExpressionStore::intern(Node node, std::span<const Expression> parts, std::string_view text) {
  yield_to_model();
  node.hash = hash_of(node, parts, text);
  std::size_t at = node.hash & (table_.size() - 1);
  for (; table_[at] != 0; at = (at + 1) & (table_.size() - 1)) {
    if (same(node, nodes_[table_[at] - 1], parts, text)) return table_[at] - 1;
  }
  if (nodes_.size() >= most_nodes_) exhausted_ = true;
  if (!spend()) return nothing;
  if (node.op == Op::literal) {
    node.a = static_cast<std::uint32_t>(texts_.size());
    texts_.push_back(text.data());  // in the pool already
  } else if (!parts.empty()) {
    node.a = static_cast<std::uint32_t>(part_lists_.size());
    part_lists_.push_back(part_pool_.add(parts));
  }
  node.flags |= characters(node, parts, text);
  table_[at] = static_cast<std::uint32_t>(nodes_.size()) + 1;
  nodes_.push_back(node);
  if (nodes_.size() * 2 > table_.size()) grow_table();
  return static_cast<Expression>(nodes_.size() - 1);
}

void ExpressionStore::grow_table() {
  table_.assign(table_.size() * 2, 0);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    std::size_t at = nodes_[i].hash & (table_.size() - 1);
    while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = static_cast<std::uint32_t>(i) + 1;
  }
}

std::uint32_t ExpressionStore::set_index(const ByteSet& set) {
  std::uint64_t key = 0;
  for (const std::uint64_t word : set.words()) key = mix(key, word);
  auto& numbers = set_numbers_[key];
  for (const std::uint32_t number : numbers) {
    if (sets_[number] == set) return number;
  }
  sets_.push_back(set);
  numbers.push_back(static_cast<std::uint32_t>(sets_.size() - 1));
  return numbers.back();
}

// ---- what reads whole characters

void ExpressionStore::set_any_character(Alphabet alphabet, Expression any) {
  set_characters(alphabet, any);
  any_texts_[static_cast<std::size_t>(alphabet)] = star(any);
}

// Of ASCII only characters that are written as they are in either alphabet, or in the one without quotes.
std::uint8_t ExpressionStore::characters(const Node& node, std::span<const Expression> of,
                                         std::string_view text) const {
  static constexpr ByteSet kAscii = ByteSet::range(0, 0x7f);
  static constexpr ByteSet kAsIs =
      ByteSet::range(' ', 0x7f) - ByteSet::of(static_cast<unsigned char>('"')) - ByteSet::of('\\');
  const auto of_set = [](const ByteSet& set) {
    return static_cast<std::uint8_t>((set.within(kAscii) ? kPlain : 0) | (set.within(kAsIs) ? kJson : 0));
  };
  std::uint8_t known = kCharacters;
  switch (node.op) {
    case Op::nothing:
    case Op::empty:
      return kCharacters;
    case Op::bytes:
      return of_set(sets_[node.a]);
    case Op::literal:
      for (const char byte : text) known &= of_set(ByteSet::of(static_cast<unsigned char>(byte)));
      return known;
    case Op::concat:
      return nodes_[node.a].flags & nodes_[node.b].flags & kCharacters;
    case Op::either:
      for (const Expression part : of) known &= nodes_[part].flags;
      return known;
    case Op::both:
      known = 0;
      for (const Expression part : of) known |= nodes_[part].flags & kCharacters;
      return known;
    case Op::repeat:
      return nodes_[node.a].flags & kCharacters;
    default:
      return 0;
  }
}

// Whether it is any text of an alphabet, and then `tail`.
bool ExpressionStore::is_any_text(Expression e, std::uint8_t& flag, Expression& tail) const {
  const bool has_tail = op(e) == Op::concat;
  const Expression head = has_tail ? nodes_[e].a : e;
  if (op(head) != Op::repeat) return false;
  for (const Alphabet alphabet : {Alphabet::plain, Alphabet::json}) {
    if (head != any_texts_[static_cast<std::size_t>(alphabet)]) continue;
    flag = characters_flag(alphabet);
    tail = has_tail ? nodes_[e].b : empty;
    return true;
  }
  return false;
}

// Whether all that it reads are whole characters, then what `tail` reads.
bool ExpressionStore::has_characters_before(Expression e, Expression tail, std::uint8_t flag) const {
  for (; e != tail; e = nodes_[e].b) {
    if (tail == empty) return (nodes_[e].flags & flag) != 0;
    if (op(e) != Op::concat || (nodes_[nodes_[e].a].flags & flag) == 0) return false;
  }
  return true;
}

// Alternatives of any text.
void ExpressionStore::drop_needless(std::vector<Expression>& alternatives) const {
  std::uint8_t flag = 0;
  Expression tail = empty;
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    const Expression any = alternatives[i];
    if (!is_any_text(any, flag, tail)) continue;
    const auto needless = [&](Expression e) { return e != any && has_characters_before(e, tail, flag); };
    const auto before = std::span(alternatives).first(i);
    i -= static_cast<std::size_t>(std::ranges::count_if(before, needless));
    std::erase_if(alternatives, needless);
  }
}

// Any text as a condition beside a counted one. Beside others it stays: it goes on character by character with what is
// compared with it (far_bounds.h), which is without it in the middle of a character only. False: of one that is to be
// none remains nothing.
bool ExpressionStore::drop_needless_conditions(std::vector<Expression>& operands) const {
  std::uint8_t flag = 0;
  Expression tail = empty;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Expression any = operands[i];
    const bool excluded = op(any) == Op::negation;
    if (!is_any_text(excluded ? nodes_[any].a : any, flag, tail)) continue;
    const auto first = [&](Expression e) { return op(e) == Op::concat ? nodes_[e].a : e; };
    const auto is_counted = [&](Expression e) {
      return op(first(e)) == Op::repeat && nodes_[first(e)].a == nodes_[first(any)].a;
    };
    const bool beside_stricter = std::ranges::any_of(operands, [&](Expression e) {
      return e != any && (excluded || is_counted(e)) && has_characters_before(e, tail, flag);
    });
    if (beside_stricter && excluded) return false;
    if (beside_stricter) operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(i--));
  }
  return true;
}

// ---- constructors

Expression ExpressionStore::bytes(const ByteSet& set) {
  if (set.empty()) return nothing;
  return intern(Node{.op = Op::bytes, .a = set_index(set)});
}

Expression ExpressionStore::text(std::string_view whole) {
  if (whole.empty()) return empty;
  const std::span<char> kept = text_pool_.add(std::span<const char>(whole.data(), whole.size()));
  Expression result = empty;
  for (std::size_t end = kept.size(); end > 0;) {
    const std::size_t size = (end - 1) % kLiteralBytes + 1;
    const std::string_view piece(kept.data() + (end - size), size);
    const Expression head = size == 1
                                ? bytes(ByteSet::of(static_cast<unsigned char>(piece[0])))
                                : intern(Node{.op = Op::literal, .b = static_cast<std::uint32_t>(size)}, {}, piece);
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
  for (std::size_t i = 0; i < texts.size() && !exhausted_; ++i) {
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
  return intern(Node{.op = Op::literal, .b = static_cast<std::uint32_t>(rest.size())}, {}, rest);
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
  const auto flags = static_cast<std::uint8_t>((may_be_empty ? kNullable : 0) | inherited(first) | inherited(rest));
  return intern(Node{.op = Op::concat, .flags = flags, .a = first, .b = rest});
}

Expression ExpressionStore::concat(std::initializer_list<Expression> parts) {
  Expression result = empty;
  for (const Expression* part = parts.end(); part != parts.begin();) result = concat(*--part, result);
  return result;
}

void ExpressionStore::flatten(std::vector<Expression>& parts_given, Op wanted) const {
  for (std::size_t i = 0; i < parts_given.size(); ++i) {
    if (op(parts_given[i]) != wanted) continue;
    const auto inner = parts(parts_given[i]);
    parts_given[i] = inner[0];
    parts_given.insert(parts_given.end(), inner.begin() + 1, inner.end());
  }
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
  flatten(alternatives, Op::either);
  std::erase(alternatives, nothing);
  if (std::ranges::find(alternatives, anything_) != alternatives.end() && anything_ != nothing) return anything_;
  drop_needless(alternatives);
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
  const auto flags = static_cast<std::uint8_t>((may_be_empty ? kNullable : 0) | inherited(alternatives));
  return intern(Node{.op = Op::either, .flags = flags}, alternatives);
}

Expression ExpressionStore::both(std::vector<Expression> operands) {
  flatten(operands, Op::both);
  std::erase(operands, anything_);
  std::ranges::sort(operands);
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  if (operands.empty()) return anything_;
  if (operands[0] == nothing || !drop_needless_conditions(operands)) return nothing;
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
  const auto flags = static_cast<std::uint8_t>((may_be_empty ? kNullable : 0) | kBoolean | inherited(operands));
  return intern(Node{.op = Op::both, .flags = flags}, operands);
}

Expression ExpressionStore::negation(Expression operand) {
  if (operand == nothing) return anything_;
  if (operand == anything_) return nothing;
  if (op(operand) == Op::negation) return nodes_[operand].a;
  const auto flags = static_cast<std::uint8_t>((nullable(operand) ? 0 : kNullable) | kBoolean | inherited(operand));
  return intern(Node{.op = Op::negation, .flags = flags, .a = operand});
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
      static_cast<std::uint8_t>((least == 0 ? kNullable : 0) | (most == unbounded ? 0 : kCounts) | inherited(operand));
  return intern(Node{.op = Op::repeat, .flags = flags, .a = operand, .b = least, .c = most});
}

Expression ExpressionStore::call(Rule rule) {
  return intern(Node{.op = Op::call, .flags = kCalls | kLocal, .a = numbered(rule)});
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
  const auto flags = static_cast<std::uint8_t>((nodes_[operand].flags & kNullable) | inherited(operand));
  return intern(Node{.op = Op::lexeme, .flags = flags, .a = operand, .b = like});
}

Expression ExpressionStore::later(std::uint32_t payload, bool may_be_empty, bool regular) {
  const auto flags = static_cast<std::uint8_t>((may_be_empty ? kNullable : 0) | kLocal | (regular ? 0 : kCalls));
  return intern(Node{.op = Op::later, .flags = flags, .a = numbered(payload), .b = regular});
}

Expression ExpressionStore::awaiting(std::uint32_t payload, bool few) {
  return intern(Node{.op = Op::later, .flags = kLocal | kCalls, .a = numbered(payload), .c = few ? 2u : 1u});
}

bool ExpressionStore::awaits(Expression e) const {
  const Expression head = op(e) == Op::concat ? nodes_[e].a : e;
  return op(head) == Op::later && nodes_[head].c != 0;
}

bool ExpressionStore::awaits_few(Expression e) const {
  return awaits(e) && nodes_[op(e) == Op::concat ? nodes_[e].a : e].c == 2;
}

Expression ExpressionStore::recalled(Expression e, std::string_view text) {
  const bool has_rest = op(e) == Op::concat;
  const Expression rest = has_rest ? nodes_[e].b : empty;
  const std::uint32_t number = nodes_[has_rest ? nodes_[e].a : e].a;
  return concat(
      of_source(number, [&](ExpressionSource& source, std::uint32_t own) { return source.recall(own, text); }), rest);
}

std::uint32_t ExpressionStore::least_after(Expression later) {
  return of_source(nodes_[later].a, [](ExpressionSource& source, std::uint32_t own) { return source.least(own); });
}

Expression ExpressionStore::as_short(Expression later) {
  if (nodes_[later].c != 0) return later;
  const std::uint32_t number = of_source(
      nodes_[later].a, [&](ExpressionSource& source, std::uint32_t own) { return numbered(source.as_short(own)); });
  if (number == nodes_[later].a) return later;
  return intern(Node{.op = Op::later, .flags = nodes_[later].flags, .a = number, .b = nodes_[later].b});
}

// ---- what can come next

Expression ExpressionStore::expanded(Expression later) {
  if (const auto known = expansions_.find(later); known != expansions_.end()) return known->second;
  const Expression given =
      of_source(nodes_[later].a, [](ExpressionSource& source, std::uint32_t own) { return source.expand(own); });
  if (!exhausted_) expansions_.emplace(later, given);
  return given;
}

// Splits overlapping sets; what several steps lead to becomes their alternatives. Steps to the same place are joined.
void ExpressionStore::make_disjoint(std::vector<Step>& steps) {
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
    for (Class& one : classes) steps.push_back({one.on, either(std::move(one.to))});
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

std::uint32_t ExpressionStore::keep(const Found& found) {
  step_lists_.push_back({step_pool_.add(found.first), opening_pool_.add(found.second)});
  return static_cast<std::uint32_t>(step_lists_.size() - 1);
}

Steps ExpressionStore::raw_steps(Expression e) {
  if (nodes_[e].steps == kUnknown) {
    Found found = find_steps(e);
    std::erase_if(found.first, [](const Step& step) { return step.to == nothing; });
    const std::uint32_t list = keep(found);
    nodes_[e].steps = list;
  }
  return step_lists_[nodes_[e].steps];
}

Steps ExpressionStore::steps(Expression e) {
  const Steps raw = raw_steps(e);
  if (!(nodes_[e].flags & kBoolean) || nodes_[e].pruned) return raw;
  Found found{{raw.bytes.begin(), raw.bytes.end()}, {raw.calls.begin(), raw.calls.end()}};
  std::erase_if(found.first, [&](const Step& step) { return !possible(step.to); });
  nodes_[e].pruned = true;
  if (found.first.size() == raw.bytes.size()) return raw;
  const std::uint32_t list = keep(found);
  nodes_[e].steps = list;
  return step_lists_[list];
}

ExpressionStore::Found ExpressionStore::find_steps(Expression e) {
  const Node node = nodes_[e];
  switch (node.op) {
    case Op::nothing:
    case Op::empty:
      return {};
    case Op::bytes:
      return {{{sets_[node.a], empty}}, {}};
    case Op::literal:
      return {{{ByteSet::of(static_cast<unsigned char>(literal(e)[0])), suffix(e)}}, {}};
    case Op::concat:
      return steps_of_concat(node.a, node.b);
    case Op::either:
      return steps_of_either(e);
    case Op::both:
      return steps_of_both(e);
    case Op::negation:
      return steps_of_negation(node.a);
    case Op::repeat:
      return steps_of_repeat(e);
    case Op::call:
      return {{}, {{node.a, empty}}};
    case Op::lexeme:
      return steps_of_lexeme(e);
    case Op::later: {
      const Steps of_it = raw_steps(expanded(e));
      return {{of_it.bytes.begin(), of_it.bytes.end()}, {of_it.calls.begin(), of_it.calls.end()}};
    }
  }
  return {};
}

ExpressionStore::Found ExpressionStore::steps_of_concat(Expression first, Expression rest) {
  Found found;
  const Steps of_first = raw_steps(first);
  for (const Step& step : of_first.bytes) found.first.push_back({step.on, concat(step.to, rest)});
  for (const Opening& call : of_first.calls) found.second.push_back({call.rule, concat(call.rest, rest)});
  if (!nullable(first)) return found;
  const Steps of_rest = raw_steps(rest);
  found.first.insert(found.first.end(), of_rest.bytes.begin(), of_rest.bytes.end());
  found.second.insert(found.second.end(), of_rest.calls.begin(), of_rest.calls.end());
  make_disjoint(found.first);
  return found;
}

ExpressionStore::Found ExpressionStore::steps_of_either(Expression e) {
  Found found;
  for (const Expression part : parts(e)) {
    const Steps of_part = raw_steps(part);
    found.first.insert(found.first.end(), of_part.bytes.begin(), of_part.bytes.end());
    found.second.insert(found.second.end(), of_part.calls.begin(), of_part.calls.end());
  }
  make_disjoint(found.first);
  return found;
}

ExpressionStore::Found ExpressionStore::steps_of_both(Expression e) {
  const auto operands = parts(e);
  const auto first = raw_steps(operands[0]).bytes;
  std::vector<std::pair<ByteSet, std::vector<Expression>>> common;
  for (const Step& step : first) common.push_back({step.on, {step.to}});
  for (std::size_t i = 1; i < operands.size(); ++i) {
    std::vector<std::pair<ByteSet, std::vector<Expression>>> narrower;
    const auto of_operand = raw_steps(operands[i]).bytes;
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
  for (auto& [on, to] : common) found.first.push_back({on, both(std::move(to))});
  make_disjoint(found.first);
  return found;
}

ExpressionStore::Found ExpressionStore::steps_of_negation(Expression operand) {
  Found found;
  ByteSet rest = ByteSet::all();
  for (const Step& step : raw_steps(operand).bytes) {
    found.first.push_back({step.on, negation(step.to)});
    rest = rest - step.on;
  }
  if (!rest.empty()) found.first.push_back({rest, anything_});
  make_disjoint(found.first);
  return found;
}

// What may follow the first item.
Expression ExpressionStore::after_one(Expression repetition) {
  const std::uint32_t least = low(repetition), most = high(repetition);
  return repeat(nodes_[repetition].a, least == 0 ? 0 : least - 1, most == unbounded ? unbounded : most - 1);
}

ExpressionStore::Found ExpressionStore::steps_of_repeat(Expression e) {
  const Expression item = nodes_[e].a, more = after_one(e);
  Found found;
  const Steps of_item = raw_steps(item);
  for (const Step& step : of_item.bytes) found.first.push_back({step.on, concat(step.to, more)});
  for (const Opening& call : of_item.calls) found.second.push_back({call.rule, concat(call.rest, more)});
  return found;
}

// The similar word reads along; where it cannot it is `nothing`.
ExpressionStore::Found ExpressionStore::steps_of_lexeme(Expression e) {
  const Expression word = nodes_[e].a, like = nodes_[e].b;
  Found found;
  const auto beside = like == nothing ? std::span<const Step>() : raw_steps(like).bytes;
  for (const Step& step : raw_steps(word).bytes) {
    ByteSet rest = step.on;
    for (const Step& other : beside) {
      const ByteSet shared = step.on & other.on;
      if (shared.empty()) continue;
      found.first.push_back({shared, read_lexeme(step.to, other.to)});
      rest = rest - shared;
    }
    if (!rest.empty()) found.first.push_back({rest, read_lexeme(step.to)});
  }
  make_disjoint(found.first);
  return found;
}

Expression ExpressionStore::after(Expression e, unsigned char byte) {
  for (const Step& step : steps(e).bytes) {
    if (step.on.contains(byte)) return step.to;
  }
  return nothing;
}

Expression ExpressionStore::derivative(Expression e, unsigned char byte) {
  const Expression to = raw_derivative(e, byte);
  return (nodes_[e].flags & kBoolean) && !possible(to) ? nothing : to;
}

// What raw_steps() leads to.
Expression ExpressionStore::raw_derivative(Expression e, unsigned char byte) {
  const Node node = nodes_[e];
  if (node.steps != kUnknown) {
    for (const Step& step : step_lists_[node.steps].bytes)
      if (step.on.contains(byte)) return step.to;
    return nothing;
  }
  switch (node.op) {
    case Op::bytes:
      return sets_[node.a].contains(byte) ? empty : nothing;
    case Op::literal:
      return static_cast<unsigned char>(literal(e)[0]) == byte ? suffix(e) : nothing;
    case Op::concat: {
      const Expression of_first = concat(raw_derivative(node.a, byte), node.b);
      const Expression of_rest = nullable(node.a) ? raw_derivative(node.b, byte) : nothing;
      return of_first == nothing || of_rest == nothing ? of_first | of_rest : either(of_first, of_rest);
    }
    case Op::either:
    case Op::both: {
      std::vector<Expression> left;
      for (const Expression part : parts(e)) {
        left.push_back(raw_derivative(part, byte));
        if (left.back() != nothing) continue;
        if (node.op == Op::both) return nothing;
        left.pop_back();
      }
      return node.op == Op::both ? both(std::move(left)) : either(std::move(left));
    }
    case Op::negation:
      return negation(raw_derivative(node.a, byte));
    case Op::repeat: {
      const Expression of_item = raw_derivative(node.a, byte);
      return of_item == nothing ? nothing : concat(of_item, after_one(e));
    }
    case Op::lexeme:
      return read_lexeme(raw_derivative(node.a, byte), raw_derivative(node.b, byte));
    case Op::later:
      return raw_derivative(expanded(e), byte);
    default:
      return nothing;
  }
}

bool ExpressionStore::accepts(Expression e, std::string_view text) {
  for (const char byte : text) {
    e = after(e, static_cast<unsigned char>(byte));
    if (e == nothing) return false;
  }
  return nullable(e);
}

// ---- whether an intersection leaves anything

bool ExpressionStore::possible(Expression e) {
  if (e == nothing) return false;
  if (!(nodes_[e].flags & kBoolean) || nullable(e)) return true;
  if (nodes_[e].possible != Possible::unknown) return nodes_[e].possible == Possible::yes;
  bool result = false;
  switch (op(e)) {
    case Op::concat:
      result = possible(nodes_[e].a) && possible(nodes_[e].b);
      break;
    case Op::either:
      result = std::ranges::any_of(parts(e), [&](Expression part) { return possible(part); });
      break;
    case Op::repeat:
    case Op::lexeme:
      result = possible(nodes_[e].a);
      break;
    default:
      return find_text(e);
  }
  nodes_[e].possible = result ? Possible::yes : Possible::no;
  return result;
}

// What lies on the way to the end of some text is possible; when nothing ends, nothing that was visited is. Most have a
// short text, which is looked for first: the way to a long one leads through a place for every step of every counter.
bool ExpressionStore::find_text(Expression start) {
  if (op(start) == Op::both && has_text_of_one_byte(start)) {
    nodes_[start].possible = Possible::yes;
    return true;
  }
  if (const auto found = find_short_text(start)) return *found;
  return find_any_text(start);
}

// Told by its operands alone.
bool ExpressionStore::has_text_of_one_byte(Expression intersection) {
  ByteSet common = ByteSet::all();
  const auto operands = parts(intersection);
  for (std::size_t i = 0; i < operands.size() && !common.empty(); ++i) {
    ByteSet of_operand;
    for (const Step& step : raw_steps(operands[i]).bytes)
      if (nullable(step.to)) of_operand = of_operand | step.on;
    common = common & of_operand;
  }
  return !common.empty();
}

bool ExpressionStore::leads_to_text(Expression e) const {
  return nodes_[e].possible == Possible::yes || nullable(e) || !(nodes_[e].flags & kBoolean);
}

// Breadth first through a few places; nothing when that does not tell.
std::optional<bool> ExpressionStore::find_short_text(Expression start) {
  struct Place {
    Expression at;
    std::size_t from;
  };
  std::vector<Place> places{{start, 0}};
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i == kShortSearchNodes) return std::nullopt;
    for (const Step& step : raw_steps(places[i].at).bytes) {
      if (exhausted_) return false;
      if (nodes_[step.to].possible == Possible::no) continue;
      if (leads_to_text(step.to)) {
        std::size_t back = i;
        for (; back != 0; back = places[back].from) nodes_[places[back].at].possible = Possible::yes;
        nodes_[start].possible = Possible::yes;
        return true;
      }
      if (std::ranges::find(places, step.to, &Place::at) == places.end()) places.push_back({step.to, i});
    }
  }
  for (const Place& place : places) nodes_[place.at].possible = Possible::no;
  return false;
}

// Depth first.
bool ExpressionStore::find_any_text(Expression start) {
  struct Place {
    Expression at;
    std::size_t next;
  };
  std::vector<Place> path{{start, 0}};
  std::unordered_set<Expression> visited{start};
  while (!path.empty()) {
    const std::span<const Step> steps = raw_steps(path.back().at).bytes;
    if (path.back().next == steps.size()) {
      path.pop_back();
      continue;
    }
    const Expression to = steps[path.back().next++].to;
    if (nodes_[to].possible == Possible::no) continue;
    if (leads_to_text(to)) {
      for (const Place& place : path) nodes_[place.at].possible = Possible::yes;
      return true;
    }
    if (!visited.insert(to).second) continue;
    if (visited.size() > kSearchNodes) exhausted_ = true;
    if (exhausted_) return false;
    path.push_back({to, 0});
  }
  for (const Expression e : visited) nodes_[e].possible = Possible::no;
  return false;
}

}  // namespace espalier::grammar
