"""What the back ends share that call one model, by its name, at a provider."""

from __future__ import annotations

from typing import Any, Optional

from espalier.lang.backend.base_backend import BaseBackend


class ModelBackend(BaseBackend):
    """A back end of one model.

    Attributes:
        model_name: the model's name, as it was given.
    """

    def __init__(self, model_name: str, native: Any) -> None:
        super().__init__(native)
        self.model_name = model_name

    def get_model_name(self) -> str:
        """The model's name, as it was given."""
        return self.model_name


def model_of(model_name: Optional[str], model: Optional[str]) -> str:
    """The one of two spellings of an argument that was given."""
    name = model_name if model_name is not None else model
    if name is None:
        raise TypeError("the model's name is missing: model_name=...")
    return name


def set_common(
    options: Any,
    model_name: str,
    chat_template: Any,
    api_key: Optional[str],
    base_url: Optional[str],
    constraint_tries: int,
    connection: Any,
) -> None:
    """Sets what the options of all providers have; a chat template is given by name, or as an object that has one."""
    options.model = model_name
    options.chat_template = "" if chat_template is None else str(getattr(chat_template, "name", chat_template))
    options.api_key = api_key or ""
    options.base_url = base_url or ""
    options.constraint_tries = constraint_tries
    options.connection = connection
