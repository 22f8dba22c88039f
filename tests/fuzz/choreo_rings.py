"""Rings of stages between agents: every way to write them, with the counts, masks and bytes that make them right.

A ring knows who fills a stage of a CTA and who reads it. From that follow its counts: `full` gets one arrival from each
producing agent, `empty` one from each consuming agent of each CTA that releases to this one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fuzz.choreo_parts import Draft, Flow, Group, Route, indented

Body = Callable[[str, str], list[str]]
"""The lines that fill a stage, given the texts of its index and of its barrier."""


@dataclass
class Ring:
    """A ring of `stages`; `buffers` are the names of its arrays of stages, one for each of `flows`."""

    draft: Draft
    number: int
    stages: int
    flows: list[Flow]
    style: str
    producers: int = 1
    consumers: int = 1
    turns: bool = False
    """Whether the consuming agents take turns: only one of them reads a stage."""
    groups: list[Group] = field(default_factory=list)
    """In which groups of ranks copies fill the stages."""
    route: Route | None = None
    """Along which route stages are filled by peers."""
    folds: int = 1
    """Into how many layers the rows of a stage are folded: a buffer of one axis more."""
    pulled: bool = False
    """Whether the stages lie with the sender, and are read from there."""
    sender_arms: bool = False
    weight: int = 1
    """How many arrivals a release is."""
    counted: str = "by the compiler"
    engine: str = "may"
    """What an engine has to do to read a stage: it "may", it may behind a "fence" of the receiver, or "never"."""
    polls: bool = False
    arming: str = "transaction"
    release_self: bool = True
    fills: int = 0
    """How many stages are filled at least, one after the other, in the cluster with most tiles."""
    alone: bool = False
    """Whether the agent that reads a stage stored it itself, so that its wait for it changes nothing."""

    @property
    def buffers(self) -> list[str]:
        return [f"s{self.number}{'ab'[i]}" for i in range(len(self.flows))]

    @property
    def full(self) -> str:
        return f"pipe{self.number}.full" if self.is_pipe else f"full{self.number}"

    @property
    def is_pipe(self) -> bool:
        return self.style.startswith("pipe")

    # Who releases to whom.

    def released_by(self, rank: int) -> set[int]:
        """The ranks that a consumer of `rank` gives a stage back to."""
        size = self.draft.cluster.size
        ranks = {rank} if self.release_self else set()
        for group in self.groups:
            ranks |= set(group.ranks(rank, size))
        if self.route is not None:
            ranks |= {r for r in range(size) if self.route.target(r) == rank}
        return ranks

    def release_mask(self) -> str | None:
        """The text of that, None where it is the own CTA alone."""
        if all(self.released_by(r) == {r} for r in range(self.draft.cluster.size)):
            return None
        parts = [group.mask for group in self.groups if group.size > 1]
        if self.route is not None:
            parts.append(f"(1 << ({self.route.before}))")
        if self.release_self and (not parts or self.route is not None):
            parts.append("(1 << rank)")
        return " | ".join(dict.fromkeys(parts))

    def empty_counts(self) -> list[int]:
        """The arrivals on `empty` of each rank."""
        size = self.draft.cluster.size
        readers = self.weight * (1 if self.turns else self.consumers)
        return [readers * sum(rank in self.released_by(r) for r in range(size)) for rank in range(size)]

    # Declarations.

    def declare(self) -> list[str]:
        draft, n, stages = self.draft, self.number, self.stages
        lines = [
            draft.buffer(name, (stages, *self.folded(flow.shape)), flow.kind)
            for name, flow in zip(self.buffers, self.flows)
        ]
        if self.is_pipe:
            draft.note("pipe")
            given = f", consumers={self.consumers}" if self.counted != "by the compiler" and not self.turns else ""
            return [*lines, f"pipe{n} = px.pipe({stages}{given})"]
        counts = self.empty_counts()
        counted = "  # counted" if self.fills else ""
        explicit = self.counted != "by the compiler" and len(set(counts)) == 1
        if self.counted == "own init" and explicit:
            draft.note("init=False")
            lines += [f"full{n} = px.barrier({stages}, init=False)", f"empty{n} = px.barrier({stages}, init=False)"]
            draft.started += [
                f"for i in px.static_range({stages}):",
                f"    full{n}[i].init({self.producers}){counted}",
                f"    empty{n}[i].init({counts[0]})",
            ]
        elif explicit or self.turns:
            unchecked = ", checked=False" if self.turns else ""
            lines += [
                f"full{n} = px.barrier({stages}, count={self.producers}){counted}",
                f"empty{n} = px.barrier({stages}, count={counts[0]}{unchecked})",
            ]
        else:
            lines += [f"full{n} = px.barrier({stages})", f"empty{n} = px.barrier({stages})"]
        if self.style == "ring":
            lines += [f"fill{n} = px.ring({stages})", f"take{n} = px.ring({stages})"]
        else:
            lines += [f"fill{n} = 0", f"take{n} = 0"]
        return lines

    def folded(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a stage that holds a tile of a shape."""
        return shape if self.folds == 1 else (self.folds, shape[0] // self.folds, *shape[1:])

    # Places.

    def stage(self, side: str) -> str:
        if self.is_pipe:
            return f"{side}{self.number}"
        return f"{side}{self.number}.stage" if self.style == "ring" else f"{side}{self.number} % {self.stages}"

    def parity(self, side: str) -> str:
        if self.style == "ring":
            return f"{side}{self.number}.parity"
        return f"{side}{self.number} // {self.stages} % 2"

    def advance(self, side: str, by: int = 1) -> list[str]:
        if self.style == "ring":
            return [f"{side}{self.number}.advance()"] * by
        return [f"{side}{self.number} += {by}"] if by else []

    def wait(self, barrier: str, parity: str, why: str) -> list[str]:
        if self.polls:
            self.draft.note("test_wait")
            return [f"while not {barrier}.test_wait({parity}):", "    pass"]
        return [f"{barrier}.wait({parity})  # {why}"]

    # The producers' side.

    def produce(self, body: Body, nbytes: int, *, stores: Body | None = None, generic: str = "") -> list[str]:
        """One stage is filled: by copies that bring `nbytes` to this CTA, or by stores that `generic` announces.

        `stores` come before the copies, and before whatever announces the stage.
        """
        n = self.number
        if self.style == "pipe":
            s = self.stage("fill")
            return [f"with pipe{n}.produce() as {s}:", *indented(body(s, f"{self.full}[{s}]"))]
        if self.style == "pipe by hand":
            s = self.stage("fill")
            inside, first = body(s, f"{self.full}[{s}]"), stores(s, "") if stores is not None else []
            commit = f"pipe{n}.commit({nbytes})  # counted" if nbytes else f"pipe{n}.commit()"
            early = nbytes and self.draft.chance(0.5)
            return [f"{s} = pipe{n}.acquire()", *first, *([commit, *inside] if early else [*inside, commit])]
        stage = self.stage("fill")
        barrier = f"full{n}[{stage}]"
        lines = self.wait(f"empty{n}[{stage}]", f"{self.parity('fill')} ^ 1", "the stage is free")
        lines += stores(stage, barrier) if stores is not None else []
        inside = body(stage, barrier)
        if generic:
            lines += [*inside, f"{barrier}.{generic}"]
        elif self.sender_arms:
            lines += inside
        elif self.arming == "transaction":
            lines += [f"with {barrier}.transaction():", *indented(inside)]
        elif self.arming == "explicit":
            lines += [f"{barrier}.arrive_and_expect_tx({nbytes})  # counted", *inside]
        else:
            lines += [f"{barrier}.expect_tx({nbytes})  # counted", *inside, f"{barrier}.arrive()"]
        return [*lines, *self.advance("fill")]

    # The consumers' side.

    def acquire(self) -> list[str]:
        """The stage is full."""
        return self.wait(f"full{self.number}[{self.stage('take')}]", self.parity("take"),
                         "the stage is full" if self.alone else "needed: the stage is full")

    def refilled(self, position: int = 0) -> bool:
        """Whether the stage of some fill, by every agent that takes turns, is surely filled again."""
        return self.fills >= (2 * self.stages if self.turns else self.stages + 1 + position)

    def release(self, stage: str = "", position: int = 0) -> list[str]:
        """Gives a stage back, first that of the fill `position`."""
        mask = self.release_mask()
        ctas = f"ctas={mask}" if mask is not None else ""
        if self.weight > 1:
            ctas = f"{self.weight}, {ctas}" if ctas else str(self.weight)
        why = "needed: releases" if self.refilled(position) else "releases"
        return [f"empty{self.number}[{stage or self.stage('take')}].arrive({ctas})  # {why}"]

    def consume(self, body: Callable[[str], list[str]], skip: int = 0) -> list[str]:
        """One stage is read by `body` and given back; `skip` more belong to others who take turns."""
        if self.style == "pipe":
            s = self.stage("take")
            return [f"with pipe{self.number}.consume() as {s}:", *indented(body(s))]
        if self.style == "pipe by hand":
            s = self.stage("take")
            return [f"{s} = pipe{self.number}.wait()", *body(s), f"pipe{self.number}.release()"]
        lines = [*self.acquire(), *body(self.stage("take")), *self.release()]
        return [*lines, *self.advance("take", 1 + skip)]
