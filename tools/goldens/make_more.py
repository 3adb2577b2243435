"""Goldens of further text models of the transformers library: layers that share their tensors (Zamba, HRM-Text), sums that
fade (RecurrentGemma), waves as positions (XGLM, CTRL), convolved attention (ZAYA1), the text models of Step 3.7 and others.
Small vocabularies, short prompts.

    python make_more.py OUT [NAME...]    # into OUT/<name>; all that are not there yet, or those named
"""
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import torch  # noqa: E402
import goldenlib as G  # noqa: E402
from make_relatives import ALONE, H, M, S  # noqa: E402

ALONE = {**ALONE, "vocab_size": 64, "hidden_size": 24}
H = {**H, "vocab_size": 64, "hidden_size": 24}
M = dict(intermediate_size=40)
CALM = dict(mlp=0.9, down=1.2, o=1.2, qk=1.2)


def T(*a, **k):
    return S(*a, lengths=(1, 7, 40), **k)


def positive_steps(model):
    """Mamba's own parameters: rates around 1, steps that are neither tiny nor huge."""
    g = torch.Generator().manual_seed(3)
    for name, p in model.named_parameters():
        if name.endswith("A_log"):
            p.data.copy_(0.5 * torch.randn(p.shape, generator=g))
        elif name.endswith(".D"):
            p.data.copy_(1 + 0.3 * torch.randn(p.shape, generator=g))
        elif name.endswith(("dt_bias", "dt_proj_bias")):
            p.data.copy_(-1 + 0.5 * torch.randn(p.shape, generator=g))


def near_one(*ends):
    """Gains that multiply what is there lie around 1."""
    def post(model):
        g = torch.Generator().manual_seed(5)
        for name, p in model.named_parameters():
            if name.endswith(ends):
                p.data.copy_(1 + 0.2 * torch.randn(p.shape, generator=g))
    return post


def biases(model):
    g = torch.Generator().manual_seed(7)
    for name, b in model.named_buffers():
        if "balancing_biases" in name or "e_score_correction_bias" in name:
            b.data.copy_((0.2 * torch.randn(b.shape, generator=g)).bfloat16())
        if "balancing_biases" in name:
            b.data[-1] = -1.0  # as the class itself sets it, whatever the checkpoint says


def zaya_parameters(model):
    near_one("hidden_states_scale", "residual_scale", "router_states_scale", "temp")(model)
    biases(model)


