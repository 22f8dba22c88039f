"""Copies that finish later: loads on a barrier, stores and reductions in groups."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.errors import Error
from phalanx.ir import types as ty
from phalanx.ir.ops import tma
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from sim.build import Build, at, const, ref, sh

LATE, EARLY = Schedule("late"), Schedule("early")


def load_kernel(wait: bool = True):
    """One tile through shared memory; `wait=False` forgets the wait."""
    b = Build()
    x, y, row, column = b.array(2), b.array(2), b.scalar(ty.i32), b.scalar(ty.i32)
    s, bar = b.shared((8, 8)), b.barrier()
    b.arrive_expect(ref(bar), 8 * 8 * 4)
    b.tma_load(at(x, (row, 8), (column, 8)), sh(s), ref(bar))
    if wait:
        b.wait(ref(bar), 0)
    b.store(at(y, (0, 8), (0, 8)), b.load(sh(s)))
    return b.done()


@pytest.mark.parametrize("kind", ["late", "early", "random"])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (4, 8), (-3, 12), (20, 0), (13, -9)])
def test_load_fills_with_zeros_and_counts_all_bytes(kind, row, column):
    x, y = np.arange(1, 257, dtype=np.float32).reshape(16, 16), np.zeros((8, 8), np.float32)
    simulate(load_kernel(), 1, [x, y, row, column], schedule=Schedule(kind))
    padded = np.zeros((56, 56), np.float32)
    padded[20:36, 20:36] = x
    assert np.array_equal(y, padded[20 + row : 28 + row, 20 + column : 28 + column])


@pytest.mark.parametrize("shape", [(0, 8), (8, 0)])
def test_an_array_without_elements_is_all_zeros(shape):
    """NumPy's strides of it are 0: no fault of the array, since none of its elements lies anywhere."""
    y = np.ones((8, 8), np.float32)
    simulate(load_kernel(), 1, [np.zeros(shape, np.float32), y, 0, 0])
    assert (y == 0).all()


def test_a_forgotten_wait_shows_as_poison_when_copies_are_late():
    x, y = np.ones((8, 8), np.float32), np.zeros((8, 8), np.float32)
    simulate(load_kernel(wait=False), 1, [x, y, 0, 0], schedule=LATE)
    assert np.isnan(y).all()
    simulate(load_kernel(wait=False), 1, [x, y, 0, 0], schedule=EARLY)
    assert (y == 1).all()


def test_a_load_reads_its_source_when_it_completes():
    b = Build()
    x, y = b.array(1), b.array(1)
    s, bar = b.shared((8,)), b.barrier()
    b.arrive_expect(ref(bar), 32)
    b.tma_load(at(x, (0, 8)), sh(s), ref(bar))
    b.store(at(x, (0, 8)), const(5.0))
    b.wait(ref(bar), 0)
    b.store(at(y, (0, 8)), b.load(sh(s)))
    for schedule, expected in ((LATE, 5), (EARLY, 1)):
        x_data, y_data = np.ones(8, np.float32), np.zeros(8, np.float32)
        simulate(b.done(), 1, [x_data, y_data], schedule=schedule)
        assert (y_data == expected).all()


def store_kernel(wait: int | None, read: bool):
    """Stores a tile, waits as told, overwrites the source, then looks at the destination."""
    b = Build()
    y, seen = b.array(1), b.array(1)
    s = b.shared((8,))
    b.store(sh(s), const(1.0))
    b.tma_store(sh(s), at(y, (0, 8)))
    b.commit()
    if wait is not None:
        b.tma_wait(wait, read)
    b.store(sh(s), const(2.0))
    b.store(at(seen, (0, 8)), b.load(at(y, (0, 8))))
    return b.done()


@pytest.mark.parametrize(("wait", "read", "seen", "stored"), [
    (None, False, 0, 2),  # nothing waited for: the source is overwritten before it is read
    (1, False, 0, 2),     # one group may stay unfinished: the same
    (0, True, 0, 1),      # the source was read, the destination is not written yet
    (0, False, 1, 1),     # all done
])
def test_store_reads_then_writes(wait, read, seen, stored):
    y, looked = np.zeros(8, np.float32), np.zeros(8, np.float32)
    simulate(store_kernel(wait, read), 1, [y, looked], schedule=LATE)
    assert (looked == seen).all()
    assert (y == stored).all()


def test_wait_counts_the_newest_groups_even_empty_ones():
    b = Build()
    y, seen = b.array(2), b.array(2)
    s = b.shared((2, 8))
    b.store(sh(s), const(1.0))
    b.tma_store(sh(s, 0), at(y, 0, (0, 8)))
    b.commit()
    b.tma_store(sh(s, 1), at(y, 1, (0, 8)))
    b.commit()
    b.tma_wait(1)
    b.store(at(seen, 0, (0, 8)), b.load(at(y, 0, (0, 8))))
    b.store(at(seen, 1, (0, 8)), b.load(at(y, 1, (0, 8))))
    b.commit()  # an empty group is the newest now
    b.tma_wait(1)
    b.store(at(seen, 2, (0, 8)), b.load(at(y, 1, (0, 8))))
    y_data, looked = np.zeros((2, 8), np.float32), np.full((3, 8), -1, np.float32)
    simulate(b.done(), 1, [y_data, looked], schedule=LATE)
    assert (looked[0] == 1).all() and (looked[2] == 1).all()


def test_copies_that_nobody_waits_for_still_finish():
    b = Build()
    y = b.array(1)
    s = b.shared((8,))
    b.store(sh(s), const(3.0))
    b.tma_store(sh(s), at(y, (2, 8)))
    data = np.zeros(8, np.float32)
    simulate(b.done(), 2, [data])
    assert data.tolist() == [0, 0, 3, 3, 3, 3, 3, 3]


