#include "model/cpu/lower.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/cpu/conversions.h"
#include "model/cpu/stages/all_gather_stage.h"
#include "model/cpu/stages/attend_stage.h"
#include "model/cpu/stages/choose_stage.h"
#include "model/cpu/stages/compress_stage.h"
#include "model/cpu/stages/experts_stage.h"
#include "model/cpu/stages/gather_stage.h"
#include "model/cpu/stages/load_before_stage.h"
#include "model/cpu/stages/ngram_stage.h"
#include "model/cpu/stages/rows_stage.h"
#include "model/cpu/stages/sequence_stages.h"

namespace espalier {
namespace {

class Lowering {
 public:
  Lowering(const Program& program, Loaded& loaded, int max_rows, std::vector<Place> brought)
      : loaded_(loaded),
        program_(program),
        brought_(std::move(brought)),
        conversions_(program_, loaded.with, loaded.matrices),
        out_{{}, BufferMemory(max_rows), {}} {}

  Result<Lowered> run() {
    ESP_CHECK(check_fields());
    use_buffers();
    ESP_CHECK(out_.memory.allocate());
    out_.logits = program_.output ? place(program_.output)
                                  : Place{reinterpret_cast<float*>(out_.memory.at(logits_)), program_.vocabulary};
    const RowParts parts{program_, loaded_.with.cpu, loaded_.tables, loaded_.ropes,
                         [this](const Rows& rows) { return place(rows); }};
    for (op_ = 0; op_ < static_cast<int>(program_.ops.size()); ++op_) {
      add_conversions(true);
      const Op& op = program_.ops[static_cast<std::size_t>(op_)];
      if (made_before(op)) continue;
      if (RowFunction function = row_function(op, parts))
        rows_stage().add(std::move(function), values_of(op));
      else
        std::visit([this](const auto& o) { add(o); }, op);
      add_conversions(false);
    }
    announce();
    return std::move(out_);
  }

 private:
  Result<> check_fields() const {
    for (const TokenField& field : program_.keeps.per_token)
      if (field.key_dim > kMaxKeyDim || field.value_dim > kMaxValueDim)
        return Error{
            Error::Kind::unsupported,
            fmt::format("keys of {} and values of {} dimensions are more than attention computes here: {} and {}",
                        field.key_dim, field.value_dim, kMaxKeyDim, kMaxValueDim),
            "head_dim",
            {}};
    return success();
  }

  // --- memory ---

  void use_buffers() {
    const auto ops = static_cast<int>(program_.ops.size());
    std::vector<std::pair<int, int>> spans(program_.buffers.size(), {ops, -1});
    for (int i = 0; i < ops; ++i)
      for_each_place(program_.ops[static_cast<std::size_t>(i)], [&](const Rows& rows, bool) {
        auto& [first, last] = spans[static_cast<std::size_t>(rows.buffer)];
        first = std::min(first, first_of_stage(program_, i));
        last = std::max(last, last_of_stage(program_, i));
      });
    if (program_.output) spans[static_cast<std::size_t>(program_.output.buffer)].second = ops;
    for (std::size_t b = 0; b < spans.size(); ++b) {
      const int width = is_brought(b) ? 1 : program_.buffers[b];
      buffers_.push_back(out_.memory.use(static_cast<std::size_t>(width) * sizeof(float), spans[b].first,
                                         behind_rows(std::max(spans[b].first, spans[b].second))));
    }
    conversions_.place(out_.memory);
    const int of_logits = program_.output ? 1 : std::max(1, program_.vocabulary);
    logits_ = out_.memory.use(static_cast<std::size_t>(of_logits) * sizeof(float), 0, ops);
    scratch_.resize(static_cast<std::size_t>(ops));
    states_.assign(static_cast<std::size_t>(ops), -1);
    for (int i = 0; i < ops; ++i) {
      const Op& op = program_.ops[static_cast<std::size_t>(i)];
      if (const auto* o = std::get_if<ExpertsOp>(&op)) use_scratch(i, *o);
      if (const auto* o = std::get_if<AttendOp>(&op); o != nullptr && o->then >= 0)
        states_[static_cast<std::size_t>(i)] =
            out_.memory.use(static_cast<std::size_t>(AttendStage::state_width(*o, program_)) * sizeof(float), i, i);
    }
  }

