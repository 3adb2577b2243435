"""What programs are written with: nodes to append to a state, and the settings of the process."""

from __future__ import annotations

import json
import os
import re
import warnings
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Union, overload

from espalier import _espalier
from espalier.errors import InvalidValueError, PatternError
from espalier.global_config import global_config
from espalier.lang.choices import ChoicesSamplingMethod, native_method, token_length_normalized
from espalier.lang.ir import Expr, SglFunction, Text
from espalier.lang.media import picture_bytes

if TYPE_CHECKING:
    from espalier.lang.backend.base_backend import BaseBackend


@overload
def function(func: Callable[..., Any]) -> SglFunction: ...
@overload
def function(
    func: None = None, num_api_spec_tokens: Optional[int] = None
) -> Callable[[Callable[..., Any]], SglFunction]: ...
def function(
    func: Optional[Callable[..., Any]] = None, num_api_spec_tokens: Optional[int] = None
) -> Union[SglFunction, Callable[[Callable[..., Any]], SglFunction]]:
    """Makes a program of a function whose first parameter is named ``s``; bare, or with arguments.

    Args:
        func: the function.
        num_api_spec_tokens: with back ends that are paid by the call, this many tokens are asked for at once and the
            program's generations are served from them (API speculation); default None: one call each.

    Raises:
        TypeError: the first parameter has another name.
    """
    if func is not None:
        return SglFunction(func, num_api_spec_tokens=num_api_spec_tokens)
    return lambda wrapped: SglFunction(wrapped, num_api_spec_tokens=num_api_spec_tokens)


def set_default_backend(backend: Any) -> None:
    """What ``run`` and ``run_batch`` use without a ``backend``: an engine, a server, or None for none."""
    global_config.default_backend = backend


def _unwrapped(backend: Optional[Any]) -> Optional["BaseBackend"]:
    backend = backend if backend is not None else global_config.default_backend
    chosen: Optional["BaseBackend"] = getattr(backend, "endpoint", backend)
    return chosen


def flush_cache(backend: Optional[Any] = None) -> bool:
    """Empties a back end's prefix cache; the default back end's without one. False when there is none.

    Raises:
        ProgramError: something runs or waits there.
    """
    chosen = _unwrapped(backend)
    return False if chosen is None else bool(chosen.flush_cache())


def get_server_info(backend: Optional[Any] = None) -> Optional[dict[str, Any]]:
    """What a back end tells of itself (``/get_server_info``), or None when there is none."""
    chosen = _unwrapped(backend)
    return None if chosen is None else chosen.get_server_info()


_DTYPES = {
    int: "int", float: "float", bool: "bool", str: "str",
    "int": "int", "float": "float", "bool": "bool", "str": "str",
}  # fmt: skip


def _type_name(dtype: Any) -> str:
    name = _DTYPES.get(dtype) if isinstance(dtype, (type, str)) else None
    if name is None:
        raise RuntimeError(f"dtype must be int, float, bool or str, not {dtype!r}")
    return name


