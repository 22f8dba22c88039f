"""Random small programs of what hands memory over besides arrivals and TMA copies.

Copies that threads begin and their commits, products and theirs, polls that give up, expects for a peer, atomics with and
without an order, counters and locks, across roles, CTAs of a cluster and CTAs of a grid. As in `choreographies`: a
correct program in which some steps break the rule and some statements are removed, doubled, swapped or changed; every value
that is written is unique, and what atomics give is never written, since it may differ in a program that is right.
"""

from __future__ import annotations

from random import Random
from typing import Any

import ml_dtypes
import numpy as np

from sanitizer.choreographies import CELLS, NBYTES, ROWS, WIDTH, Plan, Text

M, N, K = 64, 16, 16
WORDS = 4
SHARED = (
    "write", "read", "hand", "copy", "fetch", "fetch", "fetch", "limited", "limited", "either", "expects", "tally", "crowd",
    "push", "loose", "ask", "around",
)
GRID = (
    "write", "read", "release", "release", "relaxed", "last", "last", "sum", "locked", "tried", "inside", "inside", "fails",
    "swap",
)
TENSOR = ("write", "product", "product", "product", "drain", "inside", "bring", "limited", "twice")


class World(Text):
    """The text of a program: its CTAs are a cluster, or a grid that runs at the same time."""

    def __init__(self, kind: str, ctas: int, spans: list[tuple[int, int]]) -> None:
        super().__init__(ctas, [[] for _ in spans])
        self.kind = kind
        self.spans = spans
        self.counters = 0

    def __str__(self) -> str:
        warps = max(first + count for first, count in self.spans)
        marks = {"shared": f"cluster={self.ctas}", "grid": "cooperative=True", "tensor": "cluster=1"}[self.kind]
        lines = ["import phalanx as px", "", "", f"@px.kernel(warps={warps}, {marks})"]
        if self.kind == "tensor":
            lines += [
                "def program(A, P):", "    rank = 0", f"    a = px.shared((2, {M}, {K}), A.dtype)",
                f"    b = px.shared(({N}, {K}), A.dtype)", f"    acc = px.tmem((2, {M}, {N}), px.f32)",
            ]
        else:
            rank = "px.block_id(0)" if self.kind == "grid" else "px.cluster.rank()"
            lines += [
                "def program(X, Y, G, W):", f"    rank = {rank}", f"    s = px.shared(({CELLS}, {WIDTH}), px.f32)",
                f"    t = px.shared(({CELLS},), px.i32)",
            ]
        if self.counters:
            lines.append(f"    c = px.counters({self.counters})")
        lines += [f"    b{i} = px.barrier(count={count}, checked=False)" for i, count in enumerate(self.barriers)]
        lines += [f"    {line}" for line in self.before]
        for (first, count), role in zip(self.spans, self.roles):
            body = [line for statement in role for line in statement]
            lines += [f"    with px.warps({first}, {count}):", *(f"        {line}" for line in body or ["px.sync()"])]
        lines += [f"    {line}" for line in self.after]
        return "\n".join(lines) + "\n"


