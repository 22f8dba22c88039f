"""How a card's file of numbers is laid out: a line for each number, or for each list that fits one."""

from __future__ import annotations

import json
from typing import Any

LINE = 100
"""Characters of a line, at most, where there is a choice."""


def text_of(value: Any, indent: int = 0) -> str:
    """JSON with an object's names in lines of their own, and lists in one line where they fit it."""
    flat, pad = json.dumps(value), " " * (indent + 2)
    nested = isinstance(value, dict) and (indent == 0 or any(isinstance(each, dict) for each in value.values()))
    if not isinstance(value, dict | list) or (len(flat) + indent < LINE and not nested):
        return flat
    if isinstance(value, dict):
        lines = [f"{pad}{json.dumps(name)}: {text_of(each, indent + 2)}" for name, each in value.items()]
    else:
        lines = [pad + text_of(each, indent + 2) for each in value]
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return "\n".join((opening, ",\n".join(lines), " " * indent + closing))
