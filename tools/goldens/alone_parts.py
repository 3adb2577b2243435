"""What the programs of make_gguf_alone.py share: a file with random tensors, norms, rotation, attention, experts."""
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


def ends(f, bias=False, width=D):
    e = f.matrix("token_embd.weight", V, width, gain=np.sqrt(width))
    g = f.gain("output_norm.weight", width)
    b = f.vector("output_norm.bias", width) if bias else None
    return e, g, b, f.matrix("output.weight", V, width, gain=3.0)


def qkv(f, i, heads=HEADS, kv=KV, dim=DIM, bias=False):
    names = [("attn_q", heads), ("attn_k", kv), ("attn_v", kv)]
    w = [f.matrix(f"blk.{i}.{n}.weight", h * dim, D, gain=1.7) for n, h in names]
    b = [f.vector(f"blk.{i}.{n}.bias", h * dim) if bias else 0.0 for n, h in names]
    return w, b, f.matrix(f"blk.{i}.attn_output.weight", D, heads * dim, gain=1.6)


def gate_up_down(f, i, inner, bias=False, width=D):
    m = [f.matrix(f"blk.{i}.ffn_{n}.weight", *s) for n, s in (("gate", (inner, width)), ("up", (inner, width)), ("down", (width, inner)))]
    b = [f.vector(f"blk.{i}.ffn_{n}.bias", s) if bias else 0.0 for n, s in (("gate", inner), ("up", inner), ("down", width))]
    return m, b


def exps(f, i, count, inner, tail=""):
    return [f.matrix(f"blk.{i}.ffn_{n}_exps{tail}.weight", *s) for n, s in (("gate", (count, inner, D)), ("up", (count, inner, D)), ("down", (count, D, inner)))]
