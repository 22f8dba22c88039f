"""Products of tiles that are in a ring: which instruction each becomes, and which stay in flight from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field

from phalanx.frozen import frozen
from phalanx.ir.archs import WARPGROUP, Arch, Feature
from phalanx.ir.core import Block, Op
from phalanx.ir.dots import TOPIC
from phalanx.ir.ops.control import Break, For
from phalanx.ir.ops.tile import Select
from phalanx.ir.ops.wgmma import ACCUMULATORS
from phalanx.ir.tensor_kinds import Kind, Objection, kind_of, product_shape
from phalanx.ir.traits import Product
from phalanx.ir.types import BOOL, DType
from phalanx.ir.values import Const, Value, Var
from phalanx.ir.views import SharedView, in_shared
from phalanx.ir.wgmma_rules import major_objection, place_objection, shape_objection
from phalanx.location import Location
from phalanx.passes.pipelining.blocked import SCALES
from phalanx.passes.pipelining.kept import Kept
from phalanx.passes.pipelining.operands import Operands
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.rings import whole_tile
from phalanx.passes.pipelining.staging import Staged
from phalanx.passes.rank_code import LoopCode
from phalanx.passes.resident_accumulators import Residence, find_residences
from phalanx.passes.role_rules import trip_count

Side = SharedView | Value | tuple[Staged, tuple[int, ...]]
"""An operand: in shared memory, in registers, or the tile of a load in its ring with its axes in an order."""


@frozen(eq=False)
class StagedProduct:
    """A product of tiles of rings. `along` is the axis that warpgroups share; None where `wgmma` can't do it, for `why`;
    `remedy` is what it asks for."""

    op: Op
    what: Product
    a: Side
    b: Side
    along: str | None
    why: str = ""
    remedy: str = ""
    scales: tuple[Staged, Staged] | None = None
    """The loads of the scales of blocks of both operands, where they have some."""

    @property
    def kind(self) -> Kind | None:
        """The kind of product of tensor memory that it is, if it is one."""
        scale, block = None, None
        if self.scales is not None:
            scale, block = self.scales[0].view.dtype, _shape(self.a)[1] // (self.scales[0].view.shape[1] * SCALES)
        found = kind_of(_dtype(self.a), _dtype(self.b), scale, block)
        return None if isinstance(found, Objection) or isinstance(self.shape_of(found), Objection) else found

    def shape_of(self, kind: Kind, pair: bool = False) -> tuple[int, int, int] | Objection:
        """The shape of an instruction of that kind, by a CTA or a pair of them, or why there is none."""
        (m, k), (_, n) = _shape(self.a), _shape(self.b)
        across = isinstance(self.b, tuple) and self.b[1][1] == len(self.b[0].view.shape) - 1
        return product_shape(kind, m, n, k, two_cta=pair, columns_major=across)


@dataclass(eq=False)
class Flight:
    """A loop whose products stay in flight from one step to the next: their accumulators, in cells, see nothing else."""

    loop: For
    products: list[Op]
    residences: list[Residence]
    cells: list[Var] = field(default_factory=list)
    began: Var | None = None
    """Whether any step came to its products, of a loop that a `break` may end before."""


class Products:
    """The products of a kernel's loops that read rings."""

    def __init__(
        self, places: Places, operands: Operands, kept: Kept, arch: Arch, refused: frozenset[Location] = frozenset()
    ) -> None:
        self.places = places
        self.refused = refused
        """Places of products that do not overlap with others."""
        self.kept = kept
        self.operands = operands
        self.arch = arch
        self.found: dict[Op, StagedProduct] = {}
        for staged in operands.by_load.values():
            for op in staged.products:
                if op not in self.found:
                    self.found[op] = self.describe(op) if op.scaled_product is None else self._scaled(op)
        for op in places.order:
            product = op.product
            if product is not None and op not in self.found and (kept.view_of(product.a) or kept.view_of(product.b)):
                self.found[op] = self.describe(op)

    def describe(self, op: Op, right: SharedView | None = None) -> StagedProduct:
        """What a product becomes; `right` is where its right operand will be written, if it is a register tile."""
        what = op.product
        assert what is not None
        a, b = self.side(op, what.a), right or self.side(op, what.b)
        warps = self.places.function.warps
        if not self.arch.has((Feature.WGMMA,)):
            return StagedProduct(op, what, a, b, None, f"{self.arch} has no wgmma")
        if warps % WARPGROUP:
            why = f"wgmma runs on whole warpgroups, the kernel has {warps} warps"
            return StagedProduct(op, what, a, b, None, why, f"give the kernel a multiple of {WARPGROUP} warps")
        if isinstance(b, Value):
            remedy = "multiply the transposes: what is computed may be the left operand"
            return StagedProduct(op, what, a, b, None, "b is a register tile", remedy)
        if (_dtype(a), _dtype(b)) not in ACCUMULATORS:
            remedy = "convert the operands to a pair of types that px.wgmma takes"
            return StagedProduct(op, what, a, b, None, "the types are not wgmma's", remedy)
        (m, k), (_, n) = _shape(a), _shape(b)
        reasons = {}
        for along in ("m", "n"):
            shaped = shape_objection(TOPIC, m, n, k, _dtype(b), along, warps)
            objection = shaped or _lies_wrong("a", a, 1) or _lies_wrong("b", b, 0)
            if objection is None:
                return StagedProduct(op, what, a, b, along)
            reasons[along] = objection
        why, remedy = reasons["m"]
        remedy = remedy or "load tiles that px.wgmma reads"
        return StagedProduct(op, what, a, b, None, why.removeprefix(f"{TOPIC}: "), remedy)

    def _scaled(self, op: Op) -> StagedProduct:
        """A product with scales, which the tensor cores of a target with tensor memory do, or nobody here."""
        what = op.scaled_product
        assert what is not None
        scales = self.operands.scales_of(what.scale_a), self.operands.scales_of(what.scale_b)
        known = (scales[0], scales[1]) if scales[0] is not None and scales[1] is not None else None
        return StagedProduct(op, what, self.side(op, what.a), self.side(op, what.b), None, scales=known)

    def side(self, op: Op, given: SharedView | Value) -> Side:
        """Where an operand of a product lies."""
        found = self.operands.staged_of(given)
        if found is None or op not in found[0].products:
            return self.kept.view_of(given) or given
        return found

    def flight(self, loop: For) -> Flight | None:
        """How the products of a loop overlap with its next step, if they can."""
        inside = [op for op in loop.body.walk() if op.product is not None]
        if not inside or any(op.loc in self.refused for op in inside):
            return None
        for op in inside:
            made = self.found.get(op)
            if made is None or made.along is None or self.places.home[op] is not loop.body:
                return None
            if isinstance(made.a, Value):
                return None  # its registers would be another's before it is over
        known = {op: product for op in inside if (product := op.product) is not None}
        around = Block(self.places.home[loop].ops[: self.places.index[loop] + 1])
        found = find_residences(around, self.places.function.body, known, self.places.makers)
        homes = [home for home in found if home.loop is loop]
        if {op for home in homes for op in home.products} != set(inside):
            return None
        first, last = self.places.index[inside[0]], self.places.index[inside[-1]]
        leaves = False
        for index, op in enumerate(loop.body.ops):
            for leaving in self.places.exits_from(op):
                if not isinstance(leaving, Break) or leaving.label is not loop.label or first < index < last:
                    return None  # another step's products, or only a part of them, would be what is in flight behind it
                leaves = True
        return Flight(loop, inside, homes, [home.var for home in homes], Var(BOOL, "began") if leaves else None)


