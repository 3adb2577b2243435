"""OpenAI's interface: OpenAI itself, Azure, and every server that speaks it."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from espalier import _espalier
from espalier.lang.backend.base_backend import connection
from espalier.lang.backend.model_backend import ModelBackend, model_of, set_common


class OpenAI(ModelBackend):
    """A model behind ``/v1/chat/completions`` or ``/v1/completions``."""

    def __init__(
        self,
        model_name: Optional[str] = None,
        is_chat_model: Optional[bool] = None,
        chat_template: Any = None,
        is_azure: bool = False,
        *,
        model: Optional[str] = None,
        api_key: Optional[str] = None,
        base_url: Optional[str] = None,
        organization: Optional[str] = None,
        azure_endpoint: Optional[str] = None,
        azure_deployment: Optional[str] = None,
        api_version: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
        default_headers: Optional[Mapping[str, str]] = None,
        constraint_tries: int = 0,
        text_is_turn: bool = False,
    ) -> None:
        """Opens it; nothing is asked before the first call, but what kind of server another ``base_url`` is.

        Args:
            model_name: of the model (``model`` is the same); of Azure, the deployment.
            is_chat_model: default: all but ``gpt-3.5-turbo-instruct`` and its like are.
            chat_template: how a state's text looks: a name, or an object with one.
            is_azure: ``azure_endpoint`` (or ``base_url``, or AZURE_OPENAI_ENDPOINT) is the resource's.
            api_key: default OPENAI_API_KEY, of Azure AZURE_OPENAI_API_KEY.
            base_url: with its ``/v1``; default OPENAI_BASE_URL, else OpenAI's.
            organization: default OPENAI_ORG_ID.
            timeout: seconds of one try; default 600.
            max_retries: tries beyond the first; default 3.
            default_headers: sent with every request.
            constraint_tries: what the server cannot constrain is generated so often until it matches; default 0: an error.
            text_is_turn: of a chat model: a text without roles is one turn of the user's; default False: refused.

        Raises:
            ProgramError: no key, or an address that cannot be.
        """
        options = _espalier.OpenAiOptions()
        name = azure_deployment or model_of(model_name, model)
        url = (azure_endpoint if is_azure else None) or base_url
        calls = connection(timeout, max_retries, default_headers)
        set_common(options, name, chat_template, api_key, url, constraint_tries, calls)
        options.chat = is_chat_model
        options.azure = is_azure
        options.text_is_turn = text_is_turn
        options.organization = organization or ""
        if api_version:
            options.azure_api_version = api_version
        super().__init__(name, _espalier.open_openai(options))
