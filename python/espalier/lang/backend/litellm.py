"""Models by LiteLLM's names: ``provider/model``. LiteLLM says where they are; the calls are our own."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from espalier.errors import InvalidValueError, UnsupportedError
from espalier.lang.backend.model_backend import ModelBackend, model_of


def _where(model: str, base_url: Optional[str], api_key: Optional[str]) -> tuple[str, str, Optional[str], Optional[str]]:
    """(model, provider, key, address), as LiteLLM knows them."""
    try:
        import litellm  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        if base_url is not None:
            return model, "openai", api_key, base_url
        raise UnsupportedError(
            "LiteLLM(...) looks up providers in the package litellm, which is not installed: pip install litellm, or "
            "give base_url of a server that speaks OpenAI's interface, or use OpenAI, Anthropic or VertexAI",
            "unsupported",
            "model_name",
        ) from None
    name, provider, key, address = litellm.get_llm_provider(model=model, api_base=base_url, api_key=api_key)
    return str(name), str(provider), api_key or key, base_url or address


class LiteLLM(ModelBackend):
    """A model that LiteLLM has a name for, if its provider speaks OpenAI's, Anthropic's or Gemini's interface.

    A text without roles is one turn of the user's.
    """

    def __init__(
        self,
        model_name: Optional[str] = None,
        chat_template: Any = None,
        api_key: Optional[str] = None,
        organization: Optional[str] = None,
        base_url: Optional[str] = None,
        timeout: Optional[float] = 600,
        max_retries: Optional[int] = None,
        default_headers: Optional[Mapping[str, str]] = None,
        *,
        model: Optional[str] = None,
    ) -> None:
        """Opens it.

        Args:
            model_name: ``provider/model`` (``model`` is the same).
            chat_template: how a state's text looks: a name.
            api_key: default: what LiteLLM finds in the environment.
            base_url: default: the provider's.
            timeout: seconds of one try.
            max_retries: tries beyond the first; default 3.
            default_headers: sent with every request.

        Raises:
            UnsupportedError: litellm is not installed and there is no ``base_url``, or the provider has another interface.
            ProgramError: no key, or an address that cannot be.
        """
        asked = model_of(model_name, model)
        name, provider, key, address = _where(asked, base_url, api_key)
        more: dict[str, Any] = {
            "chat_template": chat_template,
            "api_key": key,
            "base_url": address,
            "timeout": timeout,
            "max_retries": max_retries,
            "default_headers": default_headers,
        }
        super().__init__(asked, self._open(name, provider, organization, more).native)

    @staticmethod
    def _open(name: str, provider: str, organization: Optional[str], more: dict[str, Any]) -> ModelBackend:
        if provider == "anthropic":
            from espalier.lang.backend.anthropic import Anthropic

            return Anthropic(name, **more)
        if provider in ("gemini", "vertex_ai"):
            from espalier.lang.backend.vertexai import VertexAI

            return VertexAI(name, vertex=provider == "vertex_ai", **more)
        from espalier.lang.backend.openai import OpenAI

        if provider != "openai" and more["base_url"] is None:
            raise InvalidValueError(
                f"litellm knows no address for {provider}; give base_url of its OpenAI interface", "bad_request", "base_url"
            )
        return OpenAI(name, True, organization=organization, text_is_turn=True, **more)
