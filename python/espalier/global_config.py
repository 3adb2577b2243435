"""Settings of the whole process, under SGLang's names."""

from __future__ import annotations

from typing import Any


class GlobalConfig:
    """``espalier.global_config``.

    Attributes:
        verbosity: 2 prints the text of every program that ``run`` has finished; default 0.
        enable_precache_with_tracing: a batch against a server that caches prefixes first sends what all of its
            prompts begin with, found by tracing the function once; default True. The engine in this process needs no
            such call.
        skip_special_tokens_in_output, spaces_between_special_tokens_in_out, enable_parallel_encoding: kept for existing
            programs, and without effect: end marks are always left out of values.
    """

    def __init__(self) -> None:
        self.verbosity = 0
        self.skip_special_tokens_in_output = True
        self.spaces_between_special_tokens_in_out = True
        self.enable_precache_with_tracing = True
        self.enable_parallel_encoding = True
        self._default_backend: Any = None

    @property
    def default_backend(self) -> Any:
        """What ``run`` uses without a ``backend``: as :func:`espalier.set_default_backend` was told; None at first."""
        return self._default_backend

    @default_backend.setter
    def default_backend(self, backend: Any) -> None:
        from espalier import _espalier
        from espalier.lang.backend.base_backend import native_backend

        _espalier.set_default_backend(None if backend is None else native_backend(backend))
        self._default_backend = backend


global_config = GlobalConfig()
