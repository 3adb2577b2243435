#include "model/ranks/split_program.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "model/program/seen_fields.h"
#include "model/ranks/column_cuts.h"
#include "model/ranks/field_cuts.h"
#include "model/ranks/op_parts.h"
#include "model/ranks/rank_needs.h"
#include "model/ranks/rank_ops.h"
#include "model/ranks/stages.h"
#include "model/ranks/unit_pieces.h"
#include "model/ranks/wishes.h"

namespace espalier {
namespace {

// Cuts that nobody wishes otherwise fall between panels, and where it makes little difference between blocks of a product's
// input, so that these can be brought in its form.
constexpr int kColumns = 16, kBlock = 32, kFairBlocks = 4;

// Splits one list of operations.
class Splitting {
 public:
  // others: for what other stages need, which nobody looks at.
  Splitting(const Program& whole, RankOf rank, const FieldCuts& fields, RankNeeds& needs, RankNeeds& others)
      : whole_(whole),
        fields_(fields),
        own_needs_(needs),
        others_(others),
        wishes_(whole, fields, room_, rank.ranks / rank.stages),
        to_(rank) {
    room_ = {[this](VectorId id) { return this->needs().length(id); },
             [this](VectorId id, int rows, int count, Range units) {
               return this->needs().some_values(id, rows, count, units);
             },
             [this](std::size_t floats) { return this->needs().state(floats); }};
  }

  // begins: where stages begin; output: what the first rank must have at the end.
  std::vector<Op> run(const std::vector<Op>& ops, const std::vector<StageBegin>& begins, const Rows& output) {
    if (ranks() > 1) wishes_.look_at(ops);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (std::size_t stage = static_cast<std::size_t>(to_.stage()) + 1; stage < begins.size(); ++stage)
        if (begins[stage].op == static_cast<int>(i)) hand_over(static_cast<int>(stage), begins[stage].live);
      std::visit([&](const auto& o) { split_or_not(o); }, ops[i]);
    }
    if (output) bring(output);
    if (output && to_.stage() > 0) to_.hand_to_first(output);
    return to_.take();
  }
  // All of them by one stage.
  std::vector<Op> run_at(int stage, const std::vector<Op>& ops) {
    to_.begin(stage);
    return run(ops, {}, {});
  }
  // Where each field is stored; -1: nowhere.
  const std::vector<int>& stage_of_field() const { return stage_of_field_; }
  // Every rank does all of them.
  std::vector<Op> keep(const std::vector<Op>& ops) {
    for (const Op& op : ops) all_do(op);
    return to_.take();
  }

 private:
  int ranks() const { return to_.ranks(); }
  std::size_t own() const { return to_.own(); }
  bool here() const { return to_.here(); }
  RankNeeds& needs() { return here() ? own_needs_ : others_; }
  void emit(Op op) { to_.emit(std::move(op)); }
  void hand_over(int to_stage, const std::vector<Rows>& live) {
    for (const Rows& rows : live) bring(rows);
    for (const Rows& rows : live) to_.hand_over(rows, to_stage);
    to_.begin(to_stage);
  }

  // One rank has nobody to share with.
  template <class O>
  void split_or_not(const O& o) {
    constexpr bool of_all_ranks = std::is_same_v<O, HeadOp> || std::is_same_v<O, KeepRowsOp>;
    if constexpr (std::is_same_v<O, StoreOp>) stage_of_field_[static_cast<std::size_t>(o.field)] = to_.stage();
    if (ranks() > 1 || of_all_ranks)
      split(o);
    else
      all_do(o);
  }

  // --- what later operations would have of earlier ones ---

  // --- what ranks bring together ---

  // From here on all ranks have these columns.
  void bring(const Rows& rows) {
    if (!rows) return;
    for (const CutColumns& section : spread_.meeting(rows)) {
      to_.gather(section.rows, owners(section.cut, section.rows.first, section.rows.width));
      spread_.erase(section.rows);
    }
  }
  void bring_unless(int buffer, const Cut& columns) {
    if (spread_.have(buffer, columns)) return;
    Rows all{buffer, columns.front().begin, 0};
    for (const Range& range : columns) {
      all.width = std::max(all.first + all.width, range.end) - std::min(all.first, range.begin);
      all.first = std::min(all.first, range.begin);
    }
    bring(all);
  }
  void give(const CutColumns& section) { spread_.put(section); }

  // --- operations that every rank does whole ---

