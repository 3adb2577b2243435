"""Espalier: programs that call language models, and the engine that runs them.

    import espalier as sgl

    @sgl.function
    def tip(s, topic):
        s += sgl.system("You are brief.")
        s += sgl.user("A tip about " + topic)
        s += sgl.assistant(sgl.gen("tip", max_tokens=64))

    sgl.set_default_backend(sgl.Engine(model_path="smollm2-135m"))
    print(tip.run(topic="gardening")["tip"])

Names and meaning are those of SGLang's front end. Everything is carried out by the C++ library (``espalier._espalier``,
``include/espalier/program.h``); this package holds names, type hints and conversions. Lengths are in tokens, times in
seconds. What fails raises :class:`ProgramError` with ``kind``, ``message`` and ``field``.
"""

from typing import TYPE_CHECKING, Any

from espalier import _espalier
from espalier.errors import (
    DeadlineError,
    InvalidValueError,
    MissingVariableError,
    ProgramError,
    UnsupportedError,
)
from espalier.global_config import global_config
from espalier.lang.api import (
    assistant,
    assistant_begin,
    assistant_end,
    embed,
    flush_cache,
    function,
    gen,
    gen_int,
    gen_string,
    get_server_info,
    image,
    movable,
    rerank,
    score,
    select,
    separate_reasoning,
    set_default_backend,
    system,
    system_begin,
    system_end,
    user,
    user_begin,
    user_end,
    video,
)
from espalier.lang.choices import (
    greedy_token_selection,
    token_length_normalized,
    unconditional_likelihood_normalized,
)

from espalier.lang.compiler import CompiledFunction, ProgramGraph

if TYPE_CHECKING:
    from espalier.engine import Engine
    from espalier.lang.backend.anthropic import Anthropic
    from espalier.lang.backend.crusoe import Crusoe
    from espalier.lang.backend.litellm import LiteLLM
    from espalier.lang.backend.openai import OpenAI
    from espalier.lang.backend.runtime_endpoint import RuntimeEndpoint
    from espalier.lang.backend.vertexai import VertexAI
    from espalier.runtime import Runtime

__version__: str = _espalier.version

# Back ends, each in a module that is read when it is first asked for.
_LAZY = {
    "Engine": "espalier.engine",
    "Runtime": "espalier.runtime",
    "RuntimeEndpoint": "espalier.lang.backend.runtime_endpoint",
    "OpenAI": "espalier.lang.backend.openai",
    "Anthropic": "espalier.lang.backend.anthropic",
    "VertexAI": "espalier.lang.backend.vertexai",
    "LiteLLM": "espalier.lang.backend.litellm",
    "Crusoe": "espalier.lang.backend.crusoe",
}

__all__ = [
    "Anthropic",
    "CompiledFunction",
    "Crusoe",
    "DeadlineError",
    "Engine",
    "InvalidValueError",
    "LiteLLM",
    "MissingVariableError",
    "OpenAI",
    "ProgramError",
    "ProgramGraph",
    "Runtime",
    "RuntimeEndpoint",
    "UnsupportedError",
    "VertexAI",
    "assistant",
    "assistant_begin",
    "assistant_end",
    "embed",
    "flush_cache",
    "function",
    "gen",
    "gen_int",
    "gen_string",
    "get_server_info",
    "global_config",
    "greedy_token_selection",
    "image",
    "movable",
    "rerank",
    "score",
    "select",
    "separate_reasoning",
    "set_default_backend",
    "system",
    "system_begin",
    "system_end",
    "token_length_normalized",
    "unconditional_likelihood_normalized",
    "user",
    "user_begin",
    "user_end",
    "video",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'espalier' has no attribute '{name}'")
    import importlib

    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
