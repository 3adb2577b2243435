"""GGUF files of goldens of Kimi Linear and Qwen4-Exp, with the names and weights of llama.cpp's converter (its
conversion/kimi_linear.py and qwen4exp.py). Needs numpy and gguf.

    python make_gguf_hybrids.py GOLDEN_FOLDER... OUT_FOLDER   # GOLDEN_FOLDER/config.json -> OUT_FOLDER/<name>.gguf
"""
import json
import re
import struct
import sys
from pathlib import Path

import gguf
import numpy as np

BF16 = gguf.GGMLQuantizationType.BF16


def load(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header, out = json.loads(raw[8:8 + size]), {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        data = raw[8 + size + begin:8 + size + end]
        if entry["dtype"] == "I64":
            values = np.frombuffer(data, np.int64)
        elif entry["dtype"] == "BF16":
            values = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(data, np.float32)
        out[name] = values.reshape(entry["shape"])
    return out


def by_turns(x, dim, groups, each, width):
    """Value heads of a key head, side by side, become `groups` apart."""
    shape = list(x.shape)
    y = x.reshape(shape[:dim] + [groups, each, width] + shape[dim + 1:])
    return np.ascontiguousarray(np.swapaxes(y, dim, dim + 1)).reshape(shape)


class File:
    def __init__(self, folder, out, arch):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = load(folder / "model.safetensors")
        self.arch = arch
        self.writer = gguf.GGUFWriter(str(out / (folder.name + ".gguf")), arch)
        c = self.config
        for key, value in {"vocab_size": c["vocab_size"], "block_count": c["num_hidden_layers"], "embedding_length": c["hidden_size"],
                           "context_length": 512, "attention.head_count": c["num_attention_heads"], "expert_count": c["num_experts"],
                           "attention.layer_norm_rms_epsilon": float(c["rms_norm_eps"])}.items():
            self.key(key, value)
        self.writer.add_tokenizer_model("gpt2")
        self.writer.add_token_list([f"t{i}" for i in range(c["vocab_size"])])

    def key(self, name, value):
        name = f"{self.arch}.{name}"
        if isinstance(value, bool):
            self.writer.add_bool(name, value)
        elif isinstance(value, int):
            self.writer.add_uint32(name, value)
        elif isinstance(value, float):
            self.writer.add_float32(name, value)
        elif max(value) >= 1 << 31:
            self.writer.add_key_value(name, value, gguf.GGUFValueType.ARRAY, sub_type=gguf.GGUFValueType.UINT64)
        else:
            self.writer.add_array(name, value)

    def put(self, name, x, exact=False):
        x = np.ascontiguousarray(x.astype(np.float32))
        if exact or x.ndim < 2 or "norm" in name or "conv1d" in name:
            self.writer.add_tensor(name, x)
        else:
            self.writer.add_tensor(name, gguf.quants.quantize(x, BF16), raw_dtype=BF16)

    def close(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()

    def experts(self):
        """Experts of a tensor each, put together; gives the other tensors."""
        found, rest = {}, {}
        for name, x in self.weights.items():
            m = re.match(r"model\.layers\.(\d+)\..*experts\.(\d+)\.(\w+)\.weight", name)
            if not m:
                rest[name] = x
                continue
            part = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w2": "down", "w3": "up"}[m[3]]
            found.setdefault((m[1], part), {})[int(m[2])] = x
        for (layer, part), of in found.items():
            self.put(f"blk.{layer}.ffn_{part}_exps.weight", np.stack([of[i] for i in range(len(of))]))
        return rest


TOP = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}


def kimi_linear(folder, out):
    f = File(folder, out, "kimi-linear")
    c = f.config
    dims = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    f.key("attention.head_count_kv", [0 if t == "linear_attention" else 1 for t in c["layer_types"]])
    f.key("ssm.conv_kernel", c["linear_conv_kernel_dim"])
    f.key("kda.head_dim", c["linear_head_dim"])
    f.key("attention.kv_lora_rank", c["kv_lora_rank"])
    if c.get("q_lora_rank"):
        f.key("attention.q_lora_rank", c["q_lora_rank"])
    f.key("rope.dimension_count", dims[1])
    f.key("attention.key_length", c["kv_lora_rank"] + dims[1])
    f.key("attention.key_length_mla", dims[0] + dims[1])
    f.key("attention.value_length_mla", dims[2])
    f.key("feed_forward_length", c["intermediate_size"])
    f.key("expert_feed_forward_length", c["moe_intermediate_size"])
    f.key("expert_used_count", c["num_experts_per_token"])
    f.key("expert_shared_count", c["num_shared_experts"])
    f.key("expert_gating_func", 2)
    f.key("leading_dense_block_count", c["mlp_layer_types"].count("dense"))
    f.key("expert_weights_scale", float(c["routed_scaling_factor"]))
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
             "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.o_norm": "ssm_norm",
             "self_attn.b_proj": "ssm_beta", "self_attn.f_a_proj": "ssm_f_a", "self_attn.f_b_proj": "ssm_f_b", "self_attn.g_a_proj": "ssm_g_a",
             "self_attn.g_b_proj": "ssm_g_b", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    for part in ("gate", "up", "down"):
        names[f"block_sparse_moe.{part}_proj"] = f"ffn_{part}"
        names[f"block_sparse_moe.shared_experts.{part}_proj"] = f"ffn_{part}_shexp"
    names["block_sparse_moe.gate"] = "ffn_gate_inp"
    for name, x in f.experts().items():
        if name in TOP:
            f.put(TOP[name], x)
            continue
        layer, rest = re.match(r"model\.layers\.(\d+)\.(.*)", name).groups()
        blk = f"blk.{layer}."
        if rest.endswith("A_log"):
            f.put(blk + "ssm_a", -np.exp(x).reshape(1, 1, -1, 1), True)
        elif rest.endswith("dt_bias"):
            f.put(blk + "ssm_dt.bias", x)
        elif m := re.match(r"self_attn\.([qkv])_conv1d\.weight", rest):
            f.put(blk + f"ssm_conv1d_{m[1]}.weight", x.reshape(1, x.shape[0], 1, x.shape[-1]))
        elif rest.endswith("e_score_correction_bias"):
            f.put(blk + "exp_probs_b.bias", x)
        elif rest.endswith("kv_b_proj.weight"):
            both = x.reshape(c["num_attention_heads"], dims[0] + dims[2], -1)
            f.put(blk + "attn_k_b.weight", both[:, :dims[0]].swapaxes(1, 2))
            f.put(blk + "attn_v_b.weight", both[:, dims[0]:])
        else:
            stem, ending = rest.rsplit(".", 1)
            f.put(blk + names[stem] + "." + ending, x, "ffn_gate_inp" in names[stem])
    f.close()


def primes(least, count):
    out, n = [], least - 1
    while len(out) < count:
        n += 1
        if n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1)):
            out.append(n)
    return out


