#!/usr/bin/env python3
"""Texts a second beside sentence-transformers and llama.cpp's server: one encoder in BERT-base's shape, the same texts, in turns.

    bench/embed_beside.py DIR --reference PYTHON [--llamacpp DIR] [--texts 256] [--rounds 5] [--threads 2] [--type F32] [FLAGS of serve]

DIR gets the model, once: `hf`, a folder of sentence-transformers (random float32 weights, WordPiece, the mean of all tokens, length 1),
and TYPE.gguf of the same weights (F32, F16 or Q8_0). PYTHON has sentence-transformers, tokenizers and gguf; llama-server lies in the
other DIR. Espalier is measured twice: as it serves the folder (`hf`), and the file that llama.cpp has (`gguf`); FLAGS are of both.
sentence-transformers computes in float32, all texts in one encode() of batches of 32, sorted by length as it does by itself.

Texts have 4 to 380 words, evenly over the logarithm; no two are the same. All contenders stay in memory and take turns, every second
round the other way round; each gets all texts at once, the servers as one body, after one round that is not counted. Vectors must agree
with sentence-transformers' (--least-cosine). Printed for each round and as medians: texts/s, tokens/s, and ours by theirs, taken within
each round. The exit code is 1 where a vector differs.
"""
import argparse
import base64
import json
import math
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import time
import urllib.request

from llama_server import start_llama  # they lie beside this file
from memory import get
from pictures import ended
from restart import start

SHAPE = dict(vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
             max_position_embeddings=512, type_vocab_size=2, layer_norm_eps=1e-12, hidden_act="gelu")
LONGEST, SHORTEST = 380, 4  # words of a text
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def words():
    """Enough of them for the vocabulary: syllables, some two, most three."""
    draw = random.Random(1)
    syllables = [c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"]
    all_words = [a + b for a in syllables for b in syllables]
    seen = set(all_words)
    while len(all_words) < SHAPE["vocab_size"] - len(SPECIAL):
        word = "".join(draw.choices(syllables, k=3))
        if word not in seen:
            seen.add(word)
            all_words.append(word)
    return all_words[:SHAPE["vocab_size"] - len(SPECIAL)]


def texts_of(count, seed):
    draw, known = random.Random(seed), words()
    lengths = [round(math.exp(draw.uniform(math.log(SHORTEST), math.log(LONGEST)))) for _ in range(count)]
    return [" ".join(draw.choices(known, k=length)) for length in lengths]


# --- what runs in the reference's Python ---

def make_folder(place):
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, BertTokenizerFast
    torch.manual_seed(1)
    model = BertModel(BertConfig(**SHAPE), add_pooling_layer=False)
    with torch.no_grad():  # as a trained one: biases and norms are not those that everything begins with
        for name, value in model.named_parameters():
            if name.endswith("bias"):
                value.normal_(0, 0.02)
            elif "LayerNorm" in name:
                value.normal_(1, 0.05)
    model.save_pretrained(place)
    vocabulary = {token: i for i, token in enumerate(SPECIAL + words())}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                             special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=SHAPE["max_position_embeddings"], do_lower_case=True).save_pretrained(place)
    from sentence_transformers import SentenceTransformer
    from sentence_transformers import models as parts
    inner = parts.Transformer(str(place), max_seq_length=SHAPE["max_position_embeddings"])
    pooling = parts.Pooling(SHAPE["hidden_size"], pooling_mode="mean")
    SentenceTransformer(modules=[inner, pooling, parts.Normalize()], device="cpu").save(str(place))


def gguf_names(layers):
    """Tensors of the folder -> of the file, without their last word."""
    names = {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
             "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"}
    inside = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
              "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
              "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
    return names | {f"encoder.layer.{i}.{a}": f"blk.{i}.{b}" for i in range(layers) for a, b in inside.items()}


