"""Every instruction with operands or results has a rule for their types, or says why not; rules refuse what is wrong."""

from __future__ import annotations

from typing import ClassVar

import pytest

import phalanx.ir.ops  # noqa: F401
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.core import INSTRUCTIONS, Op
from phalanx.ir.ops.memory import AtomicLoad, Load
from phalanx.ir.ops.mma import Mma
from phalanx.ir.ops.tcgen05 import Tcgen05WaitLoads
from phalanx.ir.ops.tile import Part
from phalanx.ir.ops.wgmma import WgmmaWait
from phalanx.ir.type_rules import UNRULED, needs_no_type_rule, type_rules
from phalanx.ir.types import TileType, bf16, f16, f32
from phalanx.ir.values import Const, Value
from phalanx.ir.verifier import verify
from phalanx.ir.views import SharedBuffer
from phalanx.markers import Kind, defined, fields_of, operand
from support.hand_ir import kernel, whole


def lacks_a_rule(cls: type[Op]) -> bool:
    """Whether an instruction has operands or results and nothing is said of their types."""
    return bool(fields_of(cls, Kind.OPERAND, Kind.RESULT)) and cls not in type_rules.entries and cls not in UNRULED


@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda cls: cls.mnemonic)
def test_something_is_said_of_its_types(cls: type[Op]) -> None:
    assert not lacks_a_rule(cls), "register a rule with @type_rules beside it, or say why there is none: needs_no_type_rule"
    assert not (cls in type_rules.entries and cls in UNRULED), "a rule, and a reason for none"


def test_a_missing_rule_is_noticed() -> None:
    @frozen(eq=False, repr=False)
    class Planted(Op):
        mnemonic: ClassVar[str] = "planted.scale"
        x: Value = operand()
        result: Value = defined()

    try:
        assert lacks_a_rule(Planted)
        needs_no_type_rule(Planted, why="it is here for a moment")
        assert not lacks_a_rule(Planted)
    finally:
        INSTRUCTIONS.remove(Planted)
        UNRULED.pop(Planted, None)


def test_a_reason_is_given_for_instructions_that_there_are() -> None:
    assert set(UNRULED) <= set(INSTRUCTIONS) and all(UNRULED.values())


def tile(*shape: int, dtype=f32) -> Value:
    """A register tile."""
    return Value(TileType(shape, dtype))


A, B = SharedBuffer("a", (16, 32), f16), SharedBuffer("b", (16, 8), f16)
WRONG = [
    (Part(tile(4, 4), (2, 0), tile(4, 4)), "part: a part of shape (4, 4) of (4, 4) from (2, 0) on"),
    (Part(tile(4, 4), (0, 0), tile(2, 2, dtype=f16)), "part: f32[4, 4] becomes f16[2, 2]"),
    (AtomicLoad(whole(A), tile(16, 16, dtype=f16)), "atomic_load: f16[16, 32] beside f16[16, 16]"),
    (Mma(whole(A), whole(B), None, 1, tile(16, 8)), "mma: 16 x 32 times 16 x 8"),
    (WgmmaWait(0, (tile(64, 8),), (tile(64, 16),)), "wgmma.wait: results unlike what they are made of"),
    (Tcgen05WaitLoads((tile(128, 8),), ()), "tcgen05.wait.load: results unlike what they are made of"),
    (Load(whole(A), Const(0.0), tile(16, 32, dtype=bf16)), "load: result unlike its view"),
]


@pytest.mark.parametrize(("op", "message"), WRONG, ids=[f"{op.mnemonic}-{n}" for n, (op, _) in enumerate(WRONG)])
def test_what_does_not_fit_is_refused(op: Op, message: str) -> None:
    rule = type_rules.of(op)
    assert rule is not None
    with pytest.raises(Error) as caught:
        rule(op)
    assert caught.value.message == f"internal: {message}"


def test_the_verifier_asks_the_rules() -> None:
    with pytest.raises(Error, match="internal: load: result unlike its view"):
        verify(kernel(Load(whole(A), Const(0.0), tile(16, 32, dtype=bf16)), buffers=(A,)))
