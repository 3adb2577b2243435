// ngram_embedding.h: features of the last few tokens out of a large table, added to every residual stream (Qwen4's PLE).
//
// For each n-gram that ends at a token some heads hash it to a row of the table. Their rows side by side give one key a
// stream and a value for all; how much of the value a stream takes, its own normed rows and the key decide; a short
// convolution over tokens further apart is added.
// Roles: ple_table, ple_key, ple_value, ple_norm_key, ple_norm_query, ple_norm_conv, ple_conv1d. Keeps: of each sequence
// the last tokens, and the last inputs of the convolution. Source: transformers' Qwen4ExpTextPLELayer.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/types.h"
#include "model/spec.h"

namespace espalier {

// What a token and those before it hash to. See NgramOp.
struct NgramHash {
  int longest = 3, heads_each = 8;                     // n-grams of 2 .. longest tokens; heads of each length
  std::vector<std::int64_t> multipliers = {};          // [longest]
  std::vector<std::int64_t> offsets = {}, sizes = {};  // of each head's rows
  TokenId end = 0;                                     // before which no n-gram reaches back

  int heads() const { return (longest - 1) * heads_each; }
  std::int64_t rows() const;
  // As Qwen4's checkpoints are made: head sizes are the primes from `least` on, those of module `module`; multipliers are
  // drawn by splitmix64.
  static NgramHash drawn(int longest, int heads_each, std::int64_t least, std::int64_t seed, int vocabulary,
                         int module);
};

// The block, with its n-grams and its table.
struct NgramEmbedding {
  NgramHash hash = {};
  int streams = 0, width = 0;  // of the heads' rows side by side
  std::int64_t table_rows = 0;
  int taps = 4;
  Norm norm = {};  // of each stream

  // Adds to all streams.
  void operator()(Builder& builder, Rows x) const;

 private:
  Rows look_up(Builder& b) const;
  Rows normed(Builder& b, Rows in, std::string_view role) const;
};

}  // namespace espalier
