#!/usr/bin/env python3
"""Espalier and llama.cpp on the same files, threads and requests, in alternation, in one run.

    bench/beside_llamacpp.py --llamacpp BIN_DIR MODEL.gguf... [--threads 2] [--repeat 3] [--http MODEL.gguf] [--out FILE.json]

BIN_DIR holds llama.cpp's llama-bench and llama-server, built for this processor (GGML_NATIVE=ON). In the process: prefill of
512 tokens and decoding of one sequence after 16 tokens (llama-bench -p 512 -n 64; espalier bench latency), with the share of what the
machine gives, which espalier measures on the spot. Over HTTP: 16 streamed completions at once on fresh servers, 200
tokens in, 64 out, token ids as prompts, end tokens ignored; output tokens per second and time to the first token.
Every figure is the median of --repeat; the ratio is ours by theirs. `others` is the share of the processors that other programs
used meanwhile: above 0.1 the row is worth nothing. Only Python's own library is needed.
"""
import argparse
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "espalier")


class Others:
    """The share of all processors that neither we nor our children used between entering and leaving."""

    @staticmethod
    def _busy():
        v = [int(x) for x in open("/proc/stat").readline().split()[1:9]]
        return (v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def _own():
        t = os.times()
        return t.user + t.system + t.children_user + t.children_system

    def __enter__(self):
        self.wall, self.busy, self.own = time.time(), self._busy(), self._own()
        return self

    def __exit__(self, *_):
        wall = time.time() - self.wall
        self.share = max(0.0, self._busy() - self.busy - (self._own() - self.own)) / wall / os.cpu_count()


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return done.stdout


def theirs_in_process(a, model):
    rows = json.loads(run([f"{a.llamacpp}/llama-bench", "-m", model, "-p", "512", "-n", "64", "-t", str(a.threads), "-r", "2", "-o", "json"]))
    return {"prefill": max(max(r["samples_ts"]) for r in rows if r["n_prompt"]), "decode": max(max(r["samples_ts"]) for r in rows if r["n_gen"])}


def ours_in_process(a, model):
    both = {}
    for key, prompt, output in (("prefill", 512, 2), ("decode", 16, 64)):
        line = json.loads(run([PROGRAM, "bench", "latency", model, "--threads", str(a.threads), "--input-len", str(prompt),
                               "--output-len", str(output), "--repeat", "2", "--json"]).splitlines()[-1])
        if key == "prefill":
            both |= {"prefill": line["prefill_throughput"], "multipliers": line["prefill_share"]}
        else:
            both |= {"decode": line["median_decode_throughput"], "memory": line["weight_read_share"]}
    return both


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def stream_one(port, prompt, output, results, at):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = {"model": "default", "prompt": prompt, "max_tokens": output, "temperature": 0, "stream": True, "ignore_eos": True,
            "stream_options": {"include_usage": True}, "cache_prompt": True}
    start, first, tokens = time.time(), None, 0
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    if reply.status != 200:
        sys.exit(f"HTTP {reply.status}: {reply.read()[:500]}")
    for line in reply:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if event.get("usage"):
            tokens = event["usage"]["completion_tokens"]
        if first is None and event.get("choices") and event["choices"][0].get("text"):
            first = time.time() - start
    connection.close()
    results[at] = (tokens, first)


def over_http(command, requests, output):
    """Starts a server, warms it with one request, sends all requests at once, stops it."""
    port = free_port()
    server = subprocess.Popen([str(port) if word == "PORT" else word for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        start = time.time()
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    break
            except OSError:
                pass
            if server.poll() is not None or time.time() - start > 120:
                sys.exit(f"{' '.join(command)} did not become ready")
            time.sleep(0.01)
        ready = time.time() - start
        stream_one(port, [5, 6, 7], 2, [None], 0)
        results, start = [None] * len(requests), time.time()
        clients = [threading.Thread(target=stream_one, args=(port, r, output, results, i)) for i, r in enumerate(requests)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        wall = time.time() - start
        tokens = sum(r[0] for r in results)
        if tokens != output * len(requests):
            sys.exit(f"{tokens} tokens came, {output * len(requests)} were asked for")
        return {"out_per_s": tokens / wall, "first_token_s": statistics.median(r[1] for r in results), "ready_s": ready}
    finally:
        server.terminate()
        server.wait()


def median(rows):
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--llamacpp", required=True, help="folder of llama-bench and llama-server")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--http", nargs="*", default=[], help="models to serve to 16 clients at once")
    parser.add_argument("--out", help="all figures as JSON")
    a = parser.parse_args()
    report = []
    for model in a.models:
        ours, theirs, others = [], [], []
        for _ in range(a.repeat):
            with Others() as o:
                theirs.append(theirs_in_process(a, model))
                ours.append(ours_in_process(a, model))
            others.append(o.share)
        u, t = median(ours), median(theirs)
        report.append({"model": os.path.basename(model), "espalier": u, "llamacpp": t, "others": max(others)})
        print(f"{os.path.basename(model):38} prefill {u['prefill']:7.1f} tok/s ({u['multipliers']:.0%} of the multipliers) against {t['prefill']:7.1f}: "
              f"{u['prefill'] / t['prefill']:.2f}x; decode {u['decode']:6.1f} tok/s ({u['memory']:.0%} of memory) against {t['decode']:6.1f}: "
              f"{u['decode'] / t['decode']:.2f}x; others {max(others):.2f}", flush=True)
    for model in a.http:
        rng = random.Random(1)
        ours, theirs, others = [], [], []
        for _ in range(a.repeat):
            requests = [[rng.randrange(100, 30000) for _ in range(200)] for _ in range(16)]
            with Others() as o:
                theirs.append(over_http([f"{a.llamacpp}/llama-server", "-m", model, "--host", "127.0.0.1", "--port", "PORT", "-t", str(a.threads),
                                         "-tb", str(a.threads), "-np", "16", "-c", str(16 * 2048)], requests, 64))
                ours.append(over_http([PROGRAM, "serve", model, "--port", "PORT", "--threads", str(a.threads)], requests, 64))
            others.append(o.share)
        u, t = median(ours), median(theirs)
        report.append({"model": os.path.basename(model), "requests": 16, "espalier": u, "llamacpp": t, "others": max(others)})
        print(f"{os.path.basename(model):38} 16 at once over HTTP: {u['out_per_s']:.1f} tok/s out against {t['out_per_s']:.1f}: "
              f"{u['out_per_s'] / t['out_per_s']:.2f}x; first token {u['first_token_s']:.2f} s against {t['first_token_s']:.2f} s; "
              f"ready in {u['ready_s']:.2f} s against {t['ready_s']:.2f} s; others {max(others):.2f}", flush=True)
    if a.out:
        with open(a.out, "w") as file:
            json.dump(report, file, indent=1)


main()
