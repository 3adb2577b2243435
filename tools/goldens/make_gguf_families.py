"""GGUF files of golden checkpoints, with names and weights changed as llama.cpp's converter changes them (facts from its
conversion/*.py; names from gguf-py's tensor map). Weights stay BF16 or F32, so the checkpoint's own logits hold.

    python make_gguf_families.py GOLDEN_FOLDER... OUT_FOLDER   # GOLDEN_FOLDER/config.json -> OUT_FOLDER/<name>.gguf
"""
import json, math, re, sys
from pathlib import Path
import gguf, torch
from safetensors.torch import load_file

A = gguf.MODEL_ARCH
INV = {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}
ARCH = {"CohereForCausalLM": "command-r", "Cohere2ForCausalLM": "cohere2", "Cohere2MoeForCausalLM": "cohere2moe", "Glm4ForCausalLM": "glm4", "Glm4MoeForCausalLM": "glm4moe",
        "SolarOpenForCausalLM": "glm4moe", "OlmoForCausalLM": "olmo", "OlmoeForCausalLM": "olmoe", "Olmo2ForCausalLM": "olmo2", "Olmo3ForCausalLM": "olmo2", "NemotronForCausalLM": "nemotron",
        "Exaone4ForCausalLM": "exaone4", "ExaoneMoeForCausalLM": "exaone-moe", "FalconForCausalLM": "falcon", "BloomForCausalLM": "bloom", "MptForCausalLM": "mpt",
        "GPTBigCodeForCausalLM": "starcoder", "PhiForCausalLM": "phi2", "Phi3ForCausalLM": "phi3", "PhimoeForCausalLM": "phimoe", "StableLmForCausalLM": "stablelm", "DbrxForCausalLM": "dbrx",
        "GPTNeoXForCausalLM": "gptneox", "GPT2LMHeadModel": "gpt2", "Jais2ForCausalLM": "jais2", "Dots1ForCausalLM": "dots1", "AfmoeForCausalLM": "afmoe",
        "Ernie4_5ForCausalLM": "ernie4_5", "Ernie4_5_MoeForCausalLM": "ernie4_5-moe", "HunYuanDenseV1ForCausalLM": "hunyuan-dense", "HunYuanMoEV1ForCausalLM": "hunyuan-moe",
        "Llama4ForCausalLM": "llama4", "MiMoV2FlashForCausalLM": "mimo2", "MiniMaxM2ForCausalLM": "minimax-m2", "Ministral3ForCausalLM": "mistral3", "GraniteForCausalLM": "granite",
        "GemmaForCausalLM": "gemma", "Gemma2ForCausalLM": "gemma2", "Gemma3ForCausalLM": "gemma3", "Gemma3nForCausalLM": "gemma3n", "Gemma4ForCausalLM": "gemma4", "Gemma4UnifiedForCausalLM": "gemma4",
        "Qwen2MoeForCausalLM": "qwen2moe", "SeedOssForCausalLM": "seed_oss", "SmolLM3ForCausalLM": "smollm3", "ApertusForCausalLM": "apertus", "ArceeForCausalLM": "arcee",
        "Starcoder2ForCausalLM": "starcoder2", "GptOssForCausalLM": "gpt-oss", "LlamaForCausalLM": "llama", "MistralForCausalLM": "llama", "MixtralForCausalLM": "llama"}
PERMUTED = {"llama", "granite", "smollm3", "arcee", "mistral3", "olmo", "apertus"}
PLUS_ONE = {"gemma", "gemma2", "gemma3", "nemotron"}