def _schema_text(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    if hasattr(schema, "model_json_schema"):  # a pydantic model
        schema = schema.model_json_schema()
    return json.dumps(schema)


def gen(
    name: Optional[str] = None,
    max_tokens: Optional[int] = None,
    min_tokens: Optional[int] = None,
    n: Optional[int] = None,
    stop: Optional[Union[str, Sequence[str]]] = None,
    stop_token_ids: Optional[Sequence[int]] = None,
    stop_regex: Optional[Union[str, Sequence[str]]] = None,
    temperature: Optional[float] = None,
    top_p: Optional[float] = None,
    top_k: Optional[int] = None,
    min_p: Optional[float] = None,
    frequency_penalty: Optional[float] = None,
    presence_penalty: Optional[float] = None,
    ignore_eos: Optional[bool] = None,
    return_logprob: Optional[bool] = None,
    logprob_start_len: Optional[int] = None,
    top_logprobs_num: Optional[int] = None,
    return_text_in_logprobs: Optional[bool] = None,
    dtype: Optional[Union[type, str]] = None,
    choices: Optional[Sequence[str]] = None,
    choices_method: Optional[ChoicesSamplingMethod] = None,
    regex: Optional[str] = None,
    json_schema: Optional[Any] = None,
    *,
    ebnf: Optional[str] = None,
    json_closing: Optional[bool] = None,
    seed: Optional[int] = None,
) -> Expr:
    """A generation. What is None is the run's, and there 128 tokens at temperature 1 without penalties or stops.

    Args:
        name: of the variable that gets the text; None: it cannot be read back.
        max_tokens: at most so many tokens.
        min_tokens: at least so many.
        n: samples of one prompt; more than 1 makes the value a list, whose first entry continues the text.
        stop: text that ends it, and is not part of the value; one or several.
        stop_token_ids: tokens that end it.
        stop_regex: patterns that end it; one or several.
        temperature: 0 takes the likeliest token.
        top_p: (0, 1]. The smallest set of likeliest tokens with at least this probability.
        top_k: the k likeliest tokens; -1: all.
        min_p: [0, 1]. Tokens at least this likely relative to the likeliest.
        frequency_penalty: -2 to 2, for each occurrence in the output.
        presence_penalty: -2 to 2, once for a token in the output.
        ignore_eos: goes on behind an end token.
        return_logprob: log-probabilities in the meta info.
        logprob_start_len: and of the prompt from that position on; default -1: none.
        top_logprobs_num: and so many likeliest tokens at each position.
        return_text_in_logprobs: entries hold the token's text.
        dtype: ``int``, ``float``, ``bool``, ``str`` or their names: only such text. The value stays text.
        choices: makes it a :func:`select`, with temperature 0 unless one is given.
        choices_method: of ``choices``.
        regex: the whole text matches this pattern.
        json_schema: the text is JSON of this schema: a string, a dict or a pydantic model. ``s.get_json(name)`` reads it.
        ebnf: the text follows these rules, start rule ``root``.
        json_closing: JSON that ends for its length gets a shortest text that completes it.
        seed: makes sampling repeatable.

    Raises:
        ProgramError: options that contradict each other.
        re.error: a pattern that is no regular expression; it is a ProgramError, too.
        RuntimeError: another dtype.
    """
    if dtype is not None and regex is not None:
        warnings.warn("dtype and regex are both given; dtype counts", stacklevel=2)
        regex = None
    options = _espalier.GenOptions(
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        n=n,
        stop=stop,
        stop_regex=stop_regex,
        stop_token_ids=stop_token_ids,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        frequency_penalty=frequency_penalty,
        presence_penalty=presence_penalty,
        ignore_eos=ignore_eos,
        seed=seed,
        return_logprob=return_logprob,
        logprob_start_len=logprob_start_len,
        top_logprobs_num=top_logprobs_num,
        return_text_in_logprobs=return_text_in_logprobs,
        dtype=None if dtype is None else _type_name(dtype),
        choices=None if choices is None else _texts(choices),
        choices_method=native_method(choices_method),
        regex=regex,
        json_schema=None if json_schema is None else _schema_text(json_schema),
        ebnf=ebnf,
        json_closing=json_closing,
    )
    try:
        return _espalier.gen(name or "", options)
    except InvalidValueError as refusal:
        if regex is None or refusal.field != "regex" or _is_pattern(regex):
            raise
        raise PatternError(refusal.message, refusal.kind, refusal.field, refusal.code) from None


def _texts(choices: Sequence[str]) -> list[str]:
    texts = list(choices)
    if isinstance(choices, str) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"choices must be several texts, not {choices!r}")
    return texts


def _is_pattern(regex: str) -> bool:
    try:
        re.compile(regex)
    except re.error:
        return False
    return True


def _typed_gen(dtype: type, given: dict[str, Any]) -> Expr:
    return gen(**{**given, "dtype": dtype})


def gen_int(
    name: Optional[str] = None,
    max_tokens: Optional[int] = None,
    n: Optional[int] = None,
    stop: Optional[Union[str, Sequence[str]]] = None,
    stop_token_ids: Optional[Sequence[int]] = None,
    stop_regex: Optional[Union[str, Sequence[str]]] = None,
    temperature: Optional[float] = None,
    top_p: Optional[float] = None,
    top_k: Optional[int] = None,
    min_p: Optional[float] = None,
    frequency_penalty: Optional[float] = None,
    presence_penalty: Optional[float] = None,
    ignore_eos: Optional[bool] = None,
    return_logprob: Optional[bool] = None,
    logprob_start_len: Optional[int] = None,
    top_logprobs_num: Optional[int] = None,
    return_text_in_logprobs: Optional[bool] = None,
) -> Expr:
    """A generation of an integer: :func:`gen` with ``dtype=int``."""
    return _typed_gen(int, locals())


