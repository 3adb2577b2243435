#!/usr/bin/env python3
"""What reusing prefixes gives on workloads that share them, against what it could give at most.

    bench/cache_gain.py MODEL WORKLOAD.jsonl.gz... [--threads 2] [--concurrency 16] [--repeat 1] [--out FILE.json]

Two servers, with and without prefix cache, answer each workload in alternation, in one run; `espalier bench serving` sends it. Printed:
  P, D   prompt and output tokens of the workload          h   hit rate of an unlimited cache for the ids that were sent
  batch  sequences in a mean step of the server with cache: programs wait for their own branches, and the last answers of a file are
         decoded a few at once
  c      what a decoded token costs, in prompt tokens computed, measured on the server without cache: that many sequences side by side,
         with prompts and answers of the workload's mean lengths
  gain   time without ÷ time with the cache                 possible   (P + c D) ÷ ((1 - h) P + c D)
The share is gain ÷ possible. Selects count their scored tokens on both sides. Only Python's own library is needed.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import urllib.request

from restart import PROGRAM, start  # it lies beside this file

HEAD = "{:24} {:>8} {:>7} {:>6} {:>6} {:>6} {:>6} {:>8} {:>8} {:>6} {:>9} {:>6}"
LINE = ("{workload:24} {P:8} {D:7} {h:6.3f} {hit:6.3f} {batch:6.1f} {c:6.2f} {off:8.2f} {on:8.2f} {gain:6.2f} {possible:9.2f} {share:6.2f}")


class Server:
    def __init__(self, model, *flags):
        self.process, self.url = start([model, "--no-cache-disk", *flags])

    def batches(self):
        """Steps so far, and the sequences in them."""
        with urllib.request.urlopen(self.url + "/metrics") as reply:
            text = reply.read().decode()
        return [float(re.search(rf"^espalier_batch_size_{part}\S* (\S+)$", text, re.M)[1]) for part in ("count", "sum")]

    def measure(self, *flags):
        done = subprocess.run([PROGRAM, "bench", "serving", "--base-url", self.url, "--json", "--seed", "1", "--warmup-requests", "1", *flags],
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])


def decode_cost(server, sequences, prompt, output):
    """Prompt tokens that could be computed in the time of one decoded token: `sequences` side by side, prompts and answers as long as the
    workload's. Attention makes both dearer as they grow."""
    one = ("--dataset-name", "random", "--random-range-ratio", "1", "--max-concurrency", str(sequences), "--num-prompts", str(sequences))
    prompts = server.measure(*one, "--random-input-len", str(prompt), "--random-output-len", "1")["duration"]
    both = server.measure(*one, "--random-input-len", str(prompt), "--random-output-len", str(output + 1))["duration"]
    return max(both - prompts, 0) / output * prompt / prompts


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
        print(HEAD.format("workload", "P", "D", "h", "hit", "batch", "c", "off s", "on s", "gain", "possible", "share"))
        rows = []
        for path in a.workloads:
            flags = ("--dataset-path", path, "--max-concurrency", str(a.concurrency), "--report-ideal")
            pairs, costs, before = [], [], on.batches()
            for _ in range(a.repeat):  # the cost of decoding too, each time: the machine changes its pace from minute to minute
                pairs.append((off.measure(*flags), on.measure(*flags, "--flush-cache")))
                steps, sequences = (after - earlier for earlier, after in zip(before, on.batches()))
                seen = pairs[0][1]
                p, d, h = seen["total_input_tokens"], seen["total_output_tokens"], seen["ideal_hit_rate_pct"] / 100
                n = seen["completed"]
                costs.append(decode_cost(off, max(1, round(sequences / steps)), rounded(p / n, 64, 64), rounded(d / n, 16, 16)))
            c = statistics.median(costs)
            row = {"workload": os.path.basename(path).split(".")[0], "P": p, "D": d, "h": h, "hit": seen["cache_hit_rate_pct"] / 100,
                   "batch": sequences / steps, "c": c, "off": statistics.median(x["duration"] for x, _ in pairs),
                   "on": statistics.median(y["duration"] for _, y in pairs),
                   "gain": statistics.median(x["duration"] / y["duration"] for x, y in pairs), "possible": (p + c * d) / ((1 - h) * p + c * d)}
            row["share"] = row["gain"] / row["possible"]
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
