// open_names.h: names that the schema does not list and that must not come twice.
//
// Readers of JSON keep the last member of a name. Mostly a repetition harms nobody: it satisfies what the first one
// did. Not where members are counted (minProperties), and not where some member had to differ (not over
// patternProperties or additionalProperties): there a name is a rule of its own, what follows it awaits its text
// (recorded_states.h), and the names that matter are left out of those that may still come.
// Threads: one at a time.
// Fails:   never; beyond kMostNames names in one object the store is exhausted.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/json_schema/objects/object_members.h"

namespace espalier::grammar {

// Remembers names where that matters.
class OpenNames {
 public:
  OpenNames(SchemaTables& tables, const WrittenForm& form, Values& values, SchemaStrings& strings,
            ObjectMembers& members, Containers& containers, WrittenSets& written)
      : store_(tables.expressions),
        formulas_(tables.formulas),
        tables_(tables),
        form_(form),
        values_(values),
        strings_(strings),
        members_(members),
        containers_(containers),
        written_(written) {}

  bool matter(const Container& at, Formula rest);  // to what follows
  // Adds members of all such names, told apart by which patterns of the schema they match.
  void add_members(const Container& at, Formula rest, std::vector<Expression>& bodies);
  // The object behind a member, where nobody knows its name yet.
  Container with_unknown(const Container& at, Formula rest, const Member& way);
  // How many names of a kind nobody has taken, up to `enough`.
  std::uint64_t left(const Container& at, Expression names, std::uint64_t enough);
  // Whether members of these kinds, which say nothing new, are enough for those that must still come.
  bool enough(const Container& at, const std::vector<Member>& ways);

  // Nothing: the rule is not of a name.
  std::optional<Expression> rule_body(Rule rule) const;
  // What follows a name, of a payload's number. `text` ends with it; without one what any name could be followed by.
  Expression after_name(std::uint32_t number, std::optional<std::string_view> text);
  Container container_of(std::uint32_t number) const { return containers_[open_names_[number].container]; }

 private:
  struct OpenName {  // an object's member under a name that the schema does not list, and that must not come again
    std::uint32_t container = 0;
    Formula rest = FormulaStore::always;
    Expression names = ExpressionStore::nothing;
  };

  bool counts_members(Formula formula);
  Expression member(const Container& at, Formula rest, const Member& like);
  Container with_name(const Container& at, Container next, bool settles, std::string_view text);

  ExpressionStore& store_;
  FormulaStore& formulas_;
  SchemaTables& tables_;
  const WrittenForm& form_;
  Values& values_;
  SchemaStrings& strings_;
  ObjectMembers& members_;
  Containers& containers_;
  WrittenSets& written_;
  std::vector<OpenName> open_names_;
  std::vector<Expression> name_rules_;  // their bodies
  std::unordered_map<Expression, Rule> name_rules_of_;
  std::unordered_map<Formula, bool> counts_members_;
};

}  // namespace espalier::grammar
