"""Operands are declared by markers: a toy instruction and a toy view, defined here alone, are read like the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.core import INSTRUCTIONS, Block, Op, block_fields, content_fields, storage_of, substitute, values_in
from phalanx.ir.effects import Access, Effects, Mode
from phalanx.ir.holders import Holder
from phalanx.ir.ops.cluster import ClusterRank, ClusterSync
from phalanx.ir.ops.control import Assign, BlockId, If, ReadVar
from phalanx.ir.ops.gather import TmaGather4
from phalanx.ir.ops.memory import Store
from phalanx.ir.ops.tile import Binary, Cast, Full
from phalanx.ir.printer import text
from phalanx.ir.types import I32, f32
from phalanx.ir.values import Const, Value, Var
from phalanx.ir.verifier import verify
from phalanx.ir.views import BarrierArray, BarrierRef, SharedBuffer, SharedView
from phalanx.markers import Kind, attribute, defined, fields_of, kind_of, operand, storage
from phalanx.markers import block as code
from phalanx.sim.monitor import Monitor
from phalanx.sim.operands import CallOperands
from phalanx.sim.registry import MEANINGS, Meaning
from phalanx.sim.run import simulate
from support.hand_ir import array, bar, box, kernel, part, tile, whole


def toy(cls: type[Op]) -> type[Op]:
    """An instruction that the floors need not know."""
    INSTRUCTIONS.remove(cls)
    return cls


@frozen
class Columns(Holder):
    """A kind of view that nothing but this file knows: some columns of a buffer from a run-time column on."""

    buffer: SharedBuffer = storage()
    start: Value = operand()
    width: int = attribute()


@toy
@frozen(eq=False, repr=False)
class Mix(Op):
    """Every kind of field that may hold values."""

    mnemonic: ClassVar[str] = "toy.mix"
    src: Columns = operand()
    pairs: tuple[tuple[Columns, Value], ...] = operand()
    bar: BarrierRef | None = operand()
    spread: int = attribute()
    result: Value = defined()
    scratch: SharedBuffer | None = storage(default=None)
    fill: Value | None = operand(default=None)
    body: Block = code(default=Block())


@toy
@frozen(eq=False, repr=False)
class Unmarked(Op):
    """One of its fields does not say what it is."""

    mnemonic: ClassVar[str] = "toy.unmarked"
    x: Value = operand()
    y: Value = None  # type: ignore[assignment]


def scalar(name: str) -> Value:
    return Value(I32, name)


@pytest.fixture
def mix() -> tuple[Mix, dict[str, Value]]:
    values = {name: scalar(name) for name in ("a", "b", "c", "i", "k", "r")}
    buffer, other = SharedBuffer("s", (4, 8), f32), SharedBuffer("t", (4,), f32)
    full = BarrierArray("full", 2)
    pairs = ((Columns(buffer, values["b"], 2), values["c"]), (Columns(other, Const(1), 3), Const(7)))
    made = Mix(Columns(buffer, values["a"], 4), pairs, BarrierRef(full, values["i"]), 5, values["r"], other, values["k"])
    return made, values


# --- what the markers say -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda cls: cls.mnemonic)
def test_every_field_of_every_instruction_says_what_it_is(cls: type[Op]) -> None:
    kinds = {field.name: kind_of(cls, field) for field in dataclasses.fields(cls)}
    assert kinds.pop("loc") is Kind.SOURCE and Kind.SOURCE not in kinds.values()


def test_fields_come_by_kind_and_in_order() -> None:
    assert fields_of(Mix, Kind.OPERAND) == ("src", "pairs", "bar", "fill")
    assert fields_of(Mix, Kind.RESULT) == ("result",) and block_fields(Mix) == ("body",)
    assert content_fields(Mix) == ("src", "pairs", "bar", "spread", "scratch", "fill", "body")
    assert block_fields(If) == ("then", "orelse") and fields_of(Assign, Kind.CELL) == ("var",)


def test_a_field_without_a_marker_is_an_error() -> None:
    with pytest.raises(TypeError) as error:
        Unmarked(scalar("x"), scalar("y")).operands()
    assert str(error.value) == (
        "field 'y' of Unmarked does not say what it is: give it operand(), defined(), cell(), block(), storage() or "
        "attribute()"
    )


def test_markers_leave_defaults_and_keywords_as_they_are(mix: tuple[Mix, Any]) -> None:
    op, _ = mix
    assert Mix(op.src, (), None, 1, op.result).fill is None
    assert Mix(op.src, (), None, 1, op.result).body.ops == ()
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'result'"):
        Mix(op.src, (), None, 1)  # type: ignore[call-arg]


def test_cells_are_no_operands() -> None:
    var = Var(I32, "x")
    assert Assign(var, Const(1)).operands()[0].value == 1 and len(Assign(var, Const(1)).operands()) == 1
    assert ReadVar(var, scalar("y")).operands() == ()


# --- values inside views --------------------------------------------------------------------------------------------


def test_values_inside_a_new_kind_of_view_are_operands(mix: tuple[Mix, dict[str, Value]]) -> None:
    op, values = mix
    assert [v.name or v.value for v in op.operands()] == ["a", "b", "c", 1, 7, "i", "k"]
    assert values_in(op.src) == [values["a"]] and op.src.values() == [values["a"]]


def test_they_are_replaced(mix: tuple[Mix, dict[str, Value]]) -> None:
    op, values = mix
    fresh = {values[name]: scalar(name.upper()) for name in "abcik"}
    new = substitute(op, fresh)
    assert [v.name or v.value for v in new.operands()] == ["A", "B", "C", 1, 7, "I", "K"]
    assert new.result is op.result and new.pairs[1] is op.pairs[1]
    assert substitute(op, {values["r"]: Const(0)}) is op, "results are no operands"


def test_storage_is_named_and_replaced_too(mix: tuple[Mix, dict[str, Value]]) -> None:
    op, _ = mix
    assert [item.name for item in storage_of(op)] == ["s", "s", "t", "full", "t"]
    moved = SharedBuffer("moved", (4, 8), f32)
    new = substitute(op, {op.src.buffer: moved})
    assert [item.name for item in storage_of(new)] == ["moved", "moved", "t", "full", "t"]


def test_what_does_not_say_which_values_it_holds_is_an_error(mix: tuple[Mix, dict[str, Value]]) -> None:
    op, values = mix
    strange = dataclasses.replace(op, fill=[values["k"]])
    with pytest.raises(TypeError, match=r"nobody can say which values .* holds: derive list from ir\.holders\.Holder"):
        strange.operands()


def test_views_and_barriers_of_the_language_say_theirs() -> None:
    x, i, j, rank = array("X", 2), scalar("i"), scalar("j"), scalar("rank")
    buffer = SharedBuffer("s", (4, 8), f32)
    assert box(x, (i, 0), (4, 8)).values()[:2] == [x, i]
    assert part(buffer, j, rank).values()[0] is j and part(buffer, j, rank).values()[2] is rank
    assert bar(BarrierArray("b", 2), i).values() == [i]
    moved = part(buffer, j, rank).map(lambda item: {j: i}.get(item, item))
    assert moved.offsets[0] is i and moved.cta is rank and moved.buffer is buffer


# --- listings and checks --------------------------------------------------------------------------------------------


def defining(*values: Value) -> list[Op]:
    return [BlockId(0, value) for value in values]


def test_a_new_kind_of_view_is_printed(mix: tuple[Mix, dict[str, Value]]) -> None:
    op, _ = mix
    lines = text(kernel(op, buffers=(op.src.buffer, op.scratch))).splitlines()
    assert lines[lines.index("{") + 1].split("  //")[0].strip() == (
        "%r: i32 = toy.mix Columns(buffer=s, start=%a, width=4), pairs=(Columns(buffer=s, start=%b, width=2), %c) | "
        "(Columns(buffer=t, start=1, width=3), 7), full[%i], spread=5, scratch=t, fill=%k"
    )


def test_an_offset_nobody_defined_is_found(mix: tuple[Mix, dict[str, Value]]) -> None:
    op, values = mix
    buffers = (op.src.buffer, op.scratch)
    verify(kernel(defining(*(values[n] for n in "abcik")), op, buffers=buffers))
    with pytest.raises(Error, match=r"internal: value <Value a: i32> is used before it is defined \(in toy.mix\)"):
        verify(kernel(defining(*(values[n] for n in "bcik")), op, buffers=buffers))


# --- effects that name more than fields -----------------------------------------------------------------------------


@toy
@frozen(eq=False, repr=False)
class PairSum(Op):
    """The sum of a region and of the same region in the CTA `peer`, which its effects name although no field holds it."""

    mnemonic: ClassVar[str] = "toy.pair_sum"
    src: SharedView = operand()
    peer: Value = operand()
    result: Value = defined()

    @property
    def half(self) -> SharedView:
        return dataclasses.replace(self.src, cta=self.peer)

    def effects(self) -> Effects:
        return Effects(accesses=(Access(Mode.READ, self.src), Access(Mode.READ, self.half)))


@toy
@frozen(eq=False, repr=False)
class Forgetful(Op):
    """Its effects name a value that no operand holds."""

    mnemonic: ClassVar[str] = "toy.forgetful"
    src: SharedView = operand()

    def effects(self) -> Effects:
        return Effects(accesses=(Access(Mode.READ, dataclasses.replace(self.src, cta=Value(I32, "lost"))),))


class Log(Monitor):
    """Which CTA's memory each access of `toy.pair_sum` touches, by who runs it."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def access(self, agent: Any, op: Op, access: Access, place: Any, ranks: list[int] | None) -> None:
        if isinstance(op, PairSum):
            self.seen.append((agent.cta.rank, place.cta.rank))