class Shared(Plan):
    """Cells of shared memory, in one CTA or a cluster of two."""

    kinds: tuple[str, ...] = SHARED
    text: World

    def __init__(self, text: World, rng: Random) -> None:
        self.numbers = iter(range(1000))
        super().__init__(text, rng)

    @classmethod
    def begin(cls, rng: Random) -> Shared:
        ctas = rng.choice((1, 1, 2))
        roles = rng.randint(2, 3 if ctas == 1 else 2)
        return cls(World("shared", ctas, [(i, 1) for i in range(roles)]), rng)

    def step(self) -> None:
        rng = self.rng
        cell = rng.randrange(CELLS)
        owner = self.owner[cell] if rng.random() < 0.92 else self.anybody()
        getattr(self, f"step_{rng.choice(self.kinds)}")(cell, owner, self.anybody())

    def give(self, owner: int, to: int) -> None:
        self.owner = [to if o == owner else o for o in self.owner]

    def test(self, barrier: int) -> str:
        return f"b{barrier}.test_wait({self.phases[barrier] & 1})"

    def step_fetch(self, cell: int, owner: int, to: int) -> None:
        """The threads of `owner` copy into one or two cells, the commit tells `to`."""
        rng = self.rng
        barrier = self.barrier(1, owner, to, "fetch")
        self.say(owner, f"px.cp_async.load(X[{rng.randrange(ROWS)}, 0:{WIDTH}], s[{cell}])")
        taken = [cell]
        other = rng.randrange(CELLS)
        if other != cell and self.owner[other] == owner and rng.random() < 0.5:
            self.say(owner, f"px.cp_async.load(X[{rng.randrange(ROWS)}, 0:{WIDTH}], s[{other}])")
            taken.append(other)
        self.say(owner, f"px.cp_async.commit(b{barrier})")
        self.wait(to, barrier)
        if rng.random() < 0.3:
            self.say(to, "px.fence.async_proxy()")
        for each in taken:
            self.owner[each] = to

    def step_limited(self, cell: int, owner: int, to: int) -> None:
        """A hand-over that is asked for a few times; then it is waited for, or not."""
        rng = self.rng
        barrier = self.barrier(1, owner, to, False)
        self.say(owner, f"b{barrier}.arrive()")
        self.poll(to, self.test(barrier))
        if rng.random() < 0.75:
            self.wait(to, barrier)
        else:
            self.next_phase(barrier)
        self.give(owner, to)

    def poll(self, agent: int, asks: str) -> None:
        """At most a few times, in one of the ways to write it."""
        n, limit = f"n{next(self.numbers)}", self.rng.randint(1, 3)
        loop = self.rng.choice((
            [f"while {n} < {limit} and not {asks}:", f"    {n} += 1"],
            [f"while not {asks} and {n} < {limit}:", f"    {n} += 1"],
            [f"while (not {asks}) if {n} < {limit} else False:", f"    {n} += 1"],
            [f"while not {asks}:", f"    {n} += 1", f"    if {n} >= {limit}:", "        break"],
        ))
        self.say(agent, f"{n} = 0", *loop)

    def step_either(self, cell: int, owner: int, to: int) -> None:
        """Two arrivals, of which the first that comes will do; both are waited for before anything is touched."""
        one, two = self.barrier(1, owner, to, "one"), self.barrier(1, owner, to, "two")
        self.say(owner, f"b{one}.arrive()")
        self.say(owner, f"b{two}.arrive()")
        self.say(to, f"while not ({self.test(one)} or {self.test(two)}):", "    pass")
        for barrier in (one, two):
            if self.rng.random() < 0.85:
                self.wait(to, barrier)
            else:
                self.next_phase(barrier)
        self.give(owner, to)

    def step_around(self, cell: int, owner: int, to: int) -> None:
        """One barrier after the other is asked, until both have said yes."""
        one, two = self.barrier(1, owner, to, "one"), self.barrier(1, owner, to, "two")
        self.say(owner, f"b{one}.arrive()")
        self.say(owner, f"b{two}.arrive()")
        n = next(self.numbers)
        first, second = self.test(one), self.test(two)
        self.next_phase(one)
        self.next_phase(two)
        self.say(
            to, f"p{n}, q{n} = False, False", f"while not (p{n} and q{n}):", f"    if not p{n}:", f"        p{n} = {first}",
            f"    if not q{n}:", f"        q{n} = {second}",
        )
        self.give(owner, to)

    def step_expects(self, cell: int, owner: int, to: int) -> None:
        """The peer expects the bytes, and arrives behind that."""
        if self.text.ctas == 1:
            return
        rng = self.rng
        barrier, peer = self.barrier(1, owner, to, "expects"), self.mask(True)
        self.say(owner, f"b{barrier}.expect_tx({NBYTES}, {peer})")
        self.say(owner, f"b{barrier}.arrive({peer})")
        self.say(owner, f"px.tma.load(X[{rng.randrange(ROWS)}, 0:{WIDTH}], s[{cell}], b{barrier})")
        self.wait(to, barrier)
        self.owner[cell] = to

    def step_tally(self, cell: int, owner: int, to: int) -> None:
        """Two add to a word of shared memory that a third reads, when both have said so."""
        rng = self.rng
        other, word = self.anybody(), rng.randrange(CELLS)
        barrier = self.barrier(2, to, "tally")
        for each in (owner, other):
            self.value += 1
            how = rng.choice((f"px.atomic_add(t[{word}], {self.value})", f"px.atomic_max(t[{word}], {self.value})"))
            self.say(each, how)
            self.say(each, f"b{barrier}.arrive()")
        self.wait(to, barrier)
        self.say(to, f"px.store({self.fresh_row()}, px.full(({WIDTH},), 0.0, px.f32) + px.load(t[{word}]).to(px.f32))")


