"""Folds and scans by a function of two elements: its instructions run on whole tiles at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phalanx.ir.core import Op, operand_fields, substitute
from phalanx.ir.ops.tile import Combine
from phalanx.ir.types import TileType
from phalanx.ir.values import Const, Value
from phalanx.sim.agents import Agent
from phalanx.sim.numerics import scalar_of
from phalanx.sim.registry import meaning_of

Arrays = Sequence[np.ndarray]


class Combined:
    """The function, applied to as many pairs of elements as there are: each instruction's own meaning, on tiles."""

    def __init__(self, by: Combine, agent: Agent) -> None:
        self.by, self.agent = by, agent
        self._programs: dict[int, list[tuple[Op, Callable[..., Any]]]] = {}

    def __call__(self, left: Arrays, right: Arrays, taken: Sequence[Any]) -> list[np.ndarray]:
        size = left[0].size
        known: dict[Value, Any] = dict(
            zip(self.by.params, [*(part.reshape(-1) for part in (*left, *right)), *taken], strict=True)
        )

        def value(item: Any) -> Any:
            if isinstance(item, Const):
                return scalar_of(item.value, item.type.dtype)
            return known[item] if isinstance(item, Value) else item

        for op, run in self._program(size):
            assert op.defines is not None
            known[op.defines] = run(*(value(getattr(op, name)) for name in operand_fields(type(op))))
        results = []
        for part, result in zip(left, self.by.results, strict=True):
            found = np.asarray(value(result), result.type.dtype.numpy)
            results.append(np.broadcast_to(found, (size,)).reshape(part.shape))
        return results

    def _program(self, size: int) -> list[tuple[Op, Callable[..., Any]]]:
        """Each instruction with what runs it on tiles of `size` elements."""
        program = self._programs.get(size)
        if program is None:
            made = [*self.by.params[: 2 * len(self.by.results)], *(op.defines for op in self.by.ops)]
            wide = {value: Value(TileType((size,), value.type.dtype)) for value in made if value is not None}
            program = self._programs[size] = [
                (op, meaning_of(op).prepare(_widened(op, wide), self.agent)) for op in self.by.ops
            ]
        return program


def _widened(op: Op, wide: dict[Value, Value]) -> Op:
    """An instruction on scalars as one on tiles."""
    assert op.defines is not None
    return dataclasses.replace(substitute(op, wide), result=wide[op.defines])  # type: ignore[call-arg]


def fold(function: Combined, xs: Arrays, axis: int, taken: Sequence[Any]) -> list[np.ndarray]:
    """Neighbours are joined in pairs until one element is left; the axis stays, with that one."""
    parts = [np.moveaxis(np.asarray(x), axis, 0) for x in xs]
    while (count := parts[0].shape[0]) > 1:
        pairs = count // 2 * 2
        joined = function([p[0:pairs:2] for p in parts], [p[1:pairs:2] for p in parts], taken)
        parts = [np.concatenate([new, old[pairs:]]) for new, old in zip(joined, parts, strict=True)]
    return [np.moveaxis(part, 0, axis) for part in parts]


def scan(function: Combined, xs: Arrays, axis: int, taken: Sequence[Any]) -> list[np.ndarray]:
    """Each element takes what is 1, 2, 4 and so on places before it, until nothing is left to take."""
    parts = [np.moveaxis(np.asarray(x), axis, 0) for x in xs]
    step = 1
    while step < parts[0].shape[0]:
        joined = function([p[:-step] for p in parts], [p[step:] for p in parts], taken)
        parts = [np.concatenate([old[:step], new]) for new, old in zip(joined, parts, strict=True)]
        step *= 2
    return [np.moveaxis(part, 0, axis) for part in parts]
