#include "device/lowering/experts.h"

#include <algorithm>

namespace espalier::device {
namespace {

// The buffers of one layer: what rows become on their way, a row for each place.
struct Way {
  int gathered_floats = -1, gathered = -1, up = -1, inner = -1, inner_form = -1, down = -1;
};

class ExpertsLowering {
 public:
  ExpertsLowering(const ExpertsOp& op, Products& products, ProgramBuffers& buffers, RowsMaker& rows)
      : o_(op), own_inner_(op.own_inner()), products_(products), buffers_(buffers), rows_(rows) {}

  Result<> run() {
    if (o_.only_meets) return meet();
    if (o_.only_meets) return meet();
    if (!alike(o_.gate_up) || !alike(o_.down))
      return unsupported_on_device("a layer of experts whose weights differ in type, or have an order of inputs,");
    if (o_.experts() > 0) ESP_CHECK(find_forms());
    in_.floats = o_.in;
    ExpertsStage& stage = rows_.push<ExpertsStage>();
    add_buffers();
    if (o_.experts() > 0) ESP_CHECK(add_products(stage));
    buffers_.need_places(o_.chosen, o_.count);
    if (!paired_) stage.inner.push_back(to_bytes(activation()));
    stage.own = o_.expert_cut.empty() ? Range{0, o_.count} : o_.own;
    ESP_CHECK(add_gather(o_.inner_cut, stage.bring_inner));
    ESP_CHECK(add_gather(o_.expert_cut, stage.bring_down));
    buffers_.fix([self = *this, &stage] { self.aim(stage); });
    return success();
  }

 private:
  // Of a rank of another stage: as many bytes as those have who have the experts.
  Result<> meet() {
    ExpertsStage& stage = rows_.push<ExpertsStage>();
    ESP_CHECK(add_gather(o_.expert_cut, stage.bring_down));
    stage.group.places = {0, o_.chosen, o_.count, nullptr, nullptr, nullptr};
    stage.bring_down->aim_to_meet(o_.out.width);
    stage.only_meets = true;
    return success();
  }
  Result<> find_forms() {
    const Linear& up = products_.linear(o_.gate_up);
    paired_ = o_.gated && up.paired();
    up_form_ = products_.form_of(up.parts().front());
    down_form_ = products_.form_of(products_.linear(o_.down).parts().front());
    for (const PackedMatrix& part : up.parts())
      if (products_.form_of(part) != up_form_)
        return unsupported_on_device("an expert whose gate and values want rows of different forms");
    if (!o_.weight_inputs) in_ = products_.input(o_.in, up.parts().front(), nullptr);
    return success();
  }
  // All experts of a device's product have one type and no order of inputs.
  bool alike(MatrixId first) const {
    if (o_.experts() == 0) return true;
    const auto& wanted = products_.linear(first).parts();
    for (int e = 0; e < o_.experts(); ++e) {
      const auto& parts = products_.linear(first + e).parts();
      if (!std::ranges::equal(parts, wanted, {}, &PackedMatrix::type, &PackedMatrix::type)) return false;
      if (std::ranges::any_of(parts, [](const PackedMatrix& part) { return part.order() != nullptr; })) return false;
    }
    return true;
  }

  std::int64_t up_width() const { return std::int64_t{o_.gated ? 2 : 1} * own_inner_.size(); }
  void add_buffers() {
    const bool floats = up_form_ == RowFormat::f32;
    if (floats || o_.weight_inputs) at_.gathered_floats = buffers_.add_floats(o_.in.width, o_.chosen);
    at_.gathered = floats ? at_.gathered_floats : buffers_.add(row_bytes(up_form_, o_.in.width), o_.chosen);
    if (!paired_) at_.up = buffers_.add_floats(up_width(), o_.chosen);
    at_.inner = buffers_.add_floats(o_.inner, o_.chosen);
    at_.inner_form =
        down_form_ == RowFormat::f32 ? at_.inner : buffers_.add(row_bytes(down_form_, o_.inner), o_.chosen);
    at_.down = buffers_.add_floats(o_.out.width, o_.chosen);
  }

  DeviceRowOp activation() const {
    const int own = own_inner_.size();
    const Rows values{at_.up, 0, own}, out{at_.inner, own_inner_.begin, own};
    if (!o_.gated) return ActivateOp{o_.gate.activation, values, out};
    return GateOp{o_.gate, values, Rows{at_.up, own, own}, out};
  }
  Result<> add_gather(const Cut& cut, std::optional<RankGather>& gather) {
    if (cut.empty()) return success();
    gather.emplace(*products_.group(), cut, products_.rank_parts());
    ESP_TRY(cut_on_device_, buffers_.keep(cut));
    return success();
  }

