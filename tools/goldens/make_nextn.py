"""Writes tiny checkpoints that bring a layer for multi-token prediction, and what that layer says.

transformers drops these layers, so the layer is one more decoder layer of its classes, with the norms and the projection
around it written out here: input i is eh_proj [enorm(embedding(token i + 1)) | hnorm(h_i)], h_i the model's row behind its
last norm; its logits at i are for token i + 2. Families differ in the names, in what order the projection reads (MiMo: the row first),
whether rows are those before the norm (MiMo-V2), and which norm stands before the head (Ernie: the model's): see FORMS. `guesses` go on from the prompt's end: the token that the model chose, then the
layer's own choices with its own normed rows. `agree` is how often, over the model's own greedy text, the layer's first guess is
what the model says: the weights are chosen so that it is right about half of the time.

    python make_nextn.py OUT [NAME...]   (writes OUT/nextn-deepseek-v3, nextn-glm4-moe, ... as SPECS lists them)
"""
import inspect, json, re, sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parent))
import torch
import goldenlib as G
from safetensors.torch import save_file

R = lambda theta, **k: {"rope_type": "default", "rope_theta": theta, **k}
B = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0, max_position_embeddings=512, vocab_size=320, hidden_size=64, rms_norm_eps=1e-6,
         tie_word_embeddings=False, intermediate_size=96, moe_intermediate_size=24)
