#!/usr/bin/env python3
"""The constraint engine beside xgrammar, llguidance and outlines-core: the same constraints and texts, one thread each, taking turns.

    bench/grammar_beside.py --tokenizer FOLDER/tokenizer.json --install                 # once: the peers into --peers
    bench/grammar_beside.py --tokenizer FOLDER/tokenizer.json [--limit 40 --peer-seconds 30] [--out FILE.json] [SETS ...]

SETS are files of ../shared/schemas; without any, jsonschemabench_public and regex_public. Every engine is a process that speaks the
protocol of `espalier grammar --stdio`; constraints come in an order shuffled by --seed, every second one to the engines the other way
round. For each: compile; then every text of it, cut into tokens by the model's tokenizer, is walked twice: a mask before each
token, the token looked up in it and read. The first walk has first visits in it, the second is warm. Then forced tokens, as generation
would meet them: what is forced is jumped over, and counts where it is what the tokenizer wrote. Times are taken inside the engine around
its own call; the time of an empty call is printed beside them. Default clock: CPU time, for machines are shared.

An engine whose answer takes too long (--compile-seconds, --walk-seconds) or whose memory grows beyond --memory is ended and
started anew, and it counts as over a limit; one that has used --peer-seconds in a set is asked no more in it, and its figures are
over what it reached. Pairs are over the constraints that both compile. A peer that is not installed is named and left out.
"""
import argparse
import datetime
import json
import os
import random
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from grammar_peers import figures, table, witnesses  # noqa: E402: they lie beside this file
from grammar_peers.engines import Engine, Failed  # noqa: E402
from grammar_peers.trial import attempt  # noqa: E402
from peers import machine  # noqa: E402

ROOT = os.path.normpath(os.path.join(HERE, ".."))
PACKAGES = {"xgrammar": "xgrammar==0.2.8", "llguidance": "llguidance==1.9.1", "outlines-core": "outlines-core==0.2.14"}
SETS = ("jsonschemabench_public", "regex_public")


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=[os.path.join(ROOT, "..", "shared", "schemas", f"{name}.jsonl") for name in SETS])
    parser.add_argument("--tokenizer", required=True, help="a tokenizer.json (byte-level BPE)")
    parser.add_argument("--espalier", default=os.path.join(ROOT, "build", "espalier"), metavar="PROGRAM")
    parser.add_argument("--peers", default=os.path.join(ROOT, "build", "venv-grammar-peers"), metavar="DIR", help="Python environment")
    parser.add_argument("--only", default=",".join(PACKAGES), help="peers, by commas")
    parser.add_argument("--install", action="store_true", help="make the environment with the peers, each by itself, first")
    parser.add_argument("--whitespace", default="flex", help="flex, compact, or both by a comma")
    parser.add_argument("--strict", action="store_true", help="objects closed where they list their members (llguidance cannot)")
    parser.add_argument("--limit", type=int, help="constraints of each set")
    parser.add_argument("--seed", type=int, default=1, help="of the order, and so of the choice with --limit")
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu")
    parser.add_argument("--compile-seconds", type=float, default=10)
    parser.add_argument("--walk-seconds", type=float, default=20)
    parser.add_argument("--peer-seconds", type=float, default=900, help="of each peer in each set")
    parser.add_argument("--memory", type=float, default=4096, help="MiB of one engine")
    parser.add_argument("--shortfalls", type=int, default=0, metavar="N", help="list the N items of each pair in which we force fewest beside the peer")
    parser.add_argument("--witnesses", action="store_true", help="of schemas: does the schema force what is forced, or is there another valid "
                        "document that goes on otherwise, which the engine refuses? Needs jsonschema (build/venv has it); minutes")
    parser.add_argument("--out", metavar="FILE", help="all figures as JSON, with the slowest items and those with wrong verdicts")
    return parser.parse_args(words)


