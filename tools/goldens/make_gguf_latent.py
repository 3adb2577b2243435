"""GGUF files of the goldens with latent and sparse attention, from their HF checkpoints: the same values (BF16, F32) under
the names and in the layouts of llama.cpp's converters, so that the goldens of the checkpoint hold for the file.

    python make_gguf_latent.py GOLDENS OUT      (GOLDENS: the folder with models/; OUT gets a folder for each)
"""
from __future__ import annotations
import json, re, sys
from pathlib import Path
import numpy as np
import gguf
import torch
from safetensors.torch import load_file, save_file

WANTED = {  # name of the folder: checkpoint, architecture, whether attn_kv_b is split
    "gguf-deepseek2": ("deepseek-v3", "deepseek2", True),
    "gguf-deepseek2-old": ("deepseek-v2-lite", "deepseek2", False),
    "gguf-glm4-moe-lite": ("n26-glm4-moe-lite", "deepseek2", True),
    "gguf-mistral4": ("n26-mistral4", "mistral4", True),
    "gguf-deepseek32": ("n26-deepseek-v3.2", "deepseek32", True),
    "gguf-glm-dsa": ("n26-glm5", "glm-dsa", True),
    "gguf-deepseek4": ("n26-deepseek-v4", "deepseek4", False),
    "gguf-minimax-m3": ("n26-minimax-m3", "minimax-m3", False),
}

LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b",
    "self_attn.indexer.wq_b": "indexer.attn_q_b", "self_attn.indexer.wk": "indexer.attn_k",
    "self_attn.indexer.k_norm": "indexer.k_norm", "self_attn.indexer.weights_proj": "indexer.proj",
    "self_attn.indexer.q_proj": "indexer.q_proj", "self_attn.indexer.k_proj": "indexer.k_proj",
    "self_attn.indexer.q_norm": "indexer.q_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
    "mlp.gate_up_proj": ("ffn_gate", "ffn_up"),
    "mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp", "mlp.shared_experts.gate_up_proj": ("ffn_gate_shexp", "ffn_up_shexp"),
    "mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps",
    "mlp.experts.gate_up_proj": "ffn_gate_up_exps",
}
V4 = {
    "attn.wq_a": "attn_q_a", "attn.wq_b": "attn_q_b", "attn.q_norm": "attn_q_a_norm", "attn.wkv": "attn_kv",
    "attn.norm": "attn_kv_a_norm", "attn.kv_norm": "attn_kv_a_norm", "attn.wo_a": "attn_output_a", "attn.wo_b": "attn_output_b",
    "attn.attn_sink": "attn_sinks", "attn.compressor.ape": "attn_compressor_ape",
    "attn.compressor.wkv": "attn_compressor_kv", "attn.compressor.wgate": "attn_compressor_gate",
    "attn.compressor.norm": "attn_compressor_norm", "attn.indexer.wq_b": "indexer.attn_q_b",
    "attn.indexer.weights_proj": "indexer.proj", "attn.indexer.compressor.ape": "indexer_compressor_ape",
    "attn.indexer.compressor.wkv": "indexer_compressor_kv", "attn.indexer.compressor.wgate": "indexer_compressor_gate",
    "attn.indexer.compressor.norm": "indexer_compressor_norm", "attn_norm": "attn_norm", "ffn_norm": "ffn_norm",
    "ffn.gate": "ffn_gate_inp", "ffn.gate.tid2eid": "ffn_gate_tid2eid",
    "ffn.shared_experts.w1": "ffn_gate_shexp", "ffn.shared_experts.w3": "ffn_up_shexp", "ffn.shared_experts.w2": "ffn_down_shexp",
    "ffn.experts.w1": "ffn_gate_exps", "ffn.experts.w3": "ffn_up_exps", "ffn.experts.w2": "ffn_down_exps",
    **{f"hc_{half}_{what}": f"hc_{half}_{what}" for half in ("attn", "ffn") for what in ("fn", "base", "scale")},
}
WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight", "head.weight": "output.weight",
         **{f"model.hc_head.hc_{what}": f"output_hc_{what}.weight" for what in ("fn", "base", "scale")}}


def stacked(tensors):
    """Experts one by one become one tensor of all."""
    out, lists = {}, {}
    for name, t in tensors.items():
        m = re.match(r"(.*\.experts)\.(\d+)\.(.*)", name)
        if m:
            lists.setdefault(f"{m[1]}.{m[3]}", {})[int(m[2])] = t
        else:
            out[name] = t
    for name, by_number in lists.items():
        out[name] = torch.stack([by_number[i] for i in range(len(by_number))])
    return out


