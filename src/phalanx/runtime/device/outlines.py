"""Runs of the library for the sake of its results' shapes: nothing is launched, and no array has memory.

A framework that traces a program asks what a function gives for arrays of which only the outlines are known: shapes,
strides and types, and the shapes may hold symbols. The function itself answers: within `outlines_only` it checks its
arguments and makes its results as ever, kernels are not launched, and arrays are described without their pointers. So no
rule of a result's shape is written twice. Sizes that are symbols are compared, which the framework notes; nothing chooses
tiles by them.
`launch.outlining` has `outlines_only`, which also keeps launches from being repeated unseen.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Mode(threading.local):
    """Whether this thread's calls are for shapes alone."""

    active = False


_MODE = _Mode()


def is_outlined() -> bool:
    """Whether this thread's calls are for shapes alone: results are made, and nothing is launched."""
    return _MODE.active


@contextmanager
def outlined() -> Iterator[None]:
    """Within it, this thread's calls are for shapes alone."""
    former, _MODE.active = _MODE.active, True
    try:
        yield
    finally:
        _MODE.active = former


__all__ = ["is_outlined", "outlined"]
