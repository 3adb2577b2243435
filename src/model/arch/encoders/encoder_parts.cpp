#include "model/arch/encoders/encoder_parts.h"

#include <algorithm>

#include "model/program/builder.h"

namespace espalier {

ModelSpec encoder(const Fields& f, const std::function<Layer(int)>& layer) {
  ModelSpec spec = decoder(f, layer);
  spec.norm = {NormOp::Kind::layer,
               static_cast<float>(f.number_or({"layer_norm_eps|layer_norm_epsilon", "attention.layer_norm_epsilon"},
                                              1e-12, {.low = 0, .high = 1, .above_low = true})),
               true, true};
  spec.final_norm = false;
  spec.both_ways = true;
  spec.usual_pooling = Pooling::mean;
  spec.embedding_norm = "token_embd_norm";
  spec.scores = first_token_scores(ActivationKind::tanh);
  spec.names.layer_prefix = "encoder.layer.{}.";
  spec.names.hf = bert_names();
  return spec;
}

Layer normed_sums(Block mixer, Block mlp) {
  Layer layer;
  layer.body = [mixer = std::move(mixer), mlp = std::move(mlp)](Builder& b, Rows x) {
    b.add(x, mixer(b, x));
    const Rows middle = b.norm(x, b.spec().norm, "attn_output_norm");
    b.add(middle, mlp(b, middle));
    return b.norm(middle, b.spec().norm, "layer_output_norm");
  };
  return layer;
}

void learned_places(const Fields& f, ModelSpec& spec, int first_position, int types) {
  spec.positions = f.count({"max_position_embeddings", "context_length"}, 1 << 20);
  spec.first_position = first_position;
  spec.token_types = types;
  if (first_position >= spec.positions)
    f.refuse({"max_position_embeddings"}, "max_position_embeddings leaves no position behind the padding's");
}

std::function<PooledOutput(int)> first_token_scores(ActivationKind how) {
  return [how](int labels) {
    return PooledOutput{Pooling::first, [how, labels](Builder& b, Rows x) {
                          if (!b.is_gguf() || b.has("cls"))
                            x = b.activate(b.matmul(x, {b.matrix("cls", x.width, x.width, true)}), {how});
                          return b.matmul(x, {b.matrix("cls.output", labels, x.width, true)});
                        }};
  };
}

std::vector<Names::Entry> bert_names() {
  return {{"token_embd", "embeddings.word_embeddings"},
          {"position_embd", "embeddings.position_embeddings"},
          {"token_types", "embeddings.token_type_embeddings"},
          {"token_embd_norm", "embeddings.LayerNorm"},
          {"attn_q", "attention.self.query"},
          {"attn_k", "attention.self.key"},
          {"attn_v", "attention.self.value"},
          {"attn_output", "attention.output.dense"},
          {"attn_output_norm", "attention.output.LayerNorm"},
          {"ffn_up", "intermediate.dense"},
          {"ffn_down", "output.dense"},
          {"layer_output_norm", "output.LayerNorm"},
          {"cls", "pooler.dense"},
          {"cls.output", "classifier"}};
}

void rename(Names& names, std::vector<Names::Entry> other) {
  for (Names::Entry& entry : other) {
    std::erase_if(names.hf, [&](const Names::Entry& known) { return known.role == entry.role; });
    names.hf.push_back(std::move(entry));
  }
}

}  // namespace espalier