  bool is_brought(std::size_t buffer) const { return buffer < brought_.size() && brought_[buffer].first != nullptr; }

  // Functions of rows that follow one another take one row after the other through all of them: what an early one reads
  // must stand until the last row is through. Gives the operation behind them, whose inputs are converted with them.
  int behind_rows(int op) const {
    const auto count = static_cast<int>(program_.ops.size());
    if (op >= count || !is_of_rows(program_.ops[static_cast<std::size_t>(op)])) return op;
    while (op < count && is_of_rows(program_.ops[static_cast<std::size_t>(op)])) ++op;
    return op;
  }

  struct ScratchBuffers {
    int up = -1, inner = -1, down = -1, gathered = -1, gathered_floats = -1, inner_converted = -1;
    RowFormat up_format = RowFormat::f32, down_format = RowFormat::f32;
  };
  const Linear& matrix(MatrixId id) const { return loaded_.matrices[static_cast<std::size_t>(id)]; }
  NumberedLinear numbered(MatrixId id) const { return {matrix(id), id, *loaded_.scratch}; }

  // One pass gates where the kernels know the gate; else gates and values become floats.
  bool gates_in_product(const ExpertsOp& o) const {
    bool all = o.gated;
    for (int e = 0; e < o.experts(); ++e) all = all && matrix(o.gate_up + e).paired();
    return all;
  }
  void use_scratch(int op, const ExpertsOp& o) {
    const auto use = [&](std::size_t bytes) {
      return out_.memory.use(static_cast<std::size_t>(o.chosen) * bytes, op, op);
    };
    const auto floats = [&](std::int64_t width) { return use(static_cast<std::size_t>(width) * sizeof(float)); };
    const std::span<const Linear> all(loaded_.matrices);
    const auto count = static_cast<std::size_t>(o.experts());
    const RowFormat up = common_format(loaded_.with, all.subspan(static_cast<std::size_t>(o.gate_up), count)),
                    down = common_format(loaded_.with, all.subspan(static_cast<std::size_t>(o.down), count));
    ScratchBuffers& s = scratch_[static_cast<std::size_t>(op)];
    s.up_format = up;
    s.down_format = down;
    const int inner = o.own_inner().size();
    if (!gates_in_product(o)) s.up = floats(o.gated ? 2 * inner : inner);
    s.inner = floats(o.inner);
    s.down = floats(o.out.width);
    if (up == RowFormat::f32 || o.weight_inputs) s.gathered_floats = floats(o.in.width);
    if (up != RowFormat::f32) s.gathered = use(row_bytes(up, o.in.width));
    if (down != RowFormat::f32) s.inner_converted = use(row_bytes(down, o.inner));
  }

  Place place(const Rows& rows) const {
    const auto b = static_cast<std::size_t>(rows.buffer);
    if (is_brought(b)) return {brought_[b].first + rows.first, brought_[b].stride};
    return {reinterpret_cast<float*>(out_.memory.at(buffers_[b])) + rows.first, program_.buffers[b]};
  }
  InputPlaces input(const Rows& rows) const {
    InputPlaces in{place(rows)};
    for (const RowFormat format : {RowFormat::bf16, RowFormat::int8, RowFormat::int16})
      if (const Conversion* c = conversions_.serving(op_, rows, format))
        in.converted[index_of(format)] = {out_.memory.at(c->memory), row_bytes(format, rows.width)};
    return in;
  }
  std::optional<ConvertedRows> converted_output() const {
    const Conversion* c = conversions_.made_by(op_);
    if (c == nullptr) return std::nullopt;
    return ConvertedRows{c->format, out_.memory.at(c->memory)};
  }

  // Nothing reads the floats of what ranks have agreed to bring in another form; a rank may have no reader at all.
  std::optional<ConvertedRows> gathered_as() const {
    const std::optional<RowFormat> format = conversions_.gathered(op_);
    if (!format) return std::nullopt;
    const Conversion* c = conversions_.made_by(op_);
    return ConvertedRows{*format, c != nullptr ? out_.memory.at(c->memory) : nullptr};
  }

