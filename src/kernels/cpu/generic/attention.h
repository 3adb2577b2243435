// attention.h: the queries of one tile against blocks of positions, keys and values read in place as stored.
//
// A block's scores become weights and weighted values (attention/tile_softmax.h) from keys that lie lane by lane
// (attention/blocks.h) or as latent rows (attention/latent.h), in float32 (attention/widening.h) or by dot products of
// bf16 pairs (avx512/attention_bf16.cpp); blocks fold from the left (attention/folds.h). Blocks of which a query sees
// nothing are not folded for it.
#pragma once

#include "kernels/cpu/generic/attention/blocks.h"
#include "kernels/cpu/generic/attention/folds.h"
#include "kernels/cpu/generic/attention/index.h"
#include "kernels/cpu/generic/attention/latent.h"

namespace espalier::kernels::ESPALIER_ISA {

template <KvType kType>
void attend_widening(const AttentionTask& t) {
  if (t.kv.form == KvForm::latent)
    attend_with<LatentBlocks<kType, LatentWidening<kType>>>(t);
  else
    attend_with<Blocks<kType, Widening<kType>>>(t);
}

inline void attend(const AttentionTask& t) {
  switch (t.kv.type) {
    case KvType::f32:
      return attend_widening<KvType::f32>(t);
    case KvType::bf16:
      return attend_widening<KvType::bf16>(t);
    case KvType::f16:
      return attend_widening<KvType::f16>(t);
    case KvType::i8:
      return attend_widening<KvType::i8>(t);
    case KvType::f8_e4m3:
      return attend_widening<KvType::f8_e4m3>(t);
    case KvType::f8_e5m2:
      return attend_widening<KvType::f8_e5m2>(t);
  }
}

}  // namespace espalier::kernels::ESPALIER_ISA
