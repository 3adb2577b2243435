#include "model/ranks/split_program.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "model/program/seen_fields.h"
#include "model/ranks/column_cuts.h"
#include "model/ranks/op_parts.h"
#include "model/ranks/stages.h"

namespace espalier {
namespace {

// Of weak wishes: products of fewer outputs are computed by every rank, which costs less than bringing them together.
constexpr int kFewOutputs = 64;
// Cuts that nobody wishes otherwise fall between panels, and where it makes little difference between blocks of a product's
// input, so that these can be brought in its form.
constexpr int kColumns = 16, kBlock = 32, kFairBlocks = 4;

// Some outputs of every part of a matrix.
MatrixNeed some_of_parts(MatrixNeed need, Range outputs) {
  for (MatrixPart& part : need.parts) {
    part.rows.skip += outputs.begin;
    part.outputs = outputs.size();
  }
  return need;
}

// Some of a matrix's outputs.
MatrixNeed some_outputs(const MatrixNeed& need, Range outputs) {
  if (need.gated) return some_of_parts(need, outputs);
  MatrixNeed out = need;
  out.parts.clear();
  int base = 0;
  for (const MatrixPart& part : need.parts) {
    const auto width = static_cast<int>(part.outputs);
    const int begin = std::clamp(outputs.begin - base, 0, width), end = std::clamp(outputs.end - base, begin, width);
    if (begin < end) {
      MatrixPart some = part;
      some.rows.skip += begin;
      some.outputs = end - begin;
      out.parts.push_back(std::move(some));
    }
    base += width;
  }
  return out;
}

// Which fields are stored by heads, and how; the others have all heads on every rank.
class FieldCuts {
 public:
  FieldCuts(const Program& program, int ranks) : ranks_(ranks), by_heads_(program.keeps.per_token.size(), true) {
    for (std::size_t f = 0; f < by_heads_.size(); ++f) by_heads_[f] = program.keeps.per_token[f].heads > 1;
    for (const auto* ops : {&program.ops, &program.draft_ops})
      for (const Op& op : *ops) see_masks(op);
    for (const auto* ops : {&program.ops, &program.draft_ops})
      for (const Op& op : *ops) see(op);
    // Both fields of one softmax, as often as one of them changes another.
    for (std::size_t round = 0; round < together_.size(); ++round)
      for (const auto& [a, b] : together_)
        if (at(a) != at(b)) by_heads_[index(a)] = by_heads_[index(b)] = false;
    for (std::size_t f = 0; f < by_heads_.size(); ++f) heads_.push_back(program.keeps.per_token[f].heads);
  }

  // The heads of each rank; nothing: all have all.
  std::optional<Cut> of(FieldId id) const {
    if (!at(id)) return std::nullopt;
    return head_cuts(heads_[index(id)], heads_[index(id)], ranks_).kv_heads;
  }
  // Whether its heads can be shared, and how.
  std::optional<Cut> queries(const AttendOp& o) const {
    const int heads = heads_[index(o.field)];
    if (by_head_.contains(o.mask) || by_head_.contains(o.then_mask)) return std::nullopt;
    if (heads == 1 && (o.then < 0 || heads_[index(o.then)] == 1)) return even_cut(o.heads, ranks_);
    if (!at(o.field)) return std::nullopt;
    return head_cuts(o.heads, heads, ranks_).heads;
  }

 private:
  static std::size_t index(FieldId id) { return static_cast<std::size_t>(id); }
  bool at(FieldId id) const { return by_heads_[index(id)]; }
  // Lists that each head has of its own cannot be had by some heads alone.
  void see_masks(const Op& op) {
    if (const auto* o = std::get_if<ChooseOp>(&op); o && !o->weights && o->constant_weights < 0 && o->heads > 1)
      by_head_[o->mask] = true;
  }
  void see(const Op& op) {
    if (const auto* o = std::get_if<ChooseOp>(&op)) by_heads_[index(o->field)] = false;
    if (const auto* o = std::get_if<LoadBeforeOp>(&op)) by_heads_[index(o->field)] = false;
    const auto* o = std::get_if<AttendOp>(&op);
    if (o == nullptr) return;
    if (by_head_.contains(o->mask) || by_head_.contains(o->then_mask)) {
      by_heads_[index(o->field)] = false;
      if (o->then >= 0) by_heads_[index(o->then)] = false;
    }
    if (o->then >= 0) together_.push_back({o->field, o->then});
  }