  void all_do(Op op) {
    for_each_place(op, [&](const Rows& rows, bool writes) {
      if (!writes) bring(rows);
    });
    for_each_place(op, [&](const Rows& rows, bool writes) {
      if (writes) spread_.erase(rows);
    });
    renumber(op);
    emit(std::move(op));
  }
  void renumber(Op& op) {
    if (auto* o = std::get_if<MatmulOp>(&op)) o->matrix = needs().matrices(o->matrix, 1);
    if (auto* o = std::get_if<GatedMatmulOp>(&op)) o->matrix = needs().matrices(o->matrix, 1);
    if (auto* o = std::get_if<GroupedMatmulOp>(&op)) o->first = needs().matrices(o->first, o->groups);
    if (auto* o = std::get_if<ExpertsOp>(&op)) {
      o->gate_up = needs().matrices(o->gate_up, o->count);
      o->down = needs().matrices(o->down, o->count);
    }
    op = with_own_state(std::move(op), room_);
  }

  // --- products ---

  // O: a product whose matrix has a column for each one of `out`.
  template <class O>
  void split_product(const O& o, bool adds) {
    bring(o.in);
    const std::vector<CutColumns> sections = wishes_.of(o.out);
    if (sections.empty()) return all_do(o);
    for (const CutColumns& section : sections) {
      if (adds) bring_unless(o.out.buffer, section.cut);
      const Range own = section.cut[this->own()];
      if (!own.empty()) {
        O part = o;
        part.out = {o.out.buffer, own.begin, own.size()};
        part.matrix = needs().matrices(o.matrix, 1, Range{own.begin - o.out.first, own.end - o.out.first});
        emit(std::move(part));
      }
      give(section);
    }
  }
  void split(const MatmulOp& o) { split_product(o, o.add); }
  void split(const GatedMatmulOp& o) { split_product(o, false); }

  void split(const GroupedMatmulOp& o) {
    const OpUnits units = espalier::units_of(o, whole_.needs);
    std::vector<Piece> pieces = wishes_.of(units);
    for (Piece& piece : pieces)
      if (!piece.cut) piece.cut = scaled(even_cut(piece.units.size(), ranks()), 1, piece.units.begin);
    if (!can_be_given(units, pieces)) return all_do(o);
    for (const Piece& piece : pieces) {
      take(units, *piece.cut);
      if (const Range own = (*piece.cut)[this->own()]; !own.empty()) {
        GroupedMatmulOp part = o;
        const Range in = units.operands[0].columns(own), out = units.operands[1].columns(own);
        part.in = {o.in.buffer, in.begin, in.size()};
        part.out = {o.out.buffer, out.begin, out.size()};
        part.groups = own.size();
        part.first = needs().matrices(o.first + own.begin, own.size());
        emit(part);
      }
      give_results(units, piece);
    }
  }

  // --- experts ---

  void split(const ExpertsOp& o) {
    for (const Rows& rows : {o.in, o.routed}) bring(rows);
    if (to_.experts_by_id()) return share_experts(o);
    if (std::min(o.inner, o.out.width) < ranks()) return all_do(o);
    const Cut out = scaled(even_columns(o.out.width, ranks()), 1, o.out.first);
    if (o.add) bring_unless(o.out.buffer, out);
    ExpertsOp part = o;
    part.inner_cut = even_columns(o.inner, ranks());
    part.own = part.inner_cut[own()];
    part.inner_cut = to_.of_all(part.inner_cut);
    if (!here()) to_.emit_for_all(AllGatherOp{{}, part.inner_cut, false, o.chosen});
    part.out = {o.out.buffer, out[own()].begin, out[own()].size()};
    part.out_column = part.out.first - o.out.first;
    part.gate_up = needs().matrices(o.gate_up, o.count, part.own, true);
    part.down = needs().matrices(o.down, o.count, Range{part.out_column, part.out_column + part.out.width}, true);
    emit(std::move(part));
    give({o.out, out});
  }
  // How many rows each rank brings is what the router says, so ranks of other stages are told that.
  void share_experts(const ExpertsOp& o) {
    if (o.add) bring(o.out);
    if (to_.stages() > 1) to_.hand_to_all(o.routed);
    const Cut cut = even_cut(o.count, ranks());
    ExpertsOp part = o;
    part.expert_cut = to_.of_all(cut);
    part.only_meets = !here();
    part.own = here() ? cut[own()] : Range{0, 0};
    part.gate_up = part.down = 0;
    if (here()) {
      part.gate_up = needs().matrices(o.gate_up + part.own.begin, part.own.size());
      part.down = needs().matrices(o.down + part.own.begin, part.own.size());
    }
    to_.emit_for_all(std::move(part));
    spread_.erase(o.out);
  }

