"""Who used an agent's scratch memory before: a barrier keeps the next writer from overtaking the last reader."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from phalanx.cuda.plan import Plan
from phalanx.cuda.text.writer import Writer
from phalanx.ir.core import Op
from phalanx.ir.ops.control import For, While

_REPEATED: WeakKeyDictionary[Plan, frozenset[Op]] = WeakKeyDictionary()
_USED: WeakKeyDictionary[Writer, set[tuple[int, int]]] = WeakKeyDictionary()


def claim_scratch(w: Writer, op: Op) -> None:
    """Writes the barrier before `op` writes scratch memory; none where it is the first to do so and runs once."""
    used = _USED.setdefault(w, set())
    agent = (w.agent.first, w.agent.warps)
    if agent in used or op in _repeated(w.plan):
        w.sync_agent("scratch memory is free")
    used.add(agent)


def _repeated(plan: Plan) -> frozenset[Op]:
    """Every instruction inside a run-time loop: it may follow its own earlier run."""
    known = _REPEATED.get(plan)
    if known is None:
        loops = (op for op in plan.function.walk() if isinstance(op, For | While))
        known = frozenset(inner for loop in loops for block in loop.blocks() for inner in block.walk())
        _REPEATED[plan] = known
    return known
