"""What stands around the turns of a conversation, by name; ``backend.chat_template`` may be set to one."""

from __future__ import annotations

from typing import Any

from espalier import _espalier


def get_chat_template(name: str) -> Any:
    """The format of that name ("chatml", "llama-3-instruct", ...).

    Raises:
        ProgramError: there is none; with the names that there are.
    """
    return _espalier.chat_format_named(name)


def template_name(template: Any) -> str:
    """The name of a format: itself, or the one it has."""
    return str(getattr(template, "name", template))
