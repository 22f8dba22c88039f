"""What an instruction does to the machine, declared by the instruction itself.

This is the one source of truth for bytes, arrivals and masks: counting, byte totals, static checks, role barriers, the
simulator's bookkeeping, the sanitizer and the printer read these declarations and nothing else. A mask is a bit per CTA
rank of the cluster; None means the executing CTA alone.
"""

from __future__ import annotations

from enum import Enum

from phalanx.frozen import frozen
from phalanx.ir.archs import Arch, Feature, archs_with
from phalanx.ir.engines import Engine, Executor
from phalanx.ir.spaces import FenceKind as FenceKind
from phalanx.ir.spaces import Span as Span
from phalanx.ir.uses import Use as Use
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierArray, BarrierRef, View


class Mode(Enum):
    """How memory is touched. Two atomics on the same bytes do not race; whether they commute, an access says."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"


class Proxy(Enum):
    """Through which path: ordinary loads and stores, or the asynchronous engines (TMA, bulk copies, tensor cores)."""

    GENERIC = "generic"
    ASYNC = "async"


class When(Enum):
    """How an access ends, and how one learns of it; all but the first are an engine's."""

    NOW = "now"
    """With its instruction."""
    BARRIER = "barrier"
    """With the phase of a barrier on which its bytes complete (`Complete`)."""
    GROUP = "group"
    """With a group of its engine, for the agent that waits for it (`Group`)."""
    COMMIT = "commit"
    """With an arrival that its engine makes on a barrier (`Arrival.after`)."""


@frozen
class Access:
    """A read or write of a region; `mask` names the CTAs in whose shared memory it lands (multicast).

    `use`: what for. `engine`: who does it, where that is not the threads themselves.

    `exchange`: of memory that only exchanges over the cluster touch. Whoever waits for such a write also knows which of
    that memory its sender had read before; and nothing else of the sender, as with any copy that lands. `fenced`: the
    compiler lets a proxy fence follow a generic write wherever an engine uses the same memory.
    `folds`: an atomic whose old values nobody sees, by the name of its function: memory ends the same in whatever order
    several with that name are done. `strong`: a read of each element as a whole, whoever updates it meanwhile: to atomics it
    is as one of them. `only_if`: it happens only where that condition holds. `across`: of an operand in shared
    memory, that its rows do not run along K but across it (MN-major).
    """

    mode: Mode
    region: View
    proxy: Proxy = Proxy.GENERIC
    when: When = When.NOW
    mask: Value | None = None
    exchange: bool = False
    fenced: bool = False
    folds: str = ""
    strong: bool = False
    use: Use = Use.ORDINARY
    engine: Engine | None = None
    only_if: Value | None = None
    across: bool = False

    @property
    def atomic(self) -> bool:
        """Whether it takes each element as a whole, whoever updates it meanwhile."""
        return self.strong or self.mode is Mode.ATOMIC

    def commutes(self, other: Access) -> bool:
        """Whether the two may touch the same bytes in either order, with the same end."""
        if self.mode is not other.mode or self.mode is Mode.WRITE:
            return False
        return self.mode is Mode.READ or (self.folds != "" and self.folds == other.folds)


@frozen
class Arrival:
    """`count` arrivals on a barrier, in each CTA of `mask`.

    What its agent did or observed is released to the threads of `scope` that wait for the phase, unless it is relaxed;
    ordinary stores reach another CTA at cluster scope alone. `gives_back`: it hands a stage back to those whose copies
    complete on that array; without a mask the compiler finds out who they are. `divisible`: several threads may make it,
    each its share, since nothing else is tied to it. `after`: that engine makes it, when all the work that the agent gave it
    is over, and releases that work alone.
    """

    barrier: BarrierRef
    count: Value
    mask: Value | None = None
    scope: Span = Span.CTA
    releases: bool = True
    gives_back: BarrierArray | None = None
    divisible: bool = False
    after: Engine | None = None


@frozen
class Expect:
    """A barrier expects `nbytes` more in its current phase, in each CTA of `mask`."""

    barrier: BarrierRef
    nbytes: Value
    mask: Value | None = None


