"""Where buffers, scratch and barriers are put."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest

from phalanx.cuda.lower.shared_memory import MemoryPlan, plan_memory
from phalanx.errors import Error
from phalanx.ir.archs import arch_of
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.control import Role, Roles, Sync
from phalanx.ir.types import bf16, f32
from phalanx.ir.views import BarrierArray, SharedBuffer
from phalanx.layouts import SharedLayout
from phalanx.location import Location

ARCH = arch_of("sm_90a")


def place(
    *items: SharedBuffer | BarrierArray,
    layouts: Mapping[SharedBuffer, SharedLayout] | None = None,
    scratch: Mapping[Op, int] | None = None,
    body: Block | None = None,
) -> MemoryPlan:
    buffers = tuple(item for item in items if isinstance(item, SharedBuffer))
    barriers = tuple(item for item in items if isinstance(item, BarrierArray))
    function = Function("k", (), (), 8, (1, 1, 1), True, buffers, barriers, body or Block())
    chosen = {b: SharedLayout(b.shape, b.dtype.itemsize, align=128) for b in buffers} | dict(layouts or {})
    return plan_memory(function, ARCH, chosen, scratch or {})


def test_buffers_by_alignment_then_barriers() -> None:
    small = SharedBuffer("small", (5,), f32)
    swizzled = SharedBuffer("swizzled", (64, 64), bf16)
    full, empty = BarrierArray("full", 3), BarrierArray("empty", 1)
    plan = place(small, full, swizzled, empty, layouts={swizzled: SharedLayout((64, 64), 2, swizzle=128)})
    assert plan.buffers[swizzled].offset == 0
    assert plan.buffers[small].offset == 8192
    assert plan.barriers == {full: 8192 + 128, empty: 8192 + 128 + 24}  # a row of 20 bytes, padded to 128
    assert plan.nbytes == 8192 + 128 + 32


def test_every_offset_obeys_its_alignment() -> None:
    odd = [SharedBuffer(f"b{n}", (n,), f32) for n in (1, 3, 7)]
    plan = place(*odd, BarrierArray("bar", 1))
    assert [plan.buffers[b].offset % 128 for b in odd] == [0, 0, 0]
    assert all(offset % 8 == 0 for offset in plan.barriers.values())


def test_reuse_takes_over_the_offset_and_the_larger_size_counts() -> None:
    first = SharedBuffer("first", (64,), f32)
    second = SharedBuffer("second", (128,), f32, reuse=first)
    third = SharedBuffer("third", (32,), f32, reuse=second)
    other = SharedBuffer("other", (64,), f32)
    plan = place(first, other, second, third)
    offsets = {b.name: plan.buffers[b].offset for b in (first, second, third, other)}
    assert offsets == {"first": 0, "second": 0, "third": 0, "other": 512}
    assert plan.nbytes == 768


def test_a_buffer_may_take_over_barriers() -> None:
    bar = BarrierArray("bar", 2)
    tile = SharedBuffer("tile", (64,), f32, reuse=bar)
    plan = place(bar, tile)
    assert plan.barriers[bar] == plan.buffers[tile].offset == 0
    assert plan.nbytes == 256


def test_scratch_is_shared_within_an_agent_and_separate_between_agents() -> None:
    in_cta, a1, a2, b1 = (Sync(str(n)) for n in range(4))
    roles = Roles((Role("a", 0, 4, None, Block((a1, a2))), Role("b", 4, 4, None, Block((b1,)))))
    scratch = {in_cta: 100, a1: 64, a2: 256, b1: 32}
    plan = place(SharedBuffer("s", (32,), f32), scratch=scratch, body=Block((in_cta, roles)))
    assert plan.scratch[a1] == plan.scratch[a2]
    areas = sorted([(plan.scratch[in_cta].offset, 100), (plan.scratch[a1].offset, 256), (plan.scratch[b1].offset, 32)])
    assert all(start + size <= next_start for (start, size), (next_start, _) in pairwise(areas))
    assert areas[0][0] >= 128
    assert plan.nbytes >= areas[-1][0] + areas[-1][1]


def test_too_much_is_an_error_with_a_table() -> None:
    text = "    big = px.shared((256, 256), px.f32)"
    big = SharedBuffer("big", (256, 256), f32, Location("k.py", 4, 10, 4, len(text), text))
    again = SharedBuffer("again", (8,), f32, Location("k.py", 5), reuse=big)
    bar = BarrierArray("full", 4, loc=Location("k.py", 6))
    with pytest.raises(Error) as caught:
        place(big, again, bar)
    assert str(caught.value) == "\n".join(
        [
            "k needs 262,176 bytes of shared memory; a CTA on sm_90a has 232,448",
            "  --> k.py:4:11",
            "  |",
            f"4 | {text}",
            "  |           " + "^" * (len(text) - 10),
            "  name            what              bytes  declared at",
            "  big             f32[256, 256]   262,144  k.py:4",
            "  again (in big)  f32[8]              128  k.py:5",
            "  full            4 barriers           32  k.py:6",
            "  total           with alignment  262,176",
            "  = help: use fewer stages or smaller tiles, or a narrower dtype; buffers share memory by themselves where "
            "one is over before the other begins: not in one loop, nor in roles that run side by side, with its copies "
            "waited for (reuse= says so where the compiler can't see it)",
        ]
    )