  // An activation that the product before it makes too.
  bool made_before(const Op& op) const {
    const Conversion* made = std::holds_alternative<ActivateOp>(op) ? conversions_.made_by(op_ - 1) : nullptr;
    return made != nullptr && made->by == Conversion::By::activated_product;
  }

  // --- stages ---

  RowsStage& rows_stage() {
    if (open_rows_ == nullptr) {
      auto stage = std::make_unique<RowsStage>();
      open_rows_ = stage.get();
      out_.stages.push_back(std::move(stage));
    }
    return *open_rows_;
  }
  template <class S>
  S& push(std::unique_ptr<S> stage) {
    open_rows_ = nullptr;
    S& added = *stage;
    out_.stages.push_back(std::move(stage));
    return added;
  }

  static std::int64_t values_of(const Op& op) {
    std::int64_t sum = 0;
    for_each_place(op, [&](const Rows& rows, bool) { sum += rows.width; });
    return std::max<std::int64_t>(1, sum / 2);
  }

  void add_conversions(bool before) {
    for (const Conversion& c : conversions_.all()) {
      if (c.maker != op_ || c.before != before || c.by != Conversion::By::row_function) continue;
      const Place from = place(c.rows);
      std::byte* const to = out_.memory.at(c.memory);
      rows_stage().add(
          [from, to, format = c.format, k = std::int64_t{c.rows.width}](const Pass& pass, int row) {
            convert_rows(pass.with().cpu, format, from.first, from.stride, k, row, row + 1, to);
          },
          c.rows.width);
    }
  }

