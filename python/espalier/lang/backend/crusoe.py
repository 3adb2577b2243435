"""Crusoe's managed inference, which speaks OpenAI's interface."""

from __future__ import annotations

import os
from typing import Any, Optional

from espalier.lang.backend.model_backend import model_of
from espalier.lang.backend.openai import OpenAI

_BASE_URL = "https://api.inference.crusoecloud.com/v1"


class Crusoe(OpenAI):
    """A model of Crusoe's."""

    def __init__(
        self,
        model_name: Optional[str] = None,
        api_key: Optional[str] = None,
        base_url: Optional[str] = None,
        chat_template: Any = None,
        *,
        model: Optional[str] = None,
        **more: Any,
    ) -> None:
        """Opens it.

        Args:
            model_name: "meta-llama/Llama-3.3-70B-Instruct" (``model`` is the same).
            api_key: default CRUSOE_API_KEY.
            base_url: default CRUSOE_BASE_URL, else Crusoe's.
            chat_template: how a state's text looks: a name.
            more: as of :class:`espalier.OpenAI`.

        Raises:
            ProgramError: no key, or an address that cannot be.
        """
        key = api_key or os.environ.get("CRUSOE_API_KEY", "")
        if not key:
            from espalier.errors import ProgramError

            raise ProgramError("Crusoe needs a key: api_key=... or CRUSOE_API_KEY", "unauthorized", "api_key")
        super().__init__(
            model_of(model_name, model),
            True,
            chat_template,
            api_key=key,
            base_url=base_url or os.environ.get("CRUSOE_BASE_URL") or _BASE_URL,
            **more,
        )
