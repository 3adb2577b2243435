// indexed.h: what models share whose latent attention reads the positions that an indexer has chosen.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/latent/latent.h"
#include "model/blocks/attention/indexer.h"

namespace espalier {

// heads: where the checkpoint does not say. pairs: neighbours turn together in it.
Indexer indexer_of(const Fields& f, const LatentAttention& attention, int heads, bool pairs);
// The attention of a layer, with an indexer or with the choice of an earlier layer's; every, offset: which have their own
// where the checkpoint has no list.
LatentAttention sharing(const Fields& f, LatentAttention attention, const Indexer& indexer, int layer, int every,
                        int offset);
Block mlp_or_experts(const Fields& f, int layer, int dense_first, const Experts& experts);

}  // namespace espalier
