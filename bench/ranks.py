#!/usr/bin/env python3
"""One model on several ranks of this host, each on a processor of its own, beside one rank on one: tokens a second, what ranks tell
each other in a step and how long that takes, and what `espalier plan` predicts. Servers are measured in turns.

    bench/ranks.py MODEL [--sizes 1,2] [--tokens 32] [--prompt 256] [--rounds 3] [--link GB/s,us] [--realtime] [FLAGS of serve, e.g. --load-format dummy
        --dtype q4_0]

The share that is told is of the speed that as many processors would have if nothing had to be told and memory were each one's own.
On a machine that does other things too, --realtime lets what is measured go first (it needs root, and for these seconds keeps others waiting).
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import time
import urllib.request

from restart import PROGRAM, start  # it lies beside this file


def threads_of(pid):
    return [int(task.name) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]


class Server:
    def __init__(self, options, size, flags):
        words = [options.model, "--threads", "1", "--tp-size", str(size), "--skip-tokenizer-init", "--no-cache-disk", *flags]
        self.process, self.url = start(words, options.program)
        self.size = size

    def place(self, realtime):
        """Each rank with all its threads on one processor."""
        first = self.process.pid
        others = [int(pid) for task in threads_of(first) for pid in pathlib.Path(f"/proc/{first}/task/{task}/children").read_text().split()]
        ranks = [first, *sorted(others)]
        assert len(ranks) == self.size, ranks
        for pid, processor in zip(ranks, sorted(os.sched_getaffinity(0))):
            for thread in threads_of(pid):
                os.sched_setaffinity(thread, {processor})
                if realtime:
                    os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))

    def ask(self, prompt, tokens):
        """(ids, seconds to the first token, seconds for those behind it, what ranks told each other meanwhile)"""
        body = {"input_ids": prompt, "sampling_params": {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}}
        request = urllib.request.Request(self.url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
        before, began = self.told(), time.monotonic()
        reply = json.load(urllib.request.urlopen(request))
        whole, after = time.monotonic() - began, self.told()
        first = reply["meta_info"]["first_token_latency"]
        return reply["output_ids"], first, whole - first, {name: after[name] - before[name] for name in after}

    def told(self):
        text = urllib.request.urlopen(self.url + "/metrics").read().decode()
        return {name: float(value) for name, value in re.findall(r"^espalier_rank_(\w+?)(?:_total)?\{[^}]*\} (\S+)$", text, re.M)}


def step(told, seconds, steps):
    if "exchanges" not in told:
        return "-"
    received, waited = told["received_bytes"] / steps, told["waited_seconds"] / steps
    return f"{told['exchanges'] / steps:.0f} exchanges, {received / 2**20:.2f} MiB received, {1e3 * waited:.2f} ms of {1e3 * seconds / steps:.1f}"


def predicted(options, size, flags):
    """What the program says before anything is computed; of devices nothing."""
    if "--device" in flags:
        return ""
    command = [options.program, "plan", options.model, "--threads", "1", "--tp-size", str(size), "--link", options.link, *flags]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return "\n".join(re.findall(r"^.*(?: ranks  | together: ).*$", text, re.M))


def measure(servers, options):
    decode, prefill, told = ({s.size: [] for s in servers} for _ in range(3))
    for turn in range(options.rounds):
        answers = set()
        for s in servers:
            prompt = [7 + turn, *range(100, 99 + options.prompt)]
            _, first, _, at_prompt = s.ask(prompt, 1)
            ids, _, behind, at_tokens = s.ask(prompt, options.tokens + 1)  # the prompt lies in the tree but for its end
            prefill[s.size].append(options.prompt / first)
            decode[s.size].append(options.tokens / behind)
            told[s.size].append((at_prompt, first, at_tokens, behind))
            answers.add(tuple(ids))
            print(f"round {turn + 1}, {s.size} rank(s): {decode[s.size][-1]:.2f} tokens/s, prompt {prefill[s.size][-1]:.1f} tokens/s, load {os.getloadavg()[0]:.1f}", flush=True)
        if len(answers) > 1:
            raise SystemExit("the answers differ, which they must not")
    return decode, prefill, told


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("model")
    parse.add_argument("--sizes", default="1,2")
    parse.add_argument("--tokens", type=int, default=32)
    parse.add_argument("--prompt", type=int, default=256)
    parse.add_argument("--rounds", type=int, default=3)
    parse.add_argument("--link", default="6,3", help="of what plan predicts: inside a machine")
    parse.add_argument("--realtime", action="store_true")
    parse.add_argument("--program", default=PROGRAM)
    options, flags = parse.parse_known_args()
    servers = []
    try:
        for size in options.sizes.split(","):
            servers.append(Server(options, int(size), flags))
        for s in servers:
            s.place(options.realtime)
            s.ask([5] * 8, 2)
        decode, prefill, told = measure(servers, options)
    finally:
        for s in servers:
            s.process.terminate()
            s.process.wait()
    one = {kind: statistics.median(by[servers[0].size]) / servers[0].size for kind, by in (("decode", decode), ("prefill", prefill))}
    print(f"{'ranks':>5} {'decode tok/s':>13} {'times one':>9} {'share':>6} {'prefill tok/s':>14} {'times one':>9} {'share':>6}")
    for s in servers:
        d, p = statistics.median(decode[s.size]), statistics.median(prefill[s.size])
        print(f"{s.size:>5} {d:>13.2f} {d / one['decode']:>9.2f} {d / one['decode'] / s.size:>6.0%} {p:>14.1f} {p / one['prefill']:>9.2f} {p / one['prefill'] / s.size:>6.0%}")
    for s in servers[1:]:
        at_prompt, first, at_tokens, behind = sorted(told[s.size], key=lambda each: each[2]["waited_seconds"])[len(told[s.size]) // 2]
        print(f"{s.size} ranks tell each other for a token: {step(at_tokens, behind, options.tokens)}; for the prompt: {step(at_prompt, first, 1)}")
        print(predicted(options, s.size, flags))
    print("the answers are the same")


if __name__ == "__main__":
    main()
