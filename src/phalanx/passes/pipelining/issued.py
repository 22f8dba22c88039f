"""What a third role has of a kernel: the loops it multiplies for, how their tiles come, and how their results leave."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from phalanx.ir.archs import Arch
from phalanx.ir.core import Block, Op
from phalanx.ir.dots import DotDecision
from phalanx.ir.ops.control import For
from phalanx.ir.views import BarrierArray, TensorBuffer
from phalanx.passes.pipelining.multiplier import Multiplied, Multiplier, find_multiplied
from phalanx.passes.pipelining.operands import Operands
from phalanx.passes.pipelining.pairs import Paired, pair_up
from phalanx.passes.pipelining.parts import InParts, find_parts
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.products import Products
from phalanx.passes.pipelining.rings import Ring
from phalanx.passes.pipelining.slices import Slice
from phalanx.passes.pipelining.staging import Staged


@dataclass(eq=False)
class Issued:
    """`forms` by loop; `kept` is what the role runs of the kernel; `paired` are the tiles that pairs of CTAs multiply;
    `in_parts` what follows the loops, where it goes some columns at a time."""

    forms: dict[For, Multiplied] = field(default_factory=dict)
    kept: Collection[Op] = ()
    paired: dict[Staged, Paired] = field(default_factory=dict)
    in_parts: list[InParts] = field(default_factory=list)

    @property
    def buffers(self) -> list[TensorBuffer]:
        """The places of all sums, and of scales."""
        return [
            buffer for form in self.forms.values() for buffer in (*form.sums.values(), *form.scales.values())
        ]

    @property
    def barriers(self) -> list[BarrierArray]:
        """Who tells whom of them."""
        return [array for form in self.forms.values() for array in (form.full, form.empty)]

    @property
    def decisions(self) -> list[DotDecision]:
        """What the products become, for the notes."""
        return [decision for form in self.forms.values() for decision in form.decisions]

    @property
    def widths(self) -> dict[Op, int]:
        """The columns of a part, by store."""
        return {op: parts.width for parts in self.in_parts for op in parts.stores}

    def role(self, places: Places, rings: list[Ring], rest: Block) -> Block | None:
        """The role, whose kernel goes on with `rest`; None where it has nothing to do."""
        if not self.forms:
            return None
        read = [ring for ring in rings if ring.loads[0].loop in self.forms]
        return Multiplier(places, self.forms, read, set(self.kept)).role(rest)


def find_issued(
    products: Products, operands: Operands, loops: list[For], slice_: Slice, arch: Arch, taken: set[str]
) -> Issued:
    """What of some loops the third role takes over; `products` are those of the role that computes, from then on."""
    forms = find_multiplied(products, operands, loops, slice_, arch, taken)
    for form in forms.values():
        for made in form.products:
            del products.found[made.op]
    places = products.places
    paired = pair_up(places, forms.values(), operands.by_load.values(), arch)
    in_parts = [parts for form in forms.values() if (parts := find_parts(places, form)) is not None]
    return Issued(forms, slice_.ops, paired, in_parts)
