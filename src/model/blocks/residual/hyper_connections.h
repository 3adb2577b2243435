// hyper_connections.h: several residual streams in place of one: each block reads a weighted sum of them and its output
// is spread over them; the weights come from the streams themselves.
//
// Roles: for each block its own three (fn, base, scale; see Joint), and output_hc_fn, output_hc_base, output_hc_scale
// for the sum before the last norm. Keeps nothing.
// Source: Hyper-Connections (arXiv 2409.19606); mHC (arXiv 2512.24880), whose mixing matrix is doubly stochastic.
#pragma once

#include <string_view>
#include <vector>

#include "model/spec.h"

namespace espalier {

// One block between the streams: norm in front of it, and the roles of what computes its weights.
struct Joint {
  Block block;
  std::string_view norm = {};
  std::string_view fn = {}, base = {}, scale = {};
};

// How blocks read the streams and write them.
struct HyperConnections {
  int streams = 0;
  int rounds = 0;     // of norming rows and columns of the mixing matrix; 0: streams do not mix
  float eps = 1e-6f;  // of the gates
  float after_factor = 2.0f, after_eps = 0.0f;  // of what spreads a block's output
  float norm_eps = 1e-6f;

  Rows enter(Builder& builder, Rows x) const;  // every stream begins as the embedding
  Layer layer(std::vector<Joint> joints) const;
  Rows leave(Builder& builder, Rows x) const;

 private:
  Rows gates(Builder& b, Rows x, const Joint& roles, int parts) const;
  Rows collapse(Builder& b, Rows x, Rows gates) const;
  void run(Builder& b, Rows x, const Joint& joint) const;
};

}  // namespace espalier