B2 = dict(B, hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2)
TUNE = dict(o=0.15, down=0.2, head=4.0)
SPECS = [
 dict(name="nextn-deepseek-v3", cls="DeepseekV3ForCausalLM", config="DeepseekV3Config", layers=2, seed=3,
      kwargs=dict(B, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=32, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8,
                  v_head_dim=16, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1, n_group=2, topk_group=1,
                  norm_topk_prob=True, routed_scaling_factor=1.5, rope_parameters=R(1e4))),
 dict(name="nextn-glm4-moe", cls="Glm4MoeForCausalLM", config="Glm4MoeConfig", layers=2, seed=4,
      kwargs=dict(B, num_attention_heads=4, num_key_value_heads=2, head_dim=16, attention_bias=True, use_qk_norm=True, n_routed_experts=8,
                  num_experts_per_tok=3, n_shared_experts=1, first_k_dense_replace=1, n_group=1, topk_group=1, norm_topk_prob=True,
                  routed_scaling_factor=1.5, rope_parameters=R(1e6, partial_rotary_factor=0.5))),
 dict(name="nextn-qwen3-next", cls="Qwen3NextForCausalLM", config="Qwen3NextConfig", layers=2, seed=5,
      kwargs=dict(B, linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2,
                  linear_num_value_heads=4, num_attention_heads=4, num_key_value_heads=2, head_dim=32, num_experts=8, num_experts_per_tok=3,
                  shared_expert_intermediate_size=32, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[],
                  rope_parameters=R(1e6, partial_rotary_factor=0.25), layer_types=["linear_attention", "full_attention", "full_attention"]), form="qwen"),
 dict(name="nextn-mimo", cls="Qwen2ForCausalLM", config="Qwen2Config", layers=2, seed=6, form="mimo", as_class="MiMoForCausalLM",
      kwargs=dict(B2, rope_parameters=R(1e4))),
 dict(name="nextn-mimo-v2", cls="MiMoV2FlashForCausalLM", config="MiMoV2FlashConfig", layers=2, seed=17, form="mimo-v2", type="sliding_attention",
      kwargs=dict(B2, moe_intermediate_size=16, head_dim=12, v_head_dim=8, sliding_window=17, n_routed_experts=4, num_experts_per_tok=2,
                  layer_types=["full_attention", "sliding_attention", "sliding_attention"], mlp_layer_types=["dense", "sparse", "dense"],
                  rope_parameters={k: R(t, partial_rotary_factor=0.334) for k, t in (("full_attention", 5e6), ("sliding_attention", 1e4))})),
 dict(name="nextn-ernie", cls="Ernie4_5_MoeForCausalLM", config="Ernie4_5_MoeConfig", layers=2, seed=8, form="ernie",
      kwargs=dict(B2, moe_intermediate_size=16, moe_num_experts=4, moe_k=2, moe_num_shared_experts=1, moe_layer_start_index=1, moe_layer_end_index=1,
                  moe_layer_interval=1, rope_parameters=R(5e5))),
 dict(name="nextn-ling", cls="BailingHybridForCausalLM", config="BailingHybridConfig", layers=2, seed=9, form="final",
      kwargs=dict(B2, num_key_value_heads=4, moe_intermediate_size=16, num_experts=4, num_experts_per_token=2, num_shared_experts=1, num_expert_group=2, topk_group=1, kv_lora_rank=16,
                  q_lora_rank=None, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8, head_dim=8, linear_head_dim=8, linear_num_heads=4,
                  linear_conv_kernel_dim=4, layer_group_size=3, layer_types=["linear_attention", "full_attention", "full_attention"], first_k_dense_replace=1,
                  mlp_layer_types=["dense", "sparse", "sparse"], num_nextn_predict_layers=0, rope_parameters=R(6e6))),
 dict(name="nextn-exaone-moe", cls="ExaoneMoeForCausalLM", config="ExaoneMoeConfig", layers=2, seed=10, form="qwen", type="full_attention",
      kwargs=dict(B2, moe_intermediate_size=16, head_dim=8, sliding_window=16, layer_types=["sliding_attention", "full_attention", "full_attention"],
                  mlp_layer_types=["dense", "sparse", "dense"], num_experts=4, num_experts_per_tok=2, num_shared_experts=1, routed_scaling_factor=2.5,
                  n_group=1, topk_group=1, norm_topk_prob=True, first_k_dense_replace=1, rope_parameters=R(1e6))),
 dict(name="nextn-nemotron-h", cls="NemotronHForCausalLM", config="NemotronHConfig", layers=3, seed=11, form="nemotron",
      kwargs=dict({k: v for k, v in B2.items() if k != "rms_norm_eps"}, layers_block_type=["linear_attention", "full_attention", "moe", "full_attention", "moe"],
                  head_dim=8, ssm_state_size=8, mamba_num_heads=4, mamba_head_dim=16, n_groups=2, conv_kernel=4, expand=2, chunk_size=32,
                  use_mamba_kernels=False, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=16,
                  moe_shared_expert_intermediate_size=16, routed_scaling_factor=2.0, norm_topk_prob=True, layer_norm_epsilon=1e-6)),
 dict(name="nextn-hy-v3", cls="HYV3ForCausalLM", config="HYV3Config", layers=2, seed=12, form="final",
      kwargs=dict(B2, moe_intermediate_size=16, head_dim=8, num_experts=4, num_experts_per_tok=2, num_shared_experts=1, router_scaling_factor=1.5,
                  mlp_layer_types=["dense", "sparse", "sparse"], rope_parameters=R(1e6))),
 dict(name="nextn-longcat", cls="LongcatFlashForCausalLM", config="LongcatFlashConfig", layers=1, seed=14, form="longcat", count="num_layers",
      kwargs=dict(B2, num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8, head_dim=4,
                  ffn_hidden_size=48, expert_ffn_hidden_size=16, moe_topk=2, n_routed_experts=4, zero_expert_num=2, routed_scaling_factor=2.0,
                  rope_parameters=R(1e6))),
]
# What the tensors of the layer are called: its own prefix; around it enorm, hnorm, eh_proj and the norm before the head.
AROUND = ("enorm", "hnorm", "eh_proj")
FORMS = {
 None: lambda n: dict(prefix=f"model.layers.{n}.", around=[f"model.layers.{n}.{a}" for a in AROUND], norm=f"model.layers.{n}.shared_head.norm", repeat=True),
 "qwen": lambda n: dict(prefix="mtp.layers.0.", around=["mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc"], norm="mtp.norm"),
 "final": lambda n: dict(prefix=f"model.layers.{n}.", around=[f"model.layers.{n}.{a}" for a in AROUND], norm=f"model.layers.{n}.final_layernorm"),
 "shared-norm": lambda n: dict(prefix=f"model.layers.{n}.", around=[f"model.layers.{n}.{a}" for a in AROUND], norm=None),
 "mimo": lambda n: dict(prefix="model.mtp_layers.0.", around=[f"model.mtp_layers.0.{a}" for a in ("token_layernorm", "hidden_layernorm", "input_proj")],
                        norm="model.mtp_layers.0.final_layernorm", row_first=True),
 "mimo-v2": lambda n: dict(prefix="model.mtp.layers.0.", around=[f"model.mtp.layers.0.{a}" for a in AROUND], norm="model.mtp.layers.0.final_layernorm",
                           before_norm=True, rename=[("post_attention_layernorm", "pre_mlp_layernorm")]),
 "ernie": lambda n: dict(prefix="model.mtp_block.0.", around=[f"model.mtp_{a}.0" for a in ("emb_norm", "hidden_norm", "linear_proj")], norm=None),
 "nemotron": lambda n: dict(prefix="mtp.layers.0.", around=[f"mtp.layers.0.{a}" for a in AROUND], norm="mtp.layers.1.final_layernorm", stem="backbone"),
 "longcat": lambda n: dict(prefix="model.mtp.layers.0.", around=["model.mtp.layers.0.enorm.m", "model.mtp.layers.0.hnorm.m", "model.mtp.layers.0.eh_proj"],
                           norm="model.mtp.norm", rename=[("self_attn.0.", "self_attn."), ("mlps.0.", "transformer_layer.mlp."), ("layernorm.0.", "layernorm.")]),
}


