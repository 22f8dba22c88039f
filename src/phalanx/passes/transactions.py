"""`with bar.transaction():` becomes one arrive that expects the bytes of the copies inside.

The bytes are those that *this CTA's* barrier receives, whoever issues the copies: every rank that runs the
transaction is enumerated, and what its copies complete on the barriers of each CTA is added up. Byte
arithmetic, case by case:

- a plain copy: its bytes, on the own barrier;
- a copy that the CTAs of a mask make together, where only a run knows the mask: each receives its bytes once;
- a multicast: its full bytes on the barrier of every CTA of the mask, the issuer's included if the mask names it;
- `if px.cluster.rank() == 0:` inside: rank 0 issues, every receiver expects;
- a run-time `if`: both arms must bring the same (a missing `else` brings 0);
- the copies of a pair (`two_cta=True`): on the barrier of the even CTA; the odd one arms nothing;
- a constant-trip loop multiplies; a loop of unknown length is an error;
- in a role with copies each copy has its own; where they differ, the copy chooses.

Copies inside that signal another barrier, or another element of the array, are not counted: they belong to
whoever arms that barrier.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from phalanx.analysis.flow import Cycle, ExitTarget, Outcome
from phalanx.analysis.ranks import Symbol, Term, ranks
from phalanx.analysis.trace import (
    Branch,
    Exit,
    Fork,
    Loop,
    Node,
    Nodes,
    Signal,
    Step,
    TracedAgent,
    TraceWalk,
    TransactionNode,
    steps,
    trace,
    walk,
)
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.core import Block, Function, Op, rewrite
from phalanx.ir.ops.control import If
from phalanx.ir.ops.mbarrier import MAX_COUNT, ArriveExpectTx, Transaction
from phalanx.location import Location
from phalanx.passes.count_table import spans
from phalanx.passes.rank_code import RankCode

EXPLICIT = "write bar.arrive_and_expect_tx(nbytes) before the copies, with the bytes that this CTA receives"

Received = dict[int, int]
"""Bytes by the CTA that receives them; a CTA that is not in it receives none."""
Expected = dict[int, int]
"""Bytes that a rank is to expect, by rank; a rank that does not run the transaction is not in it."""


def lower_transactions(function: Function) -> Function:
    """The function with every `Transaction` as an `ArriveExpectTx` followed by the transaction's instructions.

    Called by `passes.pipeline`. Totals that differ by rank become a select over the rank. Raises `Error` at the user's
    line where the bytes can't be decided, differ between run-time branches, exceed what a barrier tracks in one phase,
    or reach a CTA that does not run the transaction.
    Example: a 64x64 bf16 tile multicast by rank 0 to both CTAs expects 8192 bytes in each.
    """
    if not function.barriers or not any(_counts_bytes(op) for op in function.walk()):
        return function
    traces = [trace(function, rank) for rank in ranks(function)]
    for nodes in traces:
        _check_limits(nodes)
    transactions = _in_rewrite_order(function)
    if not transactions:
        return function
    totals = iter([_totals(transaction, traces) for transaction in transactions])

    def visit(op: Op) -> list[Op] | None:
        return _lowered(op, next(totals)) if isinstance(op, Transaction) else None

    return dataclasses.replace(function, body=rewrite(function.body, visit))


def _counts_bytes(op: Op) -> bool:
    """Whether there is anything to add up or to compare with what a barrier tracks."""
    return isinstance(op, Transaction) or bool(op.effects().expects)


def _in_rewrite_order(function: Function) -> list[Transaction]:
    """The transactions in the order in which `rewrite` visits them, innermost first."""
    found: list[Transaction] = []

    def visit(op: Op) -> None:
        if isinstance(op, Transaction):
            found.append(op)

    rewrite(function.body, visit)
    return found


def _lowered(op: Transaction, totals: dict[TracedAgent, Expected]) -> list[Op]:
    """The arrive and what is inside; where copies of the role around it expect different bytes, a choice among them."""
    alike: list[tuple[Expected, list[TracedAgent]]] = []
    for agent, expected in totals.items():
        known = next((agents for other, agents in alike if other == expected), None)
        if known is None:
            alike.append((expected, [agent]))
        else:
            known.append(agent)
    *others, (last, _) = alike or [({}, [])]
    arm = _armed(op, last)
    for expected, agents in reversed(others):
        code = RankCode(op.loc)
        role = agents[0].role
        assert role is not None, "all warps run it together"
        chosen = code.among_copies(role, [agent.copy for agent in agents])
        arm = [*code.ops, If(chosen, Block(tuple(_armed(op, expected))), Block(tuple(arm)), loc=op.loc)]
    return [*arm, *op.body.ops]


def _armed(op: Transaction, totals: Expected) -> list[Op]:
    """The arrive that expects `totals`."""
    code = RankCode(op.loc)
    nbytes = code.chosen(totals, "nbytes")
    arm: Op = ArriveExpectTx(op.bar, nbytes, loc=op.loc)
    if any(complete.leaders for inner in op.body.walk() for complete in inner.effects().completes):
        silent = [rank for rank, total in totals.items() if not total]
        if silent:  # their bytes are the leader's, and nobody waits for their barrier
            armed = sum(1 << rank for rank, total in totals.items() if total)
            arm = If(code.among(armed), Block((arm,)), Block(), loc=op.loc)
    return [*code.ops, arm]


def _totals(op: Transaction, traces: list[Nodes]) -> dict[TracedAgent, Expected]:
    """The bytes that each rank which runs `op` is to expect, for each copy of the role around it."""
    found: dict[TracedAgent, dict[int, list[TransactionNode]]] = {}
    for rank, nodes in enumerate(traces):
        for node in walk(nodes):
            if isinstance(node, TransactionNode) and node.op is op:
                found.setdefault(node.agent, {}).setdefault(rank, []).append(node)
    return {agent: _expected(op, runs, len(traces)) for agent, runs in found.items()}


def _expected(op: Transaction, runs: dict[int, list[TransactionNode]], ranks: int) -> Expected:
    """The bytes that each rank is to expect, from the runs of the transaction in each of them."""
    sent: dict[int, Received] = {}
    indices: dict[int, Term] = {}
    for rank, nodes in runs.items():
        for node in nodes:
            received = _received(node, rank)
            if sent.setdefault(rank, received) != received:
                raise _undecided(op, "its copies bring different bytes from one iteration to the next")
            indices[rank] = node.index
    totals = dict.fromkeys(sent, 0)
    for issuer, received in sent.items():
        for rank, nbytes in received.items():
            if rank not in totals:
                raise _not_armed(op, rank, issuer, nbytes, sorted(totals))
            if _differ(indices[issuer], indices[rank]):
                raise _undecided(op, f"CTA {issuer} and CTA {rank} use different barriers of the array for it")
            totals[rank] += nbytes
    for rank, total in totals.items():
        if total > MAX_COUNT:
            where = f" to CTA {rank}" if ranks > 1 else ""
            raise _too_many(f"the copies of this transaction bring {total} bytes{where}", op.loc)
    return totals


def _differ(a: Term, b: Term) -> bool:
    """Certainly different barriers; run-time indices of two ranks are taken to move together."""
    return not isinstance(a, Symbol) and not isinstance(b, Symbol) and a != b


def _received(transaction: TransactionNode, rank: int) -> Received:
    """What the copies of one rank's transaction complete on its barrier, in each CTA."""
    walker = _Bytes(transaction, rank)
    outcome = walker.run(transaction.body, Way({}))
    exits = [state for states in outcome.exits.values() for state in states]  # a return, break or continue out of it
    total = walker.meet([outcome.out, *exits])
    return {} if total is None else total.received


