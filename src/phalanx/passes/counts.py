"""How many arrivals complete a phase of each barrier: the counting rule.

For each barrier, over all ranks and agents, from the arrivals that instructions declare: an arriver (a rank's
agent) contributes one round per phase (`passes/rounds.py` says what a round is); all its rounds must agree;
the count is the sum over arrivers. Barriers indexed by constants are counted one by one, an index known only
at run time unifies the array. What this can't decide asks for `count=`. A written count is never changed;
where the rule decides and contradicts it, that is a `count-mismatch`.
"""

from __future__ import annotations

from phalanx.analysis.ranks import Term, ranks
from phalanx.analysis.trace import Nodes, steps, trace
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.core import Function
from phalanx.ir.ops.mbarrier import MAX_COUNT
from phalanx.ir.views import BarrierArray
from phalanx.location import Location
from phalanx.passes.count_table import render, spans
from phalanx.passes.rounds import Rounds, Row, rounds_of

Counts = tuple[tuple[int, ...], ...]
"""One row per CTA rank, one number per barrier of the array."""


def infer_counts(function: Function) -> dict[BarrierArray, Counts]:
    """The arrival counts of every barrier that the compiler initialises, by rank and by element.

    Called by `passes.pipeline`, on a function whose transactions are lowered. Raises `Error` at the barrier
    where a count is missing and can't be worked out, contradicts the arrivals (kind "count-mismatch"), or is
    out of range.
    Example: ``infer_counts(function)[empty][rank][stage]``.
    """
    census = Census(function)
    return {barrier: census.counts(barrier) for barrier in function.barriers if barrier.init}


def count_table(function: Function, barrier: BarrierArray) -> list[Row]:
    """Every site that arrives on `barrier`, once per arriver and CTA reached.

    Anyone may call it: messages and reports show it through `count_table.render`.
    """
    return Census(function).rows(barrier)


@frozen
class Verdict:
    """What the rule says: arrivals per rank and element (0: nobody arrives there), or why it can't."""

    arrivals: tuple[tuple[int, ...], ...] = ()
    undecided: str = ""


