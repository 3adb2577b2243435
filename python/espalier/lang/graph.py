"""Programs as data."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

from espalier import _espalier
from espalier.lang.run_defaults import gen_defaults

if TYPE_CHECKING:
    from espalier.lang.compiler import CompiledFunction, Made


class ProgramGraph:
    """A program as data: what it says, generates, chooses, forks and joins, in order. A value.

    Attributes:
        name: of the program.
        parameters: arguments that were left open.
        ends_because: why the trace ended before the function did; "" when it did not.
    """

    def __init__(self, native: Any) -> None:
        self.native = native
        self.name: str = native.name
        self.parameters: list[str] = native.parameters
        self.ends_because: str = native.ends_because

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """Each node: ``stream`` (the state it is of), ``kind``, and what belongs to its kind."""
        nodes: list[dict[str, Any]] = self.native.to_json()["nodes"]
        return nodes

    @property
    def variables(self) -> dict[str, int]:
        """The names that the program's own state sets, each with the number of the node that does so last."""
        kinds = ("gen", "select", "scope_end", "sample")
        return {
            node["name"]: i
            for i, node in enumerate(self.nodes)
            if node["stream"] == 0 and node["kind"] in kinds and node["name"]
        }

    @property
    def child_states(self) -> list[int]:
        """The streams that were forked off, by number; the program's own is 0."""
        return [child for node in self.nodes if node["kind"] == "fork" for child in node["children"]]

    def flatten_nodes(self) -> list[dict[str, Any]]:
        """The nodes in an order in which they can be carried out: :attr:`nodes`."""
        return self.nodes

    def print_graph_dfs(self) -> str:
        """Prints a line for each node, a fork's children below it; gives the same text, as upstream's does."""
        print(self, end="")
        return str(self)

    def __str__(self) -> str:
        text: str = self.native.text()
        return text

    def to_json(self) -> dict[str, Any]:
        """The graph with its version; what ``POST /v1/programs`` and ``espalier program`` take."""
        value: dict[str, Any] = self.native.to_json()
        return value

    @staticmethod
    def from_json(value: Union[str, Mapping[str, Any]]) -> "ProgramGraph":
        """A graph that was written down: the value, or its text.

        Raises:
            ProgramError: it is none; with the node at fault.
        """
        return ProgramGraph(_espalier.Graph.from_json(value if isinstance(value, str) else json.dumps(value)))

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes :meth:`to_json` to a file."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.to_json(), file, indent=1)

    @staticmethod
    def load(path: Union[str, "os.PathLike[str]"]) -> "ProgramGraph":
        """What :meth:`save` wrote."""
        with open(path, encoding="utf-8") as file:
            return ProgramGraph.from_json(file.read())

    def compile(
        self,
        *,
        backend: Optional[Any] = None,
        outputs: Optional[Sequence[str]] = None,
        meta_read: bool = True,
        passes: Optional[Mapping[str, bool]] = None,
        tuning_folder: Optional[Union[str, "os.PathLike[str]"]] = None,
        submit_runs: bool = False,
        **defaults: Any,
    ) -> "CompiledFunction":
        """The graph as a program that runs: as :meth:`SglFunction.compile`.

        Args:
            defaults: of the runs, by the names of :func:`espalier.gen` (``max_tokens``, ``temperature``, ...).

        Raises:
            ProgramError: the graph is only the beginning of its program (without a back end: when one is there).
        """
        from espalier.lang.compiler import CompiledFunction, GraphProgram, compile_settings

        native_defaults = _espalier.GenOptions(**defaults)

        def make(chosen: Any) -> "Made":
            settings = compile_settings(chosen, native_defaults, outputs, meta_read, passes, tuning_folder, submit_runs)
            return _espalier.compile_graph(self.native, settings), None

        def again(other: Mapping[str, Any]) -> "CompiledFunction":
            return self.compile(
                backend=other.get("backend", backend),
                outputs=outputs,
                meta_read=meta_read,
                passes=passes,
                tuning_folder=tuning_folder,
                submit_runs=submit_runs,
                **{**defaults, **gen_defaults(other)},
            )

        return CompiledFunction(GraphProgram(self), backend, lambda: self.native, make, {}, again)

    def dot(self) -> str:
        """The picture in the language of Graphviz."""
        text: str = self.native.dot()
        return text

    def svg(self) -> str:
        """The picture, as an SVG file's text."""
        text: str = self.native.svg()
        return text

    def _repr_svg_(self) -> str:  # notebooks
        return self.svg()
