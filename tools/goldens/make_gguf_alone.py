"""GGUF files of families that the transformers library lacks, with random weights, and what a plain float64 program computes of
them: the last logits and 32 greedy ids of two prompts. The formulas are those of the published models; names, layouts and
defaults are llama.cpp's (its converter, its graphs). Needs numpy and gguf.

    python make_gguf_alone.py OUT [ARCHITECTURE...]    # OUT/<architecture>.gguf and .json
"""
import json
import sys
from pathlib import Path

import numpy as np

import alone_early, alone_later, alone_rwkv  # noqa: F401
from alone_parts import FORWARD, V, File


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
