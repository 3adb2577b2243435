#!/usr/bin/env python3
"""GGUF files of random weights in the shapes of models that people serve, for bench/beside_peers.py.

    bench/make_shapes.py OUT_DIR [olmoe lfm2 granite ...] [--types Q4_0,Q8_0]

olmoe    OLMoE-1B-7B: 16 layers of 64 experts, 8 of them for a token
lfm2     LFM2-1.2B: short convolutions, attention in 6 of 16 layers
granite  Granite-4.0-H-1B: Mamba-2, attention in 4 of 40 layers
smolvlm  SmolVLM-256M, with its tower in F16 in a second file: mmproj-smolvlm-TYPE.gguf

Matrices repeat a few random rows, which no reader can tell. Needs numpy and gguf (pip).
"""
import argparse
import pathlib

import gguf
import numpy as np

PATTERN_ROWS = 64


class Shape:
    """One file: metadata under the architecture's prefix, matrices in the type, the rest in float32."""

    def __init__(self, path, arch, kind):
        self.writer, self.arch = gguf.GGUFWriter(str(path), arch), arch
        self.type = gguf.GGMLQuantizationType[kind]
        self.draw = np.random.default_rng(1)
        self.patterns = {}

    def meta(self, **values):
        for name, value in values.items():
            key = f"{self.arch}.{name.replace('__', '.')}"
            put = {bool: self.writer.add_bool, int: self.writer.add_uint32, float: self.writer.add_float32, list: self.writer.add_array,
                   str: self.writer.add_string}
            put[type(value)](key, value)

    def vocabulary(self, size, special=()):
        """Words that no text has, special tokens, and GPT-2's letters for the bytes."""
        shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
        letters = [chr(b) for b in shown] + [chr(256 + i) for i in range(256 - len(shown))] + ["\u010a\u010a"]  # two line ends
        words = size - len(letters) - len(special)
        self.writer.add_tokenizer_model("gpt2")
        self.writer.add_tokenizer_pre("gpt-2")
        self.writer.add_token_list([f"t{i}" for i in range(words)] + list(special) + letters)
        self.writer.add_token_types([1] * words + [3] * len(special) + [1] * len(letters))
        self.writer.add_token_merges(["t 0", "\u010a \u010a"])
        self.writer.add_bos_token_id(0)
        self.writer.add_eos_token_id(1)

    def matrix(self, name, *shape):
        columns = shape[-1]
        if columns not in self.patterns:
            rows = self.draw.normal(0, 0.02, (PATTERN_ROWS, columns)).astype(np.float32)
            self.patterns[columns] = gguf.quants.quantize(rows, self.type)
        pattern = self.patterns[columns]
        data = np.resize(pattern, (int(np.prod(shape[:-1])), pattern.shape[1]))
        self.writer.add_tensor(name + ".weight", data.reshape(*shape[:-1], -1), raw_dtype=self.type)

    def floats(self, name, values):
        self.writer.add_tensor(name, np.asarray(values, np.float32))

    def norms(self, layer, width, *names):
        for name in names:
            self.floats(f"blk.{layer}.{name}.weight", np.ones(width))

    def embedding(self, vocabulary, hidden, norm="output_norm"):
        self.matrix("token_embd", vocabulary, hidden)
        self.floats(norm + ".weight", np.ones(hidden))

    def attention(self, layer, hidden, query, keys):
        for name, rows in (("q", query), ("k", keys), ("v", keys)):
            self.matrix(f"blk.{layer}.attn_{name}", rows, hidden)
        self.matrix(f"blk.{layer}.attn_output", hidden, query)

    def mlp(self, layer, hidden, inner, ending=""):
        for name in ("gate", "up"):
            self.matrix(f"blk.{layer}.ffn_{name}{ending}", inner, hidden)
        self.matrix(f"blk.{layer}.ffn_down{ending}", hidden, inner)

    def close(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def olmoe(path, kind):
    hidden, layers, experts, inner, vocabulary = 2048, 16, 64, 1024, 50304
    s = Shape(path, "olmoe", kind)
    s.meta(block_count=layers, context_length=4096, embedding_length=hidden, feed_forward_length=inner, attention__head_count=16,
           attention__head_count_kv=16, attention__layer_norm_rms_epsilon=1e-5, rope__freq_base=10000.0, expert_count=experts,
           expert_used_count=8)
    s.vocabulary(vocabulary)
    s.embedding(vocabulary, hidden)
    s.matrix("output", vocabulary, hidden)
    for i in range(layers):
        s.norms(i, hidden, "attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm")
        s.attention(i, hidden, hidden, hidden)
        s.floats(f"blk.{i}.ffn_gate_inp.weight", s.draw.normal(0, 0.02, (experts, hidden)))
        for name in ("gate", "up"):
            s.matrix(f"blk.{i}.ffn_{name}_exps", experts, inner, hidden)
        s.matrix(f"blk.{i}.ffn_down_exps", experts, hidden, inner)
    s.close()


def lfm2(path, kind):
    hidden, layers, inner, vocabulary, attends = 2048, 16, 8192, 65536, (2, 5, 8, 10, 12, 14)
    s = Shape(path, "lfm2", kind)
    s.meta(block_count=layers, context_length=128000, embedding_length=hidden, feed_forward_length=inner, attention__head_count=32,
           attention__head_count_kv=[8 if i in attends else 0 for i in range(layers)], attention__layer_norm_rms_epsilon=1e-5,
           rope__freq_base=1e6, shortconv__l_cache=3, vocab_size=vocabulary)
    s.vocabulary(vocabulary)
    s.embedding(vocabulary, hidden, "token_embd_norm")
    for i in range(layers):
        s.norms(i, hidden, "attn_norm", "ffn_norm")
        if i in attends:
            s.attention(i, hidden, hidden, 512)
            s.norms(i, 64, "attn_q_norm", "attn_k_norm")
        else:
            s.matrix(f"blk.{i}.shortconv.in_proj", 3 * hidden, hidden)
            s.matrix(f"blk.{i}.shortconv.out_proj", hidden, hidden)
            s.floats(f"blk.{i}.shortconv.conv.weight", s.draw.normal(0, 0.3, (hidden, 3)))
        s.mlp(i, hidden, inner)
    s.close()


def granite(path, kind):
    hidden, layers, inner, vocabulary, attends = 1536, 40, 4096, 100352, (5, 15, 25, 35)
    heads, state, mixer = 48, 128, 3072
    channels = mixer + 2 * state
    s = Shape(path, "granitehybrid", kind)
    s.meta(block_count=layers, context_length=131072, embedding_length=hidden, feed_forward_length=inner, attention__head_count=12,
           attention__head_count_kv=[4 if i in attends else 0 for i in range(layers)], attention__layer_norm_rms_epsilon=1e-5,
           attention__scale=0.0078125, embedding_scale=12.0, residual_scale=0.22, logit_scale=6.0, rope__freq_base=10000.0,
           rope__dimension_count=128, rope__scaling__finetuned=False, vocab_size=vocabulary, ssm__conv_kernel=4, ssm__state_size=state,
           ssm__group_count=1, ssm__inner_size=mixer, ssm__time_step_rank=heads)
    s.vocabulary(vocabulary)
    s.embedding(vocabulary, hidden)
    for i in range(layers):
        s.norms(i, hidden, "attn_norm", "ffn_norm")
        if i in attends:
            s.attention(i, hidden, hidden, 512)
        else:
            s.matrix(f"blk.{i}.ssm_in", mixer + channels + heads, hidden)
            s.matrix(f"blk.{i}.ssm_out", hidden, mixer)
            s.floats(f"blk.{i}.ssm_conv1d.weight", s.draw.normal(0, 0.3, (channels, 4)))
            s.floats(f"blk.{i}.ssm_conv1d.bias", np.zeros(channels))
            s.floats(f"blk.{i}.ssm_a", -np.ones((heads, 1)))
            s.floats(f"blk.{i}.ssm_d", np.ones((heads, 1)))
            s.floats(f"blk.{i}.ssm_dt.bias", np.zeros(heads))
            s.floats(f"blk.{i}.ssm_norm.weight", np.ones((1, mixer)))
        s.mlp(i, hidden, inner)
    s.close()


def smolvlm(path, kind):
    hidden, layers, inner, vocabulary = 576, 30, 1536, 49280
    s = Shape(path, "llama", kind)
    s.meta(block_count=layers, context_length=8192, embedding_length=hidden, feed_forward_length=inner, attention__head_count=9,
           attention__head_count_kv=3, attention__layer_norm_rms_epsilon=1e-5, rope__freq_base=100000.0, rope__dimension_count=64)
    s.vocabulary(vocabulary, ["<fake_token_around_image>", "<image>", "<global-img>", "<end_of_utterance>",
                              *(f"<row_{r}_col_{c}>" for r in range(1, 7) for c in range(1, 7))])
    s.writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")
    s.embedding(vocabulary, hidden)
    for i in range(layers):
        s.norms(i, hidden, "attn_norm", "ffn_norm")
        s.attention(i, hidden, hidden, 192)
        s.mlp(i, hidden, inner)
    s.close()
    smolvlm_tower(path.with_name("mmproj-" + path.name), hidden)


def smolvlm_tower(path, out):
    width, layers, inner, side, patch = 768, 12, 3072, 512, 16
    s = Shape(path, "clip", "F16")
    s.writer.add_type("mmproj")
    s.meta(has_vision_encoder=True, projector_type="idefics3", use_gelu=True, vision__projection_dim=out, vision__image_size=side,
           vision__patch_size=patch, vision__embedding_length=width, vision__feed_forward_length=inner, vision__block_count=layers,
           vision__attention__head_count=12, vision__attention__layer_norm_epsilon=1e-6, vision__projector__scale_factor=4,
           vision__preproc_image_size=2048, vision__image_mean=[0.5] * 3, vision__image_std=[0.5] * 3)
    s.floats("v.patch_embd.weight", s.draw.normal(0, 0.02, (width, 3, patch, patch)))
    s.floats("v.patch_embd.bias", np.zeros(width))
    s.floats("v.position_embd.weight", s.draw.normal(0, 0.02, ((side // patch) ** 2, width)))
    for i in range(layers):
        for name, rows, columns in (("attn_q", width, width), ("attn_k", width, width), ("attn_v", width, width),
                                    ("attn_out", width, width), ("ffn_up", inner, width), ("ffn_down", width, inner)):
            s.matrix(f"v.blk.{i}.{name}", rows, columns)
            s.floats(f"v.blk.{i}.{name}.bias", np.zeros(rows))
        for name in ("ln1", "ln2"):
            s.floats(f"v.blk.{i}.{name}.weight", np.ones(width))
            s.floats(f"v.blk.{i}.{name}.bias", np.zeros(width))
    s.floats("v.post_ln.weight", np.ones(width))
    s.floats("v.post_ln.bias", np.zeros(width))
    s.matrix("mm.model.fc", out, 16 * width)
    s.close()


SHAPES = {make.__name__: make for make in (olmoe, lfm2, granite, smolvlm)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, metavar="OUT_DIR")
    parser.add_argument("shapes", nargs="*", default=list(SHAPES), metavar="SHAPE")
    parser.add_argument("--types", default="Q4_0,Q8_0", help="of matrices, by commas")
    words = parser.parse_args()
    words.out.mkdir(parents=True, exist_ok=True)
    for name in words.shapes:
        for kind in words.types.split(","):
            SHAPES[name](words.out / f"{name}-{kind}.gguf", kind)
            print(words.out / f"{name}-{kind}.gguf", flush=True)


if __name__ == "__main__":
    main()
