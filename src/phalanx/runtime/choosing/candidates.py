"""Combinations of constants that are `px.choose`."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from phalanx.errors import Error
from phalanx.language.choose import Choose
from phalanx.language.kernel import Kernel

MOST = 4096
"""Combinations of one launch."""


def has_choice(constants: dict[str, Any]) -> bool:
    """Whether a constant has several candidates."""
    return any(type(value) is Choose for value in constants.values())


def combinations(kernel: Kernel, constants: dict[str, Any]) -> list[dict[str, Any]]:
    """All constants of each combination, in the order in which candidates were written; the last one changes first."""
    open_ones = {name: value.values for name, value in constants.items() if type(value) is Choose}
    count = prod(map(len, open_ones.values()))
    if count > MOST:
        sizes = " x ".join(str(len(values)) for values in open_ones.values())
        raise Error(
            f"kernel '{kernel.name}' has {count:,} combinations of px.choose ({sizes}), and {MOST:,} at most are ranked",
            location=kernel.location,
            remedy="give some of the constants, or fewer values",
        )
    return [{**constants, **dict(zip(open_ones, values))} for values in product(*open_ones.values())]


def first_combination(constants: dict[str, Any]) -> dict[str, Any]:
    """The first candidates, for what is the same with all of them."""
    return {name: value.values[0] if type(value) is Choose else value for name, value in constants.items()}


def chosen_part(constants: dict[str, Any], combination: dict[str, Any]) -> dict[str, Any]:
    """The constants of a combination that were chosen."""
    return {name: combination[name] for name, value in constants.items() if type(value) is Choose}


def named(part: dict[str, Any]) -> str:
    """Constants as messages name them: ``BM=128, BN=256``."""
    return ", ".join(f"{name}={value!r}" for name, value in part.items())
