"""Anthropic's messages interface."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from espalier import _espalier
from espalier.lang.backend.base_backend import BaseBackend, connection, model_of, template_name


class Anthropic(BaseBackend):
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
        options.model = self.model_name = model_of(model_name, model)
        options.chat_template = template_name(chat_template)
        options.api_key = api_key or ""
        options.base_url = base_url or ""
        options.constraint_tries = constraint_tries
        options.connection = connection(timeout, max_retries, default_headers)
        super().__init__(_espalier.open_anthropic(options))

    def get_model_name(self) -> str:
        """The model's name."""
        return self.model_name
