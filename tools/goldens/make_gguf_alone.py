"""GGUF files of families that the transformers library lacks, with random weights, and what a plain float64 program computes of
them: the last logits and 32 greedy ids of two prompts. The formulas are those of the published models; names, layouts and
defaults are llama.cpp's (its converter, its graphs). Needs numpy and gguf.

    python make_gguf_alone.py OUT [ARCHITECTURE...]    # OUT/<architecture>.gguf and .json
"""
import json
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

V, D, HEADS, KV, DIM = 64, 32, 4, 2, 8
FORWARD = {}


def family(f):
    FORWARD[f.__name__] = f
    return f


def bf16(x):
    u = np.ascontiguousarray(x.astype(np.float32)).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) & 0xFFFF0000).view(np.float32)


class File:
    """Random tensors and metadata of one file; what the program reads is what the file has."""

    def __init__(self, arch, seed):
        self.arch, self.r, self.tensors, self.keys = arch, np.random.default_rng(seed), {}, {}

    def key(self, **values):
        self.keys.update({k.replace("__", "."): v for k, v in values.items()})

    def matrix(self, name, *shape, gain=1.2):
        x = bf16(self.r.standard_normal(shape) * gain / np.sqrt(shape[-1]))
        self.tensors[name] = (x, T.BF16)
        return x.astype(np.float64)

    def vector(self, name, *shape, base=0.0, spread=0.2):
        x = (base + spread * self.r.standard_normal(shape)).astype(np.float32)
        self.tensors[name] = (x, T.F32)
        return x.astype(np.float64)

    def gain(self, name, *shape):
        return self.vector(name, *shape, base=1.0)

    def usual(self, layers, inner, eps=1e-5, heads=HEADS, kv=KV, rms=True):
        self.key(block_count=layers, embedding_length=D, context_length=256, feed_forward_length=inner)
        self.key(attention__head_count=heads, attention__head_count_kv=kv)
        self.key(**{"attention__layer_norm_rms_epsilon" if rms else "attention__layer_norm_epsilon": eps})

    def write(self, out):
        w = gguf.GGUFWriter(str(out), self.arch)
        w.add_vocab_size(V)
        w.add_string("tokenizer.ggml.model", "none")
        for k, v in self.keys.items():
            k = f"{self.arch}.{k}"
            if isinstance(v, bool): w.add_bool(k, v)
            elif isinstance(v, int): w.add_uint32(k, v)
            elif isinstance(v, float): w.add_float32(k, v)
            elif isinstance(v, str): w.add_string(k, v)
            else: w.add_array(k, v)
        for name, (x, kind) in self.tensors.items():
            if kind == T.BF16:
                w.add_tensor(name, gguf.quants.quantize(x, T.BF16), raw_dtype=T.BF16)
            else:
                w.add_tensor(name, x)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()


# ---------------------------------------------------------------- parts
def rms(x, g, eps=1e-5): return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g
def layer(x, g, b, eps=1e-5): return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * g + b
def sigmoid(x): return 1 / (1 + np.exp(-x))
def silu(x): return x * sigmoid(x)
def relu(x): return np.maximum(x, 0)
def gelu_tanh(x): return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))
def softmax(x): e = np.exp(x - x.max(-1, keepdims=True)); return e / e.sum(-1, keepdims=True)
def softplus(x): return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20))))


