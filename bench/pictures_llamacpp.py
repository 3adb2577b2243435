#!/usr/bin/env python3
"""Pictures a second beside llama.cpp's server: the same GGUF file and the same mmproj file, in alternation.

    bench/pictures_llamacpp.py MODEL.gguf MMPROJ.gguf --llamacpp DIR [--pictures 8] [--sides 640,480] [--out-tokens 32] [--rounds 3] [FLAGS of serve]

DIR holds llama-server. `bench/make_shapes.py DIR smolvlm --types Q8_0` makes a pair of random weights. All pictures differ and no
server has seen any: the tower runs for each. Each round starts both servers anew, one after the other, sends one picture
that warms up and then all at once, to /v1/chat/completions. Printed for each round: pictures a second of both and their ratio; at the
end the medians, with the ISA and the tokens of a prompt. Only Python's own library is needed.
"""
import argparse
import base64
import concurrent.futures
import json
import pathlib
import random
import statistics
import sys
import time
import urllib.request

from llama_server import start_llama  # they lie beside this file
from memory import get
from pictures import ended, png
from restart import start


def ask(url, picture, options):
    """The prompt's tokens."""
    content = [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(picture).decode()}},
               {"type": "text", "text": "t0 t0 t0 t0"}]
    body = {"messages": [{"role": "user", "content": content}], "max_tokens": options.out_tokens, "temperature": 0, "ignore_eos": True}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=3600) as answer:
        usage = json.load(answer)["usage"]
    assert usage["completion_tokens"] == options.out_tokens, usage
    return usage["prompt_tokens"]


def burst(url, pictures, options):
    """Pictures a second, and the tokens of a prompt."""
    prompt = ask(url, pictures[0], options)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(pictures)) as clients:
        list(clients.map(lambda picture: ask(url, picture, options), pictures[1:]))
    return (len(pictures) - 1) / (time.monotonic() - began), prompt


def by_llamacpp(options, pictures):
    threads = str(options.threads)
    process, url, said = start_llama(f"{options.llamacpp}/llama-server", "-m", options.model, "--mmproj", options.mmproj, "-t", threads,
                                     "-tb", threads, "-np", options.pictures, "-c", options.pictures * 2048, "--jinja")
    if process is None:
        sys.exit("llama-server ended before it was ready: " + said)
    try:
        return burst(url, pictures, options)
    finally:
        ended(process)


def by_us(options, flags, pictures):
    process, url = start([options.model, "--mmproj", options.mmproj, "--threads", str(options.threads), *flags])
    try:
        return *burst(url, pictures, options), get(url + "/get_server_info")["isa"]
    finally:
        ended(process)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("mmproj")
    parser.add_argument("--llamacpp", required=True, type=pathlib.Path)
    parser.add_argument("--pictures", type=int, default=8)
    parser.add_argument("--sides", default="640,480", help="width and height")
    parser.add_argument("--out-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options, flags = parser.parse_known_args()
    width, height = map(int, options.sides.split(","))
    ours, theirs = [], []
    for round_ in range(options.rounds):
        draw = random.Random(round_)
        pictures = [png(width, height, draw) for _ in range(options.pictures + 1)]
        rate, their_prompt = by_llamacpp(options, pictures)
        own, our_prompt, isa = by_us(options, flags, pictures)
        theirs.append(rate)
        ours.append(own)
        print(f"round {round_ + 1}: {rate:.3f} pictures a second by llama.cpp ({their_prompt} tokens), {own:.3f} here ({our_prompt} tokens): "
              f"{own / rate:.2f} times", flush=True)
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    print(f"{isa}, pictures of {width} x {height}, {options.out_tokens} tokens out, {options.threads} threads: "
          f"{statistics.median(theirs):.3f} by llama.cpp, {statistics.median(ours):.3f} here, {ratio:.2f} times")


if __name__ == "__main__":
    main()
