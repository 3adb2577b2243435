#include "model/ranks/wishes.h"

#include <algorithm>

#include "model/ranks/split_program.h"  // even_columns

namespace espalier {
namespace {

// Of weak wishes: products of fewer outputs are computed by every rank, which costs less than bringing them together.
constexpr int kFewOutputs = 64;

}  // namespace

void Wishes::wish(const Rows& rows, Cut cut, bool firm) {
  for (const CutColumns& known : wishes_.meeting(rows))
    if (known.firm || !firm) return;
  wishes_.put({rows, std::move(cut), firm});
}
void Wishes::wish(const Op& op) {
  if (const auto* o = std::get_if<AttendOp>(&op)) {
    if (const auto heads = fields_.queries(*o))
      wish(o->queries, scaled(*heads, o->queries.width / o->heads, o->queries.first), true);
  } else if (const auto* store = std::get_if<StoreOp>(&op)) {
    const TokenField& field = whole_.keeps.per_token[static_cast<std::size_t>(store->field)];
    const auto heads = fields_.of(store->field);
    if (!heads) return;
    wish(store->keys, scaled(*heads, field.key_dim, store->keys.first), true);
    if (store->values) wish(store->values, scaled(*heads, field.value_dim, store->values.first), true);
  } else if (const auto* grouped = std::get_if<GroupedMatmulOp>(&op)) {
    wish(units_of(*grouped, whole_.needs), true);
  } else if (const auto units = espalier::units_of(op, room_)) {
    wish(*units, units->heavy);
  }
}
// As those who read the results would have them, or evenly.
void Wishes::wish(const OpUnits& units, bool firm) {
  std::vector<Piece> pieces = of(units);
  for (const Piece& piece : pieces) {
    const Cut cut = piece.cut ? *piece.cut : scaled(even_cut(piece.units.size(), ranks_), 1, piece.units.begin);
    for (const Operand& operand : units.operands)
      if (operand.reads)
        if (const auto columns = columns_of_units(operand, piece.units, cut, whole_.buffers))
          wish(columns->rows, columns->cut, firm || piece.firm);
  }
}
std::vector<Piece> Wishes::of(const OpUnits& units) const {
  for (const Operand& operand : units.operands)
    if (operand.writes) return pieces_of(units, operand, wishes_).value_or(std::vector<Piece>{{{0, units.count}, {}}});
  return {{{0, units.count}, {}}};
}

std::vector<CutColumns> Wishes::of(const Rows& out) const {
  std::vector<CutColumns> sections = wishes_.inside(out);
  const bool firm = std::ranges::any_of(sections, &CutColumns::firm);
  if (!firm && out.width < kFewOutputs) return {};
  std::vector<CutColumns> all;
  int at = out.first;
  const auto evenly_to = [&](int column) {
    if (at < column) all.push_back({{out.buffer, at, column - at}, scaled(even_columns(column - at, ranks_), 1, at)});
  };
  for (CutColumns& section : sections) {
    evenly_to(section.rows.first);
    at = section.rows.first + section.rows.width;
    all.push_back(std::move(section));
  }
  evenly_to(out.first + out.width);
  return all;
}

}  // namespace espalier