  // --- attention ---

  void split(const StoreOp& o) {
    const auto heads = fields_.of(o.field);
    if (!heads) return all_do(o);
    const TokenField& field = whole_.keeps.per_token[static_cast<std::size_t>(o.field)];
    const auto of = [&](const Rows& rows, int each) {
      bring_unless(rows.buffer, scaled(*heads, each, rows.first));
      const Range own = (*heads)[this->own()];
      return rows.part(own.begin * each, own.size() * each);
    };
    StoreOp part = o;
    part.keys = of(o.keys, field.key_dim);
    if (o.values) part.values = of(o.values, field.value_dim);
    emit(part);
  }
  void split(const AttendOp& o) {
    const auto heads = fields_.queries(o);
    if (!heads) return all_do(o);
    const int query = o.queries.width / o.heads, value = o.out.width / o.heads;
    bring_unless(o.queries.buffer, scaled(*heads, query, o.queries.first));
    if (const Range own = (*heads)[this->own()]; !own.empty()) {
      AttendOp part = o;
      part.queries = o.queries.part(own.begin * query, own.size() * query);
      part.out = o.out.part(own.begin * value, own.size() * value);
      part.heads = own.size();
      for (VectorId* id : {&part.sinks, &part.slopes, &part.biases})
        if (*id >= 0) *id = needs().some_values(*id, 1, o.heads, own);
      emit(part);
    }
    give({o.out, scaled(*heads, value, o.out.first)});
  }

  // --- the head ---

  void split(const HeadOp& o) {
    bring(o.in);
    const Cut cut = even_columns(whole_.vocabulary, ranks());
    HeadOp part = o;
    part.share = cut[own()];
    part.matrix = needs().matrices(o.matrix, 1, part.share);
    if (!part.share.empty()) emit(part);
    to_.emit_for_all(GatherLogitsOp{to_.of_all(cut), o.scale, o.cap});
  }

  // Rows move whole, whatever a rank has of them.
  void split(const KeepRowsOp& o) { to_.emit_for_all(here() ? o : KeepRowsOp{}); }

  // --- what falls into units ---

  // Whether later operations can be told who has the results.
  bool can_be_given(const OpUnits& units, const std::vector<Piece>& pieces) const {
    for (const Piece& piece : pieces)
      for (const Operand& operand : units.operands)
        if (operand.writes && piece.cut && !columns_of_units(operand, piece.units, *piece.cut, whole_.buffers))
          return false;
    return true;
  }
  // Ranks get what their units read.
  void take(const OpUnits& units, const Cut& cut) {
    for (const Rows& rows : units.whole) bring(rows);
    for (const Operand& operand : units.operands) {
      Cut columns;
      for (const Range& range : cut) columns.push_back(operand.columns(range));
      if (operand.reads) bring_unless(operand.rows.buffer, columns);
    }
  }
  void give_results(const OpUnits& units, const Piece& piece) {
    for (const Operand& operand : units.operands)
      if (operand.writes) give_result(operand, piece);
  }
  // Columns of others that lie between are spread likewise, or everywhere.
  void give_result(const Operand& operand, const Piece& piece) {
    const CutColumns section = *columns_of_units(operand, piece.units, *piece.cut, whole_.buffers);
    if (operand.has_gaps())
      for (const CutColumns& known : spread_.inside(section.rows))
        if (known.cut != section.cut || known.rows != section.rows) bring(known.rows);
    give(section);
  }

  template <class O>
  void split(const O& o) {
    const auto units = espalier::units_of(o, room_);
    if (!units) return all_do(o);
    const std::vector<Piece> pieces = pieces_to_do(*units);
    const bool apart = std::ranges::any_of(pieces, [](const Piece& piece) { return piece.cut.has_value(); });
    if (!apart || !can_be_given(*units, pieces)) return all_do_keeping_gaps(o, *units);
    for (const Piece& piece : pieces) do_piece(o, *units, piece);
  }
  template <class O>
  void do_piece(const O& o, const OpUnits& units, const Piece& piece) {
    take(units, piece.cut ? *piece.cut : Cut(static_cast<std::size_t>(ranks()), piece.units));
    const Range own = piece.cut ? (*piece.cut)[this->own()] : piece.units;
    if (!own.empty()) emit(some_units(Op(o), own, room_));
    if (piece.cut) return give_results(units, piece);
    for (const Operand& operand : units.operands) {
      const Range columns = operand.columns(piece.units);
      if (operand.writes) spread_.erase({operand.rows.buffer, columns.begin, columns.size()});
    }
  }
  // As what it reads is spread.
  std::vector<Piece> pieces_to_do(const OpUnits& units) const {
    for (const Operand& operand : units.operands) {
      if (!operand.reads || spread_.meeting(operand.rows).empty()) continue;
      if (auto pieces = pieces_of(units, operand, spread_)) return *std::move(pieces);
      return {{{0, units.count}, {}}};
    }
    if (units.heavy) return {{{0, units.count}, even_cut(units.count, ranks())}};
    return {{{0, units.count}, {}}};
  }
  // Columns between those that it writes stay what they are.
  void all_do_keeping_gaps(const Op& op, const OpUnits& units) {
    for (const Operand& operand : units.operands)
      if (operand.writes && operand.has_gaps()) bring(operand.rows);
    all_do(op);
  }

