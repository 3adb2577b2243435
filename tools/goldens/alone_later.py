"""Families of make_gguf_alone.py: SmallThinker to HRM-Text."""
import numpy as np

from alone_parts import *


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
