#!/usr/bin/env python3
"""The constraint engine by itself over sets of constraints: what compiles, whether its verdicts are right, what compiling
and masks cost (microseconds of CPU time, first visits included), and how many tokens are forced.

    bench/grammar.py --tokenizer FOLDER/tokenizer.json SETS/jsonschemabench_public.jsonl ...

Needs `pip install tokenizers` for the walks. The engine's line protocol is that of `espalier grammar --stdio`, so that
another engine behind the same protocol is measured with --engine "its command".
"""
import argparse
import json
import shlex
import subprocess


class Engine:
    def __init__(self, command, tokenizer, whitespace):
        self.process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask(op="tokenizer", path=tokenizer)
        self.ask(op="options", ws=whitespace)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request, ensure_ascii=False) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def text_of(test, whitespace):
    if "text" in test:
        return test["text"]
    separators = None if whitespace == "flex" else (",", ":")
    return json.dumps(test["data"], ensure_ascii=False, separators=separators)


def percentiles(values, *shares):
    ordered = sorted(values) or [0.0]
    return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in shares] + [ordered[-1]]


def measure(engine, path, whitespace, tokenizer, slowest):
    compiled, refused, wrong, compile_times, mask_times, places, forced = 0, 0, 0, [], [], [], 0
    for line in open(path, encoding="utf-8"):
        item = json.loads(line)
        reply = engine.ask(op="compile", kind=item["kind"], spec=item["spec"])
        compile_times.append(reply.get("cpu_micros", 0.0))
        if not reply["ok"]:
            refused += 1
            continue
        compiled += 1
        for test in item["tests"]:
            text = text_of(test, whitespace)
            verdict = engine.ask(op="match", id=reply["id"], text=text)
            wrong += verdict.get("complete") != test["valid"]
        # Masks on a grammar that has seen nothing yet.
        fresh = engine.ask(op="compile", kind=item["kind"], spec=item["spec"])["id"]
        for test in item["tests"]:
            tokens = tokenizer.encode(text_of(test, whitespace), add_special_tokens=False).ids
            walk = engine.ask(op="walk", id=fresh, tokens=tokens, forced=True)
            mask_times += walk.get("cpu_micros", [])
            places += [(item["id"], tokens, place) for place in range(len(walk.get("cpu_micros", [])))]
            forced += sum(len(found[1]) for found in walk.get("forced", []) if found)
        for number in (reply["id"], fresh):
            engine.ask(op="free", id=number)
    print(f"{path}, {whitespace}: {compiled} compiled, {refused} refused, {wrong} wrong verdicts, {forced} forced tokens")
    print("  compile p50/p99/max us: " + " / ".join(f"{t:.0f}" for t in percentiles(compile_times, 0.5, 0.99)))
    print(f"  {len(mask_times)} masks p50/p90/p99/max us: "
          + " / ".join(f"{t:.2f}" for t in percentiles(mask_times, 0.5, 0.9, 0.99))
          + f"; {sum(t for t in mask_times if t > 100) / 1000:.1f} ms in those above 100 us")
    for micros, (name, tokens, place) in sorted(zip(mask_times, places), key=lambda slow: -slow[0])[:slowest]:
        print(f"  {micros:8.0f} us  {name} behind {place} tokens: {tokenizer.decode(tokens[max(0, place - 8):place])!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", help="JSON lines of constraints")
    parser.add_argument("--tokenizer", required=True, help="a tokenizer.json")
    parser.add_argument("--engine", default="build/espalier grammar --stdio")
    parser.add_argument("--whitespace", choices=["flex", "compact"], default="flex")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="list the N slowest masks of each set")
    options = parser.parse_args()
    from tokenizers import Tokenizer  # pip install tokenizers
    tokenizer = Tokenizer.from_file(options.tokenizer)
    print(options.engine)
    engine = Engine(options.engine, options.tokenizer, options.whitespace)
    for path in options.sets:
        measure(engine, path, options.whitespace, tokenizer, options.slowest)


if __name__ == "__main__":
    main()
