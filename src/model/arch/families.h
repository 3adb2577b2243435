// families.h: one function for each architecture; table.cpp says what checkpoints call them.
#pragma once

#include "model/arch/experts/routed.h"
#include "model/arch/parts.h"
#include "model/blocks/channels/experts.h"
#include "model/blocks/recurrent/delta_rule.h"

namespace espalier {

ModelSpec afmoe(const Fields&);
ModelSpec apertus(const Fields&);
ModelSpec arcee(const Fields&);
ModelSpec aria_text(const Fields&);
ModelSpec axk1(const Fields&);
ModelSpec axk2(const Fields&);
ModelSpec baichuan(const Fields&);
ModelSpec bailing_moe(const Fields&);
ModelSpec bailing_moe_v2(const Fields&);
ModelSpec bailing_hybrid(const Fields&);
ModelSpec bamba(const Fields&);
ModelSpec beam(const Fields&);
ModelSpec biogpt(const Fields&);
ModelSpec bitnet(const Fields&);
ModelSpec bloom(const Fields&);
ModelSpec chatglm(const Fields&);
ModelSpec codegen(const Fields&);
ModelSpec cohere(const Fields&);
ModelSpec cohere2(const Fields&);
ModelSpec cohere2_moe(const Fields&);
ModelSpec cwm(const Fields&);
ModelSpec dbrx(const Fields&);
ModelSpec ctrl(const Fields&);
ModelSpec deci(const Fields&);
ModelSpec deepseek(const Fields&);
ModelSpec deepseek_v2(const Fields&);
ModelSpec deepseek_v3(const Fields&);
ModelSpec deepseek_v32(const Fields&);
ModelSpec deepseek_v4(const Fields&);
ModelSpec diffllama(const Fields&);
ModelSpec doge(const Fields&);
ModelSpec dots1(const Fields&);
ModelSpec ernie4_5(const Fields&);
ModelSpec ernie4_5_moe(const Fields&);
ModelSpec exaone(const Fields&);
ModelSpec exaone4(const Fields&);
ModelSpec exaone_moe(const Fields&);
ModelSpec falcon(const Fields&);
ModelSpec falcon_h1(const Fields&);
ModelSpec falcon_mamba(const Fields&);
ModelSpec flex_olmo(const Fields&);
ModelSpec flint(const Fields&);
ModelSpec gemma(const Fields&);
ModelSpec gemma2(const Fields&);
ModelSpec gemma3(const Fields&);
ModelSpec gemma3n(const Fields&);
ModelSpec gemma4(const Fields&);
ModelSpec glm(const Fields&);
ModelSpec glm4(const Fields&);
ModelSpec glm4_moe(const Fields&);
ModelSpec glm4_moe_lite(const Fields&);
ModelSpec glm_moe_dsa(const Fields&);
ModelSpec gpt2(const Fields&);
ModelSpec gpt_bigcode(const Fields&);
ModelSpec gpt_neo(const Fields&);
ModelSpec gpt_neox(const Fields&);
ModelSpec gpt_neox_japanese(const Fields&);
ModelSpec gpt_oss(const Fields&);
ModelSpec gptj(const Fields&);
ModelSpec granite(const Fields&);
ModelSpec granite_hybrid(const Fields&);
ModelSpec granite_moe(const Fields&);
ModelSpec granite_moe_swa(const Fields&);
ModelSpec granite_swa(const Fields&);
ModelSpec helium(const Fields&);
ModelSpec hrm_text(const Fields&);
ModelSpec hunyuan_dense(const Fields&);
ModelSpec hunyuan_moe(const Fields&);
ModelSpec hy_v3(const Fields&);
ModelSpec hy_v4(const Fields&);
ModelSpec hyperclovax(const Fields&);
ModelSpec internlm2(const Fields&);
ModelSpec jais2(const Fields&);
ModelSpec jamba(const Fields&);
ModelSpec jetmoe(const Fields&);
ModelSpec kimi_linear(const Fields&);
ModelSpec kolibri1(const Fields&);
ModelSpec laguna(const Fields&);
ModelSpec lara_mini(const Fields&);
ModelSpec lfm2(const Fields&);
ModelSpec lfm2_moe(const Fields&);
ModelSpec lfm3(const Fields&);
ModelSpec llama(const Fields&);
ModelSpec llama4(const Fields&);
ModelSpec longcat_flash(const Fields&);
ModelSpec mamba(const Fields&);
ModelSpec mamba2(const Fields&);
ModelSpec mellum(const Fields&);
ModelSpec mimo(const Fields&);
ModelSpec mimo_v2(const Fields&);
ModelSpec minicpm(const Fields&);
ModelSpec minicpm3(const Fields&);
ModelSpec minimax(const Fields&);
ModelSpec minimax_m2(const Fields&);
ModelSpec minimax_m3(const Fields&);
ModelSpec ministral(const Fields&);
ModelSpec ministral3(const Fields&);
ModelSpec mistral(const Fields&);
ModelSpec mistral4(const Fields&);
ModelSpec mixtral(const Fields&);
ModelSpec modernbert_decoder(const Fields&);
ModelSpec mpt(const Fields&);
ModelSpec nanochat(const Fields&);
ModelSpec nemotron(const Fields&);
ModelSpec nemotron_h(const Fields&);
ModelSpec olmo(const Fields&);
ModelSpec olmo2(const Fields&);
ModelSpec olmo3(const Fields&);
ModelSpec olmo_hybrid(const Fields&);
ModelSpec olmoe(const Fields&);
ModelSpec openai_gpt(const Fields&);
ModelSpec opt(const Fields&);
ModelSpec orion(const Fields&);
ModelSpec pangu_embedded(const Fields&);
ModelSpec persimmon(const Fields&);
ModelSpec phi(const Fields&);
ModelSpec phi3(const Fields&);
ModelSpec phimoe(const Fields&);
ModelSpec qwen(const Fields&);
ModelSpec qwen2(const Fields&);
ModelSpec qwen2_moe(const Fields&);
ModelSpec qwen3(const Fields&);
ModelSpec qwen3_5(const Fields&);
ModelSpec qwen3_5_moe(const Fields&);
ModelSpec qwen3_moe(const Fields&);
ModelSpec qwen3_next(const Fields&);
ModelSpec qwen4_exp(const Fields&);
ModelSpec recurrent_gemma(const Fields&);
ModelSpec seed_oss(const Fields&);
ModelSpec smollm3(const Fields&);
ModelSpec solar_open(const Fields&);
ModelSpec stablelm(const Fields&);
ModelSpec starcoder2(const Fields&);
ModelSpec step35(const Fields&);
ModelSpec vaultgemma(const Fields&);
ModelSpec xglm(const Fields&);
ModelSpec youtu(const Fields&);
ModelSpec zamba(const Fields&);
ModelSpec zamba2(const Fields&);
ModelSpec zaya(const Fields&);

// --- what relatives share ---

Visibility qwen_window(const Fields&, int layer);
Experts experts_of(const Fields&);  // count, chosen and width; a plain softmax router
bool qwen_layer_is_dense(const Fields&, int layer);
Experts qwen_experts(const Fields&);
Attention granite_attention(const Fields&, int layer = -1);
void granite_slides(const Fields&, int layer, Attention&);
DeltaRule delta_net(const Fields&);
Attention qwen_gated_attention(const Fields&);
Experts qwen_shared_experts(const Fields&);
const std::vector<Names::Entry>& qwen_next_names();
void granite_scales(const Fields&, ModelSpec&);

}  // namespace espalier
