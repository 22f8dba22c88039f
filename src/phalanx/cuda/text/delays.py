"""Delays of a build that is shaken: before waits, arrivals and copies, and after arrivals.

A kernel that is right is right however long any of its agents takes. A delay makes one of them late, by a seed, so that an
order that a GPU hardly ever takes comes up. Each delay is a site, which the host may switch off.
"""

from __future__ import annotations

from phalanx.cuda.abi import MOST_SITES
from phalanx.cuda.text.helper import helper
from phalanx.cuda.text.registry import follows, precedes
from phalanx.cuda.text.writer import Writer
from phalanx.ir.core import Op
from phalanx.ir.effects import Effects, Use, When

DELAY = "delay"
"""The kind of a site that delays."""
MOVED = Use.COPY, Use.ROWS
"""What an engine's access is for where it copies. Products are not delayed: nothing may stand between two in flight."""


def is_told(effects: Effects) -> bool:
    """Whether others learn of an instruction, or it of them: it waits, arrives, announces bytes, meets, or begins a copy."""
    copies = any(access.use in MOVED and access.when is not When.NOW for access in effects.accesses)
    signals = effects.waits or effects.arrivals or effects.expects or effects.rendezvous or effects.handshakes
    return bool(signals) or copies


@precedes
def delay_before(w: Writer, op: Op) -> None:
    """A delay before an instruction that others learn of, or that waits for them."""
    if w.plan.extras.shaken and is_told(op.effects()):
        _write_delay(w, op)


@follows
def delay_after(w: Writer, op: Op) -> None:
    """A delay after an arrival: what the agent does behind it, others may no longer wait for."""
    if w.plan.extras.shaken and op.effects().arrivals:
        _write_delay(w, op)


def _write_delay(w: Writer, op: Op) -> None:
    if len(w.sites) >= MOST_SITES:
        return
    told = f"{w.use(helper('px_seed'))}({w.debug})"
    seed = w.once("seed", "seed", lambda name: f"const unsigned long long {name} = {told};")
    passed = w.counter("delays", "delays", "delays that this thread has come by")
    site = w.site(DELAY, op.call, op.loc)
    w.line(f"{w.use(helper('px_delay'))}({w.debug}, {seed}, {site}, {passed});")
