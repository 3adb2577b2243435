#!/usr/bin/env python3
"""Pictures a second beside transformers: the same weights, the same pictures, in alternation.

    bench/pictures_beside.py --python PYTHON FOLDER [--pictures 6] [--sides 640,480] [--out-tokens 16] [--rounds 3] [FLAGS of serve]

PYTHON is an interpreter that has transformers, torch and Pillow. FOLDER gets a model of random bfloat16 weights in the shape of
LLaVA-OneVision-0.5B (SigLIP of 27 layers, Qwen2 of 24) unless one is there. All pictures differ and no server has seen any: the
tower runs for each. Each round, transformers answers one after another (its batches are no faster here), and a new server gets
all at once. Printed for each round: pictures a second of both, their ratio, the share of equal first tokens (random weights leave
near ties); at the end the medians, with the ISA and the prompt's tokens.
"""
import argparse
import base64
import concurrent.futures
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time
import urllib.request

from memory import get  # they lie beside this file
from pictures import ended, png
from restart import start

IMAGE = 4  # the token that stands for a picture

MAKE = """
import json, sys, torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlavaOnevisionConfig, LlavaOnevisionForConditionalGeneration, LlavaOnevisionImageProcessor
folder = sys.argv[1]
text = dict(model_type="qwen2", vocab_size=152000, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
            num_key_value_heads=2, rope_theta=1e6, max_position_embeddings=32768, bos_token_id=1, eos_token_id=2, tie_word_embeddings=True)
vision = dict(model_type="siglip_vision_model", hidden_size=1152, intermediate_size=4304, num_hidden_layers=26, num_attention_heads=16,
              image_size=384, patch_size=14, vision_use_head=False)
torch.manual_seed(1)
config = LlavaOnevisionConfig(vision_config=vision, text_config=text, image_token_index=IMAGE, video_token_index=5, tie_word_embeddings=True)
torch.set_default_dtype(torch.bfloat16)
LlavaOnevisionForConditionalGeneration(config).save_pretrained(folder)
LlavaOnevisionImageProcessor(image_grid_pinpoints=[[384 * a, 384 * b] for a in range(1, 7) for b in range(1, 7)]).save_pretrained(folder)
words = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "<image>": 4, "<video>": 5, **{f"w{i}": i for i in range(6, 152000)}}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer.add_special_tokens(["<pad>", "<s>", "</s>", "<unk>", "<image>", "<video>"])
tokenizer.save(folder + "/tokenizer.json")
json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}, open(folder + "/tokenizer_config.json", "w"))
""".replace("IMAGE", str(IMAGE))

PEER = """
import json, sys, time, torch
from PIL import Image
from transformers import LlavaOnevisionForConditionalGeneration, LlavaOnevisionImageProcessor
folder, wanted, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
torch.set_num_threads(THREADS)
torch.manual_seed(1)
model = LlavaOnevisionForConditionalGeneration.from_pretrained(folder, dtype=torch.bfloat16).eval()
processor = LlavaOnevisionImageProcessor.from_pretrained(folder)
def tokens(size):
    height, width = size
    best = min(((h, w) for h, w in processor.image_grid_pinpoints), key=lambda p: fit(p, height, width))
    rows, columns = best[0] // 384 * 27, best[1] // 384 * 27
    if width / height > columns / rows:
        keep = int(round(height * (columns / width), 7)); cut = (rows - keep) // 2; rows -= 2 * cut
    else:
        keep = int(round(width * (rows / height), 7)); cut = (columns - keep) // 2; columns -= 2 * cut
    ratio = (rows * columns / (9 * 27 * 27)) ** 0.5
    if ratio > 1.1: rows, columns = int(rows // ratio), int(columns // ratio)
    return 729 + rows * columns + rows
def fit(p, height, width):
    scale = min(p[1] / width, p[0] / height)
    area = min(int(width * scale) * int(height * scale), width * height)
    return (-area, p[0] * p[1] - area)
def answer(name):
    image = Image.open(name).convert("RGB")
    pixels = processor(image, return_tensors="pt")
    ids = [1] + [IMAGE] * tokens((image.height, image.width)) + list(range(10, 26))
    with torch.inference_mode():
        out = model.generate(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                             pixel_values=pixels["pixel_values"].bfloat16(), image_sizes=pixels["image_sizes"], do_sample=False,
                             max_new_tokens=wanted, min_new_tokens=wanted, pad_token_id=0)
    return len(ids), out[0, len(ids)].item()
answer(names[0])
began = time.monotonic()
told = [answer(name) for name in names[1:]]
print(json.dumps({"seconds": time.monotonic() - began, "first": [t[1] for t in told], "prompt": told[0][0]}))
""".replace("IMAGE", str(IMAGE))


def by_transformers(options, names):
    run = [options.python, "-c", PEER.replace("THREADS", str(options.threads)), str(options.folder), str(options.out_tokens), *map(str, names)]
    return json.loads(subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def ask(url, name, options):
    body = {"input_ids": [1, IMAGE, *range(10, 26)], "image_data": "data:;base64," + base64.b64encode(name.read_bytes()).decode(),
            "sampling_params": {"temperature": 0, "max_new_tokens": options.out_tokens, "ignore_eos": True}}
    request = urllib.request.Request(url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=3600) as answer:
        told = json.load(answer)
    return told["meta_info"]["prompt_tokens"], told["output_ids"][0]


def by_us(options, flags, names):
    process, url = start([str(options.folder), "--threads", str(options.threads), *flags])
    try:
        isa = get(url + "/get_server_info")["isa"]
        ask(url, names[0], options)
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(len(names)) as clients:
            told = list(clients.map(lambda name: ask(url, name, options), names[1:]))
        return {"seconds": time.monotonic() - began, "first": [t[1] for t in told], "prompt": told[0][0], "isa": isa}
    finally:
        ended(process)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--pictures", type=int, default=6)
    parser.add_argument("--sides", default="640,480", help="width and height")
    parser.add_argument("--out-tokens", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options, flags = parser.parse_known_args()
    if not (options.folder / "config.json").exists():
        subprocess.run([options.python, "-c", MAKE, str(options.folder)], check=True)
    width, height = map(int, options.sides.split(","))
    ratios, ours, theirs = [], [], []
    for round_ in range(options.rounds):
        draw, names = random.Random(round_), []
        for i in range(options.pictures + 1):  # the first one warms up
            names.append(options.folder / f"picture-{i}.png")
            names[-1].write_bytes(png(width, height, draw))
        peer, own = by_transformers(options, names), by_us(options, flags, names)
        if peer["prompt"] != own["prompt"]:
            sys.exit(f"prompts differ: {peer['prompt']} tokens for transformers, {own['prompt']} here")
        theirs.append(options.pictures / peer["seconds"])
        ours.append(options.pictures / own["seconds"])
        ratios.append(ours[-1] / theirs[-1])
        same = sum(a == b for a, b in zip(own["first"], peer["first"]))
        print(f"round {round_ + 1}: {theirs[-1]:.3f} pictures a second by transformers, {ours[-1]:.3f} here: {ratios[-1]:.2f} times; "
              f"{same} of {options.pictures} first tokens alike", flush=True)
    print(f"{own['isa']}, pictures of {width} x {height} ({own['prompt']} tokens), {options.out_tokens} tokens out, {options.threads} threads: "
          f"{statistics.median(theirs):.3f} by transformers, {statistics.median(ours):.3f} here, {statistics.median(ratios):.2f} times")


if __name__ == "__main__":
    main()
