"""What instructions ask of the register layouts of their tiles: the words for it, and who says it.

A rule is a list of wishes: values that share a layout, layouts that follow from another tile's, memory that is touched,
axes that are reduced. The families register one rule per instruction class, in `cuda/lower/ops/<family>.py`; inference
weighs what they wish.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.tables import Table
from phalanx.ir.types import TileType
from phalanx.ir.values import Value
from phalanx.ir.views import View
from phalanx.layouts.registers import RegisterLayout
from phalanx.location import Location

Transform = Callable[[RegisterLayout], RegisterLayout]


@frozen
class Same:
    """All these tiles have one layout."""

    values: tuple[Value, ...]


@frozen
class Operand:
    """A broadcast operand (or an index tile) must be laid out as `layout(result's)`."""

    operand: Value
    result: Value
    layout: Transform


@frozen
class Result:
    """The result is laid out as `layout(operand's)` (ValueError if it is none); `back` is the inverse, if any."""

    result: Value
    operand: Value
    layout: Transform
    back: Transform | None = None


@frozen
class Touch:
    """A tile is loaded from, or stored to, a view of memory, in whatever layout it has."""

    value: Value
    view: View
    writes: bool


@frozen
class Lands:
    """Elements land in a view of memory from the threads that hold them in the tile's layout, without their registers."""

    value: Value
    view: View


@frozen
class Along:
    """The elements along one axis are combined: cheapest inside a thread, then a warp.

    `ordered`: neighbours with neighbours, so that each bit of the coordinate has one holder. `beside`: the
    instruction's other operands, and results, that have the layout in which it does that.
    """

    value: Value
    axis: int
    ordered: bool = False
    beside: tuple[Value, ...] = ()


@frozen
class Fixed:
    """The instruction dictates a layout (as tensor cores do).

    `firm`: what it leaves can't be converted right behind it, because it is still in flight.
    """

    value: Value
    layout: RegisterLayout
    firm: bool = False
    loc: Location | None = None


@frozen
class OneOf:
    """The instruction makes or takes a tile in these layouts alone; whichever suits the others best is taken.

    A tile that is made so can't be converted right behind the instruction, since it may still be in flight: all who have
    its layout keep to these.
    """

    value: Value
    layouts: tuple[RegisterLayout, ...]


@frozen
class Prefer:
    """The instruction makes its result in any layout; that of so many warps suits those who will read it."""

    value: Value
    layout: Callable[[int], RegisterLayout]


Wish = Same | Operand | Result | Touch | Lands | Along | Fixed | OneOf | Prefer
Rule = Callable[[Any], list[Wish]]


def is_tile(value: object) -> bool:
    """Whether something is a value that lies in registers as a tile."""
    return isinstance(value, Value) and isinstance(value.type, TileType)


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of a tile."""
    assert isinstance(value.type, TileType)
    return value.type.shape


def elementwise(op: Any) -> list[Wish]:
    """All tiles of the result's shape have its layout; those that are broadcast follow from it."""
    tiles = [operand for operand in op.operands() if is_tile(operand)]
    if not is_tile(op.result):
        return []
    shape = shape_of(op.result)
    same = tuple(tile for tile in tiles if shape_of(tile) == shape)
    wishes: list[Wish] = [Same((op.result, *same))]
    for tile in tiles:
        if shape_of(tile) != shape:
            wishes.append(Operand(tile, op.result, operand_layout(shape_of(tile))))
    return wishes


def operand_layout(shape: tuple[int, ...]) -> Transform:
    """How a broadcast operand of that shape lies, given the layout of the result."""
    return lambda result: result.operand(shape).layout


def stored(value: Value, view: View) -> list[Wish]:
    """A tile that goes to memory as it is."""
    return [Touch(value, view, True), *row_indices(view, value)] if is_tile(value) else []


def row_indices(view: View, data: Value) -> list[Wish]:
    """The tile of row indices runs along one axis of the data."""
    axis = view.index_axis
    if axis is None:
        return []
    dim = view.kept.index(axis)
    return [Operand(view.offsets[axis], data, lambda layout: along(layout, dim))]


def along(layout: RegisterLayout, dim: int) -> RegisterLayout:
    """The layout of a rank-1 tile that runs along one dimension of another."""
    for axis in reversed(range(layout.rank)):
        if axis != dim:
            layout = layout.slice(axis).layout
    return layout


def as_it_was_read(result: Value, operand: Value) -> Result:
    """Behind `Same` and a wish that may move the operand after all: the result then moves back."""
    return Result(result, operand, lambda layout: layout, lambda layout: layout)


asks: Table[Rule] = Table()
"""Rules by instruction class."""
repeats: Table[Callable[[Any], bool]] = Table()
"""Instructions that cost next to nothing to compute again in another layout, if all their tiles do."""
FREE_DEPTH = 8
"""Instructions in a row that are computed again rather than converted."""


def is_cheap(op: Op) -> bool:
    """Whether an instruction may be repeated for the sake of another layout, given that its operands may."""
    cheap = repeats.of(op)
    return cheap is not None and cheap(op)


def wishes_of(op: Op) -> list[Wish]:
    """What an instruction asks of its tiles' layouts; `px.Error` at its line if its family says nothing."""
    rule = asks.of(op)
    if rule is not None:
        return rule(op)
    if any(is_tile(value) for value in (*op.operands(), *op.defined_values())):
        raise Error(
            f"{op.call} works on register tiles, but nothing says how they are laid out for it",
            location=op.loc,
            remedy=f"this is a mistake in Phalanx, not in the kernel: register a rule for {op.mnemonic} with @asks in "
            f"cuda/lower/ops/{op.family}.py",
        )
    return []
