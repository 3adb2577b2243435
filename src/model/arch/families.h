// families.h: one function for each architecture; table.cpp says what checkpoints call them.
#pragma once

#include "model/arch/parts.h"
#include "model/blocks/experts.h"

namespace espalier {

ModelSpec apertus(const Fields&);
ModelSpec arcee(const Fields&);
ModelSpec cohere(const Fields&);
ModelSpec cohere2(const Fields&);
ModelSpec cohere2_moe(const Fields&);
ModelSpec ernie4_5(const Fields&);
ModelSpec ernie4_5_moe(const Fields&);
ModelSpec exaone(const Fields&);
ModelSpec exaone4(const Fields&);
ModelSpec exaone_moe(const Fields&);
ModelSpec gemma(const Fields&);
ModelSpec gemma2(const Fields&);
ModelSpec gemma3(const Fields&);
ModelSpec gemma3n(const Fields&);
ModelSpec gemma4(const Fields&);
ModelSpec glm(const Fields&);
ModelSpec glm4(const Fields&);
ModelSpec glm4_moe(const Fields&);
ModelSpec gpt2(const Fields&);
ModelSpec gpt_neox(const Fields&);
ModelSpec gpt_oss(const Fields&);
ModelSpec granite(const Fields&);
ModelSpec granite_swa(const Fields&);
ModelSpec hunyuan_dense(const Fields&);
ModelSpec hunyuan_moe(const Fields&);
ModelSpec hy_v3(const Fields&);
ModelSpec llama(const Fields&);
ModelSpec llama4(const Fields&);
ModelSpec mimo_v2(const Fields&);
ModelSpec minimax_m2(const Fields&);
ModelSpec ministral(const Fields&);
ModelSpec ministral3(const Fields&);
ModelSpec mistral(const Fields&);
ModelSpec mixtral(const Fields&);
ModelSpec olmo2(const Fields&);
ModelSpec olmo3(const Fields&);
ModelSpec olmoe(const Fields&);
ModelSpec phi(const Fields&);
ModelSpec phi3(const Fields&);
ModelSpec qwen2(const Fields&);
ModelSpec qwen2_moe(const Fields&);
ModelSpec qwen3(const Fields&);
ModelSpec qwen3_moe(const Fields&);
ModelSpec seed_oss(const Fields&);
ModelSpec smollm3(const Fields&);
ModelSpec stablelm(const Fields&);
ModelSpec starcoder2(const Fields&);

// --- what relatives share ---

Visibility qwen_window(const Fields&, int layer);
Experts experts_of(const Fields&);  // count, chosen and width; a plain softmax router
Attention granite_attention(const Fields&);
void granite_scales(const Fields&, ModelSpec&);

}  // namespace espalier
