"""Waiting for the library inside an event loop.

One event file descriptor a loop: the library's threads write to it without touching Python, and the loop wakes whoever
waits. Nothing is polled, and no thread waits for another.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any
from weakref import WeakKeyDictionary

from espalier import _espalier


class _LoopWaker:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._native = _espalier.waker()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._keys = itertools.count()
        loop.add_reader(self._native.fileno(), self._wake)

    def _wake(self) -> None:
        for key in self._native.take():
            future = self._waiting.pop(key, None)
            if future is not None and not future.done():
                future.set_result(None)

    async def wait(self, source: Any) -> None:
        key = next(self._keys)
        future = asyncio.get_running_loop().create_future()
        self._waiting[key] = future
        try:
            source.notify(self._native, key)
            await future
        finally:
            self._waiting.pop(key, None)


_wakers: "WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWaker]" = WeakKeyDictionary()


async def ready(source: Any) -> None:
    """Returns when ``source`` (one of the library's, with ``notify``) has something: its next read will not wait."""
    loop = asyncio.get_running_loop()
    waker = _wakers.get(loop)
    if waker is None:
        waker = _wakers[loop] = _LoopWaker(loop)
    await waker.wait(source)
