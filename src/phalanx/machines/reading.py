"""Cards as files of numbers: what a JSON file says, as an instance of `Machine`.

Objects are dataclasses or mappings, arrays are tuples. A key of a mapping that is no string is written as JSON without
brackets: `"2, true"` is the key `(2, True)`. An object may begin like one beside it and name only what differs:
`{"like": "split", "hbm": 4.9e6}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from phalanx.machines.model import Machine


def machine(name: str) -> Machine:
    """The card whose numbers are in the file `name`.json beside this one.

    Anyone may call it; no hardware is involved. Example: ``machine("h200").sms == 132``.
    """
    found: Machine = read(Machine, json.loads((Path(__file__).parent / f"{name}.json").read_text()))
    return found


def read(kind: Any, given: Any) -> Any:
    """What a file says, as a value of a type: a dataclass, a mapping, tuples or a number."""
    if is_dataclass(kind):
        return _instance(kind, given)
    if get_origin(kind) is Mapping:
        keys, values = get_args(kind)
        return {(key if keys is str else _key(key)): read(values, value) for key, value in given.items()}
    return tuple(read(Any, each) for each in given) if isinstance(given, list) else given


def _instance(kind: Any, given: dict[str, Any]) -> Any:
    """An instance of a dataclass; a name that it has no field for, or that is not given, is refused."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    if unknown := given.keys() - set(names):
        raise ValueError(f"{kind.__name__} has no {sorted(unknown)}")
    return kind(**{name: read(hints[name], _whole(given[name], given)) for name in names if name in given})


def _whole(value: Any, beside: dict[str, Any]) -> Any:
    """An object with what it leaves out taken from the object beside it that it is like."""
    if not isinstance(value, dict) or "like" not in value:
        return value
    own = {name: each for name, each in value.items() if name != "like"}
    return {**_whole(beside[value["like"]], beside), **own}


def _key(text: str) -> Any:
    """A key that is a number or a tuple."""
    found = json.loads(f"[{text}]")
    return tuple(found) if len(found) > 1 else found[0]
