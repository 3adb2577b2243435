#include "grammar/json_schema/formulas/open_questions.h"

#include <algorithm>
#include <ranges>

namespace espalier::grammar {
namespace {

constexpr std::size_t kDeepestQuestion = 1500;  // questions within questions: each has a few calls on the stack

}  // namespace

bool OpenQuestions::goes_deeper() {
  if (open_ + levels_ < kDeepestQuestion) return true;
  too_deep_ = too_deep_ || !limit_met();
  tables_.expressions.exhaust();
  tables_.formulas.exhaust();
  return false;
}

SchemaNumber OpenQuestions::at_fault() const {
  if (asked_.empty()) return 0;
  if (too_deep_) return asked_.back().schema;
  const std::size_t begun = asked_.front().made_before;
  const auto took_most = [&](const Asked& asked) { return 2 * (made() - asked.made_before) >= made() - begun; };
  return std::ranges::find_if(std::views::reverse(asked_), took_most)->schema;
}

}  // namespace espalier::grammar
