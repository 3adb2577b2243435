"""GGUF files of the checkpoints that bring a layer for multi-token prediction (make_nextn.py), as llama.cpp's converters write them:
the layer is one more block, what stands around it blk.N.nextn.*, and <arch>.nextn_predict_layers counts it. The same values, so
the goldens of the checkpoint hold for the file.

    python make_gguf_nextn.py NEXTN OUT   # NEXTN/nextn-*/ -> OUT/nextn-*.gguf
"""
import json, re, sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parent))
import numpy as np
import gguf
import torch
from safetensors.torch import load_file
import goldenlib as G
import make_gguf_families as F
import make_gguf_latent as L
import make_gguf_recurrent as R

AROUND = {"eh_proj": "nextn.eh_proj", "enorm": "nextn.enorm", "hnorm": "nextn.hnorm", "shared_head.norm": "nextn.shared_head_norm",
          "shared_head.head": "nextn.shared_head_head", "embed_tokens": "nextn.embed_tokens"}
BESIDE = {"mtp.fc": "eh_proj", "mtp.pre_fc_norm_embedding": "enorm", "mtp.pre_fc_norm_hidden": "hnorm", "mtp.norm": "shared_head.norm"}
NEMOTRON = {"0.enorm": "enorm", "0.hnorm": "hnorm", "0.eh_proj": "eh_proj", "1.norm": "post_attention_layernorm", "1.final_layernorm": "shared_head.norm"}


def with_layer(config, tensors):
    """The layer's tensors under the names of a further layer of the model."""
    n = config.get("num_hidden_layers") or len(config["layers_block_type"])
    nemotron = "layers_block_type" in config
    stem = "backbone" if nemotron else "model"
    out = {}
    for name, t in tensors.items():
        whole, _, end = name.rpartition(".")
        m = re.match(r"(?:model\.)?mtp\.layers\.(\d+)\.(.*)", name)
        if whole in BESIDE:
            name = f"{stem}.layers.{n}.{BESIDE[whole]}.{end}"
        elif m and nemotron:
            known = NEMOTRON.get(f"{m[1]}.{m[2].removesuffix('.weight')}")
            name = f"{stem}.layers.{n}.{known + '.weight' if known else m[2]}"
        elif m:
            rest = m[2].replace("pre_mlp_layernorm", "post_attention_layernorm")
            name = f"{stem}.layers.{n}.{rest}"
        out[name] = t
    return n, out


def finish(writer, arch, folder, vocab):
    writer.add_uint32(f"{arch}.nextn_predict_layers", 1)
    tok = G.tiny_tokenizer(vocab)
    by_id = {i: s for s, i in tok.get_vocab().items()}
    tokens = [by_id[i] for i in range(vocab)]
    writer.add_tokenizer_model("gpt2"); writer.add_tokenizer_pre("gpt-2"); writer.add_token_list(tokens)
    writer.add_token_types([3 if i < G.N_SPECIAL else (4 if s.startswith("<extra_") else 1) for i, s in enumerate(tokens)])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in json.loads(tok.to_str())["model"]["merges"]])
    writer.add_bos_token_id(1); writer.add_eos_token_id(2); writer.add_pad_token_id(0); writer.add_add_bos_token(False)
    writer.write_header_to_file(); writer.write_kv_data_to_file(); writer.write_tensors_to_file(); writer.close()


def write_family(folder, out):
    """GLM-4.5, MiMo-V2, K-EXAONE, Cohere2-MoE: by the maker of the family's files."""
    class Maker(F.Maker):
        def __init__(self):
            super().__init__(folder, out)
            n, self.w = with_layer(self.c, self.w)
            c = self.c
            self.layers = n + 1
            kind = "sliding_attention" if self.arch == "mimo2" else "full_attention"
            for listed, more in (("layer_types", kind), ("mlp_layer_types", "sparse" if self.arch in ("glm4moe", "cohere2moe") else "dense")):
                if c.get(listed):
                    c[listed] = c[listed] + [more]
            self.map = gguf.get_tensor_name_map(F.INV[{"cohere2moe": "cohere2"}.get(self.arch, self.arch)], self.layers)

        def one(self, name, t):
            m = re.match(r"model\.layers\.(\d+)\.(.*)\.weight$", name)
            if m and m[2] in AROUND:
                return self.put(f"blk.{m[1]}.{AROUND[m[2]]}.weight", t)
            if m and m[2] == "final_layernorm":
                return self.put(f"blk.{m[1]}.layer_output_norm.weight", t)
            return super().one(name, t)

    maker = Maker()
    maker.metadata()
    maker.tensors()
    finish(maker.g, maker.arch, folder, maker.c["vocab_size"])