class Grid(Shared):
    """Rows of global memory, in a grid of two CTAs without a cluster: an agent is a role of one of them."""

    kinds = GRID

    def __init__(self, text: World, rng: Random) -> None:
        self.roles = len(text.roles)
        self.words = [0] * WORDS
        super().__init__(text, rng)
        text.before, text.after = [], []

    @classmethod
    def begin(cls, rng: Random) -> Grid:
        return cls(World("grid", 2, [(i, 1) for i in range(rng.randint(1, 2))]), rng)

    def anybody(self) -> int:
        return self.rng.randrange(2 * self.roles)

    def elsewhere(self, owner: int) -> int:
        """An agent of the other CTA."""
        return (1 - owner // self.roles) * self.roles + self.rng.randrange(self.roles)

    def say(self, agent: int, *lines: str) -> None:
        body = [f"    {line}" for line in lines]
        self.text.roles[agent % self.roles].append([f"if rank == {agent // self.roles}:", *body])

    def write(self, cell: int, where: str = "G") -> str:
        self.value += 1
        return f"px.store({where}[{cell}, 0:{WIDTH}], px.full(({WIDTH},), {self.value}.0, px.f32))"

    def read(self, cell: int) -> str:
        return f"px.store({self.fresh_row()}, px.load(G[{cell}, 0:{WIDTH}]))"

    def damage(self) -> None:
        """As others, or an order that is missing."""
        if self.rng.random() < 0.8:
            return super().damage()
        ordered = [
            (role, at) for role in self.text.roles for at, statement in enumerate(role) if "acq_rel" in str(statement)
        ]
        if ordered:
            role, at = self.rng.choice(ordered)
            role[at] = [line.replace(', order="acq_rel"', "") for line in role[at]]

    def arrive(self, word: int) -> str:
        self.words[word] += 1
        return f'px.atomic_add(W[{word}], 1, order="acq_rel")'

    def spin(self, agent: int, word: int) -> None:
        """Until all have come who should."""
        wanted, n = self.words[word], next(self.numbers)
        ask = f'px.atomic_add(W[{word}], 0, order="acq_rel")'
        if self.rng.random() < 0.6:
            self.say(agent, f"while {ask} < {wanted}:", "    pass")
        else:
            self.say(agent, f"v{n} = {ask}", f"while v{n} < {wanted}:", f"    v{n} = {ask}")

    def step_release(self, cell: int, owner: int, to: int) -> None:
        """All that `owner` has goes to an agent of the other CTA."""
        to, word = self.elsewhere(owner), self.rng.randrange(WORDS - 1)
        self.say(owner, self.arrive(word))
        self.spin(to, word)
        self.give(owner, to)

    def step_relaxed(self, cell: int, owner: int, to: int) -> None:
        """A flag that orders nothing."""
        to, word = self.elsewhere(owner), self.rng.randrange(WORDS - 1)
        self.words[word] += 1
        self.say(owner, f"px.atomic_add(W[{word}], 1)")
        self.say(to, f"while px.atomic_load(W[{word}]) < {self.words[word]}:", "    pass")
        if self.rng.random() < 0.5:
            self.give(owner, to)

    def step_inside(self, cell: int, owner: int, to: int) -> None:
        """An arrival for another role of the CTA."""
        to = owner // self.roles * self.roles + self.rng.randrange(self.roles)
        barrier = self.barrier(1, owner, to)
        self.say(owner, f"b{barrier}.arrive()")
        self.wait(to, barrier)
        self.give(owner, to)

    def step_last(self, cell: int, owner: int, to: int) -> None:
        """Whoever comes last to a counter reads what both had; nobody writes that any more."""
        to = self.elsewhere(owner)
        word = self.text.counters
        self.text.counters += 1
        row = self.fresh_row().replace("rank", "0")
        cells = [each for each in range(CELLS) if self.owner[each] in (owner, to)]
        for agent in (owner, to):
            lines = [f"    px.atomic_exch(c[{word}], 0)"] if self.rng.random() < 0.95 else ["    px.sync()"]
            if cells:
                lines.append(f"    px.store({row}, px.load(G[{cells[0]}, 0:{WIDTH}]))")
            self.say(agent, f'if px.atomic_add(c[{word}], 1, order="acq_rel") == 1:', *lines)

    def step_sum(self, cell: int, owner: int, to: int) -> None:
        """Two add to a row, in any order; who knows of both reads it."""
        other, word = self.elsewhere(owner), self.rng.randrange(WORDS - 1)
        self.say(owner, self.arrive(word))
        self.spin(other, word)
        for each in (owner, other):
            self.value += 1
            self.say(each, f"px.atomic_add(G[{cell}, 0:{WIDTH}], px.full(({WIDTH},), {self.value}.0, px.f32))")
        self.say(other, self.arrive(word))
        self.spin(owner, word)
        if self.rng.random() < 0.9:
            self.owner[cell] = owner

    def step_locked(self, cell: int, owner: int, to: int) -> None:
        """Two take a lock, which orders nothing, for an update that commutes."""
        other = self.elsewhere(owner)
        for each in (owner, other):
            self.value += 1
            n = next(self.numbers)
            self.say(each, f"while px.atomic_cas(W[{WORDS - 1}], 0, 1) != 0:", "    pass")
            self.say(each, f"px.atomic_add(G[{CELLS}, 0:{WIDTH}], px.full(({WIDTH},), {self.value}.0, px.f32))")
            if self.rng.random() < 0.95:
                self.say(each, f"px.atomic_exch(W[{WORDS - 1}], 0)")
            else:
                self.say(each, f"u{n} = px.atomic_exch(W[{WORDS - 1}], 0)")

    def step_tried(self, cell: int, owner: int, to: int) -> None:
        """A flag that is asked for a few times, then waited for, or not."""
        to, word = self.elsewhere(owner), self.rng.randrange(WORDS - 1)
        self.say(owner, self.arrive(word))
        ask = self.rng.choice((f'px.atomic_add(W[{word}], 0, order="acq_rel")', f"px.atomic_load(W[{word}])"))
        self.poll(to, f"{ask} >= {self.words[word]}")
        if self.rng.random() < 0.75:
            self.spin(to, word)
        self.give(owner, to)

    def poll(self, agent: int, asks: str) -> None:
        super().poll(agent, f"({asks})")

    def step_fails(self, cell: int, owner: int, to: int) -> None:
        """Updates that leave things as they are."""
        word = self.rng.randrange(WORDS)
        self.say(owner, self.rng.choice((
            f"px.atomic_cas(W[{word}], -1, 7)", f"px.atomic_max(W[{word}], -5)", f"px.atomic_add(W[{word}], 0)",
        )))

    def step_swap(self, cell: int, owner: int, to: int) -> None:
        """A word of one's own, by any atomic, that another reads behind a hand-over."""
        to = self.elsewhere(owner)
        word, mine = self.rng.randrange(WORDS - 1), WORDS + next(self.numbers)
        self.value += 1
        self.say(owner, self.rng.choice((
            f"px.atomic_exch(W[{mine}], {self.value})", f"px.atomic_max(W[{mine}], {self.value})",
            f"px.store(W[{mine}], {self.value})",
        )))
        self.say(owner, self.arrive(word))
        self.spin(to, word)
        self.say(to, f"px.store({self.fresh_row()}, px.full(({WIDTH},), 0.0, px.f32) + px.load(W[{mine}]).to(px.f32))")
        self.give(owner, to)


class Tensor(Shared):
    """Two operands, `a[0]` and `a[1]`, and two accumulators, as cells 0 to 3: roles 0 and 1 multiply, role 2 drains."""

    kinds = TENSOR

    def __init__(self, text: World, rng: Random) -> None:
        super().__init__(text, rng)
        text.before = [
            f"px.store(a[{i}], px.full(({M}, {K}), {i + 1}.0, A.dtype))" for i in range(2)
        ] + [f"px.store(b, px.full(({N}, {K}), 1.0, A.dtype))", "px.fence.async_proxy()"]
        text.after = []
        self.owner = [rng.randrange(2) for _ in range(4)]
        self.value = 2
        self.drained = 0
        self.begun = [False, False]

    @classmethod
    def begin(cls, rng: Random) -> Tensor:
        return cls(World("tensor", 1, [(4, 1), (5, 1), (0, 4)]), rng)

    def step(self) -> None:
        kind = self.rng.choice(self.kinds)
        operand, acc = self.rng.randrange(2), 2 + self.rng.randrange(2)
        getattr(self, f"step_{kind}")(operand, self.owner[operand], acc)

    def hand_over(self, cell: int, to: int) -> int:
        """Brings a cell to an agent, if it is not there; mostly."""
        owner = self.owner[cell]
        if owner != to and self.rng.random() < 0.93:
            barrier = self.barrier(1, owner, to)
            self.say(owner, f"b{barrier}.arrive()")
            self.wait(to, barrier)
            self.give(owner, to)
        return to

    def step_write(self, operand: int, owner: int, acc: int) -> None:
        self.value = self.value % 7 + 1
        self.say(owner, f"px.store(a[{operand}], px.full(({M}, {K}), {self.value}.0, A.dtype))", "px.fence.async_proxy()")

    def step_bring(self, operand: int, owner: int, acc: int) -> None:
        """The operand comes by a copy."""
        to = self.anybody()
        barrier = self.barrier(1, owner, to, "copy")
        self.say(owner, f"b{barrier}.arrive_and_expect_tx({2 * M * K})")
        self.say(owner, f"px.tma.load(A[{self.rng.randrange(4) * M}:{M}, 0:{K}], a[{operand}], b{barrier})".replace(
            f":{M},", "_END,"
        ))
        lines = self.text.roles[owner][-1]
        start = int(lines[0].split("A[")[1].split("_END")[0])
        lines[0] = lines[0].replace("_END", f":{start + M}")
        self.wait(to, barrier)
        self.owner[operand] = to

    def step_product(self, operand: int, owner: int, acc: int) -> None:
        """One or two products, then the commit, which tells whoever goes on."""
        rng = self.rng
        by = rng.randrange(2)
        self.hand_over(operand, by)
        self.hand_over(acc, by)
        for _ in range(rng.choice((1, 1, 2))):
            adds = self.begun[acc - 2] and rng.random() < 0.5
            self.say(by, f"px.tcgen05.mma(a[{operand}], b.T, acc[{acc - 2}], accumulate={adds})")
            self.begun[acc - 2] = True
        self.commit(by, self.anybody(), operand, acc)

    def step_twice(self, operand: int, owner: int, acc: int) -> None:
        """Two commits for one product: the first of them tells of it."""
        by = self.rng.randrange(2)
        self.hand_over(operand, by)
        self.hand_over(acc, by)
        self.say(by, f"px.tcgen05.mma(a[{operand}], b.T, acc[{acc - 2}], accumulate=False)")
        self.begun[acc - 2] = True
        self.commit(by, self.anybody(), operand)
        self.commit(by, 2, acc)

    def commit(self, by: int, to: int, *cells: int) -> None:
        barrier = self.barrier(1, by, to, "commit")
        self.say(by, f"px.tcgen05.commit(b{barrier})")
        if self.rng.random() < 0.2:
            self.poll(to, self.test(barrier))
        if self.rng.random() < 0.97:
            self.wait(to, barrier)
        else:
            self.next_phase(barrier)
        for cell in cells:
            self.owner[cell] = to

    def step_drain(self, operand: int, owner: int, acc: int) -> None:
        if not self.begun[acc - 2] or self.drained > 3:
            return
        self.hand_over(acc, 2)
        row = self.drained * M
        self.drained += 1
        self.say(2, f"px.store(P[{row}:{row + M}, 0:{N}], px.tcgen05.load(acc[{acc - 2}]))")

    def step_inside(self, operand: int, owner: int, acc: int) -> None:
        self.hand_over(self.rng.choice((operand, acc)), self.anybody())

    def step_limited(self, operand: int, owner: int, acc: int) -> None:
        super().step_limited(operand, owner, self.rng.randrange(2))


WORLDS: tuple[type[Shared], ...] = (Shared, Shared, Grid, Grid, Tensor)


def handover(rng: Random) -> str:
    """The source of a random program."""
    plan = rng.choice(WORLDS).begin(rng)
    for _ in range(rng.randint(2, 5)):
        plan.step()
    plan.damage()
    return str(plan.text)


def given(program: Any) -> list[np.ndarray]:
    """Its arguments, by the names of its parameters."""
    made = {
        "X": 1000.0 + np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH),
        "Y": np.zeros((2 * ROWS, WIDTH), np.float32),
        "G": np.zeros((CELLS + 1, WIDTH), np.float32),
        "W": np.zeros(WORDS + 64, np.int32),
        "A": (np.arange(4 * M * K) % 5).reshape(4 * M, K).astype(ml_dtypes.bfloat16),
        "P": np.zeros((4 * M, N), np.float32),
    }
    return [made[name] for name in program.parameters]


def grid_of(text: str) -> int:
    """The CTAs of its launch."""
    return 2 if "cluster=2" in text or "cooperative=True" in text else 1
