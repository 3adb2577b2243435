#include "model/arch/parts.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "model/activation.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

constexpr FieldName kHeads{"num_attention_heads|n_head|n_heads|num_heads|attention_heads", "attention.head_count"};
constexpr FieldName kKvHeads{"num_key_value_heads|num_kv_heads|num_attention_groups", "attention.head_count_kv"};
constexpr FieldName kHeadDim{"head_dim|kv_channels", "attention.key_length"};
constexpr FieldName kHidden{"hidden_size|n_embd|d_model|dim", "embedding_length"};

void check_heads(const Fields& f, int heads, int kv_heads, int head_dim) {
  if (kv_heads > heads || heads % kv_heads != 0)
    f.refuse(kKvHeads, fmt::format("{} is {}, but must divide {}, which is {}", f.path(kKvHeads), kv_heads,
                                   f.path(kHeads), heads));
  if (std::int64_t{heads} * head_dim > ConfigLimits::attention_width)
    f.refuse(kHeads, fmt::format("{} {} times {} {} is more than the limit of {}", f.path(kHeads), heads,
                                 f.path(kHeadDim), head_dim, ConfigLimits::attention_width));
}

int head_dim_of(const Fields& f, int hidden, int heads) {
  const int told = f.count_or(kHeadDim, 0, ConfigLimits::head_dim);
  if (told > 0) return told;
  if (hidden % heads != 0)
    f.refuse(kHeads, fmt::format("{} is {}, but must divide {}, which is {}, as long as {} is not given",
                                 f.path(kHeads), heads, f.path(kHidden), hidden, f.path(kHeadDim)));
  return std::max(1, hidden / heads);
}

}  // namespace

int layer_count(const Fields& f) {
  const FieldName name{"num_hidden_layers|n_layer|n_layers|num_layers", "block_count"};
  const int all = f.count(name, ConfigLimits::layers);
  const int drafts = f.is_gguf() ? f.count_or({"", "nextn_predict_layers"}, 0, ConfigLimits::layers) : 0;
  if (drafts >= all)
    f.refuse(name, fmt::format("{} is {}, but {} of these layers are said to draft", f.path(name), all, drafts));
  return std::max(1, all - drafts);
}

int hidden_size(const Fields& f) {
  return f.count(kHidden, ConfigLimits::hidden);
}

ModelSpec decoder(const Fields& f, const std::function<Layer(int)>& layer, int layers) {
  ModelSpec spec;
  spec.vocabulary = f.count({"padded_vocab_size|vocab_size", "vocab_size"}, ConfigLimits::vocabulary);
  spec.hidden = hidden_size(f);
  spec.norm.eps = static_cast<float>(
      f.number_or({"rms_norm_eps|layer_norm_eps|layer_norm_epsilon|layernorm_epsilon|norm_epsilon|norm_eps",
                   "attention.layer_norm_rms_epsilon|attention.layer_norm_epsilon"},
                  1e-6, {.low = 0, .high = 1, .above_low = true}));
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, false);
  if (layers == 0) layers = layer_count(f);
  for (int i = 0; i < layers && !f.problem(); ++i) spec.layers.push_back(layer(i));
  return spec;
}

int taps_of(const Fields& f, FieldName name, int otherwise) {
  return static_cast<int>(f.integer_or(name, otherwise, 2, ConfigLimits::taps));
}

Attention grouped_attention(const Fields& f, int layer, std::string_view layer_type) {
  Attention a = attention_heads(f, layer);
  a.rope = rope_of(f, {.head_dim = a.head_dim, .layer_type = layer_type});
  return a;
}

// Powers of one base for the greatest power of two of heads, odd powers of its root for the rest.
std::vector<float> alibi_slopes(int heads, double steepest) {
  const double even = std::bit_floor(static_cast<unsigned>(heads));
  std::vector<float> slopes;
  for (int h = 0; h < heads; ++h) {
    const double power = h < even ? (h + 1) / even : (2 * (h - even) + 1) / (2 * even);
    slopes.push_back(static_cast<float>(std::exp2(-steepest * power)));
  }
  return slopes;
}

