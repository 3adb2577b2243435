#!/usr/bin/env python3
"""Greedy continuations of the default model as transformers computes them, for tests/server/test_transformers.py.

    make_smollm2_greedy.py SMOLLM2.gguf OUT.json

transformers reads the GGUF file itself and dequantises every tensor to float32; generation is its own greedy loop on the
CPU. OUT.json holds the SHA-256 of the model file, the versions, and per prompt: text, token ids, 48 continued ids (fewer
when the end token came), and the smallest distance between the best and the second logit on the way: where it is small,
another order of summation may choose differently. Needs torch, transformers, accelerate, gguf (pip).
"""
import hashlib
import json
import pathlib
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

LENGTH = 48
PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "Water boils at a temperature of",
    "def fibonacci(n):\n",
    "The three primary colors are",
    "In 1969, the first person to walk on the Moon",
    "Photosynthesis is the process by which",
    "To make a simple pancake batter, you need",
    "Dear hiring manager,\n\nI am writing to",
    "Q: What is 12 times 12?\nA:",
    "A list of European countries:\n1. France\n2.",
    "The difference between a virus and a bacterium is",
    "import numpy as np\n\n# Compute the mean of a list\n",
    "SELECT name, age FROM users WHERE",
    "The theory of relativity was developed by",
    "Translate to French: Good morning, my friend.\n",
    "Les principales villes de France sont",
    "Breaking news: scientists have discovered",
    "It was the best of times, it was the worst of times,",
    "The quick brown fox",
    '{"name": "Alice", "age": 30, "city":',
    "Roses are red, violets are blue,",
    "The mitochondria is",
    "Once the heat of the day had passed, the old man",
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWrite a haiku about autumn.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nGive me three tips for a good night's sleep.<|im_end|>\n<|im_start|>assistant\n",
]


def continuation(model, ids, end_tokens):
    """Greedy ids after `ids` and the smallest lead of a chosen token over the next best."""
    out, lead, cache = [], float("inf"), None
    tokens = torch.tensor([ids])
    with torch.inference_mode():
        while len(out) < LENGTH:
            step = model(tokens, past_key_values=cache, use_cache=True)
            cache = step.past_key_values
            best = torch.topk(step.logits[0, -1], 2)
            lead = min(lead, (best.values[0] - best.values[1]).item())
            out.append(best.indices[0].item())
            if out[-1] in end_tokens:
                break
            tokens = torch.tensor([[out[-1]]])
    return out, lead


def main():
    source, target = map(pathlib.Path, sys.argv[1:3])
    model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    end_tokens = {tokenizer.convert_tokens_to_ids(t) for t in ("<|im_end|>", "<|endoftext|>")}
    cases = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        out, lead = continuation(model, ids, end_tokens)
        cases.append({"prompt": prompt, "ids": ids, "output_ids": out, "smallest_lead": round(lead, 5)})
        print(f"{lead:9.5f} {len(out):3d} {prompt[:40]!r} -> {tokenizer.decode(out)[:60]!r}", file=sys.stderr)
    head = {"sha256": hashlib.sha256(source.read_bytes()).hexdigest(), "file": source.name,
            "transformers": transformers.__version__, "torch": torch.__version__}
    body = ",\n".join("  " + json.dumps(case, ensure_ascii=False) for case in cases)
    target.write_text(json.dumps(head)[:-1] + ', "cases": [\n' + body + "\n]}\n")


main()