  // Part `part` of the layers from `first` on. column: of their biases.
  Result<cuda::MultiplyExpertsTask> product(MatrixId first, std::size_t part, std::int64_t column, RowFormat form) {
    cuda::MultiplyExpertsTask task{};
    task.of = products_.task_of(first, part);
    task.of.panels = nullptr;
    task.type = products_.linear(first).parts()[part].type();
    task.rows_as = form;
    std::vector<const std::uint8_t*> panels;
    std::vector<const float*> biases;
    for (int e = 0; e < o_.experts(); ++e) {
      panels.push_back(products_.matrices().part(first + e, part).panels);
      if (const float* bias = products_.matrices().bias(first + e)) biases.push_back(bias + column);
    }
    ESP_TRY(task.panels, buffers_.keep(panels));
    if (!biases.empty()) {
      ESP_TRY(task.biases, buffers_.keep(biases));
    }
    return task;
  }
  Result<> add_products(ExpertsStage& stage) {
    const Linear& up = products_.linear(o_.gate_up);
    std::int64_t column = 0;
    for (std::size_t part = 0; part < up.parts().size(); ++part) {
      ESP_TRY(auto task, product(o_.gate_up, part, column, up_form_));
      task.of.paired = paired_;
      if (paired_) {
        task.of.outputs = own_inner_.size();
        task.of.finish = o_.gate.activation.kind == ActivationKind::silu ? Finish::gate_silu : Finish::gate_gelu;
      }
      stage.ups.push_back(task);
      column += up.parts()[part].outputs();
    }
    ESP_TRY(stage.down, product(o_.down, 0, 0, down_form_));
    return success();
  }

  // Fills in where everything lies.
  void aim(ExpertsStage& stage) const {
    const cuda::ExpertPlaces places{0, o_.chosen, o_.count, buffers_.places(0), buffers_.places(1), buffers_.places(2)};
    const BatchRows routed = buffers_.rows(o_.routed), in = buffers_.rows(o_.in), out = buffers_.rows(o_.out);
    stage.group = {routed.first, routed.stride, places};
    stage.gathers.push_back(gather(in, routed));
    if (o_.weight_inputs && up_form_ != RowFormat::f32)
      stage.gathered.push_back(to_bytes(convert(at_.gathered_floats, o_.in.width, up_form_, at_.gathered)));
    if (down_form_ != RowFormat::f32)
      (stage.bring_inner ? stage.brought : stage.inner)
          .push_back(to_bytes(convert(at_.inner, o_.inner, down_form_, at_.inner_form)));
    if (stage.bring_inner) stage.bring_inner->aim({buffers_.floats_at(at_.inner), o_.inner}, cut_on_device_, true);
    if (stage.bring_down)
      stage.bring_down->aim_at_places(buffers_.floats_at(at_.down), o_.out.width, places.begin, cut_on_device_);
    std::int64_t column = 0;
    for (cuda::MultiplyExpertsTask& task : stage.ups) {
      task.of.x = buffers_.bytes_at(at_.gathered);
      task.of.x_stride = row_bytes(up_form_, o_.in.width);
      task.of.out = (paired_ ? buffers_.floats_at(at_.inner) + own_inner_.begin : buffers_.floats_at(at_.up)) + column;
      task.of.out_stride = paired_ ? o_.inner : up_width();
      column += task.of.outputs;
    }
    MatmulTask& down = stage.down.of;
    down.x = buffers_.bytes_at(at_.inner_form);
    down.x_stride = row_bytes(down_form_, o_.inner);
    down.out = buffers_.floats_at(at_.down);
    down.out_stride = o_.out.width;
    stage.combine = {.from = down.out,
                     .in = in.first + o_.out_column,
                     .routed = routed.first,
                     .out = out.first,
                     .from_stride = o_.out.width,
                     .in_stride = in.stride,
                     .routed_stride = routed.stride,
                     .out_stride = out.stride,
                     .width = o_.out.width,
                     .weighted = !o_.weight_inputs,
                     .add = o_.add,
                     .places = places};
  }
  cuda::GatherRowsTask gather(const BatchRows& in, const BatchRows& routed) const {
    cuda::GatherRowsTask task{};
    if (in_.buffer >= 0) {
      task.from = buffers_.bytes_at(in_.buffer);
      task.to = buffers_.bytes_at(at_.gathered);
      task.from_stride = task.to_stride = task.bytes = in_.stride;
      return task;
    }
    task.from = reinterpret_cast<const std::byte*>(in.first);
    task.from_stride = static_cast<std::size_t>(in.stride) * sizeof(float);
    task.to = buffers_.bytes_at(at_.gathered_floats);
    task.to_stride = task.bytes = static_cast<std::size_t>(o_.in.width) * sizeof(float);
    task.routed = o_.weight_inputs ? routed.first : nullptr;
    task.routed_stride = routed.stride;
    return task;
  }
  ConvertRowsOp convert(int from, int width, RowFormat form, int to) const {
    return {Rows{from, 0, width}, form, buffers_.bytes_at(to), row_bytes(form, width), nullptr, nullptr};
  }

  ExpertsOp o_;
  Range own_inner_;
  const Range* cut_on_device_ = nullptr;
  Products& products_;
  ProgramBuffers& buffers_;
  RowsMaker& rows_;
  Products::Input in_;
  bool paired_ = false;
  RowFormat up_form_ = RowFormat::f32, down_form_ = RowFormat::f32;
  Way at_;
};

}  // namespace

Result<> add_experts(const ExpertsOp& op, Products& products, ProgramBuffers& buffers, RowsMaker& rows) {
  return ExpertsLowering(op, products, buffers, rows).run();
}

}  // namespace espalier::device
