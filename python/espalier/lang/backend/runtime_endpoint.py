"""A server of Espalier's or SGLang's own interface."""

from __future__ import annotations

from typing import Any, Optional

from espalier import _espalier
from espalier.http_calls import HttpServer
from espalier.lang.backend.base_backend import BaseBackend, connection


class RuntimeEndpoint(BaseBackend):
    """A server that answers ``/generate``.

    Attributes:
        base_url: its address.
        model_info: what ``/get_model_info`` told.
    """

    def __init__(
        self,
        base_url: str,
        api_key: Optional[str] = None,
        verify: Any = None,
        chat_template_name: Optional[str] = None,
        *,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> None:
        """Asks the server what it serves.

        Args:
            base_url: "http://127.0.0.1:30000".
            api_key: sent as a bearer token.
            verify: certificates are always verified, by SSL_CERT_FILE's and the system's authorities; another value is
                refused for an address with https, and nothing without.
            chat_template_name: of a format known by name; default: the server's own.
            timeout: seconds of one try; default 600.
            max_retries: tries beyond the first; default 3.

        Raises:
            ProgramError: the server does not answer, or refuses.
        """
        self.base_url = base_url.rstrip("/")
        self.api_key = api_key
        if verify not in (None, True) and self.base_url.startswith("https:"):
            from espalier.errors import UnsupportedError

            raise UnsupportedError(
                "certificates are always verified; SSL_CERT_FILE names further authorities", "unsupported", "verify"
            )
        self._server = HttpServer(self.base_url, api_key)
        self._connection = connection(timeout, max_retries)
        super().__init__(self._opened(chat_template_name or ""))
        self.model_info: dict[str, Any] = self._server.json("GET", "/get_model_info")

    def _opened(self, chat_template: str) -> Any:
        return _espalier.open_native(self.base_url, self.api_key or "", chat_template, self._connection)

    def _take_template(self, name: str) -> None:
        self._set_native(self._opened(name))

    def get_model_name(self) -> str:
        """The path of the server's model."""
        return str(self.model_info["model_path"])

    def start_profile(self) -> None:
        """``/start_profile``, where the server has it."""
        self._server.json("POST", "/start_profile")

    def stop_profile(self) -> None:
        """``/stop_profile``, where the server has it."""
        self._server.json("POST", "/stop_profile")