@pytest.mark.parametrize(("op", "dtype", "expected"), [
    ("add", ty.f32, [2, 4, 6, 8]), ("min", ty.i32, [1, 2, 2, 2]), ("max", ty.i32, [2, 2, 3, 4]),
    ("and", ty.i32, [0, 2, 2, 0]), ("or", ty.i32, [3, 2, 3, 6]), ("xor", ty.i32, [3, 0, 1, 6]),
])
def test_reduce(op, dtype, expected):
    b = Build()
    x, y = b.array(1, dtype), b.array(1, dtype)
    s = b.shared((4,), dtype)
    b.store(sh(s), b.load(at(x, (0, 4))))
    b.add(tma.TmaReduce(sh(s), at(y, (0, 4)), op, loc=b.here()))
    b.commit()
    b.tma_wait(0)
    x_data = np.arange(1, 5).astype(dtype.numpy)
    y_data = x_data.copy() if op == "add" else np.full(4, 2, dtype.numpy)
    simulate(b.done(), 1, [x_data, y_data])
    assert y_data.tolist() == expected


@pytest.mark.parametrize("op", ["min", "max"])
def test_reduce_keeps_the_number(op):
    """Memory that computes: of a number and a NaN the number stays."""
    b = Build()
    x, y = b.array(1, ty.bf16), b.array(1, ty.bf16)
    s = b.shared((8,), ty.bf16)
    b.store(sh(s), b.load(at(x, (0, 8))))
    b.add(tma.TmaReduce(sh(s), at(y, (0, 8)), op, loc=b.here()))
    x_data, y_data = np.full(8, np.nan, ty.bf16.numpy), np.full(8, 2, ty.bf16.numpy)
    x_data[:2], y_data[1:4] = 5, np.nan
    simulate(b.done(), 1, [x_data, y_data])
    first = {"min": 2, "max": 5}[op]
    np.testing.assert_array_equal(y_data.astype(np.float32), [first, 5, np.nan, np.nan, 2, 2, 2, 2])


def test_bf16_reduce_rounds():
    b = Build()
    y = b.array(1, ty.bf16)
    s = b.shared((8,), ty.bf16)
    b.store(sh(s), const(1.0, ty.bf16))
    b.add(tma.TmaReduce(sh(s), at(y, (0, 8)), "add", loc=b.here()))
    data = np.full(8, 256, ty.bf16.numpy)
    simulate(b.done(), 1, [data])
    assert (data.astype(np.float32) == 256).all()


def test_prefetch_changes_nothing():
    b = Build()
    x = b.array(1)
    b.add(tma.TmaPrefetch(at(x, (0, 4)), loc=b.here()))
    data = np.ones(4, np.float32)
    simulate(b.done(), 1, [data])
    assert (data == 1).all()


def aligned(shape: tuple[int, ...], offset: int = 0) -> np.ndarray:
    """An f32 array that begins `offset` bytes past a multiple of 16."""
    size = int(np.prod(shape)) * 4
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.__array_interface__["data"][0] % 16 + offset
    return raw[start : start + size].view(np.float32).reshape(shape)


@pytest.mark.parametrize(("array", "message"), [
    (aligned((16, 16), 4), "X begins at an address that is 4 bytes past a multiple of 16"),
    (aligned((16, 17)), "axis 0 of X has a stride of 68 bytes, no multiple of 16"),
    (aligned((16, 32))[::-1], "axis 0 of X has a stride of -128 bytes, backwards"),
    (aligned((16, 16))[:, ::2], "the last axis of X has a stride of 8 bytes instead of 4"),
])
def test_misaligned_arrays(array, message):
    b = Build()
    x = b.array(2, name="X")
    s, bar = b.shared((8, 8)), b.barrier()
    b.tma_load(at(x, (0, 8), (0, 8)), sh(s), ref(bar))
    with pytest.raises(Error) as error:
        simulate(b.done(), 1, [array])
    assert error.value.message == f"TMA can't copy this: {message}"
    assert error.value.kind == "misaligned" and error.value.location.line == b.line


def test_a_narrow_box_is_misaligned_but_a_single_row_is_not():
    b = Build()
    x = b.array(2, name="X")
    s, bar = b.shared((1, 3)), b.barrier()
    b.arrive_expect(ref(bar), 12)
    b.tma_load(at(x, (0, 1), (0, 3)), sh(s), ref(bar))
    b.wait(ref(bar), 0)
    simulate(b.done(), 1, [aligned((8, 8))])
    b = Build()
    x = b.array(2, name="X")
    s, bar = b.shared((2, 3)), b.barrier()
    b.tma_load(at(x, (0, 2), (0, 3)), sh(s), ref(bar))
    with pytest.raises(Error, match="the region of X is 12 bytes wide, no multiple of 16"):
        simulate(b.done(), 1, [aligned((8, 8))])


def test_ranks_one_to_five():
    for rank in range(1, 6):
        shape = (2, 3, 2, 3, 4)[5 - rank :]
        b = Build()
        x, y = b.array(rank), b.array(rank)
        s, bar = b.shared(shape), b.barrier()
        b.arrive_expect(ref(bar), int(np.prod(shape)) * 4)
        b.tma_load(at(x, *((1, n) for n in shape)), sh(s), ref(bar))
        b.wait(ref(bar), 0)
        b.tma_store(sh(s), at(y, *((0, n) for n in shape)))
        data = np.arange(np.prod([n + 4 for n in shape]), dtype=np.float32).reshape([n + 4 for n in shape])
        got = np.zeros(shape, np.float32)
        simulate(b.done(), 1, [data, got])
        assert np.array_equal(got, data[tuple(slice(1, 1 + n) for n in shape)])
