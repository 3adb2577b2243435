#!/usr/bin/env python3
"""What `espalier quantize` takes of memory for a model that is larger than it may have.

    bench/quantize_memory.py DIR --tokenizer FOLDER [--types q4_k_m,w8a8,w4a16] [--calibrate] [--layers 28] [--limit 4] [--espalier PROGRAM]

Makes a model of Llama-3.2-3B's shape in DIR (bf16, random rows, --layers of them; 6.4 GB with 28) with the tokenizer of FOLDER, and
quantises it to each type in a control group of memory of --limit GiB: going beyond would end it. --calibrate: with a text to measure by (w8a8:
SmoothQuant, w4a16: AWQ and GPTQ) and the report at the end, which read the whole model twice and more. Printed for each: bytes before and
after, seconds, the largest memory of its own (RssAnon), and the group's peak, which has the cached pages of files in it. Needs root, numpy
(for the model) and Linux. What was made is deleted in the end.
"""
import argparse
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import threading
import time

import numpy as np

HIDDEN, INNER, HEADS, KV_HEADS, HEAD, VOCABULARY = 3072, 8192, 24, 8, 128, 128256
PATTERN_ROWS, SHARD_BYTES = 512, 2 << 30
TEXT = "".join(f"The {i}th station is {i * 37 % 101} km from the sea, and its clock strikes {i % 12 + 1}. " for i in range(3000))


def tensors(layers):
    """Names and shapes, in the order of files."""
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    for i in range(layers):
        for name, rows, columns in (("self_attn.q_proj", HEADS * HEAD, HIDDEN), ("self_attn.k_proj", KV_HEADS * HEAD, HIDDEN),
                                    ("self_attn.v_proj", KV_HEADS * HEAD, HIDDEN), ("self_attn.o_proj", HIDDEN, HEADS * HEAD),
                                    ("mlp.gate_proj", INNER, HIDDEN), ("mlp.up_proj", INNER, HIDDEN), ("mlp.down_proj", HIDDEN, INNER)):
            yield f"model.layers.{i}.{name}.weight", (rows, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"model.layers.{i}.{name}.weight", (HIDDEN,)
    yield "model.norm.weight", (HIDDEN,)


def make_model(folder, tokenizer, layers):
    folder.mkdir(parents=True)
    for file in pathlib.Path(tokenizer).iterdir():
        if file.name.startswith(("tokenizer", "special_tokens", "vocab", "merges")):
            shutil.copy(file, folder / file.name)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": layers,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "vocab_size": VOCABULARY, "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16"}))
    draw = np.random.default_rng(1)
    patterns = {}

    def rows(columns):
        if columns not in patterns:
            values = draw.normal(0, 0.02, (PATTERN_ROWS, columns)).astype(np.float32)
            patterns[columns] = (values.view(np.uint32) >> 16).astype(np.uint16)
        return patterns[columns]

    shards, size = [[]], 0
    for name, shape in tensors(layers):
        count = 2 * int(np.prod(shape))
        if size + count > SHARD_BYTES and shards[-1]:
            shards.append([])
            size = 0
        shards[-1].append((name, shape))
        size += count
    index = {}
    for number, shard in enumerate(shards, 1):
        path = folder / f"model-{number:05}-of-{len(shards):05}.safetensors"
        head, at = {}, 0
        for name, shape in shard:
            count = 2 * int(np.prod(shape))
            head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + count]}
            index[name] = path.name
            at += count
        text = json.dumps(head).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for name, shape in shard:
                if len(shape) == 1:
                    file.write(np.full(shape, 0x3f80, np.uint16).tobytes())
                    continue
                pattern = rows(shape[1])
                for first in range(0, shape[0], PATTERN_ROWS):
                    some = pattern[:min(PATTERN_ROWS, shape[0] - first)]
                    file.write(np.roll(some, first // PATTERN_ROWS, axis=1).tobytes())
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


class MemoryGroup:
    """A control group of memory below this process's own, of version 1 or 2."""

    def __init__(self, limit):
        lines = [line.strip().split(":", 2) for line in open("/proc/self/cgroup")]
        own = next((path for _, kinds, path in lines if kinds == "memory"), None)
        self.first = own is not None
        root = pathlib.Path("/sys/fs/cgroup/memory" if self.first else "/sys/fs/cgroup")
        path = own if self.first else next(path for number, _, path in lines if number == "0")
        self.path = root / path.lstrip("/") / f"quantize-{os.getpid()}"
        if not self.path.parent.is_dir():
            self.path = root / self.path.name
        self.path.mkdir()
        (self.path / ("memory.limit_in_bytes" if self.first else "memory.max")).write_text(str(limit))

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self):
        return int((self.path / ("memory.max_usage_in_bytes" if self.first else "memory.peak")).read_text())

    def remove(self):
        self.path.rmdir()


def size_of(path):
    return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def run(words, group):
    """Seconds, and the largest RssAnon."""
    most, began = 0, time.monotonic()
    process = subprocess.Popen(words, preexec_fn=group.enter, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = []
    reader = threading.Thread(target=lambda: output.append(process.stdout.read()))
    reader.start()
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as file:
                most = max([most] + [int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon")])
        except OSError:
            pass
        time.sleep(0.02)
    reader.join()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {process.returncode}:\n{output[0]}")
    return time.monotonic() - began, most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--types", default="q4_k_m,w8a8,w4a16")
    parser.add_argument("--calibrate", action="store_true")
    parser.add_argument("--calibrate-tokens", default="1024")
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--limit", type=float, default=4)
    parser.add_argument("--espalier", default=str(pathlib.Path(__file__).resolve().parent.parent / "build" / "espalier"))
    options = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(dir=options.folder))
    try:
        make_model(work / "model", options.tokenizer, options.layers)
        (work / "text.txt").write_text(TEXT)
        print(f"{'type':12} {'before':>8} {'after':>8} {'seconds':>8} {'its own':>8} {'group':>8}   (GB; the group may have {options.limit} GiB)")
        for kind in options.types.split(","):
            made, group = work / kind, MemoryGroup(int(options.limit * 2 ** 30))
            flags = ["--calibrate", work / "text.txt", "--calibrate-tokens", options.calibrate_tokens] if options.calibrate else ["--no-report"]
            try:
                seconds, most = run([options.espalier, "quantize", work / "model", made, "--type", kind, "--progress", "none", *flags], group)
                print(f"{kind:12} {size_of(work / 'model') / 1e9:8.2f} {size_of(made) / 1e9:8.2f} {seconds:8.0f} {most / 1e9:8.2f} "
                      f"{group.peak() / 1e9:8.2f}", flush=True)
            finally:
                group.remove()
            shutil.rmtree(made) if made.is_dir() else made.unlink()
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