  int ranks_;
  std::vector<bool> by_heads_;
  std::vector<int> heads_;
  std::map<MaskId, bool> by_head_;
  std::vector<std::pair<FieldId, FieldId>> together_;
};

// What the rank's program has of the whole one's matrices, vectors and states.
class RankNeeds {
 public:
  RankNeeds(const Program& whole, Program& out) : whole_(whole), out_(out) {}

  // Some outputs (of every part: where parts are alike) of `count` matrices that follow one another; gives the first's new
  // number.
  MatrixId matrices(MatrixId first, int count, std::optional<Range> outputs = std::nullopt, bool of_parts = false) {
    const Key key{first, count, outputs ? outputs->begin : -1, outputs ? outputs->end : -1};
    const auto [known, is_new] = matrices_.try_emplace(key, static_cast<MatrixId>(out_.needs.matrices.size()));
    if (is_new)
      for (int i = 0; i < count; ++i) {
        const MatrixNeed& need = whole_.needs.matrices[static_cast<std::size_t>(first) + static_cast<std::size_t>(i)];
        out_.needs.matrices.push_back(!outputs   ? need
                                      : of_parts ? some_of_parts(need, *outputs)
                                                 : some_outputs(need, *outputs));
      }
    return known->second;
  }
  std::size_t state(std::size_t floats) {
    const std::size_t first = out_.keeps.state_floats;
    out_.keeps.state_floats += (floats + 15) / 16 * 16;
    return first;
  }
  VectorId some_values(VectorId id, int rows, int count, Range units) {
    if (units == Range{0, count}) return id;
    const std::vector<float>& all = out_.vectors[static_cast<std::size_t>(id)];
    const std::size_t of_row = all.size() / static_cast<std::size_t>(rows),
                      each = of_row / static_cast<std::size_t>(count);
    std::vector<float> some;
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(row * of_row);
      some.insert(some.end(), from + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(units.begin) * each),
                  from + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(units.end) * each));
    }
    out_.vectors.push_back(std::move(some));
    return static_cast<VectorId>(out_.vectors.size()) - 1;
  }
  std::size_t length(VectorId id) const { return out_.vectors[static_cast<std::size_t>(id)].size(); }

 private:
  using Key = std::tuple<MatrixId, int, int, int>;
  const Program& whole_;
  Program& out_;
  std::map<Key, MatrixId> matrices_;
};

// Units [units.begin, units.end) of an operation, and how ranks share them; without a cut every rank does all.
struct Piece {
  Range units;
  std::optional<Cut> cut;
  bool firm = false;
};

// Splits one list of operations.
class Splitting {
 public:
  // others: for what other stages need, which nobody looks at.
  Splitting(const Program& whole, RankOf rank, const FieldCuts& fields, RankNeeds& needs, RankNeeds& others)
      : whole_(whole), rank_(rank), fields_(fields), own_needs_(needs), others_(others) {
    room_ = {[this](VectorId id) { return this->needs().length(id); },
             [this](VectorId id, int rows, int count, Range units) {
               return this->needs().some_values(id, rows, count, units);
             },
             [this](std::size_t floats) { return this->needs().state(floats); }};
  }

