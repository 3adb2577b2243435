"""llguidance: one matcher a constraint, reset before every text, so that its lexer keeps what it has found."""
import functools
import json

import numpy
from llguidance import LLMatcher, LLTokenizer

from worker import Refused


class Matcher:
    def __init__(self, matcher, bits):
        matcher.reset()
        self.matcher, self.bits = matcher, bits
        self.fill = functools.partial(matcher.unsafe_compute_mask_ptr, bits.ctypes.data, bits.nbytes)
        self.empty = matcher.is_stopped

    def accept(self, token):
        if not self.matcher.consume_token(token):
            raise Refused(self.matcher.get_error())

    def complete(self):
        return self.matcher.is_accepting()

    def forced(self, before):
        return self.matcher.compute_ff_tokens()


class Peer:
    flexible, strict = False, False

    def open(self, path, tokenizer, eos):
        self.tokenizer = LLTokenizer(path, eos_token=eos)
        self.bits = numpy.zeros((self.tokenizer.vocab_size + 31) // 32, dtype=numpy.int32)

    def grammar(self, kind, spec):
        if kind == "json_schema":
            spaces = {"whitespace_flexible": self.flexible, "item_separator": ",", "key_separator": ":"}
            return LLMatcher.grammar_from_json_schema(json.dumps(spec, ensure_ascii=False), defaults=spaces)
        if kind == "regex":
            return LLMatcher.grammar_from_regex(spec)
        if kind == "lark":
            return LLMatcher.grammar_from_lark(spec)
        raise Refused(f"kind {kind} is not measured")

    def compile(self, kind, spec):
        matcher = LLMatcher(self.tokenizer, self.grammar(kind, spec), log_level=0)
        if matcher.is_error():
            raise Refused(matcher.get_error())
        return matcher

    def matcher(self, compiled):
        return Matcher(compiled, self.bits)
