"""Compiled programs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional, Sequence, Union

from espalier import _espalier
from espalier.errors import InvalidValueError
from espalier.global_config import global_config
from espalier.lang.backend.base_backend import chosen_backend, native_backend
from espalier.lang.graph import ProgramGraph as ProgramGraph
from espalier.lang.interpreter import ProgramState, RunRecord
from espalier.lang.run_defaults import RUN_DEFAULTS
from espalier.progress import ProgressBar

if TYPE_CHECKING:
    from espalier.lang.ir import Item, SglFunction


_MOST_OTHERS = 16


def batch_results(batch: Any, records: Sequence[RunRecord], bar: Optional[ProgressBar]) -> Iterator[ProgramState]:
    """The states of a batch in order, as they are done."""
    try:
        for record in records:
            native = batch.next(bar)
            yield ProgramState(native, record)
    finally:
        batch.close()
        if bar is not None:
            bar.close()


class GraphProgram:
    """A graph in the place of the function that it was made from."""

    def __init__(self, graph: ProgramGraph) -> None:
        self.__name__ = graph.name or "program"
        self.arg_names = graph.parameters
        self.arg_defaults: tuple[Any, ...] = ()
        self.bind_arguments: dict[str, Any] = {}

    def named(self, item: "Item") -> dict[str, Any]:
        return dict(item) if isinstance(item, Mapping) else dict(zip(self.arg_names, item))


def compile_settings(
    backend: Any,
    defaults: Any,
    outputs: Optional[Sequence[str]],
    meta_read: bool,
    passes: Optional[Mapping[str, bool]],
    tuning_folder: Optional[Union[str, "os.PathLike[str]"]],
    submit_runs: bool,
) -> Any:
    """The library's options of a compilation."""
    return _espalier.CompileOptions(
        native_backend(backend),
        defaults,
        None if outputs is None else list(outputs),
        meta_read,
        dict(passes or {}),
        "" if tuning_folder is None else os.fspath(tuning_folder),
        submit_runs,
    )


#: The library's program, and what runs a function that looks at values, for any other None.
Made = tuple[Any, Optional[Any]]


