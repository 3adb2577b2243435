#include "model/ranks/unit_pieces.h"

namespace espalier {

std::optional<CutColumns> columns_of_units(const Operand& operand, Range units, const Cut& cut,
                                           const std::vector<int>& widths) {
  const Rows& rows = operand.rows;
  if (!operand.has_gaps()) {
    const Range all = operand.columns(units);
    return CutColumns{{rows.buffer, all.begin, all.size()}, scaled(cut, operand.stride, rows.first)};
  }
  const int width = widths[static_cast<std::size_t>(rows.buffer)], grid = rows.first / operand.stride * operand.stride;
  const Rows all{rows.buffer, grid + units.begin * operand.stride, units.size() * operand.stride};
  if (all.first + all.width > width || rows.first - grid + operand.width > operand.stride) return std::nullopt;
  return CutColumns{all, scaled(cut, operand.stride, grid)};
}

std::optional<std::vector<Piece>> pieces_of(const OpUnits& units, const Operand& operand, const ColumnCuts& columns) {
  std::vector<Piece> pieces;
  const int first = operand.has_gaps() ? operand.rows.first / operand.stride * operand.stride : operand.rows.first;
  const Rows all{operand.rows.buffer, first, units.count * operand.stride};
  int at = 0;
  for (const CutColumns& section : columns.inside(all)) {
    const auto unit = [&](int column, bool& fits) {
      fits = fits && (column - first) % operand.stride == 0;
      return (column - first) / operand.stride;
    };
    bool fits = true;
    Piece piece{
        {unit(section.rows.first, fits), unit(section.rows.first + section.rows.width, fits)}, Cut{}, section.firm};
    for (const Range& range : section.cut) piece.cut->push_back({unit(range.begin, fits), unit(range.end, fits)});
    if (!fits) return std::nullopt;
    if (at < piece.units.begin) pieces.push_back({{at, piece.units.begin}, {}});
    at = piece.units.end;
    pieces.push_back(std::move(piece));
  }
  if (at < units.count) pieces.push_back({{at, units.count}, {}});
  return pieces;
}

OpUnits units_of(const GroupedMatmulOp& o, const Needs& needs) {
  const MatrixNeed& need = needs.matrices[static_cast<std::size_t>(o.first)];
  return {o.groups,
          {{o.in, o.in_stride, static_cast<int>(need.inputs), true, false},
           {o.out, o.out_stride, static_cast<int>(need.outputs()), false, true}},
          {},
          true};
}

}  // namespace espalier
