"""Programs and what they are made of.

``Expr`` is what :func:`espalier.gen` and its like make; ``+`` joins it with text.
"""

from __future__ import annotations

import inspect
import os
import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Callable, Iterator, Literal, Mapping, Optional, Sequence, Union

from espalier import _espalier
from espalier._espalier import Expr as Expr
from espalier.errors import InvalidValueError
from espalier.global_config import global_config
from espalier.lang.backend.base_backend import chosen_backend, native_backend
from espalier.lang.compiler import CompiledFunction, Made, ProgramGraph, batch_results, compile_settings
from espalier.lang.interpreter import ProgramState, RunRecord
from espalier.lang.placeholders import FormattedArgumentError, SglArgument
from espalier.lang.run_defaults import gen_defaults
from espalier.progress import ProgressBar

if TYPE_CHECKING:
    from typing_extensions import TypeAlias

#: What may be appended to a state: text, an expression, or several of them.
Text: "TypeAlias" = Union[str, Expr, Sequence[Union[str, Expr]]]
SglExpr = Expr
_LEAST_PREFIX = 64  # characters; a shorter one is not worth a call
Item = Union[Mapping[str, Any], Sequence[Any]]

#: The patterns of ``dtype``.
REGEX_INT: str = _espalier.REGEX_INT
REGEX_FLOAT: str = _espalier.REGEX_FLOAT
REGEX_BOOL: str = _espalier.REGEX_BOOL
REGEX_STR: str = _espalier.REGEX_STR


class _Tracing(threading.local):
    """Whether this thread traces a program."""

    active = False


_tracing = _Tracing()


def _in_this_context(body: Callable[[Any], None]) -> Callable[[Any], None]:
    """For another thread: it sees the context variables of the call."""
    context = copy_context()
    return lambda native: context.run(body, native)


