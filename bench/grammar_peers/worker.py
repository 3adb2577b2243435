"""One peer behind the line protocol of `espalier grammar --stdio` (docs/command-line.md), so that one driver speaks to all.

    PYTHON worker.py xgrammar|llguidance|outlines-core|tokens

Run with the Python that the peer is installed in. Beyond the protocol: `empty` times the same stopwatch around a call of the
peer that does nothing, which is what the call from Python adds to every time told here; `encode` gives tokens of texts and how many bytes each has.
`popcount` is left out. A peer is a class with open(path, eos), compile(kind, spec) and matcher(compiled); a matcher has fill,
a call without arguments that writes the mask into `bits`, empty, accept(token), complete() and forced(before).
"""
import importlib
import json
import os
import statistics
import sys
import time

PEERS = {"xgrammar": "xgrammar_peer", "llguidance": "llguidance_peer", "outlines-core": "outlines_peer", "tokens": None}


class Refused(Exception):
    """A constraint that the peer does not take."""


class Stopwatch:
    def __init__(self, cpu=time.thread_time_ns):
        self.cpu = cpu

    def time(self, call):
        """What the call gave, microseconds of the wall and of the processor."""
        wall, cpu, clock = time.perf_counter_ns, self.cpu, time.perf_counter_ns
        cpu_began, wall_began = cpu(), clock()
        result = call()
        wall_ended, cpu_ended = wall(), cpu()
        return result, (wall_ended - wall_began) / 1e3, (cpu_ended - cpu_began) / 1e3


def is_set(bits, token):
    return (int(bits[token // 32]) >> (token % 32)) & 1


class Worker:
    def __init__(self, name):
        self.peer = importlib.import_module(PEERS[name]).Peer() if PEERS[name] else None
        self.compiled, self.next, self.eos, self.tokenizer = {}, 1, -1, None

    def open_tokenizer(self, request):
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(request["path"])
        names = ("<|eot_id|>", "<|im_end|>", "<|endoftext|>", "</s>")
        found = (self.tokenizer.token_to_id(name) for name in names)
        self.eos = request.get("eos", next((id for id in found if id is not None), -1))
        if self.peer:
            self.peer.open(request["path"], self.tokenizer, self.eos)
        return {"vocab": self.tokenizer.get_vocab_size(), "eos": self.eos}

    def set_options(self, request):
        self.peer.flexible, self.peer.strict = request.get("ws", "flex") == "flex", request.get("strict", False)
        return {}

    def compile(self, request):
        def attempt():
            try:
                return self.peer.compile(request["kind"], request["spec"]), None
            except Exception as error:  # every peer has its own kinds, tvm_ffi's and pyo3's among them
                return None, f"{type(error).__name__}: {error}"[:300]
        (compiled, error), wall, cpu = Stopwatch(time.process_time_ns).time(attempt)
        reply = {"ok": error is None, "micros": wall, "cpu_micros": cpu}
        if error is not None:
            return reply | {"error": error}
        self.compiled[self.next] = compiled
        self.next += 1
        return reply | {"id": self.next - 1}

    def walk(self, request):
        compiled, tokens = self.compiled[request["id"]], request["tokens"]
        reply = self.masks(self.peer.matcher(compiled), tokens)
        if request.get("forced"):
            read = len(reply["allowed"]) - (0 if all(reply["allowed"]) else 1)
            reply["forced"] = self.forced(self.peer.matcher(compiled), tokens[:read])
        return reply

    def masks(self, matcher, tokens):
        allowed, walls, cpus, watch = [], [], [], Stopwatch()
        for token in tokens:
            _, wall, cpu = watch.time(matcher.fill)
            walls.append(wall)
            cpus.append(cpu)
            allowed.append(is_set(matcher.bits, token))
            if not allowed[-1]:
                break
            matcher.accept(token)
        return {"allowed": allowed, "micros": walls, "cpu_micros": cpus, "complete": bool(all(allowed) and matcher.complete())}

    def forced(self, matcher, tokens):
        """As our own walk has it, without the bytes: 0, or [None, tokens]."""
        found = []
        for i, token in enumerate(tokens):
            forced = matcher.forced(tokens[:i])
            found.append([None, forced] if forced else 0)
            matcher.accept(token)
        return found

    def match(self, request):
        matcher = self.peer.matcher(self.compiled[request["id"]])
        try:
            for token in self.tokenizer.encode(request["text"], add_special_tokens=False).ids:
                matcher.accept(token)
        except Exception:  # every peer has its own kinds
            return {"accepted": False, "complete": False}
        return {"accepted": True, "complete": bool(matcher.complete())}

    def empty(self, request):
        matcher, watch = self.peer.matcher(self.compiled[request["id"]]), Stopwatch()
        times = [watch.time(matcher.empty)[1:] for _ in range(1001)]
        return {"micros": statistics.median(wall for wall, _ in times), "cpu_micros": statistics.median(cpu for _, cpu in times)}

    def encode(self, request):
        found = self.tokenizer.encode_batch(request["texts"], add_special_tokens=False)
        return {"tokens": [text.ids for text in found], "bytes": [[len(token) for token in text.tokens] for text in found]}  # a letter a byte

    def free(self, request):
        self.compiled.pop(request["id"], None)
        return {}

    def answer(self, request):
        operations = {"tokenizer": self.open_tokenizer, "options": self.set_options, "compile": self.compile, "walk": self.walk, "match": self.match,
                      "empty": self.empty, "encode": self.encode, "free": self.free}
        try:
            return {"ok": True} | operations[request["op"]](request)
        except Exception as error:
            return {"ok": False, "error": f"{type(error).__name__}: {error}"[:300]}


def main():
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not stand among the replies
    worker = Worker(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "quit":
            break
        replies.write(json.dumps(worker.answer(request)) + "\n")
        replies.flush()


if __name__ == "__main__":
    sys.modules["worker"] = sys.modules["__main__"]  # so that the peers raise the same Refused
    main()
