"""Keyword arguments of ``Engine`` and ``Runtime`` as words of the command line, which says what each means."""

from __future__ import annotations

import json
from typing import Any, Mapping


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """``{"model_path": "m", "max_total_tokens": 4096, "strict": True}`` -> ``--model-path m --max-total-tokens 4096 --strict``.

    None and False are left out, a list gives the flag several times, a dict is JSON.
    """
    words: list[str] = []
    for name, value in arguments.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
            continue
        for each in value if isinstance(value, (list, tuple)) else (value,):
            words.append(f"{flag}={json.dumps(each) if isinstance(each, dict) else each}")
    return words
