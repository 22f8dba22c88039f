"""Small launches of the library's kernels, for their mutants."""

from __future__ import annotations

from collections.abc import Callable

from mutation.attention import ATTENTION
from mutation.attention_blackwell import ATTENTION_BLACKWELL
from mutation.caches import CACHES
from mutation.gradients import GRADIENTS
from mutation.launches import Case
from mutation.moves import MOVES
from mutation.products import PRODUCTS
from mutation.rowwise import ROWWISE

LIBRARY: dict[str, Callable[[], Case]] = {
    **ATTENTION, **ATTENTION_BLACKWELL, **CACHES, **GRADIENTS, **MOVES, **PRODUCTS, **ROWWISE,
}  # fmt: skip
