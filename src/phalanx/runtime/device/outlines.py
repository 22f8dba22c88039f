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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class _Mode(threading.local):
    """Whether this thread's calls are for shapes alone; who gets its launches in the place of a GPU, and of which one."""

    active = False
    taker: Callable[..., None] | None = None
    device: Any = None
    listener: Callable[..., None] | None = None


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


def launch_taker() -> Callable[..., None] | None:
    """Who gets this thread's launches: the launch, its arguments and its constants. None: they run."""
    return _MODE.taker


def assumed_device() -> Any:
    """The device that `px.device` describes to this thread in the place of a real one; None: a real one, if there is."""
    return _MODE.device


@contextmanager
def taking_launches(taker: Callable[[Any, tuple[Any, ...], dict[str, Any]], None], device: Any = None) -> Iterator[None]:
    """Within it, this thread's launches go to `taker` and do not run. Results are made and tiles chosen as for `device`."""
    former, _MODE.taker, _MODE.device = (_MODE.taker, _MODE.device), taker, device
    try:
        yield
    finally:
        _MODE.taker, _MODE.device = former


def tell_launch(launch: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> None:
    """Tells who listens that a kernel is about to be launched, checked or compiled with these arguments."""
    if _MODE.listener is not None:
        _MODE.listener(launch, args, constants)


@contextmanager
def listening_to_launches(listener: Callable[[Any, tuple[Any, ...], dict[str, Any]], None]) -> Iterator[None]:
    """Within it, `listener` is told of this thread's launches, checks and compilations before they are made."""
    former, _MODE.listener = _MODE.listener, listener
    try:
        yield
    finally:
        _MODE.listener = former
