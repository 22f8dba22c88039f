"""The index arithmetic in generated text, evaluated for every register, lane and warp: the layouts' own numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phalanx.analysis.divisibility import Divisibility
from phalanx.cuda.plan import Plan
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.coordinates import Coordinates
from phalanx.cuda.tiles.index import axis_projection, broadcast_slots, local_slots, plus, slot_expression
from phalanx.cuda.tiles.shared_access import Offsets
from phalanx.ir.archs import arch_of
from phalanx.ir.core import Block, Function
from phalanx.ir.types import I32
from phalanx.ir.values import Value
from phalanx.layouts import RegisterLayout, SharedLayout, best_vector, blocked, shared_offsets, wgmma_accumulator


def writer(warps: int) -> Writer:
    function = Function("k", (), (), warps, (1, 1, 1), True, (), (), Block())
    return Writer(Plan(function, arch_of("sm_90a")))


def evaluate(w: Writer, text: Callable[[str], str], count: int, step: int, warps: int, **known: int) -> np.ndarray:
    """[position, lane, warp]: what an expression of the loop variable `i` is, given the declarations written so far."""
    names: dict[str, Any] = {
        "px_lane": np.arange(32)[:, None], "px_warp_id": np.arange(warps)[None, :], **known,
        "swizzle": lambda mask, offset: offset ^ (offset >> 3 & mask),
    }
    before = len(w.body())
    expression = python(text("i"))
    for line in w.body()[:before] + w.body()[before:]:
        table = re.fullmatch(r"\s*constexpr int (\w+)\[\d+\] = \{(.*)\};", line)
        scalar = re.fullmatch(r"\s*const int (\w+) = (.*);", line)
        if table:
            names[table[1]] = [int(n) for n in table[2].split(",")]
        elif scalar:
            names[scalar[1]] = eval(python(scalar[2]), {}, names)
    rows = [np.broadcast_to(eval(expression, {}, {**names, "i": i}), (32, warps)) for i in range(0, count, step)]
    return np.stack(rows)


def python(text: str) -> str:
    return re.sub(r"ptx::swizzle<(\d+)>\(", r"swizzle(\1, ", text).replace(" / ", " // ")


REGISTERS = {
    "rows": blocked((64, 64), 4, vector=4),
    "columns": blocked((64, 64), 4, vector=4, order=(0, 1)),
    "one warp": blocked((32, 16), 1, vector=2),
    "three warps": blocked((32, 64), 3, vector=8),
    "odd": blocked((24, 40), 4, vector=8),
    "very odd": blocked((5, 7), 2),
    "fragment": wgmma_accumulator(64, 64, 4),
    "transposed fragment": wgmma_accumulator(64, 48, 4).transpose((1, 0)),
    "vector": blocked((1000,), 4, vector=8),
}


@pytest.mark.parametrize("name", REGISTERS)
def test_coordinates(name: str) -> None:
    layout = REGISTERS[name]
    for dim in range(layout.rank):
        w = writer(layout.warps)
        coordinates = Coordinates(w, layout)
        coordinates.declare(dim)
        got = evaluate(w, lambda i, d=dim, c=coordinates: c.at(d, i), layout.num_registers, 1, layout.warps)
        assert np.array_equal(got, layout.coordinates[dim])


def shared_of(layout: RegisterLayout, itemsize: int, kind: str) -> SharedLayout | None:
    shape = (3, *layout.shape)
    row = layout.shape[-1] * itemsize
    if kind == "plain":
        return SharedLayout(shape, itemsize)
    if kind == "padded":
        return SharedLayout(shape, itemsize, pitch=row + 16)
    if kind == "panels":
        return SharedLayout(shape, itemsize, panel=16) if layout.shape[-1] > 16 else None
    span = int(kind)
    return SharedLayout(shape, itemsize, span, span // itemsize) if row % span == 0 else None


class Known(Divisibility):
    def __init__(self, multiples: dict[Value, int]) -> None:
        super().__init__(multiples)


@pytest.mark.share(9)
@pytest.mark.parametrize("kind", ["plain", "padded", "panels", "32", "64", "128"])
@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
@pytest.mark.parametrize("name", [n for n in REGISTERS if REGISTERS[n].rank == 2])
def test_offsets_in_shared_memory(name: str, itemsize: int, kind: str) -> None:
    """Whole tiles of the third stage, the stage known only at run time, also of buffers that are read transposed."""
    layout = REGISTERS[name]
    for swapped in (False, True):
        tile = layout.transpose((1, 0)) if swapped else layout
        shared = shared_of(layout, itemsize, kind)
        if shared is None:
            continue
        axes = (2, 1) if swapped else (1, 2)
        w = writer(layout.warps)
        stage = Value(I32, "stage")
        offsets = Offsets(w, tile, shared, axes, (0, 0, 0), [(0, stage)], Known({}))
        assert offsets.form != "general" or tile.is_padded or kind == "panels"
        base = offsets.declare()
        for step in {1, best_vector(tile, shared, 0, axes)}:

            def place(i: str, base: str = base, offsets: Offsets = offsets, step: int = step) -> str:
                return plus(base, offsets.at(i, step))

            got = evaluate(w, place, tile.num_registers, step, tile.warps, stage=2)
            want = shared_offsets(tile, shared, (2, 0, 0), axes)[::step] // itemsize
            alive = tile.alive[::step]
            assert np.array_equal(got[alive], want[alive])


@pytest.mark.parametrize("kind", ["plain", "padded", "panels", "32", "64", "128"])
@pytest.mark.parametrize("multiple", [1, 8, 64])
@pytest.mark.parametrize("first", [0, 4])
def test_offsets_of_slices(kind: str, multiple: int, first: int) -> None:
    """A 16 x 16 piece whose row and column are known only as multiples of a power of two."""
    tile = blocked((16, 16), 2, vector=2)
    shared = shared_of(blocked((256, 256), 2), 2, kind)
    assert shared is not None
    row, column = Value(I32, "row"), Value(I32, "column")
    w = writer(2)
    facts = Known({row: multiple, column: multiple})
    offsets = Offsets(w, tile, shared, (1, 2), (1, first, 0), [(1, row), (2, column)], facts)
    base = offsets.declare()
    for r, c in ((0, 0), (multiple, 3 * multiple), (2 * multiple, multiple)):
        got = evaluate(
            w, lambda i: plus(base, offsets.at(i)), tile.num_registers, 1, 2, row=r, column=c
        )
        want = shared_offsets(tile, shared, (1, first + r, c), (1, 2)) // 2
        assert np.array_equal(got, want)
    if multiple == 64 and first == 0 and kind in ("32", "64", "128"):
        assert offsets.form != "general"


def test_slots_become_short_text() -> None:
    assert slot_expression([0, 0, 0, 0], "i") == "0"
    assert slot_expression([0, 1, 0, 1], "i") == "(i & 1)"
    assert slot_expression([0, 8, 16, 24], "i", 4) == "(i >> 2) * 8"
    assert slot_expression([0, 1, 2, 4], "i") is None
    for values in ([3, 2, 1, 0], [0, 5, 9, 12], [7], [0, 1, 2, 3, 4, 5]):
        text = slot_expression(values, "i")
        assert text is not None
        assert [eval(text, {}, {"i": i}) for i in range(len(values))] == values


def test_operands_are_found_in_the_same_thread() -> None:
    layout = REGISTERS["rows"]
    assert local_slots(layout, REGISTERS["columns"]) is None
    for shape in ((64, 1), (1, 64), (64,)):
        operand = layout.operand(shape).layout
        slots = broadcast_slots(operand, layout)
        assert slots is not None
        rows = layout.coordinates[0] if shape == (64, 1) else layout.coordinates[1]
        held = operand.coordinates[0] if len(shape) == 1 or shape[0] > 1 else operand.coordinates[1]
        assert np.array_equal(held[list(slots)], rows)


def test_index_tiles_run_along_one_axis() -> None:
    layout = REGISTERS["odd"]
    for dim in range(2):
        projected, slots = axis_projection(layout, dim)
        assert np.array_equal(projected.coordinates[0][list(slots)], layout.coordinates[dim])
