#!/usr/bin/env python3
"""What reusing prefixes gives on workloads that share them, against what it could give at most.

    bench/cache_gain.py MODEL WORKLOAD.jsonl.gz... [--threads 2] [--concurrency 16] [--repeat 1] [--out FILE.json]

Two servers, with and without prefix cache, answer each workload in alternation, in one run; `espalier bench serving` sends it. Printed:
  P, D   prompt and output tokens of the workload          h   hit rate of an unlimited cache for the ids that were sent
  c      what a decoded token costs, in prompt tokens computed, measured on the server without cache with prompts and answers of the
         workload's mean lengths. `full`: `concurrency` sequences side by side all the time. `run`: in the workload itself, what its
         time without cache leaves beside its P prompt tokens. Programs that wait for their own branches, and the last answers of
         a file, decode a few at once, where a token costs several times as much; nothing that is cached changes that.
  gain   time without ÷ time with the cache                 possible   (P + c D) ÷ ((1 - h) P + c D), for both c
The share is gain ÷ possible. Selects count their scored tokens on both sides. Only Python's own library is needed.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = ("full", "run")  # of measuring c
HEAD = "{:24} {:>8} {:>7} {:>6} {:>6} {:>8} {:>8} {:>6}" + 2 * " {:>7} {:>9} {:>6}"
LINE = "{workload:24} {P:8} {D:7} {h:6.3f} {hit:6.3f} {off:8.2f} {on:8.2f} {gain:6.2f}" + "".join(
    f" {{c_{way}:7.2f}} {{possible_{way}:9.2f}} {{share_{way}:6.2f}}" for way in WAYS)
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "espalier")


class Server:
    def __init__(self, model, *flags):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([PROGRAM, "serve", model, "--port", "0", "--no-cache-disk", *flags], stderr=self.log, stdout=subprocess.DEVNULL)
        for _ in range(6000):
            self.log.seek(0)
            text = self.log.read().decode()
            found = re.search(r"ready on http://[^ :]+:(\d+)", text)
            if found:
                self.port = found[1]
                return
            if self.process.poll() is not None:
                sys.exit(text)
            time.sleep(0.05)
        sys.exit("the server did not become ready")

    def measure(self, *flags):
        done = subprocess.run([PROGRAM, "bench", "serving", "--port", self.port, "--json", "--seed", "1", "--warmup-requests", "1", *flags],
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])


def costs_of(server, concurrency, prompt, output):
    """Seconds of a prompt token, and of a decoded one, with `concurrency` sequences side by side whose prompts and answers are as long as the
    workload's. Attention makes both dearer as they grow."""
    one = ("--dataset-name", "random", "--random-range-ratio", "1", "--max-concurrency", str(concurrency), "--num-prompts", str(concurrency))
    prompts = server.measure(*one, "--random-input-len", str(prompt), "--random-output-len", "1")["duration"]
    both = server.measure(*one, "--random-input-len", str(prompt), "--random-output-len", str(output + 1))["duration"]
    return prompts / prompt / concurrency, max(both - prompts, 0) / output / concurrency


def possible(p, d, h, c):
    return (p + c * d) / ((1 - h) * p + c * d)


def rounded(value, least, step):
    return max(least, round(value / step) * step)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("workloads", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--out")
    a = parser.parse_args()
    off = Server(a.model, "--threads", str(a.threads), "--disable-radix-cache")
    on = Server(a.model, "--threads", str(a.threads))
    try:
        costs = {}
        print(HEAD.format("workload", "P", "D", "h", "hit", "off s", "on s", "gain", *(x for way in WAYS for x in ("c " + way, "possible", "share"))))
        rows = []
        for path in a.workloads:
            flags = ("--dataset-path", path, "--max-concurrency", str(a.concurrency), "--report-ideal")
            pairs = [(off.measure(*flags), on.measure(*flags, "--flush-cache")) for _ in range(a.repeat)]
            gain = statistics.median(x["duration"] / y["duration"] for x, y in pairs)
            seen = pairs[0][1]
            p, d, h = seen["total_input_tokens"], seen["total_output_tokens"], seen["ideal_hit_rate_pct"] / 100
            n = seen["completed"]
            lengths = rounded(p / n, 64, 64), rounded(d / n, 16, 16)
            if lengths not in costs:
                costs[lengths] = costs_of(off, a.concurrency, *lengths)
            of_prompt, of_output = costs[lengths]
            slow, quick = (statistics.median(x["duration"] for x in runs) for runs in zip(*pairs))
            row = {"workload": os.path.basename(path).split(".")[0], "P": p, "D": d, "h": h, "hit": seen["cache_hit_rate_pct"] / 100,
                   "off": slow, "on": quick, "gain": gain, "c_full": of_output / of_prompt, "c_run": max(slow / of_prompt - p, 0) / max(d, 1)}
            for at in WAYS:
                row["possible_" + at] = possible(p, d, h, row["c_" + at])
                row["share_" + at] = gain / row["possible_" + at]
            rows.append(row)
            print(LINE.format(**row), flush=True)
        if a.out:
            with open(a.out, "w") as out:
                json.dump(rows, out, indent=1)
    finally:
        off.process.terminate()
        on.process.terminate()


if __name__ == "__main__":
    main()
