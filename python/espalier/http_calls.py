"""Requests to a server's own routes: JSON in, JSON or events out. Python's own library only."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from typing import Any, AsyncIterator, Iterable, Iterator, Optional
from urllib.parse import urlsplit

from espalier.errors import ProgramError, error_of_reply


def events_of(lines: Iterable[bytes]) -> Iterator[Any]:
    """The JSON of each ``data:`` line, until ``[DONE]``.

    Raises:
        ProgramError: an event that is an error.
    """
    for line in lines:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            return
        event = json.loads(data)
        if isinstance(event, dict) and "error" in event:
            raise error_of_reply(500, event)
        yield event


def read_reply(status: int, body: bytes) -> Any:
    """The JSON of an answer, or its text where it is none.

    Raises:
        ProgramError: an answer that is a refusal.
    """
    text = body.decode("utf-8", "replace")
    try:
        reply = json.loads(text) if text else None
    except ValueError:
        reply = text
    if status >= 400:
        raise error_of_reply(status, reply)
    return reply


class HttpServer:
    """A server at an address. Each call opens its own connection; a dropped one is cancelled there."""

    def __init__(self, base_url: str, api_key: Optional[str] = None, timeout: float = 600) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise error_of_reply(400, {"message": f"{base_url} is no address of a server", "param": "base_url"})
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or (443 if self._secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json", "Connection": "close"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def json(self, method: str, path: str, body: Optional[dict[str, Any]] = None) -> Any:
        """One call and its JSON.

        Raises:
            ProgramError: no connection, or a refusal.
        """
        connection = self._connect()
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, self._prefix + path, body=sent, headers=self._headers)
            response = connection.getresponse()
            return read_reply(response.status, response.read())
        except (OSError, http.client.HTTPException) as failure:
            raise self._unreachable(failure) from failure
        finally:
            connection.close()

    def events(self, path: str, body: dict[str, Any]) -> Iterator[Any]:
        """The events of a streamed answer."""
        connection = self._connect()
        try:
            connection.request("POST", self._prefix + path, body=json.dumps(body), headers=self._headers)
            response = connection.getresponse()
            if response.status >= 400:
                read_reply(response.status, response.read())
            yield from events_of(response)
        except (OSError, http.client.HTTPException) as failure:
            raise self._unreachable(failure) from failure
        finally:
            connection.close()

    async def async_json(self, method: str, path: str, body: Optional[dict[str, Any]] = None) -> Any:
        """:meth:`json` for an event loop."""
        status, lines, writer = await self._begin(method, path, body)
        try:
            return read_reply(status, b"".join([piece async for piece in lines]))
        finally:
            writer.close()

    async def async_events(self, path: str, body: dict[str, Any]) -> AsyncIterator[Any]:
        """:meth:`events` for an event loop."""
        status, pieces, writer = await self._begin("POST", path, body)
        try:
            if status >= 400:
                read_reply(status, b"".join([piece async for piece in pieces]))
            rest = b""
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for event in events_of(lines):
                    yield event
        finally:
            writer.close()

    async def _begin(
        self, method: str, path: str, body: Optional[dict[str, Any]]
    ) -> tuple[int, AsyncIterator[bytes], asyncio.StreamWriter]:
        data = b"" if body is None else json.dumps(body).encode()
        fields = {**self._headers, "Host": f"{self._host}:{self._port}", "Content-Length": str(len(data))}
        head = f"{method} {self._prefix}{path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields.items())
        try:
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=ssl.create_default_context() if self._secure else None
            )
            writer.write(head.encode("latin-1") + b"\r\n" + data)
            await writer.drain()
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as failure:
            raise self._unreachable(failure) from failure
        chunked = any(line.lower().replace(" ", "") == "transfer-encoding:chunked" for line in lines)
        return int(lines[0].split()[1]), _chunks(reader) if chunked else _rest(reader), writer

    def _unreachable(self, failure: BaseException) -> ProgramError:
        return ProgramError(f"http{'s' if self._secure else ''}://{self._host}:{self._port}: {failure}", "network")


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while (size := int((await reader.readline()).split(b";")[0], 16)) > 0:
        yield await reader.readexactly(size)
        await reader.readline()


async def _rest(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while piece := await reader.read(1 << 16):
        yield piece
