#!/usr/bin/env python3
"""Questions about one picture with and without the cache, many pictures through one server, and pictures that are refused.

    bench/pictures.py MODEL [--prompt TEXT] [--questions 16] [--pictures 10000] [--sizes 30,90] [FLAGS of serve]

MODEL takes pictures; --prompt has its mark of one.
Printed, with the ISA: questions a second with the cache and with neither prefix cache nor kept features, the share of prompt
tokens found, how often the tower ran; resident MiB after each tenth of the pictures, which are random and all different; the
milliseconds until each file of tests/data/pictures/bombs is refused. Only Python's own library is needed.
"""
import argparse
import base64
import json
import os
import random
import struct
import time
import urllib.error
import urllib.request
import zlib

from memory import get, resident  # they lie beside this file
from restart import start

BOMBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "pictures", "bombs")


def png(width, height, draw):
    lines = b"".join(b"\0" + draw.randbytes(3 * width) for _ in range(height))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines, 1)) + chunk(b"IEND", b""))


def ask(url, text, picture):
    body = {"text": text, "image_data": "data:;base64," + base64.b64encode(picture).decode(),
            "sampling_params": {"temperature": 0, "max_new_tokens": 1, "ignore_eos": True}}
    request = urllib.request.Request(url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.status, json.load(answer)["meta_info"]
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)["error"]


def questions(url, options, picture):
    """Questions a second; the share of prompt tokens found; how often the tower ran."""
    began, prompt, cached, towers = time.monotonic(), 0, 0, 0
    for i in range(options.questions):
        status, told = ask(url, f"{options.prompt} {i} what is it?", picture)
        assert status == 200, told
        prompt, cached, towers = prompt + told["prompt_tokens"], cached + told["cached_tokens"], towers + told["pictures_computed"]
    return options.questions / (time.monotonic() - began), cached / prompt, towers


def ended(process):
    process.terminate()
    process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--prompt", default="<|image|>")
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--pictures", type=int, default=10000)
    parser.add_argument("--sizes", default="30,90", help="least and most pixels of a side")
    options, flags = parser.parse_known_args()
    least, most = map(int, options.sizes.split(","))
    draw = random.Random(1)
    large = png(most, most, draw)
    process, url = start([options.model, "--disable-radix-cache", "--mm-cache-size", "0", *flags])
    without, _, runs = questions(url, options, large)
    ended(process)
    process, url = start([options.model, *flags])
    isa = get(url + "/get_server_info")["isa"]
    rate, share, towers = questions(url, options, large)
    print(f"{isa}: {options.questions} questions about one picture: {rate:.1f} a second, {rate / without:.2f} times as without the cache; "
          f"{share:.1%} of prompt tokens found; the tower ran for {towers}, without the cache for {runs}")
    for name in sorted(os.listdir(BOMBS)):
        with open(os.path.join(BOMBS, name), "rb") as file:
            data = file.read()
        began = time.monotonic()
        status, _ = ask(url, options.prompt, data)
        print(f"{name}: {status} after {(time.monotonic() - began) * 1000:.1f} ms")
    began = time.monotonic()
    for i in range(options.pictures):
        status, told = ask(url, options.prompt, png(draw.randint(least, most), draw.randint(least, most), draw))
        assert status == 200, told
        if (i + 1) % max(1, options.pictures // 10) == 0:
            print(f"{i + 1} pictures: {resident(process.pid)['RssAnon'] * 1e9 / 2**20:.0f} MiB of its own")
    print(f"{options.pictures / (time.monotonic() - began):.0f} pictures a second")
    ended(process)


if __name__ == "__main__":
    main()
