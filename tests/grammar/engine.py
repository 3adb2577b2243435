"""Starts the built `espalier grammar --stdio` and talks to it, with a tokenizer whose tokens are all known.

The tokenizer is made here: every byte and some two hundred pieces of JSON and code, so that a mask can be checked against all
tokens one at a time. ESPALIER_SEED repeats a random test.
"""
import json
import os
import pathlib
import random
import select
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))
from harness import BINARY, CRASHES, SOURCE, expect_no_report, sanitized  # noqa: E402: behind the path

TOKENIZER = SOURCE / "tests" / "data" / "goldens" / "tokenizers" / "bytelevel-split" / "tokenizer.json"
SLOWER = 10 if sanitized() else 1  # by how much a sanitizer stretches what it runs, at least
ANSWER_SECONDS = 10 * SLOWER       # the protocol's limit
SEED = int(os.environ.get("ESPALIER_SEED") or random.randrange(2 ** 32))
print(f"ESPALIER_SEED={SEED}", flush=True)

WORDS = [*r"""{" {" } "}, "} "}] }, {"a": "a": "b": "c": "key": ": :" " , " ," ,{ },{" [[ ]] [] {} [1, ], [" ["a", true false null true, null} -1 -0
0.5 10 12 100 .5 .0 e1 e+ E- 1. -- a" aa" ab" \u \u00 \n \" \\ \ud8 ab abc aa bb ba xyz the an ing foo bar yes no maybe é ä ß 日本 😀 été
::= -> => (( )) () && == 2024 19 0x ff""".split(), '": ', '", "', '": "', '", ', "  ", "   ", "\n", "\n  ", ": ", ", ", " {", ' "']


def byte_letters():
    """The letters by which byte-level tokenizers write bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    for byte in range(256):
        letters.setdefault(byte, chr(256 + len(letters) - len(plain)))
    return letters


def make_tokenizer(path):
    """Writes a byte-level BPE tokenizer and returns the bytes of its tokens; None for special ones."""
    letters = byte_letters()
    vocabulary = [bytes([byte]) for byte in range(256)]
    known, merges = set(vocabulary), []
    for word in dict.fromkeys(WORDS):
        data = word.encode()
        for end in range(2, len(data) + 1):
            if data[:end] not in known:
                known.add(data[:end])
                vocabulary.append(data[:end])
                merges.append([data[:end - 1], data[end - 1:end]])

    def spelled(data):
        return "".join(letters[byte] for byte in data)
    special = ["<|endoftext|>", "<|tool|>"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    path.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
        "decoder": byte_level,
        "added_tokens": [{"id": len(vocabulary) + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, text in enumerate(special)],
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {spelled(data): i for i, data in enumerate(vocabulary)},
                  "merges": [[spelled(left), spelled(right)] for left, right in merges]}}, ensure_ascii=False))
    return vocabulary + [None] * len(special)


class Gone(AssertionError):
    """The process died or did not answer in time."""


class Engine:
    """A running `espalier grammar --stdio`; use as a context manager."""

    def __init__(self, tokenizer=TOKENIZER):
        self.log = tempfile.TemporaryFile()
        # What is freed is overwritten (by glibc), so that whoever reads it all the same is found out in any build.
        self.process = subprocess.Popen([BINARY, "grammar", "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, bufsize=0,
                                        env={**os.environ, "MALLOC_PERTURB_": "165"})
        self.unread = b""
        self.opened = self.ask(op="tokenizer", path=str(tokenizer)) if tokenizer else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """It must not have crashed, and no sanitizer have reported."""
        if self.process.poll() is None:
            self.process.kill()
        code = self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.seek(0)
        said = self.log.read().decode(errors="replace")
        self.log.close()
        expect_no_report(said)
        if -code in CRASHES:
            raise AssertionError(f"the process crashed with signal {-code}: {said}")

    def line(self, seconds=ANSWER_SECONDS):
        end = time.monotonic() + seconds
        while b"\n" not in self.unread:
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise Gone(f"no answer in {seconds} s")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise Gone(f"the process ended with {self.process.wait(10)}")
            self.unread += data
        line, _, self.unread = self.unread.partition(b"\n")
        return json.loads(line)

    def send(self, data):
        try:
            while data:
                data = data[self.process.stdin.write(data):]
        except BrokenPipeError:
            raise Gone(f"the process ended with {self.process.wait(10)}") from None

    def ask(self, **request):
        return self.ask_all([request])[0]

    def ask_all(self, requests):
        """As many at a time as the pipe holds, so that neither side waits for the other."""
        answers, batch = [], b""
        lines = [(request if isinstance(request, str) else json.dumps(request, ensure_ascii=False)).encode() + b"\n" for request in requests]
        for place, line in enumerate(lines):
            batch += line
            if place + 1 == len(lines) or len(batch) + len(lines[place + 1]) > 60000:
                self.send(batch)
                answers += [self.line() for _ in range(place + 1 - len(answers))]
                batch = b""
        return answers

    def compile(self, kind, spec):
        return self.ask(op="compile", kind=kind, spec=spec)

    def grammar(self, kind, spec):
        reply = self.compile(kind, spec)
        if not reply["ok"]:
            raise AssertionError(f"{kind} {spec!r} was refused: {reply['error']}")
        return reply["id"]

    def match(self, grammar, text):
        reply = self.ask(op="match", id=grammar, text=text)
        if not reply["ok"]:
            raise AssertionError(f"{text!r}: {reply['error']}")
        return reply["complete"]

    def walk(self, grammar, tokens, **more):
        reply = self.ask(op="walk", id=grammar, tokens=list(tokens), **more)
        if not reply["ok"]:
            raise AssertionError(reply["error"])
        return reply

    def free(self, grammar):
        self.ask(op="free", id=grammar)


class EngineCase(unittest.TestCase):
    """Tests that share one process with the tokenizer made here."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        path = pathlib.Path(cls.folder.name) / "tokenizer.json"
        cls.vocabulary = make_tokenizer(path)
        cls.engine = Engine(path)
        cls.addClassCleanup(cls.engine.close)
        cls.engine.ask(op="options", ws="flex")
        cls.eos = cls.vocabulary.index(None)
        cls.random = random.Random(SEED)

    def cut(self, text):
        """Some tokenisation of the text: at every place a random token that fits."""
        data = text.encode() if isinstance(text, str) else text
        tokens = []
        while data:
            fitting = [i for i, piece in enumerate(self.vocabulary) if piece is not None and data.startswith(piece)]
            tokens.append(self.random.choice(fitting))
            data = data[len(self.vocabulary[tokens[-1]]):]
        return tokens
