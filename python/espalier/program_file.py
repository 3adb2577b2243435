"""Where the program ``espalier`` of this package is."""

from __future__ import annotations

import os
import shutil
import sysconfig
from importlib import metadata
from pathlib import Path

from espalier.errors import ProgramError


def _installed() -> "Path | None":
    try:
        files = metadata.files("espalier") or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "espalier" and file.parent.name in ("bin", "Scripts"):
            return Path(str(file.locate()))
    return None


def program_file() -> str:
    """The path of the program: ESPALIER_BINARY, the one that was installed with this package, or one on the PATH.

    Raises:
        ProgramError: there is none.
    """
    candidates = [
        os.environ.get("ESPALIER_BINARY"),
        _installed(),
        Path(sysconfig.get_path("scripts")) / "espalier",
        shutil.which("espalier"),
    ]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return str(candidate)
    raise ProgramError(
        "the program espalier is not installed: pip install puts it beside python, and ESPALIER_BINARY names another",
        "not_found",
    )
