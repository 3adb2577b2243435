// folds.h: the running results of a tile's queries.
//
// Folding the blocks 0, 1, ... in order gives the same bits whoever computed them and whatever else is in the tile:
// every lane is one query. A sink joins the sum of exponentials when a query's fold ends.
#pragma once

#include "kernels/cpu/generic/exponential.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

// What the blocks so far have given each query of a tile.
struct Folds {
  static constexpr float kNothing = -__builtin_inff();  // the maximum of a query that has seen nothing
  static constexpr float kLog2e = 1.44269504088896340736f;

  alignas(64) float acc[kTileQueries * kMaxValueDim];
  alignas(64) float maximum[kTileQueries], sum[kTileQueries];

  Folds() {
    for (int i = 0; i < kTileQueries; ++i) {
      maximum[i] = kNothing;
      sum[i] = 0.0f;
    }
  }

  void add(int queries, int padded, const float* weighted, const float* block_maximum, const float* block_sum) {
    alignas(64) float kept[kTileQueries], added[kTileQueries];
    for (int i = 0; i < queries; i += 16) join(i, block_maximum, kept, added);
    add_sums(queries, block_sum, kept, added);
    for (int query = 0; query < queries; ++query) {
      if (block_maximum[query] == kNothing) continue;  // nothing visible: nothing changes
      for (int d = query * padded; d < (query + 1) * padded; d += 16)
        add_part(acc + d, Simd::load(weighted + d), kept[query], added[query]);
    }
  }
  // The parts of add(), for whoever has a block's results piece by piece. Of 16 queries: what is there and what a block
  // adds are multiplied with; the maximum is of both from now on.
  void join(int first, const float* block_maximum, float* kept, float* added) {
    const Simd::F none = Simd::set1(-3.0e38f);  // in place of -inf, so that differences stay numbers
    const Simd::F of_block = Simd::load(block_maximum + first), so_far = Simd::load(maximum + first);
    const Simd::F before = Simd::max(so_far, none), now = Simd::max(of_block, none), top = Simd::max(before, now);
    Simd::store(kept + first, exp2(Simd::sub(before, top)));
    Simd::store(added + first, exp2(Simd::sub(now, top)));
    Simd::store(maximum + first, Simd::max(so_far, of_block));
  }
  void add_sums(int queries, const float* block_sum, const float* kept, const float* added) {
    for (int i = 0; i < queries; i += 16)
      Simd::store(sum + i, Simd::fma(Simd::load(block_sum + i), Simd::load(added + i),
                                     Simd::mul(Simd::load(sum + i), Simd::load(kept + i))));
  }
  // Sixteen elements of a query that sees something of the block. What is there first is not read.
  [[gnu::always_inline]] static void add_part(float* to, Simd::F weighted, float kept, float added) {
    const Simd::F there = kept == 0.0f ? Simd::zero() : Simd::mul(Simd::load(to), Simd::set1(kept));
    Simd::store(to, Simd::fma(weighted, Simd::set1(added), there));
  }

  template <class Task>
  void take(const Task& t, int padded) {
    for (int query = 0; query < t.row_count * t.heads; ++query) {
      const float* from = t.states.of(t.rows[query / t.heads].row, t.head_begin + query % t.heads);
      __builtin_memcpy(acc + query * padded, from, static_cast<std::size_t>(padded) * sizeof(float));
      maximum[query] = from[padded];
      sum[query] = from[padded + 1];
    }
  }
  template <class Task>
  void end(const Task& t, int value_dim) {
    const int padded = padded_head(value_dim);
    for (int query = 0; query < t.row_count * t.heads; ++query) {
      const int row = t.rows[query / t.heads].row, head = t.head_begin + query % t.heads;
      float* from = acc + query * padded;
      for (int d = 0; maximum[query] == kNothing && d < padded; d += 16) Simd::store(from + d, Simd::zero());
      if (t.end_in_state) {
        float* to = t.states.of(row, head);
        __builtin_memcpy(to, from, static_cast<std::size_t>(padded) * sizeof(float));
        to[padded] = maximum[query];
        to[padded + 1] = sum[query];
        continue;
      }
      if (t.sinks) add_sink(query, from, padded, t.sinks[head]);
      float* to = t.out + row * t.out_stride + static_cast<std::int64_t>(head) * value_dim;
      const Simd::F total = Simd::set1(maximum[query] == kNothing ? 1.0f : sum[query]);
      for (int d = 0; d < value_dim; d += 16)
        Simd::store_n(to + d, Simd::div(Simd::load(from + d), total), value_dim - d < 16 ? value_dim - d : 16);
    }
  }

