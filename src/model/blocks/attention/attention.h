// attention.h: softmax attention over keys and values of the tokens before, in all its switches.
//
// Roles: attn_q, attn_k, attn_v (or attn_qkv), attn_output; attn_q_norm, attn_k_norm, attn_sub_norm, attn_sinks,
// attn_gate.
// Keeps: keys and values of every head, unless it reads those of an earlier layer.
// Source: Attention Is All You Need; GQA (arXiv 2305.13245); RoFormer.
#pragma once

#include <optional>
#include <vector>

#include "model/blocks/attention/indexer.h"
#include "model/blocks/residual/adapter.h"
#include "model/program/rope_spec.h"
#include "model/spec.h"
#include "model/weights/needs.h"

namespace espalier {

// One tensor of queries, keys and values: as they follow one another, or group by group (the queries of a KV head, its
// key, its value); CodeGen has four parts, each with queries, values and keys; HRM-Text's begins with the gate
// (attn_gqkv; where a file lacks it they are apart).
enum class FusedQkv { no, side_by_side, by_group, by_quarter, behind_gate };

// Biases of scores by distance, out of a learned table [buckets][heads] that all layers share (role attn_rel_b): one half of
// the buckets for keys before the query, one for those behind; distances up to half of it have one each, larger ones share
// them by their logarithm. Source: T5 (arXiv 1910.10683), section 2.1.
struct DistanceBuckets {
  int count = 32, farthest = 128;  // count: at least 4, and a quarter of it below farthest
  int reach() const { return farthest + 16; }
  int of(int distance) const;  // key's position less the query's
};

// The block, with its switches.
struct Attention {
  int heads = 0, kv_heads = 0, head_dim = 0;
  int value_dim = 0;   // 0: head_dim
  float scale = 0.0f;  // of scores; 0: 1 / sqrt(head_dim)
  bool qkv_bias = false, out_bias = false;
  std::string_view out_bias_name = {};  // role of a tensor that is this bias itself
  FusedQkv fused = FusedQkv::no;

  std::vector<Adapter> adapters = {};  // of queries, keys and values; empty: none

  std::optional<RopeSpec> rope;
  std::optional<RopeSpec> next_rope;  // of the dimensions behind those that turn by the first
  bool pairs = false;                 // neighbours turn together
  bool pairs_in_gguf = false;         // GGUF files store rows of q and k pair by pair for halves that turn together

  // each_own: every head has a gain of its own, in HF checkpoints all in one tensor, or (each_apart) one for each
  enum class HeadNorm { none, each, each_own, each_apart, whole };
  HeadNorm head_norm = HeadNorm::none;
  bool head_norm_may_lack = false;  // GGUF files do not tell but by having it
  Norm query_norm;
  bool norm_behind_rope = false;
  std::optional<Norm> value_norm;

  Visibility visibility;
  std::optional<Indexer>
      indexer;         // chooses which of these positions are read; GGUF files: in layers that have its tensors
  bool sinks = false;  // GGUF files: where they have them
  AttendOp::Around around = AttendOp::Around::none;  // whom rows see beside those before them
  float cap = 0.0f;
  std::vector<float> slopes;  // ALiBi, of each head
  std::optional<DistanceBuckets> buckets = {};

  enum class Gate { none, in_query, own, own_by_head };  // in_query: attn_q has [query | gate] of each head
  Gate gate = Gate::none;
  ActivationKind gate_activation = ActivationKind::sigmoid;
  bool gate_bias_by_head = false;  // attn_gate_bias, a value for each head

  // Of queries; neither beta nor power: none.
  ScaleByPositionOp query_scale = {};
  float value_scale = 1.0f;
  float clip = 0.0f;  // queries, keys and values lie within -clip..clip; 0: no limit
  bool clip_behind_norm = false;
  bool ranged = false;           // all products have ranges (ranged_linear.h)
  bool out_norm = false;         // what attention gives is normed by attn_sub_norm
  bool keys_are_values = false;  // values are the keys before norm and rotation
  int reads_layer = -1;          // whose keys and values are read instead of own ones

  int queries() const { return heads * head_dim; }
  int values_dim() const { return value_dim > 0 ? value_dim : head_dim; }

  Rows operator()(Builder& builder, Rows x) const;

 private:
  struct Projected {
    Rows query, key, value, gate;
  };
  Projected project(Builder& b, Rows x) const;
  std::vector<MatrixPart> parts(Builder& b, int inputs) const;
  bool is_behind_gate(const Builder& b) const;
  MatrixPart gate_first(Builder& b, int inputs) const;
  void norm_heads(Builder& b, Rows rows, int count, std::string_view role) const;
  void rotate(Builder& b, Rows rows, int count) const;
  void prepare(Builder& b, Rows rows, int count, std::string_view norm_role) const;
  VectorId gains(Builder& b, int count, std::string_view role) const;
  FieldId store(Builder& b, const Projected& p) const;
  Rows gated(Builder& b, Rows out, Rows x, Rows gate) const;
  VectorId distance_biases(Builder& b) const;
};

}  // namespace espalier
