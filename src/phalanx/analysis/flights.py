"""Work on registers that may be in flight at each place: the products whose operands and accumulators nobody may touch yet.

Such work (`Accumulation`) goes into the open group of its engine. A commit closes that group; a wait for all but `n` groups
ends what was committed `n` commits ago or earlier. So what is known of a piece of work is how many commits came after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.analysis.flow import OpWalk, Outcome
from phalanx.frozen import frozen
from phalanx.ir.core import Function, Op
from phalanx.ir.effects import Group, GroupAction
from phalanx.ir.engines import Engine
from phalanx.ir.ops.control import Roles


@frozen
class Flight:
    """Work of `op`, begun the last time that it ran, which `commits` commits of its engine have followed since."""

    op: Op
    engine: Engine
    commits: int


Flights = frozenset[Flight]


def find_flights(function: Function) -> dict[Op, Flights]:
    """What may be in flight before each instruction that control reaches; each role sees its own work alone.

    Before a loop that is what comes to it from outside; before the first instruction in it, also what its turns leave.
    """
    pending = [
        group.pending for op in function.walk() for group in op.effects().groups if group.action is GroupAction.WAIT
    ]
    return _Following(most=max(pending, default=0)).run(function.body, frozenset()).notes


class _Following(OpWalk[Flights]):
    """The walk. `most`: the largest number of groups that a wait leaves unfinished; any wait ends what is older."""

    def __init__(self, most: int) -> None:
        self.most = most

    def join(self, states: Sequence[Flights]) -> Flights:
        """Whatever is in flight on one of the ways."""
        return frozenset().union(*states)

    def fork(self, roles: Roles, state: Flights) -> Outcome[Flights]:
        """Roles have warps of their own, and so groups of their own."""
        outcome = Outcome(state)
        for role in roles.regions:
            outcome.absorb(self.run(role.body, frozenset()))
        return outcome

    def visit(self, node: Op, state: Flights) -> Outcome[Flights]:
        """Notes what is in flight before an instruction."""
        outcome = super().visit(node, state)
        outcome.notes[node] = state
        return outcome

    def transfer(self, node: Op, state: Flights) -> Flights:
        """What is in flight after it."""
        effects = node.effects()
        for group in effects.groups:
            state = self._after(group, state)
        begun = frozenset(Flight(node, item.engine, 0) for item in effects.accumulations)
        return state if not begun else begun | {flight for flight in state if flight.op is not node}

    def _after(self, group: Group, state: Flights) -> Flights:
        if group.action is GroupAction.COMMIT:
            return frozenset(self._older(flight) if flight.engine is group.engine else flight for flight in state)
        if group.action is GroupAction.WAIT:
            return frozenset(
                flight for flight in state if flight.engine is not group.engine or flight.commits <= group.pending
            )
        return state

    def _older(self, flight: Flight) -> Flight:
        commits = min(flight.commits + 1, self.most + 1)
        return flight if commits == flight.commits else Flight(flight.op, flight.engine, commits)
