"""Goldens of near relatives of the models in make_models_*.py: other classes of the same kind and other switches of the same
class; small vocabularies, short prompts. Each is one that found a fault or that no other golden covers.

    python make_relatives.py OUT [NAME...]    # into OUT/<name>; all that are not there yet, or those named
"""
import sys
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import torch  # noqa: E402
import goldenlib as G  # noqa: E402

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
SWA4 = ["sliding_attention"] * 3 + ["full_attention"]
R = dict
H = dict(vocab_size=160, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
ALONE = {k: v for k, v in H.items() if k != "num_key_value_heads"}  # of classes whose key heads have another name
M = dict(intermediate_size=64)


def S(name, cls, config, seed, style="v5", tune=None, dtype="bfloat16", drop=(), mutations=None, features=(), lengths=(1, 7, 33, 80),
      attention="eager", **kw):
    d = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0, max_position_embeddings=256)
    d.update(kw)
    for k in drop:
        d.pop(k, None)
    return dict(name=name, cls=cls, config=config, seed=seed, dtype=dtype, kwargs=d, tune=tune, config_style=style, need=6,
                mutations=mutations or {}, features=list(features), lengths=lengths, attention=attention)


FAMILIES = [
    S("afmoe", "AfmoeForCausalLM", "AfmoeConfig", 237, **{**H, "num_hidden_layers": 4}, **M, moe_intermediate_size=24, head_dim=16, num_experts=8, num_experts_per_tok=2, num_shared_experts=1, num_dense_layers=1, route_scale=1.5, sliding_window=16, global_attn_every_n_layers=4, mup_enabled=True),
    S("bigcode-mha", "GPTBigCodeForCausalLM", "GPTBigCodeConfig", 221, vocab_size=160, n_embd=32, n_layer=2, n_head=4, n_positions=256, multi_query=False, drop=("max_position_embeddings",)),
    S("biogpt", "BioGptForCausalLM", "BioGptConfig", 255, **ALONE, **M, tune=dict(embed=0.35)),
    S("bitnet", "BitNetForCausalLM", "BitNetConfig", 232, **H, **M),
    S("bloom", "BloomForCausalLM", "BloomConfig", 215, vocab_size=160, hidden_size=48, n_layer=2, n_head=6),
    S("codegen", "CodeGenForCausalLM", "CodeGenConfig", 222, vocab_size=160, n_embd=64, n_layer=2, n_head=8, rotary_dim=4, n_positions=256, n_ctx=256, drop=("max_position_embeddings",)),
    S("cohere-qknorm", "CohereForCausalLM", "CohereConfig", 201, **H, **M, use_qk_norm=True, logit_scale=0.25, tune=dict(embed=1.2, head=8.0, down=3.0, o=3.0)),
    S("cohere2", "Cohere2ForCausalLM", "Cohere2Config", 202, **{**H, "num_hidden_layers": 4}, **M, head_dim=8, logit_scale=0.25, sliding_window=16, layer_types=SWA4, tune=dict(embed=1.2, head=8.0, down=3.0, o=3.0)),
    S("cohere2moe-rms", "Cohere2MoeForCausalLM", "Cohere2MoeConfig", 302, **{**H, "num_hidden_layers": 3}, intermediate_size=24, head_dim=8, sliding_window=16, sliding_window_pattern=2, num_experts=6, num_experts_per_tok=3, num_shared_experts=0, rms_norm_eps=1e-5, first_k_dense_replace=1, prefix_dense_intermediate_size=48, prefix_dense_sliding_window_pattern=2, attention_bias=True, logit_scale=0.5, tune=dict(embed=1.2, head=8.0, down=3.0, o=3.0)),
    S("cohere2moe-sigmoid", "Cohere2MoeForCausalLM", "Cohere2MoeConfig", 301, **{**H, "num_hidden_layers": 4}, intermediate_size=24, head_dim=8, sliding_window=16, num_experts=6, num_experts_per_tok=2, num_shared_experts=2, expert_selection_fn="sigmoid", norm_topk_prob=True, shared_expert_combination_strategy="sum", first_k_dense_replace=1, prefix_dense_intermediate_size=48, logit_scale=0.5, tune=dict(embed=1.2, head=8.0, down=3.0, o=3.0)),
    S("dbrx", "DbrxForCausalLM", "DbrxConfig", 226, vocab_size=160, d_model=32, n_heads=4, n_layers=2, max_seq_len=256, attn_config=dict(clip_qkv=1.0, kv_n_heads=2, rope_theta=500000.0), ffn_config=dict(ffn_act_fn={"name": "silu"}, ffn_hidden_size=24, moe_num_experts=6, moe_top_k=3, moe_normalize_expert_weights=1.0, hidden_size=32), drop=("max_position_embeddings",)),
    S("diffllama", "DiffLlamaForCausalLM", "DiffLlamaConfig", 233, **H, **M),
    S("dots1", "Dots1ForCausalLM", "Dots1Config", 236, **{**H, "num_hidden_layers": 3}, **M, moe_intermediate_size=24, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, n_group=2, topk_group=1, routed_scaling_factor=1.5, norm_topk_prob=True, first_k_dense_replace=1, sliding_window=16, layer_types=["full_attention", "sliding_attention", "full_attention"]),
    S("ernie-moe-interval", "Ernie4_5_MoeForCausalLM", "Ernie4_5_MoeConfig", 304, **{**H, "num_hidden_layers": 4}, **M, moe_intermediate_size=24, moe_num_experts=6, moe_k=2, moe_num_shared_experts=2, moe_layer_interval=2, moe_layer_start_index=0, moe_layer_end_index=3, use_bias=False, tie_word_embeddings=True),
    S("ernie4.5", "Ernie4_5ForCausalLM", "Ernie4_5Config", 245, **H, **M, head_dim=16, use_bias=True),
    S("exaone4", "Exaone4ForCausalLM", "Exaone4Config", 210, **{**H, "num_hidden_layers": 4}, **M, sliding_window=16, layer_types=SWA4),
    S("falcon-11b", "FalconForCausalLM", "FalconConfig", 213, **ALONE, num_kv_heads=2, multi_query=True, parallel_attn=True, new_decoder_architecture=True, num_ln_in_parallel_attn=1, bias=False, alibi=False, ffn_hidden_size=96),
    S("falcon-40b", "FalconForCausalLM", "FalconConfig", 212, **ALONE, num_kv_heads=2, multi_query=True, parallel_attn=True, new_decoder_architecture=True, bias=False, alibi=False),
    S("falcon-7b", "FalconForCausalLM", "FalconConfig", 211, **ALONE, multi_query=True, parallel_attn=True, new_decoder_architecture=False, bias=False, alibi=False),
    S("flexolmo", "FlexOlmoForCausalLM", "FlexOlmoConfig", 207, **H, intermediate_size=24, num_experts=6, num_experts_per_tok=3),
    S("gemma3-v5", "Gemma3ForCausalLM", "Gemma3TextConfig", 308, **{**H, "num_hidden_layers": 3}, **M, head_dim=16, query_pre_attn_scalar=24, sliding_window=16, layer_types=["sliding_attention", "full_attention", "sliding_attention"], rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}, tune=dict(embed=0.35)),
    S("gemma3n-four", "Gemma3nForCausalLM", "Gemma3nTextConfig", 307, **{**H, "num_hidden_layers": 5}, **M, head_dim=16, altup_num_inputs=4, altup_active_idx=1, altup_correct_scale=False, num_kv_shared_layers=0, laurel_rank=4, hidden_size_per_layer_input=8, vocab_size_per_layer_input=160, activation_sparsity_pattern=[0.3, 0.0, 0.5, 0.0, 0.8], sliding_window=16, final_logit_softcapping=8.0, tune=dict(embed=0.35)),
    S("gemma4-double", "Gemma4ForCausalLM", "Gemma4TextConfig", 250, **{**H, "num_hidden_layers": 4}, **M, head_dim=16, global_head_dim=32, layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=16, hidden_size_per_layer_input=8, vocab_size_per_layer_input=160, num_kv_shared_layers=2, use_double_wide_mlp=True, tune=dict(embed=0.35)),
    S("gemma4-moe", "Gemma4ForCausalLM", "Gemma4TextConfig", 249, **{**H, "num_hidden_layers": 4}, **M, head_dim=16, global_head_dim=32, num_global_key_value_heads=1, attention_k_eq_v=True, layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=16, hidden_size_per_layer_input=0, vocab_size_per_layer_input=160, enable_moe_block=True, num_experts=6, top_k_experts=2, moe_intermediate_size=24, final_logit_softcapping=8.0, tune=dict(embed=0.35)),
    S("glm", "GlmForCausalLM", "GlmConfig", 203, **H, **M, head_dim=16, attention_bias=True),
    S("glm4moe-groups", "Glm4MoeForCausalLM", "Glm4MoeConfig", 305, **{**H, "num_hidden_layers": 4}, **M, moe_intermediate_size=24, head_dim=16, n_routed_experts=8, num_experts_per_tok=2, n_group=4, topk_group=2, use_qk_norm=False, attention_bias=False, first_k_dense_replace=2, norm_topk_prob=False, n_shared_experts=2, partial_rotary_factor=0.5),
    S("gpt-neo", "GPTNeoForCausalLM", "GPTNeoConfig", 248, vocab_size=160, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=16),
    S("gptj", "GPTJForCausalLM", "GPTJConfig", 219, vocab_size=160, n_embd=32, n_layer=2, n_head=2, rotary_dim=8, n_positions=256, drop=("max_position_embeddings",)),
    S("granitemoe", "GraniteMoeForCausalLM", "GraniteMoeConfig", 242, **H, intermediate_size=24, num_local_experts=6, num_experts_per_tok=2, embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.6, attention_multiplier=0.2, tune=dict(head=4.0, down=4.0, o=4.0, embed=0.5)),
    S("granitemoe-shared", "GraniteMoeSharedForCausalLM", "GraniteMoeSharedConfig", 243, **H, intermediate_size=24, shared_intermediate_size=32, num_local_experts=6, num_experts_per_tok=2, embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.6, attention_multiplier=0.2, tune=dict(head=4.0, down=4.0, o=4.0, embed=0.5)),
    S("granitemoe-swa", "GraniteMoeSWAForCausalLM", "GraniteMoeSWAConfig", 244, **{**H, "num_hidden_layers": 4}, intermediate_size=24, shared_intermediate_size=32, num_local_experts=6, num_experts_per_tok=2, sliding_window=16, layer_rope_theta=[0, 10000.0, 500.0, 10000.0], embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.6, attention_multiplier=0.2, tune=dict(head=4.0, down=4.0, o=4.0, embed=0.5)),
    S("helium", "HeliumForCausalLM", "HeliumConfig", 231, **H, **M, head_dim=8),
    S("hunyuan-moe", "HunYuanMoEV1ForCausalLM", "HunYuanMoEV1Config", 246, **H, intermediate_size=24, head_dim=16, num_experts=6, moe_topk=2),
    S("jais2", "Jais2ForCausalLM", "Jais2Config", 234, **H, **M),
    S("jetmoe", "JetMoeForCausalLM", "JetMoeConfig", 229, vocab_size=160, hidden_size=32, num_hidden_layers=2, num_key_value_heads=2, kv_channels=16, intermediate_size=24, num_local_experts=4, num_experts_per_tok=2),
    S("laguna", "LagunaForCausalLM", "LagunaConfig", 240, **{**H, "num_hidden_layers": 4}, **M, moe_intermediate_size=24, shared_expert_intermediate_size=24, head_dim=16, num_experts=8, num_experts_per_tok=2, sliding_window=16),
    S("laguna-heads", "LagunaForCausalLM", "LagunaConfig", 311, **{**H, "num_hidden_layers": 3}, **M, moe_intermediate_size=24, shared_expert_intermediate_size=16, head_dim=16, num_experts=8, num_experts_per_tok=2, sliding_window=16, layer_types=["full_attention", "sliding_attention", "full_attention"], gating="per-element", num_attention_heads_per_layer=[4, 6, 2], moe_routed_scaling_factor=1.5, moe_router_logit_softcapping=3.0),
    S("llama-dynamic", "LlamaForCausalLM", "LlamaConfig", 253, **H, **M, rope_parameters=dict(rope_theta=10000.0, rope_type="dynamic", factor=4.0), max_position_embeddings=48),
    S("llama-gelu", "LlamaForCausalLM", "LlamaConfig", 313, **H, **M, hidden_act="gelu", head_dim=16, partial_rotary_factor=0.5),
    S("llama4-plain", "Llama4ForCausalLM", "Llama4TextConfig", 303, **{**H, "num_hidden_layers": 4}, intermediate_size=24, intermediate_size_mlp=64, head_dim=8, num_local_experts=4, num_experts_per_tok=2, interleave_moe_layer_step=1, use_qk_norm=False, attn_temperature_tuning=False, attention_chunk_size=None, no_rope_layer_interval=2, attention_bias=True),
    S("mellum", "MellumForCausalLM", "MellumConfig", 241, **{**H, "num_hidden_layers": 4}, **M, moe_intermediate_size=24, head_dim=16, num_experts=8, num_experts_per_tok=2, sliding_window=16),
    S("mellum-ropes", "MellumForCausalLM", "MellumConfig", 310, **{**H, "num_hidden_layers": 3}, **M, moe_intermediate_size=24, head_dim=16, num_experts=8, num_experts_per_tok=2, sliding_window=16, layer_types=["sliding_attention", "full_attention", "sliding_attention"], mlp_layer_types=["dense", "sparse", "sparse"], rope_parameters={"full_attention": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 500000.0, "original_max_position_embeddings": 64}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
    S("mimo-plain", "MiMoV2FlashForCausalLM", "MiMoV2FlashConfig", 309, **{**H, "num_hidden_layers": 3}, **M, moe_intermediate_size=24, head_dim=24, v_head_dim=8, n_routed_experts=8, num_experts_per_tok=2, n_group=2, topk_group=1, attention_value_scale=None, attention_bias=True, sliding_window=17, layer_types=["full_attention", "sliding_attention", "full_attention"]),
    S("minicpm3", "MiniCPM3ForCausalLM", "MiniCPM3Config", 251, **{**H, "num_key_value_heads": 4}, **M, kv_lora_rank=16, q_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, scale_emb=3, scale_depth=1.4, dim_model_base=16),
    S("ministral", "MinistralForCausalLM", "MinistralConfig", 247, **{**H, "num_hidden_layers": 3}, **M, head_dim=16, sliding_window=16, layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    S("mpt", "MptForCausalLM", "MptConfig", 216, vocab_size=160, d_model=32, n_heads=4, n_layers=2, max_seq_len=256, expansion_ratio=4, attn_config=dict(alibi=True, clip_qkv=1.0, attn_type="multihead_attention"), drop=("max_position_embeddings",)),
    S("nanochat", "NanoChatForCausalLM", "NanoChatConfig", 239, **H, **M, final_logit_softcapping=8.0),
    S("nemotron", "NemotronForCausalLM", "NemotronConfig", 209, **H, **M, head_dim=16, partial_rotary_factor=0.5),
    S("olmo", "OlmoForCausalLM", "OlmoConfig", 204, **H, **M, clip_qkv=0.8, mutations={"no_clip": {"clip_qkv": None}}),
    S("olmoe", "OlmoeForCausalLM", "OlmoeConfig", 205, **H, intermediate_size=24, num_experts=8, num_experts_per_tok=3, norm_topk_prob=False),
    S("olmoe-clip", "OlmoeForCausalLM", "OlmoeConfig", 206, **H, intermediate_size=24, num_experts=8, num_experts_per_tok=3, norm_topk_prob=True, clip_qkv=0.9, mutations={"no_clip": {"clip_qkv": None}}),
    S("opt", "OPTForCausalLM", "OPTConfig", 217, **ALONE, ffn_dim=64, word_embed_proj_dim=32),
    S("opt-350m", "OPTForCausalLM", "OPTConfig", 218, **ALONE, ffn_dim=64, word_embed_proj_dim=16, do_layer_norm_before=False),
    S("persimmon", "PersimmonForCausalLM", "PersimmonConfig", 223, **ALONE, **M, qk_layernorm=True, partial_rotary_factor=0.5),
    S("phi-qknorm", "PhiForCausalLM", "PhiConfig", 224, **H, **M, qk_layernorm=True, partial_rotary_factor=0.5),
    S("phimoe", "PhimoeForCausalLM", "PhimoeConfig", 208, **H, intermediate_size=24, num_local_experts=8, num_experts_per_tok=2, attention_bias=True, lm_head_bias=True, router_jitter_noise=0.01),
    S("qwen2-window", "Qwen2ForCausalLM", "Qwen2Config", 227, **{**H, "num_hidden_layers": 3}, **M, use_sliding_window=True, sliding_window=16, max_window_layers=1),
    S("qwen2moe-window", "Qwen2MoeForCausalLM", "Qwen2MoeConfig", 314, **{**H, "num_hidden_layers": 3}, **M, moe_intermediate_size=24, shared_expert_intermediate_size=24, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=2, use_sliding_window=True, sliding_window=16, max_window_layers=1, qkv_bias=False),
    S("qwen3-bias-llama3", "Qwen3ForCausalLM", "Qwen3Config", 312, **H, **M, head_dim=16, attention_bias=True, rope_parameters=dict(rope_theta=10000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)),
    S("qwen3-window", "Qwen3ForCausalLM", "Qwen3Config", 228, **{**H, "num_hidden_layers": 3}, **M, head_dim=16, use_sliding_window=True, sliding_window=16, max_window_layers=2),
    S("solar-open", "SolarOpenForCausalLM", "SolarOpenConfig", 235, **H, moe_intermediate_size=24, head_dim=16, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, n_group=2, topk_group=1, routed_scaling_factor=1.5),
    S("stablelm-2-12b", "StableLmForCausalLM", "StableLmConfig", 225, **H, **M, qk_layernorm=True, use_parallel_residual=True, partial_rotary_factor=0.25, use_qkv_bias=False),
    S("starcoder", "GPTBigCodeForCausalLM", "GPTBigCodeConfig", 220, vocab_size=160, n_embd=32, n_layer=2, n_head=4, n_positions=256, multi_query=True, drop=("max_position_embeddings",)),
    S("vaultgemma", "VaultGemmaForCausalLM", "VaultGemmaConfig", 238, **H, **M, head_dim=16, query_pre_attn_scalar=24, sliding_window=16, final_logit_softcapping=8.0, attn_logit_softcapping=6.0, tune=dict(embed=0.35)),
    S("apertus1p5", "Apertus1p5TextForCausalLM", "Apertus1p5TextConfig", 508, **H, **M, output_vocab_size=None, head_dim=8),
    S("aria-text", "AriaTextForCausalLM", "AriaTextConfig", 507, **H, intermediate_size=24, head_dim=8, moe_num_experts=6, moe_topk=2, moe_num_shared_experts=2),
    S("beam", "BeamForCausalLM", "BeamConfig", 506, **{**H, "num_hidden_layers": 6}, **M, moe_intermediate_size=24, head_dim=16, num_experts=8, num_experts_per_tok=2, n_group=4, topk_group=2, sliding_window=16),
    S("cwm", "CwmForCausalLM", "CwmConfig", 501, **{**H, "num_hidden_layers": 3}, **M, head_dim=16, sliding_window=16, rope_parameters=dict(rope_type="llama3", rope_theta=1e6, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)),
    S("flint", "FlintForCausalLM", "FlintConfig", 504, **{**H, "num_hidden_layers": 5}, **M, moe_intermediate_size=24, shared_expert_intermediate_size=16, head_dim=16, num_experts=8, num_experts_per_tok=3, sliding_window=17),
    S("hyperclovax", "HyperCLOVAXForCausalLM", "HyperCLOVAXConfig", 502, **H, **M, embedding_multiplier=3.0, residual_multiplier=0.6, attention_multiplier=0.2, logits_scaling=0.5, tune=dict(head=4.0, down=4.0, o=4.0, embed=0.5)),
    S("kolibri1", "Kolibri1ForCausalLM", "Kolibri1Config", 503, **{**H, "num_hidden_layers": 5}, moe_intermediate_size=24, shared_expert_intermediate_size=16, head_dim=16, num_experts=8, num_experts_per_tok=3, sliding_window=17),
    S("lara-mini", "LaraMiniForCausalLM", "LaraMiniConfig", 505, **{**H, "num_hidden_layers": 5}, moe_intermediate_size=24, shared_expert_intermediate_size=16, head_dim=16, num_experts=8, num_experts_per_tok=3, sliding_window=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16),
    S("falcon-alibi", "FalconForCausalLM", "FalconConfig", 214, **ALONE, multi_query=False, parallel_attn=False, new_decoder_architecture=False, bias=True, alibi=True, attention="sdpa", features=["ALiBi, counted once: sdpa attention, as eager attention of this release adds it twice"]),
]

M = dict(intermediate_size=72)


def V(*a, **k):
    return S(*a, lengths=(1, 7, 33, 60), **k)


SWITCHES = [
    V("deepseek2-biases", "DeepseekV2ForCausalLM", "DeepseekV2Config", 622, **{**H, "num_hidden_layers": 3, "num_key_value_heads": 4}, **M, moe_intermediate_size=20, n_routed_experts=6, num_experts_per_tok=3, n_group=3, topk_group=2, topk_method="group_limited_greedy", n_shared_experts=2, routed_scaling_factor=1.7, norm_topk_prob=True, kv_lora_rank=12, q_lora_rank=20, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14, attention_bias=True, mlp_bias=True, first_k_dense_replace=1),
    V("gemma3-caps", "Gemma3ForCausalLM", "Gemma3TextConfig", 613, **{**H, "num_hidden_layers": 4}, **M, head_dim=12, query_pre_attn_scalar=20, sliding_window=7, layer_types=["full_attention", "sliding_attention", "full_attention", "sliding_attention"], attention_bias=True, final_logit_softcapping=9.0, attn_logit_softcapping=5.0, tune=dict(embed=0.35)),
    V("kimi-linear-odd", "KimiLinearForCausalLM", "KimiLinearConfig", 638, **{**H, "num_hidden_layers": 3, "num_key_value_heads": 4}, **M, moe_intermediate_size=20, num_experts=6, num_experts_per_token=2, num_shared_experts=2, num_expert_group=3, topk_group=2, moe_renormalize=False, routed_scaling_factor=1.7, kv_lora_rank=12, q_lora_rank=16, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14, linear_head_dim=8, linear_num_heads=6, linear_conv_kernel_dim=3, layer_types=["full_attention", "linear_attention", "linear_attention"], mlp_layer_types=["sparse", "dense", "sparse"], attention_bias=True),
    V("ling-odd", "BailingHybridForCausalLM", "BailingHybridConfig", 639, **{**H, "num_hidden_layers": 3, "num_key_value_heads": 4}, **M, moe_intermediate_size=20, num_experts=6, num_experts_per_token=2, num_shared_experts=2, num_expert_group=3, topk_group=2, moe_renormalize=False, kv_lora_rank=12, q_lora_rank=None, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14, head_dim=8, kda_safe_gate=False, layer_group_size=3),
    V("qwen3moe-window", "Qwen3MoeForCausalLM", "Qwen3MoeConfig", 608, **{**H, "num_hidden_layers": 3}, **M, moe_intermediate_size=20, head_dim=12, num_experts=7, num_experts_per_tok=4, decoder_sparse_step=2, norm_topk_prob=True, attention_bias=True, use_sliding_window=True, sliding_window=8, hidden_act="gelu"),
    V("axk2", "AXK2ForCausalLM", "AXK2Config", 671, **{**H, "num_hidden_layers": 3, "num_key_value_heads": 4}, **M, moe_intermediate_size=20, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, kv_lora_rank=12, q_lora_rank=20, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14, index_n_heads=9, index_head_dim=16, index_topk=11, gated_norm_rank=4, n_group=3, topk_group=2),
    V("qwen2moe-legacy", "Qwen2MoeForCausalLM", "Qwen2MoeConfig", 644, style="legacy", **{**H, "num_hidden_layers": 4}, **M, moe_intermediate_size=20, shared_expert_intermediate_size=40, num_experts=5, num_experts_per_tok=3, use_sliding_window=True, sliding_window=8, max_window_layers=3),
    V("qwen4-odd", "Qwen4ExpForCausalLM", "Qwen4ExpTextConfig", 640, **{**H, "num_hidden_layers": 3}, moe_intermediate_size=20, shared_expert_intermediate_size=12, num_experts=6, num_experts_per_tok=3, norm_topk_prob=False, head_dim=16, layer_types=["linear_attention", "indexed_attention", "linear_attention"], linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=8, linear_value_head_dim=10, hc_count=3, hc_lowrank=8, indexer_n_heads=5, indexer_kv_heads=1, indexer_head_dim=20, indexer_budget=15, indexer_compress_ratio=5, output_gate_type="sigmoid", attention_bias=True),
    V("qwen4-ple", "Qwen4ExpForCausalLM", "Qwen4ExpTextConfig", 642, **{**H, "num_hidden_layers": 4}, moe_intermediate_size=20, shared_expert_intermediate_size=12, num_experts=6, num_experts_per_tok=3, head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8, hc_count=2, hc_lowrank=8, indexer_n_heads=6, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=12, indexer_compress_ratio=3, ple_layer_ids=[1, 3], ple_embed_dim=16, heads_per_ngram=2, ngram_size=3, ngram_vocab_size_base=60, make_ngram_vocab_size_divisible_by=8, split_ngram_parts=4, ple_conv_kernel_size=4, eos_token_id=37),
    V("qwen4-ple-one", "Qwen4ExpForCausalLM", "Qwen4ExpTextConfig", 670, **{**H, "num_hidden_layers": 4}, moe_intermediate_size=20, shared_expert_intermediate_size=12, num_experts=6, num_experts_per_tok=3, head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8, hc_count=2, hc_lowrank=8, indexer_n_heads=6, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=12, indexer_compress_ratio=3, ple_layer_ids=[2], ple_embed_dim=16, heads_per_ngram=2, ngram_size=3, ngram_vocab_size_base=60, make_ngram_vocab_size_divisible_by=8, split_ngram_parts=4, ple_conv_kernel_size=4, eos_token_id=37),
]


def main():
    root, only, failed = Path(sys.argv[1]), set(sys.argv[2:]), []
    root.mkdir(parents=True, exist_ok=True)
    for spec in FAMILIES + SWITCHES:
        if spec["name"] not in only if only else (root / spec["name"] / "golden.json").exists():
            continue
        G.ATTENTION = spec["attention"]
        try:
            G.make_text_model(spec, root)
        except Exception:
            traceback.print_exc(limit=3)
            failed.append(spec["name"])
    print("failed:", failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
