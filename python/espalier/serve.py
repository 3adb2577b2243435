"""A Ray Serve deployment of the server: ``serve.run(deployment({"model": "smollm2-135m"}, num_replicas=2))``.

Each replica is an ``espalier serve`` of its own, as a child of the actor; what comes over HTTP goes to it as it is, and back.
Needs ``ray[serve]``, which is imported when :func:`deployment` is called.
"""

from __future__ import annotations

import importlib
import json
import re
from typing import Any, Optional

from espalier.http_calls import HttpServer
from espalier.runtime import Runtime

_OF_THIS_HOP = ("connection", "content-length", "host", "keep-alive", "transfer-encoding")  # headers


def _rank() -> int:
    """The number of this replica among those that run, from 0."""
    rank = importlib.import_module("ray.serve").get_replica_context().rank
    return int(getattr(rank, "rank", rank))  # a number in Ray 2.51, then an object with three


def events_of_rank(config: "str | dict[str, Any]", rank: int) -> "dict[str, Any]":
    """``kv_events_config`` of a replica: ports of TCP are those that are given plus its rank, so that replicas of one host
    do not want the same, and a reader knows where each is."""
    values = dict(json.loads(config) if isinstance(config, str) else config)
    for name in ("endpoint", "replay_endpoint"):
        if found := re.fullmatch(r"(tcp://.*:)(\d+)", values.get(name) or ""):
            values[name] = found[1] + str(int(found[2]) + rank)
    return values


class Replica:
    """One server and the way to it."""

    def __init__(self, server_args: "dict[str, Any]") -> None:
        if config := server_args.get("kv_events_config"):
            server_args = {**server_args, "kv_events_config": events_of_rank(config, _rank())}
        self._server = Runtime(**{"log_level": "warning", **server_args})
        self._calls = HttpServer(self._server.url, server_args.get("api_key"))
        self._session: Any = None

    async def __call__(self, request: Any) -> Any:  # of Starlette
        if self._session is None:  # of the loop that the actor runs in
            self._session = importlib.import_module("aiohttp").ClientSession(timeout=None, auto_decompress=False)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OF_THIS_HOP}
        path = self._server.url + request.url.path + (f"?{request.url.query}" if request.url.query else "")
        reply = await self._session.request(request.method, path, data=await request.body(), headers=headers)
        headers = {name: value for name, value in reply.headers.items() if name.lower() not in _OF_THIS_HOP}
        responses = importlib.import_module("starlette.responses")
        return responses.StreamingResponse(self._pass_on(reply), reply.status, headers)

    async def generate(self, request: Any) -> Any:
        """For handles, and for Ray's routers by prefix, which look at ``request.prompt``: /generate's reply, whole."""
        body = {"text": request.prompt, "sampling_params": getattr(request, "sampling_params", None) or {}}
        return await self._calls.async_json("POST", "/generate", body)

    async def check_health(self) -> None:
        await self._calls.async_json("GET", "/health")

    def __del__(self) -> None:
        if hasattr(self, "_server"):
            self._server.shutdown()

    async def _pass_on(self, reply: Any) -> Any:
        async with reply:  # a caller that leaves ends the request
            async for piece in reply.content.iter_any():
                yield piece


def deployment(server_args: "Optional[dict[str, Any]]" = None, **options: Any) -> Any:
    """The bound deployment. ``server_args``: flags of ``espalier serve``, with underscores; ``options``: those of
    ``ray.serve.deployment`` (``num_replicas``, ``ray_actor_options``, ``request_router_config``, ...)."""
    serve = importlib.import_module("ray.serve")
    return serve.deployment(Replica).options(**{"name": "espalier", "max_ongoing_requests": 64, **options}).bind(server_args or {})
