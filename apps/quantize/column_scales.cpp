#include "quantize/column_scales.h"

#include <algorithm>
#include <cmath>

#include "model/blocks/attention/attention.h"
#include "model/blocks/channels/mlp.h"
#include "quantize/source_rows.h"

namespace espalier::quantizer {
namespace {

constexpr std::int64_t kRowsLookedAt = 192;  // of a matrix, to choose a power by

class Chooser {
 public:
  Chooser(const ScaleWish& wish, ComputeTeam& team) : wish_(wish), team_(team) {}

  ColumnScales choose() {
    for (layer_ = 0; layer_ < static_cast<int>(wish_.spec.layers.size()); ++layer_) {
      const Layer& layer = wish_.spec.layers[static_cast<std::size_t>(layer_)];
      if (layer.body || wish_.spec.transposed) continue;
      if (!layer.parallel)
        for (const Half& half : layer.halves) behind_norm(half);
      for (const Half& half : layer.halves)
        if (const Mlp* mlp = half.block.target<Mlp>(); mlp != nullptr && is_plain(*mlp)) between(*mlp);
    }
    return std::move(out_);
  }

 private:
  static bool is_plain(const Mlp& mlp) {
    return mlp.gated && !mlp.ranged && !mlp.adapter && !mlp.cut_off && !mlp.inner_norm;
  }

  const Tensor* find(std::string_view role) const {
    const auto known = [&](const std::string& name) { return wish_.weights.find(name + ".weight") != nullptr; };
    return wish_.weights.find(wish_.spec.names.of(Naming::hf, role, layer_, 0, known) + ".weight");
  }

  // Null: the matrix is no plain one, or was not measured.
  const Tensor* matrix(std::string_view role) const {
    const Tensor* tensor = find(role);
    return tensor != nullptr && tensor->shape.size() == 2 && wish_.measured.find(tensor->name) != nullptr ? tensor
                                                                                                          : nullptr;
  }

  void behind_norm(const Half& half) {
    if (half.before.empty() || half.keep_normed) return;
    std::vector<std::string_view> roles;
    if (const auto* a = half.block.target<Attention>()) {
      if (a->fused != FusedQkv::no || a->indexer || a->reads_layer >= 0 || a->gate != Attention::Gate::none ||
          !a->adapters.empty() || a->ranged)
        return;
      roles = {"attn_q", "attn_k", "attn_v"};
      if (a->keys_are_values) roles.pop_back();
    } else if (const auto* mlp = half.block.target<Mlp>(); mlp != nullptr && is_plain(*mlp) && !mlp->fused) {
      roles = {mlp->gate, mlp->up};
    }
    const Tensor* gain = find(half.before);
    std::vector<const Tensor*> readers;
    for (const auto role : roles) readers.push_back(matrix(role));
    if (gain == nullptr || gain->maker || readers.empty() || wish_.spec.norm.bias ||
        std::ranges::find(readers, nullptr) != readers.end())
      return;
    const std::vector<float> by = best(readers);
    if (by.empty()) return;
    for (const Tensor* reader : readers) out_.columns[reader->name] = by;
    out_.gains[gain->name] = {by, wish_.spec.norm.one_plus};
  }

  void between(const Mlp& mlp) {
    const Tensor *up = matrix(mlp.up), *down = matrix(mlp.down);
    if (up == nullptr || down == nullptr || mlp.fused || mlp.bias || up->shape[0] != down->shape[1]) return;
    const std::vector<float> by = best({down});
    if (by.empty()) return;
    out_.columns[down->name] = by;
    out_.rows[up->name] = by;
  }

  // Rows of the matrices, evenly chosen.
  std::vector<std::vector<float>> some_rows(const std::vector<const Tensor*>& readers) const {
    std::vector<std::vector<float>> rows;
    for (const Tensor* reader : readers) {
      const std::int64_t step = std::max<std::int64_t>(1, reader->rows() / kRowsLookedAt);
      for (std::int64_t row = 0; row < reader->rows(); row += step) {
        rows.emplace_back(static_cast<std::size_t>(reader->columns()));
        read_row(*reader, row, rows.back());
      }
    }
    return rows;
  }

