"""Pictures as Python programs have them."""

from __future__ import annotations

import io
from typing import Any


def picture_bytes(picture: Any) -> bytes:
    """The bytes of a picture file: as they are, or a ``PIL.Image`` written as PNG.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(picture, (bytes, bytearray, memoryview)):
        return bytes(picture)
    if not hasattr(picture, "save"):
        raise TypeError(f"a picture is a path, bytes or a PIL image, not {type(picture).__name__}")
    out = io.BytesIO()
    picture.save(out, format="PNG")
    return out.getvalue()
