#!/usr/bin/env python3
"""Constrained generation through a server, beside free generation of the same length, in alternation, in one run.

    bench/constrained.py MODEL [--workloads DIR] [--only workloads,schemas,steps] [--repeat 3] [--at-once 1,16] [FLAGS OF serve ...]

workloads  json_character, json_city and json_schema of --workloads: every item with its own regex or schema (schemas also
           with flexible whitespace); then free, with ignore_eos and the length of the constrained output. Printed: how many outputs
           finished and how many of these are valid (re, jsonschema), tokens/s of both and their ratio, forward passes saved.
schemas    32 requests with 32 different schemas at once against 32 with one of them (the same shape, other names)
steps      32 requests at once, constrained (jump-forward off, a string of fixed length) and free: time of a step, and their ratio

The prefix cache is flushed before every pass; passes alternate (ABBA). Each figure is the median over the rounds, with least..most.
No peer takes part. Only jsonschema is needed beside Python's own library (tests/requirements.txt; build/venv has it).
"""
import argparse
import concurrent.futures
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
WORKLOADS = ("json_character", "json_city", "json_schema")


class Server:
    def __init__(self, program, model, flags):
        command = [program, "serve", model, "--port", "0", *flags]
        print("$", " ".join(command), flush=True)
        self.log = tempfile.NamedTemporaryFile("w+")  # not a pipe: one line a request would fill it
        self.process = subprocess.Popen(command, stderr=self.log)
        self.url = None
        while self.url is None:
            time.sleep(0.05)
            with open(self.log.name, encoding="utf-8") as log:
                said = log.read()
            if found := re.search(r"ready on (http://[^ ]+)", said):
                self.url = found.group(1)
            elif self.process.poll() is not None:
                raise SystemExit("the server did not start:\n" + said)

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as response:
            return response.read()

    def generate(self, body):
        return json.loads(self.post("/generate", body))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def run(server, bodies, at_once):
    """All bodies, so many at once: replies and seconds."""
    server.post("/flush_cache", {})
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        replies = list(pool.map(server.generate, bodies))
    return replies, time.monotonic() - begin


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def items_of(folder, name):
    path = os.path.join(folder, name + ".small.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines][1:]


def constrained_body(item, whitespace):
    sampling = {"temperature": item.get("temperature", 0), "max_new_tokens": item["max_tokens"]}
    for kind in ("regex", "json_schema"):
        if kind in item:
            sampling[kind] = item[kind]
    if "json_schema" in item:
        sampling["json_whitespace"] = whitespace
    return {"text": item["prompt"], "sampling_params": sampling}


def is_valid(item, text):
    if "regex" in item and not re.fullmatch(item["regex"], text):
        return False
    if "json_schema" in item:
        import jsonschema
        try:
            jsonschema.validate(json.loads(text), item["json_schema"])
        except (ValueError, jsonschema.ValidationError):
            return False
    return True


def free_body(body, reply):
    length = reply["meta_info"]["completion_tokens"]
    return {"text": body["text"], "sampling_params": {"temperature": 0, "max_new_tokens": length, "ignore_eos": True}}


def alternate(repeat, first, second):
    """first and second give seconds; their lists, in ABBA order."""
    seconds = ([], [])
    for round_ in range(repeat):
        for which in ((0, 1), (1, 0))[round_ % 2]:
            seconds[which].append((first, second)[which]())
    return seconds


def workloads(server, folder, repeat, at_once):
    for name in WORKLOADS:
        items = items_of(folder, name)
        for whitespace in ("compact", "flexible") if any("json_schema" in i for i in items) else ("compact",):
            bodies = [constrained_body(item, whitespace) for item in items]
            replies, _ = run(server, bodies, at_once)
            free = [free_body(body, reply) for body, reply in zip(bodies, replies)]
            tokens = sum(r["meta_info"]["completion_tokens"] for r in replies)
            ended = [(i, r) for i, r in zip(items, replies) if r["meta_info"]["finish_reason"]["type"] == "stop"]
            good = sum(is_valid(i, r["text"]) for i, r in ended)
            saved = sum(r["meta_info"]["forward_passes_saved"] for r in replies)
            run(server, free, at_once)
            ours, theirs = alternate(repeat, lambda: run(server, bodies, at_once)[1], lambda: run(server, free, at_once)[1])
            print(f"{name:15} {whitespace:9} {at_once:3} at once  {len(ended)}/{len(items)} finished, {good} of them valid  "
                  f"{tokens} tokens, {saved} forward passes saved  constrained {spread([tokens / s for s in ours], 0)} tok/s, "
                  f"free {spread([tokens / s for s in theirs], 0)}, ratio {spread([b / a for a, b in zip(ours, theirs)])}", flush=True)


def schema_number(i):
    names = [f"{word}{i}" for word in ("alpha", "bravo", "carol", "delta")]
    return {"type": "object", "additionalProperties": False, "required": names,
            "properties": {names[0]: {"type": "string", "minLength": 20, "maxLength": 30}, names[1]: {"type": "integer", "maximum": 99},
                           names[2]: {"enum": ["one", "two"]}, names[3]: {"type": "boolean"}}}


def schemas(server, repeat, count=32):
    def bodies(different):
        return [{"text": f"Record number {i}:", "sampling_params": {"temperature": 0, "max_new_tokens": 200, "json_schema":
                 schema_number(10 + i if different else 10)}} for i in range(count)]
    rates = {}

    def timed(different):
        replies, seconds = run(server, bodies(different), count)
        rate = sum(r["meta_info"]["completion_tokens"] for r in replies) / seconds
        rates.setdefault(different, []).append(rate)
        return seconds
    timed(True), timed(False)
    rates.clear()
    alternate(repeat, lambda: timed(True), lambda: timed(False))
    print(f"{count} at once: {count} schemas {spread(rates[True], 0)} tok/s, one schema {spread(rates[False], 0)}, "
          f"ratio {spread([a / b for a, b in zip(rates[True], rates[False])], 3)}", flush=True)


def steps(program, model, flags, repeat, count=32, length=64):
    server = Server(program, model, ["--disable-jump-forward", *flags])
    try:
        common = {"temperature": 1, "max_new_tokens": length, "ignore_eos": True, "sampling_seed": 1}
        def bodies(more):
            return [{"text": f"Text number {i}:", "sampling_params": {**common, **more}} for i in range(count)]
        constrained = {"json_schema": {"type": "array", "minItems": 5, "items": {"type": "object", "properties": {
            "name": {"type": "string", "minLength": 3}, "age": {"type": "integer"}}, "required": ["name", "age"]}}}
        run(server, bodies(constrained), count), run(server, bodies({}), count)
        ours, theirs = alternate(repeat, lambda: run(server, bodies(constrained), count)[1], lambda: run(server, bodies({}), count)[1])
        print(f"{count} at once, {length} tokens each: constrained {spread([1000 * s / length for s in ours], 1)} ms a step, free "
              f"{spread([1000 * s / length for s in theirs], 1)}, ratio {spread([a / b for a, b in zip(ours, theirs)], 3)}", flush=True)
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--espalier", default=os.path.join(ROOT, "build", "espalier"))
    parser.add_argument("--workloads", default=os.path.join(ROOT, "..", "shared", "workloads"))
    parser.add_argument("--only", default="workloads,schemas,steps")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--at-once", default="1,16")
    arguments, flags = parser.parse_known_args()
    only = arguments.only.split(",")
    if "workloads" in only or "schemas" in only:
        server = Server(arguments.espalier, arguments.model, flags)
        try:
            if "workloads" in only:
                for at_once in map(int, arguments.at_once.split(",")):
                    workloads(server, arguments.workloads, arguments.repeat, at_once)
            if "schemas" in only:
                schemas(server, arguments.repeat)
        finally:
            server.stop()
    if "steps" in only:
        steps(arguments.espalier, arguments.model, flags, arguments.repeat)


if __name__ == "__main__":
    sys.exit(main())