class Census:
    """All arrivals of a function, collected once."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.rounds: list[Rounds] = []
        self.waits: list[tuple[int, BarrierArray, Term, Location]] = []
        effects = [op.effects() for op in function.walk()] if function.barriers else []
        concerned = any(e.arrivals or e.waits for e in effects)
        for rank in ranks(function) if concerned else ():
            self._collect(trace(function, rank), rank)

    def _collect(self, nodes: Nodes, rank: int) -> None:
        agents = dict.fromkeys(step.agent for step in steps(nodes) if step.arrivals)
        self.rounds += [rounds_of(nodes, agent, rank) for agent in agents]
        self.waits += [
            (rank, wait.barrier, wait.index, step.op.loc) for step in steps(nodes) for wait in step.waits
        ]

    def rows(self, barrier: BarrierArray) -> list[Row]:
        """The arrivals on a barrier array, by arriver and place."""
        return [row for arriver in self.rounds for row in arriver.rows.get(barrier, ())]

    def table(self, barrier: BarrierArray) -> str | None:
        """The arrivals on a barrier array as text for a message; None where there are none."""
        rows = self.rows(barrier)
        return render(barrier, rows, self.function.cluster_size) if rows else None

    # The rule.

    def verdict(self, barrier: BarrierArray) -> Verdict:
        """What the counting rule says of `barrier`, whatever the user wrote."""
        for arriver in self.rounds:
            for reason in arriver.problems.get(barrier, ()):
                return Verdict(undecided=reason)
        arrivals = []
        for rank in ranks(self.function):
            counted = self._in_rank(barrier, rank)
            if isinstance(counted, str):
                return Verdict(undecided=counted)
            arrivals.append(counted)
        return Verdict(tuple(arrivals))

    def _in_rank(self, barrier: BarrierArray, rank: int) -> tuple[int, ...] | str:
        """The sum over arrivers for the barriers of one CTA, or why there is none."""
        totals = {id(a): a.totals.get((barrier, rank), {}) for a in self.rounds}
        arrivers = [arriver for arriver in self.rounds if totals[id(arriver)]]
        unified = any(None in totals[id(arriver)] for arriver in arrivers)
        sums = [0] * barrier.n
        for arriver in arrivers:
            seen = totals[id(arriver)]
            if unified:
                reached = range(barrier.n) if None in seen else seen.keys()
                if len(reached) < barrier.n:
                    only = spans(element for element in seen if element is not None)
                    return (
                        f"the arrivals of {self._named(arriver)} reach index {only} only, "
                        "those of others an index known only at run time"
                    )
                rounds = set[int]().union(*seen.values())
                seen = dict.fromkeys(range(barrier.n), rounds)
            for element, rounds in seen.items():
                if len(rounds) > 1:
                    listed = " and ".join(map(str, sorted(rounds)[:3])) + (" and more" if len(rounds) > 3 else "")
                    where = "" if unified or barrier.n == 1 else f" on {barrier.title}[{element}]"
                    return f"the rounds of {self._named(arriver)}{where} have {listed} arrivals"
                assert element is not None
                sums[element] += next(iter(rounds))
        return tuple(sums)

    def _named(self, arriver: Rounds) -> str:
        clustered = self.function.cluster_size > 1
        return f"{arriver.agent} of CTA {arriver.source}" if clustered else str(arriver.agent)

    # What becomes of it.

    def counts(self, barrier: BarrierArray) -> Counts:
        """The numbers to initialise `barrier` with."""
        if barrier.count is not None:
            return self._written(barrier, barrier.count)
        verdict = self.verdict(barrier)
        if verdict.undecided:
            raise Error(
                f"can't work out how many arrivals complete a phase of barrier {barrier.title}: {verdict.undecided}",
                location=barrier.loc,
                details=self.table(barrier),
                remedy="write the number of arrivals of one phase: "
                + ("px.pipe(..., count=(commits, releases))" if barrier.written else "px.barrier(..., count=...)"),
            )
        self._check_waited(barrier, verdict)
        self._check_each(barrier, verdict)
        # Nobody arrives on some, and nobody waits for those: any legal count will do.
        counts = tuple(tuple(arrivals or 1 for arrivals in row) for row in verdict.arrivals)
        self._check_range(barrier, max(max(row) for row in counts))
        return counts

    def _written(self, barrier: BarrierArray, count: int) -> Counts:
        self._check_range(barrier, count)
        if barrier.checked:
            wrong: dict[int, list[tuple[int, int]]] = {}
            for rank, row in enumerate(self.verdict(barrier).arrivals):
                for element, arrivals in enumerate(row):
                    if arrivals not in (0, count):
                        wrong.setdefault(arrivals, []).append((rank, element))
            if wrong:
                raise self._mismatch(barrier, count, wrong)
        return ((count,) * barrier.n,) * self.function.cluster_size

    def _mismatch(self, barrier: BarrierArray, count: int, wrong: dict[int, list[tuple[int, int]]]) -> Error:
        """`wrong` holds, per number of arrivals, the (rank, element) that get it."""
        clustered = self.function.cluster_size > 1
        parts = []
        for arrivals, places in wrong.items():
            where = []
            if clustered and len({rank for rank, _ in places}) < self.function.cluster_size:
                where.append("in CTA " + spans(rank for rank, _ in places))
            if len({element for _, element in places}) < barrier.n:
                where.append("at index " + spans(element for _, element in places))
            parts.append(f"{arrivals} {' '.join(where)}".rstrip())
        return Error(
            f"barrier {barrier.title} is written with count={count}, but the arrivals of one phase are {'; '.join(parts)}",
            location=barrier.loc,
            kind="count-mismatch",
            details=self.table(barrier),
            remedy="leave count= out to have the arrivals counted, or correct it"
            + ("" if barrier.written else "; where arrivers take turns (one phase does not need all of them), write "
               "checked=False beside it"),
        )

    def _check_range(self, barrier: BarrierArray, count: int) -> None:
        if not 1 <= count <= MAX_COUNT:
            raise Error(
                f"barrier {barrier.title} has count {count}; an mbarrier counts 1 to {MAX_COUNT} arrivals",
                location=barrier.loc,
                details=self.table(barrier) if barrier.count is None else None,
                remedy=f"use a count from 1 to {MAX_COUNT}",
            )

    def _check_each(self, barrier: BarrierArray, verdict: Verdict) -> None:
        """A written number of arrivals per CTA, times the CTAs that arrive, is what the rule counts."""
        if barrier.each is None:
            return
        for rank, row in enumerate(verdict.arrivals):
            sources = {arriver.source for arriver in self.rounds if arriver.totals.get((barrier, rank))}
            wrong = next((arrivals for arrivals in row if arrivals not in (0, barrier.each * len(sources))), None)
            if wrong is not None:
                raise Error(
                    f"{barrier.title} is written with {barrier.each} arrival{'s' * (barrier.each != 1)} of each CTA, "
                    f"but {len(sources)} CTA{'s' * (len(sources) != 1)} bring{'s' * (len(sources) == 1)} {wrong} "
                    "in one phase",
                    location=barrier.loc,
                    kind="count-mismatch",
                    details=self.table(barrier),
                    remedy="leave producers= and consumers= out to have the arrivals counted, or correct the number",
                )

    def _check_waited(self, barrier: BarrierArray, verdict: Verdict) -> None:
        """Somebody waits where nobody arrives."""
        for rank, waited, index, site in self.waits:
            if waited is not barrier:
                continue
            row = verdict.arrivals[rank]
            arrivals = row[index] if isinstance(index, int) else max(row)
            if arrivals:
                continue
            element = f"[{index}]" if isinstance(index, int) and barrier.n > 1 else ""
            cta = f" of CTA {rank}" if self.function.cluster_size > 1 else ""
            raise Error(
                f"nothing arrives on barrier {barrier.title}{element}{cta}, which is waited for at {site.short}",
                location=barrier.loc,
                kind="deadlock",
                details=self.table(barrier),
                remedy="copies complete bytes, they never arrive: arm the barrier with `with bar.transaction():` around "
                "them or with arrive_and_expect_tx(nbytes), or let somebody arrive()",
            )
