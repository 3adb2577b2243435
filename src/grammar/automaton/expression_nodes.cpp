#include "grammar/automaton/expression_nodes.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/threads/yield_to_model.h"
#include "grammar/automaton/hashing.h"

namespace espalier::grammar {
namespace {

// Nobody outside the process can make two expressions share a fingerprint, which masks are shared by.
std::uint64_t process_seed() {
  static const std::uint64_t seed = (std::uint64_t{std::random_device{}()} << 32) ^ std::random_device{}();
  return seed;
}

}  // namespace

ExpressionNodes::ExpressionNodes(std::size_t most) : most_(most) {
  table_.resize(256);
}

std::size_t ExpressionNodes::memory_of_nodes() const {
  return nodes_.size() * sizeof(ExpressionNode) + table_.capacity() * 4 + part_pool_.memory() + text_pool_.memory() +
         part_lists_.size() * sizeof(std::span<const Expression>) + texts_.size() * sizeof(const char*) +
         sets_.capacity() * sizeof(ByteSet);
}

std::string_view ExpressionNodes::keep(std::string_view text) {
  const std::span<char> kept = text_pool_.add(std::span<const char>(text.data(), text.size()));
  return {kept.data(), kept.size()};
}

bool ExpressionNodes::awaits(Expression e) const {
  const Expression head = op(e) == Op::concat ? nodes_[e].a : e;
  return op(head) == Op::later && nodes_[head].c != 0;
}

bool ExpressionNodes::awaits_few(Expression e) const {
  return awaits(e) && nodes_[op(e) == Op::concat ? nodes_[e].a : e].c == 2;
}

std::uint8_t ExpressionNodes::inherited(std::span<const Expression> parts) const {
  std::uint8_t flags = 0;
  for (const Expression part : parts) flags |= nodes_[part].flags;
  return flags & (ExpressionNode::kCalls | ExpressionNode::kBoolean | ExpressionNode::kLocal | ExpressionNode::kCounts);
}

std::uint64_t ExpressionNodes::hash_of(const ExpressionNode& node, std::span<const Expression> parts,
                                       std::string_view text) const {
  std::uint64_t hash =
      mix(process_seed(), static_cast<std::uint64_t>(node.op) * 8 + (node.flags & ExpressionNode::kNullable));
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

bool ExpressionNodes::same(const ExpressionNode& node, const ExpressionNode& other, std::span<const Expression> parts,
                           std::string_view text) const {
  const bool alike = node.op == other.op && ((node.flags ^ other.flags) & ~ExpressionNode::kCharacters) == 0;
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

Expression ExpressionNodes::intern(ExpressionNode node, std::span<const Expression> parts, std::string_view text) {
  yield_to_model();
  node.hash = hash_of(node, parts, text);
  std::size_t at = node.hash & (table_.size() - 1);
  for (; table_[at] != 0; at = (at + 1) & (table_.size() - 1)) {
    if (same(node, nodes_[table_[at] - 1], parts, text)) return table_[at] - 1;
  }
  if (nodes_.size() >= most_) exhaust();
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

void ExpressionNodes::grow_table() {
  table_.assign(table_.size() * 2, 0);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    std::size_t at = nodes_[i].hash & (table_.size() - 1);
    while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = static_cast<std::uint32_t>(i) + 1;
  }
}

std::uint32_t ExpressionNodes::set_index(const ByteSet& set) {
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

// Of ASCII only characters that are written as they are in either alphabet, or in the one without quotes.
std::uint8_t ExpressionNodes::characters(const ExpressionNode& node, std::span<const Expression> of,
                                         std::string_view text) const {
  static constexpr ByteSet kAscii = ByteSet::range(0, 0x7f);
  static constexpr ByteSet kAsIs =
      ByteSet::range(' ', 0x7f) - ByteSet::of(static_cast<unsigned char>('"')) - ByteSet::of('\\');
  const auto of_set = [](const ByteSet& set) {
    return static_cast<std::uint8_t>((set.within(kAscii) ? ExpressionNode::kPlain : 0) |
                                     (set.within(kAsIs) ? ExpressionNode::kJson : 0));
  };
  std::uint8_t known = ExpressionNode::kCharacters;
  switch (node.op) {
    case Op::nothing:
    case Op::empty:
      return ExpressionNode::kCharacters;
    case Op::bytes:
      return of_set(sets_[node.a]);
    case Op::literal:
      for (const char byte : text) known &= of_set(ByteSet::of(static_cast<unsigned char>(byte)));
      return known;
    case Op::concat:
      return nodes_[node.a].flags & nodes_[node.b].flags & ExpressionNode::kCharacters;
    case Op::either:
      for (const Expression part : of) known &= nodes_[part].flags;
      return known;
    case Op::both:
      known = 0;
      for (const Expression part : of) known |= nodes_[part].flags & ExpressionNode::kCharacters;
      return known;
    case Op::repeat:
      return nodes_[node.a].flags & ExpressionNode::kCharacters;
    default:
      return 0;
  }
}

}  // namespace espalier::grammar
