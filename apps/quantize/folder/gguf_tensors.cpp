#include "quantize/folder/gguf_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "model/blocks/attention/attention.h"
#include "model/weights/roles.h"

namespace espalier::quantizer {
namespace {

const Attention* attention_of(const ModelSpec& spec, int layer) {
  if (layer < 0 || static_cast<std::size_t>(layer) >= spec.layers.size()) return nullptr;
  for (const Half& half : spec.layers[static_cast<std::size_t>(layer)].halves)
    if (const auto* attention = half.block.target<Attention>()) return attention;
  return nullptr;
}

// Within each head, rows i and i + half stand side by side.
SourceRows in_pairs(const Tensor& tensor, int head_dim) {
  SourceRows rows = rows_of(tensor);
  rows.whole = nullptr;
  const auto stored = [head_dim](std::int64_t row) {
    const std::int64_t head = row / head_dim, at = row % head_dim;
    return head * head_dim + at / 2 + at % 2 * (head_dim / 2);
  };
  if (tensor.shape.size() > 1) {
    rows.read = [&tensor, stored](std::int64_t row, std::span<float> out) { read_row(tensor, stored(row), out); };
    return rows;
  }
  rows.read = [&tensor, stored](std::int64_t, std::span<float> out) {
    std::vector<float> all(out.size());
    read_row(tensor, 0, all);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = all[static_cast<std::size_t>(stored(static_cast<std::int64_t>(i)))];
  };
  return rows;
}

SourceRows plus_one(const Tensor& tensor) {
  SourceRows rows = rows_of(tensor);
  rows.whole = nullptr;
  rows.read = [&tensor](std::int64_t row, std::span<float> out) {
    read_row(tensor, row, out);
    for (float& value : out) value += 1.0f;
  };
  return rows;
}

// One matrix below the other.
SourceRows stacked(std::vector<const Tensor*> parts) {
  const Tensor& first = *parts.front();
  SourceRows rows{{static_cast<std::int64_t>(parts.size()), first.rows(), first.columns()}, {}, parts, nullptr};
  rows.read = [parts = std::move(parts), each = first.rows()](std::int64_t row, std::span<float> out) {
    read_row(*parts[static_cast<std::size_t>(row / each)], row % each, out);
  };
  return rows;
}

// Rows [first, first + count) of each of the matrices that a tensor has.
SourceRows slice(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  const std::int64_t matrices = tensor.shape.front(), each = tensor.rows() / matrices;
  SourceRows rows{{matrices, count, tensor.columns()}, {}, {&tensor}, nullptr};
  rows.read = [&tensor, each, first, count](std::int64_t row, std::span<float> out) {
    read_row(tensor, row / count * each + first + row % count, out);
  };
  return rows;
}

class Collector {
 public:
  Collector(const TensorFile& file, const Weights& weights, const ModelSpec& folder, const ModelSpec& gguf)
      : file_(file), weights_(weights), folder_(folder), gguf_(gguf) {}

  Result<GgufTensors> collect(const std::vector<Hyperparameters::Vector>& vectors) {
    take_layer(-1);
    drop_equal_head();
    for (int layer = 0; layer < static_cast<int>(folder_.layers.size()); ++layer) {
      take_layer(layer);
      take_experts(layer);
    }
    for (const auto& vector : vectors) out_.all.push_back({vector.name, values_of(vector.values)});
    ESP_CHECK(look_at_others());
    return std::move(out_);
  }

 private:
  void add(std::string name, SourceRows rows) {
    for (const Tensor* tensor : rows.of) taken_.insert(tensor->name);
    out_.all.push_back({std::move(name), std::move(rows)});
  }

  static bool of_whole_model(std::string_view role) {
    constexpr std::string_view kWhole[] = {"token_embd", "output_norm", "output", "position_embd", "token_types"};
    return std::ranges::find(kWhole, role) != std::end(kWhole);
  }

  void take_layer(int layer) {
    for (const std::string_view role : hf_roles(folder_.names)) {
      if (of_whole_model(role) != (layer < 0) || role == "ffn_exps" || role == "cls.output" ||
          role.starts_with("nextn."))
        continue;
      const auto known = [&](const std::string& name) {
        return weights_.find(name + ".weight") != nullptr || weights_.find(name) != nullptr;
      };
      const std::string stem = folder_.names.of(Naming::hf, role, layer, 0, known),
                        to = gguf_.names.of(Naming::gguf, role == "ffn_gate_up" ? "ffn_up" : role, layer);
      if (const Tensor* weight = weights_.find(stem + ".weight"); weight != nullptr && !taken_.contains(weight->name))
        add(to + ".weight", rows_as(role, layer, *weight));
      else if (const Tensor* bare = weights_.find(stem); bare != nullptr && !taken_.contains(bare->name))
        add(to + ".weight", rows_as(role, layer, *bare));
      if (const Tensor* bias = weights_.find(stem + ".bias"); bias != nullptr && !taken_.contains(bias->name))
        add(to + ".bias", turns_in_pairs(role, layer) ? in_pairs(*bias, head_dim(layer)) : rows_of(*bias));
    }
  }

