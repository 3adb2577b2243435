"""A program that runs: its state, and the group of states that a fork makes."""

from __future__ import annotations

import contextlib
import json
from typing import Any, AsyncIterator, Callable, Generator, Iterator, Literal, Optional, Sequence, Union, overload

from espalier import _espalier
from espalier.errors import MissingVariableError
from espalier.lang.placeholders import SglVariable
from espalier.waiting import ready


class RunRecord:
    """What one run of a function returned, and whether each thing that it appends is carried out at once."""

    __slots__ = ("ret_value", "inline")

    def __init__(self, inline: bool = False) -> None:
        self.ret_value: Any = None
        self.inline = inline


class ProgramState:
    """A growing text, and the variables that were generated on the way.

    ``s += x`` queues text, a node or several and never waits; reading a variable waits for it. See
    ``include/espalier/program.h``, which this is.
    """

    __slots__ = ("_native", "_record", "__weakref__")

    def __init__(self, native: Any, record: Optional[RunRecord] = None) -> None:
        self._native = native
        self._record = record

    @property
    def ret_value(self) -> Any:
        """What the function returned; None before it has, and for a child of a fork."""
        return self._record.ret_value if self._record is not None else None

    @property
    def stream_executor(self) -> "ProgramState":
        """What upstream's programs ask for meta info with a time limit: here the state itself."""
        return self

    def __iadd__(self, other: Any) -> "ProgramState":
        if other is None:
            raise ValueError("None cannot be appended to a state")
        self._append(other)
        return self

    def _append(self, what: Any) -> None:
        self._native.append(what)
        if self._record is not None and self._record.inline:
            failure = self.error()
            if failure is not None:
                raise failure

    def __getitem__(self, name: str) -> Any:
        return self.get_var(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._native.set(name, value)

    def __contains__(self, name: str) -> bool:
        return bool(self._native.contains(name))

    def get_var(self, name: str) -> Any:
        """The value of a variable: text, a list of them, or what :meth:`set_var` was given. Waits for it.

        Raises:
            MissingVariableError: it was never set, or its call failed; with the message of that failure. A KeyError.
        """
        try:
            return self._native.get(name)
        except MissingVariableError as missing:
            if missing.code != "traced_value":
                raise
            return SglVariable(name, self._native.variable(name))

    def set_var(self, name: str, value: Any) -> None:
        """Sets a variable at once, not when what is queued is done."""
        self._native.set(name, value)

    def get_json(self, name: str) -> Any:
        """The value read as JSON, typed: of ``json_schema``, and of ``dtype`` int, float, bool."""
        return self._native.get_json(name)

    def get_meta_info(self, name: str, timeout: Optional[float] = None) -> Any:
        """What the server told of the call that gave the variable (``meta_info``), or None. Waits for it.

        Args:
            timeout: seconds; None: without limit.

        Raises:
            TimeoutError: it was not there in that time.
            MissingVariableError: as :meth:`get_var`.
        """
        return self._native.meta(name, timeout)

    def text(self) -> str:
        """All of the text, when what is queued is done."""
        return str(self._native.text())

    def messages(self) -> list[dict[str, Any]]:
        """The closed turns as OpenAI's messages, when what is queued is done; pictures are data URLs of their own type."""
        messages: list[dict[str, Any]] = self._native.messages()
        return messages

    def sync(self) -> None:
        """Waits until what is queued is done."""
        self._native.sync()

    def error(self) -> Optional[Exception]:
        """Why the state failed, when what is queued is done; None if it did not."""
        failure: Optional[Exception] = self._native.error()
        return failure

    def cancel(self) -> None:
        """What is queued is dropped and what is generated stops; reads of what is missing fail as ``cancelled``."""
        self._native.cancel()

    def _role(self, name: str, expr: Any) -> Any:
        if expr is None:
            return self._scope(_espalier.role_begin(name), _espalier.role_end(name))
        nodes = _espalier.role(name, expr)
        self._append(nodes)
        return nodes

    @contextlib.contextmanager
    def _scope(self, begin: Any, end: Any) -> Generator[None, None, None]:
        self._append(begin)
        try:
            yield
        finally:
            self._append(end)

    def system(self, expr: Any = None) -> Any:
        """``with s.system():`` puts what is appended into a system message; with an argument that is all of it."""
        return self._role("system", expr)

    def user(self, expr: Any = None) -> Any:
        """The same for a user's message."""
        return self._role("user", expr)

    def assistant(self, expr: Any = None) -> Any:
        """The same for the assistant's."""
        return self._role("assistant", expr)

    def var_scope(self, name: str) -> contextlib.AbstractContextManager[None]:
        """``with s.var_scope("v"):`` makes v all the text that is appended inside."""
        return self._scope(_espalier.scope_begin(name), _espalier.scope_end(name))

    def fork(
        self, n: int = 1, position_ids_offset: Optional[Sequence[int]] = None, *, size: Optional[int] = None
    ) -> "ProgramStateGroup":
        """Makes ``n`` (or ``size``) states that begin with everything up to here, at the same time.

        Args:
            n: how many, at least 1.
            position_ids_offset: kept for existing programs; has no effect.
        """
        return ProgramStateGroup(self._native.fork(size if size is not None else n), self)

    @contextlib.contextmanager
    def copy(self, position_ids_offset: Optional[Sequence[int]] = None) -> Generator["ProgramState", None, None]:
        """``with s.copy() as t:`` makes t a fork, which is joined at the end."""
        group = self.fork(1, position_ids_offset)
        try:
            yield group[0]
        finally:
            group.join()

    def text_iter(self, var_name: Optional[str] = None) -> Iterator[str]:
        """Pieces of the whole text, prompts included, or of one variable, as they come.

        A run without ``stream`` gives the value at once.
        """
        pieces = self._native.pieces(var_name or "")
        while (piece := pieces.next()) is not None:
            yield piece[0]

    @overload
    def text_async_iter(
        self, var_name: Optional[str] = None, return_meta_data: Literal[False] = False
    ) -> AsyncIterator[str]: ...
    @overload
    def text_async_iter(
        self, var_name: Optional[str] = None, *, return_meta_data: Literal[True]
    ) -> AsyncIterator[tuple[str, Any]]: ...
    async def text_async_iter(
        self, var_name: Optional[str] = None, return_meta_data: bool = False
    ) -> AsyncIterator[Any]:
        """The same for ``async for``: the event loop goes on.

        Args:
            var_name: of one variable; None: the whole text.
            return_meta_data: gives (piece, meta info so far).
        """
        pieces = self._native.pieces(var_name or "")
        while True:
            await ready(pieces)
            piece = pieces.next()
            if piece is None:
                return
            yield piece if return_meta_data else piece[0]

    def __repr__(self) -> str:
        return f"ProgramState({self.text()!r})"


Branch = Union[str, Callable[[int], Any], Sequence[Any], Any]


class ProgramStateGroup:
    """The children of a fork.

    ``group += x`` appends to all of them, ``group += lambda i: x`` to each what the function says, ``group += [x, y]``
    one to each.

    Attributes:
        states: the children.
        src_state: the state that was forked.
    """

    def __init__(self, native: Any, src_state: ProgramState) -> None:
        self._native = native
        self.states = [ProgramState(child) for child in native.states]
        self.src_state = src_state

    def join(self, mode: str = "gather_variable") -> None:
        """Waits for the children and brings their work back.

        Args:
            mode: "gather_variable": variables that the parent does not have become lists in it, in the children's
                order; "concate_and_append": what the children said since the fork is appended in their order.

        Raises:
            ValueError: another mode.
        """
        self._native.join(mode)

    def __len__(self) -> int:
        return len(self.states)

    def __iter__(self) -> Iterator[ProgramState]:
        return iter(self.states)

    def __getitem__(self, i: int) -> ProgramState:
        return self.states[i]

    def __setitem__(self, i: int, value: ProgramState) -> None:
        if self.states[i] is not value:
            raise ValueError("a child of a fork cannot be replaced; append to it: group[i] += ...")

    def __iadd__(self, other: Branch) -> "ProgramStateGroup":
        if callable(other):
            other = [other(i) for i in range(len(self.states))]
        if isinstance(other, (list, tuple)):
            self._native.append_each(list(other))
        else:
            self._native.append(other)
        return self