def write_latent(folder, out, arch):
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(str(out / (folder.name + ".gguf")), arch)
    n, tensors = with_layer(config, load_file(str(folder / "model.safetensors")))
    L.metadata(writer, {**config, "num_hidden_layers": n + 1}, arch, True)
    around = {k: tensors.pop(k) for k in list(tensors) if re.match(rf"model\.layers\.{n}\.({'|'.join(map(re.escape, AROUND))})\.weight$", k)}
    for name, t in L.tensors_of(config, arch, tensors, True):
        L.add_tensor(writer, name, t)
    for name, t in around.items():
        L.add_tensor(writer, f"blk.{n}.{AROUND[name.split('.', 3)[3].removesuffix('.weight')]}.weight", t)
    finish(writer, arch, folder, config["vocab_size"])


def write_recurrent(folder, out, arch, names, edit, keys):
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(str(out / (folder.name + ".gguf")), arch)
    n, tensors = with_layer(config, load_file(str(folder / "model.safetensors")))
    names = {**R.COMMON, **names, **AROUND}
    experts, all_ = {}, {}
    for name, t in tensors.items():
        x = t.float().numpy()
        if name in R.TOP:
            all_[R.TOP[name]] = x + 1 if name == "model.norm.weight" and arch.startswith("qwen3") else x
            continue
        m = re.match(r"(?:model|backbone)\.layers\.(\d+)\.(.*)", name)
        e = re.match(r"(.*experts)\.(\d+)\.(\w+)\.weight", m[2])
        if e:
            part = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down"}[e[3]]
            experts.setdefault((m[1], part), {})[int(e[2])] = x
            continue
        for new, y in edit(m[2], x, config):
            stem, _, end = m[2].rpartition(".")
            all_[f"blk.{m[1]}.{new or names[stem] + '.' + end}"] = y
    for (layer, part), of in experts.items():
        all_[f"blk.{layer}.ffn_{part}_exps.weight"] = np.stack([of[i] for i in range(len(of))])
    writer.add_vocab_size(config["vocab_size"]); writer.add_block_count(n + 1); writer.add_embedding_length(config["hidden_size"])
    writer.add_context_length(512); writer.add_layer_norm_rms_eps(config.get("rms_norm_eps") or config["layer_norm_epsilon"])
    for key, v in keys(config).items():
        {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}[type(v)](f"{arch}.{key}", v)
    for name, x in all_.items():
        plain = x.ndim < 2 or any(s in name for s in ("norm", "ssm_conv1d", "ssm_a", "ssm_d", "ffn_gate_inp"))
        x = np.ascontiguousarray(x.astype(np.float32))
        if plain:
            writer.add_tensor(name, x)
        else:
            writer.add_tensor(name, gguf.quants.quantize(x, gguf.GGMLQuantizationType.BF16), raw_dtype=gguf.GGMLQuantizationType.BF16)
    finish(writer, arch, folder, config["vocab_size"])


def nemotron_keys(c):
    kinds = c["layers_block_type"] + ["both"]
    return {"attention.head_count": c["num_attention_heads"], **R.head_keys(c),
            "attention.head_count_kv": [c["num_key_value_heads"] if k in ("full_attention", "both") else 0 for k in kinds],
            "feed_forward_length": [c["moe_intermediate_size"] if k in ("moe", "both") else 0 for k in kinds],
            "expert_count": c["n_routed_experts"], "expert_used_count": c["num_experts_per_tok"], "expert_feed_forward_length": c["moe_intermediate_size"],
            "expert_shared_feed_forward_length": c["moe_shared_expert_intermediate_size"], "expert_shared_count": 1, "expert_weights_norm": True,
            "expert_weights_scale": float(c["routed_scaling_factor"]), "expert_group_count": 1, "ssm.conv_kernel": c["conv_kernel"],
            "ssm.state_size": c["ssm_state_size"], "ssm.group_count": c["n_groups"], "ssm.inner_size": c["mamba_num_heads"] * c["mamba_head_dim"],
            "ssm.time_step_rank": c["mamba_num_heads"]}


def qwen_keys(c):
    kinds = c["layer_types"] + ["full_attention"]
    return {**R.qwen_keys(c), "attention.recurrent_layers": [k == "linear_attention" for k in kinds]}


if __name__ == "__main__":
    root, out = Path(sys.argv[1]), Path(sys.argv[2])
    for name in ("nextn-glm4-moe", "nextn-mimo-v2", "nextn-exaone-moe"):
        write_family(root / name, out)
    write_latent(root / "nextn-deepseek-v3", out, "deepseek2")
    write_recurrent(root / "nextn-qwen3-next", out, "qwen3next", R.QWEN, R.of_qwen(False), qwen_keys)
    write_recurrent(root / "nextn-nemotron-h", out, "nemotron_h_moe", {**R.NEMOTRON, "post_attention_layernorm": "post_attention_norm"}, R.of_nemotron, nemotron_keys)
