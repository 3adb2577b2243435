"""What a run, a batch or a compilation sets for all generations of a program that do not say otherwise."""

from __future__ import annotations

from typing import Any, Mapping

# run()'s names for the arguments of gen().
RUN_DEFAULTS = {
    "max_new_tokens": "max_tokens",
    "n": "n",
    "stop": "stop",
    "stop_token_ids": "stop_token_ids",
    "stop_regex": "stop_regex",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "ignore_eos": "ignore_eos",
    "return_logprob": "return_logprob",
    "logprob_start_len": "logprob_start_len",
    "top_logprobs_num": "top_logprobs_num",
    "return_text_in_logprobs": "return_text_in_logprobs",
}


def gen_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of ``given`` that are set, by gen()'s names."""
    return {ours: given[theirs] for theirs, ours in RUN_DEFAULTS.items() if given.get(theirs) is not None}
