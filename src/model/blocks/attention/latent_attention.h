// latent_attention.h: attention whose keys and values are linear in one short vector of each token (DeepSeek's MLA).
//
// What is kept of a token is that vector, normed, and one rotated key beside it, the same for all heads. Keys and values
// are never made: the matrix that would make a head's keys multiplies its queries, the one that would make its values
// multiplies what attention gives, in prompts as in decoding, so that chunks cannot change a bit (promise 1).
// Roles: attn_q, or attn_q_a, attn_q_a_norm and attn_q_b; attn_kv_a_mqa, attn_kv_a_norm; attn_kv_b, or (GGUF) attn_k_b
// and attn_v_b; attn_output; attn_sinks, attn_gate; those of the indexer (indexer.h).
// Keeps: the vector and the key of every token. Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1.
#pragma once

#include <optional>
#include <utility>

#include "model/blocks/attention/indexer.h"
#include "model/program/rope_spec.h"
#include "model/spec.h"
#include "model/weights/needs.h"

namespace espalier {

// The block, with the ranks of its short vectors.
struct LatentAttention {
  int heads = 0;
  int query_rank = 0;                     // 0: queries come straight from the row
  int rank = 0;                           // of keys and values
  int plain = 0, rotated = 0, value = 0;  // values of a head: of its key without and with rotation, and of its value
  float scale = 0.0f;                     // of scores; 0: 1 / sqrt(plain + rotated)
  bool bias = false;                      // of attn_q_a, attn_kv_a_mqa and attn_output
  std::optional<RopeSpec> rope;
  bool pairs = true;                                // neighbours turn together
  Norm norm;                                        // of both short vectors
  float query_factor = 1.0f, latent_factor = 1.0f;  // of queries; of the kept vector behind its norm

  ScaleByPositionOp query_scale = {};  // beta 0: none
  std::optional<Indexer> indexer;      // chooses the positions that are read
  bool shares_choice = false;          // reads those that an earlier layer's indexer has chosen
  bool sinks = false;
  // The output passes as much as the sigmoid of attn_gate says; in_query: attn_q_b has [query | gate] of each head, made of
  // the short vector normed and as it was, side by side.
  enum class Gate { none, by_value, by_head, in_query };
  Gate gate = Gate::none;

  int width() const { return rank + rotated; }  // of what is kept
  Rows operator()(Builder& builder, Rows x) const;

 private:
  struct Projected {
    Rows first, kept;  // queries, or what they are made of
    Rows both;         // the latter behind its norm and before
  };
  Projected project(Builder& b, Rows x) const;
  // Also the gate, where it comes with them.
  std::pair<Rows, Rows> queries(Builder& b, const Projected& p, Rows x) const;
  void normed(Builder& b, Rows rows, std::string_view role, float factor) const;
  MatrixPart key_part(Builder& b, int head) const;
  MatrixPart value_part(Builder& b, int head) const;
  Rows absorb_keys(Builder& b, Rows query) const;
  Rows expand_values(Builder& b, Rows out) const;
};

}  // namespace espalier