def pair_sum_kernel() -> Any:
    s, y = SharedBuffer("s", (8,), f32), array("Y", 2)
    rank, peer, mine, total = scalar("rank"), scalar("peer"), tile((8,)), tile((8,))
    as_float = Value(Const(0.0).type)
    row = dataclasses.replace(box(y, (rank, 0), (1, 8)), kept=(1,))
    return kernel(
        ClusterRank(None, rank), Binary("sub", Const(1), rank, peer), Cast(rank, as_float), Full(as_float, mine),
        Store(whole(s), mine), ClusterSync(), PairSum(whole(s), peer, total), Store(row, total),
        ClusterSync(), buffers=(s,), params=(y,), cluster=2,
    )


def prepare_pair_sum(op: PairSum, agent: Any) -> Any:
    return lambda place, peer: place.array + place.peer(peer)


@pytest.fixture
def meaning(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(MEANINGS, PairSum, Meaning(prepare_pair_sum))
    yield


@pytest.mark.parametrize("watched", [False, True])
def test_a_derived_view_has_a_place_of_its_own(meaning: None, watched: bool) -> None:
    function, y, log = pair_sum_kernel(), np.zeros((2, 8), np.float32), Log()
    verify(function)
    simulate(function, 2, [y], monitor=log if watched else None)
    assert (y == 1).all()
    assert sorted(log.seen) == ([(0, 0), (0, 1), (1, 0), (1, 1)] if watched else [])


def test_arguments_are_fields_and_what_effects_derive() -> None:
    op = PairSum(whole(SharedBuffer("s", (8,), f32)), scalar("peer"), tile((8,)))
    call = CallOperands(op)
    assert call.fields == (op.src, op.peer) and call.derived == [op.half]
    assert call.finder(op.half)(("place", 1, "peer's place")) == "peer's place"
    assert call.finder(dataclasses.replace(op.src))(("place", 1, "peer's place")) == "place", "equal views are one place"


def test_effects_name_parts_of_tuples() -> None:
    x, s, b = array("X", 2), SharedBuffer("s", (4, 8), f32), BarrierArray("b", 1)
    rows = tuple(dataclasses.replace(box(x, (scalar(f"r{i}"), 0), (1, 8)), kept=(1,)) for i in range(4))
    op = TmaGather4(rows, whole(s), bar(b))
    call = CallOperands(op)
    assert call.derived == []
    arguments = (("row 0", "row 1", "row 2", "row 3"), "s", "b", None)
    assert [call.finder(access.region)(arguments) for access in op.effects().accesses] == [
        "row 0", "row 1", "row 2", "row 3", "s",
    ]


def test_an_effect_that_names_an_unknown_value_is_found() -> None:
    s = SharedBuffer("s", (8,), f32)
    with pytest.raises(Error) as error:
        verify(kernel(Forgetful(whole(s)), buffers=(s,), cluster=2))
    assert error.value.message == (
        "internal: the effects of toy.forgetful name <Value lost: i32>, which none of its operands holds"
    )
