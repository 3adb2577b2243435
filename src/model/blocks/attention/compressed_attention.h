// compressed_attention.h: attention over a window of tokens and, before it, over windows compressed to one entry each
// (DeepSeek-V4).
//
// Key and value of a token are one vector for all heads. A compressed entry is a weighted mean of its window's vectors,
// by weights that a gate gives each channel; where windows are small, the window before takes part in an entry and an
// indexer chooses which entries each row reads. Values carry the rotation of their keys, which is taken back from the
// output. Roles: attn_q_a, attn_q_a_norm, attn_q_b, attn_kv, attn_kv_a_norm, attn_sinks, attn_output_a, attn_output_b;
// attn_compressor_{kv, gate, ape, norm}; indexer_compressor_{...}, indexer.attn_q_b, indexer.proj.
// Keeps: the vector of every token in the window, entries and index entries at the last position of each window; a
// running softmax of the unfinished window. Source: DeepSeek-V4's report; transformers' DeepseekV4Model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/program/rope_spec.h"
#include "model/spec.h"
#include "model/weights/needs.h"

namespace espalier {

// The block, with its windows.
struct CompressedAttention {
  int heads = 0, head_dim = 0, query_rank = 0;
  std::int64_t window = 0;
  int groups = 1, group_rank = 0;  // of the output: heads by groups, each to so many values, then all to the row
  RopeSpec rope;                   // of the last dimensions, by neighbours
  Norm norm;
  int every = 0;                                       // positions of a compressed entry; 0: none
  bool overlapping = false;                            // the window before takes part
  int index_heads = 0, index_dim = 0, index_kept = 0;  // index_heads 0: all entries are read

  Rows operator()(Builder& builder, Rows x) const;

 private:
  // One compressor: its roles' beginning, and the width of its entries.
  struct Compressor {
    std::string name;
    int width;
  };
  void normed(Builder& b, Rows rows, std::string_view role, int count) const;
  RotateOp rotation(Builder& b, Rows rows, int count) const;
  std::vector<MatrixPart> parts(Builder& b, const Compressor& c, int inputs) const;
  Rows compress(Builder& b, const Compressor& c, Rows values_and_gates) const;
  MaskId choose(Builder& b, Rows x, Rows query_base) const;
  Rows output(Builder& b, Rows out) const;
};

}  // namespace espalier