  int head_dim(int layer) const { return attention_of(gguf_, layer)->head_dim; }
  bool turns_in_pairs(std::string_view role, int layer) const {
    const Attention* attention = attention_of(gguf_, layer);
    return attention != nullptr && attention->pairs_in_gguf && (role == "attn_q" || role == "attn_k");
  }

  SourceRows rows_as(std::string_view role, int layer, const Tensor& tensor) const {
    if (turns_in_pairs(role, layer)) return in_pairs(tensor, head_dim(layer));
    const Attention* attention = attention_of(folder_, layer);
    const bool of_heads = role == "attn_q_norm" || role == "attn_k_norm";
    const bool less_one = of_heads ? attention != nullptr && attention->query_norm.one_plus : folder_.norm.one_plus;
    if (less_one && role.ends_with("norm")) return plus_one(tensor);
    return rows_of(tensor);
  }

  // A head that is the embedding again.
  void drop_equal_head() {
    const auto head = std::ranges::find(out_.all, std::string("output.weight"), &GgufTensor::name);
    const Tensor* table = weights_.find("model.embed_tokens.weight");
    if (head == out_.all.end() || table == nullptr || !folder_.tied_head || head->rows.whole == nullptr) return;
    if (weights_.equal("lm_head.weight", "model.embed_tokens.weight")) out_.all.erase(head);
  }

  void take_experts(int layer) {
    const std::string stem = folder_.names.of(Naming::hf, "ffn_exps", layer);
    constexpr std::array<std::array<std::string_view, 3>, 3> kNames = {
        {{"ffn_gate_exps", "gate_proj", "w1"}, {"ffn_up_exps", "up_proj", "w3"}, {"ffn_down_exps", "down_proj", "w2"}}};
    for (const auto& [role, name, other] : kNames) {
      std::vector<const Tensor*> parts;
      for (int e = 0;; ++e) {
        const Tensor* part = weights_.find(fmt::format("{}.{}.{}.weight", stem, e, name));
        if (part == nullptr) part = weights_.find(fmt::format("{}.{}.{}.weight", stem, e, other));
        if (part == nullptr) break;
        parts.push_back(part);
      }
      if (!parts.empty()) add(gguf_.names.of(Naming::gguf, role, layer) + ".weight", stacked(std::move(parts)));
    }
    const Tensor *both = weights_.find(stem + ".gate_up_proj"), *down = weights_.find(stem + ".down_proj");
    if (both == nullptr || down == nullptr || both->shape.size() != 3) return;
    const std::int64_t half = both->shape[1] / 2;
    add(fmt::format("blk.{}.ffn_gate_exps.weight", layer), slice(*both, 0, half));
    add(fmt::format("blk.{}.ffn_up_exps.weight", layer), slice(*both, half, half));
    add(fmt::format("blk.{}.ffn_down_exps.weight", layer), rows_of(*down));
  }

  Result<> look_at_others() {
    for (const Tensor& tensor : file_.tensors()) {
      if (taken_.contains(tensor.name) || tensor.name.ends_with("rotary_emb.inv_freq") ||
          tensor.name.ends_with("lm_head.weight"))
        continue;
      const auto is_in = [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; };
      if (!is_in("vision") && !is_in("visual") && !is_in("multi_modal_projector") && !is_in("audio") &&
          !is_in("mm_projector"))
        return only_tensors(fmt::format("tensor {} has no name in GGUF files", tensor.name));
      out_.left_out.push_back(tensor.name);
    }
    return success();
  }

  const TensorFile& file_;
  const Weights& weights_;
  const ModelSpec &folder_, &gguf_;
  GgufTensors out_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace

Result<GgufTensors> gguf_tensors(const TensorFile& file, const Weights& weights, const ModelSpec& folder,
                                 const ModelSpec& gguf, const std::vector<Hyperparameters::Vector>& vectors) {
  return Collector(file, weights, folder, gguf).collect(vectors);
}

}  // namespace espalier::quantizer
