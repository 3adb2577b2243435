#include "model/linear.h"

namespace espalier {

RowBlock ActivationRows::as(RowFormat format) {
  if (format == RowFormat::f32) return {format, x_, static_cast<std::size_t>(k_) * sizeof(float), rows_};
  if (!made_[index(format)]) {
    each_chunk([&](int begin, int end) { convert(format, begin, end); });
    made_[index(format)] = true;
  }
  return {format, converted_[index(format)].data(), row_bytes(format, k_), rows_};
}

Result<Linear> Linear::pack(const std::vector<Part>& parts, std::int64_t k, std::vector<float> bias, ComputeTeam& team,
                            const PackedWeights* packed) {
  Linear linear;
  linear.bias_ = std::move(bias);
  for (std::size_t i = 0; i < parts.size();) {
    std::size_t end = i;
    std::int64_t outputs = 0;
    std::string made_of;
    for (; end < parts.size() && parts[end].type == parts[i].type; ++end) {
      outputs += parts[end].outputs;
      made_of += (made_of.empty() ? "" : "+") + parts[end].made_of;
    }
    auto row = [&parts, i](std::int64_t column) {
      std::size_t part = i;
      while (column >= parts[part].outputs) column -= parts[part++].outputs;
      return parts[part].row(column);
    };
    auto found = packed != nullptr ? packed->find(made_of, parts[i].type, outputs, k, team) : std::nullopt;
    if (!found) {
      ESP_TRY(found, PackedMatrix::pack(parts[i].type, outputs, k, row, &team));
    }
    linear.parts_.push_back(std::move(*found));
    linear.made_of_.push_back(std::move(made_of));
    linear.outputs_ += outputs;
    i = end;
  }
  return linear;
}

std::size_t Linear::bytes() const {
  std::size_t sum = bias_.size() * sizeof(float);
  for (const auto& part : parts_) sum += part.bytes();
  return sum;
}

void Linear::add_matrices(std::vector<NamedMatrix>& to) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) to.push_back({made_of_[i], &parts_[i]});
}

RowFormats Linear::formats(const CpuKernels& cpu, Activations mode, Options options) const {
  RowFormats wanted;
  for (const PackedMatrix& part : parts_) wanted.add(row_format(cpu, part.type(), mode, options.wide));
  return wanted;
}

void Linear::apply(const CpuKernels& cpu, ComputeTeam& team, Activations mode, ActivationRows& x, float* out, int rows,
                   Options options) const {
  std::int64_t at = 0;
  for (const PackedMatrix& part : parts_) {
    RowBlock block = x.as(row_format(cpu, part.type(), mode, options.wide));
    block.rows = rows;
    matmul(cpu, team, part, block, out + at, outputs_,
           {bias_.empty() ? nullptr : bias_.data() + at, options.accumulate});
    at += part.outputs();
  }
}

}  // namespace espalier