@frozen
class Complete:
    """`nbytes`, a number or a value at run time, will be credited to a barrier when the copy lands, in each CTA of `mask`.

    `awaited`: those CTAs wait for it in the same instruction, so that none is over while it is on its way. `leaders`: what
    lands in a CTA is credited to the barrier of the even CTA of its pair (ranks that differ in bit 0). `shared`: the CTAs
    of the mask run the instruction together, and each that runs it gets these bytes once, whatever the mask is.
    """

    barrier: BarrierRef
    nbytes: int | Value
    mask: Value | None = None
    awaited: bool = False
    leaders: bool = False
    shared: bool = False


def leader_of(rank: int) -> int:
    """The even CTA of the pair of a rank."""
    return rank & ~1


@frozen
class BarrierWait:
    """Waits for (or, if not `blocking`, asks about) the phase of `parity`, and acquires at `scope`."""

    barrier: BarrierRef
    parity: Value
    blocking: bool = True
    scope: Span = Span.CTA


class Life(Enum):
    """The life of a barrier."""

    INIT = "init"
    INVALIDATE = "invalidate"


@frozen
class Lifecycle:
    """Initialises or invalidates barriers; `index` None means the whole array."""

    life: Life
    barrier: BarrierArray
    index: Value | None = None


class GroupAction(Enum):
    """What is done to groups of an engine's work."""

    FENCE = "fence"
    COMMIT = "commit"
    WAIT = "wait"
    WAIT_READ = "wait.read"


@frozen
class Group:
    """Commits the work given to an engine so far to a group, or waits until at most `pending` groups are unfinished.

    A fence orders the register accesses of the agent before the engine's that follow.
    """

    engine: Engine
    action: GroupAction
    pending: int = 0


@frozen
class Accumulation:
    """Work in flight reads and writes the registers of `acc`, as `result`, until its group has been waited for."""

    acc: Value
    result: Value
    engine: Engine


@frozen
class Rendezvous:
    """A barrier of threads. Split forms have only one of `arrives` and `waits`; a relaxed arrive does not release."""

    span: Span
    arrives: bool = True
    waits: bool = True
    releases: bool = True


@frozen
class Handshake:
    """Threads hand on what they did or observed at the elements of a region, and take over what others did there.

    It orders memory among the threads of `scope`: two threads hand nothing to each other unless each is in the scope that
    the other one names.
    """

    region: View
    scope: Span = Span.GPU


class Neighbour(Enum):
    """The launches before and after this one on its stream."""

    PRIOR = "prior"
    NEXT = "next"


@frozen
class Target:
    """What a GPU must have for the instruction, and what to write instead on the others.

    `needs` are features of the table in `ir/archs.py`; an instruction without any is on every target. `family` is what
    users call it, where the compiler has several instructions for one of theirs.
    """

    needs: tuple[Feature, ...] = ()
    alternative: str | None = None
    family: str | None = None

    def supports(self, arch: Arch) -> bool:
        """Whether that target has the instruction."""
        return arch.has(self.needs)

    @property
    def remedy(self) -> str:
        """What to do about it on a target that lacks it: the alternative, and the targets that have it."""
        names = ", ".join(arch.name for arch in archs_with(self.needs))
        if self.alternative is None:
            return f"compile for a target that has it ({names})"
        return f"{self.alternative} (targets that have {self.family or 'it'}: {names})"


ANYWHERE = Target()


@frozen
class Effects:
    """All that an instruction does. Empty for pure arithmetic."""

    accesses: tuple[Access, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    expects: tuple[Expect, ...] = ()
    completes: tuple[Complete, ...] = ()
    waits: tuple[BarrierWait, ...] = ()
    lifecycle: tuple[Lifecycle, ...] = ()
    fences: tuple[FenceKind, ...] = ()
    groups: tuple[Group, ...] = ()
    accumulations: tuple[Accumulation, ...] = ()
    rendezvous: tuple[Rendezvous, ...] = ()
    launches: tuple[Neighbour, ...] = ()
    """Waits for the end of the prior launch, lets the next one begin."""
    handshakes: tuple[Handshake, ...] = ()
    executor: Executor = Executor.ALL
    target: Target = ANYWHERE

    @property
    def is_pure(self) -> bool:
        """No effect beyond its result."""
        return self == PURE


PURE = Effects()
