"""Families of make_gguf_alone.py: Refact to PLaMo 3."""
import numpy as np

from alone_parts import *


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
    e, g, gb, head = ends(f, True, 48)
    L = []
    for i in range(2):
        n = [f.gain(f"blk.{i}.{a}.weight", 48) if w else f.vector(f"blk.{i}.{a}.bias", 48) for a in ("attn_norm", "ffn_norm") for w in (1, 0)]
        w, wb = f.matrix(f"blk.{i}.attn_qkv.weight", 144, 48, gain=3.0), f.vector(f"blk.{i}.attn_qkv.bias", 144)
        L.append((n, w, wb, f.matrix(f"blk.{i}.attn_output.weight", 48, 48), f.vector(f"blk.{i}.attn_output.bias", 48), gate_up_down(f, i, 40, True, 48)))

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
