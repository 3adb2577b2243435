"""Quantised checkpoints in formats that ../shared/goldens/quant lacks, small, most of them several formats in one file.

Like quantlib.py: the golden outputs come from the decoded weights, put back into an ordinary float32 model. `python make_quant_more.py
[FOLDER [NAME ...]]` (default: tests/data/goldens/quant) needs torch and transformers. Of each prompt's logits the last positions are kept.
"""
import json, sys, tempfile
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parent))
import quantlib as Q
import goldenlib as G
import torch
from safetensors.torch import save_file

KEPT = 6  # last positions of each prompt


def stream(v, bits, dim):
    """Codes as one stream of bits along dim, the first in the low bits of int32 words: what GPTQ's 2, 3, 4 and 8 bits have in common."""
    v = v.to(torch.int64).movedim(dim, -1)
    words = v.shape[-1] * bits // 32
    p = torch.zeros(*v.shape[:-1], words + 1, dtype=torch.int64)
    for i in range(v.shape[-1]):
        at, shift = i * bits // 32, i * bits % 32
        x = v[..., i] << shift
        p[..., at] |= x & 0xFFFFFFFF
        p[..., at + 1] |= x >> 32
    p = p[..., :words]
    return torch.where(p >= 2 ** 31, p - 2 ** 32, p).to(torch.int32).movedim(-1, dim).contiguous()


def padded(v, bits, dim):
    """Whole codes in int32 words, the last word filled up: compressed-tensors."""
    v = v.to(torch.int64).movedim(dim, -1)
    n = 32 // bits
    v = torch.nn.functional.pad(v, (0, (-v.shape[-1]) % n)).reshape(*v.shape[:-1], -1, n)
    p = (v << (bits * torch.arange(n))).sum(-1)
    return torch.where(p >= 2 ** 31, p - 2 ** 32, p).to(torch.int32).movedim(-1, dim).contiguous()


def grid(w, gi, ng, bits, sym, least=0, dtype=torch.float16):
    """w [out, in], gi [in]: the group of each input -> codes [out, in], zeros and scales [out, groups]"""
    most = 2 ** bits - 1
    scale, zero = torch.zeros(w.shape[0], ng), torch.zeros(w.shape[0], ng, dtype=torch.int64)
    for g in range(ng):
        x = w[:, gi == g]
        if sym:
            scale[:, g], zero[:, g] = x.abs().amax(1) / (most // 2), 2 ** (bits - 1)
        else:
            low, high = x.amin(1).clamp(max=0), x.amax(1).clamp(min=0)
            s = (high - low) / most
            scale[:, g], zero[:, g] = s, (-low / s).round().clamp(least, most).to(torch.int64)
    scale = scale.to(dtype)
    q = (w / scale.float()[:, gi] + zero[:, gi]).round().clamp(0, most).to(torch.int64)
    return q, zero, scale, (q - zero[:, gi]).float() * scale.float()[:, gi]


def groups(n, size, act, r):
    gi = torch.arange(n) // (n if size == -1 else size)
    if act:
        gi = gi[torch.randperm(n, generator=r)]
    return gi, int(gi.max()) + 1


def gptq(bits, size, sym=True, act=False, v2=False, g_idx=True):
    def pack(w, r):
        gi, ng = groups(w.shape[1], size, act, r)
        q, z, s, deq = grid(w, gi, ng, bits, sym, least=0 if v2 else 1)
        t = {"qweight": stream(q.t(), bits, 0), "qzeros": stream((z if v2 else z - 1).t(), bits, 1), "scales": s.t().contiguous()}
        if g_idx:
            t["g_idx"] = gi.to(torch.int32)
        return t, deq
    return pack


def awq(size):
    return lambda w, r: Q.awq("", w, {"group_size": size}, r)


def ct_pack(bits, size, sym=True, act=False, dtype=torch.bfloat16):
    def pack(w, r):
        gi, ng = groups(w.shape[1], size, act, r)
        q, z, s, deq = grid(w, gi, ng, bits, sym, dtype=dtype)
        t = {"weight_packed": padded(q, bits, 1), "weight_scale": s, "weight_shape": torch.tensor(w.shape, dtype=torch.int64)}
        if not sym:
            t["weight_zero_point"] = padded(z, bits, 0)
        if act:
            t["weight_g_idx"] = gi.to(torch.int32)
        return t, deq
    return pack


def ct_int8(size=-1, sym=True, dtype=torch.bfloat16, tensor=False, static=False):
    def pack(w, r):
        if tensor:
            s = (w.abs().max() / 127).reshape(1).to(dtype)
            q = (w / s.float()).round().clamp(-128, 127)
            t, deq = {"weight": q.to(torch.int8), "weight_scale": s}, q * s.float()
        else:
            gi, ng = groups(w.shape[1], size, False, r)
            q, z, s, deq = grid(w, gi, ng, 8, sym, dtype=dtype)
            t = {"weight": (q - 128).to(torch.int8), "weight_scale": s}
            if not sym:
                t["weight_zero_point"] = (z - 128).to(torch.int8)
        if static:
            t["input_scale"], t["input_zero_point"] = torch.tensor([0.031]), torch.tensor([3], dtype=torch.int8)
        return t, deq
    return pack


def library(form, bits, size, sym=True, activations=None):
    """Codes and zeros laid out by the library compressed-tensors itself (0.20: three bits are a stream)."""
    def pack(w, r):
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(num_bits=bits, type="int", symmetric=sym, strategy="group", group_size=size),
                                    input_activations=activations and QuantizationArgs(num_bits=8, type="int", symmetric=True, strategy="token", dynamic=True))
        gi, ng = groups(w.shape[1], size, False, r)
        q, z, s, deq = grid(w, gi, ng, bits, sym, dtype=torch.bfloat16)
        compressor = BaseCompressor.get_value_from_registry(form)
        t = compressor.compress({"weight": w, "weight_scale": s, "weight_zero_point": (z - 2 ** (bits - 1)).to(torch.int8)}, scheme)
        assert (compressor.decompress(t, scheme)["weight"].float() - deq).abs().max() <= 2 ** -8 * deq.abs().max(), form
        return t, deq
    return pack