def _shape(side: Side) -> tuple[int, ...]:
    if isinstance(side, tuple):
        staged, perm = side
        return tuple(staged.view.shape[axis] for axis in perm)
    return side.shape if in_shared(side) else side.type.shape  # type: ignore[union-attr]


def _dtype(side: Side) -> DType:
    if isinstance(side, tuple):
        return side[0].view.dtype
    return side.dtype if in_shared(side) else side.type.dtype  # type: ignore[union-attr]


def _lies_wrong(name: str, side: Side, k_axis: int) -> tuple[str, str] | None:
    """What of an operand's place keeps `wgmma` from reading it."""
    if isinstance(side, tuple):
        side = whole_tile(*side)
    return major_objection(TOPIC, name, side, k_axis) or place_objection(name, side)


def runs(loop: For, code: LoopCode) -> Value | None:
    """Whether a loop has any iterations; None where it surely has."""
    trips = trip_count(loop)
    if trips:
        return None
    if isinstance(loop.step, Const):
        return code.compare("lt" if int(loop.step.value) > 0 else "gt", loop.start, loop.stop, "ran")
    up = code.compare("gt", loop.step, Const(0, loop.step.type), "up")  # type: ignore[arg-type]
    forward, backward = code.compare("lt", loop.start, loop.stop, "ran"), code.compare("gt", loop.start, loop.stop, "ran")
    ran = Value(BOOL, "ran")
    code.ops.append(Select(up, forward, backward, ran, loc=loop.loc))
    return ran