class Maker:
    def __init__(self, folder, out):
        self.c = json.loads((folder / "config.json").read_text())
        self.w = load_file(str(folder / "model.safetensors"))
        self.arch = ARCH[self.c["architectures"][0]]
        self.g = gguf.GGUFWriter(str(out / (folder.name + ".gguf")), self.arch)
        c = self.c
        get = lambda *names, d=None: next((c[n] for n in names if c.get(n) is not None), d)
        self.get = get
        self.hidden = get("hidden_size", "n_embd", "d_model")
        self.layers = get("num_hidden_layers", "n_layer", "n_layers", "num_layers")
        self.heads = get("num_attention_heads", "n_head", "n_heads", "num_heads")
        self.kv = get("num_key_value_heads", d=self.heads)
        self.dim = get("head_dim", d=self.hidden // self.heads)
        known = {"cohere2moe": "cohere2"}.get(self.arch, self.arch)
        self.map = gguf.get_tensor_name_map(INV[known], self.layers)
        self.rope = c.get("rope_parameters") or dict(c.get("rope_scaling") or {}, rope_theta=get("rope_theta", "rotary_emb_base", d=10000.0))
        self.full = self.rope.get("full_attention", self.rope)
        self.swa = self.rope.get("sliding_attention")

    def key(self, name, v):
        k = f"{self.arch}.{name}"
        if isinstance(v, bool): self.g.add_bool(k, v)
        elif isinstance(v, int): self.g.add_uint32(k, v)
        elif isinstance(v, float): self.g.add_float32(k, v)
        elif isinstance(v, str): self.g.add_string(k, v)
        else: self.g.add_array(k, v)

    def metadata(self):
        c, get, key = self.c, self.get, self.key
        key("block_count", self.layers); key("context_length", get("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", d=2048)); key("embedding_length", self.hidden)
        inner = get("intermediate_size_mlp", "prefix_dense_intermediate_size", "intermediate_size", "n_inner", "ffn_hidden_size", d=4 * self.hidden)
        if isinstance(c.get("attn_config"), dict) and "ffn_config" in c: inner = c["ffn_config"]["ffn_hidden_size"]
        key("feed_forward_length", inner if isinstance(inner, int) else list(inner))
        key("attention.head_count", self.heads); key("attention.head_count_kv", self.kv_list())
        if get("head_dim"): key("attention.key_length", self.dim); key("attention.value_length", self.dim)
        rms = get("rms_norm_eps"); ln = get("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")
        if rms is not None and self.arch not in ("phimoe",): key("attention.layer_norm_rms_epsilon", float(rms))
        if ln is not None or rms is None or self.arch == "phimoe": key("attention.layer_norm_epsilon", float(ln if ln is not None else rms if rms is not None else 1e-5))
        theta = self.full.get("rope_theta", get("rope_theta"))
        if isinstance(c.get("attn_config"), dict) and "rope_theta" in c["attn_config"]: theta = self.full.get("rope_theta", c["attn_config"]["rope_theta"])
        if theta: key("rope.freq_base", float(theta))
        if self.swa and self.swa.get("rope_theta"): key("rope.freq_base_swa", float(self.swa["rope_theta"]))
        part = self.full.get("partial_rotary_factor", get("partial_rotary_factor", "rotary_pct"))
        if self.arch in ("llama4",): part = None
        if part and self.full.get("rope_type") != "proportional": key("rope.dimension_count", int(part * self.dim))
        kind = self.full.get("rope_type", self.full.get("type", "default"))
        if kind == "yarn":
            key("rope.scaling.type", "yarn"); key("rope.scaling.factor", float(self.full["factor"])); key("rope.scaling.original_context_length", self.full["original_max_position_embeddings"])
            for a, b in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
                if a in self.full: key("rope.scaling." + b, float(self.full[a]))
        if kind == "llama3":
            f = self.full; half = self.dim // 2
            wave = [2 * math.pi * theta ** (i / half) for i in range(half)]
            low, high, old, by = f["low_freq_factor"], f["high_freq_factor"], f["original_max_position_embeddings"], f["factor"]
            def factor(w):
                if w < old / high: return 1.0
                if w > old / low: return by
                s = (old / w - low) / (high - low)
                return 1 / ((1 - s) / by + s)
            self.put("rope_freqs.weight", torch.tensor([factor(w) for w in wave]))
        if kind == "linear": key("rope.scaling.type", "linear"); key("rope.scaling.factor", float(self.full["factor"]))
        self.experts_metadata()
        getattr(self, "meta_" + self.arch.replace("-", "_"), lambda: None)()

    def kv_list(self):
        c = self.c
        if self.arch == "mimo2": return [2 * self.kv if t == "sliding_attention" else self.kv for t in c["layer_types"]]
        if self.arch == "gemma4":
            own = c.get("per_layer_config", {})
            return [own.get(str(i), {}).get("num_key_value_heads", self.kv) for i in range(self.layers)]
        if self.arch == "falcon": return c["num_kv_heads"] if c.get("new_decoder_architecture") else 1 if c.get("multi_query") else self.heads
        if self.arch == "starcoder": return 1
        if isinstance(c.get("attn_config"), dict) and "kv_n_heads" in c["attn_config"]: return c["attn_config"]["kv_n_heads"]
        return self.kv

    def experts_metadata(self):
        c, get, key = self.c, self.get, self.key
        n = get("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
        if "ffn_config" in c: n = c["ffn_config"]["moe_num_experts"]
        if not n or n == 1: return
        key("expert_count", n)
        k = get("num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts", "moe_top_k") if "ffn_config" not in c else c["ffn_config"]["moe_top_k"]
        key("expert_used_count", k)
        own = get("moe_intermediate_size", d=c.get("intermediate_size"))
        if own and self.arch not in ("llama", "phimoe"): key("expert_feed_forward_length", own)
        shared = get("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
        if shared is not None: key("expert_shared_count", shared)
        for a, b in (("routed_scaling_factor", "expert_weights_scale"), ("route_scale", "expert_weights_scale"), ("n_group", "expert_group_count"), ("topk_group", "expert_group_used_count"), ("shared_expert_intermediate_size", "expert_shared_feed_forward_length")):
            if c.get(a) is not None: key(b, c[a] if b.startswith("expert_group") or b.endswith("length") else float(c[a]))
        if c.get("norm_topk_prob") is not None: key("expert_weights_norm", c["norm_topk_prob"])
        if self.arch in ("glm4moe", "exaone-moe", "dots1", "afmoe", "mimo2", "minimax-m2", "cohere2moe"): key("expert_gating_func", 2)
        dense = c.get("first_k_dense_replace", c.get("num_dense_layers"))
        if "mlp_layer_types" in c and c["mlp_layer_types"]: dense = next((i for i, t in enumerate(c["mlp_layer_types"]) if t != "dense"), self.layers)
        if self.c["architectures"][0] == "SolarOpenForCausalLM": dense = 0
        if dense is not None: key("leading_dense_block_count", dense)

    def window(self, pattern=True):
        c = self.c
        if c.get("sliding_window"): self.key("attention.sliding_window", c["sliding_window"])
        every = c.get("sliding_window_pattern")
        if pattern and not c.get("layer_types") and isinstance(every, int): self.key("attention.sliding_window_pattern", [(i + 1) % every != 0 for i in range(self.layers)])
        if pattern and c.get("layer_types"): self.key("attention.sliding_window_pattern", [t == "sliding_attention" for t in c["layer_types"]])

    def meta_command_r(self): self.key("logit_scale", float(self.c["logit_scale"])); self.key("rope.scaling.type", "none")
    def meta_cohere2(self): self.meta_command_r(); self.window(False); self.key("rope.dimension_count", self.dim)
    def meta_cohere2moe(self):
        if self.c["expert_selection_fn"] == "softmax": self.key("expert_gating_func", 3)
        self.meta_command_r(); self.window(); self.key("rope.dimension_count", self.dim)
    def meta_olmo(self):
        if self.c.get("clip_qkv"): self.key("attention.clamp_kqv", float(self.c["clip_qkv"]))
    def meta_olmo2(self):
        if "sliding_attention" in (self.c.get("layer_types") or []): self.window()
    def meta_exaone4(self): self.window()
    def meta_exaone_moe(self): self.window(); self.key("rope.scaling.type", "none")
    def meta_afmoe(self): self.window()
    def meta_mpt(self):
        a = self.c["attn_config"]; self.key("attention.max_alibi_bias", float(a.get("alibi_bias_max", 8)))
        if a.get("clip_qkv"): self.key("attention.clamp_kqv", float(a["clip_qkv"]))
    def meta_dbrx(self): self.key("attention.clamp_kqv", float(self.c["attn_config"]["clip_qkv"]))
    def meta_stablelm(self): self.key("use_parallel_residual", self.c.get("use_parallel_residual", True))
    def meta_gptneox(self): self.key("use_parallel_residual", self.c.get("use_parallel_residual", True))
    def meta_ernie4_5_moe(self):
        c = self.c; self.key("interleave_moe_layer_step", c["moe_layer_interval"]); self.key("leading_dense_block_count", c["moe_layer_start_index"])
        self.key("expert_shared_feed_forward_length", c["intermediate_size"] // c["num_key_value_heads"])
    def ntk(self):
        if self.full.get("alpha"):
            self.key("rope.freq_base", self.full["rope_theta"] * self.full["alpha"] ** (self.dim / (self.dim - 2))); self.key("rope.scaling.type", "none")
    def meta_hunyuan_dense(self): self.ntk()
    def meta_hunyuan_moe(self): self.ntk(); self.key("expert_shared_feed_forward_length", self.c["intermediate_size"]); self.key("expert_feed_forward_length", self.c["intermediate_size"])
    def meta_llama4(self): self.key("interleave_moe_layer_step", self.c["interleave_moe_layer_step"])
    def meta_mimo2(self):
        self.window(); self.key("attention.value_length", self.c["v_head_dim"])
        if self.c.get("attention_value_scale") is not None: self.key("attention.value_scale", float(self.c["attention_value_scale"]))
    def meta_mistral3(self): self.key("rope.scaling.yarn_log_multiplier", float(self.full["mscale_all_dim"])); self.key("attention.temperature_scale", float(self.full["llama_4_scaling_beta"]))
    def meta_granite(self):
        c = self.c
        for a, b in (("attention_multiplier", "attention.scale"), ("embedding_multiplier", "embedding_scale"), ("residual_multiplier", "residual_scale"), ("logits_scaling", "logit_scale")): self.key(b, float(c[a]))
    def caps(self):
        for a in ("attn_logit_softcapping", "final_logit_softcapping"):
            if self.c.get(a): self.key(a, float(self.c[a]))
    def meta_gemma2(self): self.caps(); self.window(False)
    def meta_gemma3(self): self.caps(); self.window()
    def meta_gemma3n(self):
        c = self.c; self.caps(); self.window(); self.key("altup.active_idx", c["altup_active_idx"]); self.key("altup.num_inputs", c["altup_num_inputs"])
        self.key("embedding_length_per_layer_input", c["hidden_size_per_layer_input"]); self.key("attention.shared_kv_layers", c["num_kv_shared_layers"])
        self.key("activation_sparsity_scale", [torch.distributions.Normal(0, 1).icdf(torch.tensor(s, dtype=torch.float32)).item() for s in c["activation_sparsity_pattern"]])
    def meta_gemma4(self):
        c = self.c; self.caps(); self.window(); self.key("attention.shared_kv_layers", c.get("num_kv_shared_layers", 0)); self.key("embedding_length_per_layer_input", c.get("hidden_size_per_layer_input") or 0)
        full = next(iter(c["per_layer_config"].values()))["head_dim"]
        self.key("attention.key_length", full); self.key("attention.value_length", full); self.key("attention.key_length_swa", self.dim); self.key("attention.value_length_swa", self.dim)
        self.key("rope.dimension_count", full); self.key("rope.dimension_count_swa", self.dim)
        if c.get("use_double_wide_mlp"): self.key("feed_forward_length", [c["intermediate_size"] * (2 if i >= self.layers - c["num_kv_shared_layers"] else 1) for i in range(self.layers)])
        n = int(full * self.full["partial_rotary_factor"] / 2)
        self.put("rope_freqs.weight", torch.tensor([1.0] * n + [1e30] * (full // 2 - n)))
    def meta_gpt_oss(self): self.window(False)
    def meta_starcoder2(self): self.window(False)
    def meta_phi3(self):
        f = self.full; self.key("rope.scaling.original_context_length", self.c["original_max_position_embeddings"]); self.key("rope.dimension_count", self.dim)
        if f.get("rope_type", f.get("type")) == "longrope":
            scale = self.c["max_position_embeddings"] / self.c["original_max_position_embeddings"]
            self.key("rope.scaling.type", "longrope"); self.key("rope.scaling.attn_factor", math.sqrt(1 + math.log(scale) / math.log(self.c["original_max_position_embeddings"])))
            for which in ("short", "long"): self.put(f"rope_factors_{which}.weight", torch.tensor(f[which + "_factor"]))
    def meta_apertus(self):
        c = self.c
        sp = lambda x: math.log1p(math.exp(x))
        for name, role in (("alpha_p", "xielu.alpha_p"), ("alpha_n", "xielu.alpha_n"), ("beta", "xielu.beta"), ("eps", "xielu.eps")):
            self.g.add_array(role, [float(self.w[f"model.layers.{i}.mlp.act_fn.{name}"].float().reshape(-1)[0]) for i in range(self.layers)])

    # --- tensors ---
    def put(self, name, t):
        t = t.contiguous()
        if t.ndim <= 1 or t.dtype == torch.float32: self.g.add_tensor(name, t.float().numpy())
        else: self.g.add_tensor(name, t.view(torch.int16).numpy().view("uint8"), raw_dtype=gguf.GGMLQuantizationType.BF16)

    def mapped(self, name):
        for ending in (".weight", ".bias"):
            if name.endswith(ending):
                found = self.map.get_name(name, try_suffixes=(ending,))
                if found: return found if found.endswith(ending) else found + ending
        found = self.map.get_name(name, try_suffixes=(".weight", ".bias"))
        if found is None: raise KeyError(name)
        return found

    def permute(self, t, heads):
        return t.reshape(heads, 2, t.shape[0] // heads // 2, *t.shape[1:]).swapaxes(1, 2).reshape(t.shape)

    def tensors(self):
        w, c, arch = self.w, self.c, self.arch
        merged, aside = {}, {}
        for name, t in w.items():
            m = re.match(r"(.*\.experts)\.(\d+)\.(\w+)\.(weight|bias)$", name)
            if m: merged.setdefault((m[1], m[3], m[4]), {})[int(m[2])] = t; continue
            m = re.match(r"(.*)\.(\d+)\.weight$", name)
            if m and (".norms." in name or "altup_" in name and "projections" in name): aside.setdefault(m[1], {})[int(m[2])] = t; continue
            self.one(name, t)
        for (stem, part, ending), all in merged.items(): self.one(f"{stem}.{part}.{ending}", torch.stack([all[i] for i in range(len(all))]))
        for stem, all in aside.items(): self.one((stem.removesuffix(".norms") if ".norms" in stem else stem) + ".weight", torch.stack([all[i] for i in range(len(all))]))

    def one(self, name, t):
        c, arch = self.c, self.arch
        layer = re.search(r"\.(?:layers|h|blocks)\.(\d+)\.", name)
        blk = f"blk.{layer[1]}." if layer else ""
        if "rotary_emb.inv_freq" in name or ".attention.bias" in name or "masked_bias" in name: return
        if name == "lm_head.weight" and c.get("tie_word_embeddings") and arch not in ("gptj",): return
        if arch == "apertus" and ".act_fn." in name: return
        if arch == "gpt-oss": return self.gpt_oss(name, t, blk)
        if arch in PERMUTED and re.search(r"q_proj\.(weight|bias)$", name): t = self.permute(t, self.heads)
        if arch in PERMUTED and re.search(r"k_proj\.(weight|bias)$", name): t = self.permute(t, self.kv)
        if arch in PLUS_ONE and name.endswith("norm.weight"): t = (t.float() + 1)
        if arch == "bloom" and "query_key_value" in name:
            t = t.reshape(self.heads, 3, self.dim, *t.shape[1:]).transpose(0, 1).reshape(t.shape)
        if arch == "gptneox" and "query_key_value" in name:
            t = t.reshape(self.heads, 3, self.dim, *t.shape[1:]).transpose(0, 1).reshape(t.shape)
        if arch == "falcon" and "query_key_value" in name:
            kv = self.kv_list(); q = self.heads // kv
            t = t.reshape(kv, q + 2, self.dim, -1); t = torch.cat([t[:, :q].reshape(kv * q * self.dim, -1), t[:, q].reshape(kv * self.dim, -1), t[:, q + 1].reshape(kv * self.dim, -1)])
        if arch == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")): t = t.T
        if arch == "dbrx" and ".experts.mlp." in name:
            t = t.reshape(c["ffn_config"]["moe_num_experts"], c["ffn_config"]["ffn_hidden_size"], self.hidden)
            if name.endswith("w2"): t = t.transpose(1, 2)
            return self.put(self.mapped(name).removesuffix(".weight") + ".weight", t)
        if arch == "llama4":
            if name.endswith("experts.down_proj"): t = t.transpose(1, 2); name += ".weight"
            elif name.endswith("experts.gate_up_proj"):
                gate, up = t.transpose(1, 2).chunk(2, 1)
                self.put(blk + "ffn_gate_exps.weight", gate); return self.put(blk + "ffn_up_exps.weight", up)
        if arch == "gemma4":
            if name.endswith("router.scale"): return self.put(blk + "ffn_gate_inp.scale", t)
            if name.endswith("per_expert_scale"): return self.put(blk + "ffn_down_exps.scale", t)
            if name.endswith("layer_scalar") or (".experts." in name and not name.endswith(".weight")): name += ".weight"
            if self.c.get("num_kv_shared_layers") and layer and int(layer[1]) >= self.layers - self.c["num_kv_shared_layers"] and re.search("[kv]_(proj|norm)", name): return
        if arch == "gemma3n" and name.endswith("_scale"): name += ".weight"
        if arch in ("command-r",) and name.endswith(("q_norm.weight", "k_norm.weight")): pass
        if name.endswith("e_score_correction_bias"): return self.put(blk + "exp_probs_b.bias", t.reshape(-1))
        if name.endswith("expert_bias"): return self.put(blk + "exp_probs_b.bias", t)
        if arch == "mimo2" and name.endswith("attention_sink_bias"): return self.put(blk + "attn_sinks.weight", t)
        if arch == "cohere2moe" and ".mlp." in name and (".experts." in name or ".shared_experts." in name or name.endswith("mlp.gate.weight")):
            part = {"gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down"}.get(name.split(".")[-2])
            return self.put(blk + ("ffn_gate_inp.weight" if part is None else part + ("_shexp" if "shared" in name else "_exps") + ".weight"), t)
        if arch == "gpt2" and name == "lm_head.weight": return
        self.put(self.mapped(name.removeprefix("transformer.") if arch == "bloom" else name), t)

    def gpt_oss(self, name, t, blk):
        if "gate_up_proj" in name:
            bias = name.endswith("_bias"); t = t if bias else t.transpose(1, 2)
            for part, u in (("gate", t[:, ::2]), ("up", t[:, 1::2])): self.put(f"{blk}ffn_{part}_exps.{'bias' if bias else 'weight'}", u.float() if bias else u)
        elif name.endswith("down_proj"): self.put(blk + "ffn_down_exps.weight", t.transpose(1, 2))
        elif name.endswith("down_proj_bias"): self.put(blk + "ffn_down_exps.bias", t.float())
        elif name.endswith("sinks"): self.put(blk + "attn_sinks.weight", t)
        else: self.put(self.mapped(name), t)

    def make(self):
        self.metadata()
        vocab = self.c["vocab_size"]
        self.g.add_tokenizer_model("gpt2"); self.g.add_token_list([f"t{i}" for i in range(vocab)])
        self.tensors()
        self.g.write_header_to_file(); self.g.write_kv_data_to_file(); self.g.write_tensors_to_file(); self.g.close()


if __name__ == "__main__":
    out = Path(sys.argv[-1]); out.mkdir(exist_ok=True)
    for folder in map(Path, sys.argv[1:-1]):
        if not (folder / "golden.json").exists(): continue
        arch = json.loads((folder / "config.json").read_text()).get("architectures", ["?"])[0]
        if arch not in ARCH: continue
        try: Maker(folder, out).make(); print("made", folder.name)
        except Exception as e: (out / (folder.name + ".gguf")).unlink(missing_ok=True); print("FAILED", folder.name, type(e).__name__, e)
