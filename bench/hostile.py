#!/usr/bin/env python3
"""Hostile constraints (tests/server/hostile_constraints.py) against a server on which another stream runs: what they cost everybody.

    bench/hostile.py MODEL [--rounds 2] [--at-once 8] [--tokens 400] [--json-closing] [FLAGS OF serve ...]

For each constraint in turn the stream decodes alone, then beside the constraint's request, then beside the same body with the
constraint where nobody reads it (what the request costs without it), each for as long as the constraint took: so a machine that is
quicker or slower for a while is that for all three. Then it decodes beside all constraints, so many at once, and beside loops
outside the server that run only where a processor has nothing else to do (what the machine takes from who leaves it no rest).
At last come constraints that compile at once and then grow: a stream that is constrained itself decodes beside some whose masks take
long, each request with another one; and many whose automata become large follow one another, then come in one request.
Printed: what each was answered and how long that took, the stream's gaps between tokens in each part, and the server's resident
memory before, behind and at its most (VmHWM, which starts when the stream has run alone). The stream's reader goes before everybody
else where the system lets it (root), so that a gap is the server's and not its own wait for a processor. Python's own library is
enough.
"""
import argparse
import concurrent.futures
import json
import multiprocessing
import os
import re
import sys
import time
import urllib.error
import urllib.request

from constrained import ROOT, Server

sys.path.insert(0, os.path.join(ROOT, "tests", "server"))
from hostile_constraints import CONSTRAINTS  # noqa: E402  (the tests' list)


def slow_masks(number):
    return {"ebnf": 'root ::= (((("a"{0,%d}){0,100}){0,100}){0,100}){0,100}' % number}


def large_automaton(number):
    return {"regex": "(?s).*[aeiou].{%d}" % (5000 + number)}


def read_stream(url, tokens, stop, gaps, form):
    """In a process of its own: streams one after another until told to stop; when each token came, and seconds since the one before."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except (AttributeError, PermissionError):
        print("the stream's reader waits for a processor like everybody", flush=True)
    body = {"text": "Once upon a time", "stream": True,
            "sampling_params": {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True, **form}}
    found = []
    while not stop.is_set():
        request = urllib.request.Request(url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as response:
            last = None
            for line in response:
                if line.startswith(b"data: {"):
                    now = time.monotonic()
                    if last is not None:
                        found.append((now, now - last))
                    last = now
                if stop.is_set():
                    break
    gaps.put(found)


def beside_a_stream(server, tokens, work, form={}):
    """What read_stream() finds while work() runs; `form`: the stream's own constraint."""
    stop, gaps = multiprocessing.Event(), multiprocessing.Queue()
    reader = multiprocessing.Process(target=read_stream, args=(server.url, tokens, stop, gaps, form))
    reader.start()
    time.sleep(0.3)
    work()
    stop.set()
    found = gaps.get()
    reader.join()
    return found


def gaps_in(found, spans=((0, float("inf")),)):
    """Those of the tokens that came within the spans; ms, ascending."""
    return sorted(1000 * gap for at, gap in found if any(begin <= at < end for begin, end in spans))


class Spans:
    """Times of things that take turns, by name."""

    def __init__(self):
        self.of = {}

    def spend(self, name, work):
        begin = time.monotonic()
        done = work()
        self.of.setdefault(name, []).append((begin, time.monotonic()))
        return done


def loop_at_rest():
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while True:
        pass


def beside_loops(seconds):
    """Sleeps while every processor has something to do."""
    loops = [multiprocessing.Process(target=loop_at_rest, daemon=True) for _ in range(os.cpu_count() or 1)]
    for loop in loops:
        loop.start()
    time.sleep(seconds)
    for loop in loops:
        loop.terminate()
        loop.join()


def show_gaps(what, gaps):
    at = lambda share: gaps[min(len(gaps) - 1, int(share * len(gaps)))]
    print(f"{what:28} {len(gaps):6} gaps  p50 {at(0.5):6.2f}  p90 {at(0.9):6.2f}  p99 {at(0.99):6.2f}  max {gaps[-1]:7.2f} ms", flush=True)


def memory(server, field):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        return int(re.search(field + r":\s+(\d+) kB", status.read()).group(1)) / 1024


