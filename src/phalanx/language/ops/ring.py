"""`px.ring`: a position in a ring of stages, with the parity of its round."""

from __future__ import annotations

from phalanx.ir.types import i32
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.objects import Numeric, describe
from phalanx.language.operators import binary, cast, compare, select
from phalanx.language.requirements import is_constant_integer
from phalanx.language.structs import Fields, StructClass, StructValue, new_struct


def advanced(ctx: Builder, n: int, stage: Numeric, parity: Numeric) -> tuple[Numeric, Numeric]:
    """The next stage and parity, without a branch."""
    if n == 1:
        return 0, binary(ctx, "xor", parity, 1)
    following = binary(ctx, "add", stage, 1)
    wraps = compare(ctx, "eq", following, n)
    if isinstance(wraps, bool):
        return (0, binary(ctx, "xor", parity, 1)) if wraps else (following, parity)
    return select(ctx, wraps, 0, following), binary(ctx, "xor", parity, cast(ctx, wraps, i32))


def advance(ctx: Builder, fields: Fields, *args: object, **kwargs: object) -> None:
    """Moves on by one stage."""
    if args or kwargs:
        ctx.fail(".advance() takes no arguments", "it moves on by one stage")
    fields["stage"], fields["parity"] = advanced(ctx, fields["n"], fields["stage"], fields["parity"])


RING = StructClass("ring", ("n", "stage", "parity"), {}, {}, natives={"advance": advance})
"""Rings are structs whose one method is built in."""


@builtin("ring")
def ring(ctx: Builder, n: object) -> StructValue:
    """A position in a ring of `n` stages: `.stage` is 0 to n-1, `.parity` flips at every wrap, `.advance()` moves on.

    Any agent; any GPU; no PTX. A consumer waits for ``ring.parity`` on `full`, a producer for ``ring.parity ^ 1`` on
    `empty`. Example: ``r = px.ring(4); full[r.stage].wait(r.parity); r.advance()``.
    """
    if not is_constant_integer(n) or n < 1:
        ctx.fail(f"px.ring needs a positive constant number of stages, not {describe(n)}", "e.g. px.ring(4)")
    return new_struct(ctx, RING, {"n": n, "stage": 0, "parity": 0})
