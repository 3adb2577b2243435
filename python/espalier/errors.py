"""What goes wrong in programs and engines, as exceptions.

Each is a :class:`ProgramError`, hence a ``RuntimeError``; its class is also the one that Python programs expect of such
a failure (``KeyError`` for a variable that is not there, ``ValueError`` for a value that is wrong, ...).
"""

from __future__ import annotations

import re


class ProgramError(RuntimeError):
    """A call, a program or an engine failed.

    Attributes:
        kind: one word: ``bad_request``, ``not_found``, ``timeout``, ``unsupported``, ``busy``, ``cancelled``,
            ``network``, ``unavailable``, ... (``include/espalier/error.h``).
        message: a sentence that says what would work; of a server's refusal, the server's sentence.
        field: the argument at fault, or "".
        code: the machine-readable code of OpenAI's API, or "".
    """

    def __init__(self, message: str, kind: str = "internal", field: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.field = field
        self.code = code

    def __str__(self) -> str:  # a KeyError's would be in quotes
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.kind, self.field, self.code)


class InvalidValueError(ProgramError, ValueError):
    """A value that the caller gave is wrong."""


class PatternError(InvalidValueError, re.error):
    """A pattern that is no regular expression: also the error of Python's own module for them."""

    def __init__(self, message: str, kind: str = "bad_request", field: str = "regex", code: str = "") -> None:
        super().__init__(message, kind, field, code)
        self.msg = message
        self.pattern = self.pos = None
        self.lineno = self.colno = 0


class UnsupportedError(ProgramError, NotImplementedError):
    """Valid, but nothing that this back end can do."""


class DeadlineError(ProgramError, TimeoutError):
    """It took longer than it may."""


class MissingVariableError(ProgramError, KeyError):
    """A variable that was never set, or whose call failed; the message and kind are then that failure's."""


_CLASSES: dict[str, type[ProgramError]] = {
    "bad_request": InvalidValueError,
    "unsupported": UnsupportedError,
    "timeout": DeadlineError,
}


def make_error(kind: str, message: str, field: str = "", code: str = "", variable: bool = False) -> ProgramError:
    """The exception for an ``espalier::Error``; ``variable``: it was met while a variable was read."""
    cls = MissingVariableError if variable else _CLASSES.get(kind, ProgramError)
    return cls(message, kind, field, code)


# What an HTTP status is, where the answer's own words are all there is.
_KINDS = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    408: "timeout",
    413: "too_large",
    422: "unsupported",
    429: "busy",
    499: "cancelled",
    501: "unsupported",
    503: "unavailable",
}


def error_of_reply(status: int, reply: object) -> ProgramError:
    """The exception for an answer of a server, ``reply`` being its JSON body or its text."""
    error = reply.get("error", reply) if isinstance(reply, dict) else reply
    if not isinstance(error, dict):
        return make_error(_KINDS.get(status, "internal"), str(error) or f"the server answered {status}")
    message = str(error.get("message") or f"the server answered {status}")
    return make_error(
        _KINDS.get(status, "internal"), message, str(error.get("param") or ""), str(error.get("code") or "")
    )