def forget_peak(server):
    with open(f"/proc/{server.process.pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def ask(server, body):
    """Status and seconds."""
    request = urllib.request.Request(server.url + "/generate", body, {"Content-Type": "application/json"})
    begin = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=600) as response:
            response.read()
            status = response.status
    except urllib.error.HTTPError as refusal:
        refusal.read()
        status = refusal.code
    return status, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--espalier", default=os.path.join(ROOT, "build", "espalier"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--json-closing", action="store_true")
    arguments, flags = parser.parse_known_args()
    common = {"temperature": 0, "max_new_tokens": 20}
    long = {"temperature": 1, "max_new_tokens": 100}
    bodies, unconstrained = [], []
    for constraint in CONSTRAINTS:
        more = {"json_closing": True} if arguments.json_closing and "json_schema" in constraint else {}
        bodies.append(json.dumps({"text": "A:", "sampling_params": {**common, **constraint, **more}}).encode())
        unconstrained.append(json.dumps({"text": "A:", "sampling_params": common, "not_read": constraint}).encode())
    server = Server(arguments.espalier, arguments.model, flags)
    try:
        ask(server, json.dumps({"text": "A:", "sampling_params": {**common, "regex": "a"}}).encode())
        beside_a_stream(server, arguments.tokens, lambda: time.sleep(2))
        time.sleep(4)  # idle: the server touches its token pool ahead
        before = memory(server, "VmRSS")
        forget_peak(server)
        spans = Spans()

        def show_memory():
            print(f"memory {memory(server, 'VmRSS') - before:+.0f} MiB, at most {memory(server, 'VmHWM') - before:+.0f}; "
                  f"before {before:.0f}", flush=True)

        def without_constraint(body, status, seconds):
            own = ask(server, body)[1] if status == 200 else 0  # who was refused had no tokens
            time.sleep(max(0, seconds - own))

        def in_turns():
            for constraint, body, free in zip(CONSTRAINTS, bodies, unconstrained):
                status, seconds = spans.spend("beside the constraints", lambda: ask(server, body))
                grown, most = memory(server, "VmRSS") - before, memory(server, "VmHWM") - before
                print(f"{seconds:6.2f} s  {status}  {grown:+6.0f} MiB, at most {most:+6.0f}  {str(constraint)[:70]}", flush=True)
                spans.spend("alone", lambda: time.sleep(seconds))
                spans.spend("beside them, unconstrained", lambda: without_constraint(free, status, seconds))

        def ask_at_once(bodies, workers):
            with concurrent.futures.ThreadPoolExecutor(workers) as pool:
                return list(pool.map(lambda body: ask(server, body), bodies))

        def show_answers(what, found):
            count = {status: sum(status == one for one, _ in found) for status, _ in found}
            print(f"{what}: the slowest took {max(seconds for _, seconds in found):.2f} s; answers {count}", flush=True)

        def at_once():
            found = ask_at_once(bodies, arguments.at_once)
            for constraint, (status, seconds) in zip(CONSTRAINTS, found):
                if seconds > 1:
                    print(f"{seconds:6.2f} s  {status}  {str(constraint)[:70]}", flush=True)
            show_answers(f"{arguments.at_once} at once", found)

        def with_form(form):
            return json.dumps({"text": "Hi", "sampling_params": {**long, **form}}).encode()

        def slow_ones(count):
            show_answers(f"{count} with slow masks", ask_at_once([with_form(slow_masks(10 * count + i)) for i in range(count)], count))

        def large_ones():
            show_answers("20 large automata", [ask(server, with_form(large_automaton(i))) for i in range(20)])
            show_memory()
            show_answers("8 with slow masks", [ask(server, with_form(slow_masks(100 + i))) for i in range(8)])
            show_memory()
            forms = [{**long, "max_new_tokens": 12, **large_automaton(1000 + i)} for i in range(64)]
            show_answers("64 large automata in a request", [ask(server, json.dumps({"text": ["Hi"] * 64, "sampling_params": forms}).encode())])
            show_memory()
        found = []
        for _ in range(arguments.rounds):
            found += beside_a_stream(server, arguments.tokens, in_turns)
            show_memory()
        for name in ("alone", "beside them, unconstrained", "beside the constraints"):
            show_gaps(name, gaps_in(found, spans.of[name]))
        show_gaps(f"beside {arguments.at_once} at once", gaps_in(beside_a_stream(server, arguments.tokens, at_once)))
        show_memory()
        show_gaps("alone again", gaps_in(beside_a_stream(server, arguments.tokens, lambda: time.sleep(5))))
        if hasattr(os, "SCHED_IDLE"):
            show_gaps("beside loops at rest", gaps_in(beside_a_stream(server, arguments.tokens, lambda: beside_loops(5))))
        stream = {"regex": "[a-z ,.]{100000}"}
        for count in (1, 2, 4, 8):
            found = beside_a_stream(server, arguments.tokens, lambda: slow_ones(count), stream)
            show_gaps(f"constrained, beside {count} slow", gaps_in(found))
        large_ones()
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
