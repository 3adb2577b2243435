"""How ``select`` finds the likeliest of its choices.

The three methods are the library's; one of your own is any object that is called as :class:`ChoicesSamplingMethod` is.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Optional, Sequence

from espalier import _espalier

# [log-probability, token id, text] of each token of a choice.
TokenLogprobs = Sequence[Sequence[Any]]


@dataclass
class ChoicesDecision:
    """The chosen text, and what the method tells beside it (it joins the variable's meta info)."""

    decision: str
    meta_info: Optional[dict[str, Any]] = None


class ChoicesSamplingMethod(ABC):
    """Base of methods of your own. They are called on a back end's thread and should be quick."""

    @property
    def requires_unconditional_logprobs(self) -> bool:
        """Whether the choices' tokens are also scored without the prompt; default False."""
        return False

    @abstractmethod
    def __call__(
        self,
        *,
        choices: list[str],
        normalized_prompt_logprobs: list[float],
        input_token_logprobs: list[TokenLogprobs],
        output_token_logprobs: list[TokenLogprobs],
        unconditional_token_logprobs: Optional[list[TokenLogprobs]] = None,
    ) -> ChoicesDecision:
        """Decides.

        Args:
            choices: the texts.
            normalized_prompt_logprobs: the mean log-probability of each one's tokens.
            input_token_logprobs: ``[log-probability, token id, text]`` of each token of each choice.
            output_token_logprobs: empty lists; nothing is generated.
            unconditional_token_logprobs: the same tokens scored without the prompt, where they were asked for.
        """


class _BuiltIn(ChoicesSamplingMethod):
    def __init__(self, native: Any) -> None:
        self._native = native

    @property
    def requires_unconditional_logprobs(self) -> bool:
        return bool(self._native.needs_unconditional)

    def __repr__(self) -> str:
        return str(self._native.name)

    def __call__(
        self,
        *,
        choices: list[str],
        normalized_prompt_logprobs: list[float],
        input_token_logprobs: list[TokenLogprobs],
        output_token_logprobs: list[TokenLogprobs],
        unconditional_token_logprobs: Optional[list[TokenLogprobs]] = None,
    ) -> ChoicesDecision:
        decision, meta = self._native.decide(choices, input_token_logprobs, unconditional_token_logprobs)
        return ChoicesDecision(decision, meta)


#: The largest mean of log-probabilities; the first of equal ones.
token_length_normalized: ChoicesSamplingMethod = _BuiltIn(_espalier.token_length_normalized())
#: Token by token those with the largest value, until one is left; a choice that is over counts with its mean.
greedy_token_selection: ChoicesSamplingMethod = _BuiltIn(_espalier.greedy_token_selection())
#: The largest mean of what each token gains by standing behind the prompt.
unconditional_likelihood_normalized: ChoicesSamplingMethod = _BuiltIn(_espalier.unconditional_likelihood_normalized())


def meta_text(meta: Any) -> str:
    """What a method tells, as JSON: NumPy's values as Python's, what is none of JSON's as text."""
    return json.dumps(meta, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value))


def native_method(method: Any) -> Any:
    """The library's object for a method: one of its own, or one that calls ``method``. None stays None."""
    if method is None:
        return None
    if isinstance(method, _BuiltIn):
        return method._native
    if isinstance(method, str):
        return _espalier.choices_method_named(method)
    if not callable(method):
        raise TypeError(f"choices_method must be callable or one of the three names, not {method!r}")
    return _espalier.choices_method_of(_InContext(method))


class _InContext:
    """A method that sees the context variables of the place where the select was written."""

    def __init__(self, method: Any) -> None:
        self._method = method
        self._context = copy_context()
        self.requires_unconditional_logprobs = bool(getattr(method, "requires_unconditional_logprobs", False))

    def __call__(self, **scores: Any) -> Any:
        return self._context.copy().run(self._method, **scores)
