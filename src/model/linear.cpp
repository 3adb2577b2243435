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

struct Linear::Joined {
  std::string made_of;
  std::int64_t outputs = 0;
  PackedMatrix::RowSource row;
};

// Parts [begin, end), of one type.
Linear::Joined Linear::side_by_side(const std::vector<Part>& parts, std::size_t begin, std::size_t end) {
  Joined joined;
  for (std::size_t i = begin; i < end; ++i) {
    joined.outputs += parts[i].outputs;
    joined.made_of += (i == begin ? "" : "+") + parts[i].made_of;
  }
  joined.row = [&parts, begin](std::int64_t column) {
    std::size_t part = begin;
    while (column >= parts[part].outputs) column -= parts[part++].outputs;
    return parts[part].row(column);
  };
  return joined;
}

// A panel of the first, a panel of the second, and so on; columns that a last panel lacks are zeros.
Linear::Joined Linear::in_turns(const Part& first, const Part& second) {
  constexpr std::int64_t kPanel = kPanelColumns;
  Joined joined;
  joined.made_of = first.made_of + "|" + second.made_of;
  joined.outputs = 2 * ((first.outputs + kPanel - 1) / kPanel * kPanel);
  joined.row = [&first, &second](std::int64_t column) -> std::span<const std::byte> {
    const std::int64_t panel = column / kPanel, row = panel / 2 * kPanel + column % kPanel;
    if (row >= first.outputs) return {};
    return (panel % 2 == 0 ? first : second).row(row);
  };
  return joined;
}

Result<> Linear::add_part(const Joined& joined, DType type, std::int64_t k, ComputeTeam& team,
                          const PackedWeights* packed) {
  auto found = packed != nullptr ? packed->find(joined.made_of, type, joined.outputs, k, team) : std::nullopt;
  if (!found) {
    ESP_TRY(found, PackedMatrix::pack(type, joined.outputs, k, joined.row, &team));
  }
  parts_.push_back(std::move(*found));
  made_of_.push_back(joined.made_of);
  return success();
}

Result<Linear> Linear::pack(const std::vector<Part>& parts, std::int64_t k, std::vector<float> bias, ComputeTeam& team,
                            const PackedWeights* packed) {
  Linear linear;
  linear.bias_ = std::move(bias);
  for (std::size_t i = 0, end = 0; i < parts.size(); i = end) {
    while (end < parts.size() && parts[end].type == parts[i].type) linear.outputs_ += parts[end++].outputs;
    ESP_CHECK(linear.add_part(side_by_side(parts, i, end), parts[i].type, k, team, packed));
  }
  return linear;
}

Result<Linear> Linear::pack_gated(const Part& gate, const Part& gated, std::int64_t k, std::vector<float> bias,
                                  ComputeTeam& team, const PackedWeights* packed) {
  Linear linear;
  linear.bias_ = std::move(bias);
  linear.outputs_ = gate.outputs;
  linear.gated_ = true;
  if (gate.type == gated.type) {
    ESP_CHECK(linear.add_part(in_turns(gate, gated), gate.type, k, team, packed));
    return linear;
  }
  for (const Part* part : {&gate, &gated})
    ESP_CHECK(linear.add_part({part->made_of, part->outputs, part->row}, part->type, k, team, packed));
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
  const float* bias = bias_.empty() ? nullptr : bias_.data();
  std::int64_t at = 0;  // column of the part's first one
  for (const PackedMatrix& part : parts_) {
    RowBlock block = x.as(row_format(cpu, part.type(), mode, options.wide));
    block.rows = rows;
    const bool first_of_two = gated_ && !paired() && &part == parts_.data();
    matmul(cpu, team, part, block, gated_ ? out : out + at, outputs_,
           {bias ? bias + at : nullptr, first_of_two ? Finish::store : options.finish, paired() ? outputs_ : 0});
    at += part.outputs();
  }
}

void Linear::apply_gated(const CpuKernels& cpu, ComputeTeam& team, Activations mode, ActivationRows& x, Finish gate,
                         const Linear& reader, ActivationRows& out) const {
  const std::optional<RowFormat> wanted = reader.formats(cpu, mode, {}).alone();
  if (parts_.size() != 1 || !wanted) return apply(cpu, team, mode, x, out.floats(), out.rows(), {.finish = gate});
  RowBlock block = input(cpu, mode, x);
  block.rows = out.rows();
  matmul(cpu, team, parts_.front(), block, nullptr, 0,
         {bias_.empty() ? nullptr : bias_.data(), gate, outputs_, out.put(*wanted)});
}

}  // namespace espalier