  std::vector<float> best(const std::vector<const Tensor*>& readers) const {
    const InputSums& sums = *wish_.measured.find(readers.front()->name);
    const auto rows = some_rows(readers);
    const std::size_t width = sums.squares.size();
    std::vector<float> weight(width, 0.0f);  // the greatest of each column
    for (const auto& row : rows) {
      if (row.size() != width) return {};
      for (std::size_t k = 0; k < width; ++k) weight[k] = std::max(weight[k], std::fabs(row[k]));
    }
    double least = -1;
    std::vector<float> chosen;
    for (int step = 0; step <= 10; ++step) {
      const auto scales = of_power(sums, weight, 0.1 * step);
      const double error = error_of(rows, sums, scales);
      if (least < 0 || error < least * 0.995) least = error, chosen = step == 0 ? std::vector<float>() : scales;
    }
    return chosen;
  }

  // Powers of what columns read (and, where activations are rounded too, of what stands in them), with mean 1.
  std::vector<float> of_power(const InputSums& sums, const std::vector<float>& weight, double power) const {
    std::vector<double> logarithms;
    double mean = 0;
    for (std::size_t k = 0; k < weight.size(); ++k) {
      const double size = wish_.target.int8_activations
                              ? static_cast<double>(sums.greatest[k])
                              : std::sqrt(sums.squares[k] / static_cast<double>(std::max<std::int64_t>(1, sums.rows)));
      double value = power * std::log(std::max(size, 1e-8));
      if (wish_.target.int8_activations && power > 0)
        value -= (1 - power) * std::log(std::max(static_cast<double>(weight[k]), 1e-8));
      logarithms.push_back(value);
      mean += value;
    }
    mean /= static_cast<double>(weight.size());
    std::vector<float> scales;
    for (const double value : logarithms)
      scales.push_back(std::clamp(static_cast<float>(std::exp(value - mean)), 1e-2f, 1e2f));
    return scales;
  }

  double error_of(const std::vector<std::vector<float>>& rows, const InputSums& sums,
                  const std::vector<float>& scales) const {
    const std::size_t width = scales.size();
    std::vector<float> importance(width);
    float greatest = 0;
    for (std::size_t k = 0; k < width; ++k) {
      importance[k] = static_cast<float>(sums.squares[k] / static_cast<double>(std::max<std::int64_t>(1, sums.rows))) /
                      (scales[k] * scales[k]);
      greatest = std::max(greatest, sums.greatest[k] / scales[k]);
    }
    std::vector<double> errors(rows.size());
    team_.run(static_cast<int>(rows.size()), [&](int r) {
      errors[static_cast<std::size_t>(r)] =
          error_of_row(rows[static_cast<std::size_t>(r)], scales, importance, greatest);
    });
    double sum = 0;
    for (const double error : errors) sum += error;
    return sum;
  }

  double error_of_row(const std::vector<float>& row, const std::vector<float>& scales,
                      const std::vector<float>& importance, float greatest) const {
    const GroupForm form{wish_.target.bits, wish_.target.symmetric, DType::bf16};
    const std::size_t width = row.size(), group = wish_.group > 0 ? static_cast<std::size_t>(wish_.group) : width;
    std::vector<float> scaled(width);
    double error = 0, energy = 0;
    for (std::size_t k = 0; k < width; ++k) {
      scaled[k] = row[k] * scales[k];
      energy += static_cast<double>(scaled[k]) * static_cast<double>(scaled[k]);
    }
    for (std::size_t first = 0; first < width; first += group) {
      const std::size_t count = std::min(group, width - first);
      const std::span<const float> values(scaled.data() + first, count), weights(importance.data() + first, count);
      const GroupScale scale = fit_group(values, weights, form);
      for (std::size_t k = 0; k < count; ++k) {
        const double e = static_cast<double>(values[k] - value_of(code_of(values[k], scale, form), scale));
        error += static_cast<double>(weights[k]) * e * e;
      }
    }
    // Activations lose up to half a step of the greatest of a token's.
    if (wish_.target.int8_activations) error += energy * std::pow(static_cast<double>(greatest) / 127 * 0.5, 2) / 12;
    return error;
  }

  const ScaleWish& wish_;
  ComputeTeam& team_;
  int layer_ = 0;
  ColumnScales out_;
};

}  // namespace

ColumnScales choose_column_scales(const ScaleWish& wish, ComputeTeam& team) {
  return Chooser(wish, team).choose();
}

}  // namespace espalier::quantizer
