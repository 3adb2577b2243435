#include "device/lowering/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "device/lowering/experts.h"
#include "device/lowering/rounded_gathers.h"
#include "device/lowering/tasks.h"
#include "device/ranks.h"
#include "device/stages/picture_stages.h"
#include "tensor/decode.h"

namespace espalier::device {
namespace {

template <class O, class... A>
constexpr bool is_one_of(const std::variant<A...>*) {
  return (std::is_same_v<O, A> || ...);
}
// Operations that a device takes as they stand.
template <class O>
concept PlainRowOp = is_one_of<O>(static_cast<const DeviceRowOp*>(nullptr)) && !std::is_same_v<O, RotateOp>;

// Makes the stages of one program, operation by operation.
class Lowering {
 public:
  Lowering(const Device& device, const Program& program, Loaded& loaded, const DeviceMatrices& matrices, int max_rows)
      : program_(program),
        loaded_(loaded),
        buffers_(device, program, loaded, max_rows, out_),
        rows_(buffers_, out_),
        products_(loaded, matrices, buffers_, rows_) {}

  Result<DeviceProgram> run() {
    rounded_ = rounded_gathers(program_, loaded_, products_);
    for (int i = 0; std::cmp_less(i, program_.ops.size()); ++i) {
      const Op& op = program_.ops[static_cast<std::size_t>(i)];
      buffers_.begin(i);
      op_ = i;
      std::visit([this](const auto& o) { add(o); }, op);
      if (error_) return *error_;
      products_.forget_changed(op);
    }
    buffers_.fix([this] { find_results(); });
    ESP_CHECK(buffers_.allocate());
    ESP_CHECK(send_rows());
    return std::move(out_);
  }

 private:
  // --- operations of rows ---

  void add(const PlainRowOp auto& o) { rows_.add(o); }
  void add(RotateOp o) {
    const AngleUse use{o.rope, o.shift};
    auto& angles = out_.memory.angles;
    auto found = std::ranges::find(angles, use);
    if (found == angles.end()) found = angles.insert(angles.end(), use);
    o.rope = static_cast<RopeId>(found - angles.begin());
    rows_.add(o);
  }
  void add(const LookUpOp& o) {
    const int from =
        rows_.add_host_rows(o.out.width, 0.0f, [o, &table = table(o.table)](const Pass& pass, int row, float* to) {
          look_up_row(o, table, pass, row, to);
          return true;
        });
    rows_.add(TakeRowsOp{.out = o.out, .host_rows = from, .scale = o.scale, .add = o.add});
  }
  void add(const AddWavesOp& o) {
    const auto& frequencies = program_.vectors[static_cast<std::size_t>(o.frequencies)];
    const int from = rows_.add_host_rows(o.out.width, 0.0f, [o, &frequencies](const Pass& pass, int row, float* to) {
      add_waves(o, frequencies, pass.position(row), to);
      return true;
    });
    rows_.add(TakeRowsOp{.out = o.out, .host_rows = from, .add = true});
  }
  void add(const ScaleByPositionOp& o) {
    const int from = rows_.add_host_rows(1, 1.0f, [o](const Pass& pass, int row, float* to) {
      *to = factor_of_position(o, pass.position(row));
      return true;
    });
    rows_.add(ScaleRowsOp{o.heads, from});
  }
  void add(const TakeGivenOp& o) {
    const int marks = rows_.add_marks();
    const auto make = [o](const Pass& pass, int row, float* to) {
      const float* given = pass.given(o.input, row);
      if (given != nullptr) std::copy_n(given, o.out.width, to);
      return given != nullptr;
    };
    rows_.add(TakeRowsOp{.out = o.out,
                         .host_rows = rows_.add_host_rows(o.out.width, 0.0f, make, marks),
                         .add = o.how == TakeGivenOp::How::add,
                         .marks = marks,
                         .clear = o.how == TakeGivenOp::How::set});
  }
  void add(const RouteOp& o) {
    if (o.by_token < 0) return rows_.add(RouteRowsOp{o, -1});
    const auto make = [&table = table(o.by_token), chosen = o.how.chosen](const Pass& pass, int row, float* to) {
      decode_row(table.dtype, table.row(pass.token(row)), {to, static_cast<std::size_t>(chosen)});
      return true;
    };
    rows_.add(RouteRowsOp{o, rows_.add_host_rows(o.how.chosen, 0.0f, make)});
  }
  const Tensor& table(TableId id) const { return *loaded_.tables[static_cast<std::size_t>(id)]; }

