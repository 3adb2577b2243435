"""GGUF pairs of golden vision models, a text model and its mmproj file, as llama.cpp's converter makes them.

    python picture_ggufs.py GOLDEN_FOLDER OUT_FOLDER   # writes OUT_FOLDER/model.gguf and OUT_FOLDER/mmproj-model.gguf

Names, layouts and keys are those of its conversion/*.py. What it does not write and a golden needs, because the golden is
smaller than any published model, stands in keys that it has for others: numbers of pixels, of tiles, of layers without windows.
Tokens that stand for pictures get the names that published vocabularies have.
"""
import json
import math
import pathlib
import re
import sys

import gguf_writer as gguf
import picture_towers as towers

# --- text models: parts of names and what replaces them, one after the other ---

PREFIX = (r"^(model\.language_model\.|language_model\.model\.|model\.text_model\.|language_model\.|model\.)", "")
LAYER = (r"^(layers|blocks)\.(\d+)\.", r"blk.\2.")
ENDS = [(r"^embed_tokens", "token_embd"), (r"^lm_head", "output"), (r"^norm\.", "output_norm.")]
ATTENTION = [("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
             ("self_attn.(o|out)_proj", "attn_output"), ("self_attn.(q_norm|q_layernorm|query_layernorm)", "attn_q_norm"),
             ("self_attn.(k_norm|k_layernorm|key_layernorm)", "attn_k_norm")]
MLP = [(r"(mlp|feed_forward)\.gate_proj", "ffn_gate"), (r"(mlp|feed_forward)\.up_proj", "ffn_up"),
       (r"(mlp|feed_forward)\.down_proj", "ffn_down")]
NORMS = [("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm")]
SANDWICH = [("input_layernorm", "attn_norm"), ("post_attention_layernorm", "post_attention_norm"),
            ("pre_feedforward_layernorm", "ffn_norm"), ("post_feedforward_layernorm", "post_ffw_norm")]
GLM_NORMS = [("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"),
             ("post_self_attn_layernorm", "post_attention_norm"), ("post_mlp_layernorm", "post_ffw_norm")]
LATENT = [("self_attn.q_a_proj", "attn_q_a"), ("self_attn.q_a_layernorm", "attn_q_a_norm"), ("self_attn.q_b_proj", "attn_q_b"),
          ("self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"), ("self_attn.kv_a_layernorm", "attn_kv_a_norm")]
EXPERTS = [(r"mlp\.gate\.e_score_correction_bias", "exp_probs_b.bias"), (r"mlp\.gate\.", "ffn_gate_inp."), (r"feed_forward\.router", "ffn_gate_inp"),
           (r"(mlp|block_sparse_moe)\.shared_experts\.(\w+)_proj", r"ffn_\2_shexp"), (r"feed_forward\.shared_expert\.(\w+)_proj", r"ffn_\1_shexp"),
           (r"block_sparse_moe\.e_score_correction_bias", "exp_probs_b.bias"), (r"block_sparse_moe\.gate\.", "ffn_gate_inp.")]
DELTA = [("linear_attn.norm", "ssm_norm"), ("linear_attn.in_proj_qkv", "attn_qkv"), ("linear_attn.in_proj_z", "attn_gate"),
         ("linear_attn.in_proj_b", "ssm_beta"), ("linear_attn.in_proj_a", "ssm_alpha"), ("linear_attn.out_proj", "ssm_out"),
         ("linear_attn.conv1d", "ssm_conv1d"), ("linear_attn.A_log", "ssm_a"), ("linear_attn.dt_bias", "ssm_dt.bias"),
         ("post_attention_layernorm", "post_attention_norm")]
LFM2 = [("embedding_norm", "token_embd_norm"), ("operator_norm", "attn_norm"), ("conv.conv.", "shortconv.conv."),
        ("conv.in_proj", "shortconv.in_proj"), ("conv.out_proj", "shortconv.out_proj"), ("feed_forward.w1", "ffn_gate"),
        ("feed_forward.w3", "ffn_up"), ("feed_forward.w2", "ffn_down")]
INDEX = [(r"self_attn\.index_([qk])_(proj|norm)", r"indexer.\1_\2")]


def renamed(name, rules):
    for pattern, to in rules:
        name = re.sub(pattern, to, name)
    return name


class Text:
    """One text model while it is written."""

    def __init__(self, folder, recipe):
        self.whole = json.loads((folder / "config.json").read_text())
        self.config = c = {**self.whole, **self.whole.get("text_config", {})}
        self.arch = recipe["text"]
        self.heads, self.kv = c["num_attention_heads"], c.get("num_key_value_heads") or c["num_attention_heads"]
        self.dim = c.get("head_dim") or c["hidden_size"] // self.heads
        self.layers = c["num_hidden_layers"]
        self.rope = c.get("rope_parameters") or {"rope_theta": c.get("rope_theta", 10000.0), **(c.get("rope_scaling") or {})}
        self.keys, self.tensors = {"general.architecture": self.arch}, {}

    def key(self, name, value):
        self.keys[f"{self.arch}.{name}"] = value

    def common_keys(self):
        c, rope = self.config, self.rope.get("full_attention", self.rope)
        self.key("block_count", self.layers)
        self.key("context_length", c["max_position_embeddings"])
        self.key("embedding_length", c["hidden_size"])
        self.key("feed_forward_length", c.get("intermediate_size_mlp") or c.get("dense_intermediate_size") or c["intermediate_size"])
        self.key("attention.head_count", self.heads)
        self.key("attention.head_count_kv", self.kv)
        self.key("attention.key_length", self.dim)
        self.key("attention.value_length", self.dim)
        self.key("attention.layer_norm_rms_epsilon", float(c.get("rms_norm_eps") or c["norm_eps"]))
        self.key("rope.freq_base", float(rope["rope_theta"]))
        if rope.get("partial_rotary_factor") and rope.get("rope_type") != "proportional":
            self.key("rope.dimension_count", int(rope["partial_rotary_factor"] * self.dim))
        sections = rope.get("mrope_section")
        if sections:
            self.key("rope.dimension_sections", (sections + [0])[:4])

    def put(self, name, t):
        self.tensors[name] = t.reshaped(*t.shape) if t.shape else t

    def paired(self, t, heads):
        dim = t.shape[0] // heads
        return t.rows([h * dim + half * dim // 2 + i for h in range(heads) for i in range(dim // 2) for half in (0, 1)])

    def unpaired(self, t, heads, turned):
        dim = t.shape[0] // heads
        order = list(range(0, turned, 2)) + list(range(1, turned, 2)) + list(range(turned, dim))
        return t.rows([h * dim + i for h in range(heads) for i in order])

    def experts(self, tensors):
        """Experts of a tensor each become one tensor of all."""
        lists = {}
        for name in [n for n in tensors if re.search(r"\.experts\.\d+\.", n)]:
            stem, number, part = re.match(r"(.*)\.experts\.(\d+)\.(\w+)\.weight", name).groups()
            part = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w2": "down", "w3": "up"}[part]
            blk = renamed(stem, [PREFIX, LAYER]).rsplit(".", 1)[0]
            lists.setdefault(f"{blk}.ffn_{part}_exps.weight", {})[int(number)] = tensors.pop(name)
        for name, of in lists.items():
            self.put(name, gguf.stacked([of[i] for i in range(len(of))]))

    def write(self, tensors, rules, change, tokens, path):
        self.experts(tensors)
        for name, t in tensors.items():
            if name.startswith("lm_head") and self.config.get("tie_word_embeddings"):
                continue
            for new, part in change(self, renamed(name, [PREFIX, LAYER, *rules, *ENDS]), t):
                self.put(new, part)
        self.keys.update(tokens)
        gguf.write(path, self.keys, self.tensors)


def as_it_is(text, name, t):
    yield name, t


def in_pairs(text, name, t):
    if ".attn_q." in name or ".attn_k." in name:
        t = text.paired(t, text.heads if ".attn_q." in name else text.kv)
    yield name, t


def glm(text, name, t):
    if ".attn_q." in name or ".attn_k." in name:
        turned = int(text.rope.get("partial_rotary_factor", 0.5 if text.whole["model_type"] == "glm4v" else 1) * text.dim)
        t = text.unpaired(t, text.heads if ".attn_q." in name else text.kv, turned)
    yield name.replace("mlp.gate_up_proj", "ffn_up"), t


def plus_one(text, name, t):
    yield name, t.mapped(lambda x: x + 1) if name.endswith("norm.weight") else t


def gemma4(text, name, t):
    first_shared = text.layers - text.config.get("num_kv_shared_layers", 0)
    layer = re.match(r"blk\.(\d+)\.", name)
    if layer and int(layer[1]) >= first_shared and re.search(r"attn_[kv](_norm)?\.", name):
        return
    for old, new in (("layer_scalar", "layer_output_scale.weight"), ("post_per_layer_input_norm", "post_norm"), ("per_layer_input_gate", "inp_gate"),
                     ("per_layer_projection.", "proj."), ("embed_tokens_per_layer", "per_layer_token_embd"), ("token_embd_per_layer", "per_layer_token_embd"),
                     ("per_layer_model_projection", "per_layer_model_proj"), ("per_layer_projection_norm", "per_layer_proj_norm")):
        name = name.replace(old, new)
    yield name, t


def qwen_experts(text, name, t):
    if name.endswith("mlp.experts.gate_up_proj"):
        t, blk, half = t.moved(1, 0, 2), name.split("mlp.")[0], t.shape[1] // 2
        for part, begin in (("gate", 0), ("up", half)):
            yield f"{blk}ffn_{part}_exps.weight", t.part(begin, begin + half).moved(1, 0, 2)
    elif name.endswith("mlp.experts.down_proj"):
        yield name.replace("mlp.experts.down_proj", "ffn_down_exps.weight"), t
    else:
        yield name, t


def llama4(text, name, t):
    if name.endswith("experts.gate_up_proj"):
        t, blk, half = t.moved(2, 0, 1), name.split("feed_forward.")[0], t.shape[2] // 2
        for part, begin in (("gate", 0), ("up", half)):
            yield f"{blk}ffn_{part}_exps.weight", t.part(begin, begin + half).moved(1, 0, 2)
    elif name.endswith("experts.down_proj"):
        yield name.replace("feed_forward.experts.down_proj", "ffn_down_exps.weight"), t.moved(0, 2, 1)
    else:
        yield name, t


def lfm2(text, name, t):
    yield name, t.reshaped(t.shape[0], t.shape[2]) if "shortconv.conv" in name else t


def by_turns(t, keys, each, width, skipped=0):
    """Value heads of a key head, side by side, become `keys` apart."""
    rest = [skipped + (k * each + e) * width + i for e in range(each) for k in range(keys) for i in range(width)]
    return t.rows(list(range(skipped)) + rest)


def qwen35(text, name, t):
    c = text.config
    keys, width = c["linear_num_key_heads"], c["linear_value_head_dim"]
    each, before = c["linear_num_value_heads"] // keys, 2 * keys * c["linear_key_head_dim"]
    stem = name.split(".")[-2] if name.endswith((".weight", ".bias")) else name.split(".")[-1]
    if stem == "ssm_conv1d":
        t = by_turns(t.reshaped(t.shape[0], t.shape[2]), keys, each, width, before)
    elif stem == "attn_qkv":
        t = by_turns(t, keys, each, width, before)
    elif stem == "attn_gate":
        t = by_turns(t, keys, each, width)
    elif stem in ("ssm_alpha", "ssm_beta", "ssm_dt"):
        t = by_turns(t, keys, each, 1)
    elif stem == "ssm_a":
        t = by_turns(t.mapped(lambda x: -math.exp(x)), keys, each, 1)
    elif stem == "ssm_out":
        t = by_turns(t.moved(1, 0), keys, each, width).moved(1, 0)
    elif stem.endswith("norm") and stem != "ssm_norm":
        t = t.mapped(lambda x: x + 1)
    yield name, t


def deepseek(text, name, t):
    if not name.endswith("kv_b_proj.weight"):
        yield name, t
        return
    c, heads = text.config, text.heads
    plain, value = c["qk_nope_head_dim"], c["v_head_dim"]
    both, blk = t.reshaped(heads, plain + value, t.shape[1]).moved(1, 0, 2), name.split("self_attn")[0]
    yield blk + "attn_k_b.weight", both.part(0, plain).moved(1, 2, 0)
    yield blk + "attn_v_b.weight", both.part(plain, plain + value).moved(1, 0, 2)


# --- further keys of text models ---

def gemma3_keys(text):
    text.key("attention.sliding_window", text.config["sliding_window"])
    text.key("rope.freq_base_swa", float(text.config["rope_local_base_freq"]))
    every = text.config["sliding_window_pattern"]
    text.key("attention.sliding_window_pattern", [(i + 1) % every != 0 for i in range(text.layers)])


def gemma4_keys(text):
    c = text.config
    full = next(iter(c["per_layer_config"].values()))["head_dim"]
    text.key("attention.sliding_window", c["sliding_window"])
    text.key("attention.sliding_window_pattern", [t == "sliding_attention" for t in c["layer_types"]])
    text.key("rope.freq_base_swa", float(text.rope["sliding_attention"]["rope_theta"]))
    text.key("attention.shared_kv_layers", c.get("num_kv_shared_layers", 0))
    text.key("embedding_length_per_layer_input", c.get("hidden_size_per_layer_input") or 0)
    if c.get("final_logit_softcapping"):
        text.key("final_logit_softcapping", float(c["final_logit_softcapping"]))
    for name, value in (("attention.key_length", full), ("attention.value_length", full), ("attention.key_length_swa", text.dim),
                        ("attention.value_length_swa", text.dim), ("rope.dimension_count", full), ("rope.dimension_count_swa", text.dim)):
        text.key(name, value)
    own = c["per_layer_config"]
    text.key("attention.head_count_kv", [own.get(str(i), {}).get("num_key_value_heads", text.kv) for i in range(text.layers)])
    n = int(full * text.rope["full_attention"]["partial_rotary_factor"] / 2)
    text.put("rope_freqs.weight", gguf.Tensor([full // 2], gguf.array.array("f", [1.0] * n + [1e30] * (full // 2 - n))))


def deepstack_keys(text):
    text.key("n_deepstack_layers", len(text.whole["vision_config"].get("deepstack_visual_indexes", [])))


def expert_keys(text):
    c = text.config
    text.key("expert_count", c.get("num_experts") or c.get("num_local_experts") or c["n_routed_experts"])
    text.key("expert_used_count", c["num_experts_per_tok"])
    text.key("expert_feed_forward_length", c.get("moe_intermediate_size") or c["intermediate_size"])


def qwen3_moe_keys(text):
    expert_keys(text)
    deepstack_keys(text)


def llama4_keys(text):
    expert_keys(text)
    text.key("interleave_moe_layer_step", text.config["interleave_moe_layer_step"])
    text.key("rope.dimension_count", text.dim)


def lfm2_keys(text):
    text.key("attention.head_count_kv", [text.kv if t == "full_attention" else 0 for t in text.config["layer_types"]])
    text.key("shortconv.l_cache", text.config["conv_L_cache"])
    text.key("vocab_size", text.config["vocab_size"])


def qwen35_keys(text):
    c = text.config
    for name, value in (("ssm.conv_kernel", c["linear_conv_kernel_dim"]), ("ssm.state_size", c["linear_key_head_dim"]),
                        ("ssm.group_count", c["linear_num_key_heads"]), ("ssm.time_step_rank", c["linear_num_value_heads"]),
                        ("ssm.inner_size", c["linear_num_value_heads"] * c["linear_value_head_dim"]), ("full_attention_interval", 4)):
        text.key(name, value)


def deepseek_keys(text):
    c = text.config
    expert_keys(text)
    head = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
    for name, value in (("attention.head_count_kv", 1), ("attention.q_lora_rank", c["q_lora_rank"]), ("attention.kv_lora_rank", c["kv_lora_rank"]),
                        ("rope.dimension_count", c["qk_rope_head_dim"]), ("attention.key_length", c["kv_lora_rank"] + c["qk_rope_head_dim"]),
                        ("attention.value_length", c["kv_lora_rank"]), ("attention.key_length_mla", head), ("attention.value_length_mla", c["v_head_dim"]),
                        ("expert_shared_count", c["n_shared_experts"]), ("expert_weights_scale", float(c["routed_scaling_factor"])),
                        ("expert_weights_norm", c["norm_topk_prob"]), ("expert_gating_func", 2), ("leading_dense_block_count", c["first_k_dense_replace"]),
                        ("expert_group_count", c["n_group"]), ("expert_group_used_count", c["topk_group"]), ("vocab_size", c["vocab_size"])):
        text.key(name, value)


def minimax_keys(text):
    c = text.config
    expert_keys(text)
    sparse = c.get("sparse_attention_config") or {}
    at = lambda new, old: c[new] if new in c else sparse[old]
    for name, value in (("rope.dimension_count", c.get("rotary_dim") or int(text.rope["partial_rotary_factor"] * text.dim)), ("expert_shared_count", c.get("n_shared_experts", 1)),
                        ("expert_weights_scale", float(c["routed_scaling_factor"])), ("expert_weights_norm", True), ("expert_gating_func", 2),
                        ("attention.indexer.head_count", at("index_n_heads", "sparse_num_index_heads")), ("attention.indexer.key_length", at("index_head_dim", "sparse_index_dim")),
                        ("attention.indexer.top_k", at("index_topk_blocks", "sparse_topk_blocks")), ("attention.indexer.block_size", at("index_block_size", "sparse_block_size")),
                        ("attention.indexer.local_blocks", at("index_local_blocks", "sparse_local_block"))):
        text.key(name, value)
    dense = c.get("mlp_layer_types")
    text.key("leading_dense_block_count", dense.count("dense") if dense else c["moe_layer_freq"].count(0))


TEXTS = {  # GGUF architecture: rules of names, how tensors change, further keys
    "llama": (ATTENTION + MLP + NORMS, in_pairs, None), "qwen2": (ATTENTION + MLP + NORMS, as_it_is, None),
    "qwen2vl": (ATTENTION + MLP + NORMS, as_it_is, None), "qwen3": (ATTENTION + MLP + NORMS, as_it_is, None),
    "qwen3vl": (ATTENTION + MLP + NORMS, as_it_is, deepstack_keys), "qwen3vlmoe": (EXPERTS + ATTENTION + MLP + NORMS, qwen_experts, qwen3_moe_keys),
    "qwen35": (DELTA + ATTENTION + MLP + NORMS, qwen35, qwen35_keys), "gemma3": (ATTENTION + MLP + SANDWICH, plus_one, gemma3_keys),
    "gemma4": (ATTENTION + MLP + SANDWICH, gemma4, gemma4_keys), "glm4": (ATTENTION + MLP + GLM_NORMS, glm, None),
    "llama4": (EXPERTS + ATTENTION + MLP + NORMS, llama4, llama4_keys), "lfm2": (LFM2 + ATTENTION + NORMS, lfm2, lfm2_keys),
    "deepseek2": (EXPERTS + LATENT + ATTENTION + MLP + NORMS, deepseek, deepseek_keys),
    "minimax-m3": (EXPERTS + INDEX + ATTENTION + MLP + NORMS, plus_one, minimax_keys),
    "paddleocr": (ATTENTION + MLP + NORMS, as_it_is, None), "hunyuan_vl": (ATTENTION + MLP + NORMS, as_it_is, None),
}


def vocabulary_of(folder, size, names):
    """The tokenizer's keys; `names`: what some tokens are called instead, by id or by name."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    tokens, kinds = [f"[PAD{i}]" for i in range(size)], [5] * size
    for token, id in tokenizer["model"]["vocab"].items():
        tokens[id], kinds[id] = token, 1
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]], kinds[added["id"]] = added["content"], 3 if added["special"] else 4
    names = {tokens.index(id) if isinstance(id, str) else id: name for id, name in names.items()}
    for id, name in names.items():
        tokens[id], kinds[id] = name, 3
    merges, known = (m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]), set(tokens)
    merges = [m for m in merges if known.issuperset(m.split(" ") + [m.replace(" ", "")])]
    keys = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds}
    if merges:
        keys["tokenizer.ggml.merges"] = merges
    for key, name in (("bos", "bos_token"), ("eos", "eos_token"), ("padding", "pad_token")):
        if config.get(name) in tokens:
            keys[f"tokenizer.ggml.{key}_token_id"] = tokens.index(config[name])
    keys["tokenizer.ggml.add_bos_token"] = bool(config.get("add_bos_token"))
    template = config.get("chat_template")
    if template:
        for id, name in names.items():  # templates write what the golden's vocabulary has
            old = next((a["content"] for a in tokenizer["added_tokens"] if a["id"] == id), None)
            template = template.replace(old, name) if old else template
        keys["tokenizer.chat_template"] = template
    return keys


def make(folder, out):
    """The pair of a golden; its paths."""
    folder, out = pathlib.Path(folder), pathlib.Path(out)
    recipe = towers.RECIPES[folder.name]
    tensors = gguf.load(folder / "model.safetensors")
    is_text = lambda name: re.match(r"(model\.)?(language_model|text_model)\.|lm_head|model\.(layers|embed_tokens|norm)", name)
    text = Text(folder, recipe)
    text.common_keys()
    rules, change, further = TEXTS[recipe["text"]]
    if further:
        further(text)
    tokens = vocabulary_of(folder, text.config["vocab_size"], recipe["tokens"])
    paths = out / "model.gguf", out / "mmproj-model.gguf"
    text.write({n: t for n, t in tensors.items() if is_text(n)}, rules, change, tokens, paths[0])
    towers.write(folder, recipe, {n: t for n, t in tensors.items() if not is_text(n)}, paths[1])
    return paths


if __name__ == "__main__":
    print(*make(*sys.argv[1:3]))