def gen_string(
    name: Optional[str] = None,
    max_tokens: Optional[int] = None,
    n: Optional[int] = None,
    stop: Optional[Union[str, Sequence[str]]] = None,
    stop_token_ids: Optional[Sequence[int]] = None,
    stop_regex: Optional[Union[str, Sequence[str]]] = None,
    temperature: Optional[float] = None,
    top_p: Optional[float] = None,
    top_k: Optional[int] = None,
    min_p: Optional[float] = None,
    frequency_penalty: Optional[float] = None,
    presence_penalty: Optional[float] = None,
    ignore_eos: Optional[bool] = None,
    return_logprob: Optional[bool] = None,
    logprob_start_len: Optional[int] = None,
    top_logprobs_num: Optional[int] = None,
    return_text_in_logprobs: Optional[bool] = None,
) -> Expr:
    """A generation of a string in quotes: :func:`gen` with ``dtype=str``."""
    return _typed_gen(str, locals())


def select(
    name: Optional[str] = None,
    choices: Optional[Sequence[str]] = None,
    temperature: float = 0.0,
    choices_method: ChoicesSamplingMethod = token_length_normalized,
) -> Expr:
    """The likeliest of some texts: it is appended, and the variable's value.

    Args:
        name: of the variable; None: it cannot be read back.
        choices: the texts, at least one.
        temperature: 0.
        choices_method: how it is found; default the largest mean of log-probabilities.

    Raises:
        ProgramError: no choices.
    """
    return _espalier.select(name or "", _texts(choices or ()), temperature, native_method(choices_method))


def _score_options(
    model: Optional[str] = None,
    instruct: Optional[str] = None,
    prompt_name: Optional[str] = None,
    input_type: Optional[str] = None,
    dimensions: Optional[int] = None,
    raw_scores: Optional[bool] = None,
    top_n: Optional[int] = None,
    backend: Optional[Any] = None,
) -> Any:
    from espalier.lang.backend.base_backend import native_backend

    return _espalier.ScoreOptions(
        model or "", instruct or "", prompt_name or "", input_type or "", dimensions, raw_scores, top_n,
        None if backend is None else native_backend(backend),
    )  # fmt: skip


def score(
    name: str,
    query: Text,
    documents: Union[Text, Sequence[Text]],
    *,
    instruct: Optional[str] = None,
    raw_scores: Optional[bool] = None,
    prompt_name: Optional[str] = None,
    model: Optional[str] = None,
    backend: Optional[Any] = None,
) -> Expr:
    """How well each document goes with a query. Nothing is added to the state's text.

    Args:
        name: of the variable: a number, of a list of documents a list of numbers in their order.
        query: a text; variables and arguments may stand in it.
        documents: a text, or a list of texts. A variable that is a list counts entry by entry.
        instruct: what a reranker that is asked judges by.
        raw_scores: the model's own numbers, not probabilities.
        prompt_name: a prompt of an embedding model that is put before each text.
        model: another model of the same server.
        backend: who is asked in place of the run's back end: a reranker or an embedding model beside it.

    Raises:
        ProgramError: no documents, or a generation inside; what the back end refuses is read where the variable is.
    """
    options = _score_options(
        model=model, instruct=instruct, raw_scores=raw_scores, prompt_name=prompt_name, backend=backend
    )
    return _espalier.score(name, query, documents, options)


