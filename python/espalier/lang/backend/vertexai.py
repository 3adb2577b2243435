"""Google's Gemini models: on Vertex AI, or behind the public interface with a key."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from espalier import _espalier
from espalier.lang.backend.base_backend import connection
from espalier.lang.backend.model_backend import ModelBackend, model_of, set_common


def _safety(settings: Any) -> dict[str, str]:
    def name(value: Any) -> str:
        return str(getattr(value, "name", value))

    def part(setting: Any, key: str) -> Any:
        return setting[key] if isinstance(setting, Mapping) else getattr(setting, key)

    if settings is None:
        return {}
    if isinstance(settings, Mapping):
        return {name(category): name(threshold) for category, threshold in settings.items()}
    return {name(part(one, "category")): name(part(one, "threshold")) for one in settings}


class VertexAI(ModelBackend):
    """A Gemini model behind ``generateContent``."""

    def __init__(
        self,
        model_name: Optional[str] = None,
        safety_settings: Any = None,
        *,
        model: Optional[str] = None,
        chat_template: Any = None,
        vertex: Optional[bool] = None,
        project: Optional[str] = None,
        location: Optional[str] = None,
        bearer_token: Optional[str] = None,
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
            safety_settings: category to threshold, as text or as the members of Google's enumerations; or a list of
                objects (or dicts) that have both. Sent with every call.
            vertex: Vertex AI; default: unless ``api_key`` is given.
            project: default GCP_PROJECT_ID, GOOGLE_CLOUD_PROJECT.
            location: default GCP_LOCATION, GOOGLE_CLOUD_LOCATION, else us-central1.
            bearer_token: default GOOGLE_OAUTH_ACCESS_TOKEN (``gcloud auth print-access-token``).
            api_key: of the public interface instead.
            base_url: instead of the location's or the public one.
            timeout: seconds of one try; default 600.
            max_retries: tries beyond the first; default 3.
            default_headers: sent with every request.
            constraint_tries: as of :class:`espalier.OpenAI`.

        Raises:
            ProgramError: no project or no token, or an address that cannot be.
        """
        options = _espalier.GeminiOptions()
        name = model_of(model_name, model)
        calls = connection(timeout, max_retries, default_headers)
        set_common(options, name, chat_template, api_key, base_url, constraint_tries, calls)
        options.vertex = vertex if vertex is not None else api_key is None
        options.project = project or ""
        options.location = location or ""
        options.bearer_token = bearer_token or ""
        options.safety_settings = _safety(safety_settings)
        super().__init__(name, _espalier.open_gemini(options))
