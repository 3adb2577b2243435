// container.h: how far an array or object has been read, and what may come next in it.
// Threads: plain values; Containers: one at a time. Fails: never.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/incremental_free.h"
#include "grammar/automaton/expression.h"
#include "grammar/automaton/hashing.h"
#include "grammar/json_schema/formulas/formula.h"
#include "grammar/json_schema/payload.h"

namespace espalier::grammar {

// Names of an object that come in the order in which its schema has them.
enum class NameOrder : std::uint8_t {
  all,       // those that may be left out too; what was passed cannot come any more
  required,  // up to the last one that must come; behind it the names that are left come in any order
  none,
};

// An object or array of which some members have been read.
struct Container {
  bool object = false, first = true;
  std::uint32_t shape = 0;  // of objects
  std::uint32_t place = 0;  // objects: names before it are not offered now; arrays: items read, up to `cap`
  NameOrder order = NameOrder::all;
  std::uint32_t seen = 0;     // of objects, where not all names are in order: the set of those that have come
  std::uint32_t cap = 0;      // of arrays
  std::uint32_t written = 0;  // values (of arrays whose items must differ) or names (open_names.h) not to repeat
  std::uint32_t unknown = 0;  // those passed over in looking whether it can be completed: what they satisfy
  bool lasting = false;       // of objects: the names of `written` must not come again at all
  std::uint32_t min_left = 0, max_left = ExpressionStore::unbounded;
  Formula rest = FormulaStore::always;
  bool operator==(const Container&) const = default;
};

// An item or member, and the container behind it.
struct Member {
  Expression key = ExpressionStore::empty;  // behind its opening quote, up to the value
  Formula value = FormulaStore::always;
  Container next;
  bool recorded = false;  // what may follow depends on the value
  // Of a member that the schema does not list: the names that it may have, and the same as a word with its quote.
  Expression names = ExpressionStore::nothing, word = ExpressionStore::nothing;
};

// Numbers for containers, and the expressions of what follows in them.
class Containers {
 public:
  explicit Containers(ExpressionStore& store) : store_(store) {}

  std::uint32_t number(const Container& container) {
    const auto [known, fresh] = numbers_.try_emplace(container, static_cast<std::uint32_t>(containers_.size()));
    if (fresh) containers_.push_back(container);
    return known->second;
  }
  // A copy: they move when more come.
  Container operator[](std::uint32_t number) const { return containers_[number]; }
  std::uint32_t payload(const Container& container) { return payload_of(Payload::container, number(container)); }
  Expression later(const Container& container) { return store_.later(payload(container), false, false); }
  std::size_t size() const { return containers_.size(); }

 private:
  struct Hash {
    std::size_t operator()(const Container& c) const {
      std::uint64_t hash = c.object + c.first * 2u + c.lasting * 4u + 8u * static_cast<std::uint64_t>(c.order);
      for (const std::uint32_t field :
           {c.shape, c.place, c.seen, c.cap, c.written, c.unknown, c.min_left, c.max_left, c.rest}) {
        hash = mix(hash, field);
      }
      return hash;
    }
  };

  ExpressionStore& store_;
  std::vector<Container> containers_;
  IncrementallyFreed<std::unordered_map<Container, std::uint32_t, Hash>> numbers_;
};

}  // namespace espalier::grammar
