#!/usr/bin/env python3
"""What long prompts do to the streams of others: when one server does all, and when another one computes prompts.

    bench/prefill_decode.py MODEL [--streams 4] [--prompt-tokens 1500] [--rounds 3] [FLAGS of serve, e.g. --load-format dummy]

Streams of short prompts run, first alone, then while long prompts come one after another. Each long prompt goes to a server of prompts
(--disaggregation-mode prefill, on the first processor) and to the streams' server (decode, on the second) as sglang-router sends it;
beside that, all of it to one server on both processors. Printed, as medians of rounds that alternate: p50 and p99 of the time between
tokens, and p99 beside long prompts over p99 alone. The exit code is 1 where the split's ratio is above 1.3. Needs two processors;
only Python's own library.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import sys
import threading
import time
import urllib.request

from restart import start

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "server"))
from prefill_decode import free_port, handed  # noqa: E402  (beside the tests of servers)


def post(url, body):
    request = urllib.request.Request(url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=600)


def stream(url, ids, tokens, gaps):
    """Milliseconds between tokens."""
    body = {"input_ids": ids, "stream": True, "sampling_params": {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}}
    last = None
    with post(url, body) as reply:
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            now = time.monotonic()
            if last is not None:
                gaps.append(1000 * (now - last))
            last = now


def long_prompts(first, second, port, draw, length, stop, counts):
    """One after another until `stop`; to both servers where there are two."""
    while not stop.is_set():
        body = {"input_ids": [draw.randrange(1000, 30000) for _ in range(length)], "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
        if first:
            body = handed(body, port)
            other = threading.Thread(target=lambda: post(first, body).read())
            other.start()
        json.load(post(second, body))
        if first:
            other.join()
        counts.append(1)


def measure(first, second, port, args, seed, beside):
    draw, gaps, counts, stop = random.Random(seed), [], [], threading.Event()
    threads = [threading.Thread(target=stream, args=(second, [draw.randrange(1000, 30000) for _ in range(40)], args.tokens, gaps))
               for _ in range(args.streams)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    if beside:
        other = threading.Thread(target=long_prompts, args=(first, second, port, draw, args.prompt_tokens, stop, counts))
        other.start()
    for thread in threads:
        thread.join()
    stop.set()
    seconds = time.monotonic() - began
    if beside:
        other.join()
    gaps.sort()
    return {"p50": statistics.median(gaps), "p99": gaps[int(0.99 * len(gaps))], "prompts": len(counts) / seconds}


def on(processors, flags):
    """A server on these processors alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        return start([*flags, "--threads", str(len(processors))])
    finally:
        os.sched_setaffinity(0, before)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=150, help="of each stream")
    parser.add_argument("--prompt-tokens", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    args, flags = parser.parse_known_args()
    one, two = sorted(os.sched_getaffinity(0))[:2]
    port = free_port()
    common = [args.model, "--no-cache-disk", *flags]
    servers = [on({one}, [*common, "--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", str(port)]),
               on({two}, [*common, "--disaggregation-mode", "decode"]), on({one, two}, common)]
    first, second, alone = (url for _, url in servers)
    figures = {}
    try:
        for turn in range(args.rounds):
            for name, where in (("split", (first, second)), ("one server", (None, alone))):
                for beside in (False, True):
                    figures.setdefault((name, beside), []).append(measure(*where, port, args, 100 * turn, beside))
    finally:
        for process, _ in servers:
            process.terminate()
            process.wait()
    print(f"{args.streams} streams, beside prompts of {args.prompt_tokens} tokens; load of the machine {os.getloadavg()[0]:.1f}")
    ratios = {}
    for name in ("split", "one server"):
        median = {beside: {key: statistics.median(f[key] for f in figures[name, beside]) for key in ("p50", "p99", "prompts")} for beside in (False, True)}
        ratios[name] = statistics.median(b["p99"] / a["p99"] for a, b in zip(figures[name, False], figures[name, True]))
        print(f"{name:11} between tokens, alone p50 {median[False]['p50']:.1f} ms, p99 {median[False]['p99']:.1f} ms; "
              f"beside p50 {median[True]['p50']:.1f} ms, p99 {median[True]['p99']:.1f} ms (x {ratios[name]:.2f}); {median[True]['prompts']:.2f} prompts a second")
    return 1 if ratios["split"] > 1.3 else 0


if __name__ == "__main__":
    sys.exit(main())
