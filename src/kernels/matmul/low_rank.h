// low_rank.h: out += scale * (x A^T) B^T, where each row of a batch may have factors A, B of its own or none (LoRA, arXiv
// 2106.09685): rows that share their factors are multiplied together.
//
// Rows come in the form that the weights beside them read, become floats again, and are multiplied with A and B as these
// are stored. What a row gets does not depend on the other rows of its group, nor on other groups (promise 1).
// Units: A [ranks, inputs], B [outputs, rank]; rows are numbered as in x and out.
// Threads: begin(): one; share(), add(): any members of a team at once. Fails: never; sizes are the caller's promise.
#pragma once

#include <atomic>
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

  PackedMatrix up;          // B, trimmed(); of no rank: empty
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

// The product of one batch, beside the product that it is added to: x A^T is shared out among the members of the team that
// come to compute that one, and x A^T B^T is added to each piece of it by whoever computed the piece. Keeps its memory for
// the next one.
class LowRankProduct final : public AddedSums {
 public:
  // Requires: what the groups and x refer to lives until the product is done, the groups' factors until the last add().
  void begin(const CpuKernels& cpu, std::span<const LowRankGroup> groups, const RowBlock& x);
  // What the next such product reads first: called in while the `columns` of this one are computed, each with its share.
  // Behind begin(), which forgets it.
  void call_in_next(std::vector<MemoryPiece> next, std::int64_t columns);
  void clear() { groups_.clear(); }
  bool empty() const { return groups_.empty(); }
  void share() override;
  std::span<const MemoryPiece> beside(int begin, int end, std::int64_t first, std::int64_t count) const override;
  // Waits for what others have taken of share().
  void add(int begin, int end, std::int64_t first, std::int64_t count, float* out, std::int64_t out_stride) override;

 private:
  struct Piece {  // rows [begin, end) of a group
    std::size_t group;
    int begin, end;
  };
  struct Columns;
  void compute(const Piece& piece);
  void add_part(const LowRankPart& part, const Columns& columns, std::size_t group, int row, int rows) const;
  float* hidden(std::size_t group, int row);
  const float* hidden(std::size_t group, int row) const;

  const CpuKernels* cpu_ = nullptr;
  RowBlock x_{};
  std::vector<LowRankGroup> groups_;
  std::vector<std::size_t> begin_;  // of each group in hidden_
  std::vector<float> hidden_;       // x A^T, scaled
  std::vector<Piece> pieces_;
  std::vector<MemoryPiece> next_;
  std::int64_t columns_ = 0;
  std::atomic<int> taken_{0}, done_{0};  // of the pieces
};

// Gates and, behind them, what they gate, as sums without biases, joined as a product of pairs joins them
// (MatmulOptions::pairs), bit for bit. bias: [2][outputs] or null.
void join_gated(const CpuKernels& cpu, Finish gate, const float* sums, const float* bias, std::int64_t outputs,
                float* out);

// Row `row` of x as floats: [k].
void floats_of_row(const RowBlock& x, int row, std::int64_t k, float* out);

}  // namespace espalier