class CompiledFunction:
    """What :meth:`SglFunction.compile` gives; it runs as the program does."""

    def __init__(
        self,
        program: "Union[SglFunction, GraphProgram]",
        backend: Optional[Any],
        trace: Callable[[], Any],
        make: Callable[[Any], Made],
        known: Mapping[str, Any],
        again: Callable[[Mapping[str, Any]], "CompiledFunction"],
    ) -> None:
        """What is here not asked for yet is made when there is a back end.

        Args:
            backend: that was given; None: the default one of each run.
            trace: the program's graph, which needs none.
            make: compiles for a back end.
            again: the same program for other defaults or another back end.
        """
        self._program = program
        self._given = backend
        self._make = make
        self._known = dict(known)
        self._again = again
        # The same for other defaults or another back end, which is kept with it: a key has its id.
        self._others: dict[str, tuple[Mapping[str, Any], CompiledFunction]] = {}
        self._made: Optional[Made] = None
        self._made_for: Any = None
        self._traced: Any = None
        self.__name__ = program.__name__
        if self._has_backend():
            self._ready()
        else:
            self._traced = trace()

    def _has_backend(self) -> bool:
        return self._given is not None or global_config.default_backend is not None

    def _ready(self) -> Made:
        """Compiles, where there was no back end before."""
        if self._made is None:
            self._made_for = chosen_backend(self._given)
            self._made = self._make(self._made_for)
        return self._made

    def _now(self) -> "CompiledFunction":
        """For the default back end of this moment, where none was given."""
        self._ready()
        chosen = chosen_backend(self._given)
        return self if chosen is self._made_for else self._for({"backend": chosen})

    @property
    def _native(self) -> Any:
        return self._ready()[0]

    @property
    def whole(self) -> bool:
        """Whether the function looks at no value and returns none, so that its graph stands for it."""
        return not self.graph.ends_because

    @property
    def graph(self) -> ProgramGraph:
        """What is carried out; of a function that looks at values, up to the first it looks at.

        Before there is any back end it is what was traced.
        """
        return ProgramGraph(self._native.graph if self._made or self._has_backend() else self._traced)

    def report(self) -> str:
        """What each pass changed, and what that is expected to save."""
        text: str = self._native.report()
        return text

    @property
    def passes(self) -> list[dict[str, Any]]:
        """The report as data: ``pass``, ``on``, ``changes``, ``calls_saved``, ``prompt_bytes_shared``."""
        value: list[dict[str, Any]] = self._native.report_json()
        return value

    def print_graph(self) -> None:
        """Prints the graph."""
        self.graph.print_graph_dfs()

    def run(self, *args: Any, stream: bool = False, **kwargs: Any) -> ProgramState:
        """Runs the program: as :meth:`SglFunction.run`, with the defaults and the back end of the compilation.

        Args:
            kwargs: the function's arguments; a default or a back end other than the compilation's, for which it is
                compiled again, once. Where the compilation was given none, the default back end of this moment counts.

        Raises:
            TypeError: an argument that the program has not, that is missing, or that was compiled in with another value.
        """
        other = {name: kwargs.pop(name) for name in list(kwargs) if self._is_of_the_run(name)}
        if other:
            return self._for(other).run(*args, stream=stream, **kwargs)
        current = self._now()
        if current is not self:
            return current.run(*args, stream=stream, **kwargs)
        arguments = self._arguments({**dict(zip(self._program.arg_names, args)), **kwargs})
        record = RunRecord()
        native, followed = self._ready()
        if followed is None:
            return ProgramState(native.run(self._texts(arguments), stream), record)
        return ProgramState(followed.run(self._body(record, arguments), stream), record)

    def run_batch(
        self,
        batch_kwargs: "Sequence[Item]",
        *,
        num_threads: Union[int, str] = "auto",
        progress_bar: bool = False,
        generator_style: bool = False,
        **other: Any,
    ) -> Union[list[ProgramState], Iterator[ProgramState]]:
        """Runs the program once for each item; the states are in the items' order.

        On an Espalier server the runs of a batch are one request, or a few (pass ``submit_batches``).

        Args:
            batch_kwargs: as :meth:`SglFunction.run_batch`.
            num_threads: runs at once; "auto": as :attr:`settings` say. Of a function that looks at values: threads.
            progress_bar: a line on stderr.
            generator_style: gives an iterator: states are handed out as they are done.
            other: a default or a back end other than the compilation's, as :meth:`run` takes them.
        """
        for name in other:
            if not self._is_of_the_run(name):
                raise TypeError(f"run_batch() has no argument {name}; the program's are in the items")
        current = self._for(other) if other else self._now()
        if current is not self:
            return current.run_batch(
                batch_kwargs, num_threads=num_threads, progress_bar=progress_bar, generator_style=generator_style
            )
        items = [self._arguments(self._program.named(item)) for item in batch_kwargs]
        if not items:
            return []
        at_once = 0 if num_threads == "auto" else int(num_threads)
        records = [RunRecord() for _ in items]
        native, followed = self._ready()
        if followed is None:
            batch = native.batch([self._texts(item) for item in items], at_once)
        else:
            bodies = [self._body(record, item) for record, item in zip(records, items)]
            batch = followed.batch(bodies, at_once)
        bar = ProgressBar(len(items)) if progress_bar else None
        states = batch_results(batch, records, bar)
        return states if generator_style else list(states)

    def tune(
        self,
        batch_kwargs: "Sequence[Item]",
        runs: Sequence[int] = (4, 16, 64, 256),
        groups: Sequence[int] = (1, 8, 32),
        ways: bool = True,
        rounds: int = 3,
    ) -> list[dict[str, Any]]:
        """Measures how a batch of these items is carried out quickest, and keeps it: here and in the tuning folder.

        The back end's cache is flushed before each batch.

        Args:
            runs: numbers of runs under way at once that are tried.
            groups: with the quickest of them, how many are begun together.
            ways: with both, selects as compiled and all of them scored, where that is not the same.
            rounds: batches of each, in turns; their median counts.

        Returns:
            What was measured, in that order: ``runs``, ``group``, ``scored``, ``seconds``.

        Raises:
            ProgramError: a run failed; the folder cannot be written, or has a file that this did not write.
        """
        if not self.whole:
            raise InvalidValueError("a function that looks at values is not tuned: give run_batch() its num_threads", "bad_request")
        items = [self._texts(self._arguments(self._program.named(item))) for item in batch_kwargs]
        measured: list[dict[str, Any]] = self._native.tune(items, list(runs), list(groups), ways, rounds)
        return measured

    @property
    def settings(self) -> dict[str, Any]:
        """How a batch is carried out: ``runs`` at once, ``group`` begun together, ``scored``: all selects are."""
        value: dict[str, Any] = self._native.settings
        return value

    def _is_of_the_run(self, name: str) -> bool:
        taken = name in self._program.arg_names or name in self._program.bind_arguments
        return not taken and (name == "backend" or name in RUN_DEFAULTS)

    def _for(self, other: Mapping[str, Any]) -> "CompiledFunction":
        key = repr(sorted((name, id(value) if name == "backend" else value) for name, value in other.items()))
        if key not in self._others:
            if len(self._others) == _MOST_OTHERS:
                del self._others[next(iter(self._others))]
            self._others[key] = other, self._again(other)
        return self._others[key][1]

    def _body(self, record: RunRecord, arguments: Mapping[str, Any]) -> Any:
        assert not isinstance(self._program, GraphProgram)  # such a one is never followed
        return self._program.body(record, (), arguments)

    def _arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All that the function takes."""
        program = self._program
        defaults = dict(zip(program.arg_names[len(program.arg_names) - len(program.arg_defaults) :], program.arg_defaults))
        for name, value in given.items():
            if name in program.bind_arguments:
                continue
            if name in self._known and self.whole and self._known[name] is not value and self._known[name] != value:
                raise TypeError(f"{name} was compiled in as {self._known[name]!r}: compile(..., {name}={value!r})")
            if name not in program.arg_names:
                raise TypeError(f"the program {program.__name__} has no parameter {name}")
        arguments = {**defaults, **self._known, **given}
        missing = [name for name in program.arg_names if name not in arguments and name not in program.bind_arguments]
        if missing:
            raise TypeError(f"the program {program.__name__} needs {', '.join(missing)}")
        return arguments

    def _texts(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Those that the graph left open: texts, or lists of them that are scored."""
        texts = {name: arguments[name] for name in self._native.graph.parameters}
        for name, value in texts.items():
            is_list = isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value)
            if not isinstance(value, str) and not is_list:
                raise TypeError(f"{name} is appended to the prompt and must be a str, not {type(value).__name__}")
        return texts