def gelu_erf(x):
    from math import erf
    return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def rope(x, dims, theta, pairs=False):
    """x [tokens, heads, dim]: its first `dims` turn, by halves or by pairs."""
    t = np.arange(x.shape[0])[:, None] * theta ** (-np.arange(0, dims, 2) / dims)[None]
    c, s, y = np.cos(t)[:, None], np.sin(t)[:, None], x.copy()
    a, b = (x[..., 0:dims:2], x[..., 1:dims:2]) if pairs else (x[..., : dims // 2], x[..., dims // 2 : dims])
    first, second = a * c - b * s, b * c + a * s
    if pairs:
        y[..., 0:dims:2], y[..., 1:dims:2] = first, second
    else:
        y[..., : dims // 2], y[..., dims // 2 : dims] = first, second
    return y


def alibi(heads, steepest=8.0):
    n = 2 ** int(np.floor(np.log2(heads)))
    return np.array([2 ** (-steepest / n * (h + 1)) if h < n else 2 ** (-steepest / 2 / n * (2 * (h - n) + 1)) for h in range(heads)])


def attend(q, k, v, scale=None, window=0, slopes=None, sinks=None):
    """q [tokens, heads, dim]; k, v [tokens, kv heads, dim]."""
    n, heads, dim = q.shape
    each = heads // k.shape[1]
    out = np.zeros((n, heads, v.shape[2]))
    i, j = np.arange(n)[:, None], np.arange(n)[None]
    seen = (j <= i) & ((i - j < window) if window else True)
    for h in range(heads):
        s = q[:, h] @ k[:, h // each].T * (scale if scale is not None else dim ** -0.5)
        if slopes is not None: s = s - slopes[h] * (i - j)
        s = np.where(seen, s, -np.inf)
        if sinks is not None: s = np.concatenate([s, np.full((n, 1), sinks[h])], 1)
        out[:, h] = softmax(s)[:, :n] @ v[:, h // each]
    return out.reshape(n, -1)


def experts(x, logits, chosen, scores, weights, how, renormalise=True):
    """weights: (gate, up, down) [experts, .., ..]."""
    p, out = scores(logits), np.zeros_like(x)
    for t in range(x.shape[0]):
        ids = np.argsort(-p[t], kind="stable")[:chosen]
        w = p[t, ids] / (p[t, ids].sum() if renormalise else 1)
        for e, share in zip(ids, w):
            g, u, d = (m[e] for m in weights)
            out[t] += share * (d @ how(g @ x[t], u @ x[t]))
    return out


def heads_of(x, dim): return x.reshape(x.shape[0], -1, dim)
def gated(g, u): return silu(g) * u


def llama_permuted(w, heads):
    """Rows of heads as files of arch llama have them: halves taken apart."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(w.shape)


# ---------------------------------------------------------------- families: each gives the file and tokens -> logits
def ends(f, bias=False):
    e = f.matrix("token_embd.weight", V, D, gain=np.sqrt(D))
    g = f.gain("output_norm.weight", D)
    b = f.vector("output_norm.bias", D) if bias else None
    return e, g, b, f.matrix("output.weight", V, D, gain=3.0)


def qkv(f, i, heads=HEADS, kv=KV, dim=DIM, bias=False):
    names = [("attn_q", heads), ("attn_k", kv), ("attn_v", kv)]
    w = [f.matrix(f"blk.{i}.{n}.weight", h * dim, D, gain=1.7) for n, h in names]
    b = [f.vector(f"blk.{i}.{n}.bias", h * dim) if bias else 0.0 for n, h in names]
    return w, b, f.matrix(f"blk.{i}.attn_output.weight", D, heads * dim, gain=1.6)


def gate_up_down(f, i, inner, bias=False):
    m = [f.matrix(f"blk.{i}.ffn_{n}.weight", *s) for n, s in (("gate", (inner, D)), ("up", (inner, D)), ("down", (D, inner)))]
    b = [f.vector(f"blk.{i}.ffn_{n}.bias", s) if bias else 0.0 for n, s in (("gate", inner), ("up", inner), ("down", D))]
    return m, b


def exps(f, i, count, inner, tail=""):
    return [f.matrix(f"blk.{i}.ffn_{n}_exps{tail}.weight", *s) for n, s in (("gate", (count, inner, D)), ("up", (count, inner, D)), ("down", (count, D, inner)))]


@family
def refact(f):
    f.usual(2, 40, kv=1)
    e, g, _, head = ends(f)
    L = [(f.gain(f"blk.{i}.attn_norm.weight", D), qkv(f, i, kv=1), f.gain(f"blk.{i}.ffn_norm.weight", D), gate_up_down(f, i, 40)) for i in range(2)]

    def run(t):
        x = e[t]
        for an, (w, _, o), fn, (m, _) in L:
            h = rms(x, an)
            x = x + attend(*(heads_of(h @ a.T, DIM) for a in w), slopes=alibi(HEADS)) @ o.T
            h = rms(x, fn)
            x = x + gated(h @ m[0].T, h @ m[1].T) @ m[2].T
        return rms(x, g) @ head.T
    return run


@family
def codeshell(f):
    f.usual(2, 48, rms=False)
    f.key(rope__freq_base=10000.0)
    e, g, gb, head = ends(f, True)
    L = []
    for i in range(2):
        n = [f.gain(f"blk.{i}.{a}.weight", D) if w else f.vector(f"blk.{i}.{a}.bias", D) for a in ("attn_norm", "ffn_norm") for w in (1, 0)]
        w = f.matrix(f"blk.{i}.attn_qkv.weight", (HEADS + 2 * KV) * DIM, D, gain=1.7)
        L.append((n, w, f.vector(f"blk.{i}.attn_qkv.bias", w.shape[0]), f.matrix(f"blk.{i}.attn_output.weight", D, D), f.vector(f"blk.{i}.attn_output.bias", D),
                  f.matrix(f"blk.{i}.ffn_up.weight", 48, D), f.vector(f"blk.{i}.ffn_up.bias", 48), f.matrix(f"blk.{i}.ffn_down.weight", D, 48), f.vector(f"blk.{i}.ffn_down.bias", D)))

    def run(t):
        x = e[t]
        for n, w, b, o, ob, u, ub, d, db in L:
            a = heads_of(layer(x, n[0], n[1]) @ w.T + b, DIM)
            q, k, v = a[:, :HEADS], a[:, HEADS:HEADS + KV], a[:, HEADS + KV:]
            x = x + attend(rope(q, DIM, 1e4), rope(k, DIM, 1e4), v) @ o.T + ob
            x = x + gelu_tanh(layer(x, n[2], n[3]) @ u.T + ub) @ d.T + db
        return layer(x, g, gb) @ head.T
    return run


@family
def jais(f):
    f.usual(2, 40, rms=False, heads=6, kv=6)
    f.key(attention__max_alibi_bias=8.0, embedding_length=48)
    global D
    old, D = D, 48
    e, g, gb, head = ends(f, True)
    L = []
    for i in range(2):
        n = [f.gain(f"blk.{i}.{a}.weight", D) if w else f.vector(f"blk.{i}.{a}.bias", D) for a in ("attn_norm", "ffn_norm") for w in (1, 0)]
        w, wb = f.matrix(f"blk.{i}.attn_qkv.weight", 3 * D, D, gain=3.0), f.vector(f"blk.{i}.attn_qkv.bias", 3 * D)
        L.append((n, w, wb, f.matrix(f"blk.{i}.attn_output.weight", D, D), f.vector(f"blk.{i}.attn_output.bias", D), gate_up_down(f, i, 40, True)))
    D = old

    def run(t):
        x = e[t]
        for n, w, wb, o, ob, (m, b) in L:
            a = heads_of(layer(x, n[0], n[1]) @ w.T + wb, 8)
            x = x + attend(a[:, :6], a[:, 6:12], a[:, 12:], scale=1 / 8, slopes=alibi(6)) @ o.T + ob
            h = layer(x, n[2], n[3])
            x = x + gated(h @ m[0].T + b[0], h @ m[1].T + b[1]) @ m[2].T + b[2]
        return layer(x, g, gb) @ head.T
    return run


@family
def openelm(f):
    heads, kv, inner = [4, 6], [2, 3], [24, 40]
    f.usual(2, inner, heads=heads, kv=kv)
    f.key(attention__key_length=DIM, attention__value_length=DIM, rope__freq_base=10000.0, rope__dimension_count=DIM)
    e, g = f.matrix("token_embd.weight", V, D, gain=3.0), f.gain("output_norm.weight", D)
    L = []
    for i in range(2):
        L.append((f.gain(f"blk.{i}.attn_norm.weight", D), f.matrix(f"blk.{i}.attn_qkv.weight", (heads[i] + 2 * kv[i]) * DIM, D, gain=1.7),
                  f.gain(f"blk.{i}.attn_q_norm.weight", DIM), f.gain(f"blk.{i}.attn_k_norm.weight", DIM), f.matrix(f"blk.{i}.attn_output.weight", D, heads[i] * DIM),
                  f.gain(f"blk.{i}.ffn_norm.weight", D), gate_up_down(f, i, inner[i])))

    def run(t):
        x = e[t]
        for i, (an, w, qn, kn, o, fn, (m, _)) in enumerate(L):
            a, h, k = heads_of(rms(x, an) @ w.T, DIM), heads[i], kv[i]
            x = x + attend(rope(rms(a[:, :h], qn), DIM, 1e4), rope(rms(a[:, h:h + k], kn), DIM, 1e4), a[:, h + k:]) @ o.T
            y = rms(x, fn)
            x = x + gated(y @ m[0].T, y @ m[1].T) @ m[2].T
        return rms(x, g) @ e.T
    return run


@family
def maincoder(f):
    f.usual(2, 40)
    f.key(attention__key_length=DIM, attention__value_length=DIM, rope__freq_base=5e4, rope__dimension_count=DIM)
    e, g, _, head = ends(f)
    L = [(f.gain(f"blk.{i}.attn_norm.weight", D), qkv(f, i), f.gain(f"blk.{i}.attn_q_norm.weight", DIM), f.gain(f"blk.{i}.attn_k_norm.weight", DIM),
          f.gain(f"blk.{i}.ffn_norm.weight", D), gate_up_down(f, i, 40)) for i in range(2)]

    def run(t):
        x = e[t]
        for an, (w, _, o), qn, kn, fn, (m, _) in L:
            q, k, v = (heads_of(rms(x, an) @ a.T, DIM) for a in w)
            x = x + attend(rms(rope(q, DIM, 5e4, True), qn), rms(rope(k, DIM, 5e4, True), kn), v) @ o.T
            y = rms(x, fn)
            x = x + gated(y @ m[0].T, y @ m[1].T) @ m[2].T
        return rms(x, g) @ head.T
    return run


@family
def arctic(f):
    f.usual(2, 24)
    f.key(expert_count=5, expert_used_count=2, rope__freq_base=1e4, rope__dimension_count=DIM)
    e, g, _, head = ends(f)
    L = [(f.gain(f"blk.{i}.attn_norm.weight", D), qkv(f, i), f.gain(f"blk.{i}.ffn_norm.weight", D), gate_up_down(f, i, D),
          f.gain(f"blk.{i}.ffn_norm_exps.weight", D), f.matrix(f"blk.{i}.ffn_gate_inp.weight", 5, D, gain=2.0), exps(f, i, 5, 24)) for i in range(2)]

    def run(t):
        x = e[t]
        for an, (w, _, o), fn, (m, _), en, router, ex in L:
            start = x
            q, k, v = (heads_of(rms(x, an) @ a.T, DIM) for a in w)
            x = x + attend(rope(q, DIM, 1e4, True), rope(k, DIM, 1e4, True), v) @ o.T
            y = rms(x, fn)
            x = x + gated(y @ m[0].T, y @ m[1].T) @ m[2].T
            y = rms(start, en)
            x = x + experts(y, y @ router.T, 2, softmax, ex, gated)
        return rms(x, g) @ head.T
    return run


@family
def plm(f):
    rank, nope, rot, value = 12, 8, 4, 6
    f.usual(2, 40, kv=HEADS)
    f.key(attention__kv_lora_rank=rank, attention__key_length=nope + rot, attention__value_length=value, rope__dimension_count=rot, rope__freq_base=1e4)
    e, g = f.matrix("token_embd.weight", V, D, gain=3.0), f.gain("output_norm.weight", D)
    L = [(f.gain(f"blk.{i}.attn_norm.weight", D), f.matrix(f"blk.{i}.attn_q.weight", HEADS * (nope + rot), D, gain=1.7), f.matrix(f"blk.{i}.attn_kv_a_mqa.weight", rank + rot, D, gain=1.7),
          f.gain(f"blk.{i}.attn_kv_a_norm.weight", rank), f.matrix(f"blk.{i}.attn_kv_b.weight", HEADS * (nope + value), rank), f.matrix(f"blk.{i}.attn_output.weight", D, HEADS * value),
          f.gain(f"blk.{i}.ffn_norm.weight", D), f.matrix(f"blk.{i}.ffn_up.weight", 40, D), f.matrix(f"blk.{i}.ffn_down.weight", D, 40)) for i in range(2)]

    def run(t):
        x = e[t]
        for an, wq, wa, kn, wb, o, fn, u, d in L:
            h = rms(x, an)
            q, a = heads_of(h @ wq.T, nope + rot), h @ wa.T
            shared = rope(a[:, None, rank:], rot, 1e4, True)
            kv = heads_of(rms(a[:, :rank], kn) @ wb.T, nope + value)
            q = np.concatenate([q[..., :nope], rope(q[..., nope:], rot, 1e4, True)], -1)
            k = np.concatenate([kv[..., :nope], np.repeat(shared, HEADS, 1)], -1)
            x = x + attend(q, k, kv[..., nope:]) @ o.T
            x = x + (relu(rms(x, fn) @ u.T) ** 2) @ d.T
        return rms(x, g) @ e.T
    return run


@family
def plamo(f):
    f.usual(2, 40)
    e, g, _, head = ends(f)
    L = [(f.gain(f"blk.{i}.attn_norm.weight", D), qkv(f, i), gate_up_down(f, i, 40)) for i in range(2)]

    def run(t):
        x = e[t]
        for an, (w, _, o), (m, _) in L:
            h = rms(x, an)
            q, k, v = (heads_of(h @ a.T, DIM) for a in w)
            x = x + attend(rope(q, DIM, 1e4), rope(k, DIM, 1e4), v) @ o.T + gated(h @ m[0].T, h @ m[1].T) @ m[2].T
        return rms(x, g) @ head.T
    return run


@family
def plamo2(f):
    heads, dim, state, rank, taps, layers = 4, 8, 6, 64, 4, 3
    f.usual(layers, 40, heads=[0, HEADS, 0], kv=[0, KV, 0])
    f.key(attention__key_length=dim, attention__value_length=dim, rope__freq_base=1e4, ssm__state_size=state, ssm__conv_kernel=taps, ssm__time_step_rank=heads,
          ssm__inner_size=heads * dim, ssm__group_count=0)
    e, g, inner, L = f.matrix("token_embd.weight", V, D, gain=3.0), f.gain("output_norm.weight", D), heads * dim, []
    for i in range(layers):
        p = f"blk.{i}."
        n = [f.gain(p + a, D) for a in ("attn_norm.weight", "post_attention_norm", "ffn_norm.weight", "post_ffw_norm")]
        if i % 2 == 0:
            mixer = [f.matrix(p + "ssm_in.weight", 2 * inner, D), f.vector(p + "ssm_conv1d.weight", inner, taps, spread=0.5), f.matrix(p + "ssm_x.weight", 2 * state + rank, inner),
                     f.gain(p + "ssm_b_norm", state), f.gain(p + "ssm_c_norm", state), f.gain(p + "ssm_dt_norm", rank), f.matrix(p + "ssm_dt.weight", heads, rank, gain=0.5),
                     f.vector(p + "ssm_dt.bias", heads, base=-1), f.vector(p + "ssm_a", heads, base=-1.2), f.vector(p + "ssm_d", heads, base=1), f.matrix(p + "ssm_out.weight", D, inner)]
        else:
            mixer = [f.matrix(p + "attn_qkv.weight", (HEADS + 2 * KV) * dim, D, gain=1.7), f.gain(p + "attn_q_norm.weight", HEADS, dim), f.gain(p + "attn_k_norm.weight", KV, dim),
                     f.matrix(p + "attn_output.weight", D, HEADS * dim)]
        L.append((n, mixer, f.matrix(p + "ffn_up.weight", 80, D), f.matrix(p + "ffn_down.weight", D, 40)))

    def scan(h, win, conv, wx, bn, cn, dn, wdt, bdt, a, d, out):
        zx = (h @ win.T).reshape(len(h), heads, 2 * dim)
        z, x = zx[..., :dim], zx[..., dim:].reshape(len(h), inner)
        padded = np.concatenate([np.zeros((taps - 1, inner)), x])
        x = silu(sum(padded[j:j + len(h)] * conv[:, j] for j in range(taps)))
        m = x @ wx.T
        B, C, dt = rms(m[:, :state], bn), rms(m[:, state:2 * state], cn), softplus(rms(m[:, 2 * state:], dn) @ wdt.T + bdt)
        S, y = np.zeros((heads, dim, state)), np.zeros((len(h), heads, dim))
        for t in range(len(h)):
            xt = x[t].reshape(heads, dim)
            S = np.exp(dt[t] * a)[:, None, None] * S + (dt[t][:, None] * xt)[..., None] * B[t]
            y[t] = S @ C[t] + d[:, None] * xt
        return (silu(z) * y).reshape(len(h), inner) @ out.T

    def run(t):
        x = e[t]
        for n, mixer, u, d in L:
            h = rms(x, n[0])
            if len(mixer) > 4:
                y = scan(h, *mixer)
            else:
                a = heads_of(h @ mixer[0].T, dim)
                y = attend(rope(rms(a[:, :HEADS], mixer[1]), dim, 1e4), rope(rms(a[:, HEADS:HEADS + KV], mixer[2]), dim, 1e4), a[:, HEADS + KV:]) @ mixer[3].T
            x = x + rms(y, n[1])
            m = rms(x, n[2]) @ u.T
            x = x + rms(gated(m[:, :40], m[:, 40:]) @ d.T, n[3])
        return rms(x, g) @ e.T
    return run


@family
def plamo3(f):
    layers, window = 5, 6
    f.usual(layers, 24)
    f.key(attention__key_length=DIM, attention__value_length=DIM, attention__sliding_window=window, rope__freq_base=1e5, rope__freq_base_swa=1e4)
    f.key(attention__sliding_window_pattern=4)
    e, g, L = f.matrix("token_embd.weight", V, D, gain=3.0), f.gain("output_norm.weight", D), []
    for i in range(layers):
        p = f"blk.{i}."
        L.append(([f.gain(p + a, D) for a in ("attn_norm.weight", "post_attention_norm", "ffn_norm.weight", "post_ffw_norm")],
                  f.matrix(p + "attn_qkv.weight", (HEADS + 2 * KV) * DIM, D, gain=1.7), f.gain(p + "attn_q_norm.weight", DIM), f.gain(p + "attn_k_norm.weight", DIM),
                  f.matrix(p + "attn_output.weight", D, HEADS * DIM), f.matrix(p + "ffn_up.weight", 48, D), f.matrix(p + "ffn_down.weight", D, 24)))

    def run(t):
        x = e[t]
        for i, (n, w, qn, kn, o, u, d) in enumerate(L):
            slides = i % 4 != 3
            theta = 1e4 if slides else 1e5
            a = heads_of(rms(x, n[0]) @ w.T, DIM)
            y = attend(rope(rms(a[:, :HEADS], qn), DIM, theta), rope(rms(a[:, HEADS:HEADS + KV], kn), DIM, theta), a[:, HEADS + KV:], window=window if slides else 0) @ o.T
            x = x + rms(y, n[1])
            m = rms(x, n[2]) @ u.T
            x = x + rms(gated(m[:, :24], m[:, 24:]) @ d.T, n[3])
        return rms(x, g) @ e.T
    return run


@family
def smallthinker(f):
    layers, count, inner = 5, 4, 8
    f.usual(layers, inner)
    f.key(attention__key_length=DIM, attention__value_length=DIM, attention__sliding_window=4096, rope__freq_base=1.5e6, expert_count=count, expert_used_count=2,
          expert_feed_forward_length=inner, expert_gating_func=2, rope__dimension_count=DIM)
    e, g = f.matrix("token_embd.weight", V, D, gain=3.0), f.gain("output_norm.weight", D)
    L = [(f.gain(f"blk.{i}.attn_norm.weight", D), qkv(f, i), f.gain(f"blk.{i}.ffn_norm.weight", D), f.matrix(f"blk.{i}.ffn_gate_inp.weight", count, D, gain=1.0), exps(f, i, count, inner)) for i in range(layers)]

    def run(t):
        x = e[t]
        for i, (an, (w, _, o), fn, router, ex) in enumerate(L):
            logits = x @ router.T
            q, k, v = (heads_of(rms(x, an) @ a.T, DIM) for a in w)
            if i % 4: q, k = rope(q, DIM, 1.5e6), rope(k, DIM, 1.5e6)
            x = x + attend(q, k, v) @ o.T
            x = x + experts(rms(x, fn), logits, 2, sigmoid, ex, lambda a, b: relu(a) * b)
        return rms(x, g) @ e.T
    return run


@family
def maple(f):
    layers, count, inner, window = 3, 5, 16, 6
    f.usual(layers, 40)
    f.key(attention__key_length=DIM, attention__value_length=DIM, attention__sliding_window=window, attention__sliding_window_pattern=[True, False, True], rope__freq_base=1e4,
          expert_count=count, expert_used_count=2, expert_feed_forward_length=inner, rope__dimension_count=DIM // 2, swiglu_clamp_exp=[1.5] * layers)
    e, g, _, head = ends(f)
    L = [(f.gain(f"blk.{i}.attn_norm.weight", D), qkv(f, i), f.gain(f"blk.{i}.attn_q_norm.weight", DIM), f.gain(f"blk.{i}.attn_k_norm.weight", DIM), f.gain(f"blk.{i}.ffn_norm.weight", D),
          f.matrix(f"blk.{i}.ffn_gate_inp.weight", count, D, gain=2.0), exps(f, i, count, inner)) for i in range(layers)]

    def run(t):
        x = e[t]
        for i, (an, (w, _, o), qn, kn, fn, router, ex) in enumerate(L):
            q, k, v = (heads_of(rms(x, an) @ a.T, DIM) for a in w)
            q, k = rms(q, qn), rms(k, kn)
            if i != 1: q, k = rope(q, DIM // 2, 1e4), rope(k, DIM // 2, 1e4)
            x = x + attend(q, k, v, window=window if i != 1 else 0) @ o.T
            h = rms(x, fn)
            x = x + experts(h, h @ router.T, 2, softmax, ex, CLAMPED)
        return rms(x, g) @ head.T
    return run


def CLAMPED(a, b): return silu(np.minimum(a, 1.5)) * np.clip(b, -1.5, 1.5)


@family
def spark2_5(f):
    layers, window = 3, 6
    f.usual(layers, 40)
    f.key(attention__key_length=DIM, attention__value_length=DIM, attention__sliding_window=window, attention__sliding_window_pattern=[True, False, True], rope__freq_base=1e6,
          rope__freq_base_swa=1e4, rope__dimension_count=DIM // 2, rope__dimension_count_swa=DIM)
    e, g, _, head = ends(f)
    L = [(f.gain(f"blk.{i}.attn_norm.weight", D), f.matrix(f"blk.{i}.attn_qkv.weight", (HEADS + 2 * KV) * DIM, D, gain=1.7), f.matrix(f"blk.{i}.attn_gate.weight", HEADS, D),
          f.matrix(f"blk.{i}.attn_output.weight", D, D), f.gain(f"blk.{i}.ffn_norm.weight", D), gate_up_down(f, i, 40)) for i in range(layers)]

    def run(t):
        x = e[t]
        for i, (an, w, gate, o, fn, (m, _)) in enumerate(L):
            h = rms(x, an)
            a = heads_of(h @ w.T, DIM)
            dims, theta = (DIM, 1e4) if i != 1 else (DIM // 2, 1e6)
            y = attend(rope(a[:, :HEADS], dims, theta), rope(a[:, HEADS:HEADS + KV], dims, theta), a[:, HEADS + KV:], window=window if i != 1 else 0)
            x = x + (heads_of(y, DIM) * sigmoid(h @ gate.T)[..., None]).reshape(len(t), -1) @ o.T
            h = rms(x, fn)
            x = x + (gelu_erf(h @ m[0].T) * (h @ m[1].T)) @ m[2].T
        return rms(x, g) @ head.T
    return run


@family
def nanbeige(f):
    f.usual(2, 40)
    f.key(num_loops=2, skip_loop_final_norm=False, rope__freq_base=1e5, rope__dimension_count=DIM)
    e, g, _, head = ends(f)
    L = [(f.gain(f"blk.{i}.attn_norm.weight", D), qkv(f, i), f.gain(f"blk.{i}.ffn_norm.weight", D), gate_up_down(f, i, 40)) for i in range(2)]

    def run(t):
        x = e[t]
        for loop in range(2):
            for an, (w, _, o), fn, (m, _) in L:
                q, k, v = (heads_of(rms(x, an) @ a.T, DIM) for a in w)
                x = x + attend(rope(q, DIM, 1e5, True), rope(k, DIM, 1e5, True), v) @ o.T
                h = rms(x, fn)
                x = x + gated(h @ m[0].T, h @ m[1].T) @ m[2].T
            x = rms(x, g)
        return x @ head.T
    return run


@family
def granite_swa(f):
    layers, window = 4, 6
    f.usual(layers, 40)
    f.key(attention__sliding_window=window, attention__sliding_window_pattern=[False, True, True, True], attention__rope_pattern=[False, True, True, True], rope__freq_base=1e4,
          rope__dimension_count=DIM, logit_scale=2.0, residual_scale=0.7, embedding_scale=1.5, attention__scale=0.3)
    e, g, _, head = ends(f)
    L = [(f.gain(f"blk.{i}.attn_norm.weight", D), qkv(f, i), f.vector(f"blk.{i}.attn_sinks.weight", HEADS, spread=1.0), f.gain(f"blk.{i}.ffn_norm.weight", D), gate_up_down(f, i, 40)) for i in range(layers)]

    def run(t):
        x = 1.5 * e[t]
        for i, (an, (w, _, o), sinks, fn, (m, _)) in enumerate(L):
            q, k, v = (heads_of(rms(x, an) @ a.T, DIM) for a in w)
            if i: q, k = rope(q, DIM, 1e4, True), rope(k, DIM, 1e4, True)
            x = x + 0.7 * attend(q, k, v, scale=0.3, window=window if i else 0, sinks=sinks) @ o.T
            h = rms(x, fn)
            x = x + 0.7 * gated(h @ m[0].T, h @ m[1].T) @ m[2].T
        return rms(x, g) @ head.T / 2
    return run


def row_before(x): return np.concatenate([np.zeros((1, x.shape[1])), x[:-1]])
def unit(x): return x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), 1e-12)


class TimeMix:
    """RWKV-7's mixer of tokens."""

    def __init__(self, f, i, ranks, norm):
        p, D_ = f"blk.{i}.time_mix_", D
        self.i, parts = i, 6 if ranks["g"] else 5
        self.lerp = f.vector(p + "lerp_fused.weight", parts, 1, 1, D_, base=0.5).reshape(parts, D_)
        self.w = {n: f.matrix(f"{p}{n}.weight", D_, D_) for n in ("receptance", "key", "value", "output")}
        self.base = {n: f.vector(f"{p}{n}0.weight", D_) for n in "wav"}
        self.low = {n: (f.matrix(f"{p}{n}1.weight", r, D_), f.matrix(f"{p}{n}2.weight", D_, r)) for n, r in ranks.items() if r}
        self.kk, self.ka, self.rk = (f.vector(f"{p}{n}.weight", D_, base=0.6) for n in ("k_k", "k_a", "r_k"))
        self.norm = (f.gain(p + "ln.weight", D_), f.vector(p + "ln.bias", D_)) if norm else None

    def lora(self, n, x, how=lambda y: y): return how(x @ self.low[n][0].T) @ self.low[n][1].T

    def __call__(self, x, first):
        n, heads, dim = len(x), HEADS, DIM
        dx = row_before(x) - x
        m = [x + dx * s for s in self.lerp]
        r, k, v = m[0] @ self.w["receptance"].T, m[2] @ self.w["key"].T, m[3] @ self.w["value"].T
        decay = np.exp(-0.606531 * sigmoid(self.base["w"] + self.lora("w", m[1], np.tanh)))
        if self.i: v = v + (first - v) * sigmoid(self.base["v"] + self.lora("v", m[3]))
        else: first = v
        a = sigmoid(self.base["a"] + self.lora("a", m[4]))
        kk = unit(heads_of(k * self.kk, dim))
        k = k * (1 + (a - 1) * self.ka)
        R, K, Vv, A, W = (heads_of(y, dim) for y in (r, k, v, a, decay))
        S, out = np.zeros((heads, dim, dim)), np.zeros((n, heads, dim))  # S[h][value][key]
        for t in range(n):
            held = np.einsum("hvk,hk->hv", S, -kk[t])
            S = S * W[t][:, None] + Vv[t][..., None] * K[t][:, None] + held[..., None] * (kk[t] * A[t])[:, None]
            out[t] = np.einsum("hvk,hk->hv", S, R[t])
        if self.norm:
            out = ((out - out.mean(-1, keepdims=True)) / np.sqrt(out.var(-1, keepdims=True) + 64e-5)).reshape(n, -1) * self.norm[0] + self.norm[1]
        bonus = (R * K * heads_of(self.rk[None], dim)).sum(-1, keepdims=True)
        out = out.reshape(n, -1) + (bonus * Vv).reshape(n, -1)
        if "g" in self.low: out = out * self.lora("g", m[5], sigmoid)
        return out @ self.w["output"].T, first


@family
def rwkv7(f):
    layers, inner, ranks = 3, 48, dict(w=4, a=4, v=3, g=6)
    f.key(block_count=layers, embedding_length=D, context_length=1048576, feed_forward_length=inner, attention__head_count=0, attention__layer_norm_epsilon=1e-5, wkv__head_size=DIM,
          attention__decay_lora_rank=4, attention__iclr_lora_rank=4, attention__value_residual_mix_lora_rank=3, attention__gate_lora_rank=6)
    e, g, gb, head = ends(f, True)
    tn, tb = f.gain("token_embd_norm.weight", D), f.vector("token_embd_norm.bias", D)
    L = []
    for i in range(layers):
        n = [f.gain(f"blk.{i}.{a}.weight", D) if w else f.vector(f"blk.{i}.{a}.bias", D) for a in ("attn_norm", "attn_norm_2") for w in (1, 0)]
        r = dict(ranks, v=ranks["v"] if i else ranks["a"])  # files have the first layer's, which nobody reads, so
        L.append((n, TimeMix(f, i, r, True), f.vector(f"blk.{i}.channel_mix_lerp_k.weight", 1, 1, D, base=0.5).reshape(D), f.matrix(f"blk.{i}.channel_mix_key.weight", inner, D),
                  f.matrix(f"blk.{i}.channel_mix_value.weight", D, inner)))

    def run(t):
        x, first = layer(e[t], tn, tb), None
        for n, mix, lerp, k, v in L:
            y, first = mix(layer(x, n[0], n[1]), first)
            x = x + y
            h = layer(x, n[2], n[3])
            x = x + relu((h + (row_before(h) - h) * lerp) @ k.T) ** 2 @ v.T
        return layer(x, g, gb) @ head.T
    return run


@family
def arwkv7(f):
    layers, ranks = 3, dict(w=4, a=4, v=3, g=0)
    f.key(block_count=layers, embedding_length=D, context_length=1048576, feed_forward_length=40, attention__head_count=0, attention__layer_norm_rms_epsilon=1e-5, wkv__head_size=DIM,
          attention__decay_lora_rank=4, attention__iclr_lora_rank=4, attention__value_residual_mix_lora_rank=3, attention__gate_lora_rank=0, token_shift_count=1)
    e, g, _, head = ends(f)
    L = [(f.gain(f"blk.{i}.attn_norm.weight", D), TimeMix(f, i, dict(ranks, v=3 if i else 4), False), f.gain(f"blk.{i}.ffn_norm.weight", D), gate_up_down(f, i, 40)) for i in range(layers)]

    def run(t):
        x, first = e[t], None
        for an, mix, fn, (m, _) in L:
            y, first = mix(rms(x, an), first)
            x = x + y
            h = rms(x, fn)
            x = x + gated(h @ m[0].T, h @ m[1].T) @ m[2].T
        return rms(x, g) @ head.T
    return run


class OlderTimeMix:
    """RWKV-6's mixer of tokens; without `bonus` QRWKV6's."""

    def __init__(self, f, i, mix, fade, bonus, kv=None):
        p, kv = f"blk.{i}.time_mix_", kv or D // DIM
        self.x, self.lerp = f.vector(p + "lerp_x.weight", 1, 1, D, base=0.5).reshape(D), f.vector(p + "lerp_fused.weight", 5, 1, 1, D, base=0.5).reshape(5, D)
        self.w1, self.w2 = f.matrix(p + "w1.weight", 5 * mix, D), f.matrix(p + "w2.weight", 5, D, mix, gain=0.3)
        self.decay, self.d1, self.d2 = f.vector(p + "decay.weight", D, base=-0.7, spread=0.5), f.matrix(p + "decay_w1.weight", fade, D), f.matrix(p + "decay_w2.weight", D, fade)
        self.u = f.vector(p + "first.weight", D // DIM, DIM, spread=0.5) if bonus else None
        self.w = {n: f.matrix(f"{p}{n}.weight", (kv if n in ("key", "value") else D // DIM) * DIM, D) for n in ("key", "value", "receptance", "gate", "output")}
        self.b = {n: 0.0 if bonus else f.vector(f"{p}{n}.bias", self.w[n].shape[0]) for n in ("key", "value", "receptance")}
        self.norm = (f.gain(p + "ln.weight", D), f.vector(p + "ln.bias", D)) if bonus else None
        self.each = D // DIM // kv

    def __call__(self, x):
        n, heads, dx = len(x), D // DIM, row_before(x) - x
        low = np.tanh((x + dx * self.x) @ self.w1.T).reshape(n, 5, -1)
        w, k, v, r, g = (x + dx * (self.lerp[j] + low[:, j] @ self.w2[j].T) for j in range(5))
        decay = heads_of(np.exp(-np.exp(self.decay + np.tanh(w @ self.d1.T) @ self.d2.T)), DIM)
        k, v, r = (heads_of(y @ self.w[m].T + self.b[m], DIM) for y, m in ((k, "key"), (v, "value"), (r, "receptance")))
        k, v, g = np.repeat(k, self.each, 1), np.repeat(v, self.each, 1), g @ self.w["gate"].T
        if self.u is None: k = k * (1 - decay)
        S, out = np.zeros((heads, DIM, DIM)), np.zeros((n, heads, DIM))  # S[h][key][value]
        for t in range(n):
            kv = k[t][..., None] * v[t][:, None]
            if self.u is None:
                S = decay[t][..., None] * S + kv
                out[t] = np.einsum("hkv,hk->hv", S, r[t]) * DIM ** -0.5
            else:
                out[t] = np.einsum("hkv,hk->hv", S + self.u[..., None] * kv, r[t])
                S = decay[t][..., None] * S + kv
        if self.norm is None: return (out.reshape(n, -1) * sigmoid(g)) @ self.w["output"].T
        out = ((out - out.mean(-1, keepdims=True)) / np.sqrt(out.var(-1, keepdims=True) + 64e-5)).reshape(n, -1) * self.norm[0] + self.norm[1]
        return (out * silu(g)) @ self.w["output"].T


@family
def rwkv6(f):
    layers, inner = 3, 40
    f.key(block_count=layers, embedding_length=D, context_length=1048576, feed_forward_length=inner, attention__head_count=0, attention__layer_norm_epsilon=1e-5, wkv__head_size=DIM,
          time_mix_extra_dim=3, time_decay_extra_dim=4, rescale_every_n_layers=2)
    e, g, gb, head = ends(f, True)
    tn, tb = f.gain("token_embd_norm.weight", D), f.vector("token_embd_norm.bias", D)
    L = []
    for i in range(layers):
        n = [f.gain(f"blk.{i}.{a}.weight", D) if w else f.vector(f"blk.{i}.{a}.bias", D) for a in ("attn_norm", "attn_norm_2") for w in (1, 0)]
        p = f"blk.{i}.channel_mix_"
        L.append((n, OlderTimeMix(f, i, 3, 4, True), [f.vector(p + f"lerp_{a}.weight", 1, 1, D, base=0.5).reshape(D) for a in "kr"], f.matrix(p + "key.weight", inner, D), f.matrix(p + "value.weight", D, inner),
                  f.matrix(p + "receptance.weight", D, D)))

    def run(t):
        x = layer(e[t], tn, tb)
        for i, (n, mix, lerp, k, v, r) in enumerate(L):
            x = x + mix(layer(x, n[0], n[1]))
            h = layer(x, n[2], n[3])
            dh = row_before(h) - h
            x = x + sigmoid((h + dh * lerp[1]) @ r.T) * (relu((h + dh * lerp[0]) @ k.T) ** 2 @ v.T)
            if i % 2: x = x / 2
        return layer(x, g, gb) @ head.T
    return run


@family
def rwkv6qwen2(f):
    layers = 2
    f.key(block_count=layers, embedding_length=D, context_length=1048576, feed_forward_length=40, attention__head_count=0, attention__head_count_kv=KV, attention__layer_norm_rms_epsilon=1e-5,
          wkv__head_size=DIM, time_mix_extra_dim=3, time_decay_extra_dim=4, token_shift_count=1)
    e, g, _, head = ends(f)
    L = [(f.gain(f"blk.{i}.attn_norm.weight", D), OlderTimeMix(f, i, 3, 4, False, KV), f.gain(f"blk.{i}.ffn_norm.weight", D), gate_up_down(f, i, 40)) for i in range(layers)]

    def run(t):
        x = e[t]
        for an, mix, fn, (m, _) in L:
            x = x + mix(rms(x, an))
            h = rms(x, fn)
            x = x + gated(h @ m[0].T, h @ m[1].T) @ m[2].T
        return rms(x, g) @ head.T
    return run


@family
def step35(f):
    layers, count, inner, shared, window = 4, 4, 12, 12, 6
    slides = [False, True, True, False]
    heads = [6 if s else 4 for s in slides]
    f.usual(layers, 24, heads=heads, kv=[2] * layers)
    f.key(attention__key_length=DIM, attention__value_length=DIM, attention__sliding_window=window, attention__sliding_window_pattern=slides, rope__freq_base=1e6, rope__freq_base_swa=1e4,
          rope__dimension_count=DIM, expert_count=count, expert_used_count=2, expert_feed_forward_length=inner, expert_shared_feed_forward_length=shared, expert_weights_scale=1.5,
          expert_weights_norm=True, leading_dense_block_count=1, swiglu_clamp_exp=[0.0, 0.0, 1.2, 1.5], swiglu_clamp_shexp=[0.0, 0.0, 0.0, 1.7])
    e, g, _, head = ends(f)
    L = []
    for i in range(layers):
        p = f"blk.{i}."
        a = [f.gain(p + "attn_norm.weight", D), qkv(f, i, heads=heads[i]), f.gain(p + "attn_q_norm.weight", DIM), f.gain(p + "attn_k_norm.weight", DIM), f.matrix(p + "attn_gate.weight", heads[i], D),
             f.gain(p + "ffn_norm.weight", D)]
        if i == 0:
            a += [gate_up_down(f, i, 24)[0]]
        else:
            a += [f.matrix(p + "ffn_gate_inp.weight", count, D, gain=1.5), f.vector(p + "exp_probs_b.bias", count), exps(f, i, count, inner),
                  [f.matrix(p + f"ffn_{n}_shexp.weight", *s) for n, s in (("gate", (shared, D)), ("up", (shared, D)), ("down", (D, shared)))]]
        L.append(a)

    def clamped(limit):
        return gated if not limit else lambda a, b: np.minimum(silu(a), limit) * np.clip(b, -limit, limit)

    def run(t):
        x = e[t]
        for i, (an, (w, _, o), qn, kn, gate, fn, *rest) in enumerate(L):
            h = rms(x, an)
            q, k, v = (heads_of(h @ a.T, DIM) for a in w)
            dims, theta = (DIM, 1e4) if slides[i] else (DIM // 2, 1e6)
            y = attend(rope(rms(q, qn), dims, theta), rope(rms(k, kn), dims, theta), v, window=window if slides[i] else 0)
            x = x + (heads_of(y, DIM) * sigmoid(h @ gate.T)[..., None]).reshape(len(t), -1) @ o.T
            h = rms(x, fn)
            if i == 0:
                x = x + gated(h @ rest[0][0].T, h @ rest[0][1].T) @ rest[0][2].T
                continue
            router, bias, ex, (sg, su, sd) = rest
            p, y = sigmoid(h @ router.T), np.zeros_like(h)
            for j in range(len(t)):
                ids = np.argsort(-(p[j] + bias), kind="stable")[:2]
                for c, share in zip(ids, 1.5 * p[j, ids] / p[j, ids].sum()):
                    y[j] += share * (ex[2][c] @ clamped([0, 0, 1.2, 1.5][i])(ex[0][c] @ h[j], ex[1][c] @ h[j]))
            x = x + y + clamped([0, 0, 0, 1.7][i])(h @ sg.T, h @ su.T) @ sd.T
        return rms(x, g) @ head.T
    return run


@family
def hrm_text(f):
    stack, high, low = 2, 2, 2
    f.usual(stack * high * (low + 1), 40, kv=HEADS)
    f.key(rope__freq_base=1e4, rope__dimension_count=DIM, embedding_scale=2.0, hrm__layers_per_stack=stack, hrm__h_cycles=high, hrm__l_cycles=low, hrm__prefix_lm=True)
    e, head, start = f.matrix("token_embd.weight", V, D, gain=np.sqrt(D)), f.matrix("output.weight", V, D, gain=3.0), f.vector("hrm.z_l_init", D)
    L = [(qkv(f, i, kv=HEADS), f.matrix(f"blk.{i}.attn_gate.weight", D, D), gate_up_down(f, i, 40)) for i in range(2 * stack)]

    def through(x, layers):
        for (w, _, o), gate, (m, _) in layers:
            h = rms(x, 1.0)
            q, k, v = (heads_of(h @ a.T, DIM) for a in w)
            x = x + (attend(rope(q, DIM, 1e4), rope(k, DIM, 1e4), v) * sigmoid(h @ gate.T)) @ o.T
            h = rms(x, 1.0)
            x = x + gated(h @ m[0].T, h @ m[1].T) @ m[2].T
        return rms(x, 1.0)

    def run(t):
        h = 2.0 * e[t]
        l = np.tile(start, (len(t), 1))
        for _ in range(high):
            for _ in range(low): l = through(l + h, L[:stack])
            h = through(h + l, L[stack:])
        return h @ head.T
    return run


def greedy(run, prompt, count=32):
    ids, tokens, margin = [], list(prompt), 9.0
    for _ in range(count):
        row = run(np.array(tokens))[-1]
        top = np.sort(row)[-2:]
        margin = min(margin, top[1] - top[0])
        ids.append(int(row.argmax()))
        tokens.append(ids[-1])
    return ids, margin


def make(arch, out):
    for seed in range(1, 60):
        f = File(arch, 1000 * seed + sum(map(ord, arch)))
        run = FORWARD[arch](f)
        r = np.random.default_rng(seed)
        prompts = [[1] + [int(i) for i in r.integers(8, V, n)] for n in (6, 29)]
        made = [greedy(run, p) for p in prompts]
        last = [run(np.array(p)) for p in prompts]
        std = float(np.concatenate(last).std())
        if min(m for _, m in made) > 1e-3 and len({i for ids, _ in made for i in ids}) >= 5 and 0.4 < std < 15:
            break
    else:
        raise RuntimeError(f"{arch}: no seed good enough")
    f.write(out / f"{arch}.gguf")
    (out / f"{arch}.json").write_text(json.dumps({
        "from": "make_gguf_alone.py", "prompts": [{"tokens": p, "greedy": ids} for p, (ids, _) in zip(prompts, made)],
        "logits": [[round(float(v), 6) for v in x[-1]] for x in last], "logit_std": std}) + "\n")
    print(f"{arch:14s} seed {seed} std {std:.2f} margin {min(m for _, m in made):.4f} {(out / f'{arch}.gguf').stat().st_size // 1024}K", flush=True)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or FORWARD:
        make(name, folder)