def qwen4exp(folder, out):
    f = File(folder, out, "qwen4exp")
    c, w = f.config, f.weights
    keys, values = c["linear_num_key_heads"], c["linear_num_value_heads"]
    width, each = c["linear_value_head_dim"], c["linear_num_value_heads"] // c["linear_num_key_heads"]
    f.key("attention.head_count_kv", c["num_key_value_heads"])
    f.key("attention.key_length", c["head_dim"])
    f.key("attention.value_length", c["head_dim"])
    f.key("rope.freq_base", float(c["rope_parameters"]["rope_theta"]))
    f.key("rope.dimension_count", int(c["head_dim"] * c["rope_parameters"].get("partial_rotary_factor", 1.0)))
    f.key("rope.dimension_sections", (c["rope_parameters"].get("mrope_section", [1, 1, 0]) + [0])[:4])
    f.key("expert_used_count", c["num_experts_per_tok"])
    f.key("expert_feed_forward_length", c["moe_intermediate_size"])
    f.key("expert_shared_feed_forward_length", c["shared_expert_intermediate_size"])
    f.key("ssm.conv_kernel", c["linear_conv_kernel_dim"])
    f.key("ssm.state_size", c["linear_key_head_dim"])
    f.key("ssm.group_count", keys)
    f.key("ssm.time_step_rank", values)
    f.key("ssm.inner_size", values * width)
    f.key("full_attention_interval", 4)
    f.key("hyper_connection.count", c["hc_count"])
    f.key("hyper_connection.low_rank", c["hc_lowrank"])
    f.key("attention.indexer.head_count", c["indexer_n_heads"])
    f.key("attention.indexer.key_length", c["indexer_head_dim"])
    f.key("attention.indexer.top_k", c["indexer_budget"])
    f.key("attention.compress_ratios", [0 if t == "linear_attention" else c["indexer_compress_ratio"] for t in c["layer_types"]])
    layers = [i - 1 for i in c["ple_layer_ids"]]
    if layers:
        heads, longest = (c["ngram_size"] - 1) * c["heads_per_ngram"], c["ngram_size"]
        sizes = primes(c["ngram_vocab_size_base"], heads)
        f.key("ple.layers", layers)
        f.key("ple.ngram_size", longest)
        f.key("ple.heads_per_ngram", c["heads_per_ngram"])
        f.key("ple.conv_kernel", c["ple_conv_kernel_size"])
        f.key("ple.eos_token_id", c["eos_token_id"])
        f.key("embedding_length_per_layer_input", c["ple_embed_dim"] // heads)
        stem = f"model.layers.{layers[0]}.ple.ple_embedding."
        f.key("ple.layer_multipliers", [int(x) for x in w[stem + "layer_multipliers"]])
        f.key("ple.head_offsets", [sum(sizes[:i]) for i in range(heads)])
        f.key("ple.head_vocab_sizes", sizes)
        shards = sorted((n for n in w if ".ngram_embedding.shard_" in n), key=lambda n: int(n.split("shard_")[1].split(".")[0]))
        f.put("per_layer_token_embd.weight", np.concatenate([w[n] for n in shards]))
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate": "ffn_gate_inp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "ple.key_proj": "ple_key", "ple.value_proj": "ple_value",
             "linear_attn.norm": "ssm_norm", "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
             "linear_attn.in_proj_b": "ssm_beta", "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.out_proj": "ssm_out"}
    plus_one = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "self_attn.indexer.q_layernorm": "indexer.q_norm",
                "self_attn.indexer.k_layernorm": "indexer.k_norm", "ple.norm_key": "ple_norm_key", "ple.norm_query": "ple_norm_query",
                "ple.norm_conv": "ple_norm_conv"}
    for part in ("gate", "up", "down"):
        names[f"mlp.shared_expert.{part}_proj"] = f"ffn_{part}_shexp"
    mixers = {"attn_hyper_connection": "hc_attn_", "mlp_hyper_connection": "hc_ffn_", "model.hyper_connection_mixer": "output_hc_"}
    parts = {"hc_norm": "norm", "input_mix_weight_down": "down", "input_mix_weight_up": "up", "block_inject_weight": "inject"}
    for name, x in f.experts().items():
        if name in TOP:
            f.put(TOP[name], x)
            continue
        m = re.match(r"model\.layers\.(\d+)\.(.*)", name)
        blk, rest = (f"blk.{m[1]}.", m[2]) if m else ("", name)
        stem = rest.rsplit(".", 1)[0]
        if ".ple_embedding." in rest:
            continue
        if stem.rsplit(".", 1)[0] in mixers:
            of, part = stem.rsplit(".", 1)
            f.put(blk + mixers[of] + parts[part] + ".weight", x + 1 if part == "hc_norm" else x)
        elif stem in plus_one:
            f.put(blk + plus_one[stem] + ".weight", x + 1)
        elif rest == "self_attn.indexer.index_qk_proj.weight":
            n = c["indexer_n_heads"] * c["indexer_head_dim"]
            f.put(blk + "indexer.q_proj.weight", x[:n])
            f.put(blk + "indexer.k_proj.weight", x[n:])
        elif rest == "ple.conv1d.weight":
            f.put(blk + "ple_conv1d.weight", x.squeeze())
        elif rest.endswith("A_log"):
            f.put(blk + "ssm_a", by_turns(-np.exp(x), 0, keys, each, 1))
        elif rest.endswith("dt_bias"):
            f.put(blk + "ssm_dt.bias", by_turns(x, 0, keys, each, 1))
        elif rest == "linear_attn.conv1d.weight":
            q = 2 * keys * c["linear_key_head_dim"]
            x = x.squeeze()
            f.put(blk + "ssm_conv1d.weight", np.concatenate([x[:q], by_turns(x[q:], 0, keys, each, width)]))
        elif rest == "linear_attn.in_proj_qkv.weight":
            q = 2 * keys * c["linear_key_head_dim"]
            f.put(blk + "attn_qkv.weight", np.concatenate([x[:q], by_turns(x[q:], 0, keys, each, width)]))
        elif rest == "linear_attn.in_proj_z.weight":
            f.put(blk + "attn_gate.weight", by_turns(x, 0, keys, each, width))
        elif rest in ("linear_attn.in_proj_a.weight", "linear_attn.in_proj_b.weight"):
            f.put(blk + names[stem] + ".weight", by_turns(x, 0, keys, each, 1))
        elif rest == "linear_attn.out_proj.weight":
            f.put(blk + "ssm_out.weight", by_turns(x, 1, keys, each, width))
        else:
            f.put(blk + names[stem] + "." + rest.rsplit(".", 1)[1], x, names[stem].startswith("ffn_gate_inp"))
    f.close()


if __name__ == "__main__":
    out = Path(sys.argv[-1])
    out.mkdir(exist_ok=True)
    makers = {"KimiLinearForCausalLM": kimi_linear, "Qwen4ExpForCausalLM": qwen4exp}
    for folder in map(Path, sys.argv[1:-1]):
        makers[json.loads((folder / "config.json").read_text())["architectures"][0]](folder, out)
        print("made", folder.name)
