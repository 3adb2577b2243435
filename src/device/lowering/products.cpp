#include "device/lowering/products.h"

#include <algorithm>

namespace espalier::device {

RowFormat form_of_rows(DType weights, Activations mode, bool wide) {
  if (mode == Activations::f32) return RowFormat::f32;
  // Which every device multiplies, whatever the host's processor has.
  if (weights == DType::bf16 || weights == DType::f16 || has_float_codes(weights)) return RowFormat::bf16;
  if (!is_quantised(weights)) return RowFormat::f32;
  return wide ? RowFormat::int16 : RowFormat::int8;
}

Products::Input Products::input(const Rows& rows, const PackedMatrix& matrix, const std::int32_t* order, bool wide) {
  const RowFormat form = form_of(matrix, wide);
  if (form == RowFormat::f32 && order == nullptr) return {rows, -1, 0};
  const std::size_t stride = row_bytes(form, rows.width);
  for (const Converted& known : converted_)
    if (known.rows == rows && known.form == form && known.order == order) {
      buffers_.use_again(known.buffer);
      return {rows, known.buffer, stride};
    }
  const int buffer = buffers_.add(stride);
  const int ordered = order != nullptr && form != RowFormat::f32 ? buffers_.add_floats(rows.width) : -1;
  converted_.push_back({rows, form, order, buffer});
  rows_.add_later([=, this] {
    return ConvertRowsOp{rows,   form,  buffers_.bytes_at(buffer),
                         stride, order, ordered < 0 ? nullptr : buffers_.floats_at(ordered)};
  });
  return {rows, buffer, stride};
}

void Products::forget_changed(const Op& op) {
  if (std::holds_alternative<KeepRowsOp>(op)) return converted_.clear();
  for_each_place(op, [&](const Rows& place, bool writes) {
    if (!writes) return;
    std::erase_if(converted_, [&](const Converted& c) {
      return c.rows.buffer == place.buffer && c.rows.first < place.first + place.width &&
             place.first < c.rows.first + c.rows.width;
    });
  });
}

MatmulTask Products::task_of(MatrixId id, std::size_t part) const {
  const PackedMatrix& matrix = linear(id).parts()[part];
  MatmulTask task{};
  task.panels = matrices_.part(id, part).panels;
  task.panel_bytes = matrix.panel_bytes();
  task.k = matrix.k();
  task.outputs = matrix.outputs();
  task.panel_end = matrix.panels();
  task.then_panel = -1;
  return task;
}

Products::Input Products::seen_by_adapters(MatrixId id, const Rows& in, bool wide) {
  return matrices_.part(id, 0).order != nullptr ? Input{in} : input(in, linear(id).parts().front(), nullptr, wide);
}

const void* Products::first_of(const Input& input) const {
  return input.buffer < 0 ? static_cast<const void*>(buffers_.rows(input.floats).first)
                          : buffers_.bytes_at(input.buffer);
}

std::size_t Products::stride_of(const Input& input) const {
  return input.buffer < 0 ? static_cast<std::size_t>(buffers_.rows(input.floats).stride) * sizeof(float) : input.stride;
}

void Products::multiply(MatrixId id, const Rows& in, const Output& out, Finish finish, bool wide) {
  const Linear& layer = linear(id);
  const float* const bias = matrices_.bias(id);
  const Input seen = seen_by_adapters(id, in, wide);
  const AdaptedLayer adapted{id, &layer, finish, bias, loaded_.with.mode == Activations::f32, for_adapters_};
  std::int64_t at = 0;
  for (std::size_t part = 0; part < layer.parts().size(); ++part) {
    const PackedMatrix& matrix = layer.parts()[part];
    const Input from = input(in, matrix, matrices_.part(id, part).order, wide);
    cuda::MultiplyTask task{task_of(id, part), matrix.type(), form_of(matrix, wide)};
    const bool first_of_two = layer.gated() && !layer.paired() && part == 0;
    task.of.finish = first_of_two ? Finish::store : finish;
    task.of.paired = layer.paired();
    if (task.of.paired) task.of.outputs = layer.outputs();
    task.of.bias = bias != nullptr ? bias + at : nullptr;
    const std::int64_t column = layer.gated() ? 0 : at;
    rows_.push_later([=, this]() mutable {
      const BatchRows to = out();
      task.of.x = first_of(from);
      task.of.x_stride = stride_of(from);
      task.of.out = to.first + column;
      task.of.out_stride = to.stride;
      const AdaptedRowsIn rows{seen.buffer < 0 ? RowFormat::f32 : form_of(layer.parts().front(), wide), first_of(seen),
                               stride_of(seen), buffers_.rows(in)};
      return with_adapters(adapted, part, rows, to, task.of, [task](const MatmulTask& of) {
        return std::make_unique<MultiplyStage>(cuda::MultiplyTask{of, task.type, task.rows_as});
      });
    });
    at += matrix.outputs();
  }
}

}  // namespace espalier::device