def install(folder, names):
    """Each by itself: one that cannot be had leaves the others."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    for package in ("tokenizers", "numpy", *(PACKAGES[name] for name in names)):
        subprocess.run([f"{folder}/bin/pip", "install", "--quiet", package], check=False)


def engines_of(options):
    """Ourselves, the peers that start, and who cuts texts into tokens."""
    limits = {"seconds_to_start": 180, "mebibytes": options.memory}
    opening = [{"op": "tokenizer", "path": os.path.abspath(options.tokenizer)}]
    python, worker = f"{options.peers}/bin/python", os.path.join(HERE, "grammar_peers", "worker.py")
    ours = Engine(table.OURS, f"{options.espalier} grammar --stdio", opening, limits)
    cutter = Engine("tokens", f"{python} {worker} tokens", opening, limits)
    engines = [ours]
    for name in filter(None, options.only.split(",")):
        engine = Engine(name, f"{python} {worker} {name}", opening, limits)
        try:
            engine.start()
            engines.append(engine)
        except (Failed, OSError) as reason:
            print(f"left out: {name}: {reason}", flush=True)
    return engines, cutter


def read_items(path, options, whitespace, cutter):
    """The constraints in the order of the run, their texts with tokens."""
    with open(path, encoding="utf-8") as file:
        items = [json.loads(line) for line in file]
    random.Random(options.seed).shuffle(items)
    separators = None if whitespace == "flex" else (",", ":")
    for item in items[:options.limit]:
        texts = [test["text"] if "text" in test else json.dumps(test["data"], ensure_ascii=False, separators=separators)
                 for test in item["tests"]]
        cut = cutter.ask(60, op="encode", texts=texts)
        item["tests"] = [{"valid": test["valid"], "tokens": own, "document": test.get("data"), "bytes": lengths}
                         for test, own, lengths in zip(item["tests"], cut["tokens"], cut["bytes"])]
    return items[:options.limit]


def play(items, engines, options, whitespace):
    """Trials by engine; None where it was not asked any more."""
    limits = {"compile_seconds": options.compile_seconds, "walk_seconds": options.walk_seconds}
    clock = "cpu_micros" if options.clock == "cpu" else "micros"
    trials = {engine.name: [] for engine in engines}
    for engine in engines:
        engine.opening = [engine.opening[0], {"op": "options", "ws": whitespace, "strict": options.strict}]
        engine.stop()
        engine.start()
        engine.spent = engine.growth = 0.0
    for number, item in enumerate(items):
        for engine in engines if number % 2 == 0 else engines[::-1]:
            done = engine.name != table.OURS and engine.spent > options.peer_seconds
            trials[engine.name].append(None if done else attempt(engine, item, clock, limits))
        if number % 20 == 19:
            spent = ", ".join(f"{engine.name} {engine.spent:.0f} s" for engine in engines)
            print(f"  {number + 1} of {len(items)}: {spent}", file=sys.stderr, flush=True)
    return trials


def empty_call(engine, clock):
    """Microseconds that the stopwatch shows around a call that does nothing."""
    try:
        grammar = engine.ask(60, op="compile", kind="regex", spec="ab")["id"]
        return engine.ask(60, op="empty", id=grammar)["cpu_micros" if clock == "cpu" else "micros"]
    except (Failed, KeyError):
        return None


def refuser(engine, item, seconds):
    """Whether the engine refuses a text."""
    grammar = engine.ask(seconds, op="compile", kind=item["kind"], spec=item["spec"])["id"]
    return lambda text: not engine.ask(seconds, op="match", id=grammar, text=text).get("complete")


def judge_forced(items, mine, its, ours, peer, options, whitespace):
    """Of all tokens that we or the peer force, in the texts that both accept: whether another document has something else there."""
    writing, total, alone = witnesses.Writing(whitespace == "compact"), {}, []
    both = figures.both_compiled(items, mine, its)
    for number, (item, a, b) in enumerate(both):
        texts = [(test["document"], witnesses.spans(writing.text(test["document"]), test["bytes"]), set(own.forced), set(other.forced))
                 for test, own, other in zip(item["tests"], a.walks, b.walks) if own.valid and own.accepted and other.accepted]
        refuses = {"ours": refuser(ours, item, options.walk_seconds), "theirs": refuser(peer, item, options.walk_seconds)}
        counts, more = witnesses.judge(item, texts, writing, lambda who, text: refuses[who](text))
        total = {key: total.get(key, 0) + counts.get(key, 0) for key in {**total, **counts}}
        alone += more
        if number % 20 == 19:
            print(f"  witnesses: {number + 1} of {len(both)}", file=sys.stderr, flush=True)
    return {"counts": [[*key, count] for key, count in sorted(total.items())], "alone": alone}


def measure(path, whitespace, engines, cutter, options):
    items = read_items(path, options, whitespace, cutter)
    trials = play(items, engines, options, whitespace)
    by_engine = {e.name: figures.of_engine(items, trials[e.name], e.growth) | {"empty_us": empty_call(e, options.clock)} for e in engines}
    pairs = {e.name: figures.of_pair(items, trials[table.OURS], trials[e.name]) for e in engines if e.name != table.OURS}
    name = os.path.basename(path).removesuffix(".jsonl")
    if options.witnesses and "schema" in name:
        for engine in engines[1:]:
            pairs[engine.name]["forced_by_schema"] = judge_forced(items, trials[table.OURS], trials[engine.name], engines[0], engine, options,
                                                                  whitespace)
    print(f"\n{name}, {whitespace}{', strict' if options.strict else ''}: {len(items)} constraints, {options.clock} time\n", flush=True)
    short = ["", *table.short_rows(pairs, options.shortfalls)] if options.shortfalls else []
    print("\n".join([*table.engine_rows(by_engine), "", *table.pair_rows(pairs), *short, *table.witness_rows(pairs)]), flush=True)
    return {"set": name, "whitespace": whitespace, "engines": by_engine, "pairs": pairs}


def main():
    options = arguments(sys.argv[1:])
    if options.install:
        install(options.peers, filter(None, options.only.split(",")))
    began, start = datetime.datetime.now().isoformat(timespec="seconds"), time.monotonic()
    load, sections = [os.getloadavg()[0]], []
    engines, cutter = engines_of(options)
    try:
        for path in options.sets:
            for whitespace in options.whitespace.split(",") if "schema" in os.path.basename(path) else ["flex"]:
                sections.append(measure(path, whitespace, engines, cutter, options))
    finally:
        for engine in (*engines, cutter):
            engine.stop()
    load.append(os.getloadavg()[0])
    told = ", ".join(f"{name} {value}" for name, value in machine.describe().items())
    print(f"\n{told}; {time.monotonic() - start:.0f} s; load average {load[0]:.1f} at the start, {load[1]:.1f} at the end")
    if options.out:
        with open(options.out, "w") as file:
            json.dump({"began": began, "machine": machine.describe(), "load": load, "options": vars(options), "sections": sections},
                      file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
