"""From a prepared function to a plan: target checks, and that every choice arrives in the plan."""

from __future__ import annotations

import pytest

import phalanx as px
from phalanx.cuda.abi import Extras
from phalanx.cuda.lower.lower import check_target, lower
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.archs import Feature, arch_of
from phalanx.ir.core import Block, Function
from phalanx.ir.effects import Effects, Target
from phalanx.ir.ops.tma import TmaCommit
from phalanx.location import Location
from phalanx.markers import attribute
from support.front import array, prepared

HAVE_IT = "sm_100a, sm_100f, sm_103a, sm_103f, sm_107a, sm_107f"


@frozen(eq=False)
class NewInstruction(TmaCommit):
    """An instruction of a later GPU; no mnemonic of its own, so it is not registered."""

    alternative: str | None = attribute(default=None)

    def effects(self) -> Effects:
        return Effects(target=Target((Feature.SCALE_INPUT_D,), alternative=self.alternative))


def function(*ops: TmaCommit) -> Function:
    return Function("k", (), (), 4, (1, 1, 1), True, (), (), Block(ops))


def test_an_instruction_that_the_target_lacks_names_the_alternative() -> None:
    place = Location("k.py", 3, 4, 3, 12, "    px.new()")
    with pytest.raises(Error) as caught:
        check_target(function(NewInstruction("write px.old()", loc=place)), arch_of("sm_90a"))
    assert caught.value.message == "sm_90a has no tma.commit"
    assert caught.value.location is place
    assert caught.value.remedy == f"write px.old() (targets that have it: {HAVE_IT})"
    with pytest.raises(Error) as caught:
        check_target(function(NewInstruction(loc=place)), arch_of("sm_90a"))
    assert caught.value.remedy == f"compile for a target that has it ({HAVE_IT})"


def test_the_same_instruction_on_a_target_that_has_it() -> None:
    check_target(function(NewInstruction()), arch_of("sm_100a"))


@px.kernel
def staged(X, Y):
    s = px.shared((64, 64), px.f32)
    bar = px.barrier(count=1)
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[0:64, 0:64], s, bar)
    bar.wait(0)
    px.store(Y[0:64, 0:64], px.load(s) * 2.0)


def test_a_plan_has_every_choice() -> None:
    plan = lower(prepared(staged, (array(2), array(2))), arch_of("sm_90a"), extras=Extras(watchdog=True))
    (buffer,) = plan.buffers
    (barrier,) = plan.barriers
    assert plan.buffers[buffer].offset % plan.buffers[buffer].layout.alignment == 0
    assert plan.barriers[barrier] >= buffer.nbytes
    assert plan.shared_bytes >= buffer.nbytes + 8
    assert len(plan.tensor_maps) == len(plan.copies) == 1
    assert plan.extras.watchdog
    assert any("tma.load of X: tensor copy" in str(note) for note in plan.notes)
    tiles = [op.defines for op in plan.function.walk() if op.defines is not None and op.defines.type.shape]  # type: ignore[union-attr]
    assert tiles and all(tile in plan.layouts for tile in tiles)
