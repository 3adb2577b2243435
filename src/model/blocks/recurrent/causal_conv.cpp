#include "model/blocks/recurrent/causal_conv.h"

#include "model/program/builder.h"

namespace espalier {

void CausalConv::operator()(Builder& b, Rows rows) const {
  const int reach = (taps - 1) * apart + 1;  // taps between, where there are none, weigh nothing
  std::vector<float> weights(static_cast<std::size_t>(reach) * static_cast<std::size_t>(rows.width)), biases;
  std::size_t first = 0;
  const bool biased = b.is_gguf() ? b.has(parts.front().first, ".bias") : bias;
  for (const auto& [role, channels] : parts) {
    const std::vector<float> stored = b.values(b.vector(role, {channels, taps}));
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c)
      for (std::size_t j = 0; j < static_cast<std::size_t>(taps); ++j)
        weights[j * static_cast<std::size_t>(apart) * static_cast<std::size_t>(rows.width) + first + c] =
            stored[c * static_cast<std::size_t>(taps) + j];
    if (biased) {
      const std::vector<float>& own = b.values(b.vector(role, {channels}, ".bias"));
      biases.insert(biases.end(), own.begin(), own.end());
    }
    first += static_cast<std::size_t>(channels);
  }
  ConvolveOp op{.in = rows, .out = rows, .taps = reach, .silu = activation == ActivationKind::silu};
  op.weights = b.constant(std::move(weights));
  if (biased) op.bias = b.constant(std::move(biases));
  op.state = b.state(static_cast<std::size_t>(reach - 1) * static_cast<std::size_t>(rows.width));
  b.emit(op);
  if (!op.silu && activation != ActivationKind::identity) b.emit(ActivateOp{{activation}, rows, rows});
}

Rows row_before(Builder& b, Rows in, int back, int taps) {
  const auto width = static_cast<std::size_t>(in.width);
  std::vector<float> weights(static_cast<std::size_t>(taps) * width, 0.0f);
  const auto first = static_cast<std::size_t>(taps - 1 - back) * width;
  std::fill_n(weights.begin() + static_cast<std::ptrdiff_t>(first), width, 1.0f);
  ConvolveOp op{.in = in, .out = b.buffer(in.width), .taps = taps};
  op.weights = b.constant(std::move(weights));
  op.state = b.state(static_cast<std::size_t>(taps - 1) * width);
  b.emit(op);
  return op.out;
}

}  // namespace espalier