  // --- products ---

  Products::Output to(const Rows& rows) {
    return [this, rows] { return buffers_.rows(rows); };
  }
  void add(const MatmulOp& o) {
    products_.multiply(o.matrix, o.in, to(o.out), o.add ? Finish::add : Finish::store, o.wide);
  }
  void add(const GatedMatmulOp& o) {
    products_.multiply(o.matrix, o.in, to(o.out),
                       o.activation == ActivationKind::silu ? Finish::gate_silu : Finish::gate_gelu);
  }
  void add(const GroupedMatmulOp& o) {
    for (int g = 0; g < o.groups; ++g) {
      const Linear& layer = products_.linear(o.first + g);
      products_.multiply(o.first + g, o.in.part(g * o.in_stride, static_cast<int>(layer.inputs())),
                         to(o.out.part(g * o.out_stride, static_cast<int>(layer.outputs()))), Finish::store);
    }
  }
  void add(const HeadOp& o) {
    out_.head_scale = o.scale;
    out_.head_cap = o.cap;
    add_logits();
    products_.multiply(o.matrix, o.in, [this, first = o.share.begin] { return logits(first); }, Finish::store);
  }
  void add_logits() {
    logits_ = buffers_.add_floats(std::max(1, program_.vocabulary));
    buffers_.keep_to_the_end(logits_);
  }
  BatchRows logits(int first = 0) const { return {buffers_.floats_at(logits_) + first, program_.vocabulary}; }
  void add(const ExpertsOp& o) {
    if (const auto added = add_experts(o, products_, buffers_, rows_); !added.ok()) error_ = added.error();
  }

  // --- what reads other tokens, or carries states ---

  void add(const AttendOp& o) {
    const int stride = o.then < 0 ? 0 : FoldStates::stride_of(buffers_.field(o.then).value_dim);
    const int states = o.then < 0 ? -1 : buffers_.add_floats(std::int64_t{o.heads} * stride);
    rows_.push_later([=, this] {
      cuda::AttendTask first = task_of(o, o.field, buffers_), then{};
      first.sinks = o.then < 0 ? buffers_.vector(o.sinks) : nullptr;
      if (o.then >= 0) {
        then = task_of(o, o.then, buffers_);
        then.sinks = buffers_.vector(o.sinks);
        then.entry_stride = o.then_every;
        first.states = then.states = {buffers_.floats_at(states), o.heads, stride};
        first.end_in_state = then.begin_in_state = true;
      }
      return std::make_unique<AttendStage>(o, first, buffers_.mask(o.mask), then, buffers_.mask(o.then_mask),
                                           loaded_.with.mode == Activations::f32);
    });
  }
  void add(const ChooseOp& o) {
    rows_.push_later(
        [=, this] { return std::make_unique<ChooseStage>(o, task_of(o, buffers_), buffers_.mask(o.mask)); });
  }
  void add(const LoadBeforeOp& o) {
    rows_.push_later([=, this] { return std::make_unique<LoadBeforeStage>(o.field, task_of(o, buffers_)); });
  }
  void add(const NgramOp& o) {
    std::vector<const Tensor*> tables;
    for (const TableId id : o.tables) tables.push_back(&table(id));
    rows_.push_later([=, this] { return std::make_unique<NgramStage>(o, tables, buffers_.rows(o.out)); });
  }
  template <EspalierKernel kKernel, class O>
  void add_sequences(const O& o) {
    rows_.push_later([=, this] {
      const auto task = task_of(o, buffers_);
      return std::make_unique<SequenceStage<std::remove_const_t<decltype(task)>, kKernel>>(task);
    });
  }
  void add(const ConvolveOp& o) { add_sequences<kEspalierConvolve>(o); }
  void add(const RecurrenceOp& o) { add_sequences<kEspalierRecur>(o); }
  void add(const ScanOp& o) { add_sequences<kEspalierScan>(o); }
  void add(const FadingSumOp& o) { add_sequences<kEspalierFade>(o); }
  void add(const CompressOp& o) { add_sequences<kEspalierCompress>(o); }
  void add(const KeepRowsOp& o) {
    int width = 1;
    for (const Rows& rows : o.live) width = std::max(width, rows.width);
    const int aside = buffers_.add_floats(width);
    rows_.push_later([=, this] {
      std::vector<std::pair<BatchRows, int>> live;
      for (const Rows& rows : o.live) live.emplace_back(buffers_.rows(rows), rows.width);
      return std::make_unique<KeepStage>(std::move(live), buffers_.floats_at(aside));
    });
  }

