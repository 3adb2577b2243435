#include "quantize/gguf_types.h"

#include <algorithm>
#include <map>

#include "model/weights/names.h"

namespace espalier::quantizer {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

enum class Role { other, output, embedding, attn_v, attn_k, attn_qkv, attn_output, ffn_down };

Role role_of(std::string_view name) {
  if (name == "output.weight") return Role::output;
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return Role::embedding;
  if (contains(name, "attn_qkv.weight")) return Role::attn_qkv;
  if (contains(name, "attn_kv_b.weight") || contains(name, "attn_v.weight")) return Role::attn_v;
  if (contains(name, "attn_k.weight")) return Role::attn_k;
  if (contains(name, "attn_output.weight")) return Role::attn_output;
  if (contains(name, "ffn_down")) return Role::ffn_down;
  return Role::other;
}

// Blocks of 32 values where a row is no whole number of blocks of 256.
DType fitting(DType type, std::int64_t columns) {
  const auto fits = [&](DType t) { return columns % block_shape(t).elements == 0; };
  if (fits(type)) return type;
  DType other = type;
  switch (type) {
    case DType::q2_k:
    case DType::q3_k:
      other = DType::q4_0;
      break;
    case DType::q4_k:
      other = DType::q5_0;
      break;
    case DType::q5_k:
      other = DType::q5_1;
      break;
    case DType::q6_k:
      other = DType::q8_0;
      break;
    case DType::iq4_xs:
      other = DType::iq4_nl;
      break;
    default:
      break;
  }
  return fits(other) ? other : DType::f16;
}

// Where a matrix stands among those of its role, and how many there are.
struct Place {
  int index = 0, count = 1;
  bool first(int parts) const { return index < count / parts; }
  // The first and last eighth, and every third one between.
  bool gets_more() const { return first(8) || index >= 7 * count / 8 || (index - count / 8) % 3 == 2; }
};

class Chooser {
 public:
  Chooser(const Target& target, const ModelShape& model, const TypeWishes& wishes, bool tied)
      : target_(target), model_(model), wishes_(wishes), tied_(tied) {}

  DType type(Role role, Place place, std::int64_t columns) const {
    if (role == Role::output && wishes_.output) return *wishes_.output;
    if (role == Role::embedding && wishes_.embedding) return *wishes_.embedding;
    if (role == Role::output || (role == Role::embedding && tied_)) {
      if (wishes_.output && role == Role::embedding) return *wishes_.output;
      return head(columns);
    }
    switch (role) {
      case Role::attn_v:
        return value(place);
      case Role::attn_qkv:
        return fused(place);
      case Role::attn_k:
        return model_.experts == 8 ? DType::q8_0 : target_.base;
      case Role::attn_output:
        return attention_output();
      case Role::ffn_down:
        return down(place);
      default:
        return target_.base;
    }
  }

 private:
  bool is(DType base, Mix mix) const { return target_.base == base && target_.mix == mix; }
  bool is_iq4() const { return target_.base == DType::iq4_nl || target_.base == DType::iq4_xs; }

  DType head(std::int64_t columns) const {
    if (model_.is_falcon || columns % block_shape(target_.base).elements != 0) return DType::q8_0;
    return target_.base == DType::q8_0 ? DType::q8_0 : DType::q6_k;
  }

  DType value(Place place) const {
    if (model_.experts == 8) return DType::q8_0;
    const bool shared = model_.query_heads_per_key >= 4;
    if (is(DType::q2_k, Mix::medium)) return shared ? DType::q4_k : DType::q3_k;
    if (is(DType::q2_k, Mix::small)) return shared ? DType::q4_k : target_.base;
    if (is(DType::q3_k, Mix::medium)) return place.index < 2 ? DType::q5_k : DType::q4_k;
    if (is(DType::q3_k, Mix::large)) return DType::q5_k;
    if (is_iq4() && shared) return DType::q5_k;
    if (target_.mix == Mix::medium && place.gets_more()) return DType::q6_k;  // q4_k, q5_k
    if (is(DType::q4_k, Mix::small) && place.index < 4) return DType::q5_k;
    return target_.base;
  }

