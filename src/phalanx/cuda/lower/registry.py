"""What the families tell the passes of this folder about their instructions: see `cuda/lower/ops/<family>.py`.

Each table holds one function per instruction class. A pass looks an instruction up and never asks what it is; a test
compares the tables with `ir.core.INSTRUCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phalanx.analysis.divisibility import Divisibility
from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.engines import Engine
from phalanx.ir.tables import Table
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierRef, GlobalView, SharedBuffer, SharedView
from phalanx.layouts import SharedLayout


@frozen
class Transfer:
    """A copy by the TMA engine between global memory and `shared`, which a prefetch does not have.

    `views`: the global region; four of one row each where rows are named one by one. `rows`: rows are named by index.
    `stores`: it goes to global memory; `folds`: and is combined with what is there, by that
    function. `multicast`: it lands in several CTAs; `pair`: its bytes are those of the even CTA of a pair.
    """

    views: tuple[GlobalView, ...]
    shared: SharedView | None
    cache: str | None
    rows: bool = False
    stores: bool = False
    folds: str = ""
    multicast: bool = False
    pair: bool = False

    @property
    def spreads(self) -> bool:
        """Whether several CTAs get what one copies, or hear of it."""
        return self.multicast or self.pair

    @property
    def expands(self) -> bool:
        """Whether it puts room between packed elements."""
        return self.shared is not None and self.shared.buffer.padded


@frozen
class Push:
    """A copy from this CTA's shared memory to another's; `explained(how)` is the instruction that says how it is done.

    `bar` is where it completes, if anywhere; `nbytes` what arrives, where only a run knows it.
    """

    src: SharedView
    dst: SharedView
    bar: BarrierRef | None
    nbytes: Value | None
    explained: Callable[[str], Op]


@frozen
class StandIn:
    """Another instruction that computes the same as one of an engine, at once: for targets and layouts without that one.

    `make()` is that instruction; None where the user chose the engine's own. `unreadable(shared, facts)` says why the
    engine can't read its operands in these layouts, if it can't, and the remedy.
    """

    engine: Engine
    make: Callable[[], Op] | None
    unreadable: Callable[[Mapping[SharedBuffer, SharedLayout], Divisibility], tuple[str, str] | None]


unreadables: Table[Callable[[Any, Mapping[SharedBuffer, SharedLayout], Divisibility], str | None]] = Table()
"""Products that say why the tensor cores can't read their operands in these layouts, if they can't."""
transfers: Table[Callable[[Any], Transfer]] = Table()
"""Copies that `copies` and `row_copies` choose a path for."""
pushes: Table[Callable[[Any], Push]] = Table()
"""Copies from CTA to CTA that `pushes` chooses a path for."""
stand_ins: Table[Callable[[Any], StandIn]] = Table()
"""Instructions that `mma_fallback` may replace."""
without_update: Table[Callable[[Any, Value], Op]] = Table()
"""For `mma_fallback`: a wait that hands on all tiles but that one."""
packed_forms: Table[Callable[[Any, Any], list[Op] | None]] = Table()
"""What instructions become that give or take elements of packed memory: `form(op, packing)`, None where they touch none;
all others work on its bytes as they are (`packed.py`)."""
expands: Table[Callable[[Any], list[Op] | None]] = Table()
"""Instructions that become several before register layouts are chosen; None where one stays as it is."""
