#!/usr/bin/env python3
"""Programs against the calls they are made of: the files of --workloads whose items are programs.

    PYTHONPATH=build/release/python build/venv/bin/python bench/programs.py [WORKLOAD ...] [--model M] [--rounds 3]
        [--at-once N] [--size small|full] [--modes http,interpreter,compiled] [--json FILE]

Each item is played by the same function of the language in every mode:
  http         against a server of this build over HTTP: each call sends the whole text
  interpreter  against the engine in this process: a call sends its suffix, a fork shares
  compiled     the same function, compiled: what it does between two looks at a value is begun as one, and no join waits
The modes take turns, each from an empty prefix cache; all items of a workload are under way at once, or --at-once of
them. Compiling is part of the time. Every generation has a seed of its own, so the two modes in process must say the
same, and the script says so if they do not. What is told: median seconds, requests, prompt tokens computed, tokens
generated, the engine's steps, and the median of the ratios within a round (how many times quicker than the interpreter).
`append: script` (a recorded step goes on in place of the generated one) is a copy of the state that generates and is
joined; forks `from: empty` are forks of a state that nothing was said in. A program returns all values, so it looks at
them: it is compiled from one look to the next.
"""

import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import urllib.request
import zlib
from concurrent.futures import ThreadPoolExecutor

import espalier as sgl

ROOT = pathlib.Path(__file__).resolve().parents[1]
COUNTED = ("requests", "computed_tokens", "generated_tokens", "steps")
WORKLOADS = "tot_game24 tot_gsm8k llm_judge branch_solve_merge multi_chain_gsm8k rag_dspy react_hotpotqa tip_suggestion skeleton_of_thought".split()


class Player:
    """Carries out an item's operations on a state, as a program that was written for it would."""

    def __init__(self, item):
        self.item = item

    def __call__(self, s):
        self.calls, self.root, self.groups = 0, s, []
        self.blank = s.fork(1)[0] if '"empty"' in json.dumps(self.item["ops"]) else None
        values = {}
        self.play(s, self.item["ops"], values)
        self.join()
        return {name: state[variable] for name, (state, variable) in values.items()}

    def play(self, s, ops, values):
        """`values`: name to (state, variable)."""
        for op in ops:
            getattr(self, "play_" + op["op"])(s, op, values)

    def gen(self, op):
        self.calls += 1
        names = ("max_tokens", "stop", "temperature", "n", "regex", "json_schema", "ignore_eos")
        given = {name: op[name] for name in names if op.get(name) is not None}
        return sgl.gen(op["var"], seed=zlib.crc32(f"{self.item['id']} {self.calls}".encode()), **given)

    def play_text(self, s, op, values):
        s += op["text"]

    def play_gen(self, s, op, values):
        values[op["var"]] = (s, op["var"])
        if op.get("append", "model") == "model":
            s += self.gen(op)
            return
        with s.copy() as aside:
            aside += self.gen(op)
        values[op["var"]] = (aside, op["var"])
        s += op.get("script", "")

    def play_select(self, s, op, values):
        values[op["var"]] = (s, op["var"])
        s += sgl.select(op["var"], op["choices"])

    def play_var(self, s, op, values):
        state, name = values[op["name"]]
        if op.get("line") is None and not op.get("strip"):
            s += state[name]
            return
        text = state[name]
        if op.get("line") is not None:
            lines = [line for line in text.split("\n") if line.strip()]
            text = lines[op["line"] % len(lines)] if lines else ""
        s += text.strip() if op.get("strip") else text

    def play_msg(self, s, op, values):
        with getattr(s, op["role"])():
            self.play(s, op["ops"], values)

    def play_fork(self, s, op, values):
        group = (self.blank if op["from"] == "empty" else s).fork(len(op["branches"]))
        added = {}
        for i, (child, ops) in enumerate(zip(group, op["branches"])):
            inner = dict(values)
            self.play(child, ops, inner)
            added.update({f"{op['var']}.{i}.{name}": value for name, value in inner.items() if name not in values})
        values.update(added)
        self.groups.append(group)
        # A branch that forks again is joined with its own group, so that its siblings begin beside it.
        if s is self.root and op.get("wait", True):
            self.join()

    def play_join(self, s, op, values):
        self.join()

    def join(self):
        for group in self.groups:
            group.join()
        self.groups = []


def program_of(item):
    player = Player(item)

    def play(s):
        return player(s)

    play.__name__ = "".join(c if c.isalnum() else "_" for c in item["id"])
    return sgl.function(play)


