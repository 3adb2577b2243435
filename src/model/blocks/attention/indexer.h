// indexer.h: chooses which earlier positions a layer's attention reads, by small index keys kept of every token.
//
// Three kinds. weighted: queries come from what attention's queries are made of, one selection serves all heads, the sum
// over index heads of weight * relu(query * key) decides (DeepSeek's lightning indexer). Otherwise: queries come from the
// row, each index head chooses runs of positions for the KV head of its number (MiniMax-M3); or (summed) one selection
// serves all, by the sum over index heads of relu(query * key) (Qwen4). Keys may be means over windows of `every`
// positions, which are chosen as a whole; those of the unfinished window are always read. Means may be weighed, channel by
// channel, by a softmax over the window (GLM-5-Next).
// Roles: indexer.attn_qk (summed; queries and key) or indexer.attn_q_b (weighted) or indexer.attn_q, indexer.attn_k, indexer.proj (weights), indexer.k_norm,
// indexer.q_norm; of learned means indexer.gate and indexer.ape. Keeps: an index key of every token or window, and the sum of an unfinished window's.
// Source: DeepSeek-V3.2-Exp; transformers' models.
#pragma once

#include <optional>

#include "model/program/rope_spec.h"
#include "model/spec.h"

namespace espalier {

// The index heads, as blocks of attention have them inside.
struct Indexer {
  int heads = 0, dim = 0, kept = 0;
  bool weighted = true, summed = false;
  int every = 1;
  bool learned_means = false;   // weighted: a window's mean is weighed by what the row's own indexer.gate says of it
  int run = 1, local_runs = 0;  // positions that are chosen together; the last runs up to the row's own always are
  std::optional<RopeSpec> rope;
  bool pairs = false;
  int rotate_from = 0;  // first dimension that turns
  Norm key_norm;
  std::optional<Norm> query_norm;

  // Chooses for every row; query_base: what attention's queries are made of.
  MaskId operator()(Builder& builder, Rows x, Rows query_base) const;

 private:
  void rotate(Builder& b, Rows rows, int count) const;
  Rows mean_keys(Builder& builder, Rows keys, Rows gates = {}) const;
  MaskId choose_windows(Builder& builder, Rows x) const;
  FieldId store(Builder& builder, Rows keys) const;
  FieldId store_means(Builder& builder, Rows keys, Rows gates) const;
  static void norm(Builder& b, Rows rows, int count, const Norm& norm, std::string_view role);
};

}  // namespace espalier
