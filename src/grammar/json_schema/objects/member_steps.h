// member_steps.h: what is left of constraints on objects once a member has been read, or passed.
//
// What they ask of the member's value becomes a constraint `value` (decisions.h).
// Threads: one at a time. Fails: never; beyond the limits of the stores what is left is `never`.
#pragma once

#include <cstdint>
#include <vector>

#include "grammar/json_schema/objects/object_names.h"

namespace espalier::grammar {

// Replaces each constraint by what is left of it.
class MemberSteps {
 public:
  MemberSteps(SchemaTables& tables, ObjectNames& names) : formulas_(tables.formulas), tables_(tables), names_(names) {}

  Formula at_member(Formula formula, std::uint32_t name);
  // At one under another name than those that are mentioned: it matches the patterns of the bits in `matched`.
  Formula at_other_member(Formula formula, const std::vector<Expression>& patterns, std::uint64_t matched);
  Formula pass_name(Formula formula, std::uint32_t name);  // it will not come any more

 private:
  FormulaStore& formulas_;
  SchemaTables& tables_;
  ObjectNames& names_;
};

// The names that a formula mentions, those that it does not merely exclude first.
std::vector<std::uint32_t> mentioned_names(const SchemaTables& tables, Formula formula);

}  // namespace espalier::grammar
