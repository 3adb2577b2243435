"""Writes tiny checkpoints that bring a layer for multi-token prediction, and what that layer says.

transformers drops these layers, so the layer is one more decoder layer of its classes, with the norms and the projection
around it written out here: input i is eh_proj [enorm(embedding(token i + 1)) | hnorm(h_i)], h_i the model's row behind its
last norm; its logits at i are for token i + 2. `guesses` go on from the prompt's end: the token that the model chose, then the
layer's own choices with its own normed rows. `agree` is how often, over the model's own greedy text, the layer's first guess is
what the model says: the weights are chosen so that it is right about half of the time.

    python make_nextn.py OUT   (writes OUT/nextn-deepseek-v3, nextn-glm4-moe, nextn-qwen3-next)
"""
import json, sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parent))
import torch
import goldenlib as G
from safetensors.torch import save_file

R = lambda theta, **k: {"rope_type": "default", "rope_theta": theta, **k}
B = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0, max_position_embeddings=512, vocab_size=320, hidden_size=64, rms_norm_eps=1e-6,
         tie_word_embeddings=False, intermediate_size=96, moe_intermediate_size=24)
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
                  rope_parameters=R(1e6, partial_rotary_factor=0.25), layer_types=["linear_attention", "full_attention", "full_attention"])),
]


class Nextn:
    """The layer behind the model's last, and what stands around it."""

    def __init__(self, model, layers, seed):
        self.model, self.body, self.layer = model, model.model, model.model.layers[layers]
        model.config.num_hidden_layers = layers
        g = torch.Generator().manual_seed(seed + 77)
        width = model.config.hidden_size
        rn = lambda *shape: torch.randn(*shape, generator=g)
        self.eps = model.config.rms_norm_eps
        self.plus = 1.0 if "Qwen" in type(model).__name__ else 0.0
        norm = lambda: (1 - self.plus + 0.05 * rn(width)).bfloat16().float()
        self.enorm, self.hnorm = norm(), norm()
        # The model's last row is close to the last token's embedding; so is what this layer makes of the next token's.
        copy = torch.cat([torch.eye(width), 0.15 / width ** 0.5 * rn(width, width)], dim=1)
        self.eh_proj = (copy + torch.cat([0.01 * rn(width, width), torch.zeros(width, width)], dim=1)).bfloat16().float()
        self.norm = (self.body.norm.weight + 0.02 * rn(width)).bfloat16().float()

    def rms(self, x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (weight + self.plus)

    def hidden(self, ids):
        return self.body(input_ids=torch.tensor([ids]), use_cache=False).last_hidden_state[0].float()

    def rows(self, ids, hidden):
        """Token i + 1 with hidden row i -> normed rows and logits, one for each pair."""
        e = self.body.embed_tokens(torch.tensor(ids))
        x = torch.cat([self.rms(e, self.enorm), self.rms(hidden, self.hnorm)], dim=-1) @ self.eh_proj.T
        n = len(ids)
        positions = torch.arange(n)[None]
        mask = torch.triu(torch.full((n, n), float("-inf")), diagonal=1)[None, None]
        out = self.layer(x[None], attention_mask=mask, position_ids=positions, position_embeddings=self.body.rotary_emb(x[None], positions))
        out = out[0] if isinstance(out, tuple) else out
        out = self.rms(out[0], self.norm)
        return out, self.model.lm_head(out).float()

    def guesses(self, ids, first, count):
        hidden, tokens, said = self.hidden(ids), ids[1:] + [first], []
        for _ in range(count):
            out, logits = self.rows(tokens, hidden)
            said.append(int(logits[-1].argmax()))
            hidden, tokens = torch.cat([hidden, out[-1:]]), tokens + said[-1:]
        return said

    def tensors(self, layer, qwen):
        if qwen:
            names = ("mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.norm")
        else:
            names = tuple(f"model.layers.{layer}.{n}" for n in ("enorm", "hnorm", "eh_proj", "shared_head.norm"))
        out = {f"{n}.weight": t for n, t in zip(names, (self.enorm, self.hnorm, self.eh_proj, self.norm))}
        if not qwen:  # published checkpoints repeat both
            out[f"model.layers.{layer}.embed_tokens.weight"] = self.body.embed_tokens.weight
            out[f"model.layers.{layer}.shared_head.head.weight"] = self.model.lm_head.weight
        return out


def make(spec, root):
    out = root / spec["name"]
    out.mkdir(parents=True, exist_ok=True)
    layers, qwen = spec["layers"], "qwen" in spec["name"]
    built = dict(spec, kwargs=dict(spec["kwargs"], num_hidden_layers=layers + 1), tune=TUNE)
    cfg, model = G.build(built, spec["seed"])
    saved, config = G.save_weights(model, out, "bfloat16")
    nextn = Nextn(model, layers, spec["seed"])
    renamed = {(k.replace(f"model.layers.{layers}.", "mtp.layers.0.") if qwen else k): v for k, v in saved.items()}
    renamed |= {k: v.to(torch.bfloat16).contiguous().clone() for k, v in nextn.tensors(layers, qwen).items()}
    save_file(renamed, str(out / "model.safetensors"), metadata={"format": "pt"})
    config.update(num_hidden_layers=layers, architectures=[spec["cls"]], dtype="bfloat16")
    if qwen:
        config["layer_types"] = spec["kwargs"]["layer_types"][:layers]
    else:
        config["num_nextn_predict_layers"] = 1
    G.pretty_json(out / "config.json", config)
    G.write_tokenizer(out, 320)

    prompts, logits = [], {}
    right = all_ = 0
    for i, p in enumerate(G.make_prompts(320, spec["seed"], (2, 9, 33, 140))):
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
        make(spec, Path(sys.argv[1]))
