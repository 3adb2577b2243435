#!/usr/bin/env python3
"""One model on several ranks of this host, each with one processor, beside one rank with one: tokens a second, what ranks tell each
other in a step and how long they wait for it. Servers are measured in turns.

    bench/ranks.py MODEL [--sizes 1,2] [--tokens 32] [--prompt 256] [--rounds 3] [FLAGS of serve, e.g. --load-format dummy --dtype q4_0]

The share that is told is of the speed that as many processors would have if nothing had to be told and memory were each one's own.
"""
import argparse
import json
import os
import re
import statistics
import time
import urllib.request

from restart import PROGRAM, start  # it lies beside this file


class Server:
    def __init__(self, program, model, size, flags):
        processors = sorted(os.sched_getaffinity(0))[:size]
        words = [model, "--threads", "1", "--tp-size", str(size), "--skip-tokenizer-init", "--no-cache-disk", *flags]
        self.process, self.url = start(words, program, preexec_fn=lambda: os.sched_setaffinity(0, processors))
        self.size = size

    def ask(self, prompt, tokens):
        body = {"input_ids": prompt, "sampling_params": {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}}
        request = urllib.request.Request(self.url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
        began = time.monotonic()
        reply = json.load(urllib.request.urlopen(request))
        meta = reply["meta_info"]
        return reply["output_ids"], meta["first_token_latency"], time.monotonic() - began

    def told(self):
        text = urllib.request.urlopen(self.url + "/metrics").read().decode()
        return {name: float(value) for name, value in re.findall(r"^espalier_rank_(\w+?)(?:_total)?\{[^}]*\} (\S+)$", text, re.M)}


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("model")
    parse.add_argument("--sizes", default="1,2")
    parse.add_argument("--tokens", type=int, default=32)
    parse.add_argument("--prompt", type=int, default=256)
    parse.add_argument("--rounds", type=int, default=3)
    parse.add_argument("--program", default=PROGRAM)
    options, flags = parse.parse_known_args()
    servers = [Server(options.program, options.model, int(size), flags) for size in options.sizes.split(",")]
    decode, prefill, told = ({s.size: [] for s in servers} for _ in range(3))
    answers = set()
    try:
        for s in servers:
            s.ask([5] * 8, 2)
        for turn in range(options.rounds):
            for s in servers:
                before = s.told()
                ids, first, whole = s.ask([7 + turn] + list(range(100, 99 + options.prompt)), options.tokens)
                answers.add((turn, tuple(ids)))
                prefill[s.size].append(options.prompt / first)
                decode[s.size].append((options.tokens - 1) / (whole - first))
                after = s.told()
                told[s.size].append({name: after[name] - before[name] for name in after} | {"seconds": whole})
    finally:
        for s in servers:
            s.process.terminate()
            s.process.wait()
    if len(answers) != options.rounds:
        raise SystemExit("the answers differ, which they must not")
    one = {kind: statistics.median(by[servers[0].size]) / servers[0].size for kind, by in (("decode", decode), ("prefill", prefill))}
    print(f"{'ranks':>5} {'decode tok/s':>13} {'times one':>9} {'share':>6} {'prefill tok/s':>14} {'times one':>9} {'share':>6}   a request: exchanges, MB sent and received, waited")
    for s in servers:
        d, p = statistics.median(decode[s.size]), statistics.median(prefill[s.size])
        seen = told[s.size][-1]
        more = f"{seen['exchanges']:.0f}, {seen['sent_bytes'] / 1e6:.2f}, {seen['received_bytes'] / 1e6:.2f}, {seen['waited_seconds'] / seen['seconds']:.0%} of the time" if "exchanges" in seen else "-"
        print(f"{s.size:>5} {d:>13.2f} {d / one['decode']:>9.2f} {d / one['decode'] / s.size:>6.0%} {p:>14.1f} {p / one['prefill']:>9.2f} {p / one['prefill'] / s.size:>6.0%}   {more}")
    print("the answers are the same")


if __name__ == "__main__":
    main()
