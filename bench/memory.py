#!/usr/bin/env python3
"""What a server keeps in memory when it is full of work, beside what its weights and its token pool are.

    bench/memory.py MODEL [MODEL ...] [--tokens 16384] [--sequences 32] [FLAGS of serve, e.g. --load-format dummy --dtype q4_0]

The pool has --tokens tokens, and --sequences requests at once fill it with prompts that share nothing. Printed for each model: the
largest resident size since the start (VmHWM), what of it belongs to files and what to the process alone at the end, weights and
pool as /get_server_info tells them, states of recurrent layers too, and the first by their sum.
Only Python's own library is needed.
"""
import argparse
import concurrent.futures
import json
import random
import urllib.request

from restart import start  # it lies beside this file


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def generate(url, ids):
    body = {"input_ids": ids, "sampling_params": {"temperature": 0, "max_new_tokens": 32, "ignore_eos": True}}
    request = urllib.request.Request(url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=3600) as answer:
        return json.load(answer)["meta_info"]["completion_tokens"]


def resident(pid):
    """GB by name: VmHWM, RssFile, RssAnon."""
    with open(f"/proc/{pid}/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return {name: int(fields[name].split()[0]) * 1024 / 1e9 for name in ("VmHWM", "RssFile", "RssAnon")}


def measure(model, options, flags):
    process, url = start([model, "--max-total-tokens", str(options.tokens), *flags])
    try:
        memory = get(url + "/get_server_info")["internal_states"][0]["memory_usage"]
        draw = random.Random(1)
        size = options.tokens // options.sequences - 40
        prompts = [[draw.randrange(1000, 30000) for _ in range(size)] for _ in range(options.sequences)]
        with concurrent.futures.ThreadPoolExecutor(options.sequences) as clients:
            list(clients.map(lambda ids: generate(url, ids), prompts))
        kept = resident(process.pid)
    finally:
        process.terminate()
        process.wait()
    declared = memory["weight"] + memory["kvcache"] + memory["states"]
    print(f"{model}: at most {kept['VmHWM']:.2f} GB resident (now {kept['RssFile']:.2f} of files, {kept['RssAnon']:.2f} its own); weights "
          f"{memory['weight']:.2f} + pool of {memory['token_capacity']} tokens {memory['kvcache']:.2f} + states {memory['states']:.2f} GB: "
          f"{kept['VmHWM'] / declared:.2f} times",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--sequences", type=int, default=32)
    options, flags = parser.parse_known_args()
    for model in options.models:
        measure(model, options, flags)


if __name__ == "__main__":
    main()
