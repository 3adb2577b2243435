"""Graphs as programs send them: shorthands for the nodes of version 1."""


def graph(*nodes, parameters=(), streams=1):
    return {"version": 1, "name": "test", "parameters": list(parameters), "streams": streams, "nodes": list(nodes)}


def text(what, of=0):
    return {"stream": of, "kind": "text", "text": what}


def argument(name, of=0):
    return {"stream": of, "kind": "argument", "name": name}


def gen(name, of=0, **options):
    return {"stream": of, "kind": "gen", "name": name, "options": options}


def embed(name, what, of=0):
    return ({"stream": of, "kind": "scored_text"}, text(what, of), {"stream": of, "kind": "score", "of": "embed", "name": name, "texts": 1})


def select(name, *choices, of=0):
    return {"stream": of, "kind": "select", "name": name, "choices": list(choices)}


def variable(name, source, of=0):
    return {"stream": of, "kind": "variable", "name": name, "of": source}


def scope(name, *inside, of=0):
    return ({"stream": of, "kind": "scope_begin", "name": name}, *inside, {"stream": of, "kind": "scope_end", "name": name})


def fork(*children, of=0):
    return {"stream": of, "kind": "fork", "children": list(children)}


def join(*children, of=0, mode="gather_variable"):
    return {"stream": of, "kind": "join", "children": list(children), "mode": mode}
