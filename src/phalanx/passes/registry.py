"""What the families tell single passes about their instructions: see `passes/ops/<family>.py`.

Each table holds one function per instruction class, each set of marks some classes. A pass looks an instruction up and never
asks what it is. What several rooms ask of instructions is a property instead (`ir/traits.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.ir.core import Op
from phalanx.ir.effects import Span
from phalanx.ir.ops.mbarrier import Form
from phalanx.ir.tables import Marks, Table
from phalanx.ir.values import Value
from phalanx.ir.views import SharedView, View

Side = SharedView | Value
Pairs = list[tuple[Value, Value]]

at_scope: Table[Callable[[Any, Span], Op]] = Table()
"""For `scopes`: a signal of a barrier, with memory ordered among the threads of that scope."""
in_ctas: Table[Callable[[Any, Value], Op]] = Table()
"""For `release_masks`: an arrival that gives a stage back, made in the CTAs of that mask."""
in_form: Table[Callable[[Any, Form, int, bool], Op]] = Table()
"""For `arrival_forms`: an arrival issued in that form, by `factor` and `spread` as of `mbarrier.Arrive`; itself where it is
so already."""
counting: Table[Callable[[Any, int], Op]] = Table()
"""For `arrival_forms`: an initialisation of barriers whose counts are that many times as large."""
with_operands: Table[Callable[[Any, Side, Side], Op]] = Table()
"""For `operand_staging`: a product of other operands, which have the same elements."""
with_updates: Table[Callable[[Any, Pairs], Op]] = Table()
"""For `late_waits`: a wait that hands on these tiles, (old, new) each."""
factors: Table[Callable[[Any], tuple[Value, Value] | None]] = Table()
"""For `pipelining/rotated`: the two whose product, element by element, an instruction defines, if it only multiplies."""
brought: Table[Callable[[Any], tuple[View, Value] | None]] = Table()
"""For `pipelining/parts`: the region that an instruction brings a tile into, element by element, and the tile, if that is
all it does; its fields of these values are `view` and `value`."""
by_element = Marks()
"""For `pipelining/parts`: instructions without effects, each element of whose result follows from those of the operands at
the same place, as NumPy broadcasts them."""
takes_every_warp = Marks()
"""For `active_warps`: instructions that all warps of their agent run, although nothing in their effects needs them."""
needs_peers: Table[Callable[[Any], bool]] = Table()
"""For `exit_sync`: whether no CTA of the cluster may have exited while it is at work."""


def registered(table: Table[Any], op: Op) -> Callable[..., Any]:
    """What the family of an instruction registered, where the pass can't do without."""
    found = table.of(op)
    assert found is not None, f"passes/ops/{op.family}.py does not say what becomes of {op.mnemonic}"
    return found