Attention attention_heads(const Fields& f, int layer) {
  Attention a;
  a.heads = layer < 0 ? f.count(kHeads, ConfigLimits::heads) : f.count_of(kHeads, layer, 0, ConfigLimits::heads);
  if (a.heads < 1)
    f.refuse(kHeads, fmt::format("{} gives layer {} no heads, but it has attention", f.path(kHeads), layer));
  a.heads = std::max(1, a.heads);
  const int kv_heads = layer < 0 ? static_cast<int>(f.integer_or(kKvHeads, a.heads, 1, a.heads))
                                 : f.count_of(kKvHeads, layer, a.heads, a.heads);
  a.kv_heads = std::max(1, kv_heads);
  a.head_dim = head_dim_of(f, hidden_size(f), a.heads);
  check_heads(f, a.heads, a.kv_heads, a.head_dim);
  a.value_dim = f.count_or({"", "attention.value_length"}, a.head_dim, ConfigLimits::head_dim);
  a.query_norm.eps = static_cast<float>(f.number_or(
      {"rms_norm_eps|layer_norm_eps|norm_eps", "attention.layer_norm_rms_epsilon|attention.layer_norm_epsilon"}, 1e-6,
      {.low = 0, .high = 1, .above_low = true}));
  return a;
}

ActivationKind activation_of(const Fields& f, std::string_view otherwise) {
  return activation_in(f, {"hidden_activation|hidden_act|activation_function|mlp_hidden_act"}, otherwise);
}

ActivationKind activation_in(const Fields& f, FieldName field, std::string_view otherwise) {
  const std::string name = f.word_or(field, otherwise);
  if (const auto known = activation_named(name)) return *known;
  f.refuse(field, fmt::format("{} is {}, which is not supported here; silu, gelu, gelu_pytorch_tanh, relu2 and their "
                              "spellings are",
                              f.path(field), in_quotes(name)));
  return ActivationKind::silu;
}

Mlp gated_mlp(const Fields& f) {
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f);
  return mlp;
}

Mlp plain_mlp(const Fields& f, std::string_view activation, bool bias) {
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f, activation);
  mlp.gated = false;
  mlp.bias = bias;
  return mlp;
}

Layer pre_norm(Block mixer, Block mlp) {
  return {{{std::move(mixer), "attn_norm"}, {std::move(mlp), "ffn_norm"}}};
}
Layer sandwich(Block mixer, Block mlp) {
  return {{{std::move(mixer), "attn_norm", "post_attention_norm"}, {std::move(mlp), "ffn_norm", "post_ffw_norm"}}};
}
Layer post_norm(Block mixer, Block mlp) {
  return {{{std::move(mixer), "", "post_attention_norm"}, {std::move(mlp), "", "post_ffw_norm"}}};
}
Layer parallel(Block mixer, Block mlp) {
  return {{{std::move(mixer), "attn_norm"}, {std::move(mlp), "attn_norm"}}, true};
}

void only_in_gguf(const Fields& f) {
  if (!f.is_gguf())
    f.refuse({"model_type"}, "this family is read from GGUF files only; the model's conversion would work");
}

DraftLayer& bring_draft_layer(ModelSpec& spec, Layer layer, std::vector<Names::Entry> own, std::string_view prefix) {
  Names names = spec.names;
  names.hf.insert(names.hf.begin(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  if (!prefix.empty()) names.layer_prefix = prefix;
  names.gguf.push_back({"nextn.shared_head_norm", "nextn.shared_head_norm|layer_output_norm"});
  return spec.draft.emplace(DraftLayer{std::move(layer), std::move(names)});
}

DraftLayer& bring_draft_beside(ModelSpec& spec, Layer layer) {
  DraftLayer& draft = bring_draft_layer(spec, std::move(layer),
                                        {{"nextn.eh_proj", "mtp.fc"},
                                         {"nextn.enorm", "mtp.pre_fc_norm_embedding"},
                                         {"nextn.hnorm", "mtp.pre_fc_norm_hidden"},
                                         {"nextn.shared_head_norm", "mtp.norm"},
                                         {"nextn.shared_head_head", "mtp.shared_head.head"},
                                         {"nextn.embed_tokens", "mtp.embed_tokens"}},
                                        "mtp.layers.0.");
  draft.ends_apart = true;
  return draft;
}

PooledOutput scores_of(const ModelSpec& spec, int labels) {
  if (spec.scores) return spec.scores(labels);
  return {Pooling::last, [labels](Builder& b, Rows x) {
            const bool bias = b.has("cls.output", ".bias");
            return b.matmul(x, {b.matrix("cls.output", labels, x.width, bias)});
          }};
}

// GGUF files tell by a flag for each layer, or by which of so many has no window.
bool layer_is(const Fields& f, int layer, std::string_view type, bool otherwise) {
  const FieldName pattern{"", "attention.sliding_window_pattern"};
  if (const Json* told = f.find(pattern); told != nullptr && type == "sliding_attention") {
    if (told->is_array() || told->is_boolean()) return f.flag_of(pattern, layer, otherwise);
    const int every = f.count_or(pattern, 0);
    return every > 0 && (layer + 1) % every != 0;
  }
  return f.has({"layer_types"}) ? f.word_of({"layer_types"}, layer, "") == type : otherwise;
}

}  // namespace espalier
