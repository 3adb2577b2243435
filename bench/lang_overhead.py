#!/usr/bin/env python3
"""What one primitive of the Python language costs beside the model: microseconds on a model that costs nothing. And
what a batch of 1,000 programs with 8 forks each takes: seconds, and MiB over the start at most.

    PYTHONPATH=build/release/python bench/lang_overhead.py [--json FILE]

The model is one layer with random weights (--load-format dummy), so what is measured is the language, its conversions
and one step of an engine that has nothing to compute. For the primitives that only queue the figure is the whole cost; for
a generation that is read the engine's own time (e2e_latency in its meta info) is told apart. The least of several
rounds counts: other programs on the machine only ever add. src/lang/primitives_bench.cpp and batch_bench.cpp are the
same of the language in C++.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile
import time

import espalier as sgl

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "tests" / "data" / "goldens" / "models" / "llama3-tied-gqa"
ROUNDS = 7


def make_model(folder):
    config = json.loads((GOLDEN / "config.json").read_text())
    config.update(num_hidden_layers=1, hidden_size=32, intermediate_size=32, num_attention_heads=2, num_key_value_heads=1,
                  max_position_embeddings=65536, rope_scaling=None)  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(GOLDEN / name, folder / name)
    return str(folder)


def microseconds(work, count):
    """Of one of `count` that work(count) does."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work(count)
        best = min(best, time.perf_counter() - began)
    return 1e6 * best / count


def in_state(body):
    """body(s, count) inside one program."""

    def work(count):
        sgl.function(lambda s: body(s, count)).run().sync()

    return work


def constants(s, count):
    for _ in range(count):
        s += "a"


def roles(s, count):
    for _ in range(count):
        s += sgl.user("a")


def nodes(_, count):
    for _ in range(count):
        sgl.gen("x", max_tokens=1, temperature=0, stop="\n")


def variables(s, count):
    s["x"] = "a"
    for _ in range(count):
        s["x"]


def scopes(s, count):
    for _ in range(count):
        with s.var_scope("x"):
            s += "a"


def forks(s, count):
    for _ in range(count):
        s.fork(1)


ENGINE_SECONDS = []


def gens(s, count):
    s += "a"
    spent = 0.0
    for _ in range(count):
        s += sgl.gen("x", max_tokens=1, ignore_eos=True, temperature=0)
        s["x"]
        spent += s.get_meta_info("x")["e2e_latency"]
    ENGINE_SECONDS.append(spent / count)


@sgl.function
def one_text(s, i=0):
    s += "a"


def programs(count):
    for _ in range(count):
        one_text.run()


def batch(count):
    one_text.run_batch([{"i": i} for i in range(count)], num_threads=4)


@sgl.function
def branches(s, x):
    s += "Question number " + x + ": what is to be thought of it?"
    forks = s.fork(8)
    forks += lambda i: f" Branch {i}:" + sgl.gen("a", max_tokens=4, ignore_eos=True, temperature=0)
    forks.join()
    s += " In the end:" + sgl.gen("end", max_tokens=4, ignore_eos=True, temperature=0)


def kib(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))


def take(run):
    """Seconds, and MiB over the start at most."""
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # the highest begins anew
    before, began = kib("VmRSS"), time.perf_counter()
    states = run()
    seconds = time.perf_counter() - began
    failed = sum(state.error() is not None for state in states)
    return {"seconds": seconds, "MiB": (kib("VmHWM") - before) / 1024, "failed": failed}


def big_batches(engine):
    items = [{"x": str(i)} for i in range(1000)]
    compiled = branches.compile(temperature=0)
    batches = {
        "1,000 programs with 8 forks": lambda: branches.run_batch(items),
        "the same compiled": lambda: compiled.run_batch(items),
        "compiled, all of them at once": lambda: compiled.run_batch(items, num_threads=1000),
    }
    taken = {}
    for name, batch in batches.items():
        sgl.flush_cache(engine)
        taken[name] = take(batch)
    return taken


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--json", help="also write the figures to this file")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        engine = sgl.Engine(make_model(pathlib.Path(folder)), load_format="dummy", threads=1)
        sgl.set_default_backend(engine)

        def bare(count):
            for _ in range(count):
                engine.generate("a", {"max_new_tokens": 1, "ignore_eos": True, "temperature": 0})

        figures = {
            "append text": microseconds(in_state(constants), 2000),
            "append a user's turn": microseconds(in_state(roles), 1000),
            "make a gen": microseconds(in_state(nodes), 2000),
            "read a variable": microseconds(in_state(variables), 5000),
            "scope with text": microseconds(in_state(scopes), 1000),
            "fork of one": microseconds(in_state(forks), 500),
            "program with one text": microseconds(programs, 500),
            "program in a batch": microseconds(batch, 500),
            "gen of one token, read": microseconds(in_state(gens), 200),
            "Engine.generate of one token": microseconds(bare, 200),
        }
        taken = big_batches(engine)
        engine.shutdown()
    whole, own = figures["gen of one token, read"], 1e6 * min(ENGINE_SECONDS)
    figures["   of it the engine's own"] = own
    figures["   beside it"] = whole - own
    for name, figure in figures.items():
        print(f"{name:40} {figure:9.1f} us")
    for name, took in taken.items():
        print(f"{name:40} {took['seconds']:9.2f} s {took['MiB']:9.1f} MiB {took['failed']} failed")
    if chosen.json:
        pathlib.Path(chosen.json).write_text(json.dumps({"us": figures, "batches": taken}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