 private:
  // As a block of one position whose value is zero.
  void add_sink(int query, float* from, int padded, float sink) {
    if (maximum[query] == kNothing) return;  // zeros already
    const float logit = sink * kLog2e, top = logit > maximum[query] ? logit : maximum[query];
    alignas(64) float of_sink[16], of_rest[16];
    Simd::store(of_sink, exp2(Simd::set1(logit - top)));
    Simd::store(of_rest, exp2(Simd::set1(maximum[query] - top)));
    sum[query] = sum[query] * of_rest[0] + of_sink[0];
    const Simd::F kept = Simd::set1(of_rest[0]);
    for (int d = 0; d < padded; d += 16) Simd::store(from + d, Simd::mul(Simd::load(from + d), kept));
  }
};

inline void merge(const AttentionMerge& m) {
  const int queries = m.row_count * m.heads, padded = padded_head(m.value_dim);
  alignas(64) float weighted[kTileQueries * kMaxValueDim];
  alignas(64) float maximum[kTileQueries] = {}, sum[kTileQueries] = {};
  Folds folds;
  if (m.begin_in_state) folds.take(m, padded);
  const float* from = m.partials;
  for (int block = 0; block < m.blocks; ++block) {
    for (int query = 0; query < queries; ++query, from += padded + 2) {
      maximum[query] = from[padded];
      sum[query] = from[padded + 1];
      if (maximum[query] == Folds::kNothing) continue;
      __builtin_memcpy(weighted + query * padded, from, static_cast<std::size_t>(padded) * sizeof(float));
    }
    folds.add(queries, padded, weighted, maximum, sum);
  }
  folds.end(m, m.value_dim);
}

// The blocks of a task, computed by `Of` (Blocks, LatentBlocks), as partials or folded: compute(block) leaves a block's
// results in weighted, maximum and sum; compute(block, folds), where there is one, folds them itself.
template <class Of>
void attend_with(const AttentionTask& t) {
  Of blocks(t);
  const int padded = padded_head(t.dims.value), queries = t.row_count * t.heads;
  if (t.partials) {
    float* out = t.partials;
    for (int block = t.span.block_begin; block < t.span.block_end; ++block) {
      const bool seen = blocks.mask.next(block, block + 1) == block;
      if (seen) blocks.compute(block);
      for (int query = 0; query < queries; ++query, out += padded + 2) {
        if (seen)
          __builtin_memcpy(out, blocks.weighted + query * padded, static_cast<std::size_t>(padded) * sizeof(float));
        out[padded] = seen ? blocks.maximum[query] : Folds::kNothing;
        out[padded + 1] = seen ? blocks.sum[query] : 0.0f;
      }
    }
    return;
  }
  Folds folds;
  if (t.begin_in_state) folds.take(t, padded);
  const int end = t.span.block_end;
  for (int block = blocks.mask.next(t.span.block_begin, end); block < end; block = blocks.mask.next(block + 1, end)) {
    if constexpr (requires { blocks.compute(block, &folds); }) {
      blocks.compute(block, &folds);
    } else {
      blocks.compute(block);
      folds.add(queries, padded, blocks.weighted, blocks.maximum, blocks.sum);
    }
  }
  folds.end(t, t.dims.value);
}

}  // namespace espalier::kernels::ESPALIER_ISA