  // begins: where stages begin; output: what the first rank must have at the end.
  std::vector<Op> run(const std::vector<Op>& ops, const std::vector<StageBegin>& begins, const Rows& output) {
    if (ranks() > 1)
      for (auto op = ops.rbegin(); op != ops.rend(); ++op) wish(*op);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (std::size_t stage = static_cast<std::size_t>(stage_) + 1; stage < begins.size(); ++stage)
        if (begins[stage].op == static_cast<int>(i)) hand_over(static_cast<int>(stage), begins[stage].live);
      std::visit([&](const auto& o) { split_or_not(o); }, ops[i]);
    }
    if (output) bring(output);
    if (output && stage_ > 0) hand_over_to_first(output);
    return std::move(out_);
  }
  // All of them by one stage.
  std::vector<Op> run_at(int stage, const std::vector<Op>& ops) {
    stage_ = stage;
    return run(ops, {}, {});
  }
  // Where each field is stored; -1: nowhere.
  const std::vector<int>& stage_of_field() const { return stage_of_field_; }
  // Every rank does all of them.
  std::vector<Op> keep(const std::vector<Op>& ops) {
    for (const Op& op : ops) all_do(op);
    return std::move(out_);
  }

 private:
  // Of the ranks of a stage.
  int ranks() const { return rank_.ranks / rank_.stages; }
  std::size_t own() const { return static_cast<std::size_t>(rank_.rank % ranks()); }
  int own_stage() const { return rank_.rank / ranks(); }
  bool here() const { return own_stage() == stage_; }
  RankNeeds& needs() { return here() ? own_needs_ : others_; }

  // A cut among the ranks of the stage at hand as one among all.
  Cut of_all(const Cut& cut) const {
    Cut all(static_cast<std::size_t>(rank_.ranks));
    std::ranges::copy(cut, all.begin() + static_cast<std::ptrdiff_t>(stage_ * ranks()));
    return all;
  }
  // The first rank of the stage at hand gives all columns.
  AllGatherOp given_by_one(const Rows& rows) const {
    Cut cut(static_cast<std::size_t>(ranks()));
    cut.front() = {rows.first, rows.first + rows.width};
    return {{}, of_all(cut), false};
  }
  bool gives() const { return rank_.rank == stage_ * ranks(); }
  void hand_over(int to_stage, const std::vector<Rows>& live) {
    for (const Rows& rows : live) bring(rows);
    for (const Rows& rows : live) {
      AllGatherOp op = given_by_one(rows);
      op.takes = own_stage() >= to_stage;
      if (op.takes || gives()) op.rows = rows;
      out_.push_back(std::move(op));
    }
    stage_ = to_stage;
  }
  void hand_over_to_first(const Rows& rows) {
    AllGatherOp op = given_by_one(rows);
    op.takes = rank_.rank == 0;
    if (op.takes || gives()) op.rows = rows;
    out_.push_back(std::move(op));
  }

  // One rank has nobody to share with.
  template <class O>
  void split_or_not(const O& o) {
    constexpr bool of_all_ranks = std::is_same_v<O, HeadOp> || std::is_same_v<O, KeepRowsOp>;
    if constexpr (std::is_same_v<O, StoreOp>) stage_of_field_[static_cast<std::size_t>(o.field)] = stage_;
    if (ranks() > 1 || of_all_ranks)
      split(o);
    else
      all_do(o);
  }

  // --- what later operations would have of earlier ones ---

  void wish(const Rows& rows, Cut cut, bool firm) {
    for (const CutColumns& known : wishes_.meeting(rows))
      if (known.firm || !firm) return;
    wishes_.put({rows, std::move(cut), firm});
  }
  void wish(const Op& op) {
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
      wish(units_of(*grouped), true);
    } else if (const auto units = espalier::units_of(op, room_)) {
      wish(*units, units->heavy);
    }
  }
  // As those who read the results would have them, or evenly.
  void wish(const OpUnits& units, bool firm) {
    std::vector<Piece> pieces = wished(units);
    for (const Piece& piece : pieces) {
      const Cut cut = piece.cut ? *piece.cut : shifted(even_cut(piece.units.size(), ranks()), piece.units.begin);
      for (const Operand& operand : units.operands)
        if (operand.reads) wish_of(operand, piece.units, cut, firm || piece.firm);
    }
  }
  void wish_of(const Operand& operand, Range units, const Cut& cut, bool firm) {
    const std::optional<CutColumns> section = section_of(operand, units, cut);
    if (section) wish(section->rows, section->cut, firm);
  }
  std::vector<Piece> wished(const OpUnits& units) const {
    for (const Operand& operand : units.operands)
      if (operand.writes)
        return pieces_of(units, operand, wishes_).value_or(std::vector<Piece>{{{0, units.count}, {}}});
    return {{{0, units.count}, {}}};
  }

  static Cut shifted(const Cut& cut, int by) { return scaled(cut, 1, by); }

  // --- units and columns ---

  // The section that ranks make who have these units; nothing: it cannot be said, for others' columns lie between.
  std::optional<CutColumns> section_of(const Operand& operand, Range units, const Cut& cut) const {
    const Rows& rows = operand.rows;
    if (!operand.has_gaps()) {
      const Range all = operand.columns(units);
      return CutColumns{{rows.buffer, all.begin, all.size()}, scaled(cut, operand.stride, rows.first)};
    }
    const int width = whole_.buffers[static_cast<std::size_t>(rows.buffer)],
              grid = rows.first / operand.stride * operand.stride;
    const Rows all{rows.buffer, grid + units.begin * operand.stride, units.size() * operand.stride};
    if (all.first + all.width > width || rows.first - grid + operand.width > operand.stride) return std::nullopt;
    return CutColumns{all, scaled(cut, operand.stride, grid)};
  }

  // The pieces that sections over an operand make of the units; nothing: some do not end between units.
  static std::optional<std::vector<Piece>> pieces_of(const OpUnits& units, const Operand& operand,
                                                     const ColumnCuts& sections) {
    std::vector<Piece> pieces;
    const int first = operand.has_gaps() ? operand.rows.first / operand.stride * operand.stride : operand.rows.first;
    const Rows all{operand.rows.buffer, first, units.count * operand.stride};
    int at = 0;
    for (const CutColumns& section : sections.inside(all)) {
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

  // --- what ranks bring together ---

  void emit(Op op) {
    if (here()) out_.push_back(std::move(op));
  }

  // From here on all ranks have these columns.
  void bring(const Rows& rows) {
    if (!rows) return;
    for (const CutColumns& section : spread_.meeting(rows)) {
      const Cut cut = of_all(owners(section.cut, section.rows.first, section.rows.width));
      out_.push_back(AllGatherOp{here() ? section.rows : Rows{}, cut, here()});
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
    if (auto* o = std::get_if<CompressOp>(&op))
      o->state =
          needs().state(static_cast<std::size_t>(o->overlapping ? 6 : 3) * static_cast<std::size_t>(o->out.width));
    if (auto* o = std::get_if<NgramOp>(&op)) o->state = needs().state(static_cast<std::size_t>(o->longest - 1));
    if (auto* o = std::get_if<RecurrenceOp>(&op))
      o->state = needs().state(static_cast<std::size_t>(o->heads) * static_cast<std::size_t>(o->key_dim) *
                               static_cast<std::size_t>(o->value_dim));
    if (auto* o = std::get_if<ConvolveOp>(&op))
      o->state = needs().state(static_cast<std::size_t>(o->taps - 1) * static_cast<std::size_t>(o->in.width));
    if (auto* o = std::get_if<ScanOp>(&op))
      o->state = needs().state(static_cast<std::size_t>(o->size) * static_cast<std::size_t>(o->in.width));
    if (auto* o = std::get_if<FadingSumOp>(&op)) o->state = needs().state(static_cast<std::size_t>(o->in.width));
  }

  // --- products ---

  // The columns of a product's result as later operations want them, evenly where nobody minds; empty: every rank
  // computes all.
  std::vector<CutColumns> columns_of(const Rows& out) const {
    std::vector<CutColumns> sections = wishes_.inside(out);
    const bool firm = std::ranges::any_of(sections, &CutColumns::firm);
    if (!firm && out.width < kFewOutputs) return {};
    std::vector<CutColumns> all;
    int at = out.first;
    const auto evenly_to = [&](int column) {
      if (at < column)
        all.push_back({{out.buffer, at, column - at}, scaled(even_columns(column - at, ranks()), 1, at)});
    };
    for (CutColumns& section : sections) {
      evenly_to(section.rows.first);
      at = section.rows.first + section.rows.width;
      all.push_back(std::move(section));
    }
    evenly_to(out.first + out.width);
    return all;
  }
  // O: a product whose matrix has a column for each one of `out`.
  template <class O>
  void split_product(const O& o, bool adds) {
    bring(o.in);
    const std::vector<CutColumns> sections = columns_of(o.out);
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

  OpUnits units_of(const GroupedMatmulOp& o) const {
    const MatrixNeed& need = whole_.needs.matrices[static_cast<std::size_t>(o.first)];
    return {o.groups,
            {{o.in, o.in_stride, static_cast<int>(need.inputs), true, false},
             {o.out, o.out_stride, static_cast<int>(need.outputs()), false, true}},
            {},
            true};
  }
  void split(const GroupedMatmulOp& o) {
    const OpUnits units = units_of(o);
    std::vector<Piece> pieces = wished(units);
    for (Piece& piece : pieces)
      if (!piece.cut) piece.cut = shifted(even_cut(piece.units.size(), ranks()), piece.units.begin);
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
        emit(std::move(part));
      }
      give_results(units, piece);
    }
  }

  // --- experts ---

  void split(const ExpertsOp& o) {
    for (const Rows& rows : {o.in, o.routed}) bring(rows);
    if (rank_.experts_by_id) return share_experts(o);
    if (std::min(o.inner, o.out.width) < ranks()) return all_do(o);
    const Cut out = scaled(even_columns(o.out.width, ranks()), 1, o.out.first);
    if (o.add) bring_unless(o.out.buffer, out);
    ExpertsOp part = o;
    part.inner_cut = even_columns(o.inner, ranks());
    part.own = part.inner_cut[own()];
    part.inner_cut = of_all(part.inner_cut);
    if (!here()) out_.push_back(AllGatherOp{{}, part.inner_cut, false, o.chosen});
    part.out = {o.out.buffer, out[own()].begin, out[own()].size()};
    part.out_column = part.out.first - o.out.first;
    part.gate_up = needs().matrices(o.gate_up, o.count, part.own, true);
    part.down = needs().matrices(o.down, o.count, Range{part.out_column, part.out_column + part.out.width}, true);
    emit(std::move(part));
    give({o.out, out});
  }
  void share_experts(const ExpertsOp& o) {
    if (o.add) bring(o.out);
    ExpertsOp part = o;
    part.expert_cut = even_cut(o.count, ranks());
    part.own = part.expert_cut[own()];
    part.gate_up = needs().matrices(o.gate_up + part.own.begin, part.own.size());
    part.down = needs().matrices(o.down + part.own.begin, part.own.size());
    emit(std::move(part));
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
    out_.push_back(GatherLogitsOp{of_all(cut)});
  }

  // Rows move whole, whatever a rank has of them.
  void split(const KeepRowsOp& o) { out_.push_back(here() ? o : KeepRowsOp{}); }

  // --- what falls into units ---

  // Whether later operations can be told who has the results.
  bool can_be_given(const OpUnits& units, const std::vector<Piece>& pieces) const {
    for (const Piece& piece : pieces)
      for (const Operand& operand : units.operands)
        if (operand.writes && piece.cut && !section_of(operand, piece.units, *piece.cut)) return false;
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
    const CutColumns section = *section_of(operand, piece.units, *piece.cut);
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
  RankOf rank_;
  const FieldCuts& fields_;
  RankNeeds &own_needs_, &others_;
  OpRoom room_;
  int stage_ = 0;  // whose operations are at hand
  ColumnCuts wishes_, spread_;
  std::vector<Op> out_;
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
  return out;
}

}  // namespace espalier
