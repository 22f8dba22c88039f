"""Combining the elements along an axis in order: what folds and scans by any function have in common.

Blocks of neighbours are joined from the lowest bit of the coordinate to the highest, whether a register, a lane or a warp
holds it; the lower block is always the left operand. A block is one or several numbers (`Joiner`). Joining never takes an
element beyond the end of the axis into a result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.claim import claim_scratch
from phalanx.cuda.tiles.coordinates import Coordinates, owner_conditions
from phalanx.cuda.tiles.index import SlotTexts, atom, element, local, plus, times
from phalanx.ir.core import Op
from phalanx.ir.types import DType
from phalanx.layouts.axes import Run, runs_along
from phalanx.layouts.bits import round_up
from phalanx.layouts.registers import RegisterLayout, padded

LONGEST_LINE = 100
"""Characters of a condition and what it decides that stand on one line."""


class Joiner(ABC):
    """How two blocks become one. `dtypes`: of the numbers that a block is, as the text computes with them.

    `commutes`: the result is the same, bit for bit, when both change places.
    """

    dtypes: tuple[DType, ...]
    commutes: bool = False

    @abstractmethod
    def join(self, low: Sequence[str], high: Sequence[str], out: Sequence[str]) -> str:
        """The statement that joins two neighbouring blocks; `out` may be one of them."""


@contextmanager
def each(
    w: Writer, rows: Sequence[Sequence[int]], names: Sequence[str], *, scope: bool = False
) -> Iterator[list[str]]:
    """An unrolled loop over rows of numbers; yields the text of each column. `scope`: the body declares variables."""
    columns = list(zip(*rows, strict=True))
    if len(rows) == 1:
        with w.block() if scope else nullcontext():
            yield [str(column[0]) for column in columns]
        return
    var = local(w, "i")
    w.line("#pragma unroll")
    with w.block(f"for (int {var} = 0; {var} < {len(rows)}; ++{var})"):
        texts = []
        for column, name in zip(columns, names, strict=True):
            text = SlotTexts(w).at(column, var, hint=f"{name}_of")
            if not (text.isdigit() or text.isidentifier()):
                declared = local(w, name)
                w.line(f"const int {declared} = {text};")
                text = declared
            texts.append(text)
        yield texts


def elements(arrays: Sequence[str], index: str) -> list[str]:
    """The element at an index of each array."""
    return [element(array, index) for array in arrays]


def kept_size(layout: RegisterLayout, axis: int) -> int:
    """Elements of the padded tile without one axis."""
    size = 1
    for dim, extent in enumerate(padded(layout.shape)):
        size *= extent if dim != axis else 1
    return size


def exchange_bytes(dtypes: Sequence[DType], layout: RegisterLayout, axis: int) -> int:
    """Scratch bytes: the blocks that warps exchange, for the lowest bit that a warp holds."""
    positions = [run.position for run in runs_along(layout, axis) if run.kind == "warp"]
    if not positions:
        return 0
    return _arrays(dtypes, _blocks(layout, axis, positions[0]))[1]


def _blocks(layout: RegisterLayout, axis: int, position: int) -> int:
    return (layout.linear.shape[axis] >> position) * kept_size(layout, axis)


def _arrays(dtypes: Sequence[DType], count: int) -> tuple[list[int], int]:
    """Where the array of each number begins, and where all of them end."""
    starts, end = [], 0
    for dtype in dtypes:
        end = round_up(end, dtype.itemsize)
        starts.append(end)
        end += count * dtype.itemsize
    return starts, end


class PartExchange:
    """Blocks of the warps along an axis: each is written to scratch memory once, and every thread reads what it needs."""

    def __init__(
        self, w: Writer, op: Op, layout: RegisterLayout, axis: int, run: Run, joiner: Joiner, coordinates: Coordinates
    ) -> None:
        self.w, self.op, self.layout, self.axis, self.run = w, op, layout, axis, run
        self.joiner, self.coordinates = joiner, coordinates
        count = _blocks(layout, axis, run.position)
        self.arrays = []
        for number, (dtype, start) in enumerate(zip(joiner.dtypes, _arrays(joiner.dtypes, count)[0], strict=True)):
            name, ctype = local(w, f"shared_{number}"), w.ctype(dtype)
            place = f"{w.scratch(op)} + {start}" if start else w.scratch(op)
            w.line(f"{ctype}* const {name} = reinterpret_cast<{ctype}*>({place});")
            self.arrays.append(name)

    def block(self, slot: str) -> str:
        """The number of the block that slot `slot` of this thread lies in."""
        return f"({atom(self.coordinates.at(self.axis, slot))} >> {self.run.position})"

    def places(self, block: str, slot: str) -> list[str]:
        """Where the numbers of a block lie, for the other coordinates of slot `slot`."""
        stride = 1
        terms: list[str] = []
        for dim in reversed(range(self.layout.rank)):
            if dim != self.axis:
                terms.insert(0, times(self.coordinates.at(dim, slot), str(stride)))
                stride *= padded(self.layout.shape)[dim]
        return elements(self.arrays, plus(times(block, str(kept_size(self.layout, self.axis))), *terms))

    def write(self, rows: Sequence[tuple[int, int]], values: Sequence[str]) -> None:
        """Every block by one of the threads that hold it, then the barrier. `rows`: position in `values`, and slot."""
        w = self.w
        claim_scratch(w, self.op)
        owner = owner_conditions(w, self.layout)
        low = (1 << self.run.position) - 1
        owned = w.block(f"if ({' && '.join(owner)})") if owner else nullcontext()
        with owned, each(w, rows, ("item", "slot")) as (item, slot):
            stored = assign(self.places(self.block(slot), slot), elements(values, item))
            only_if(w, f"({atom(self.coordinates.at(self.axis, slot))} & {low}) == 0" if low else "", stored)
        w.sync_agent()

    @contextmanager
    def neighbours(self, slot: str) -> Iterator[tuple[str, str, str, list[str]]]:
        """A loop over the blocks of this run: the number in the run, that of this thread's block, the number of the
        block, and names that hold what it is."""
        w, count = self.w, self.run.count
        mine, base, j = local(w, "mine"), local(w, "base"), local(w, "j")
        w.line(f"const int {mine} = {self.block(slot)} & {count - 1}, {base} = {self.block(slot)} - {mine};")
        w.line("#pragma unroll")
        with w.block(f"for (int {j} = 0; {j} < {count}; ++{j})"):
            names = [local(w, f"other_{number}") for number in range(len(self.arrays))]
            for name, dtype, place in zip(names, self.joiner.dtypes, self.places(f"({base} + {j})", slot), strict=True):
                w.line(f"const {w.ctype(dtype)} {name} = {place};")
            yield j, mine, f"({base} + {j})", names


@contextmanager
def lane_bits(w: Writer, bits: Sequence[int]) -> Iterator[str]:
    """A loop over neighbouring bits of the lane's number, from the lowest up; yields the text of the bit's value."""
    if len(bits) == 1:
        yield str(1 << bits[0])
        return
    mask = local(w, "mask")
    w.line("#pragma unroll")
    with w.block(f"for (int {mask} = {1 << bits[0]}; {mask} <= {1 << bits[-1]}; {mask} *= 2)"):
        yield mask


def stretches(bits: Sequence[int]) -> list[tuple[int, ...]]:
    """Cut where one number does not follow the other."""
    found: list[tuple[int, ...]] = []
    for bit in bits:
        found = [*found[:-1], (*found[-1], bit)] if found and found[-1][-1] == bit - 1 else [*found, (bit,)]
    return found


def shuffled(w: Writer, joiner: Joiner, values: Sequence[str], mask: str) -> tuple[str, list[str]]:
    """A name for whether this lane is the upper one of two, and names that hold what the other one has."""
    upper = local(w, "upper")
    w.line(f"const bool {upper} = ({w.lane} & {mask}) != 0;")
    names = [local(w, f"other_{number}") for number in range(len(values))]
    for name, dtype, value in zip(names, joiner.dtypes, values, strict=True):
        w.line(f"const {w.ctype(dtype)} {name} = {w.use('shuffle_xor')}({value}, {mask});")
    return upper, names


def join_lanes(joiner: Joiner, upper: str, mine: Sequence[str], other: Sequence[str], out: Sequence[str]) -> str:
    """The statement that joins what two lanes hold, the same in both."""
    if joiner.commutes:
        return joiner.join(mine, other, out)
    low = [f"{upper} ? {b} : {a}" for a, b in zip(mine, other, strict=True)]
    high = [f"{upper} ? {a} : {b}" for a, b in zip(mine, other, strict=True)]
    return joiner.join(low, high, out)


def assign(targets: Sequence[str], values: Sequence[str]) -> str:
    """One assignment after the other, on a line."""
    return " ".join(f"{target} = {value};" for target, value in zip(targets, values, strict=True))


def only_if(w: Writer, condition: str, then: str, orelse: str = "") -> None:
    """Statements under a condition, which is empty where they always run."""
    if not condition:
        w.line(then)
        return
    short = f"if ({condition}) {{ {then} }}{f' else {{ {orelse} }}' if orelse else ''}"
    if len(short) <= LONGEST_LINE:
        w.line(short)
        return
    with w.block(f"if ({condition})", "} else {" if orelse else "}"):
        w.line(then)
    if orelse:
        with w.indent():
            w.line(orelse)
        w.line("}")
