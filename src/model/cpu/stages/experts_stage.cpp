#include "model/cpu/stages/experts_stage.h"

#include <algorithm>
#include <cstring>

#include "model/cpu/stages/gather_ranks.h"

namespace espalier {

ExpertsStage::ExpertsStage(const ExpertsOp& op, std::vector<ExpertLayers> experts, InputPlaces in, Place routed,
                           Place out, const ExpertScratch& scratch)
    : op_(op), experts_(std::move(experts)), in_(in), routed_(routed), out_(out), scratch_(scratch) {}

void ExpertsStage::run(Pass& pass) {
  up_format_ = scratch_.up_format;
  down_format_ = scratch_.down_format;
  group(pass);
  if (op_.only_meets) return bring_down(pass);
  gather(pass);
  multiply_up(pass);
  activate(pass);
  bring_inner(pass);
  multiply_down(pass);
  bring_down(pass);
  combine(pass);
}

// A counting sort of all choices by expert.
void ExpertsStage::group(const Pass& pass) {
  const int rows = pass.rows();
  std::vector<int> begin(static_cast<std::size_t>(op_.count) + 1);
  const auto expert_of = [&](int row, int choice) { return static_cast<int>(routed_.row(row)[choice]); };
  for (int row = 0; row < rows; ++row)
    for (int c = 0; c < op_.chosen; ++c)
      if (const int e = expert_of(row, c); e < op_.count) ++begin[static_cast<std::size_t>(e) + 1];
  shares_.clear();
  for (int e = 0; e < op_.count; ++e) {
    const int count = begin[static_cast<std::size_t>(e) + 1];
    begin[static_cast<std::size_t>(e) + 1] += begin[static_cast<std::size_t>(e)];
    const bool here = op_.expert_cut.empty() || (op_.own.begin <= e && e < op_.own.end);
    if (count > 0 && here) shares_.push_back({e, begin[static_cast<std::size_t>(e)], count});
  }
  places_of_rank_.clear();
  for (const Range& experts : op_.expert_cut)
    places_of_rank_.push_back(
        {begin[static_cast<std::size_t>(experts.begin)], begin[static_cast<std::size_t>(experts.end)]});
  row_of_.assign(static_cast<std::size_t>(begin.back()), 0);
  place_of_.assign(static_cast<std::size_t>(rows) * static_cast<std::size_t>(op_.chosen), -1);
  for (int row = 0; row < rows; ++row)
    for (int c = 0; c < op_.chosen; ++c)
      if (const int e = expert_of(row, c); e < op_.count) {
        const int place = begin[static_cast<std::size_t>(e)]++;
        row_of_[static_cast<std::size_t>(place)] = row;
        place_of_[static_cast<std::size_t>(row) * static_cast<std::size_t>(op_.chosen) + static_cast<std::size_t>(c)] =
            place;
      }
}

void ExpertsStage::gather(Pass& pass) {
  const auto places = static_cast<int>(row_of_.size());
  const ComputeWith& with = pass.with();
  const InputForms in = in_.forms(pass.rows());
  const std::size_t bytes = row_bytes(up_format_, op_.in.width);
  if (op_.weight_inputs) {
    std::vector<float> weight(row_of_.size());
    for (int row = 0; row < pass.rows(); ++row)
      for (int c = 0; c < op_.chosen; ++c)
        if (const int place = place_of_[static_cast<std::size_t>(row) * static_cast<std::size_t>(op_.chosen) +
                                        static_cast<std::size_t>(c)];
            place >= 0)
          weight[static_cast<std::size_t>(place)] = routed_.row(row)[op_.chosen + c];
    with.team.run(places, [&](int place) {
      float* to = scratch_.gathered_floats.row(place);
      with.cpu.functions.scale(weight[static_cast<std::size_t>(place)],
                               in_.floats.row(row_of_[static_cast<std::size_t>(place)]), to, op_.in.width);
      if (up_format_ != RowFormat::f32)
        convert_rows(with.cpu, up_format_, scratch_.gathered_floats.first, scratch_.gathered_floats.stride,
                     op_.in.width, place, place + 1, scratch_.gathered);
    });
    return;
  }
  const RowBlock& rows = in.as(up_format_);
  std::byte* const to =
      up_format_ == RowFormat::f32 ? reinterpret_cast<std::byte*>(scratch_.gathered_floats.first) : scratch_.gathered;
  constexpr int kEach = 16;
  with.team.run((places + kEach - 1) / kEach, [&](int chunk) {
    for (int place = chunk * kEach; place < std::min(places, (chunk + 1) * kEach); ++place)
      std::memcpy(to + static_cast<std::size_t>(place) * bytes,
                  static_cast<const std::byte*>(rows.data) +
                      static_cast<std::size_t>(row_of_[static_cast<std::size_t>(place)]) * rows.stride,
                  bytes);
  });
}

RowBlock ExpertsStage::input_of(const Share& share) const {
  const std::size_t bytes = row_bytes(up_format_, op_.in.width);
  const std::byte* rows = up_format_ == RowFormat::f32
                              ? reinterpret_cast<const std::byte*>(scratch_.gathered_floats.first)
                              : scratch_.gathered;
  return {up_format_, rows + static_cast<std::size_t>(share.begin) * bytes, bytes, share.rows};
}

// One pass over an expert's weights can gate, and leave the rows in the form that the next product reads.
bool ExpertsStage::finishes_converted(const ComputeWith&) const {
  return op_.gated && op_.inner_cut.empty() && !experts_.empty() && experts_.front().up->paired() &&
         (down_format_ == RowFormat::int8 || down_format_ == RowFormat::bf16) && scratch_.up.first == nullptr;
}

void ExpertsStage::multiply_up(Pass& pass) {
  std::vector<Product> products;
  for (const Share& share : shares_) {
    const Linear& up = *layers_of(share).up;
    if (pass.with().observer != nullptr) pass.with().observer->see(up, input_of(share));
    if (up.paired() && op_.gated)
      products.push_back(gated_product(pass.with(), share, up));
    else
      add_products(pass.with(), share, up, products);
  }
  matmul_all(pass.with().cpu, pass.with().team, products);
}

Product ExpertsStage::gated_product(const ComputeWith& with, const Share& share, const Linear& up) const {
  Product product{&up.parts().front(),
                  input_of(share),
                  scratch_.inner.row(share.begin) + op_.own_inner().begin,
                  scratch_.inner.stride,
                  {.bias = up.bias(), .ordered_as = kernel_format(with, up.parts().front(), false)}};
  product.options.finish = op_.gate.activation.kind == ActivationKind::silu ? Finish::gate_silu : Finish::gate_gelu;
  product.options.pairs = op_.own_inner().size();
  if (finishes_converted(with))
    product.options.converted =
        ConvertedRows{down_format_, scratch_.inner_converted +
                                        static_cast<std::size_t>(share.begin) * row_bytes(down_format_, op_.inner)};
  return product;
}

// Gates and values as floats, one matrix beside the other.
void ExpertsStage::add_products(const ComputeWith& with, const Share& share, const Linear& up,
                                std::vector<Product>& to) const {
  std::int64_t column = 0;
  for (const PackedMatrix& part : up.parts()) {
    to.push_back({&part,
                  input_of(share),
                  scratch_.up.row(share.begin) + column,
                  scratch_.up.stride,
                  {.bias = up.bias() ? up.bias() + column : nullptr, .ordered_as = kernel_format(with, part, false)}});
    column += part.outputs();
  }
}

void ExpertsStage::activate(Pass& pass) {
  const ComputeWith& with = pass.with();
  if (finishes_converted(with)) return;
  const auto places = static_cast<int>(row_of_.size());
  std::vector<bool> apart(row_of_.size());  // whose gates and values are still side by side
  for (const Share& share : shares_)
    for (int place = share.begin; place < share.begin + share.rows; ++place)
      apart[static_cast<std::size_t>(place)] = !(op_.gated && layers_of(share).up->paired());
  const Range own = op_.own_inner();
  with.team.run(places, [&](int place) {
    float* inner = scratch_.inner.row(place) + own.begin;
    if (apart[static_cast<std::size_t>(place)]) {
      const float* up = scratch_.up.row(place);
      if (op_.gated)
        with.cpu.functions.gate(op_.gate, up, up + own.size(), inner, own.size());
      else
        with.cpu.functions.activate(op_.gate.activation, up, inner, own.size());
    }
    if (op_.inner_cut.empty() && down_format_ != RowFormat::f32) convert_inner(with.cpu, place);
  });
}

void ExpertsStage::convert_inner(const CpuKernels& cpu, int place) {
  convert_rows(cpu, down_format_, scratch_.inner.first, scratch_.inner.stride, op_.inner, place, place + 1,
               scratch_.inner_converted);
}

void ExpertsStage::bring_inner(Pass& pass) {
  if (op_.inner_cut.empty()) return;
  const ComputeWith& with = pass.with();
  const auto places = static_cast<int>(row_of_.size());
  gather_columns(with, op_.inner_cut, scratch_.inner, pass.rows() * op_.chosen);  // as many as others can know
  if (down_format_ != RowFormat::f32) with.team.run(places, [&](int place) { convert_inner(with.cpu, place); });
}

void ExpertsStage::bring_down(Pass& pass) {
  if (!op_.expert_cut.empty()) gather_rows(pass.with(), places_of_rank_, scratch_.down, op_.out.width);
}

void ExpertsStage::multiply_down(Pass& pass) {
  std::vector<Product> products;
  const std::size_t bytes = row_bytes(down_format_, op_.inner);
  const std::byte* rows = down_format_ == RowFormat::f32 ? reinterpret_cast<const std::byte*>(scratch_.inner.first)
                                                         : scratch_.inner_converted;
  for (const Share& share : shares_) {
    const Linear& down = *layers_of(share).down;
    if (pass.with().observer != nullptr)
      pass.with().observer->see(
          down, {down_format_, rows + static_cast<std::size_t>(share.begin) * bytes, bytes, share.rows});
    products.push_back({&down.parts().front(),
                        {down_format_, rows + static_cast<std::size_t>(share.begin) * bytes, bytes, share.rows},
                        scratch_.down.row(share.begin),
                        scratch_.down.stride,
                        {.bias = down.bias(), .ordered_as = kernel_format(pass.with(), down.parts().front(), false)}});
  }
  matmul_all(pass.with().cpu, pass.with().team, products);
}

void ExpertsStage::combine(Pass& pass) {
  const CpuKernels& cpu = pass.with().cpu;
  const std::int64_t width = op_.out.width;
  pass.with().team.run(pass.rows(), [&](int row) {
    float* out = out_.row(row);
    const float* weights = routed_.row(row) + op_.chosen;
    for (int c = 0; c < op_.chosen; ++c) {
      const int place =
          place_of_[static_cast<std::size_t>(row) * static_cast<std::size_t>(op_.chosen) + static_cast<std::size_t>(c)];
      const float* from = place >= 0 ? scratch_.down.row(place) : in_.floats.row(row) + op_.out_column;
      const float weight = op_.weight_inputs ? 1.0f : weights[c];
      if (c == 0 && !op_.add)
        cpu.functions.scale(weight, from, out, width);
      else
        cpu.functions.add_scaled(weight, from, out, width);
    }
  });
}

}  // namespace espalier
