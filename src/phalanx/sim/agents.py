"""Agents: the code outside roles, and each role, of a CTA; a generator that yields only when it must."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from phalanx.ir.core import Op
from phalanx.ir.engines import Engine
from phalanx.ir.views import SharedBuffer
from phalanx.sim.engines import BulkGroup, Line

if TYPE_CHECKING:
    from phalanx.sim.machine import Cta

BLOCKED = 0
"""Yielded by an agent that is registered with what will wake it."""
STEP = 1
"""Yielded by an agent that can go on but lets others run."""
POLL = 2
"""Yielded by a loop that goes in circles: it asks a barrier or memory again and again, and only others can end it."""
TRY = 3
"""Yielded by a loop that asks a barrier, and may also end by itself."""
ASK = 4
"""Yielded before an instruction of a loop that does nothing but ask, where every instruction is a step of its own."""
LINE = 5
"""Yielded before an instruction, in a run that is stepped through: nobody else has a turn for it."""

Program = Callable[..., Generator[int, None, None]]


class Agent:
    """The warps `first` to `first + warps - 1` of a CTA, running one program. Kept and started anew for every CTA.

    `copy` is its number among the copies of its role.

    `reading` and `writing` are its committed bulk groups, oldest first, that may still read and write.
    """

    __slots__ = (
        "alive", "changes", "children", "circle", "cluster_phase", "copy", "cta", "first", "generator", "issuing", "joining",
        "lines", "loops", "mma", "name", "open_group", "parent", "program", "queue", "reading", "resume", "turns", "waiting",
        "wanted", "warps", "watch", "writing",
    )

    def __init__(self, cta: Cta, name: str, first: int, warps: int, parent: Agent | None, copy: int = 0) -> None:
        self.cta = cta
        self.name = name
        self.first = first
        self.warps = warps
        self.copy = copy
        self.parent = parent
        self.children: list[Agent] = []
        self.queue: deque[Agent] = cta.cluster.ready
        self.program: Program = None  # type: ignore[assignment]  # bound by the code generator
        self.resume: Callable[[], int] = None  # type: ignore[assignment]
        self.generator: Any = None
        self.watch: Any = None  # what a monitor keeps of it
        self.changes = 0  # by atomics that left memory otherwise than it was
        self.loops = 0  # that ask, and that it has begun
        self.circle = 0  # the rounds of the circle that such a loop has just closed
        self.reset()

    def reset(self) -> None:
        """A CTA begins."""
        self.alive = False
        self.joining = 0
        self.cluster_phase = -1
        self.open_group: BulkGroup | None = None
        self.reading: deque[BulkGroup] = deque()
        self.writing: deque[BulkGroup] = deque()
        self.lines: dict[Engine, Line] = {}
        """Work that ends with a commit, by its engine, as far as it is not over."""
        self.waiting: tuple[Op, object] | None = None
        self.wanted = 0  # the parity, in a run that is driven step by step
        self.issuing: Any = ()
        # Exchanges over the cluster so far, by their inboxes and the copy: a later role of the same warps goes on with them.
        self.turns: dict[tuple[SharedBuffer, int], int] = {} if self.parent is None else self.parent.turns
        self.mma: Any = None  # groups of the tensor cores, made at the first use
        for child in self.children:
            child.reset()

    def start(self, *values: Any) -> None:
        """Begins the program; `values` are copied in, as a role copies the scalars around it."""
        self.generator = self.program(*values)
        self.resume = self.generator.__next__
        self.alive = True
        self.queue.append(self)

    def finish(self) -> None:
        """The program has ended: a role joins its parent, the CTA's own code ends the CTA."""
        self.alive = False
        parent = self.parent
        if parent is None:
            self.cta.exit()
            return
        monitor = self.cta.cluster.machine.monitor
        if monitor is not None:
            monitor.join(parent, self)
        parent.joining -= 1
        parent.cluster_phase = max(parent.cluster_phase, self.cluster_phase)
        if not parent.joining:
            parent.queue.append(parent)

    @property
    def role(self) -> str:
        """`producer`, `warps 0-3`, or `all warps` for the code outside roles."""
        return "all warps" if self.parent is None else self.name

    @property
    def title(self) -> str:
        """`producer (warp 0)`, `all 4 warps`."""
        if self.parent is None:
            return "all warps"
        last = self.first + self.warps - 1
        return f"{self.name} (warp {self.first})" if self.warps == 1 else f"{self.name} (warps {self.first}-{last})"

    def __repr__(self) -> str:
        return f"<Agent {self.name} of CTA {self.cta.rank}, cluster {self.cta.cluster.index}>"