  // --- what ranks bring together ---

  void add(const AllGatherOp& o) {
    add_gather(o.cut, std::max(1, o.of_experts), o.takes, rounded_.contains(op_),
               [this, o] { return o.rows ? buffers_.rows({o.rows.buffer, 0, o.rows.width}) : BatchRows{}; });
  }
  void add(const GatherLogitsOp& o) {
    out_.head_scale = o.scale;
    out_.head_cap = o.cap;
    if (logits_ < 0) add_logits();
    add_gather(o.cut, 1, loaded_.with.group->rank() == 0, false, [this] { return logits(); });
  }
  void add_gather(const Cut& cut, int rows_each, bool takes, bool halves, const std::function<BatchRows()>& rows) {
    const auto on_device = buffers_.keep(cut);
    if (!on_device.ok()) {
      error_ = on_device.error();
      return;
    }
    rows_.push_later([=, this, at = on_device.value()] {
      RankGather gather(*loaded_.with.group, cut, products_.rank_parts());
      gather.aim(rows(), at, takes, halves);
      return std::make_unique<RanksStage>(std::move(gather), rows_each);
    });
  }

  // --- what pictures need ---

  void add(const BlendRowsOp& o) {
    rows_.push_later(
        [=, this] { return std::make_unique<BlendStage>(o, buffers_.vector(o.table), buffers_.rows(o.out)); });
  }
  void add(const GatherRowsOp& o) {
    rows_.push_later([=, this] { return std::make_unique<GatherStage>(o, buffers_.rows(o.in), buffers_.rows(o.out)); });
  }
  void add(const AllRowsOp&) { rows_.push<AllRowsStage>(); }
  void add(const GiveOp& o) {
    const int aside = buffers_.add_floats(o.in.width);
    rows_.push_later(
        [=, this] { return std::make_unique<GiveStage>(o, buffers_.rows(o.in), buffers_.floats_at(aside)); });
  }

  // --- once addresses are known ---

  void find_results() {
    const BatchRows results = program_.output ? buffers_.rows(program_.output) : logits_ >= 0 ? logits() : BatchRows{};
    out_.logits = results.first;
    out_.logits_stride = results.stride;
  }
  Result<> send_rows() {
    for (auto& stage : out_.stages) {
      if (auto* rows = dynamic_cast<RowsStage*>(stage.get())) {
        ESP_TRY(rows->on_device, buffers_.keep(rows->ops));
      }
      if (auto* experts = dynamic_cast<ExpertsStage*>(stage.get())) {
        ESP_TRY(experts->inner_on_device, buffers_.keep(experts->inner));
        ESP_TRY(experts->brought_on_device, buffers_.keep(experts->brought));
        ESP_TRY(experts->gathered_on_device, buffers_.keep(experts->gathered));
      }
    }
    return success();
  }

  const Program& program_;
  Loaded& loaded_;
  DeviceProgram out_;
  ProgramBuffers buffers_;
  RowsMaker rows_;
  Products products_;
  std::optional<Error> error_;
  std::set<int> rounded_;  // gathers
  int op_ = 0, logits_ = -1;
};

}  // namespace

Error unsupported_on_device(std::string_view what) {
  return {Error::Kind::unsupported,
          fmt::format("{} cannot be computed on a device yet; --device cpu can", what),
          "device",
          {}};
}

Result<DeviceProgram> lower(const Device& device, const Program& program, Loaded& loaded,
                            const DeviceMatrices& matrices, int max_rows) {
  return Lowering(device, program, loaded, matrices, max_rows).run();
}

}  // namespace espalier::device