@frozen(eq=False)
class Way:
    """The bytes that a way through a transaction has brought so far, and the exit by which it came, if by one."""

    received: Received
    exit: Op | None = None


class _Bytes(TraceWalk[Way]):
    """Adds up a transaction's bytes along all ways through it, which must agree."""

    def __init__(self, transaction: TransactionNode, rank: int) -> None:
        self.transaction = transaction
        self.rank = rank
        self.barrier = transaction.op.bar.barrier

    def join(self, states: Sequence[Way]) -> Way:
        """The end of a region: all ways to it must have brought the same."""
        total = states[0].received
        for way in states[1:]:
            if way.received != total:
                assert way.exit is not None, "the arms of a branch were compared before"
                raise _unequal(way.exit, way.received, total, "on this way out", "without it")
        return Way(total)

    def either(self, node: Node, parts: Sequence[Outcome[Way]]) -> Outcome[Way]:
        """A run-time branch, both arms of which must bring the same."""
        ends = [part.out for part in parts if part.out is not None]
        if len(ends) > 1 and ends[0].received != ends[1].received:
            assert isinstance(node, Branch)
            raise _unequal(node.op, ends[0].received, ends[1].received, "if the condition holds", "if not")
        return super().either(node, parts)

    def leave(self, node: Node, target: ExitTarget, state: Way) -> Outcome[Way]:
        """An exit, by which its way is known."""
        assert isinstance(node, Exit)
        return super().leave(node, target, Way(state.received, node.op))

    def fork(self, fork: Fork, state: Way) -> Outcome[Way]:
        """Roles bring what they bring one after the other."""
        outcome = Outcome(state)
        for _, body in fork.regions:
            part = self.run(body, outcome.out or Way({}))
            outcome.absorb(part)
            outcome.out = part.out
        return outcome

    def loop(self, cycle: Cycle[Node], entry: Way) -> Outcome[Way]:
        """A constant number of iterations multiplies; of a loop that brings nothing the number does not matter."""
        loop = cycle.node
        assert isinstance(loop, Loop)
        counted = any(signal.barrier is self.barrier for step in steps(loop.body) for signal in step.completes)
        if loop.trips is None and counted:
            raise Error(
                "a transaction can't count the copies of a loop whose number of iterations is known only at run time",
                location=loop.op.loc,
                remedy="open the transaction inside the loop, give the loop a constant number of iterations, or " + EXPLICIT,
            )
        if not counted:
            return Outcome(entry)
        body = self.run(loop.body, Way({}))
        end = self.meet([body.out, *body.take(cycle.again)])
        before, once, trips = entry.received, end.received if end is not None else {}, loop.trips or 0
        received = {rank: before.get(rank, 0) + once.get(rank, 0) * trips for rank in before.keys() | once.keys()}
        return Outcome(Way(received))

    def transfer(self, node: Node, state: Way) -> Way:
        """The bytes after an instruction; a transaction inside must be of another barrier."""
        if isinstance(node, TransactionNode) and self.concerns(node.op.bar.barrier, node.index):
            raise Error(
                "a transaction inside a transaction of the same barrier",
                location=node.op.loc,
                remedy="one transaction arrives once for all copies inside: remove the inner one",
            )
        if isinstance(node, Step):
            for signal in node.completes:
                state = Way(self.complete(node, signal, state.received))
        return state

    def concerns(self, barrier: object, index: Term) -> bool:
        """Whether a barrier is surely that of the transaction."""
        return barrier is self.barrier and index == self.transaction.index

    def complete(self, node: Step, signal: Signal, current: Received) -> Received:
        """The bytes with those that a copy completes on the transaction's barrier."""
        if not self.concerns(signal.barrier, signal.index):
            if signal.barrier is self.barrier and not _differ(signal.index, self.transaction.index):
                raise Error(
                    f"this copy may or may not signal the barrier of its transaction: {signal.barrier.title} "
                    "is indexed by another value, known only at run time",
                    location=node.op.loc,
                    remedy=f"index the array with the same variable in both places, or {EXPLICIT}",
                )
            return current
        reached = (self.rank,) if signal.shared else signal.ranks
        if reached is None or signal.amount is None:
            what = "the mask of this copy is" if reached is None else "the bytes of this copy are"
            raise Error(
                f"{what} known only at run time, so the transaction around it can't count its bytes",
                location=node.op.loc,
                remedy=EXPLICIT,
            )
        out = dict(current)
        for rank in reached:
            out[rank] = out.get(rank, 0) + signal.amount
        return out