def make_gguf(folder, path, kind):
    import gguf
    import numpy
    from safetensors.numpy import load_file
    writer = gguf.GGUFWriter(str(path), "bert")
    writer.add_name("bert-base-shape")
    for put, name in ((writer.add_block_count, "num_hidden_layers"), (writer.add_context_length, "max_position_embeddings"),
                      (writer.add_embedding_length, "hidden_size"), (writer.add_feed_forward_length, "intermediate_size"),
                      (writer.add_head_count, "num_attention_heads"), (writer.add_layer_norm_eps, "layer_norm_eps")):
        put(SHAPE[name])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_token_type_count(SHAPE["type_vocab_size"])
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(SPECIAL + ["\u2581" + word for word in words()])
    writer.add_token_types([gguf.TokenType.CONTROL] * len(SPECIAL) + [gguf.TokenType.NORMAL] * len(words()))
    for put, token in ((writer.add_pad_token_id, 0), (writer.add_unk_token_id, 1), (writer.add_bos_token_id, 2),
                       (writer.add_eos_token_id, 3), (writer.add_sep_token_id, 3), (writer.add_mask_token_id, 4)):
        put(token)
    into, names = gguf.GGMLQuantizationType[kind], gguf_names(SHAPE["num_hidden_layers"])
    for name, values in load_file(folder / "model.safetensors").items():
        inside, _, last = name.rpartition(".")
        if inside not in names:
            continue
        values = values.astype(numpy.float32)
        matrix = values.ndim == 2 and "position" not in inside and "token_type" not in inside
        if matrix and kind != "F32":
            writer.add_tensor(f"{names[inside]}.{last}", gguf.quants.quantize(values, into), raw_dtype=into)
        else:
            writer.add_tensor(f"{names[inside]}.{last}", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def reference_worker(place, kind, threads):
    """Makes what is not there, then a line of texts is answered by a line of seconds, vectors and versions."""
    import torch
    torch.set_num_threads(threads)
    folder, file = place / "hf", place / f"{kind}.gguf"
    if not (folder / "modules.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        make_folder(folder)
    if not file.exists():
        make_gguf(folder, file, kind)
    import sentence_transformers
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    print(json.dumps(f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}, float32"), flush=True)
    for line in sys.stdin:
        texts = json.loads(line)
        began = time.monotonic()
        with torch.inference_mode():
            vectors = model.encode(texts, batch_size=32, convert_to_numpy=True)
        seconds = time.monotonic() - began
        print(json.dumps([seconds, [base64.b64encode(v.astype("<f4").tobytes()).decode() for v in vectors]]), flush=True)


# --- the contenders ---

class Reference:
    name = "sentence-transformers"

    def __init__(self, options):
        command = [options.reference, __file__, str(options.dir), "--worker", "--type", options.type, "--threads", str(options.threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self.line()

    def line(self):
        while True:
            line = self.process.stdout.readline()
            if not line:
                sys.exit("the reference's Python ended")
            if line[0] in "[\"":  # others print, too
                return json.loads(line)

    def embed(self, texts):
        self.process.stdin.write(json.dumps(texts) + "\n")
        self.process.stdin.flush()
        seconds, vectors = self.line()
        return seconds, vectors, None

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Server:
    """Of OpenAI's route."""

    def embed(self, texts):
        body = json.dumps({"input": texts, "encoding_format": "base64", "model": "default"}).encode()
        request = urllib.request.Request(self.url + "/v1/embeddings", body, {"Content-Type": "application/json"})
        began = time.monotonic()
        with urllib.request.urlopen(request, timeout=3600) as answer:
            data = answer.read()
        seconds = time.monotonic() - began
        answer = json.loads(data)
        return seconds, [entry["embedding"] for entry in answer["data"]], answer["usage"]["prompt_tokens"]

    def end(self):
        ended(self.process)


class Ours(Server):
    def __init__(self, name, model, options, flags):
        self.name = f"espalier {name}"
        self.process, self.url = start([str(model), "--threads", str(options.threads), *flags])
        info = get(self.url + "/get_server_info")
        self.about = f"{self.name}: {info['isa']}, activations {info.get('activations')}"


class LlamaCpp(Server):
    name = "llama.cpp"

    def __init__(self, options):
        threads = str(options.threads)
        flags = ["-m", f"{options.dir}/{options.type}.gguf", "--embeddings", "--pooling", "mean", "-t", threads, "-tb", threads,
                 "-np", "16", "-c", str(16 * 512), "-b", "2048", "-ub", "2048"]
        self.process, self.url, said = start_llama(f"{options.llamacpp}/llama-server", *flags)
        if self.process is None:
            sys.exit("llama-server ended before it was ready: " + said)
        self.about = "llama.cpp: " + " ".join(flags[2:])


def floats(text):
    data = base64.b64decode(text) if isinstance(text, str) else None
    return struct.unpack(f"<{len(data) // 4}f", data) if data is not None else text


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def measure(contenders, options):
    """{name: [seconds, ...]}, tokens of all texts, {name: least cosine}."""
    texts = texts_of(options.texts, 2)
    seconds, tokens, least, wanted = {c.name: [] for c in contenders}, None, {}, None
    for contender in contenders:  # the reference first; not counted
        _, vectors, counted = contender.embed(texts)
        vectors = [floats(vector) for vector in vectors]
        wanted = wanted or vectors
        tokens = counted or tokens
        least[contender.name] = min(cosine(a, b) for a, b in zip(vectors, wanted, strict=True))
    for number in range(options.rounds):
        for contender in contenders if number % 2 == 0 else contenders[::-1]:
            seconds[contender.name].append(contender.embed(texts)[0])
        print(f"round {number + 1}: " + ", ".join(f"{c.name} {options.texts / seconds[c.name][-1]:.2f} texts/s" for c in contenders), flush=True)
    return seconds, tokens, least


def report(contenders, seconds, tokens, least, options):
    for contender in contenders:
        middle = statistics.median(seconds[contender.name])
        print(f"{contender.name:22} {options.texts / middle:8.2f} texts/s {tokens / middle:9.0f} tokens/s   least cosine {least[contender.name]:.6f}")
    for ours in (c.name for c in contenders if isinstance(c, Ours)):
        for other in (c.name for c in contenders if not isinstance(c, Ours)):
            ratios = sorted(b / a for a, b in zip(seconds[ours], seconds[other]))
            print(f"{ours} by {other}: {statistics.median(ratios):.2f} ({ratios[0]:.2f} .. {ratios[-1]:.2f})")
    return all(value >= options.least_cosine for value in least.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--reference", metavar="PYTHON", default=sys.executable)
    parser.add_argument("--llamacpp", metavar="DIR")
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--type", choices=("F32", "F16", "Q8_0"), default="F32")
    parser.add_argument("--least-cosine", type=float, default=0.99)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options, flags = parser.parse_known_args()
    if options.worker:
        return reference_worker(options.dir, options.type, options.threads)
    contenders = [Reference(options)]
    try:
        contenders += [Ours("hf", options.dir / "hf", options, flags), Ours("gguf", options.dir / f"{options.type}.gguf", options, flags)]
        if options.llamacpp:
            contenders.append(LlamaCpp(options))
        for contender in contenders:
            print(contender.about)
        seconds, tokens, least = measure(contenders, options)
        print(f"{options.texts} texts, {tokens} tokens, {options.threads} threads, file of {options.type}")
        return 0 if report(contenders, seconds, tokens, least, options) else 1
    finally:
        for contender in contenders:
            contender.end()


if __name__ == "__main__":
    sys.exit(main())
