// formula.h: what a JSON value must satisfy, as a boolean formula over single constraints.
//
// A formula is a number in a FormulaStore, which keeps every one once, so that equal numbers are equal formulas.
// Negation stands only before single constraints. Alternatives and conjuncts keep the order in which they were given:
// the order in which a schema names its properties follows from it.
//
// Threads: a store is used by one thread at a time.
// Fails:   never; beyond the limit exhausted() turns true for good and results are `never`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/automaton/block_list.h"
#include "grammar/automaton/expression.h"

namespace espalier::grammar {

using Formula = std::uint32_t;

inline constexpr std::uint32_t kUnbounded = ExpressionStore::unbounded;

// Kinds of JSON values, as bits. An integer is a number without a fraction.
enum TypeBits : std::uint32_t {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kFraction = 8,
  kString = 16,
  kArray = 32,
  kObject = 64,
  kNumber = kInteger | kFraction,
  kAnyType = 127,
};

// One constraint. Those about one type of value hold for all values of other types.
struct Demand {
  enum class Kind : std::uint8_t {
    type,     // a: TypeBits
    schema,   // a: number of a schema, read when it is needed; b: 1 = as it is written, in a reader that closes objects
    is_true,  // booleans
    equals,   // strings and numbers; a: number of a literal's text (numbers in their shortest decimal form)
    length,   // strings; characters, a..b
    matches,  // strings; a: expression over the inside of a JSON string; b: partial_format(): `not` leaves out more
              // than a
    at_least,  // numbers; a: literal; b: 1 = the bound itself is excluded
    at_most,
    multiple,     // numbers; a: literal
    property,     // objects; the value under name a satisfies formula b; c: the schema that says so requires it as well
    pattern,      // every value under a name that expression a reads satisfies b
    additional,   // every value under a name that is not in name set a satisfies b
    names,        // every name, as a string, satisfies b
    required,     // name a is there
    min_members,  // a
    max_members,  // a
    item,         // arrays; item number a satisfies b
    items,        // items from number a on satisfy b
    contains,     // between b and c items satisfy a
    min_items,    // a
    max_items,    // a
    unique,       // items differ from one another
    value,        // the member or item that is being read satisfies a; only while a step is decided
  };
  Kind kind = Kind::type;
  std::uint32_t a = 0, b = 0, c = 0;
  bool operator==(const Demand&) const = default;
};

// Makes formulas, keeps each one once, and simplifies as it builds.
class FormulaStore {
 public:
  enum class Op : std::uint8_t { never, always, one, negated, all, any };
  static constexpr Formula never = 0, always = 1;

