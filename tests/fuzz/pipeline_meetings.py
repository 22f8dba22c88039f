"""What CTAs of a cluster tell each other in a random pipelined loop and behind it: where all of them come equally often."""

from __future__ import annotations

import random

from fuzz.pipeline_parts import Draft, Loop
from fuzz.pipeline_pieces import Piece

ALIKE = ("array", "count", "argument", "begin", "constant", "backwards")
"""Loops that take as many steps in all CTAs."""
FEATURE = "cluster operations"


def meeting(draft: Draft, loop: Loop, number: int) -> Piece | None:
    """A barrier, reduction or gather of the cluster in every step, or behind the loop; None where this loop has none.

    It is drawn by numbers of its own, so that all else of a kernel is as it was before there were any.
    """
    rng = random.Random(number * 104729 + loop.number)
    if draft.cluster == (1, 1) or rng.random() < 0.5:
        return None
    kind = rng.choice(("reduce", "reduce", "one receives", "gather", "sync", "halves"))
    inside = loop.kind in ALIKE and not {"continue", "break"} & set(draft.features) and rng.random() < 0.6
    draft.note(FEATURE)
    draft.note(f"cluster {kind}")
    piece, total = Piece(), draft.name("met")
    piece.before.append(f"{total} = px.zeros(({draft.bm},), px.f32)")
    step = loop.step if inside else "3"
    told = f"px.full(({draft.bm},), {step} + px.cluster.rank() * 2, px.f32)"
    if kind == "gather":
        lines = [f"{total} = {total} + px.sum(px.cluster.gather({told}), 0)"]
    elif kind == "one receives":
        lines = [f'{total} = {total} + px.cluster.reduce({told}, "max", cta=0)']
    elif kind == "reduce":
        lines = [f'{total} = {total} + px.cluster.reduce({told}, "{rng.choice(("sum", "max", "min"))}")']
    else:
        box, rank = draft.name("box"), "px.cluster.rank()"
        draft.statics.append(f"{box} = px.shared(({draft.bm},), px.f32)")
        wait = ["px.cluster.sync()"] if kind == "sync" else ["px.cluster.arrive()", "px.cluster.wait()"]
        lines = [
            f"px.store({box}.at(({rank} + 1) % px.cluster.size()), {told})", *wait,
            f"{total} = {total} + px.load({box})", "px.cluster.sync()",
        ]  # fmt: skip
    (piece.body if inside else piece.after).extend(lines)
    draft.note(f"they meet {'in' if inside else 'behind'} a loop")
    out = draft.array(("GX", "GY", draft.bm), "f32", "zeros")
    piece.after.append(f"px.store({out}[bx, by, 0:{draft.bm}], {total})")
    return piece
