"""Random small programs: two to four agents in one or two CTAs that hand cells of shared memory to each other.

A program begins as a correct one (whoever touches a cell was handed it by an arrive and a wait, or by a copy) in which
some steps break the rule: cells are touched by who does not own them, barriers get signals that nothing orders, tests are
not waited for. Then up to two statements are removed, doubled, swapped or changed. Every value that is written is unique,
and every read goes to a row of `Y` of its own, so that the outcome shows who read what. A seed is a program everywhere.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

CELLS = 3
WIDTH = 4
ROWS = 16
"""Rows of X, and rows of Y for each CTA."""
NBYTES = WIDTH * 4
KINDS = (
    "write", "read", "hand", "hand", "copy", "store", "meet", "remote", "push", "crowd", "crowd", "apart", "ask", "group",
    "loose",
)
Statement = list[str]
"""Lines that belong together."""


@dataclass
class Text:
    """The program as it is written: what all warps do first, what each role does, what all do at last."""

    ctas: int
    roles: list[list[Statement]]
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            "import phalanx as px", "", "", f"@px.kernel(warps={len(self.roles)}, cluster={self.ctas})",
            "def program(X, Y):", "    rank = px.cluster.rank()", f"    s = px.shared(({CELLS}, {WIDTH}), px.f32)",
        ]
        lines += [f"    b{i} = px.barrier(count={count}, checked=False)" for i, count in enumerate(self.barriers)]
        lines += [f"    {line}" for line in self.before]
        for i, role in enumerate(self.roles):
            body = [line for statement in role for line in statement]
            lines += [f"    with px.warps({i}, 1):", *(f"        {line}" for line in body or ["px.sync()"])]
        lines += [f"    {line}" for line in self.after]
        return "\n".join(lines) + "\n"


def program(rng: Random) -> str:
    """The source of a random program."""
    ctas = rng.choice((1, 1, 2))
    count = rng.randint(2, 4 if ctas == 1 else 2)
    text = Text(ctas, [[] for _ in range(count)])
    plan = Plan(text, rng)
    for _ in range(rng.randint(2, 6)):
        plan.step()
    plan.damage()
    return str(text)


def programs() -> st.SearchStrategy[str]:
    """The same for hypothesis."""
    return st.integers(0, 2**32 - 1).map(lambda seed: program(Random(seed)))


class Plan:
    """Adds one step after the other, and keeps who owns which cell."""

    def __init__(self, text: Text, rng: Random) -> None:
        self.text = text
        self.rng = rng
        self.owner = [self.anybody() for _ in range(CELLS)]
        self.value = 0
        self.row = 0
        self.phases: list[int] = []
        self.users: list[tuple[Any, ...]] = []
        text.before += [self.write(cell) for cell in range(CELLS)]
        text.before.append("px.fence.async_proxy()")
        if text.ctas == 2:
            text.before.append("px.cluster.sync()")
        if rng.random() < 0.5:
            text.after.append(self.read(rng.randrange(CELLS)))

    def anybody(self) -> int:
        return self.rng.randrange(len(self.text.roles))

    def say(self, role: int, *lines: str) -> None:
        self.text.roles[role].append(list(lines))

    def write(self, cell: int, where: str = "s") -> str:
        self.value += 1
        return f"px.store({where}[{cell}], px.full(({WIDTH},), {self.value}.0, px.f32) + 100.0 * rank)"

    def fresh_row(self) -> str:
        self.row += 1
        return f"Y[rank * {ROWS} + {(self.row - 1) % ROWS}, 0:{WIDTH}]"

    def read(self, cell: int) -> str:
        return f"px.store({self.fresh_row()}, px.load(s[{cell}]))"

    def barrier(self, count: int, *users: Any) -> int:
        """A fresh barrier, or one that the same ones used before."""
        old = [i for i, known in enumerate(self.users) if known == users and self.text.barriers[i] == count]
        if old and self.rng.random() < 0.4:
            return self.rng.choice(old)
        self.text.barriers.append(count)
        self.phases.append(0)
        self.users.append(users)
        return len(self.phases) - 1

    def next_phase(self, barrier: int) -> int:
        """Its parity."""
        self.phases[barrier] += 1
        return self.phases[barrier] - 1 & 1

    def wait(self, agent: int, barrier: int) -> None:
        self.say(agent, f"b{barrier}.wait({self.next_phase(barrier)})")

    def mask(self, remote: bool) -> str:
        return "ctas=1 << (rank ^ 1)" if remote else ""

    def step(self) -> None:
        rng = self.rng
        cell = rng.randrange(CELLS)
        owner = self.owner[cell] if rng.random() < 0.9 else self.anybody()
        getattr(self, f"step_{rng.choice(KINDS)}")(cell, owner, self.anybody())

    # --- steps ------------------------------------------------------------------------------------------------------

    def step_write(self, cell: int, owner: int, to: int) -> None:
        self.say(owner, self.write(cell))

    def step_read(self, cell: int, owner: int, to: int) -> None:
        self.say(owner, self.read(cell))

    def step_hand(self, cell: int, owner: int, to: int) -> None:
        self.hand(owner, to, remote=False)

    def hand(self, owner: int, to: int, *, remote: bool) -> None:
        """All that `owner` has goes to `to`."""
        barrier = self.barrier(1, owner, to, remote)
        self.say(owner, f"b{barrier}.arrive({self.mask(remote)})")
        self.wait(to, barrier)
        self.owner = [to if o == owner else o for o in self.owner]

    def step_remote(self, cell: int, owner: int, to: int) -> None:
        if self.text.ctas == 2:
            if self.rng.random() < 0.5:
                self.say(owner, self.write(cell, "s.at(rank ^ 1)"))
            self.hand(owner, to, remote=True)

    def step_meet(self, cell: int, owner: int, to: int) -> None:
        """`to` waits for two others; one of them may stand for both."""
        other = self.anybody()
        barrier = self.barrier(2, to, "meet")
        if other == owner:
            self.say(owner, f"b{barrier}.arrive(2)")
        else:
            self.say(owner, f"b{barrier}.arrive()")
            self.say(other, f"b{barrier}.arrive()")
        self.wait(to, barrier)
        self.owner = [to if o in (owner, other) else o for o in self.owner]

    def step_crowd(self, cell: int, owner: int, to: int) -> None:
        """A phase that anybody fills, and nothing orders with the phases before it but who waits for them."""
        rng = self.rng
        count = rng.randint(1, 2)
        barrier = self.barrier(count, "crowd")
        for _ in range(count):
            giver = owner if rng.random() < 0.5 else self.anybody()
            if rng.random() < 0.5 and self.phases[barrier]:
                self.say(giver, f"b{barrier}.wait({self.phases[barrier] - 1 & 1})")
            self.say(giver, f"b{barrier}.arrive({self.mask(self.text.ctas == 2 and rng.random() < 0.3)})")
        self.wait(to, barrier)
        self.owner = [to if o == owner else o for o in self.owner]

    def arm(self, role: int, barrier: int, nbytes: int) -> None:
        """Arrives and expects, in one or in two instructions, here or for the peer."""
        rng = self.rng
        if rng.random() < 0.6:
            self.say(role, f"b{barrier}.arrive_and_expect_tx({nbytes})")
        elif self.text.ctas == 2 and rng.random() < 0.5:
            self.say(role, f"b{barrier}.arrive_and_expect_tx({nbytes}, {self.mask(True)})")
        else:
            self.say(role, f"b{barrier}.expect_tx({nbytes})")
            self.say(role if rng.random() < 0.8 else self.anybody(), f"b{barrier}.arrive()")

    def step_copy(self, cell: int, owner: int, to: int) -> None:
        """The copy engine writes the cell for `owner`, `to` waits for it."""
        rng = self.rng
        barrier = self.barrier(1, owner, to, "copy")
        self.arm(owner, barrier, NBYTES)
        load = f"px.tma.load(X[{rng.randrange(ROWS)}, 0:{WIDTH}], s[{cell}], b{barrier}"
        if self.text.ctas == 2 and rng.random() < 0.5:
            self.say(owner, "if rank == 0:", f"    {load}, multicast=3)")
        else:
            self.say(owner, f"{load})")
        self.wait(to, barrier)
        self.owner[cell] = to

    def step_apart(self, cell: int, owner: int, to: int) -> None:
        """One arms, another copies, a third may wait."""
        barrier = self.barrier(1, "apart")
        self.arm(self.anybody(), barrier, NBYTES)
        self.say(owner, f"px.tma.load(X[{self.rng.randrange(ROWS)}, 0:{WIDTH}], s[{cell}], b{barrier})")
        self.wait(to, barrier)
        self.owner[cell] = to

    def step_push(self, cell: int, owner: int, to: int) -> None:
        """Into the peer's memory, by the engine or by stores, with its bytes on the peer's barrier."""
        if self.text.ctas == 1:
            return
        barrier, target = self.barrier(1, owner, to, "push"), self.rng.randrange(CELLS)
        self.arm(owner, barrier, NBYTES)
        if self.rng.random() < 0.5:
            self.say(owner, "px.fence.async_proxy()")
            self.say(owner, f"px.cluster.copy(s[{cell}], s[{target}], b{barrier}, cta=rank ^ 1)")
        else:
            self.say(owner, f"px.cluster.store(s[{target}], px.load(s[{cell}]), b{barrier}, cta=rank ^ 1)")
        self.wait(to, barrier)

    def step_store(self, cell: int, owner: int, to: int) -> None:
        self.say(owner, "px.fence.async_proxy()", f"px.tma.store(s[{cell}], {self.fresh_row()})", "px.tma.commit()")
        self.say(owner, f"px.tma.wait(0{', read=True' * (self.rng.random() < 0.3)})")

    def step_group(self, cell: int, owner: int, to: int) -> None:
        """Two groups in flight, of which one is waited for before a cell is written again."""
        other = self.rng.randrange(CELLS)
        for source in (cell, other):
            self.say(owner, "px.fence.async_proxy()", f"px.tma.store(s[{source}], {self.fresh_row()})", "px.tma.commit()")
        self.say(owner, f"px.tma.wait({self.rng.randint(0, 1)}, read=True)")
        self.say(owner, self.write(self.rng.choice((cell, other))))
        self.say(owner, "px.tma.wait(0)")

    def step_ask(self, cell: int, owner: int, to: int) -> None:
        """A hand-over that is asked for: until it is there, before it is waited for, or a few times before going on."""
        rng = self.rng
        barrier = self.barrier(1, owner, to, False)
        self.say(owner, f"b{barrier}.arrive()")
        test = f"b{barrier}.test_wait({self.next_phase(barrier)})"
        how = rng.choice(("spin", "otherwise", "few"))
        if how == "spin":
            self.say(to, f"while not {test}:", "    pass")
        elif how == "otherwise":
            self.say(to, f"if not {test}:", f"    {test.replace('test_wait', 'wait')}")
        else:
            self.say(to, f"for _ in range({rng.randint(1, 3)}):", f"    if {test}:", "        break")
        self.owner = [to if o == owner else o for o in self.owner]

    def step_loose(self, cell: int, owner: int, to: int) -> None:
        """A signal that no plan has."""
        if not self.phases:
            return
        rng = self.rng
        barrier = rng.randrange(len(self.phases))
        remote = self.mask(self.text.ctas == 2 and rng.random() < 0.3)
        self.say(owner, rng.choice((
            f"b{barrier}.arrive({remote})", f"b{barrier}.arrive({remote})", f"b{barrier}.arrive_and_expect_tx(0)",
            f"b{barrier}.wait({rng.randint(0, 1)})",
        )))

    def damage(self) -> None:
        """Up to two statements are not what they should be."""
        rng = self.rng
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            roles = [role for role in self.text.roles if role]
            if not roles:
                return
            role = rng.choice(roles)
            at = rng.randrange(len(role))
            line = role[at][0]
            how = rng.choice(("remove", "double", "swap", "change"))
            if how == "remove":
                del role[at]
            elif how == "double":
                role.insert(at, role[at])
            elif how == "swap" and at + 1 < len(role):
                role[at], role[at + 1] = role[at + 1], role[at]
            elif how == "change" and "expect_tx" in line:
                other = rng.choice((0, NBYTES // 2, 2 * NBYTES))
                role[at] = [line.replace(f"({NBYTES}", f"({other}"), *role[at][1:]]
            elif how == "change" and ".wait(" in line and line.startswith("b"):
                role[at] = [line.replace("(1)", "(x)").replace("(0)", "(1)").replace("(x)", "(0)"), *role[at][1:]]


_NUMBER = 0


def load(text: str, folder: Path) -> Any:
    """The program as a kernel."""
    global _NUMBER
    _NUMBER += 1
    path = folder / f"program_{_NUMBER}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module.program


def arguments() -> tuple[np.ndarray, np.ndarray]:
    """X holds numbers that no program writes."""
    x = 1000.0 + np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    return x, np.zeros((2 * ROWS, WIDTH), np.float32)