def renamed(name):
    if name in WHOLE:
        return [WHOLE[name]]
    m = re.match(r"model\.layers\.(\d+)\.(.*?)(\.weight|\.bias)?$", name)
    layer, rest, ending = m[1], m[2], m[3] or ".weight"
    if rest in ("mlp.gate.e_score_correction_bias",) or (rest == "ffn.gate" and ending == ".bias"):
        return [f"blk.{layer}.exp_probs_b.bias"]
    new = LAYER.get(rest) or V4[rest]
    return [f"blk.{layer}.{n}{ending}" for n in ([new] if isinstance(new, str) else new)]


def tensors_of(config, arch, tensors, split):
    for name, t in stacked(tensors).items():
        if arch == "minimax-m3" and name.endswith("norm.weight"):
            t = t.float() + 1.0
        if split and name.endswith("kv_b_proj.weight"):
            plain, value = config["qk_nope_head_dim"], config["v_head_dim"]
            both = t.view(config["num_attention_heads"], plain + value, t.shape[-1])
            stem = renamed(name)[0].replace("attn_kv_b.weight", "")
            yield stem + "attn_k_b.weight", both[:, :plain].transpose(1, 2).contiguous()
            yield stem + "attn_v_b.weight", both[:, plain:].contiguous()
            continue
        names = renamed(name)
        for new, part in zip(names, t.chunk(len(names), 0)):
            yield new, part


def add_tensor(writer, name, t):
    if t.dtype == torch.int64:
        writer.add_tensor(name, t.to(torch.int32).numpy())
    elif t.dtype == torch.bfloat16 and t.dim() > 1 and "_ape" not in name and "hc_" not in name:
        writer.add_tensor(name, t.view(torch.int16).numpy().view(np.uint8).reshape(*t.shape[:-1], -1),
                          raw_dtype=gguf.GGMLQuantizationType.BF16)
    else:
        writer.add_tensor(name, t.float().contiguous().numpy())


