"""Ways with what their comparisons say put in, and plans of calls whose arrays are alike: they say the same as before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import phalanx as px
from phalanx.kernels.matrices import empty
from phalanx.runtime.launch.replay import recording, remembered
from phalanx.runtime.planning import plans
from phalanx.runtime.planning.folding import Folding, alike_symbols, folded
from phalanx.runtime.planning.plan_text import PlanWriter
from phalanx.runtime.planning.ways import Way
from phalanx.runtime.symbolic.expressions import combined, constant, symbol
from phalanx.runtime.symbolic.numbers import Guard
from planned_calls import Watched, watched_gpu
from runtime.test_conditions import drawn_guard, drawn_values, holds


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Watched]:
    with watched_gpu(monkeypatch, tmp_path) as found:
        yield found


def way_of(guards: list[Any]) -> Way:
    return Way(tuple(guards), (), (), (), False)


@pytest.mark.parametrize("seed", range(60))
def test_folded_guards_hold_where_all_did(seed: int) -> None:
    """With arrays that are alike and without: sizes and strides of the second are the first's then."""
    rng = random.Random(seed)
    example, alike = drawn_values(rng), seed % 2 == 1
    if alike:
        example |= {"s1": example["s0"], "t1": example["t0"]}
    guards = [drawn_guard(rng, example) for _ in range(rng.randint(1, 8))]
    fold = Folding()
    if alike:
        fold.put("s1", symbol("s0"))
        fold.put("t1", symbol("t0", -(2**62), 2**62))
    found = folded(way_of(guards), fold)
    assert found is not None, "the example takes it"
    left = [guard for guard in found.guards if guard is not None]
    if alike:
        assert not any({"s1", "t1"} & guard.symbols for guard in left)
    for _ in range(300):
        values = {**example, **drawn_values(rng)} if rng.random() < 0.5 else {**example, "s0": rng.choice((0, 1, 64))}
        if alike:
            values |= {"s1": values["s0"], "t1": values["t0"]}
        assert all(holds(guard, values) for guard in left) == all(holds(guard, values) for guard in guards), values


def test_a_way_that_alike_arrays_do_not_take_is_none() -> None:
    unequal = Guard(symbol("s0_0"), "==", symbol("s1_0"), False)
    assert folded(way_of([unequal]), alike_symbols([1, 1], (0, 0))) is None
    assert folded(way_of([unequal]), alike_symbols([1, 1], (0, 1))) is not None
    less = [Guard(symbol("s0_0"), "<", symbol("s2_0"), True), Guard(symbol("s1_0"), "<", symbol("s2_0"), False)]
    assert folded(way_of(less), alike_symbols([1, 1, 1], (0, 0, 2))) is None


def test_what_is_equal_stands_for_the_other_from_there_on() -> None:
    width, rows = symbol("s0_1"), symbol("s0_0")
    area = combined("*", rows, width)
    before, after = Guard(area, "<", constant(512), True), Guard(area, "<", constant(1000), True)
    found = folded(way_of([before, Guard(width, "==", constant(64), True), after]), Folding())
    assert found is not None
    assert [guard and guard.text for guard in found.guards] == [
        "((s0_0 * s0_1) < 512)", "(s0_1 == 64)", "((s0_0 * 64) < 1000)"
    ]
    multiple = Guard(combined("%", area, constant(16)), "==", constant(0), True)
    found = folded(way_of([Guard(width, "==", constant(64), True), multiple]), Folding())
    assert found is not None and found.guards[1] is None, "plain"


def test_which_arrays_are_alike() -> None:
    one, other = ("bf16", (4, 8), (8, 1), 0, 0), ("bf16", (4, 8), (16, 1), 0, 0)
    rest = (None, ("f32", (4, 8), (8, 1), 0, 0), ("bf16", (4,), (1,), 0, 0))
    writer = PlanWriter(
        [2, 2, None, 2, 1], ["bf16", "bf16", None, "f32", "bf16"], ("option", str, one, one, *rest), None, print
    )
    assert writer.alike(("option", str, one, one, *rest)) == (0, 0, 2, 3, 4)
    assert writer.alike(("option", str, one, other, *rest)) == (0, 1, 2, 3, 4)


