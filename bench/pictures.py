#!/usr/bin/env python3
"""Questions about one picture with and without the cache, many pictures through one server, and pictures that are refused.

    bench/pictures.py MODEL [--prompt TEXT] [--question TEXT] [--questions 16] [--stream 300] [--burst 8] [--pictures 10000] [--sizes 30,90] [FLAGS of serve]

MODEL takes pictures; --prompt has its mark of one; in --question {} is the question's number.
Printed, with the ISA: questions a second with the cache and with neither prefix cache nor kept features, the share of prompt
tokens found behind the first question, how often the tower ran; the gaps between the tokens of a stream, alone and while a burst of the
largest pictures is read, in turns; the milliseconds until each file of tests/data/pictures/bombs is refused; resident MiB after
each tenth of the pictures, which are random and all different. Only Python's own library is needed.
"""
import argparse
import base64
import concurrent.futures
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
    """Questions a second; the share of prompt tokens found behind the first one, which finds nothing; how often the tower ran."""
    began, prompt, cached, towers = time.monotonic(), 0, 0, 0
    for i in range(options.questions):
        status, told = ask(url, options.prompt + options.question.format(i), picture)
        assert status == 200, told
        towers += told["pictures_computed"]
        if i > 0:
            prompt, cached = prompt + told["prompt_tokens"], cached + told["cached_tokens"]
    return options.questions / (time.monotonic() - began), cached / prompt, towers


def gaps(url, tokens, number):
    """Milliseconds between the tokens of a stream, by size."""
    body = {"input_ids": [number, 7, 8, 9], "stream": True, "sampling_params": {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}}
    request = urllib.request.Request(url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    times = []
    with urllib.request.urlopen(request, timeout=3600) as answer:
        for line in answer:
            if line.startswith(b"data: {"):
                times.append(time.monotonic())
    return sorted(1000 * (later - sooner) for sooner, later in zip(times, times[1:]))


def post(url, body):
    request = urllib.request.Request(url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=3600) as answer:
        return json.load(answer)["meta_info"]


def beside(url, options, calls):
    """The stream's gaps while all calls come at once, and how many of them had ended with it."""
    with concurrent.futures.ThreadPoolExecutor(len(calls) + 1) as clients:
        stream = clients.submit(gaps, url, options.stream, 6)
        time.sleep(0.2)
        asked = [clients.submit(call) for call in calls]
        found = stream.result()
        ended = sum(one.done() for one in asked)
        told = [one.result() for one in asked]
    return found, ended, told


def streams(url, options, draw):
    """A line for each turn: the stream alone, beside pictures that nobody has seen, beside texts of as many tokens."""
    def picture(i, data):
        status, told = ask(url, options.prompt + options.question.format(i), data)
        assert status == 200, told
        return told["prompt_tokens"]

    def text(size):
        ids = [draw.randrange(10, 300) for _ in range(size)]
        return post(url, {"input_ids": ids, "sampling_params": {"temperature": 0, "max_new_tokens": 1, "ignore_eos": True}})

    for turn in range(3):
        alone = gaps(url, options.stream, 10 + turn)
        burst = [png(options.largest, options.largest, draw) for _ in range(options.burst)]
        pictures, read, sizes = beside(url, options, [lambda i=i, data=data: picture(i, data) for i, data in enumerate(burst)])
        texts, texts_read, _ = beside(url, options, [lambda size=size: text(size) for size in sizes])
        at = lambda found, share: found[min(len(found) - 1, int(share * len(found)))]
        shown = [f"{at(found, 0.5):.1f} / {at(found, 0.99):.1f}" for found in (alone, pictures, texts)]
        print(f"gaps of a stream, p50 / p99 ms: alone {shown[0]}, beside {options.burst} pictures of {sizes[0]} tokens ({read} read meanwhile) {shown[1]}, "
              f"beside as many tokens of text ({texts_read} read) {shown[2]}: p99 {at(pictures, 0.99) / at(alone, 0.99):.2f} times as alone, "
              f"{at(pictures, 0.99) / at(texts, 0.99):.2f} times as beside text", flush=True)


def ended(process):
    process.terminate()
    process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--prompt", default="<|image|>")
    parser.add_argument("--question", default=" {} what is it?")
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--stream", type=int, default=300, help="tokens of the stream")
    parser.add_argument("--burst", type=int, default=8, help="pictures beside it")
    parser.add_argument("--pictures", type=int, default=10000)
    parser.add_argument("--sizes", default="30,90", help="least and most pixels of a side")
    options, flags = parser.parse_known_args()
    least, most = map(int, options.sizes.split(","))
    options.largest, draw = most, random.Random(1)
    large = png(most, most, draw)
    process, url = start([options.model, "--disable-radix-cache", "--mm-cache-size", "0", *flags])
    without, _, runs = questions(url, options, large)
    ended(process)
    process, url = start([options.model, *flags])
    isa = get(url + "/get_server_info")["isa"]
    rate, share, towers = questions(url, options, large)
    print(f"{isa}: {options.questions} questions about one picture: {rate:.1f} a second, {rate / without:.2f} times as without the cache; "
          f"{share:.1%} of prompt tokens found behind the first; the tower ran for {towers}, without the cache for {runs}")
    streams(url, options, draw)
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
