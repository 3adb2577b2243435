// index.h: scores of index keys, which sparse attention chooses positions by.
//
// Products of query and key are those of attention (blocks.h): a chain over the key's elements. The heads of a row add
// up one after the other.
#pragma once

#include "kernels/cpu/generic/attention/blocks.h"

namespace espalier::kernels::ESPALIER_ISA {

// Keys of a block against the heads of one row, as many heads at a time as a tile of attention has queries.
template <class Of>
class IndexBlocks {
 public:
  explicit IndexBlocks(const IndexTask& task) : t_(task), as_(as_attention(task)), blocks_(as_) {}

  void compute(int block) {
    blocks_.locate(block);
    for (int g = 0; g < blocks_.next->group_count; ++g) call_in(blocks_.next->groups[g].keys, blocks_.group_bytes());
    for (int row = 0; row < t_.row_count; ++row) {
      if (t_.rows[row].last < start_of(block)) continue;
      for (int head = 0; head < t_.heads; head += kTileQueries) score(row, head, block);
    }
  }

 private:
  static AttentionTask as_attention(const IndexTask& t) {
    AttentionTask as{};
    as.kv = t.kv;
    as.span = t.span;
    as.heads = t.heads < kTileQueries ? t.heads : kTileQueries;
    as.dims = {t.dim, 0};
    as.rows = t.rows;
    as.row_count = 1;
    as.q = t.q;
    as.q_stride = t.q_stride;
    as.entry_stride = 1;
    return as;
  }

  void score(int row, int head, int block) {
    const int heads = t_.heads - head < kTileQueries ? t_.heads - head : kTileQueries;
    const float* q = t_.q + t_.rows[row].row * t_.q_stride;
    for (int i = 0; i < heads; ++i) blocks_.take_query(i, q + static_cast<std::int64_t>(head + i) * t_.dim, t_.scale);
    blocks_.set_queries(heads);
    blocks_.score_all();
    const std::int64_t at = static_cast<std::int64_t>(block - t_.span.block_begin) * kAttentionBlock;
    if (t_.weights)
      add_up(row, head, heads, t_.scores + row * t_.score_stride + at);
    else
      for (int i = 0; i < heads; ++i)
        __builtin_memcpy(t_.scores + (static_cast<std::int64_t>(row) * t_.heads + head + i) * t_.score_stride + at,
                         blocks_.scores[i], sizeof blocks_.scores[i]);
  }
  void add_up(int row, int head, int heads, float* to) const {
    const float* weights = t_.weights + t_.rows[row].row * t_.weight_stride + head;
    for (int at = 0; at < kAttentionBlock; at += 16) {
      Simd::F sum = head == 0 ? Simd::zero() : Simd::load(to + at);
      for (int i = 0; i < heads; ++i)
        sum = Simd::fma(Simd::set1(weights[i]), Simd::max(Simd::load(blocks_.scores[i] + at), Simd::zero()), sum);
      Simd::store(to + at, sum);
    }
  }

  const IndexTask& t_;
  AttentionTask as_;
  Of blocks_;
};

template <class Of>
void index_with(const IndexTask& t) {
  IndexBlocks<Of> blocks(t);
  for (int block = t.span.block_begin; block < t.span.block_end; ++block) blocks.compute(block);
}

inline void index_scores(const IndexTask& t) {
  switch (t.kv.type) {
    case KvType::f32:
      return index_with<Blocks<KvType::f32, Widening<KvType::f32>>>(t);
    case KvType::bf16:
      return index_with<Blocks<KvType::bf16, Widening<KvType::bf16>>>(t);
    case KvType::f16:
      return index_with<Blocks<KvType::f16, Widening<KvType::f16>>>(t);
    case KvType::i8:
      return index_with<Blocks<KvType::i8, Widening<KvType::i8>>>(t);
    case KvType::f8_e4m3:
      return index_with<Blocks<KvType::f8_e4m3, Widening<KvType::f8_e4m3>>>(t);
    case KvType::f8_e5m2:
      return index_with<Blocks<KvType::f8_e5m2, Widening<KvType::f8_e5m2>>>(t);
  }
}

}  // namespace espalier::kernels::ESPALIER_ISA
