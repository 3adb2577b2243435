#!/usr/bin/env python3
"""The multi-dimensional judge in the language beside the same judge written with OpenAI's client: code and time.

    PYTHONPATH=build/release/python build/venv/bin/python bench/judge_beside_client.py [--base-url URL] [--rounds 9]

Without --base-url it starts build/espalier on the default model. Both ask the same server, in alternation (who begins
changes each round), each from an empty prefix cache over connections that are open already; the two must agree in every
output. Printed are the medians of wall-clock, the median of the ratios within a round, and what each cost the server.

Lines of code: of the files as they stand, without blank lines, comments and docstrings; "program" is the functions but
main(), without what is the same in both: imports, constants, printing. Statements do not depend on how lines are
broken: each is one, however long, as is each `def`, `if`, `for`, `with`, `else`.
"""

import argparse
import ast
import asyncio
import contextlib
import io
import os
import pathlib
import re
import statistics
import sys
import time
import tokenize
import urllib.request

from restart import start  # it lies beside this file

ROOT = pathlib.Path(__file__).resolve().parents[1]
OURS = ROOT / "examples" / "python" / "multi_dimensional_judge.py"
THEIRS = ROOT / "bench" / "judge_openai_client.py"
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
COUNTERS = {"requests": "http_requests", "computed tokens": "computed_tokens", "output tokens": "generated_tokens"}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTION)) and ast.get_docstring(node) is not None:
            yield node, node.body[0]


def code_lines(source):
    """The numbers of the lines that hold code."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for _, text in docstrings(ast.parse(source)):
        lines.difference_update(range(text.lineno, text.end_lineno + 1))
    return lines


def program(tree):
    """The functions, but main."""
    return [node for node in tree.body if isinstance(node, FUNCTION) and node.name != "main"]


def count(source):
    """How much code a file is, in each way of counting."""
    tree, lines = ast.parse(source), code_lines(source)
    inside = set()
    for node in program(tree):
        first = min([node.lineno] + [decorator.lineno for decorator in node.decorator_list])
        inside.update(range(first, node.end_lineno + 1))
    for node, _ in list(docstrings(tree)):
        node.body = node.body[1:] or [ast.Pass()]
    statements = sum(len(ast.unparse(node).splitlines()) for node in program(tree))
    return {"lines, program": len(lines & inside), "lines, whole file": len(lines), "statements, program": statements}


@contextlib.contextmanager
def server(model):
    """The address of a server that is started here."""
    process, url = start([model, "--no-cache-disk"])
    try:
        yield url
    finally:
        process.terminate()
        process.wait()


def ask(url, method="GET"):
    with urllib.request.urlopen(urllib.request.Request(url, method=method)) as reply:
        return reply.read().decode()


class Judges:
    """Both ways to the same server: by name, what one run tells."""

    def __init__(self, url):
        import espalier as sgl
        import openai

        for folder in (OURS.parent, THEIRS.parent):
            sys.path.insert(0, str(folder))
        import judge_openai_client
        import multi_dimensional_judge

        self._ours, self._theirs = multi_dimensional_judge, judge_openai_client
        self._endpoint = sgl.RuntimeEndpoint(url)
        self._client = openai.AsyncOpenAI(base_url=url + "/v1", api_key=os.environ.get("OPENAI_API_KEY", "none"))
        self._loop = asyncio.new_event_loop()
        self.runs = {"espalier": self.ours, "openai": self.theirs}

    def ours(self):
        state = self._ours.judge.run(self._ours.ESSAY, temperature=0, backend=self._endpoint)
        if state["kind"] != "essay":
            return {"kind": state["kind"]}
        return {name: state[name] for name in ("kind", "judgement", "score", "report")}

    def theirs(self):
        return self._loop.run_until_complete(self._theirs.judge(self._client, self._theirs.ESSAY))


def counters(url):
    text = ask(url + "/metrics")
    return {
        name: sum(float(value) for value in re.findall(rf"^espalier_{metric}_total\S* (\S+)$", text, re.M))
        for name, metric in COUNTERS.items()
    }


def measure(url, run):
    """Seconds, what it told, and what it cost the server."""
    ask(url + "/flush_cache", "POST")
    before = counters(url)
    began = time.perf_counter()
    told = run()
    seconds = time.perf_counter() - began
    cost = {name: value - before[name] for name, value in counters(url).items()}
    cost["requests"] -= 1  # for the counters
    return seconds, told, cost


def print_code():
    ours, theirs = count(OURS.read_text()), count(THEIRS.read_text())
    print(f"{'code':24} {'espalier':>10} {'openai':>10} {'ratio':>7}")
    for way in ours:
        print(f"{way:24} {ours[way]:10} {theirs[way]:10} {theirs[way] / ours[way]:7.2f}")


def print_time(url, rounds):
    judges = Judges(url)
    for run in judges.runs.values():  # connections, first use of every page
        run()
    seen = {name: [] for name in judges.runs}
    for i in range(rounds):
        for name in list(judges.runs)[:: 1 if i % 2 == 0 else -1]:
            seen[name].append(measure(url, judges.runs[name]))
    told = {name: results[0][1] for name, results in seen.items()}
    for name, results in seen.items():
        if any(result[1] != told["espalier"] for result in results):
            sys.exit(f"the outputs differ: {told['espalier']} and, of {name}, {[result[1] for result in results]}")
    print(f"\n{'each run':24} {'espalier':>10} {'openai':>10} {'ratio':>7}")
    medians = [statistics.median(result[0] for result in results) for results in seen.values()]
    ratio = statistics.median(theirs[0] / ours[0] for ours, theirs in zip(seen["espalier"], seen["openai"]))
    print(f"{'seconds':24} {medians[0]:10.3f} {medians[1]:10.3f} {ratio:7.2f}")
    for what in COUNTERS:
        ours, theirs = (statistics.median(result[2][what] for result in results) for results in seen.values())
        print(f"{what:24} {ours:10.0f} {theirs:10.0f} {theirs / ours:7.2f}")
    print(f"\nthe same outputs in {rounds} rounds: {told['espalier']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", help="of a running server; default: one is started")
    parser.add_argument("--model", default="smollm2-135m", help="of the server that is started")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print_code()
    sys.stdout.flush()
    with contextlib.nullcontext(options.base_url) if options.base_url else server(options.model) as url:
        print_time(url.rstrip("/"), options.rounds)


if __name__ == "__main__":
    main()