@px.kernel(warps=1)
def add_blocks(X, Y, Z, rows):
    ring, full = px.shared((2, 16, 32), X.dtype), px.barrier()
    i, j = px.block_id(0) * 16, px.block_id(1) * 32
    with full.transaction():
        px.tma.load(X[i : i + 16, j : j + 32], ring[0], full)
        px.tma.load(Y[i : i + 16, j : j + 32], ring[1], full)
    full.wait(0)
    if rows > 0:
        px.store(Z[i : i + 16, j : j + 32], px.load(ring[0]) + px.load(ring[1]))


@remembered("x", "y")
def added(x: Any, y: Any, *, turned: bool = False) -> Any:
    """The rows of both that there are; wide ones by another way."""
    result = empty(x, (min(x.shape[0], y.shape[0]), min(x.shape[1], y.shape[1])), "f32")
    rows = result.shape[0] if x.shape[1] < 256 else result.shape[0] + 1
    add_blocks[px.cdiv(result.shape[0], 16), px.cdiv(result.shape[1], 32)](x, y, result, rows)
    return result


def pair(gpu: Watched, rng: random.Random) -> tuple[Any, Any]:
    """Two matrices: alike, or of another height, or with gaps between the rows of the second."""
    rows, columns = rng.randint(1, 9) * 16 + rng.randint(0, 7), rng.choice((64, 96, 512))
    how = rng.choice(("alike", "alike", "alike", "higher", "apart"))
    x = gpu.torch.distinct((rows, columns), gpu.torch.float32)
    size = rows + 5 * (how == "higher"), columns + 32 * (how == "apart")
    y = gpu.torch.distinct(size, gpu.torch.float32)
    return x, y[:, :columns] if how == "apart" else y


@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize("most", [0, 1, 8])
def test_arrays_alike_and_unlike_get_the_descriptors_of_the_whole_way(
    gpu: Watched, monkeypatch: pytest.MonkeyPatch, most: int, opaque: bool
) -> None:
    """In any order, and where there are more manners of likeness than functions for them; packed, or by the driver."""
    monkeypatch.setattr(plans, "MOST_ALIKE", most)
    gpu.opaque = opaque
    rng = random.Random(811)
    asked: list[tuple[int, ...]] = []
    alike = PlanWriter.alike

    def noted(writer: PlanWriter, key: tuple[Any, ...]) -> tuple[int, ...]:
        asked.append(alike(writer, key))
        return asked[-1]

    monkeypatch.setattr(PlanWriter, "alike", noted)
    for number in range(60):
        x, y = pair(gpu, rng)
        quick = gpu.run(lambda x=x, y=y: added(x, y))  # type: ignore[misc]
        with recording():
            wanted = gpu.run(lambda x=x, y=y: added(x, y))  # type: ignore[misc]
        assert quick == wanted, f"call {number}"
    assert {(0, 0), (0, 1)} <= set(asked)
    (plan,) = added.memory.plans.values()
    assert len(plan.ways) >= 2 and not plan.why
    assert (gpu.replaced > 0) is opaque


def test_the_usual_likeness_is_compared_at_once(gpu: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(rows: int, other: int = 0) -> Any:
        return gpu.run(
            lambda: added(
                gpu.torch.distinct((rows, 64), gpu.torch.float32), gpu.torch.distinct((rows + other, 64), gpu.torch.float32)
            )
        )

    for rows in (17, 33, 49):
        make(rows)
    (plan,) = added.memory.plans.values()
    asked: list[Any] = []
    monkeypatch.setattr(PlanWriter, "alike", lambda *_: asked.append(0) or (0, 1))
    make(65)
    assert not asked and set(plan.functions) == {(0, 0)}
    make(81, other=3)
    assert asked