class SglFunction:
    """A program. :func:`espalier.function` makes it of a function; calling it is :meth:`run`.

    Attributes:
        func: the function.
        num_api_spec_tokens: see :func:`espalier.function`.
        bind_arguments: what :meth:`bind` fixed.
        arg_names: the names of the function's parameters behind ``s``.
        arg_defaults: the defaults of the last of them.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        num_api_spec_tokens: Optional[int] = None,
        bind_arguments: Optional[Mapping[str, Any]] = None,
    ) -> None:
        spec = inspect.getfullargspec(func)
        if not spec.args or spec.args[0] != "s":
            raise TypeError(f"the first parameter of the program {func.__name__} must be named s")
        if inspect.iscoroutinefunction(func):
            raise TypeError(f"the program {func.__name__} is async; write it as a plain function: nothing in it waits but reads")
        self.func = func
        self.num_api_spec_tokens = num_api_spec_tokens
        self.bind_arguments: dict[str, Any] = dict(bind_arguments or {})
        self.arg_names: list[str] = spec.args[1:]
        self.arg_defaults: tuple[Any, ...] = spec.defaults or ()
        self._keyword_names = set(spec.args[1:]) | set(spec.kwonlyargs)
        self._takes_any_keyword = spec.varkw is not None
        self.__name__ = func.__name__
        self.__doc__ = func.__doc__
        self.__module__ = func.__module__
        self.__wrapped__ = func

    def __repr__(self) -> str:
        return f"<program {self.__name__}({', '.join(self.arg_names)})>"

    def bind(self, **kwargs: Any) -> "SglFunction":
        """A program in which these arguments are fixed; they win over a call's own.

        Raises:
            TypeError: the function has no such parameter.
        """
        for name in kwargs:
            if name not in self._keyword_names and not self._takes_any_keyword:
                raise TypeError(f"the program {self.__name__} has no parameter {name}")
        return SglFunction(self.func, self.num_api_spec_tokens, {**self.bind_arguments, **kwargs})

    def body(self, record: RunRecord, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[Any], None]:
        """What the library calls with the state: once, on whatever thread."""
        arguments = {**kwargs, **self.bind_arguments}
        taken = self.arg_names[: len(args)]
        if any(name in self.bind_arguments for name in taken):  # a bound value wins over one by position
            arguments = {**dict(zip(taken, args)), **arguments}
            args = args[len(taken) :]

        def body(native: Any) -> None:
            state = ProgramState(native, record)
            record.ret_value = self.func(state, *args, **arguments)
            if global_config.verbosity >= 2 and not _tracing.active:
                print(state.text())

        return body

    def _options(
        self, backend: Optional[Any], stream: bool, defaults: dict[str, Any]
    ) -> Any:
        native = None if backend is None and _tracing.active else native_backend(chosen_backend(backend))
        return _espalier.RunOptions(
            native, _espalier.GenOptions(**defaults), stream, self.num_api_spec_tokens or 0
        )

    def run(
        self,
        *args: Any,
        max_new_tokens: int = 128,
        n: int = 1,
        stop: Optional[Union[str, Sequence[str]]] = None,
        stop_token_ids: Optional[Sequence[int]] = None,
        stop_regex: Optional[Union[str, Sequence[str]]] = None,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = -1,
        min_p: float = 0.0,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        ignore_eos: bool = False,
        return_logprob: Optional[bool] = None,
        logprob_start_len: Optional[int] = None,
        top_logprobs_num: Optional[int] = None,
        return_text_in_logprobs: Optional[bool] = None,
        stream: bool = False,
        backend: Optional[Any] = None,
        use_thread: bool = True,
        **kwargs: Any,
    ) -> ProgramState:
        """Runs the program and gives its state when the function has returned; generations may still be going on.

        Called while another program is traced it calls nothing, and is recorded beside that.

        Args:
            args: the function's arguments behind ``s``.
            max_new_tokens: default of :func:`espalier.gen`'s ``max_tokens``; the following are its others.
            stream: the function runs in a thread of its own, and ``text_iter`` tells what comes.
            backend: an engine or a server; default :func:`espalier.set_default_backend`'s.
            use_thread: False carries out each thing that the function appends before it goes on; what fails is raised
                there. (No thread is used either way.)
            kwargs: the function's arguments by name.

        Raises:
            ProgramError: there is no back end.
            Exception: whatever the function raises.
        """
        defaults = gen_defaults(locals())
        record = RunRecord(inline=not use_thread and not _tracing.active)
        body = self.body(record, args, kwargs)
        if stream:
            body = _in_this_context(body)
        native = _espalier.run(body, self._options(backend, stream, defaults))
        record.inline = False
        return ProgramState(native, record)

    def run_batch(
        self,
        batch_kwargs: Sequence[Item],
        *,
        max_new_tokens: int = 128,
        n: int = 1,
        stop: Optional[Union[str, Sequence[str]]] = None,
        stop_token_ids: Optional[Sequence[int]] = None,
        stop_regex: Optional[Union[str, Sequence[str]]] = None,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = -1,
        min_p: float = 0.0,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        ignore_eos: bool = False,
        return_logprob: Optional[bool] = None,
        logprob_start_len: Optional[int] = None,
        top_logprobs_num: Optional[int] = None,
        return_text_in_logprobs: Optional[bool] = None,
        backend: Optional[Any] = None,
        num_threads: Union[int, Literal["auto"]] = "auto",
        progress_bar: bool = False,
        generator_style: bool = False,
    ) -> Union[list[ProgramState], Iterator[ProgramState]]:
        """Runs the program once for each item, at the same time; the states are in the items' order.

        Args:
            batch_kwargs: dicts of arguments by name, or tuples of them by position.
            num_threads: at most so many functions run at once; "auto": max(96, 16 x processors).
            progress_bar: a line on stderr.
            generator_style: gives an iterator that yields each state when it and those before it are done; at most
                200 are begun ahead.

        Raises:
            TypeError: a tuple with more or fewer values than the function has parameters.
            Exception: whatever a function raises.
        """
        self._refuse_while_tracing()
        items = [self.named(item) for item in batch_kwargs]
        if not items:
            return []
        options = self._options(backend, False, gen_defaults(locals()))
        threads = 0 if num_threads == "auto" else int(num_threads)
        records = [RunRecord() for _ in items]
        bodies = [_in_this_context(self.body(record, (), item)) for record, item in zip(records, items)]
        bar = ProgressBar(len(items)) if progress_bar else None
        self._precache(backend, len(items))
        batch = _espalier.batch(bodies, options, threads, 200 if generator_style else 0)
        states = batch_results(batch, records, bar)
        return states if generator_style else list(states)

    def named(self, item: Item) -> dict[str, Any]:
        """An item of a batch as arguments by name."""
        if isinstance(item, Mapping):
            return dict(item)
        least, most = len(self.arg_names) - len(self.arg_defaults), len(self.arg_names)
        if not isinstance(item, (list, tuple)) or not least <= len(item) <= most:
            raise TypeError(
                f"an item of run_batch must be a dict, or a tuple of {least if least == most else f'{least} to {most}'} "
                f"values for {', '.join(self.arg_names)}; this one is {item!r}"
            )
        return dict(zip(self.arg_names, item))

    def _refuse_while_tracing(self) -> None:
        if _tracing.active:
            why = f"the program {self.__name__} is compiled, or run as a batch, while another is traced"
            raise InvalidValueError(why, "bad_request", "", "traced_value")

    def trace(self, *, backend: Optional[Any] = None, **kwargs: Any) -> ProgramGraph:
        """The program as a graph: the function runs once, on placeholders for the arguments that are not given.

        Args:
            backend: not needed; upstream's programs give one.
            kwargs: arguments that the graph has as constants.

        Raises:
            TypeError: an argument without a value is put into an f-string.
            Exception: what the function raises, but for another TypeError or an AttributeError, which using a
                placeholder as a value brings about; the graph ends there (``ends_because``).
        """
        del backend
        constants, open_names = self._known_and_open(kwargs)
        body = self._traced_body(constants, open_names)
        formatted: list[FormattedArgumentError] = []

        def told(native: Any) -> None:
            try:
                body(native)
            except FormattedArgumentError as failure:
                formatted.append(failure)
                raise

        graph = ProgramGraph(_espalier.trace(self.__name__, open_names, told))
        if formatted:
            raise formatted[0]
        return graph

    def _traced_body(
        self, constants: Mapping[str, Any], open_names: Sequence[str], record: Optional[RunRecord] = None
    ) -> Callable[[Any], None]:
        """`record`: somebody wants what the function returns, so a trace ends there: a graph returns nothing."""
        told = record or RunRecord()
        body = self.body(told, (), {**constants, **{name: SglArgument(name) for name in open_names}})

        def traced(native: Any) -> None:
            before, _tracing.active = _tracing.active, True
            try:
                body(native)
            finally:
                _tracing.active = before
            if record is not None and told.ret_value is not None:
                raise InvalidValueError("the function returns a value", "bad_request", "", "traced_value")

        return traced

    def _known_and_open(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Arguments that a trace knows, and those that stay open: without a value, or with text as their default."""
        defaults = dict(zip(self.arg_names[len(self.arg_names) - len(self.arg_defaults) :], self.arg_defaults))
        known = {name: value for name, value in defaults.items() if not isinstance(value, str)}
        known.update(given)
        known.update(self.bind_arguments)
        return known, [name for name in self.arg_names if name not in known]

    def cache(self, backend: Optional[Any] = None) -> None:
        """Computes what every run of the program begins with, so that the runs find it in the prefix cache.

        Nothing is done when that is 64 characters or less. ``run_batch`` does so by itself.
        """
        native = native_backend(chosen_backend(backend))
        constants, open_names = self._known_and_open({})
        graph = _espalier.trace(self.__name__, open_names, self._traced_body(constants, open_names))
        prefix = str(_espalier.constant_prefix(graph, native))
        if len(prefix) > _LEAST_PREFIX:
            native.cache_prefix(prefix)

    def _precache(self, backend: Optional[Any], items: int) -> None:
        """What a batch has in common is computed first; where that fails, each run says so itself."""
        native = native_backend(chosen_backend(backend))
        if items < 2 or not global_config.enable_precache_with_tracing or not native.keeps_prefixes():
            return
        try:
            self.cache(backend)
        except Exception:  # the function's own, met before its time
            pass

    def compile(
        self,
        *,
        backend: Optional[Any] = None,
        outputs: Optional[Sequence[str]] = None,
        meta_read: bool = True,
        passes: Optional[Mapping[str, bool]] = None,
        tuning_folder: Optional[Union[str, "os.PathLike[str]"]] = None,
        submit_runs: bool = False,
        max_new_tokens: int = 128,
        n: int = 1,
        stop: Optional[Union[str, Sequence[str]]] = None,
        stop_token_ids: Optional[Sequence[int]] = None,
        stop_regex: Optional[Union[str, Sequence[str]]] = None,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = -1,
        min_p: float = 0.0,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        ignore_eos: bool = False,
        return_logprob: Optional[bool] = None,
        logprob_start_len: Optional[int] = None,
        top_logprobs_num: Optional[int] = None,
        return_text_in_logprobs: Optional[bool] = None,
        **known: Any,
    ) -> CompiledFunction:
        """The program made cheaper: it is traced, the graph is improved, and runs carry the graph out.

        A function that looks at values while it runs, or returns one, cannot be replaced by a graph; it is run, and
        compiled from one look to the next. ``include/espalier/compiler.h`` tells what the passes do.

        Args:
            backend: that will run it; None: :func:`espalier.set_default_backend`'s of each run. While there is none,
                the program is traced, and compiled for the first that is set.
            outputs: names of the variables that are read afterwards; what only others need is left out. None: all, and
                the text.
            meta_read: whether meta info of the program's own state is read afterwards; where it is not, more selects
                are carried out without scoring every choice.
            passes: name to on or off: ``fold_constants``, ``move_pieces`` (off unless asked for: it changes prompts,
                where they are :func:`espalier.movable`), ``merge_equal``, ``drop_dead``, ``choice_paths``,
                ``choice_grammar`` (off unless asked for: selects are generated, held to their choices, and may take
                others than their method would), ``share_samples``, ``chain_calls``, ``hoist_prefix``,
                ``plan_speculation``, ``submit_batches``.
            tuning_folder: where :meth:`CompiledFunction.tune` keeps what it found.
            submit_runs: on an Espalier server a single run is one request too, as a batch is; its variables are there
                when all of it has ended.
            max_new_tokens: and those behind it: as :meth:`run`.
            known: arguments that are constants of the compiled program.

        Raises:
            ProgramError: there is no such pass.
        """
        options = {name: value for name, value in locals().items() if name not in ("self", "known")}
        self._refuse_while_tracing()
        defaults = _espalier.GenOptions(**gen_defaults(options))
        constants, open_names = self._known_and_open(known)

        def body() -> Callable[[Any], None]:
            return self._traced_body(constants, open_names, RunRecord())

        def make(chosen: Any) -> Made:
            settings = compile_settings(chosen, defaults, outputs, meta_read, passes, tuning_folder, submit_runs)
            program = _espalier.compile(self.__name__, open_names, body(), settings)
            return program, _espalier.FollowedFunction(settings) if program.graph.ends_because else None

        def again(other: Mapping[str, Any]) -> CompiledFunction:
            return self.compile(**{**options, **other}, **known)

        def trace() -> Any:
            return _espalier.trace(self.__name__, open_names, body())

        return CompiledFunction(self, backend, trace, make, constants, again)

    def __call__(self, *args: Any, **kwargs: Any) -> ProgramState:
        return self.run(*args, **kwargs)
