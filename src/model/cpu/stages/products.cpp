#include "model/cpu/stages/products.h"

#include <algorithm>

namespace espalier {

namespace {

// The rows in the form that the layer's first matrix reads: what adapters read.
RowBlock rows_of(const ComputeWith& with, const Linear& linear, const InputForms& in, bool wide) {
  return in.as(input_format(with, linear.parts().front(), wide));
}

}  // namespace

AddedSums* NumberedLinear::added(const Pass& pass, const InputForms& in, bool wide) const {
  if (!AdaptedProduct::touches(pass, id)) return nullptr;
  scratch.product.begin(pass, id, rows_of(pass.with(), linear, in, wide), linear.inputs());
  return &scratch.product;
}

void MatmulStage::run(Pass& pass) {
  next.expect(pass, behind_keep);
  const RowSlice slice = pass.slice();
  const InputForms in = in_.forms(slice);
  Linear::Options options = options_;
  options.added = layer_.added(pass, in, options.wide);
  if (activated_) {
    ConvertedRows to = activated_->rows;
    to.data += static_cast<std::size_t>(slice.begin) * row_bytes(to.format, linear_.outputs());
    return linear_.apply_converted(pass.with(), in, activated_->how, to, slice.rows(), options.added);
  }
  linear_.apply(pass.with(), in, out_.row(slice.begin), out_.stride, slice.rows(), options);
}

// Of gates and what they gate in matrices apart: their sums must be there before they are joined.
void GatedStage::run_apart(Pass& pass, const InputForms& in, AddedSums* added) {
  const std::int64_t width = linear_.apart_width();
  std::vector<float>& apart = layer_.scratch.apart;
  const auto floats = static_cast<std::size_t>(pass.rows() * width + kPanelColumns);
  if (apart.size() < floats) apart.resize(floats);
  linear_.apply_apart(pass.with(), in, apart.data(), pass.rows(), added);
  pass.with().team.run(
      pass.rows(), [&](int row) { linear_.join(pass.with().cpu, gate_, apart.data() + row * width, out_.row(row)); });
}

void GatedStage::run(Pass& pass) {
  next.expect(pass, behind_keep);
  const RowSlice slice = pass.slice();
  const InputForms in = in_.forms(slice);
  AddedSums* const added = layer_.added(pass, in, false);
  if (converted_) {
    ConvertedRows to = *converted_;
    to.data += static_cast<std::size_t>(slice.begin) * row_bytes(to.format, linear_.outputs());
    linear_.apply_converted(pass.with(), in, gate_, to, slice.rows(), added);
  } else if (added != nullptr && !linear_.paired()) {
    run_apart(pass, in, added);
  } else {
    linear_.apply(pass.with(), in, out_.row(slice.begin), out_.stride, slice.rows(), {.finish = gate_, .added = added});
  }
}

void GroupedStage::run(Pass& pass) {
  std::vector<Product> products;
  for (const Group& group : groups_) {
    const Linear& linear = *group.linear;
    if (pass.with().observer != nullptr)
      pass.with().observer->see(linear, group.in.forms(pass.rows()).as(RowFormat::f32));
    products.push_back(
        {&linear.parts().front(),
         group.in.forms(pass.rows()).as(linear.format(pass.with())),
         group.out.first,
         group.out.stride,
         {.bias = linear.bias(), .ordered_as = kernel_format(pass.with(), linear.parts().front(), false)}});
  }
  matmul_all(pass.with().cpu, pass.with().team, products);
}

void HeadStage::finish(const CpuKernels& cpu, float* logits, std::int64_t n) const {
  if (scale_ != 1.0f) cpu.functions.scale(scale_, logits, logits, n);
  if (cap_ != 0.0f) cpu.functions.soft_cap(cap_, logits, logits, n);
}

void HeadStage::run(Pass& pass) {
  const int rows = pass.rows();
  const ComputeWith& with = pass.with();
  const InputForms in = in_.forms(rows);
  input_ = in.as(linear_.format(with));
  adapted_.clear();
  if (AdaptedProduct::touches(pass, layer_.id)) adapted_.begin(pass, layer_.id, input_, linear_.inputs());
  next.expect(pass, true);
  LogitReader* reader = pass.batch().reader;
  const auto takes_any = [&] {
    for (int row = 0; row < rows; ++row)
      if (reader->takes(row)) return true;
    return false;
  };
  if (share_.empty() && reader != nullptr && takes_any()) return read(pass, *reader);
  linear_.apply(with, in, logits_.first + share_.begin, logits_.stride, rows,
                {.added = adapted_.empty() ? nullptr : &adapted_});
  if (changes())
    with.team.run(rows, [&](int row) { finish(with.cpu, logits_.row(row) + share_.begin, linear_.outputs()); });
}

// Tiles of columns for some rows at a time, which stay in the second-level cache until they are read.
void HeadStage::read(const Pass& pass, LogitReader& reader) {
  constexpr int kRows = 64;
  const int rows = pass.rows(), vocabulary = static_cast<int>(logits_.stride);
  const int tiles = (vocabulary + kLogitTile - 1) / kLogitTile, blocks = (rows + kRows - 1) / kRows;
  const ComputeTeam& team = pass.with().team;
  pass.with().team.run(tiles * blocks, [&](int chunk) {
    const int tile = chunk / blocks, begin = chunk % blocks * kRows, end = std::min(rows, begin + kRows);
    thread_local std::vector<float> memory;
    memory.resize(static_cast<std::size_t>(kRows) * kLogitTile);
    if (!adapted_.empty()) adapted_.share();
    const int next_tile = team.behind(chunk, tiles * blocks) >= 0 ? tile + 1 : tiles;
    const int first = tile * kLogitTile, columns = std::min(kLogitTile, vocabulary - first);
    linear_.apply_columns(pass.with().cpu, input_.some(begin, end),
                          {first, columns, next_tile < tiles ? next_tile * kLogitTile : -1}, memory.data(), kLogitTile);
    if (!adapted_.empty()) adapted_.add(begin, end, first, columns, memory.data(), kLogitTile);
    for (int row = begin; row < end; ++row) {
      const std::span logits(memory.data() + (row - begin) * kLogitTile, static_cast<std::size_t>(columns));
      if (changes()) finish(pass.with().cpu, logits.data(), columns);
      if (reader.takes(row))
        reader.read(row, first, logits);
      else
        std::copy(logits.begin(), logits.end(), logits_.row(row) + first);
    }
  });
}

void HeadStage::again(const CpuKernels& cpu, int row, int first, std::span<float> out) {
  if (!share_.empty()) {  // all were gathered
    std::copy_n(logits_.row(row) + first, out.size(), out.begin());
    return;
  }
  const auto columns = static_cast<std::int64_t>(out.size());
  linear_.apply_columns(cpu, input_.some(row, row + 1), {first, columns, -1}, out.data(), columns);
  if (!adapted_.empty()) adapted_.add(row, row + 1, first, columns, out.data(), columns);
  if (changes()) finish(cpu, out.data(), columns);
}

}  // namespace espalier
