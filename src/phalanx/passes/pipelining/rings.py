"""Rings of stages in shared memory: what goes through one, and the code that fills, waits for and gives back a stage.

A ring has a place of its own in each of the two roles, a stage and a parity, which moves by what the role ran: zero, one
or any number of iterations leave the two in step, and so do the tiles of a loop around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from phalanx.ir.core import Op
from phalanx.ir.ops.mbarrier import Arrive, Wait
from phalanx.ir.ops.tile import Cast, Select
from phalanx.ir.types import I32
from phalanx.ir.values import Const, Value, Var
from phalanx.ir.views import BarrierArray, BarrierRef, SharedBuffer, SharedView
from phalanx.passes.operand_copies import can_be_copied
from phalanx.passes.pipelining.staging import Staged, Transport
from phalanx.passes.rank_code import LoopCode

ZERO, ONE = Const(0, I32), Const(1, I32)


@dataclass(eq=False)
class Ring:
    """Loads that are filled and given back together, their buffers, and the two arrays of barriers."""

    loads: tuple[Staged, ...]
    stages: int
    full: BarrierArray
    empty: BarrierArray
    buffers: dict[Staged, SharedBuffer]
    filling: Place = field(default_factory=lambda: Place("fill"))
    taking: Place = field(default_factory=lambda: Place("take"))
    last: Var = field(default_factory=lambda: Var(I32, "last_stage"))
    """The stage that products in flight still read."""

    @property
    def path(self) -> Transport:
        """What brings the ring's loads, which is one transport for all of them."""
        return self.loads[0].path

    @property
    def nbytes(self) -> int:
        """The bytes of a stage."""
        return sum(item.nbytes for item in self.loads)

    @property
    def flows(self) -> bool:
        """Whether threads begin its copies and do not wait for them: several stages are on their way at a time."""
        return self.path is Transport.THREADS and all(can_be_copied(item.view, item.load.fill) for item in self.loads)

    def tile(self, staged: Staged, stage: Value) -> SharedView:
        """The tile of a load in a stage."""
        buffer = self.buffers[staged]
        rank = len(staged.shape)
        return SharedView(buffer, (stage, *(ZERO,) * rank), (1, *staged.shape), tuple(range(1, rank + 1)))

    def acquire(self, code: LoopCode) -> Value:
        """The producer waits until the next stage is free; its number."""
        stage, parity = self.filling.read(code)
        code.ops.append(Wait(BarrierRef(self.empty, stage), code.binary("xor", parity, ONE), loc=code.loc))
        return stage

    def advance(self, code: LoopCode, place: Place, stage: Value) -> None:
        """Writes the code that takes a role on to its next stage."""
        advance(code, place, stage, self.stages)

    def take(self, code: LoopCode) -> Value:
        """The consumer waits until the next stage is full, and goes on; its number."""
        stage, parity = self.taking.read(code)
        code.ops.append(Wait(BarrierRef(self.full, stage), parity, loc=code.loc))
        self.advance(code, self.taking, stage)
        return stage

    def release(self, code: LoopCode, stage: Value) -> None:
        """The consumer gives a stage back to all who fill it."""
        code.ops.append(Arrive(BarrierRef(self.empty, stage), ONE, releases=self.full, loc=code.loc))


def whole_tile(staged: Staged, perm: tuple[int, ...]) -> SharedView:
    """The tile of a load in a buffer that holds one stage: how it will lie, before there is a ring."""
    buffer = SharedBuffer(staged.view.array.name, staged.shape, staged.view.dtype)
    return SharedView(buffer, (ZERO,) * len(perm), staged.shape, perm)


class Place:
    """Where a role is in a ring."""

    def __init__(self, name: str) -> None:
        self.stage, self.parity = Var(I32, f"{name}_stage"), Var(I32, f"{name}_parity")

    def begin(self, code: LoopCode) -> None:
        """Writes the code that puts a role at the first stage."""
        code.assign(self.stage, ZERO)
        code.assign(self.parity, ZERO)

    def read(self, code: LoopCode) -> tuple[Value, Value]:
        """The stage and its parity."""
        return code.read(self.stage), code.read(self.parity)


def begin(rings: list[Ring], code: LoopCode, *, fills: bool) -> list[Op]:
    """Writes the code that puts a role at the first stage of each ring, as its producer or its consumer."""
    for ring in rings:
        (ring.filling if fills else ring.taking).begin(code)
    return code.ops


def advance(code: LoopCode, place: Place, stage: Value, stages: int) -> None:
    """Writes the code that takes a role from a stage to the next one of so many."""
    parity = code.read(place.parity)
    following = code.binary("add", stage, ONE)
    wraps = code.compare("eq", following, Const(stages, I32), "wraps")
    start, turn = Value(I32, "stage"), Value(I32)
    code.ops += [Select(wraps, ZERO, following, start, loc=code.loc), Cast(wraps, turn, loc=code.loc)]
    code.assign(place.parity, code.binary("xor", parity, turn))
    code.assign(place.stage, start)