  explicit FormulaStore(std::size_t most = 500'000);

  Formula one(const Demand& demand);
  Formula all(const std::vector<Formula>& parts);
  Formula any(const std::vector<Formula>& parts);
  Formula all(Formula a, Formula b) { return all(std::vector<Formula>{a, b}); }
  Formula any(Formula a, Formula b) { return any(std::vector<Formula>{a, b}); }
  Formula no(Formula formula);
  // A `property`, kept also when any value satisfies it, for the name's place in the order.
  Formula named(const Demand& property) { return intern(Op::one, property, {}); }
  // One of the parts, and none of what the others stand for: a part may say more than that (schemas that are closed).
  Formula exactly_one(std::span<const Formula> parts, std::span<const Formula> stands_for);

  Op op(Formula f) const { return nodes_[f].op; }
  // Of one and negated. A copy: the nodes move when more come, also while a visitor looks at one.
  Demand demand(Formula f) const { return nodes_[f].demand; }
  std::span<const Formula> parts(Formula f) const { return nodes_[f].parts; }  // of all and any

  // What single constraints a formula may be made of, one bit for some of them: members' names, `value` and what it
  // asks, and those that speak of members whatever their name.
  using Mentions = std::uint64_t;
  static constexpr Mentions mentions_value = 1, mentions_members = 2;
  static constexpr Mentions mentions_name(std::uint32_t name) { return Mentions{1} << (2 + name % 44); }
  static constexpr Mentions mentions_asked(Formula asked) { return Mentions{1} << (46 + asked % 18); }
  bool mentions(Formula f, Mentions any_of) const { return (nodes_[f].mentions & any_of) != 0; }
  // The first `value` that it is made of. Requires: mentions(f, mentions_value), a bit that nothing else has.
  Demand first_value(Formula f) const {
    const auto has_value = [&](Formula part) { return mentions(part, mentions_value); };
    while (op(f) == Op::all || op(f) == Op::any) f = *std::ranges::find_if(parts(f), has_value);
    return demand(f);
  }

  // Each single constraint (with whether it is negated) replaced by what `change` makes of it.
  template <class Change>
  Formula map(Formula f, Change&& change) {
    return map_mentioned(f, ~Mentions{0}, change);
  }
  // The same for a change that leaves all others as they are.
  template <class Change>
  Formula map_mentioned(Formula f, Mentions concerned, Change&& change) {
    if (concerned != ~Mentions{0} && !mentions(f, concerned)) return f;
    const Visits visits(*this);
    return map_with(f, concerned, change, visits.table());
  }
  // Visits every single constraint once, in order.
  template <class Visit>
  void each(Formula f, Visit&& visit) const {
    each_mentioned(f, ~Mentions{0}, visit);
  }
  // The same without parts that mention none of these.
  template <class Visit>
  void each_mentioned(Formula f, Mentions concerned, Visit&& visit) const {
    const Visits visits(*this);
    each_with(f, concerned, visit, visits.table());
  }

  bool exhausted() const { return exhausted_; }
  void exhaust() { exhausted_ = true; }
  std::size_t size() const { return nodes_.size(); }
  std::size_t memory() const {            // bytes, about
    constexpr std::size_t kVisited = 16;  // in visits' tables
    return nodes_.size() * (sizeof(Node) + kVisited) + table_.size() * 4 + part_pool_.memory();
  }

 private:
  struct Node {
    Op op = Op::never;
    Demand demand;
    std::span<const Formula> parts;
    Formula negation = kNone;  // when it has been asked for
    std::uint32_t hash = 0;
    Mentions mentions = 0;
  };
  static constexpr Formula kNone = 0xffffffff;

  // What has been found for each formula that one visit of all parts has come to. Visits begin within visits; a table
  // is used again and again, so that a short visit allocates nothing.
  class VisitTable {
   public:
    void begin() {
      if (++visit_ != 0) return;
      entries_.clear();  // all numbers of visits have been used
      visit_ = 1;
    }
    // Where the result for a formula belongs, and whether this is the first time that it is asked for.
    std::pair<Formula&, bool> at(Formula f) {
      if (f >= entries_.size()) entries_.resize(std::size_t{2} * f + 1024);
      const bool fresh = std::exchange(entries_[f].visit, visit_) != visit_;
      return {entries_[f].result, fresh};
    }

   private:
    struct Entry {
      std::uint32_t visit = 0;
      Formula result = 0;
    };
    std::vector<Entry> entries_;
    std::uint32_t visit_ = 0;
  };
  class Visits {
   public:
    explicit Visits(const FormulaStore& store) : store_(store) {
      if (store_.visits_ == store_.tables_.size()) store_.tables_.emplace_back();
      table_ = &store_.tables_[store_.visits_++];
      table_->begin();
    }
    Visits(const Visits&) = delete;
    Visits& operator=(const Visits&) = delete;
    ~Visits() { --store_.visits_; }
    VisitTable& table() const { return *table_; }

   private:
    const FormulaStore& store_;
    VisitTable* table_;
  };

  template <class Change>
  Formula map_with(Formula f, Mentions concerned, Change& change, VisitTable& done) {
    if (f == never || f == always) return f;
    if (exhausted_) return never;  // unchanged it could say things that have no meaning for who asked for the change
    if (concerned != ~Mentions{0} && !mentions(f, concerned)) return f;
    if (const auto [known, fresh] = done.at(f); !fresh) return known;
    Formula result = never;
    if (op(f) == Op::one || op(f) == Op::negated) {
      result = change(demand(f), op(f) == Op::negated);
    } else {
      std::vector<Formula> changed;
      const bool all_of = op(f) == Op::all;
      for (const Formula part : parts(f)) {
        changed.push_back(map_with(part, concerned, change, done));
        if (changed.back() == (all_of ? never : always)) break;
      }
      result = all_of ? all(changed) : any(changed);
    }
    return done.at(f).first = result;
  }
  template <class Visit>
  void each_with(Formula f, Mentions concerned, Visit& visit, VisitTable& seen) const {
    if (concerned != ~Mentions{0} && !mentions(f, concerned)) return;
    if (op(f) == Op::one || op(f) == Op::negated) return visit(demand(f), op(f) == Op::negated);
    for (const Formula part : parts(f)) {
      if (seen.at(part).second) each_with(part, concerned, visit, seen);
    }
  }
  Formula join(Op op, const std::vector<Formula>& parts);
  Formula intern(Op op, const Demand& demand, std::span<const Formula> parts);
  Mentions mentions_of(Op op, const Demand& demand, std::span<const Formula> parts) const;
  void grow_table();

  std::size_t most_;
  bool exhausted_ = false;
  BlockList<Node> nodes_;
  StablePool<Formula> part_pool_;
  mutable std::deque<VisitTable> tables_;  // by how many visits one stands within
  mutable std::size_t visits_ = 0;
  std::vector<std::uint32_t> table_;  // open addressing: formula + 1, 0 = free
};

}  // namespace espalier::grammar
