#!/usr/bin/env python3
"""One load inside OpenVINO GenAI's continuous batching, for bench/beside_peers.py: run with the Python of OpenVINO's environment.

    openvino_worker.py MODEL.gguf prefill|decode --prompt 512 --sequences 1 --generated 64 [--bursts 2] [--threads 2]
    openvino_worker.py MODEL.gguf offline|prefix [--requests 64] [--seed 1] [--threads 2]

Prints one JSON object. It has no HTTP server on the package index, so offline and prefix are the requests that the servers get over
HTTP (lengths drawn alike, token ids, end tokens ignored), put in all at once; a token counts when its step has ended.
"""
import time

BEGIN = time.time()

import argparse  # noqa: E402: the start is measured from here, and importing OpenVINO is part of it
import json  # noqa: E402
import random  # noqa: E402
import resource  # noqa: E402

import numpy  # noqa: E402
import openvino  # noqa: E402
import openvino_genai as genai  # noqa: E402


def pipeline(model, threads):
    scheduling = genai.SchedulerConfig()
    scheduling.cache_size = 2  # GiB
    scheduling.enable_prefix_caching = True
    scheduling.max_num_seqs = 64
    scheduling.max_num_batched_tokens = 2048
    return genai.ContinuousBatchingPipeline(model, scheduling, "CPU", {"INFERENCE_NUM_THREADS": threads})


def ids(rng, count):
    return [rng.randrange(1000, 40000) for _ in range(count)]


def exactly(tokens):
    config = genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = tokens
    config.ignore_eos, config.do_sample = True, False
    return config


def burst(pipe, requests):
    """Puts all requests in at once; for each the times at which it had one more token, from the start."""
    start = time.perf_counter()
    handles = [pipe.add_request(i, openvino.Tensor(numpy.array([prompt], numpy.int64)), exactly(tokens))
               for i, (prompt, tokens) in enumerate(requests)]
    times = [[] for _ in requests]
    while pipe.has_non_finished_requests():
        pipe.step()
        now = time.perf_counter() - start
        for handle, seen in zip(handles, times):
            while handle.can_read():
                seen += [now] * len(next(iter(handle.read().values())).generated_ids)
    for seen, (_, tokens) in zip(times, requests):
        if len(seen) != tokens:
            raise SystemExit(f"{len(seen)} tokens came, {tokens} were asked for")
    return times


def prefill_rate(requests, times):
    return sum(len(prompt) for prompt, _ in requests) / max(seen[0] for seen in times)


def decode_rate(_, times):
    """Tokens a second while all sequences decode: from the last one's first token to the first one's last."""
    begin, end = max(seen[0] for seen in times), min(seen[-1] for seen in times)
    return sum(begin < t <= end for seen in times for t in seen) / (end - begin)


def one_rate(pipe, a):
    rng, rate = random.Random(a.seed), prefill_rate if a.load == "prefill" else decode_rate
    best = 0
    for _ in range(a.bursts):
        requests = [(ids(rng, a.prompt), a.generated) for _ in range(a.sequences)]
        best = max(best, rate(requests, burst(pipe, requests)))
    return {"tok/s": best}


def many(load, count, rng):
    if load == "prefix":
        shared = ids(rng, 700)
        return [(shared + ids(rng, 40), 8) for _ in range(count)]
    return [(ids(rng, rng.randint(150, 250)), rng.randint(48, 80)) for _ in range(count)]


def percentile(values, percent):
    values = sorted(values)
    at = (len(values) - 1) * percent / 100
    low = values[int(at)]
    return low + (values[min(int(at) + 1, len(values) - 1)] - low) * (at - int(at))


def many_figures(pipe, a):
    times = burst(pipe, many(a.load, a.requests, random.Random(a.seed)))
    first = [1e3 * seen[0] for seen in times]
    each = [1e3 * (seen[-1] - seen[0]) / (len(seen) - 1) for seen in times]
    return {"output tok/s": sum(map(len, times)) / max(seen[-1] for seen in times),
            "TTFT p50 ms": percentile(first, 50), "TTFT p99 ms": percentile(first, 99),
            "TPOT p50 ms": percentile(each, 50), "TPOT p99 ms": percentile(each, 99)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("load", choices=("prefill", "decode", "offline", "prefix"))
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--generated", type=int, default=64)
    parser.add_argument("--bursts", type=int, default=2)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    pipe = pipeline(a.model, a.threads)
    burst(pipe, [([5, 6, 7], 2)])
    started = time.time() - BEGIN
    figures = one_rate(pipe, a) if a.load in ("prefill", "decode") else many_figures(pipe, a)
    if a.load in ("offline", "prefix"):
        figures |= {"start s": started, "memory MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
