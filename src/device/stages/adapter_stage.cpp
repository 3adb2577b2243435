#include "device/stages/adapter_stage.h"

#include <algorithm>

#include "model/executor.h"

namespace espalier::device {

namespace {

// Pieces of K where the CPU's order of sums is not asked for.
constexpr std::int64_t kPiece = cuda::kAdapterValues;

class AdaptedStage final : public DeviceStage {
 public:
  AdaptedStage(const AdaptedLayer& layer, std::size_t part, const AdaptedRowsIn& rows, const BatchRows& out,
               const MatmulTask& of, MakeProduct make)
      : layer_(layer), part_(part), rows_in_(rows), out_(out), of_(of), make_(std::move(make)), plain_(make_(of)) {}

  void prepare(Step& step) override {
    replaced_.clear();
    touched_ = find_touched(step);
    if (!touched_) return plain_->prepare(step);
    layer_.memory->make_room(step);
    row_count_ = step.pass().rows();
    product_ = nullptr;
    if (layer_.layer->gated()) product_ = make_(sums_task());
    (product_ ? product_ : plain_)->prepare(step);
    if (is_last()) prepare_added(step);
  }

  void launch(Launches& launches) override {
    (touched_ && product_ ? product_ : plain_)->launch(launches);
    if (!touched_ || !is_last()) return;
    for (const cuda::MultiplyTask& replaced : replaced_) launches.run(kEspalierMultiply, replaced);
    if (shrink_.most_ranks > 0) launches.run(kEspalierShrink, shrink_);
    if (expand_.most_panels > 0) launches.run(kEspalierExpand, expand_);
    if (layer_.layer->gated()) launches.run(kEspalierJoinGates, join_task());
  }

 private:
  bool is_last() const { return part_ + 1 == layer_.layer->parts().size(); }

  bool find_touched(Step& step) const {
    return std::ranges::any_of(step.pass().adapted(),
                               [&](const AdaptedRows& group) { return on_device(*group.adapter).touches(layer_.id); });
  }

  // The part's sums instead of what becomes of them.
  MatmulTask sums_task() const {
    MatmulTask task = of_;
    const std::int64_t panels = of_.panel_end;
    std::int64_t column = 0;
    for (std::size_t p = 0; p < part_; ++p) column += layer_.layer->parts()[p].outputs();
    task.outputs = of_.paired ? panels * kPanelColumns : layer_.layer->parts()[part_].outputs();
    task.paired = false;
    task.finish = Finish::store;
    task.bias = nullptr;
    task.out = layer_.memory->sums() + column;
    task.out_stride = layer_.memory->sums_stride();
    return task;
  }
  BatchRows results() const {
    return layer_.layer->gated() ? BatchRows{layer_.memory->sums(), layer_.memory->sums_stride()} : out_;
  }

  void prepare_added(Step& step) {
    const auto groups = step.pass().adapted();
    const cuda::AdaptedBatch& batch = step.adapted();
    const auto there = step.memory().room<const cuda::DeviceLowRank*>(groups.size());
    shrink_ = {};
    expand_ = {};
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const DeviceAdapter& adapter = on_device(*groups[g].adapter);
      const DeviceFactors* const factors = adapter.factors(layer_.id);
      there.host[g] = factors == nullptr ? nullptr : factors->there;
      if (const auto* whole = adapter.whole(layer_.id)) replace(*whole, groups[g].rows);
      if (factors == nullptr) continue;
      shrink_.most_ranks = std::max(shrink_.most_ranks, factors->ranks);
      expand_.most_panels = std::max(expand_.most_panels, factors->panels);
      expand_.most_ranks = std::max(expand_.most_ranks, factors->part_ranks);
    }
    shrink_.of = expand_.of = {batch, there.device};
    shrink_.x = rows_in_.x;
    shrink_.x_stride = rows_in_.x_stride;
    shrink_.form = rows_in_.form;
    shrink_.k = layer_.layer->inputs();
    shrink_.piece = layer_.exact ? shrink_.k : kPiece;
    expand_.hidden = shrink_.hidden = layer_.memory->hidden();
    shrink_.hidden_stride = expand_.hidden_stride = shrink_.most_ranks;
    expand_.pieces = shrink_.pieces();
    expand_.out = results();
  }

  // Rows that follow one another are one product.
  void replace(const DeviceAdapter::Whole& whole, const std::vector<int>& rows) {
    for (std::size_t at = 0, end = 0; at < rows.size(); at = end) {
      for (end = at + 1; end < rows.size() && rows[end] == rows[end - 1] + 1; ++end) {
      }
      cuda::MultiplyTask task{whole.of, whole.type, RowFormat::f32};
      task.of.x = rows_in_.floats.first;
      task.of.x_stride = static_cast<std::size_t>(rows_in_.floats.stride) * sizeof(float);
      task.of.row_begin = rows[at];
      task.of.row_end = rows[end - 1] + 1;
      task.of.out = out_.first;
      task.of.out_stride = out_.stride;
      replaced_.push_back(task);
    }
  }

  cuda::JoinGatesTask join_task() const {
    return {results(), out_, layer_.bias, layer_.layer->outputs(), row_count_, layer_.finish, layer_.layer->paired()};
  }

  AdaptedLayer layer_;
  std::size_t part_;
  AdaptedRowsIn rows_in_;
  BatchRows out_;
  MatmulTask of_;
  MakeProduct make_;
  std::unique_ptr<DeviceStage> plain_, product_;  // product_: of sums, for this step
  bool touched_ = false;
  int row_count_ = 0;
  std::vector<cuda::MultiplyTask> replaced_;
  cuda::ShrinkTask shrink_{};
  cuda::ExpandTask expand_{};
};

}  // namespace

void AdapterMemory::expect(const Linear& layer) {
  most_inputs_ = std::max(most_inputs_, layer.inputs());
  if (!layer.gated()) return;
  std::int64_t columns = 0;
  for (const PackedMatrix& part : layer.parts())
    columns += layer.paired() ? std::int64_t{part.panels()} * kPanelColumns : part.outputs();
  sums_stride_ = std::max(sums_stride_, columns);
}

void AdapterMemory::make_room(Step& step) {
  int ranks = 0;
  for (const AdaptedRows& group : step.pass().adapted())
    ranks = std::max(ranks, on_device(*group.adapter).most_ranks());
  const auto rows = static_cast<std::size_t>(step.pass().rows());
  const auto pieces = static_cast<std::size_t>((most_inputs_ + kPiece - 1) / kPiece);
  grow(step.device(), hidden_, rows * pieces * static_cast<std::size_t>(ranks) * sizeof(float));
  grow(step.device(), sums_, rows * static_cast<std::size_t>(sums_stride_) * sizeof(float));
}

std::unique_ptr<DeviceStage> with_adapters(const AdaptedLayer& layer, std::size_t part, const AdaptedRowsIn& rows,
                                           const BatchRows& out, const MatmulTask& of, MakeProduct make) {
  layer.memory->expect(*layer.layer);
  return std::make_unique<AdaptedStage>(layer, part, rows, out, of, std::move(make));
}

}  // namespace espalier::device