class Server:
    """espalier serve as a child."""

    def __init__(self, model, flags):
        self.port = "30987"
        binary = os.environ.get("ESPALIER_BINARY", str(ROOT / "build" / "espalier"))
        self.child = subprocess.Popen([binary, "serve", model, "--port", self.port, *flags], stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1)
                break
            except OSError:
                time.sleep(0.1)
        self.backend = sgl.RuntimeEndpoint(f"http://127.0.0.1:{self.port}")

    def counts(self):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics").read().decode()
        values = {}
        for line in text.splitlines():
            if not line.startswith("#") and " " in line:
                name, value = line.rsplit(" ", 1)
                values[name.split("{")[0]] = values.get(name.split("{")[0], 0) + float(value)
        names = (name.replace("steps", "engine_steps") for name in COUNTED)
        return tuple(int(values.get(f"espalier_{name}_total", 0)) for name in names)

    def close(self):
        self.child.terminate()
        self.child.wait()


class InProcess:
    def __init__(self, engine):
        self.backend = engine

    def counts(self):
        info = self.backend.endpoint.native.server_info()
        return tuple(info[f"total_{name}"] for name in COUNTED)


def run_all(programs, at_once, begin):
    def one(program):
        state = begin(program)
        state.sync()
        return state

    with ThreadPoolExecutor(min(at_once or len(programs), 256)) as pool:
        return list(pool.map(one, programs))


def said(state):
    error = state.error()
    return str(error) if error else (state.text(), state.ret_value)


def measure(mode, sides, programs, at_once):
    side = sides["http" if mode == "http" else "in process"]
    sgl.flush_cache(side.backend)
    before = side.counts()
    began = time.perf_counter()
    if mode == "compiled":
        begin = lambda program: program.compile(backend=side.backend, temperature=0).run()
    else:
        begin = lambda program: program.run(backend=side.backend, temperature=0)
    states = run_all(programs, at_once, begin)
    seconds = time.perf_counter() - began
    did = [after - was for after, was in zip(side.counts(), before)]
    return {"seconds": seconds, "requests": did[0], "computed": did[1], "generated": did[2], "steps": did[3], "said": [said(s) for s in states]}


def rounds_of(name, a, sides):
    path = pathlib.Path(a.workloads) / f"{name}{'.small' if a.size == 'small' else ''}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        items = [json.loads(line) for line in file][1:]
    programs = [program_of(item) for item in items[: a.items or None]]
    modes = a.modes.split(",")
    runs = {mode: [] for mode in modes}
    for turn in range(a.rounds):
        for mode in modes[turn % len(modes) :] + modes[: turn % len(modes)]:
            runs[mode].append(measure(mode, sides, programs, a.at_once))
    return len(programs), runs


def tell(name, items, runs):
    rows = []
    for mode, measured in runs.items():
        row = {"workload": name, "mode": mode, "items": items, "seconds": statistics.median(m["seconds"] for m in measured)}
        row.update({what: int(statistics.median(m[what] for m in measured)) for what in ("requests", "computed", "generated", "steps")})
        if "interpreter" in runs:
            row["quicker"] = statistics.median(i["seconds"] / m["seconds"] for i, m in zip(runs["interpreter"], measured))
            if mode == "compiled":
                row["same"] = all(i["said"] == m["said"] for i, m in zip(runs["interpreter"], measured))
        rows.append(row)
        print(f"{name:22} {items:4} {mode:12} {row['seconds']:8.2f} s {row['requests']:7} {row['computed']:9} {row['generated']:9} {row['steps']:6}"
              f" {row.get('quicker', float('nan')):6.2f}{'' if row.get('same', True) else '  says something else'}", flush=True)  # fmt: skip
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=WORKLOADS)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=0, help="items under way at once; 0 = all")
    parser.add_argument("--items", type=int, default=0, help="the first so many; 0 = all")
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--modes", default="http,interpreter,compiled")
    parser.add_argument("--workloads", default=str(ROOT.parent / "shared" / "workloads"))
    parser.add_argument("--flag", action="append", default=[], help="of the engine and the server: max_total_tokens=16384")
    parser.add_argument("--json")
    a = parser.parse_args()
    flags = dict(flag.split("=", 1) for flag in a.flag)
    flags = {name: int(value) if value.isdigit() else value for name, value in flags.items()}
    sides = {"in process": InProcess(sgl.Engine(model_path=a.model, **flags))}
    if "http" in a.modes:
        sides["http"] = Server(a.model, [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", str(value))])
    print(f"{'workload':22} {'items':>4} {'mode':12} {'median':>10} {'requests':>7} {'computed':>9} {'generated':>9} {'steps':>6} {'quicker':>6}")
    try:
        rows = [row for name in a.names for row in tell(name, *rounds_of(name, a, sides))]
    finally:
        if "http" in sides:
            sides["http"].close()
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(rows, indent=1))
    return 0 if all(row.get("same", True) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
