"""Anthropic's messages interface."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from espalier import _espalier
from espalier.lang.backend.base_backend import connection
from espalier.lang.backend.model_backend import ModelBackend, model_of, set_common


class Anthropic(ModelBackend):
    """A model behind ``/v1/messages``."""

    def __init__(
        self,
        model_name: Optional[str] = None,
        *,
        model: Optional[str] = None,
        chat_template: Any = None,
        api_key: Optional[str] = None,
        base_url: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
        default_headers: Optional[Mapping[str, str]] = None,
        constraint_tries: int = 0,
    ) -> None:
        """Opens it.

        Args:
            model_name: of the model (``model`` is the same).
            api_key: default ANTHROPIC_API_KEY.
            base_url: default ANTHROPIC_BASE_URL, else Anthropic's.
            timeout: seconds of one try; default 600.
            max_retries: tries beyond the first; default 3.
            default_headers: sent with every request.
            constraint_tries: as of :class:`espalier.OpenAI`.

        Raises:
            ProgramError: no key, or an address that cannot be.
        """
        options = _espalier.AnthropicOptions()
        name = model_of(model_name, model)
        calls = connection(timeout, max_retries, default_headers)
        set_common(options, name, chat_template, api_key, base_url, constraint_tries, calls)
        super().__init__(name, _espalier.open_anthropic(options))
