#include "model/program/seen_fields.h"

#include <algorithm>
#include <optional>

namespace espalier {

Visibility widest(const Visibility& a, const Visibility& b) {
  using Rule = Visibility::Rule;
  if (a == b) return a;
  if (a.rule == Rule::all || b.rule == Rule::all) return {};
  return Visibility::window(std::max(a.size, b.size));  // a row never sees more of its chunk than the chunk's size
}

std::vector<Visibility> seen_fields(const Program& program) {
  if (!program.whole_fields.empty()) {
    std::vector<Visibility> all;
    for (const Program::WholeField& field : program.whole_fields) all.push_back(field.seen);
    return all;
  }
  std::vector<std::optional<Visibility>> seen(program.keeps.per_token.size());
  const auto sees = [&](FieldId field, Visibility what) {
    if (field < 0) return;
    if (program.both_ways) what = {};  // windows reach ahead too
    auto& known = seen[static_cast<std::size_t>(field)];
    known = known ? widest(*known, what) : what;
  };
  const auto look = [&](const Op& op) {
    if (const auto* attend = std::get_if<AttendOp>(&op)) {
      sees(attend->field, attend->visibility);
      sees(attend->then, {});
    } else if (const auto* choose = std::get_if<ChooseOp>(&op)) {
      sees(choose->field, {});
    } else if (const auto* load = std::get_if<LoadBeforeOp>(&op)) {
      sees(load->field, {});
    }
  };
  std::ranges::for_each(program.ops, look);
  std::ranges::for_each(program.draft_ops, look);
  std::vector<Visibility> result;
  for (const auto& one : seen) result.push_back(one.value_or(Visibility{}));
  return result;
}

}  // namespace espalier
