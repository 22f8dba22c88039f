"""What is found out about a function is found out once: IR never changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from phalanx.ir.core import Function

Found = TypeVar("Found")


def once(find: Callable[[Function], Found]) -> Callable[[Function], Found]:
    """`find`, whose answers are kept as long as their functions live (and so must not hold on to them)."""
    known: WeakKeyDictionary[Function, Found] = WeakKeyDictionary()

    @wraps(find)
    def found(function: Function) -> Found:
        answer = known.get(function)
        if answer is None:
            answer = known[function] = find(function)
        return answer

    return found
