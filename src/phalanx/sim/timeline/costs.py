"""What an instruction costs, declared by its family as its effects are: `sim/timeline/ops/<family>.py`.

Bytes, barriers and arrivals come from the effects, where the clock finds them. What is declared here is what effects do
not say: how long threads are busy issuing, which arithmetic they do, for how long they stand still, and how much of the
tensor cores a product takes. A family registers a function per instruction with `@cost`, or says with `free` why an
instruction takes no time of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.machines.rates import Rates


class Unit(Enum):
    """A part of the machine that several agents share: what one takes, the others wait for."""

    TENSOR = "tensor cores"
    SHARED = "shared memory"
    ISSUE = "instruction issue"
    SPECIAL = "special functions"
    L2 = "L2"
    HBM = "HBM"
    PEERS = "SM to SM"


@frozen
class Cost:
    """What one execution takes of its agent, and of the tensor cores.

    `issue`: instructions that each warp of the agent issues. `special`: those of them that go to the special function unit.
    `stands`: cycles in which the agent does nothing else, behind that. `product`: cycles of the tensor cores, which also
    read `operands` bytes of shared memory; it is over `drain` cycles later, and until then the agent stands still with
    `at_once`. `spins`: it asks and goes on. `hands_on`: its results are its operands under another name.
    """

    issue: float = 0.0
    special: float = 0.0
    stands: float = 0.0
    product: float = 0.0
    operands: float = 0.0
    drain: float = 0.0
    at_once: bool = False
    hands_on: bool = False


NOTHING = Cost()

Costs = Callable[[Any, float, Rates], Cost]
"""A function of an instruction, the warps of its agent, and the card."""
COSTS: dict[type[Op], Costs] = {}
FREE: dict[type[Op], str] = {}
CELLS: dict[type[Op], Callable[[Any], tuple[Any, Any]]] = {}
"""Instructions that give a value another name without a call: the two names."""


def cost(*classes: type[Op]) -> Callable[[Costs], Costs]:
    """Registers what instructions cost.

    For the files of `sim/timeline/ops`. Example::

        @cost(Sync)
        def sync(op: Sync, warps: float, rates: Rates) -> Cost:
            return Cost(stands=rates.sync)
    """

    def register(function: Costs) -> Costs:
        for cls in classes:
            COSTS[cls] = function
        return function

    return register


def free(*classes: type[Op], why: str) -> None:
    """Says why instructions take no time of their own."""
    for cls in classes:
        FREE[cls] = why


def cost_of(op: Op, warps: float, rates: Rates) -> Cost:
    """What an instruction costs when an agent of so many warps runs it."""
    found = COSTS.get(type(op))
    return NOTHING if found is None else found(op, warps, rates)
