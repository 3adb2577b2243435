// low_rank.h: out += scale * (x A^T) B^T, where each row of a batch may have factors A, B of its own or none (LoRA, arXiv
// 2106.09685): rows that share their factors are multiplied together.
//
// Rows come in the form that the weights beside them read, become floats again, and are multiplied with A and B as these
// are stored. What a row gets does not depend on the other rows of its group, nor on other groups (promise 1).
// Units: A [ranks, inputs], B [outputs, rank]; rows are numbered as in x and out.
// Threads: one caller; the team computes. add_columns(): any thread. Fails: never; sizes are the caller's promise.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/matmul/matmul.h"

namespace espalier {

// What is added to some columns of out.
struct LowRankPart {
  // Where column c of it goes: first_output + c; or, of panels in turns (MatmulOptions::pairs), where panels of gates and of
  // what they gate lie one after the other.
  enum class Turn { none, first, second };

  PackedMatrix up;          // B; of no rank: empty
  int first = 0, rank = 0;  // its rows of A
  float scale = 1.0f;
  std::int64_t first_output = 0, outputs = 0;
  Turn turn = Turn::none;
  std::vector<float> bias = {};  // [outputs], or empty
};

// One adapter's share of one layer. Parts that share rows of A, whole, have the same scale; the first of them come in order.
struct LowRank {
  PackedMatrix down;  // the A's of all parts, one below the other
  std::vector<LowRankPart> parts;
  int ranks() const { return static_cast<int>(down.outputs()); }
  std::size_t bytes() const;
};

// Rows that have the same factors, ascending.
struct LowRankGroup {
  const LowRank* factors;
  std::span<const int> rows;
  float scale = 1.0f;  // beside that of the parts
};

// The product of one batch: x A^T first, then what becomes of it. Keeps its memory for the next one.
class LowRankProduct {
 public:
  // Requires: what the groups refer to lives until the last add.
  void begin(const CpuKernels& cpu, ComputeTeam& team, std::span<const LowRankGroup> groups, const RowBlock& x);
  void clear() { groups_.clear(); }
  bool empty() const { return groups_.empty(); }
  void add_to(const CpuKernels& cpu, ComputeTeam& team, float* out, std::int64_t out_stride) const;
  // Columns [first, first + count) of rows [begin, end): `out` is row begin, its column `first`, which begins a panel.
  void add_columns(const CpuKernels& cpu, int begin, int end, std::int64_t first, std::int64_t count, float* out,
                   std::int64_t out_stride) const;

 private:
  struct Piece {  // rows [begin, end) of a group
    std::size_t group;
    int begin, end;
  };
  std::vector<Piece> pieces(int rows_each) const;
  float* hidden(std::size_t group, int row);
  const float* hidden(std::size_t group, int row) const;

  std::vector<LowRankGroup> groups_;
  std::vector<std::size_t> begin_;  // of each group in hidden_
  std::vector<float> hidden_;       // x A^T, scaled
};

// Gates and what they gate, as sums without biases, joined as a product of pairs joins them (MatmulOptions::pairs), bit for
// bit. in_turns: panels of both lie in turns, the last ones filled up; else the gates lie before the others. bias: [2][outputs]
// or null.
void join_gated(const CpuKernels& cpu, Finish gate, bool in_turns, const float* sums, const float* bias,
                std::int64_t outputs, float* out);

// Row `row` of x as floats: [k].
void floats_of_row(const RowBlock& x, int row, std::int64_t k, float* out);

}  // namespace espalier
