"""How far a batch is, as one line on stderr."""

from __future__ import annotations

import sys
from typing import Optional, TextIO


class ProgressBar:
    """Redraws its line when a percent has passed; a stderr that is no terminal gets the last one only."""

    def __init__(self, total: int, stream: Optional[TextIO] = None) -> None:
        self._total = total
        self._stream = stream if stream is not None else sys.stderr
        self._shown = -1

    def __call__(self, done: int) -> None:
        percent = 100 * done // self._total
        if percent == self._shown:
            return
        self._shown = percent
        if self._stream.isatty() or done == self._total:
            filled = 30 * done // self._total
            self._stream.write(f"\r[{'#' * filled}{'.' * (30 - filled)}] {done}/{self._total}")
            self._stream.flush()

    def close(self) -> None:
        """Ends the line."""
        if self._shown >= 0:
            self._stream.write("\n")
            self._stream.flush()
