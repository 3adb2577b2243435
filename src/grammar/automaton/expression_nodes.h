// expression_nodes.h: expressions as nodes, each of which is kept once: equal numbers are equal expressions.
//
// What an expression is made of can be asked here; how they are made, and what they read, is told by those who have the
// nodes (expression.h, derivatives.h, possible_texts.h).
// Threads: one at a time.
// Fails:   never; beyond the limit of nodes, and those of work_limits.h, exhausted() turns true for good and new
//          expressions are `nothing`.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/incremental_free.h"
#include "grammar/automaton/block_list.h"
#include "grammar/automaton/expression_source.h"
#include "grammar/automaton/stable_pool.h"
#include "grammar/automaton/work_limits.h"
#include "grammar/characters/byte_set.h"

namespace espalier::grammar {

// The kinds of node that an expression is made of.
enum class Op : std::uint8_t {
  nothing,   // no text
  empty,     // the empty text
  bytes,     // one byte of a set
  literal,   // a text of two or more bytes
  concat,    // first, then the rest; the first is no concat
  either,    // any of two or more
  both,      // all of two or more at once
  negation,  // every text that the operand is not
  repeat,    // operand low..high times
  call,      // a text of a rule
  lexeme,    // the operand, as one word whose tokens are worth remembering
  later,     // an expression that its maker gives when it is needed
};

// What characters are made of: UTF-8, or the inside of a JSON string (spelling.h).
enum class Alphabet : std::uint8_t { plain, json };

// What has been found out about an expression.
struct KnownOfExpression {
  static constexpr std::uint32_t kUnknown = 0xffffffff;
  enum class Possible : std::uint8_t { unknown, yes, no } possible = Possible::unknown;  // it reads some text
  bool pruned = false;             // its steps lead to possible expressions only
  std::uint32_t steps = kUnknown;  // number of a list of Derivatives
};

// One expression.
struct ExpressionNode {
  static constexpr std::uint8_t kNullable = 1, kCalls = 2, kBoolean = 4, kLocal = 8, kCounts = 64;
  // Of each alphabet: it reads whole characters only. Known of most, so equal expressions may differ in it.
  static constexpr std::uint8_t kPlain = 16, kJson = 32, kCharacters = kPlain | kJson;

  Op op = Op::nothing;
  std::uint8_t flags = 0;
  std::uint32_t a = 0, b = 0, c = 0;
  KnownOfExpression known = {};
  std::uint64_t hash = 0;
};

// The nodes of one store.
class ExpressionNodes {
 public:
  static constexpr Expression nothing = 0, empty = 1;
  static constexpr std::uint32_t unbounded = 0xffffffff;

  Op op(Expression e) const { return nodes_[e].op; }
  bool nullable(Expression e) const { return nodes_[e].flags & ExpressionNode::kNullable; }
  bool calls(Expression e) const { return nodes_[e].flags & ExpressionNode::kCalls; }  // a rule, somewhere
  bool boolean(Expression e) const {
    return nodes_[e].flags & ExpressionNode::kBoolean;
  }  // an intersection or negation
  bool local(Expression e) const { return nodes_[e].flags & ExpressionNode::kLocal; }    // means something here only
  bool counts(Expression e) const { return nodes_[e].flags & ExpressionNode::kCounts; }  // some repetition ends
  bool reads_characters(Expression e, std::uint8_t of) const { return (nodes_[e].flags & of) != 0; }
  Expression operand(Expression e) const { return nodes_[e].a; }  // of concat (first), negation, repeat, lexeme
  Expression rest(Expression e) const { return nodes_[e].b; }     // of concat
  Expression like(Expression e) const { return nodes_[e].b; }     // of lexeme
  std::uint32_t low(Expression e) const { return nodes_[e].b; }   // of repeat
  std::uint32_t high(Expression e) const { return nodes_[e].c; }
  Rule rule(Expression e) const { return nodes_[e].a; }                                        // of call
  std::uint32_t payload(Expression e) const { return nodes_[e].a; }                            // of later
  std::span<const Expression> parts(Expression e) const { return part_lists_[nodes_[e].a]; }   // of either, both
  const ByteSet& set(Expression e) const { return sets_[nodes_[e].a]; }                        // of bytes
  std::string_view literal(Expression e) const { return {texts_[nodes_[e].a], nodes_[e].b}; }  // of literal
  bool awaits(Expression e) const;                                                             // at its beginning
  bool awaits_few(Expression e) const;
  // Equal for expressions of the same shape in any store of this process; not for `local` ones.
  std::uint64_t fingerprint(Expression e) const { return nodes_[e].hash; }

  ExpressionNode node(Expression e) const { return nodes_[e]; }  // a copy: later calls may change it
  KnownOfExpression& known(Expression e) { return nodes_[e].known; }
  const KnownOfExpression& known(Expression e) const { return nodes_[e].known; }
  std::size_t size() const { return nodes_.size(); }
  WorkLimits& limits() { return limits_; }
  bool exhausted() const { return limits_.exhausted(); }
  void exhaust() { limits_.exhaust(); }
  bool spend() { return limits_.spend(); }

 protected:
  explicit ExpressionNodes(std::size_t most);
  // The node's number: a new one unless there is such a node. `text`: of a literal, in the pool already.
  Expression intern(ExpressionNode node, std::span<const Expression> parts = {}, std::string_view text = {});
  std::uint32_t set_index(const ByteSet& set);
  std::string_view keep(std::string_view text);
  std::uint8_t inherited(std::span<const Expression> parts) const;  // flags of what is made of them
  std::size_t memory_of_nodes() const;                              // bytes, about

  BlockList<ExpressionNode> nodes_;

 private:
  bool same(const ExpressionNode& node, const ExpressionNode& other, std::span<const Expression> parts,
            std::string_view text) const;
  std::uint64_t hash_of(const ExpressionNode& node, std::span<const Expression> parts, std::string_view text) const;
  std::uint8_t characters(const ExpressionNode& node, std::span<const Expression> parts, std::string_view text) const;
  void grow_table();

  const std::size_t most_;
  WorkLimits limits_;
  std::vector<std::uint32_t> table_;  // open addressing: node + 1, 0 = free
  StablePool<Expression> part_pool_;
  std::vector<std::span<const Expression>> part_lists_;  // of either and both, by node.a
  StablePool<char> text_pool_;
  std::vector<const char*> texts_;  // of literals, by node.a
  std::vector<ByteSet> sets_;
  IncrementallyFreed<std::unordered_map<std::uint64_t, std::vector<std::uint32_t>>> set_numbers_;
};

}  // namespace espalier::grammar
