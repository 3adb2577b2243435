#!/usr/bin/env python3
"""What quantising costs beside ggml's own quantiser: the same tensors of the same model in the same types, compared with the source.

    bench/quantize_beside.py --python PYTHON --ggml LIBRARY SRC DIR [--types q8_0,q4_k_m,...] [--espalier PROGRAM]
    bench/quantize_beside.py --llama FOLDER SRC DIR [--types q8_0,q4_k_m,...] [--espalier PROGRAM]

PYTHON is an interpreter that has gguf and numpy; LIBRARY a shared library of ggml that has ggml_quantize_chunk (libggml-base.so of a
build of llama.cpp); SRC a model's folder; files are written to DIR. For each type `espalier quantize` makes a file, ggml one with the
same types, and `espalier quantize --only-report` compares both with SRC. Printed: megabytes, both KL divergences from the source and
their ratio (below 1: ours is nearer), both perplexities. Neither has an importance matrix.

With --llama, a folder with llama-server: whether llama.cpp itself loads each file, and how many of its greedy tokens are those that
`espalier serve` gives for the same file, up to the first that differs of each prompt (both round activations, each in its own way).
"""
import argparse
import json
import pathlib
import re
import subprocess
import urllib.request

import restart  # they lie beside this file
from llama_server import start_llama

GGML = """
import ctypes, os, sys, gguf, numpy as np
library, source, types, target = sys.argv[1:]
chunk = ctypes.CDLL(library, mode=os.RTLD_LAZY).ggml_quantize_chunk
chunk.restype = ctypes.c_size_t
chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
kinds = {t.name: t.tensor_type for t in gguf.GGUFReader(types).tensors}
reader = gguf.GGUFReader(source)
writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
for key, field in reader.fields.items():
    if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
        continue
    is_list = field.types[0] == gguf.GGUFValueType.ARRAY
    writer.add_key_value(key, field.contents(), field.types[0], **({"sub_type": field.types[-1]} if is_list else {}))
for tensor in reader.tensors:
    values = np.ascontiguousarray(gguf.dequantize(tensor.data, tensor.tensor_type), np.float32)
    kind = kinds[tensor.name]
    if kind.name == "F32":
        writer.add_tensor(tensor.name, values)
    elif kind.name in ("F16", "BF16"):
        writer.add_tensor(tensor.name, gguf.quantize(values, kind), raw_dtype=kind)
    else:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        data = np.zeros((values.shape[0], values.shape[1] // block * size), np.uint8)
        chunk(int(kind), values.ctypes.data, data.ctypes.data, 0, *values.shape, None)
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()
"""


def figures(text):
    """KL divergence and perplexity that a report tells."""
    found = [re.search(word + r" +([0-9.]+)", text) for word in ("KL divergence", "perplexity")]
    assert all(found), text
    return [float(one[1]) for one in found]


TYPES = "q8_0,q6_k,q5_k_m,q5_0,q4_k_m,q4_1,q4_0,iq4_nl,iq4_xs,q3_k_m,q2_k"
PROMPTS = ["The capital of France is", "Once upon a time there was", "Water boils at", "def add(a, b):\n    return", "To make bread you need"]
TOKENS = 24


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


def common(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def llama_loads(llama, espalier, model):
    """In words: whether it loads, and how many of its tokens are the same."""
    process, url, said = start_llama(llama / "llama-server", "-m", model, "-c", "1024", "--no-webui")
    if process is None:
        return "is refused: " + said.strip().splitlines()[-1]
    theirs = []
    try:
        for prompt in PROMPTS:
            ids = post(url + "/tokenize", {"content": prompt, "add_special": True})["tokens"]
            answer = post(url + "/completion", {"prompt": ids, "n_predict": TOKENS, "temperature": 0, "return_tokens": True, "ignore_eos": True})
            theirs.append((ids, answer["tokens"]))
    finally:
        process.terminate()
        process.communicate()
    restart.PROGRAM = espalier
    process, url = restart.start([str(model), "--max-total-tokens", "2048"])
    try:
        same = 0
        for ids, tokens in theirs:
            body = {"input_ids": ids, "sampling_params": {"temperature": 0, "max_new_tokens": TOKENS, "ignore_eos": True}}
            same += common(post(url + "/generate", body)["output_ids"], tokens)
    finally:
        process.terminate()
        process.wait()
    return f"loads; {same} of {sum(len(tokens) for _, tokens in theirs)} greedy tokens are the same until one differs"


def beside_llama(options, quantize):
    for kind in options.types.split(","):
        own = options.folder / f"{kind}.gguf"
        quantize(own, "--type", kind, "--overwrite", "--no-report")
        print(f"{kind:8} {own.stat().st_size / 1e6:7.1f} MB  {llama_loads(options.llama, options.espalier, own)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--python")
    parser.add_argument("--ggml")
    parser.add_argument("--llama", type=pathlib.Path)
    parser.add_argument("--types", default=TYPES)
    parser.add_argument("--espalier", default=str(pathlib.Path(__file__).resolve().parent.parent / "build" / "espalier"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    def quantize(target, *flags):
        done = subprocess.run([options.espalier, "quantize", options.source, str(target), "--progress", "none", *flags],
                              check=True, capture_output=True, text=True)
        return done.stdout + done.stderr

    if options.llama:
        beside_llama(options, quantize)
    if not options.python or not options.ggml:
        if not options.llama:
            parser.error("--python and --ggml, or --llama, are needed")
        return
    plain, peer = options.folder / "source.gguf", options.folder / "ggml.gguf"
    quantize(plain, "--type", "bf16", "--overwrite", "--no-report")
    print(f"{'type':8} {'MB':>7} {'KL':>9} {'ggml KL':>9} {'ratio':>6} {'ppl':>8} {'ggml ppl':>8}")
    for kind in options.types.split(","):
        own = options.folder / f"{kind}.gguf"
        kl, ppl = figures(quantize(own, "--type", kind, "--overwrite"))
        subprocess.run([options.python, "-c", GGML, options.ggml, plain, own, peer], check=True)
        peer_kl, peer_ppl = figures(quantize(peer, "--only-report"))
        print(f"{kind:8} {own.stat().st_size / 1e6:7.1f} {kl:9.5f} {peer_kl:9.5f} {kl / peer_kl:6.2f} {ppl:8.3f} {peer_ppl:8.3f}",
              flush=True)


if __name__ == "__main__":
    main()
