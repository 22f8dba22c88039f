"""Targets: an architecture is an argument, never ambient state."""

from __future__ import annotations

from phalanx.errors import Error
from phalanx.frozen import frozen


@frozen
class Arch:
    """A compilation target. `shared_limit` is the dynamic shared memory a CTA may use, `max_cluster` its largest cluster."""

    name: str
    sm: int
    shared_limit: int = 232448
    max_cluster: int = 16

    def __str__(self) -> str:
        return self.name


ARCHS = {
    "sm_90a": Arch("sm_90a", 90),
    "sm_100a": Arch("sm_100a", 100),
    "sm_120a": Arch("sm_120a", 120, shared_limit=101376, max_cluster=8),
}
COPY_CHUNK = 16
"""Bytes: where the copy engine begins, what it steps by and how much it moves are multiples of it (`ArrayType.aligned`,
`.whole`); the widest access of a thread moves as many."""
MAX_STRIDE = 1 << 40
"""Bytes between neighbours along an axis of an array from which on TMA has no descriptor."""
MAX_DIM = 1 << 32
"""Elements along an axis that a descriptor can name."""
MAX_BOX = 256
"""Elements of a TMA box along an axis."""
SHARED_LIMIT = ARCHS["sm_90a"].shared_limit
"""Of Hopper, to which `px.auto` is fitted for every target."""

WARPGROUP = 4
"""Warps, from a multiple of 4 on, that run a Hopper product together, and whose registers `regs=` moves."""
QUARTERS = 4
"""Of an SM: each has a scheduler and a register file of its own, and warps are dealt to them in turn."""
REGISTERS_PER_QUARTER = 65536 // QUARTERS


def arch_of(name: str | Arch) -> Arch:
    """The target of that name.

    Anyone may call it. Example: ``arch_of("sm_90a").sm == 90``.
    """
    if isinstance(name, Arch):
        return name
    if name not in ARCHS:
        raise Error(f"unknown target {name!r}", remedy=f"use one of {', '.join(ARCHS)}")
    return ARCHS[name]


def entry_registers(warps: int, ctas_per_sm: int = 1) -> int:
    """Registers a thread starts with where `regs=` is used: an even share, in steps of 8, at most 255.

    The share is that of the fullest quarter of an SM: 13 warps start with as many as 16 do. ptxas decides so for kernels
    with `setmaxnreg`; one that reckoned with more would wait forever for what the pool does not have.
    """
    dealt = -(-warps * ctas_per_sm // QUARTERS)
    return min(255, REGISTERS_PER_QUARTER // (32 * dealt) // 8 * 8)
