#include "model/arch/latent/indexed.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace espalier {

Indexer indexer_of(const Fields& f, const LatentAttention& a, int heads, bool pairs) {
  Indexer i;
  i.heads = f.count_or({"index_n_heads", "attention.indexer.head_count"}, heads, ConfigLimits::heads);
  i.dim = f.count_or({"index_head_dim", "attention.indexer.key_length"}, 128, ConfigLimits::key_dim);
  i.kept = f.count_or({"index_topk", "attention.indexer.top_k"}, 2048, ConfigLimits::positions);
  i.rope = a.rope;
  i.pairs = pairs;
  i.key_norm = {.kind = NormOp::Kind::layer, .eps = 1e-6f, .bias = true};
  if (i.heads < 1 || i.kept < 1 || i.dim < a.rotated)
    f.refuse({"index_head_dim", "attention.indexer.key_length"},
             fmt::format("an indexer of {} heads of {} dimensions that keeps {} positions is not possible; it needs at "
                         "least one head, one position and the {} rotated dimensions",
                         i.heads, i.dim, i.kept, a.rotated));
  if (a.query_rank == 0)
    f.refuse({"q_lora_rank", "attention.q_lora_rank"}, "q_lora_rank is missing, but the indexer reads its vector");
  return i;
}

namespace {

// Whether a layer reads what an earlier one has chosen.
bool shares(const Fields& f, int layer, int every, int offset) {
  if (f.has({"indexer_types"})) return f.word_of({"indexer_types"}, layer, "full") == "shared";
  if (f.is_gguf()) return !f.flag_of({"", "attention.indexer.types"}, layer, true);
  const FieldName pattern{"index_topk_pattern"};
  if (const Json* value = f.find(pattern); value != nullptr && value->is_string()) {
    const std::string letters = f.word_or(pattern, "");
    return std::cmp_less(layer, letters.size()) && letters[static_cast<std::size_t>(layer)] == 'S';
  }
  if (f.has(pattern)) return f.word_of(pattern, layer, "full") == "shared";
  return std::max(layer - offset + 1, 0) % std::max(every, 1) != 0;
}

}  // namespace

LatentAttention sharing(const Fields& f, LatentAttention a, const Indexer& indexer, int layer, int every, int offset) {
  a.shares_choice = shares(f, layer, every, offset);
  if (!a.shares_choice) a.indexer = indexer;
  if (a.shares_choice && layer == 0)
    f.refuse({"indexer_types", "attention.indexer.types"},
             "the first layer shares the choice of an indexer, but none is before it");
  return a;
}

Block mlp_or_experts(const Fields& f, int layer, int dense_first, const Experts& experts) {
  return is_dense_layer(f, layer, dense_first) ? Block(gated_mlp(f)) : Block(experts);
}

}  // namespace espalier
