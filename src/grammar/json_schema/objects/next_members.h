// next_members.h: the members that may come next in an object.
//
// What the value of a member decides is worked out behind its name, since most names are never read.
// Threads: one at a time. Fails: never; beyond the limits of the stores there are fewer.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar/json_schema/objects/object_completion.h"

namespace espalier::grammar {

// What may follow in an object.
struct NextOfObject {
  std::vector<Member> ways;        // to be looked at: is the value possible, can the object behind it be completed?
  std::vector<Expression> bodies;  // of names of which that is known
  bool may_close = false;
};

// Offers members.
class NextMembers {
 public:
  // What it asks of objects.
  struct Parts {
    Values& values;
    Decisions& decisions;
    ObjectNames& names;
    MemberSteps& steps;
    ObjectShapes& shapes;
    ObjectMembers& members;
    OpenNames& open_names;
    ObjectCompletion& completion;
    Containers& containers;
  };
  NextMembers(SchemaTables& tables, const Parts& parts)
      : store_(tables.expressions), formulas_(tables.formulas), tables_(tables), parts_(parts) {}

  NextOfObject of(const Container& object);
  // What may follow a name, of a payload's number: its value, and the rest of the object.
  Expression after_name(std::uint32_t number);
  // The shortest that may follow: the object behind the member, and whether the value has been read.
  Container behind(std::uint32_t number) const;
  bool value_read(std::uint32_t number) const { return entries_[number].value_read; }
  std::size_t memory() const { return entries_.size() * sizeof(Entry); }

 private:
  struct Entry {  // an object's member of which the name has been read
    std::uint32_t container = 0, place = 0;
    Formula rest = FormulaStore::always;
    bool value_read = false;  // and its value, which decides nothing
  };
  struct Outline {  // what a formula says of objects, whatever it says of alternatives
    IncrementallyFreed<std::unordered_map<std::uint32_t, std::vector<Formula>>> values;  // by name
    std::unordered_set<std::uint32_t> required;
    std::vector<Demand> general;  // on values under any name
    bool counts = false;          // members, or speaks of names
  };
  using Ending = ObjectCompletion::Ending;

  Outline outline(Formula formula);
  bool can_come(const Container& at, std::uint32_t place, Formula rest, const Outline& outline,
                const std::optional<Ending>& ending);
  bool comes_before(const Container& at, std::uint32_t place, const Outline& outline, const Ending& ending);
  bool passes_unnoticed(std::uint32_t name, Formula wanted, const Outline& outline);
  Expression entry(const Container& at, const Entry& entry);

  ExpressionStore& store_;
  FormulaStore& formulas_;
  SchemaTables& tables_;
  Parts parts_;
  std::vector<Entry> entries_;
};

}  // namespace espalier::grammar