class Nextn:
    """The layer behind the model's last, and what stands around it."""

    def __init__(self, model, spec):
        layers, self.form = spec["layers"], FORMS[spec.get("form")](spec["layers"])
        self.model, self.body, self.spec = model, model.model, spec
        self.layers = [l for l in model.model.layers[layers:]]
        setattr(model.config, spec.get("count", "num_hidden_layers"), layers)
        if "layers_block_type" in spec["kwargs"]:
            del model.model.layers[layers:]
        g = torch.Generator().manual_seed(spec["seed"] + 77)
        width = model.config.hidden_size
        rn = lambda *shape: torch.randn(*shape, generator=g)
        c = model.config
        self.centred = "Cohere" in type(model).__name__
        self.eps = next(getattr(c, n) for n in ("layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "rms_norm_eps") if getattr(c, n, None) is not None)
        self.plus = 1.0 if "Qwen3Next" in type(model).__name__ else 0.0
        norm = lambda: (1 - self.plus + 0.05 * rn(width)).bfloat16().float()
        self.enorm, self.hnorm = norm(), norm()
        # The model's last row is close to the last token's embedding; so is what this layer makes of the next token's.
        copy = torch.cat([torch.eye(width), 0.15 / width ** 0.5 * rn(width, width)], dim=1)
        self.eh_proj = (copy + torch.cat([0.01 * rn(width, width), torch.zeros(width, width)], dim=1)).bfloat16().float()
        last = self.last_norm().weight
        self.norm = (last + 0.02 * rn(width)).bfloat16().float() if self.form["norm"] else last

    def last_norm(self):
        return self.body.norm_f if hasattr(self.body, "norm_f") else self.body.norm

    def embed(self, ids):
        return (self.body.embeddings if hasattr(self.body, "embeddings") else self.body.embed_tokens)(torch.tensor(ids))

    def normed(self, x, weight):
        if self.centred:
            x = x - x.mean(-1, keepdim=True)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (weight + self.plus)

    def hidden(self, ids):
        seen = {}
        hook = self.last_norm().register_forward_hook(lambda m, args, out: seen.update(before=args[0], behind=out))
        self.body(input_ids=torch.tensor([ids]), use_cache=False)
        hook.remove()
        return seen["before" if self.form.get("before_norm") else "behind"][0].float()

    def through(self, x):
        """The decoder layer (of Nemotron-H two) on rows [n, width]."""
        n, kind = len(x), self.spec.get("type")
        positions = torch.arange(n)[None]
        mask = torch.triu(torch.full((n, n), float("-inf")), diagonal=1)
        if kind == "sliding_attention":
            mask = mask + torch.tril(torch.full((n, n), float("-inf")), diagonal=-self.model.config.sliding_window)
        x, mask = x[None], mask[None, None]
        ropes = None
        if hasattr(self.body, "rotary_emb"):
            apart = "layer_type" in inspect.signature(self.body.rotary_emb.forward).parameters
            ropes = self.body.rotary_emb(x, positions, kind) if apart else self.body.rotary_emb(x, positions)
        common = dict(attention_mask=mask, position_ids=positions, position_embeddings=ropes)
        for layer in self.layers:
            if self.spec.get("form") == "longcat":
                x = x + layer.self_attn[0](hidden_states=layer.input_layernorm[0](x), **common)[0]
                x = x + layer.mlps[0](layer.post_attention_layernorm[0](x))
                continue
            x = layer(x, **(common if ropes is not None else {"attention_mask": mask}))
            x = x[0] if isinstance(x, tuple) else x
        return x[0]

    def rows(self, ids, hidden):
        """Token i + 1 with hidden row i -> rows for the next step and logits, one for each pair."""
        both = [self.normed(self.embed(ids), self.enorm), self.normed(hidden, self.hnorm)]
        out = self.through(torch.cat(both, dim=-1) @ self.eh_proj.T)
        normed = self.normed(out, self.norm)
        return out if self.form.get("before_norm") else normed, self.model.lm_head(normed).float() * getattr(self.model, "logit_scale", 1.0)

    def guesses(self, ids, first, count):
        hidden, tokens, said = self.hidden(ids), ids[1:] + [first], []
        for _ in range(count):
            out, logits = self.rows(tokens, hidden)
            said.append(int(logits[-1].argmax()))
            hidden, tokens = torch.cat([hidden, out[-1:]]), tokens + said[-1:]
        return said

    def named(self, saved):
        """All tensors of the checkpoint under published names."""
        n, form, out = self.spec["layers"], self.form, {}
        stem = form.get("stem", "model")
        for name, t in saved.items():
            m = re.match(rf"{stem}\.layers\.(\d+)\.(.*)", name)
            if not m or int(m[1]) < n:
                out[name] = t
                continue
            rest = m[2]
            if self.spec.get("form") == "longcat" and not re.match(r"(self_attn|mlps|\w+_layernorm)\.0\.", rest):
                continue
            for a, b in form.get("rename", ()):
                rest = rest.replace(a, b, 1)
            out[form["prefix"].replace("0.", f"{int(m[1]) - n}.") + rest if stem == "backbone" else form["prefix"] + rest] = t
        width = self.eh_proj.shape[0]
        eh = torch.cat([self.eh_proj[:, width:], self.eh_proj[:, :width]], dim=1) if form.get("row_first") else self.eh_proj
        more = {f"{a}.weight": t for a, t in zip(form["around"], (self.enorm, self.hnorm, eh))}
        if form["norm"]:
            more[form["norm"] + ".weight"] = self.norm
        if form.get("repeat"):  # published checkpoints repeat both
            more[f"model.layers.{n}.embed_tokens.weight"] = self.body.embed_tokens.weight
            more[f"model.layers.{n}.shared_head.head.weight"] = self.model.lm_head.weight
        return out | {k: v.to(torch.bfloat16).contiguous().clone() for k, v in more.items()}


def config_of(spec, config):
    layers, form = spec["layers"], spec.get("form")
    config.update({spec.get("count", "num_hidden_layers"): layers}, architectures=[spec.get("as_class", spec["cls"])], dtype="bfloat16")
    for listed in ("layer_types", "mlp_layer_types", "layers_block_type"):
        if listed in spec["kwargs"] and listed in config:
            config[listed] = spec["kwargs"][listed][:layers]
    if spec.get("as_class"):
        config["model_type"] = "mimo"
    if form == "longcat":
        config["num_hidden_layers"] = 2 * layers
    if form != "qwen" or "exaone" in spec["name"]:
        config["num_nextn_predict_layers"] = 1
    return config


def make(spec, root):
    out = root / spec["name"]
    out.mkdir(parents=True, exist_ok=True)
    small = spec["kwargs"]["hidden_size"] == 32
    built = dict(spec, kwargs=dict(spec["kwargs"], **({} if "layers_block_type" in spec["kwargs"] else {spec.get("count", "num_hidden_layers"): spec["layers"] + 1})),
                 tune=spec.get("tune", TUNE))
    cfg, model = G.build(built, spec["seed"])
    saved, config = G.save_weights(model, out, "bfloat16")
    nextn = Nextn(model, spec)
    save_file(nextn.named(saved), str(out / "model.safetensors"), metadata={"format": "pt"})
    G.pretty_json(out / "config.json", config_of(spec, config))
    G.write_tokenizer(out, 320)

    prompts, logits = [], {}
    right = all_ = 0
    for i, p in enumerate(G.make_prompts(320, spec["seed"], (2, 9, 33, 60) if small else (2, 9, 33, 140))):
        text, _, _ = G.greedy(model, p, 24)
        _, of_layer = nextn.rows(p[1:], nextn.hidden(p)[:-1])
        logits[f"p{i}.nextn"] = of_layer.contiguous()
        whole = p + text
        _, along = nextn.rows(whole[1:], nextn.hidden(whole)[:-1])
        firsts = along.argmax(-1).tolist()
        right += sum(firsts[j] == whole[j + 2] for j in range(len(p) - 1, len(whole) - 2))
        all_ += len(whole) - 2 - (len(p) - 1)
        prompts.append({"tokens": p, "greedy": text, "guesses": nextn.guesses(p, text[0], 4)})
    std = float(torch.cat([v.flatten() for v in logits.values()]).std())
    G.pretty_json(out / "nextn.json", {"logit_std": std, "agree": right / all_, "prompts": prompts})
    save_file(logits, str(out / "nextn.safetensors"))
    print(spec["name"], "std", round(std, 3), "agree", round(right / all_, 3), "distinct", len({t for p in prompts for t in p["greedy"]}))


if __name__ == "__main__":
    for spec in SPECS:
        if len(sys.argv) == 2 or spec["name"] in sys.argv[2:]:
            make(spec, Path(sys.argv[1]))
