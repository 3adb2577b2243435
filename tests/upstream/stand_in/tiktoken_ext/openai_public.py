"""Stands in for tiktoken's own module of this name, which downloads OpenAI's vocabularies: "cl100k_base" is the vocabulary
of the tokenizer.json that ESPALIER_TEST_TOKENIZER names.

Upstream's OpenAI back end takes that encoding for every model it does not know, and biases and compares its ids; so its
ids are those of the served model here, as they are OpenAI's there.
"""

import json
import os
import pathlib


def _byte_of_letter():
    """Byte-level BPE writes a byte as a letter: printable ones as themselves, the others as U+0100 and on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


def served_vocabulary():
    parts = json.loads(pathlib.Path(os.environ["ESPALIER_TEST_TOKENIZER"]).read_text())
    special = {token["content"]: token["id"] for token in parts["added_tokens"]}
    letters = _byte_of_letter()
    ranks = {
        bytes(letters[letter] for letter in token): rank
        for token, rank in parts["model"]["vocab"].items()
        if token not in special
    }
    return {
        "name": "cl100k_base",
        "pat_str": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        "mergeable_ranks": ranks,
        "special_tokens": {"<|endoftext|>": special["<|eos|>"]},
    }


ENCODING_CONSTRUCTORS = {"cl100k_base": served_vocabulary}
