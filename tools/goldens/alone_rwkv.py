"""Families of make_gguf_alone.py: RWKV-6 and 7."""
import numpy as np

from alone_parts import *


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