  const Program& whole_;
  const FieldCuts& fields_;
  RankNeeds &own_needs_, &others_;
  OpRoom room_;
  Wishes wishes_;
  ColumnCuts spread_;
  RankOps to_;
  std::vector<int> stage_of_field_ = std::vector<int>(whole_.keeps.per_token.size(), -1);
};

}  // namespace

Cut even_columns(int width, int ranks) {
  for (const int each : {kBlock, kColumns})
    if (width % each == 0 && width >= each * ranks * (each == kBlock ? kFairBlocks : 1))
      return scaled(even_cut(width / each, ranks), each);
  return even_cut(width, ranks);
}

namespace {

// The rank's heads of every field, and what others have.
void cut_fields(const Program& whole, RankOf rank, const FieldCuts& fields, const std::vector<int>& stage_of_field,
                Program& out) {
  const std::vector<Visibility> seen = seen_fields(whole);
  const auto ranks = static_cast<std::size_t>(rank.ranks / rank.stages);
  for (std::size_t f = 0; f < whole.keeps.per_token.size(); ++f) {
    const TokenField& field = whole.keeps.per_token[f];
    const auto shared = fields.of(static_cast<FieldId>(f));
    const auto stage = static_cast<std::size_t>(std::max(0, stage_of_field[f]));
    Cut cut(static_cast<std::size_t>(rank.ranks));
    for (std::size_t r = 0; r < ranks; ++r) cut[stage * ranks + r] = shared ? (*shared)[r] : Range{0, field.heads};
    out.keeps.per_token[f].heads = cut[static_cast<std::size_t>(rank.rank)].size();
    out.whole_fields.push_back({field, seen[f], std::move(cut)});
  }
}

// Floats of a row of each input that the caller brings.
std::vector<int> input_widths(const Program& whole) {
  std::vector<int> widths;
  for (const Op& op : whole.ops)
    if (const auto* o = std::get_if<TakeGivenOp>(&op)) {
      widths.resize(std::max(widths.size(), static_cast<std::size_t>(o->input) + 1));
      widths[static_cast<std::size_t>(o->input)] = o->out.width;
    }
  return widths;
}

int stage_of_last(const Program& whole, const std::vector<StageBegin>& begins) {
  int stage = 0;
  for (std::size_t i = 0; i < begins.size(); ++i)
    if (begins[i].op < static_cast<int>(whole.ops.size())) stage = static_cast<int>(i);
  return stage;
}

}  // namespace

Program split_program(const Program& whole, RankOf rank) {
  if (rank.alone()) return whole;
  Program out = whole, unseen = whole;
  for (Program* program : {&out, &unseen}) {
    program->needs.matrices.clear();
    program->keeps.state_floats = 0;
  }
  const FieldCuts fields(whole, rank.ranks / rank.stages);
  const std::vector<StageBegin> begins = stages_of(whole, rank.stages);
  RankNeeds needs(whole, out), others(whole, unseen);
  Splitting layers(whole, rank, fields, needs, others);
  out.ops = layers.run(whole.ops, begins, whole.output);
  out.draft_ops = Splitting(whole, rank, fields, needs, others).run_at(stage_of_last(whole, begins), whole.draft_ops);
  // A model that keeps states has cells on every rank, under the same numbers.
  if (whole.keeps.state_floats > 0) out.keeps.state_floats = std::max<std::size_t>(out.keeps.state_floats, 16);
  // What stands behind pooling is done by the first rank alone.
  const RankOf first{0, rank.ranks, rank.experts_by_id, rank.stages};
  out.pooled_ops = Splitting(whole, first, fields, needs, others).keep(whole.pooled_ops);
  cut_fields(whole, rank, fields, layers.stage_of_field(), out);
  out.whole_inputs = input_widths(whole);
  return out;
}

}  // namespace espalier
