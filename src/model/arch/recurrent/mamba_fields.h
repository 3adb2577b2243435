// mamba_fields.h: what models with state space layers declare alike.
//
// Fails: by Fields::problem().
#pragma once

#include <span>

#include "model/arch/parts.h"
#include "model/blocks/recurrent/mamba1.h"
#include "model/blocks/recurrent/mamba2.h"

namespace espalier {

// Sizes of Mamba-2's mixer in the spellings of all families; biases and limits of time steps.
Mamba2 mamba2_of(const Fields& f);
// Mamba's: sizes, biases.
Mamba1 mamba1_of(const Fields& f);

// HF names of the mixers' tensors below `stem` ("mamba").
std::vector<Names::Entry> mamba_names(const std::string& stem);
// The same of mixers below "mamba", and of what stands behind them in Jamba and Bamba.
std::vector<Names::Entry> feed_forward_names();

// Whether a layer mixes tokens by attention. HF: by its type; GGUF files give the other layers no key heads.
bool has_key_heads(const Fields& f, int layer);

}  // namespace espalier
