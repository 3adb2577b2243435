"""xgrammar: one thread, its own cache of compiled rules on as by default. Jump-forward text is cut into tokens behind the last
few tokens, and given only where these stay as they are."""
import functools
import json

import numpy
import xgrammar
from transformers import PreTrainedTokenizerFast

from worker import Refused

CONTEXT = 4  # tokens


class Matcher:
    def __init__(self, peer, compiled):
        self.peer, self.matcher, self.bits = peer, xgrammar.GrammarMatcher(compiled), peer.bits[0]
        self.fill = functools.partial(self.matcher.fill_next_token_bitmask, peer.bits)
        self.empty = self.matcher.is_terminated

    def accept(self, token):
        if not self.matcher.accept_token(token):
            raise Refused(f"token {token} is in the mask and is not accepted")

    def complete(self):
        self.matcher.fill_next_token_bitmask(self.peer.bits)
        return (int(self.bits[self.peer.eos // 32]) >> (self.peer.eos % 32)) & 1

    def forced(self, before):
        text = self.matcher.find_jump_forward_string()
        return self.peer.tokens_behind(before[-CONTEXT:], text) if text else []


class Peer:
    flexible, strict = False, False

    def open(self, path, tokenizer, eos):
        self.tokenizer, self.eos = tokenizer, eos
        info = xgrammar.TokenizerInfo.from_huggingface(PreTrainedTokenizerFast(tokenizer_file=path), stop_token_ids=[eos])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        self.bits = numpy.full((1, (info.vocab_size + 31) // 32), -1, dtype=numpy.int32)

    def compile(self, kind, spec):
        if kind == "json_schema":
            separators = None if self.flexible else (",", ":")
            return self.compiler.compile_json_schema(json.dumps(spec, ensure_ascii=False), any_whitespace=self.flexible,
                                                     separators=separators, strict_mode=self.strict)
        if kind == "regex":
            return self.compiler.compile_regex(spec)
        if kind == "ebnf":
            return self.compiler.compile_grammar(spec)
        raise Refused(f"kind {kind} is not measured")

    def matcher(self, compiled):
        return Matcher(self, compiled)

    def tokens_behind(self, before, text):
        whole = self.tokenizer.decode(before, skip_special_tokens=False) + text
        tokens = self.tokenizer.encode(whole, add_special_tokens=False).ids
        return tokens[len(before):] if tokens[:len(before)] == before else []
