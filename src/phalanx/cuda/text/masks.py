"""Signals to the CTAs of a mask: straight lines where the mask is known, one line where it has one bit, else a loop."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.cuda.text.literals import bare
from phalanx.cuda.text.writer import Writer
from phalanx.ir.ops.tile import Binary
from phalanx.ir.values import Value, constant_of

Mapped = Callable[[str], str]


def for_each_cta(w: Writer, mask: Value, emit: Callable[[Mapped], None]) -> None:
    """Calls `emit` for each CTA of `mask`, with the function that maps a shared address of this CTA to that one's."""
    constant = constant_of(mask)
    if constant is not None:
        for rank in range(int(constant).bit_length()):
            if int(constant) >> rank & 1:
                emit(_mapped(w, str(rank)))
        return
    single = single_bit(w, mask)
    if single is not None:
        emit(_mapped(w, bare(w.name(single))))
        return
    with w.block(f"for (unsigned px_ctas = {bare(w.name(mask))}; px_ctas != 0; px_ctas &= px_ctas - 1)"):
        emit(_mapped(w, "__ffs(px_ctas) - 1"))


def _mapped(w: Writer, cta: str) -> Mapped:
    return lambda address: f"{w.use('mapa_shared_cluster')}({address}, {cta})"


def single_bit(w: Writer, mask: Value) -> Value | None:
    """The rank, where a mask is written `1 << rank`."""
    op = w.definitions.get(mask)
    if isinstance(op, Binary) and op.fn == "shl" and constant_of(op.a) == 1:
        return op.b
    return None
