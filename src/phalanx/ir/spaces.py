"""Memory spaces: one object each, which says what every floor asks of the memory.

A view has a space. Whoever must know where the memory is, who reaches it, whether its edges are masked or which fence
orders its accesses asks the space for a property. Nobody asks for the class of the view or compares the space with one of
those below: "not global" does not mean "shared". A new kind of memory is a `Space` with a `Buffer` or `View` class that
names it (`ir/views.py`); the listing, the verifier, the scopes of signals, the simulator and the checks follow from what
the space says.
"""

from __future__ import annotations

from enum import Enum
from functools import cached_property

from phalanx.frozen import frozen


class Span(Enum):
    """A set of threads around one of them, from the narrowest to the widest; each value is PTX's name of that scope.

    A barrier brings the threads of a span together, a signal orders memory among them, and the threads of a span share a
    kind of memory.
    """

    AGENT = "agent"
    CTA = "cta"
    CLUSTER = "cluster"
    GPU = "gpu"
    SYSTEM = "sys"

    def covers(self, other: Span) -> bool:
        """Whether it has all threads that the other span has."""
        return _WIDTH[self] >= _WIDTH[other]


_WIDTH = {span: width for width, span in enumerate(Span)}


class FenceKind(Enum):
    """Fences by what they order."""

    PROXY_CTA = "proxy.async.shared::cta"
    PROXY_CLUSTER = "proxy.async.shared::cluster"
    PROXY_GLOBAL = "proxy.async.global"
    ACQ_REL_CLUSTER = "acq_rel.cluster"
    BARRIER_INIT = "mbarrier_init.release.cluster"
    TENSOR_BEFORE = "tcgen05.fence.before"
    TENSOR_AFTER = "tcgen05.fence.after"


@frozen(eq=False, repr=False)
class Space:
    """A kind of memory.

    `name` is what listings and messages call it. `shared_by`: the threads that have one such memory in common. With
    `Span.CTA` each CTA has its own, in buffers that the kernel declares; from `Span.GPU` on it is that of the arrays which
    the kernel is given. `addressable_from`: the threads that reach it with ordinary loads and stores, if only by naming its
    owner; None: those that share it. `readable_ahead`: what the kernel itself does not write stays as it is while the
    kernel runs, so that a load may be carried out earlier, and by other threads, than where it is written.

    `capacity`: the bytes of it that a CTA has, None where that depends on the target or on the arguments. `masked`: what
    lies outside is dropped by stores and reads as a fill; otherwise a box must lie inside. `own_fence` orders ordinary
    accesses before those of engines in the memory of the CTA that runs it, `common_fence` in the memory of all CTAs; a
    space with neither needs no fence between the two. `handover`: the fences that the compiler puts before a signal and
    behind a wait by which threads hand accesses of it to each other. `scattered`: elements lie where a layout says that
    follows from their use, not row by row, so that buffers which share memory have no bytes in common that their indices
    could tell. `instead`: what moves it to and from registers where ordinary loads and stores don't, in words for users.
    """

    name: str
    shared_by: Span
    addressable_from: Span | None = None
    readable_ahead: bool = False
    capacity: int | None = None
    masked: bool = False
    own_fence: FenceKind | None = None
    common_fence: FenceKind | None = None
    handover: tuple[FenceKind, FenceKind] | None = None
    scattered: bool = False
    instead: str = ""

    @cached_property
    def is_common(self) -> bool:
        """Whether all CTAs reach the same memory, without naming one of them."""
        return self.shared_by.covers(Span.GPU)

    @cached_property
    def is_each_ctas(self) -> bool:
        """Whether every CTA has such memory of its own."""
        return self.shared_by is Span.CTA

    @cached_property
    def has_peers(self) -> bool:
        """Whether a CTA reaches that of another CTA of its cluster by naming it."""
        return self.is_each_ctas and self.addressable_from is not None and self.addressable_from.covers(Span.CLUSTER)

    def __repr__(self) -> str:
        return f"<Space {self.name}>"


GLOBAL = Space("global", Span.GPU, readable_ahead=True, masked=True, common_fence=FenceKind.PROXY_GLOBAL)
SHARED = Space(
    "shared", Span.CTA, addressable_from=Span.CLUSTER, own_fence=FenceKind.PROXY_CTA, common_fence=FenceKind.PROXY_CLUSTER,
)
TENSOR = Space(
    "tensor", Span.CTA, handover=(FenceKind.TENSOR_BEFORE, FenceKind.TENSOR_AFTER), scattered=True,
    instead="px.tcgen05.load and px.tcgen05.store move it to and from registers",
)
"""Blackwell's memory of accumulators, operands and scales: 128 lanes of 512 cells of 32 bits (`ir/tensor_memory.py`).

What orders its accesses the instructions of the tensor cores bring along: no fence of the user's does.
"""