  DType fused(Place place) const {
    if (is(DType::q2_k, Mix::medium) || is(DType::q2_k, Mix::small) || is_iq4()) return value(place);
    if (target_.base == DType::q3_k && target_.mix != Mix::small) return value(place);
    if (is(DType::q4_k, Mix::medium) || is(DType::q5_k, Mix::medium) || is(DType::q4_k, Mix::small))
      return value(place);
    return target_.base;
  }

  DType attention_output() const {
    if (model_.is_falcon) return is(DType::q3_k, Mix::large) ? DType::q4_k : target_.base;
    if (model_.experts == 8 && target_.base != DType::q8_0 && target_.base != DType::q6_k &&
        target_.base != DType::q5_k && block_shape(target_.base).elements == 256)
      return DType::q5_k;
    if (is(DType::q2_k, Mix::medium)) return DType::q3_k;
    if (is(DType::q3_k, Mix::medium)) return DType::q4_k;
    if (is(DType::q3_k, Mix::large)) return DType::q5_k;
    return target_.base;
  }

  DType down(Place place) const {
    if (is(DType::q2_k, Mix::medium)) return DType::q3_k;
    if (is(DType::q2_k, Mix::small)) return place.first(8) ? DType::q4_k : target_.base;
    if (is(DType::q3_k, Mix::medium)) return place.first(16) ? DType::q5_k : DType::q4_k;
    if (is(DType::q3_k, Mix::large)) return model_.is_falcon ? DType::q4_k : DType::q5_k;
    if (is(DType::q4_k, Mix::medium) || is(DType::q5_k, Mix::medium))
      return place.gets_more() ? DType::q6_k : target_.base;
    if (is(DType::q4_k, Mix::small)) return place.first(8) ? DType::q5_k : target_.base;
    if (is_iq4() && !wishes_.measured && place.first(8)) return DType::q5_k;
    if (wishes_.measured && place.first(8)) {
      if (target_.base == DType::q4_0) return DType::q4_1;
      if (target_.base == DType::q5_0) return DType::q5_1;
    }
    return target_.base;
  }

  const Target& target_;
  const ModelShape& model_;
  const TypeWishes& wishes_;
  bool tied_;
};

}  // namespace

bool is_quantisable(const TensorShape& tensor) {
  const std::string_view name = tensor.name;
  if (tensor.shape.size() < 2 || !name.ends_with("weight") || contains(name, "_norm.weight")) return false;
  for (const std::string_view small :
       {"ffn_gate_inp",     "altup",         "laurel",         "per_layer_model_proj", "position_embd",
        "token_types",      "ssm_conv1d",    "shortconv.conv", "time_mix_first",       "time_mix_w0",
        "time_mix_w1",      "time_mix_w2",   "time_mix_v0",    "time_mix_v1",          "time_mix_v2",
        "time_mix_a0",      "time_mix_a1",   "time_mix_a2",    "time_mix_g1",          "time_mix_g2",
        "time_mix_decay_w", "time_mix_lerp", "attn_rel_b",     "indexer.k_proj",       "indexer.q_proj",
        "ffn_gate_tid2eid"})
    if (contains(name, small)) return false;
  return true;
}

std::vector<DType> choose_types(const Target& target, const std::vector<TensorShape>& tensors, const ModelShape& model,
                                const TypeWishes& wishes) {
  std::map<Role, std::vector<int>> layers;
  for (const TensorShape& tensor : tensors) layers[role_of(tensor.name)].push_back(layer_in(tensor.name));
  for (auto& [role, of] : layers) std::ranges::sort(of);
  const Chooser chooser(target, model, wishes, layers[Role::output].empty());
  std::vector<DType> types;
  for (const TensorShape& tensor : tensors) {
    const Role role = role_of(tensor.name);
    const std::vector<int>& all = layers[role];
    const Place place{static_cast<int>(std::ranges::lower_bound(all, layer_in(tensor.name)) - all.begin()),
                      static_cast<int>(all.size())};
    if (!is_quantisable(tensor)) {
      types.push_back(tensor.as_is);
      continue;
    }
    const bool plain = !is_quantised(target.base);
    const bool wished = (role == Role::output && wishes.output) || (role == Role::embedding && wishes.embedding);
    const DType wanted = plain && !wished ? target.base : chooser.type(role, place, tensor.shape.back());
    types.push_back(fitting(wanted, tensor.shape.back()));
  }
  return types;
}

}  // namespace espalier::quantizer