def _check_limits(nodes: Nodes) -> None:
    """No barrier is told to expect more than it can track."""
    for step in steps(nodes):
        for expect in step.expects:
            if expect.amount is not None and expect.amount > MAX_COUNT:
                raise _too_many(f"a barrier is to expect {expect.amount} bytes", step.op.loc)


def _too_many(what: str, loc: Location) -> Error:
    return Error(
        f"{what}; one phase of an mbarrier tracks at most {MAX_COUNT}",
        location=loc,
        remedy="spread the copies over more barriers or phases",
    )


def _undecided(op: Transaction, reason: str) -> Error:
    return Error(f"can't count the bytes of this transaction: {reason}", location=op.loc, remedy=EXPLICIT)


def _not_armed(op: Transaction, rank: int, issuer: int, nbytes: int, runs: list[int]) -> Error:
    return Error(
        f"CTA {rank} receives {nbytes} bytes from the copies that CTA {issuer} issues in this transaction, "
        f"but only CTA {spans(runs)} runs it",
        location=op.loc,
        kind="tx-mismatch",
        remedy="every CTA that receives must arm its own barrier: open the transaction in all of them and put the "
        f"condition on the rank inside it, or {EXPLICIT}",
    )


def _unequal(op: Op, a: Received, b: Received, when_a: str, when_b: str) -> Error:
    differing = [rank for rank in sorted(a.keys() | b.keys()) if a.get(rank, 0) != b.get(rank, 0)]
    rank = differing[0]
    return Error(
        "the bytes of a transaction depend on a run-time branch: "
        f"{a.get(rank, 0)} {when_a}, {b.get(rank, 0)} {when_b}",
        location=op.loc,
        remedy="copy the same number of bytes on every way (a region outside the array still counts its bytes), put the "
        f"branch around the whole transaction, or {EXPLICIT}",
    )