SPECS = [
    T("zamba2", "Zamba2ForCausalLM", "Zamba2Config", 801, vocab_size=64, hidden_size=24, num_hidden_layers=5, layers_block_type=["linear_attention", "hybrid", "hybrid", "linear_attention", "hybrid"], num_mem_blocks=2, num_attention_heads=4, intermediate_size=32, mamba_d_state=8, mamba_ngroups=2, n_mamba_heads=4, mamba_expand=2, adapter_rank=4, use_shared_attention_adapter=True, use_mem_rope=True, tune=CALM, post=positive_steps),
    T("zamba2-plain", "Zamba2ForCausalLM", "Zamba2Config", 802, vocab_size=64, hidden_size=24, num_hidden_layers=4, layers_block_type=["mamba", "hybrid", "mamba", "hybrid"], num_mem_blocks=1, num_attention_heads=4, intermediate_size=32, mamba_d_state=8, n_mamba_heads=8, adapter_rank=3, add_bias_linear=True, style="legacy", tune=CALM, post=positive_steps),
    T("zamba", "ZambaForCausalLM", "ZambaConfig", 803, vocab_size=64, hidden_size=24, num_hidden_layers=5, attn_layer_period=2, attn_layer_offset=1, num_attention_heads=4, num_key_value_heads=4, intermediate_size=32, mamba_d_state=6, n_mamba_heads=2, mamba_dt_rank=4, tune=CALM, post=positive_steps),
    T("recurrent-gemma", "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", 804, vocab_size=64, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=1, intermediate_size=64, lru_width=32, attention_window_size=16, conv1d_width=3, logits_soft_cap=9.0, tune=dict(embed=0.35)),
    T("xglm", "XGLMForCausalLM", "XGLMConfig", 805, vocab_size=64, d_model=24, num_layers=2, attention_heads=4, ffn_dim=40, tune=dict(embed=0.35)),
    T("xglm-pad5", "XGLMForCausalLM", "XGLMConfig", 806, vocab_size=64, d_model=36, num_layers=2, attention_heads=4, ffn_dim=40, scale_embedding=False, activation_function="relu", tie_word_embeddings=False, pad=5),
    T("ctrl", "CTRLLMHeadModel", "CTRLConfig", 807, vocab_size=64, n_embd=24, n_layer=2, n_head=4, dff=40, n_positions=256, drop=("max_position_embeddings",), tune=dict(embed=0.3)),
    T("openai-gpt", "OpenAIGPTLMHeadModel", "OpenAIGPTConfig", 808, vocab_size=64, n_embd=24, n_layer=2, n_head=4, n_positions=256, drop=("max_position_embeddings",)),
    T("gpt-neox-japanese", "GPTNeoXJapaneseForCausalLM", "GPTNeoXJapaneseConfig", 809, **{**ALONE, "num_attention_heads": 3}, intermediate_multiple_size=2, rotary_pct=0.5),
    T("modernbert-decoder", "ModernBertDecoderForCausalLM", "ModernBertDecoderConfig", 810, **{**ALONE, "num_hidden_layers": 4}, intermediate_size=40, local_attention=16, global_attn_every_n_layers=2),
    T("modernbert-biases", "ModernBertDecoderForCausalLM", "ModernBertDecoderConfig", 811, **{**ALONE, "num_hidden_layers": 3}, intermediate_size=40, local_attention=10, norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True, decoder_bias=False, tie_word_embeddings=False, hidden_activation="silu", layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    T("doge", "DogeForCausalLM", "DogeConfig", 812, **H, **M, keep_window_size=2048, post=near_one("residual", ".A")),
    T("hrm-text", "HrmTextForCausalLM", "HrmTextConfig", 814, **{**ALONE, "num_hidden_layers": 2}, intermediate_size=32, head_dim=8, H_cycles=2, L_cycles=2),
    T("zaya", "ZayaForCausalLM", "ZayaConfig", 815, **{**H, "num_hidden_layers": 3}, moe_intermediate_size=16, head_dim=8, num_experts=5, router_hidden_size=12, cca_time0=2, cca_time1=2, sliding_window=12, layer_types=["hybrid", "hybrid_sliding", "hybrid"], post=zaya_parameters),
    T("zaya-biases", "ZayaForCausalLM", "ZayaConfig", 816, **{**H, "num_hidden_layers": 2}, moe_intermediate_size=16, head_dim=8, num_experts=4, router_hidden_size=12, cca_time0=3, cca_time1=4, attention_bias=True, lm_head_bias=True, tie_word_embeddings=False, post=zaya_parameters),
    T("step3p7", "Step3p7ForConditionalGeneration", "Step3p7Config", 817, vocab_size=64, drop=("max_position_embeddings", "bos_token_id", "eos_token_id", "pad_token_id"),
      text_config=dict(vocab_size=64, hidden_size=24, intermediate_size=32, num_hidden_layers=4, num_attention_heads=2, num_sliding_attention_heads=4, num_key_value_heads=2, head_dim=8, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=12, share_expert_dim=12, sliding_window=6, layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"], mlp_layer_types=["dense", "sparse", "sparse", "sparse"], moe_router_scaling_factor=1.5, swiglu_limits=[None, None, 1.2, 1.5], swiglu_limits_shared=[0.0, None, None, 1.7], max_position_embeddings=256, rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0}}),
      vision_config=dict(width=8, layers=1, heads=2, image_size=28, patch_size=14, mlp_ratio=2.0, max_position_embeddings=4), post=biases),
]


def main():
    root, only, failed = Path(sys.argv[1]), set(sys.argv[2:]), []
    root.mkdir(parents=True, exist_ok=True)
    for spec in SPECS:
        if spec["name"] not in only if only else (root / spec["name"] / "golden.json").exists():
            continue
        spec["post"] = spec["kwargs"].pop("post", None)
        if "pad" in spec["kwargs"]:
            spec["kwargs"]["pad_token_id"] = spec["kwargs"].pop("pad")
        try:
            G.make_text_model(spec, root)
        except Exception:
            traceback.print_exc(limit=3)
            failed.append(spec["name"])
    print("failed:", failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