def metadata(writer, c, arch, split):
    u32, f32 = (lambda k, v: writer.add_uint32(f"{arch}.{k}", int(v))), (lambda k, v: writer.add_float32(f"{arch}.{k}", float(v)))
    u32("vocab_size", c["vocab_size"]); u32("context_length", c["max_position_embeddings"])
    u32("embedding_length", c["hidden_size"]); u32("block_count", c["num_hidden_layers"])
    u32("attention.head_count", c["num_attention_heads"]); f32("attention.layer_norm_rms_epsilon", c["rms_norm_eps"])
    rope = c.get("rope_parameters") or c.get("rope_scaling") or {}
    f32("rope.freq_base", rope.get("rope_theta", c.get("rope_theta", 10000)))
    u32("expert_count", c.get("n_routed_experts") or c["num_local_experts"]); u32("expert_used_count", c["num_experts_per_tok"])
    u32("expert_feed_forward_length", c.get("moe_intermediate_size") or c["intermediate_size"])
    u32("expert_shared_count", c.get("n_shared_experts", 1)); f32("expert_weights_scale", c["routed_scaling_factor"])
    if c.get("norm_topk_prob", arch == "minimax-m3"):
        writer.add_bool(f"{arch}.expert_weights_norm", True)
    if arch != "deepseek4":
        softmax = c["model_type"] in ("deepseek_v2", "mistral4")
        u32("expert_gating_func", 1 if softmax else 2)
    if c.get("n_group", 1) > 1:
        u32("expert_group_count", c["n_group"]); u32("expert_group_used_count", c["topk_group"])
    dense = c.get("mlp_layer_types")
    u32("leading_dense_block_count", dense.count("dense") if dense else c.get("first_k_dense_replace", 0))
    if c.get("q_lora_rank"):
        u32("attention.q_lora_rank", c["q_lora_rank"])
    if "kv_lora_rank" in c:
        u32("feed_forward_length", c["intermediate_size"]); u32("attention.kv_lora_rank", c["kv_lora_rank"])
        u32("rope.dimension_count", c["qk_rope_head_dim"])
        head = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
        u32("attention.head_count_kv", 1 if split else c["num_attention_heads"])
        u32("attention.key_length", c["kv_lora_rank"] + c["qk_rope_head_dim"] if split else head)
        u32("attention.value_length", c["kv_lora_rank"] if split else c["v_head_dim"])
        if split:
            u32("attention.key_length_mla", head); u32("attention.value_length_mla", c["v_head_dim"])
    if rope.get("rope_type", rope.get("type", "default")) == "yarn":
        writer.add_string(f"{arch}.rope.scaling.type", "yarn"); f32("rope.scaling.factor", rope["factor"])
        u32("rope.scaling.original_context_length", rope["original_max_position_embeddings"])
        f32("rope.scaling.yarn_log_multiplier", 0.1 * rope["mscale_all_dim"])
        f32("rope.scaling.yarn_beta_fast", rope.get("beta_fast", 32)); f32("rope.scaling.yarn_beta_slow", rope.get("beta_slow", 1))
    if "llama_4_scaling_beta" in rope:
        f32("attention.temperature_scale", rope["llama_4_scaling_beta"])
        u32("attention.temperature_length", rope["original_max_position_embeddings"])
    if "index_n_heads" in c:
        u32("attention.indexer.head_count", c["index_n_heads"]); u32("attention.indexer.key_length", c["index_head_dim"])
        u32("attention.indexer.top_k", c.get("index_topk") or c["index_topk_blocks"])
    if arch == "minimax-m3":
        u32("feed_forward_length", c["dense_intermediate_size"]); u32("attention.head_count_kv", c["num_key_value_heads"])
        u32("attention.key_length", c["head_dim"]); u32("attention.value_length", c["head_dim"])
        u32("rope.dimension_count", c["rotary_dim"])
        u32("attention.indexer.block_size", c["index_block_size"]); u32("attention.indexer.local_blocks", c["index_local_blocks"])
    if arch == "deepseek4":
        n = c["num_hidden_layers"]
        u32("attention.head_count_kv", 1); u32("attention.key_length", c["head_dim"]); u32("attention.value_length", c["head_dim"])
        u32("rope.dimension_count", c["qk_rope_head_dim"]); u32("attention.sliding_window", c["sliding_window"])
        u32("attention.output_lora_rank", c["o_lora_rank"]); u32("attention.output_group_count", c["o_groups"])
        rates = {**c["compress_rates"], "sliding_attention": 0}
        writer.add_array(f"{arch}.attention.compress_ratios", [rates[t] for t in c["layer_types"]])
        f32("attention.compress_rope_freq_base", c["compress_rope_theta"])
        writer.add_array(f"{arch}.swiglu_clamp_exp", [float(c["swiglu_limit"])] * n)
        u32("hash_layer_count", c["mlp_layer_types"].count("hash_moe")); u32("nextn_predict_layers", 1)
        u32("hyper_connection.count", c["hc_mult"]); f32("hyper_connection.epsilon", c["hc_eps"])
        u32("hyper_connection.sinkhorn_iterations", c["hc_sinkhorn_iters"])


def make(folder, out, arch, split):
    config = json.loads((folder / "config.json").read_text())
    out.mkdir(parents=True, exist_ok=True)
    file = f"{out.name}-BF16.gguf"
    writer = gguf.GGUFWriter(str(out / file), arch)
    metadata(writer, config, arch, split)
    for name, t in tensors_of(config, arch, load_file(folder / "model.safetensors"), split):
        add_tensor(writer, name, t)
    writer.write_header_to_file(); writer.write_kv_data_to_file(); writer.write_tensors_to_file(); writer.close()
    golden, logits = json.loads((folder / "golden.json").read_text()), load_file(folder / "logits.safetensors")
    prompts = [{"tokens": p["tokens"], "greedy": p["greedy"], "greedy_safe_len": len(p["greedy"])} for p in golden["prompts"]]
    (out / "golden.json").write_text(json.dumps({"name": out.name, "of": folder.name, "gguf_arch": arch,
                                                 "bf16_reference": golden.get("bf16_reference", {}),
                                                 "files": {file: {"type": "BF16", "prompts": prompts}}}))
    save_file({f"BF16.p{i}.last": logits[f"p{i}.logits"][-1].contiguous() for i in range(len(prompts))}, out / "logits.safetensors")


if __name__ == "__main__":
    for name, (source, arch, split) in WANTED.items():
        make(Path(sys.argv[1]) / "models" / source, Path(sys.argv[2]) / name, arch, split)
