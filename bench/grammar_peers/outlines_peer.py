"""outlines-core: a schema becomes a regular expression, and that an index of all its states over the vocabulary. It forces nothing."""
import functools
import json

import numpy
from outlines_core import Guide, Index, Vocabulary, json_schema

from worker import Refused


def byte_of_character():
    """The inverse of the byte-level alphabet: printable bytes are themselves, the others stand behind U+0100 in their order."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


class Matcher:
    def __init__(self, guide, bits):
        self.guide, self.bits = guide, bits
        self.fill = functools.partial(guide.write_mask_into, bits.ctypes.data, bits.size, 4)
        self.empty = guide.get_state

    def accept(self, token):
        self.guide.advance(token, return_tokens=False)

    def complete(self):
        return self.guide.is_finished()

    def forced(self, before):
        return []


class Peer:
    flexible, strict = False, False

    def open(self, path, tokenizer, eos):
        with open(path, encoding="utf-8") as file:
            vocabulary = json.load(file)["model"]["vocab"]
        bytes_of, ids = byte_of_character(), {}
        for text, token in vocabulary.items():
            ids.setdefault(bytes(bytes_of[character] for character in text), []).append(token)
        self.vocabulary = Vocabulary(eos, ids)
        self.bits = numpy.zeros((tokenizer.get_vocab_size() + 31) // 32, dtype=numpy.int32)

    def compile(self, kind, spec):
        if kind == "json_schema":
            spaces = r"[ \t\n\r]*" if self.flexible else ""
            spec = json_schema.build_regex_from_schema(json.dumps(spec, ensure_ascii=False), whitespace_pattern=spaces)
        elif kind != "regex":
            raise Refused(f"kind {kind} is not measured")
        return Index(spec, self.vocabulary)

    def matcher(self, compiled):
        return Matcher(Guide(compiled), self.bits)
