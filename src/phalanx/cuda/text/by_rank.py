"""What depends on the rank of a CTA in its cluster, as text."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.analysis.by_rank import ByRank
from phalanx.cuda.text.prelude import special_register
from phalanx.cuda.text.writer import Writer
from phalanx.ir.values import Value, constant_of


def rank_of_cta(w: Writer) -> str:
    """This CTA's rank in its cluster, as text."""
    return f"{w.use(special_register('cluster_ctarank'))}()"


def mask_text(w: Writer, mask: Value) -> str:
    """A mask of CTAs as text, as instructions with `.multicast::cluster` take it."""
    constant = constant_of(mask)
    return f"{int(constant):#x}" if constant is not None else f"(unsigned short){w.name(mask)}"


def number_by_rank(w: Writer, numbers: Sequence[int]) -> str:
    """One number per rank as an expression: the commonest, unless the rank is one of the others."""
    choice = ByRank.of(dict(enumerate(numbers)))
    text = str(choice.usual)
    for mask, number in choice.others:
        text = f"({mask:#x} >> {rank_of_cta(w)} & 1 ? {number} : {text})"
    return text
