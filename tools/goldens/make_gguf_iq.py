"""A GGUF file of arch llama whose matrices have all IQ, TQ and FP4 types, and what a plain float64 program computes of the values
that PyPI's gguf decodes: the last logits and 32 greedy ids of two prompts, as make_gguf_alone.py keeps them.

    python make_gguf_iq.py OUT    # OUT/lattices.gguf and .json
"""
import json
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T

from alone_parts import attend, gated, heads_of, rms, rope
from decode_digests import SCALE
from make_gguf_alone import greedy

V, D, INNER, HEADS, KV, DIM, LAYERS = 80, 256, 256, 4, 2, 32, 2
TYPES = [dict(attn_q="IQ1_S", attn_k="IQ2_XXS", attn_v="IQ2_XS", attn_output="MXFP4", ffn_gate="IQ3_XXS", ffn_up="TQ1_0", ffn_down="IQ3_S"),
         dict(attn_q="IQ2_S", attn_k="IQ1_M", attn_v="TQ2_0", attn_output="NVFP4", ffn_gate="IQ2_XXS", ffn_up="IQ1_M", ffn_down="IQ1_S")]
SHAPES = dict(attn_q=(HEADS * DIM, D), attn_k=(KV * DIM, D), attn_v=(KV * DIM, D), attn_output=(D, HEADS * DIM), ffn_gate=(INNER, D), ffn_up=(INNER, D), ffn_down=(D, INNER))


def random_blocks(r, name, rows, columns, spread):
    """Random codes, and scales such that values spread as weights do."""
    values, size = GGML_QUANT_SIZES[T[name]]
    q = r.integers(0, 256, (rows * columns // values, size), dtype=np.uint8)
    if name == "MXFP4":
        q[:, 0] = int(np.round(np.log2(spread))) + 127 + r.integers(-1, 1, q.shape[0])
    elif name == "NVFP4":
        q[:, :4] = r.integers(20, 36, (q.shape[0], 4))
    else:
        at = SCALE[name]
        one = np.array([1.0], np.float16).view(np.uint8)
        probe = q.copy()
        if name == "IQ1_M":
            set_d = lambda b, d: [b.__setitem__((slice(None), 49 + 2 * i), b[:, 49 + 2 * i] & 15 | ((d >> (4 * i)) & 15).astype(np.uint8) << 4) for i in range(4)]
        else:
            set_d = lambda b, d: [b.__setitem__((slice(None), at - 1), (d & 255).astype(np.uint8)), b.__setitem__((slice(None), at), (d >> 8).astype(np.uint8))]
        set_d(probe, np.full(q.shape[0], 0x3C00))
        d = spread / quants.dequantize(probe.reshape(-1), T[name]).std() * r.uniform(0.7, 1.3, q.shape[0])
        set_d(q, d.astype(np.float16).view(np.uint16).astype(np.int64))
    return q.reshape(rows, -1)


def make(seed, out):
    r = np.random.default_rng(seed)
    w, f = {}, {}
    for i, types in enumerate(TYPES):
        for part, name in types.items():
            rows, columns = SHAPES[part]
            gain = 1.8 if part in ("ffn_down", "attn_output", "attn_q", "attn_k") else 1.2
            q = random_blocks(r, name, rows, columns, gain / np.sqrt(columns))
            w[f"blk.{i}.{part}.weight"] = (q, T[name])
            f[i, part] = quants.dequantize(q, T[name]).reshape(rows, columns).astype(np.float64)
        for part in ("attn_norm", "ffn_norm"):
            g = (1 + 0.2 * r.standard_normal(D)).astype(np.float32)
            w[f"blk.{i}.{part}.weight"], f[i, part] = (g, T.F32), g.astype(np.float64)
    g = (1 + 0.2 * r.standard_normal(D)).astype(np.float32)
    w["output_norm.weight"], f["norm"] = (g, T.F32), g.astype(np.float64)
    for part, gain in (("token_embd", 1.0), ("output", 3.0 / 16)):
        x = (r.standard_normal((V, D)) * gain).astype(np.float16)
        w[part + ".weight"], f[part] = (x, T.F16), x.astype(np.float64)

    def run(tokens):
        x = f["token_embd"][tokens]
        for i in range(LAYERS):
            h = rms(x, f[i, "attn_norm"])
            q, k, v = (heads_of(h @ f[i, "attn_" + p].T, DIM) for p in "qkv")
            x = x + attend(rope(q, DIM, 1e4, pairs=True), rope(k, DIM, 1e4, pairs=True), v).reshape(len(tokens), -1) @ f[i, "attn_output"].T
            h = rms(x, f[i, "ffn_norm"])
            x = x + gated(h @ f[i, "ffn_gate"].T, h @ f[i, "ffn_up"].T) @ f[i, "ffn_down"].T
        return rms(x, f["norm"]) @ f["output"].T

    prompts = [[1] + [int(i) for i in r.integers(8, V, n)] for n in (6, 29)]
    made = [greedy(run, p) for p in prompts]
    last = [run(np.array(p)) for p in prompts]
    std = float(np.concatenate(last).std())
    if min(m for _, m in made) <= 1e-3 or len({i for ids, _ in made for i in ids}) < 5 or not 0.4 < std < 15:
        return False
    g = gguf.GGUFWriter(str(out / "lattices.gguf"), "llama")
    g.add_vocab_size(V)
    g.add_string("tokenizer.ggml.model", "none")
    for key, value in dict(block_count=LAYERS, embedding_length=D, context_length=256, feed_forward_length=INNER).items():
        g.add_uint32("llama." + key, value)
    g.add_uint32("llama.attention.head_count", HEADS)
    g.add_uint32("llama.attention.head_count_kv", KV)
    g.add_uint32("llama.rope.dimension_count", DIM)
    g.add_uint32("llama.attention.key_length", DIM)
    g.add_uint32("llama.attention.value_length", DIM)
    g.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    for name, (x, kind) in w.items():
        g.add_tensor(name, x, raw_dtype=kind)
    g.write_header_to_file()
    g.write_kv_data_to_file()
    g.write_tensors_to_file()
    g.close()
    (out / "lattices.json").write_text(json.dumps({
        "from": "make_gguf_iq.py", "prompts": [{"tokens": p, "greedy": ids} for p, (ids, _) in zip(prompts, made)],
        "logits": [[round(float(v), 6) for v in x[-1]] for x in last], "logit_std": std}) + "\n")
    print(f"seed {seed} std {std:.2f} margin {min(m for _, m in made):.4f} {(out / 'lattices.gguf').stat().st_size // 1024}K")
    return True


if __name__ == "__main__":
    any(make(seed, Path(sys.argv[1])) for seed in range(1, 60)) or sys.exit("no seed good enough")