  void add(const MatmulOp& o) {
    const Linear::Options options{.finish = o.add ? Finish::add : Finish::store, .wide = o.wide};
    std::optional<MatmulStage::Activated> activated;
    if (const auto converted = converted_output())
      activated = {std::get<ActivateOp>(program_.ops[static_cast<std::size_t>(op_) + 1]).how, *converted};
    auto& stage =
        push(std::make_unique<MatmulStage>(numbered(o.matrix), input(o.in), place(o.out), options, activated));
    stage.behind_keep = kept_;
    announced_.push_back({&matrix(o.matrix), o.wide, kept_});
    announcers_.push_back(&stage.next);
  }
  void add(const GatedMatmulOp& o) {
    const Finish gate = o.activation == ActivationKind::silu ? Finish::gate_silu : Finish::gate_gelu;
    auto& stage =
        push(std::make_unique<GatedStage>(numbered(o.matrix), input(o.in), place(o.out), gate, converted_output()));
    stage.behind_keep = kept_;
    announced_.push_back({&matrix(o.matrix), false, kept_});
    announcers_.push_back(&stage.next);
  }
  void add(const GroupedMatmulOp& o) {
    std::vector<GroupedStage::Group> groups;
    for (int g = 0; g < o.groups; ++g) {
      const Linear& linear = matrix(o.first + g);
      groups.push_back({&linear, input(o.in.part(g * o.in_stride, static_cast<int>(linear.inputs()))),
                        place(o.out.part(g * o.out_stride, static_cast<int>(linear.outputs())))});
    }
    push(std::make_unique<GroupedStage>(std::move(groups)));
  }
  void add(const ExpertsOp& o) {
    std::vector<ExpertLayers> experts;
    for (int e = 0; e < o.experts(); ++e) experts.push_back({&matrix(o.gate_up + e), &matrix(o.down + e)});
    const ScratchBuffers& s = scratch_[static_cast<std::size_t>(op_)];
    const auto floats = [&](int buffer, std::int64_t width) {
      return buffer < 0 ? Place() : Place{reinterpret_cast<float*>(out_.memory.at(buffer)), width};
    };
    const auto bytes = [&](int buffer) { return buffer < 0 ? nullptr : out_.memory.at(buffer); };
    const int inner = o.own_inner().size();
    const ExpertScratch scratch{floats(s.up, o.gated ? 2 * inner : inner),
                                floats(s.inner, o.inner),
                                floats(s.down, o.out.width),
                                bytes(s.gathered),
                                floats(s.gathered_floats, o.in.width),
                                bytes(s.inner_converted),
                                s.up_format,
                                s.down_format};
    push(std::make_unique<ExpertsStage>(o, std::move(experts), input(o.in), place(o.routed), place(o.out), scratch));
  }
  void add(const LoadBeforeOp& o) { push(std::make_unique<LoadBeforeStage>(o, program_, place(o.out))); }
  void add(const AttendOp& o) {
    const int states = states_[static_cast<std::size_t>(op_)];
    push(std::make_unique<AttendStage>(o, program_, place(o.queries), place(o.out),
                                       states < 0 ? nullptr : reinterpret_cast<float*>(out_.memory.at(states)),
                                       converted_output(), loaded_.with.mode == Activations::f32));
  }
  void add(const ChooseOp& o) {
    push(std::make_unique<ChooseStage>(o, program_, place(o.queries), o.weights ? place(o.weights) : Place(),
                                       loaded_.with.mode == Activations::f32));
  }
  void add(const CompressOp& o) {
    push(std::make_unique<CompressStage>(o, program_, place(o.values), o.gates ? place(o.gates) : Place(),
                                         place(o.out)));
  }
  void add(const NgramOp& o) {
    std::vector<const Tensor*> tables;
    for (const TableId id : o.tables) tables.push_back(loaded_.tables[static_cast<std::size_t>(id)]);
    push(std::make_unique<NgramStage>(o, std::move(tables), place(o.out)));
  }
  void add(const ConvolveOp& o) { push(std::make_unique<ConvolveStage>(o, program_, place(o.in), place(o.out))); }
  void add(const RecurrenceOp& o) {
    const auto maybe = [&](const Rows& rows) { return rows ? place(rows) : Place(); };
    push(std::make_unique<RecurrenceStage>(
        o, program_,
        RecurrenceStage::Places{place(o.queries), place(o.keys), place(o.values), maybe(o.decay), maybe(o.beta),
                                maybe(o.probe), maybe(o.answer), place(o.out)}));
  }
  void add(const ScanOp& o) {
    push(std::make_unique<ScanStage>(
        o, program_, ScanStage::Places{place(o.in), place(o.step), place(o.input), place(o.output), place(o.out)}));
  }
  void add(const FadingSumOp& o) {
    push(std::make_unique<FadingSumStage>(o, place(o.in), place(o.decay), place(o.out)));
  }
  void add(const KeepRowsOp& o) {
    std::vector<KeepStage::Live> live;
    for (const Rows& rows : o.live) live.push_back({place(rows), rows.width});
    push(std::make_unique<KeepStage>(std::move(live)));
    kept_ = true;
  }
  void add(const GatherRowsOp& o) { push(std::make_unique<GatherStage>(o, place(o.in), place(o.out))); }
  void add(const AllRowsOp&) { push(std::make_unique<AllRowsStage>()); }
  void add(const HeadOp& o) {
    out_.head = &push(std::make_unique<HeadStage>(numbered(o.matrix), input(o.in), out_.logits, o));
    announced_.push_back({&matrix(o.matrix), false, true});
    announcers_.push_back(&out_.head->next);
  }
  void add(const AllGatherOp& o) {
    push(std::make_unique<AllGatherStage>(o, o.rows ? place({o.rows.buffer, 0, 0}) : Place(), gathered_as()));
  }
  void add(const GatherLogitsOp& o) { push(std::make_unique<GatherLogitsStage>(o.cut, out_.logits)); }
  template <class O>
  void add(const O&) {}

  // Each product announces the one behind it, the last one the first.
  void announce() {
    for (std::size_t i = 0; i < announcers_.size(); ++i) *announcers_[i] = announced_[(i + 1) % announced_.size()];
  }

  Loaded& loaded_;
  const Program& program_;
  std::vector<Place> brought_;
  Conversions conversions_;
  Lowered out_;
  std::vector<int> buffers_;
  std::vector<ScratchBuffers> scratch_;
  std::vector<int> states_;  // between two parts of attention
  int logits_ = -1, op_ = 0;
  bool kept_ = false;
  RowsStage* open_rows_ = nullptr;
  std::vector<Upcoming> announced_;
  std::vector<Upcoming*> announcers_;
};

}  // namespace

Result<Lowered> lower(const Program& program, Loaded& loaded, int max_rows, std::vector<Place> brought) {
  return Lowering(program, loaded, max_rows, std::move(brought)).run();
}

}  // namespace espalier
