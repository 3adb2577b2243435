"""The modules use each other only in the allowed direction, without rings, in CMake and in every #include."""

import pathlib
import re
import sys

ALLOWED = {
    "base": "", "ranks": "base", "tensor": "base", "text": "base", "net": "base", "image": "base",
    "sampling": "base tensor", "kernels": "base tensor", "cache": "base tensor", "grammar": "base text",
    "model": "base tensor kernels ranks", "device": "base tensor kernels model ranks sampling",
    "engine": "base tensor text image grammar cache sampling model device ranks",
    "lang": "base net text grammar engine", "server": "base net text image engine lang",
}
ALLOWED = {module: set(uses.split()) for module, uses in ALLOWED.items()}


def linked(edges):
    for edge in edges:
        module, used = edge.split(":")
        if used not in ALLOWED[module]:
            yield f"src/CMakeLists.txt: {module} links {used}, which docs/walk.md does not allow"


def included(root):
    for module in ALLOWED:
        for path in sorted((root / "src" / module).rglob("*")):
            if path.suffix not in {".h", ".cpp", ".cu", ".inc"}:
                continue
            for other in re.findall(r'#include "([a-z_]+)/', path.read_text()):
                if other in ALLOWED and other != module and other not in ALLOWED[module]:
                    yield f"{path.relative_to(root)} includes from {other}, but {module} may not use it"


def rings():
    state = {}

    def visit(module, trail):
        if state.get(module) == "done":
            return
        if module in trail:
            yield "ring: " + " -> ".join([*trail[trail.index(module):], module])
            return
        for used in sorted(ALLOWED[module]):
            yield from visit(used, [*trail, module])
        state[module] = "done"

    for module in ALLOWED:
        yield from visit(module, [])


def header_rings(root):
    """No ring of #include among the headers, within a module or across."""
    headers = {str(p.relative_to(root / "src")): p for p in (root / "src").rglob("*.h")}
    graph = {name: [i for i in re.findall(r'#include "([^"]+)"', path.read_text()) if i in headers]
             for name, path in headers.items()}
    done = set()

    def visit(name, trail):
        if name in done:
            return
        if name in trail:
            yield "ring of headers: " + " -> ".join([*trail[trail.index(name):], name])
            return
        for used in graph[name]:
            yield from visit(used, [*trail, name])
        done.add(name)

    for name in graph:
        yield from visit(name, [])


def main():
    root = pathlib.Path(sys.argv[1])
    edges = [e for argument in sys.argv[2:] for e in argument.split(";") if e]
    problems = [*linked(edges), *included(root), *rings(), *header_rings(root)]
    print("\n".join(problems) or f"{len(edges)} links between {len(ALLOWED)} modules, all in the allowed direction")
    return 1 if problems or not edges else 0


sys.exit(main())