def rerank(
    name: str,
    query: Text,
    documents: Union[Text, Sequence[Text]],
    *,
    top_n: Optional[int] = None,
    instruct: Optional[str] = None,
    raw_scores: Optional[bool] = None,
    prompt_name: Optional[str] = None,
    model: Optional[str] = None,
    backend: Optional[Any] = None,
) -> Expr:
    """Documents by how well they go with a query, best first. Nothing is added to the state's text.

    Args:
        name: of the variable: a list of texts. ``s.get_meta_info(name)`` has their ``scores``, and as ``indices`` where
            they stood. A graph appends the first of them, where a function says ``s[name][0]``.
        top_n: only so many of the best.

    The other arguments and what is raised: see :func:`score`.
    """
    options = _score_options(
        model=model, instruct=instruct, raw_scores=raw_scores, prompt_name=prompt_name, top_n=top_n, backend=backend
    )
    return _espalier.rerank(name, query, documents, options)


def embed(
    name: str,
    texts: Union[Text, Sequence[Text]],
    *,
    dimensions: Optional[int] = None,
    prompt_name: Optional[str] = None,
    input_type: Optional[str] = None,
    instruct: Optional[str] = None,
    model: Optional[str] = None,
    backend: Optional[Any] = None,
) -> Expr:
    """The vector of a text, or of each of a list. Nothing is added to the state's text.

    Args:
        name: of the variable: a list of floats, or a list of such.
        texts: a text, or a list of texts. A variable that is a list counts entry by entry.
        dimensions: only the first so many values (Matryoshka).
        prompt_name: a prompt of the model that is put before each text.
        input_type: ``query`` or ``document``: the model's prompt for these.
        instruct: of models that embed pictures: the system turn.
        model: another model of the same server.
        backend: who is asked in place of the run's back end.

    Raises:
        ProgramError: no texts, or a generation inside; what the back end refuses is read where the variable is.
    """
    options = _score_options(
        model=model, instruct=instruct, dimensions=dimensions, prompt_name=prompt_name, input_type=input_type,
        backend=backend,
    )  # fmt: skip
    return _espalier.embed(name, texts, options)


def system(expr: Optional[Text] = None) -> Expr:
    """A system message with that content; without one an empty message."""
    return _espalier.role("system", expr)


def user(expr: Optional[Text] = None) -> Expr:
    """A user's message."""
    return _espalier.role("user", expr)


def assistant(expr: Optional[Text] = None) -> Expr:
    """The assistant's message, mostly with a :func:`gen` in it."""
    return _espalier.role("assistant", expr)


def system_begin() -> Expr:
    """What opens a system message. Roles do not nest."""
    return _espalier.role_begin("system")


def system_end() -> Expr:
    """What closes a system message."""
    return _espalier.role_end("system")


def user_begin() -> Expr:
    """What opens a user's message."""
    return _espalier.role_begin("user")


def user_end() -> Expr:
    """What closes a user's message."""
    return _espalier.role_end("user")


def assistant_begin() -> Expr:
    """What opens the assistant's message."""
    return _espalier.role_begin("assistant")


def assistant_end() -> Expr:
    """What closes the assistant's message."""
    return _espalier.role_end("assistant")


def image(expr: Any) -> Expr:
    """A picture. A state may hold several.

    Args:
        expr: the path of a file, the bytes of one, or a ``PIL.Image`` (sent as PNG).

    Raises:
        ProgramError: there is no such file, or it is no picture.
    """
    if isinstance(expr, (str, os.PathLike)):
        return _espalier.image(os.fspath(expr))
    return _espalier.image_bytes(picture_bytes(expr))


def video(path: Union[str, "os.PathLike[str]"], num_frames: int) -> Expr:
    """A video, of which ``num_frames`` frames, evenly apart, are looked at."""
    return _espalier.video(os.fspath(path), num_frames)


def movable(expr: Text) -> Expr:
    """A piece of a prompt whose place among the movable pieces beside it does not matter.

    It changes nothing by itself. A compiler that is allowed code motion (``compile(passes={"move_pieces": True})``) puts
    those without arguments first, so that more of a batch's prompts is the same.

    Args:
        expr: text and arguments; nothing is generated inside.

    Raises:
        ProgramError: something is.
    """
    return _espalier.movable(expr)


def separate_reasoning(expr: Optional[Text] = None, model_type: str = "deepseek-r1") -> Expr:
    """What is generated inside is split: the variable keeps the answer, ``<name>_reasoning_content`` the thinking.

    Args:
        expr: with the generations.
        model_type: name of the reasoning parser: how the model marks its thinking.
    """
    return _espalier.separate_reasoning(expr, model_type)