def fp8(strategy, dtype=torch.bfloat16, name="weight_scale", static=False):
    def pack(w, r):
        a = w.abs().amax(1, keepdim=True) if strategy == "channel" else w.abs().amax().reshape(())
        s = (a / 448).to(dtype)
        q = (w / s.float()).clamp(-448, 448).to(torch.float8_e4m3fn)
        t = {"weight": q, name: s}
        if static:
            t["input_scale"] = torch.tensor(0.025)
        return t, q.float() * s.float()
    return pack


def fp8_block(rows=128, columns=128, name="weight_scale_inv"):
    def pack(w, r):
        o, i = w.shape
        s = torch.zeros(-(-o // rows), -(-i // columns))
        for a in range(s.shape[0]):
            for b in range(s.shape[1]):
                s[a, b] = w[a * rows:(a + 1) * rows, b * columns:(b + 1) * columns].abs().max() / 448
        full = s.repeat_interleave(rows, 0)[:o].repeat_interleave(columns, 1)[:, :i]
        q = (w / full).clamp(-448, 448).to(torch.float8_e4m3fn)
        return {"weight": q, name: s}, q.float() * full
    return pack


def mxfp8(w, r):
    x = w.reshape(w.shape[0], -1, 32)
    e = (torch.floor(torch.log2(x.abs().amax(-1))) - 8).clamp(-127, 127)
    q = (x / torch.exp2(e)[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn)
    return {"weight": q.reshape(w.shape), "weight_scale": (e + 127).to(torch.uint8)}, (q.float() * torch.exp2(e)[..., None]).reshape(w.shape)


def nibbles(q):
    return (q[..., 0::2] | (q[..., 1::2] << 4)).to(torch.uint8).contiguous()


def fp4_codes(y):
    return ((y.abs()[..., None] - Q.FP4[:8]).abs().argmin(-1) + 8 * (y < 0)).to(torch.uint8)


def nvfp4(modelopt=False):
    def pack(w, r):
        x = w.reshape(w.shape[0], -1, 16)
        g = w.abs().max() / (448 * 6)
        d = (x.abs().amax(-1) / 6 / g).clamp(2 ** -9, 448).to(torch.float8_e4m3fn)
        s = d.float() * g
        q = fp4_codes(x / s[..., None])
        deq = (Q.FP4[q.long()] * s[..., None]).reshape(w.shape)
        codes = nibbles(q.reshape(w.shape))
        if modelopt:
            return {"weight": codes, "weight_scale": d, "weight_scale_2": g.reshape(()), "input_scale": torch.tensor(0.01)}, deq
        t = {"weight_packed": codes, "weight_scale": d, "weight_global_scale": (1 / g).reshape(1), "input_global_scale": torch.tensor([90.0])}
        return t, (Q.FP4[q.long()] * (d.float() / t["weight_global_scale"])[..., None]).reshape(w.shape)
    return pack


def mxfp4(w, r):
    b, s, deq = Q.mxfp4(w)
    return {"weight_packed": b.reshape(w.shape[0], -1), "weight_scale": s}, deq


NF4 = torch.tensor([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
                    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
                    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0])
FP4_MAP = torch.tensor([0.0, 0.0052083333, 0.6666667, 1.0, 0.33333334, 0.5, 0.16666667, 0.25, 0.0, -0.0052083333, -0.6666667, -1.0, -0.33333334, -0.5, -0.16666667, -0.25])


def bnb4(table, kind, nested, run=64):
    def pack(w, r):
        flat = w.reshape(-1)
        n = -(-flat.numel() // run)
        x = torch.nn.functional.pad(flat, (0, n * run - flat.numel())).reshape(n, run)
        most = x.abs().amax(1)
        state = {"quant_type": kind, "blocksize": run, "dtype": "bfloat16", "shape": list(w.shape)}
        t = {"weight.quant_map": table}
        if nested:
            offset = float(most.mean())
            outer = torch.nn.functional.pad(most - offset, (0, (-n) % 256)).reshape(-1, 256)
            top = outer.abs().amax(1)
            table8 = torch.linspace(-1, 1, 256)
            q8 = ((outer / top[:, None])[..., None] - table8).abs().argmin(-1).reshape(-1)[:n].to(torch.uint8)
            most = table8[q8.long()] * top.repeat_interleave(256)[:n] + offset
            state.update(nested_blocksize=256, nested_dtype="float32", nested_offset=offset)
            t |= {"weight.absmax": q8, "weight.nested_absmax": top, "weight.nested_quant_map": table8}
        else:
            t["weight.absmax"] = most
        q = ((x / most[:, None])[..., None] - table).abs().argmin(-1)
        deq = (table[q] * most[:, None]).reshape(-1)[:flat.numel()].reshape(w.shape)
        q = q.reshape(-1)[:flat.numel()]
        t["weight"] = ((q[0::2] << 4) | q[1::2]).to(torch.uint8).reshape(-1, 1)
        t["weight.quant_state.bitsandbytes__" + kind] = torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)
        return t, deq
    return pack


def bnb8(w, r):
    most = w.abs().amax(1)
    q = (w * (127 / most)[:, None]).round().clamp(-127, 127)
    return {"weight": q.to(torch.int8), "SCB": most, "weight_format": torch.tensor(0, dtype=torch.uint8)}, q * (most / 127)[:, None]


def make(spec, root, log=print):
    out = root / spec["name"]
    out.mkdir(parents=True, exist_ok=True)
    vocab = spec["kwargs"]["vocab_size"]
    for k in range(40):
        seed = spec["seed"] + 1000 * k
        cfg, model = G.build(spec, seed)
        with tempfile.TemporaryDirectory() as td:
            td = Path(td)
            w, _ = G.save_weights(model, td, "bfloat16")
            r = torch.Generator().manual_seed(seed)
            store, plain, used = {}, {}, {}
            for key, v in w.items():
                pack = next((f for end, f in spec["formats"] if end in key), None) if Q.LIN.search(key) and v.ndim == 2 else None
                if pack is None:
                    store[key], plain[key] = v, v.float()
                    continue
                t, plain[key] = pack(v.float(), r)
                for a, b in t.items():
                    store[f"{key[:-7]}.{a}"] = b.clone().contiguous()
                used[key] = round(float((plain[key] - v.float()).pow(2).mean().sqrt() / v.float().std()), 4)
            save_file({a: b.contiguous() for a, b in plain.items()}, str(td / "model.safetensors"), metadata={"format": "pt"})
            cj = G.legacy_config(cfg, spec["kwargs"], spec["cls"], "bfloat16")
            G.pretty_json(td / "config.json", cj)
            ref = G.reload(td)
        prompts = G.make_prompts(vocab, seed)
        res, logits = G.run_all(ref, prompts)
        bad, q = G.quality(ref, prompts, res, logits)
        gap = G.choice_gap(lambda x: G.fwd(ref, x), [p + x["greedy"] for p, x in zip(prompts, res)])
        if gap < G.MIN_GAP:
            bad.append("choice")
        if not bad:
            break
    else:
        raise RuntimeError(f"{spec['name']}: no seed, last {bad}")
    save_file(store, str(out / "model.safetensors"), metadata={"format": "pt"})
    cj["quantization_config"] = spec["quantization_config"]
    G.pretty_json(out / "config.json", cj)
    gold = {"format": G.FORMAT, "name": spec["name"], "architecture": spec["cls"], "model_type": cfg.model_type, "quantised_tensors": len(used),
            "relative_rms_errors": used, "compute": "decoded weights in float32, activations not quantised", "seed": seed,
            "logit_std": q["logit_std"], "prompts": res}
    save_file({a: b[-KEPT:].contiguous() for a, b in logits.items()}, str(out / "logits.safetensors"))
    G.write_json(out / "golden.json", gold)
    if spec.get("tokenizer"):
        G.write_tokenizer(out, vocab)
    log(f"{spec['name']:22s} seed {seed} tensors {len(used)} errors {min(used.values())}..{max(used.values())} all {sum(f.stat().st_size for f in out.iterdir()) // 1024}K")


B = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0, max_position_embeddings=512, vocab_size=64, tie_word_embeddings=False, rms_norm_eps=1e-6)
SMALL = dict(B, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, rope_theta=1e4)
WIDE = dict(B, hidden_size=128, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4, rope_theta=1e4)
MOE = dict(SMALL, moe_intermediate_size=64, num_experts=4, num_experts_per_tok=2, head_dim=16, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[])
MLA = dict(B, hidden_size=64, intermediate_size=128, moe_intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, n_shared_experts=1,
           n_routed_experts=4, num_experts_per_tok=2, kv_lora_rank=32, q_lora_rank=64, qk_rope_head_dim=16, qk_nope_head_dim=32, v_head_dim=32, n_group=2, topk_group=1,
           first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.0, rope_theta=1e4)
LLAMA, QWEN3, QWEN3MOE, DEEPSEEK3 = (dict(cls=c + "ForCausalLM", config=c + "Config") for c in ("Llama", "Qwen3", "Qwen3Moe", "DeepseekV3"))


def gptq_config(bits, **more):
    return dict({"quant_method": "gptq", "bits": bits, "group_size": 32, "desc_act": True, "sym": False, "checkpoint_format": "gptq"}, **more)


def ct_group(bits, type="int", **more):
    return {"targets": ["Linear"], "weights": dict({"num_bits": bits, "type": type, "strategy": "channel", "symmetric": True, "dynamic": False}, **more), "input_activations": None}


def ct_config(fmt, *groups, **more):
    return dict({"quant_method": "compressed-tensors", "format": fmt, "config_groups": {f"group_{i}": g for i, g in enumerate(groups)}, "ignore": ["lm_head"]}, **more)


DYNAMIC = {f"+:.*{p}.*": {"bits": b} for p, b in (("q_proj", 2), ("k_proj", 3), ("v_proj", 8))} | {"-:.*down_proj.*": {}}
SPECS = [
    dict(LLAMA, name="gptq-widths", seed=301, kwargs=SMALL, quantization_config=gptq_config(4, dynamic=DYNAMIC),
         formats=[("q_proj", gptq(2, 32, sym=False, act=True)), ("k_proj", gptq(3, 32, act=True)), ("v_proj", gptq(8, -1)), ("o_proj", gptq(4, 32, sym=False, g_idx=False)),
                  ("0.mlp.gate_proj", gptq(8, 32, sym=False, act=True)), ("gate_proj", gptq(4, 16, sym=False, act=True)), ("up_proj", gptq(4, 64, act=True))]),
    dict(LLAMA, name="gptq-v2-long", seed=302, kwargs=WIDE, quantization_config=gptq_config(4, group_size=128, sym=False, checkpoint_format="gptq_v2", dynamic=DYNAMIC),
         formats=[("q_proj", gptq(2, 128, sym=False, v2=True)), ("k_proj", gptq(3, 128, sym=False, v2=True)), ("v_proj", gptq(8, 128, sym=False, v2=True)),
                  ("o_proj", gptq(4, 128, sym=False, act=True, v2=True)), ("gate_proj", gptq(4, -1, sym=False, v2=True)), ("up_proj", gptq(3, 64, sym=False, v2=True)), ("down_proj", gptq(4, 128, sym=False, act=True, v2=True))]),
    dict(QWEN3MOE, name="gptq-experts", seed=303, kwargs=MOE, quantization_config=gptq_config(4),
         formats=[("experts.0.", gptq(4, 32, sym=False, act=True)), ("experts.1.up", gptq(8, 32)), ("experts.", gptq(4, 32)), ("self_attn", gptq(4, 32, act=True))]),
    dict(DEEPSEEK3, name="fp8-latent", seed=304, kwargs=MLA, quantization_config={"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [32, 32]},
         formats=[("", fp8_block(32, 32))]),
    dict(DEEPSEEK3, name="ct-latent", seed=305, kwargs=MLA, quantization_config=ct_config("pack-quantized", ct_group(4, strategy="group", group_size=32)),
         formats=[("kv_b_proj", ct_pack(4, 32, sym=False)), ("q_b_proj", ct_int8()), ("", ct_pack(4, 32))]),
    dict(LLAMA, name="ct-mixed", seed=306, kwargs=SMALL, quantization_config=ct_config("mixed-precision", ct_group(8), ct_group(4), ct_group(2), ct_group(8, "float"), ct_group(4, "float")),
         formats=[("0.self_attn.q_proj", ct_int8(sym=False)), ("q_proj", ct_int8(32, dtype=torch.float32)), ("0.self_attn.k_proj", nvfp4()), ("k_proj", ct_pack(8, 32)), ("v_proj", mxfp4),
                  ("0.self_attn.o_proj", ct_pack(4, -1)), ("o_proj", ct_int8(tensor=True, static=True)), ("0.mlp.gate_proj", fp8("channel")), ("gate_proj", ct_pack(4, 32, act=True, sym=False)), ("0.mlp.up_proj", ct_pack(2, 32, sym=False)),
                  ("up_proj", fp8("tensor", torch.float32, static=True)), ("0.mlp.down_proj", mxfp8)]),
    dict(LLAMA, name="ct-library", seed=311, kwargs=dict(SMALL, num_hidden_layers=1), quantization_config=ct_config("mixed-precision", ct_group(3), ct_group(4), ct_group(2), ct_group(8)),
         formats=[("q_proj", library("pack-quantized", 3, 32)), ("k_proj", library("pack-quantized", 3, 32, sym=False)), ("v_proj", library("int-quantized", 4, 32, activations=True)),
                  ("o_proj", library("int-quantized", 4, 64, sym=False, activations=True)), ("gate_proj", library("pack-quantized", 8, 32)), ("up_proj", library("pack-quantized", 2, 32, sym=False)),
                  ("down_proj", library("pack-quantized", 4, 128, sym=False))]),
    dict(QWEN3, name="modelopt-nvfp4", seed=307, kwargs=dict(SMALL, head_dim=16), quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
         formats=[("k_proj", fp8("tensor", torch.float32)), ("", nvfp4(True))]),
    dict(LLAMA, name="bnb", seed=308, kwargs=SMALL, quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
         formats=[("down_proj", bnb4(FP4_MAP, "fp4", False)), ("o_proj", bnb4(NF4, "nf4", False)), ("1.mlp.up_proj", bnb8), ("", bnb4(NF4, "nf4", True))]),
    dict(LLAMA, name="awq-long", seed=310, kwargs=WIDE, quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}, formats=[("", awq(128))]),
]

if __name__ == "__main__":
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "tests/data/goldens/quant")
    for one in SPECS:
        if len(sys.argv) < 3 or one["name"] in sys.argv[2:]:
            make(one, root)
