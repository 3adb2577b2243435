"""What stands for values while a program is traced."""

from __future__ import annotations

from typing import Any, NoReturn

from espalier import _espalier
from espalier._espalier import Expr
from espalier.errors import InvalidValueError


class FormattedArgumentError(InvalidValueError, TypeError):
    """An argument without a value was put into an f-string."""


class Placeholder(Expr):
    """It may be appended, alone or joined with text; whatever looks at the value ends the trace."""

    _what = "value"
    _code = "traced_value"

    def __init__(self, name: str, expr: Expr) -> None:
        super().__init__(expr)
        self.name = name

    def __repr__(self) -> str:
        return f"<{self._what} {self.name}>"

    def _has_no_value(self, *_: Any) -> NoReturn:
        raise InvalidValueError(
            f"{self._what} {self.name} has no value while the program is traced: it can only be appended",
            "bad_request",
            self.name,
            self._code,
        )

    # fmt: off
    __str__ = __format__ = __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _has_no_value
    __len__ = __iter__ = __getitem__ = __contains__ = __hash__ = __int__ = __float__ = __index__ = _has_no_value
    __mul__ = __rmul__ = __mod__ = __rmod__ = _has_no_value
    # fmt: on


class SglArgument(Placeholder):
    """An argument that was not given to the trace."""

    _what = "argument"
    _code = "traced_argument"

    def __init__(self, name: str) -> None:
        super().__init__(name, _espalier.argument(name))


    def __format__(self, _: str) -> NoReturn:
        raise FormattedArgumentError(
            f"argument {self.name} has no value while the program is traced: it cannot be put into an f-string, but be "
            f"appended or added to text; or trace with its value: trace({self.name}=...)",
            "bad_request",
            self.name,
            self._code,
        )


class SglVariable(Placeholder):
    """A variable of a state, which nothing has generated."""

    _what = "variable"
