"""Random small programs: two to four agents in one or two CTAs that hand cells of shared memory to each other.

A program begins as a correct one (whoever touches a cell was handed it by an arrive and a wait, or by a copy) in which
some steps break the rule, and has up to two lines removed, doubled, swapped or changed. Every value that is written is
unique, and every read goes to a row of `Y` of its own, so that the outcome shows who read what.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

CELLS = 3
WIDTH = 4
ROWS = 16
"""Rows of X, and rows of Y for each CTA."""
NBYTES = WIDTH * 4
KINDS = ("write", "read", "hand", "hand", "hand", "copy", "copy", "store", "meet", "remote")


@dataclass
class Text:
    """The program as it is written: what all warps do first, what each role does, what all do at last."""

    ctas: int
    roles: list[list[str]]
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
            lines += [f"    with px.warps({i}, 1):", *(f"        {line}" for line in role or ["px.sync()"])]
        lines += [f"    {line}" for line in self.after]
        return "\n".join(lines) + "\n"


@st.composite
def programs(draw: st.DrawFn) -> str:
    """The source of a random program."""
    ctas = draw(st.sampled_from((1, 1, 2)))
    count = draw(st.integers(2, 4 if ctas == 1 else 2))
    text = Text(ctas, [[] for _ in range(count)])
    plan = Plan(text, draw)
    for _ in range(draw(st.integers(2, 7))):
        plan.step()
    plan.damage()
    return str(text)


class Plan:
    """Adds one step after the other, and keeps who owns which cell."""

    def __init__(self, text: Text, draw: Any) -> None:
        self.text = text
        self.draw = draw
        self.owner = [draw(st.integers(0, len(text.roles) - 1)) for _ in range(CELLS)]
        self.value = 0
        self.row = 0
        self.phases: list[int] = []
        self.users: list[tuple[int, int, bool]] = []
        text.before += [self.write(cell) for cell in range(CELLS)]
        text.before.append("px.fence.async_proxy()")
        if text.ctas == 2:
            text.before.append("px.cluster.sync()")
        if draw(st.booleans()):
            text.after.append(self.read(draw(st.integers(0, CELLS - 1))))

    def write(self, cell: int, where: str = "s") -> str:
        self.value += 1
        return f"px.store({where}[{cell}], px.full(({WIDTH},), {self.value}.0, px.f32) + 100.0 * rank)"

    def read(self, cell: int) -> str:
        self.row += 1
        return f"px.store(Y[rank * {ROWS} + {self.row - 1}, 0:{WIDTH}], px.load(s[{cell}]))"

    def barrier(self, count: int, users: tuple[int, int, bool]) -> int:
        """A fresh barrier, or one that the same two used before."""
        old = [i for i, known in enumerate(self.users) if known == users and self.text.barriers[i] == count]
        if old and self.draw(st.integers(0, 2)) == 0:
            return self.draw(st.sampled_from(old))
        self.text.barriers.append(count)
        self.phases.append(0)
        self.users.append(users)
        return len(self.phases) - 1

    def wait(self, agent: int, barrier: int) -> None:
        self.text.roles[agent].append(f"b{barrier}.wait({self.phases[barrier] & 1})")
        self.phases[barrier] += 1

    def step(self) -> None:
        draw, text = self.draw, self.text
        agents = st.integers(0, len(text.roles) - 1)
        cell = draw(st.integers(0, CELLS - 1))
        owner = self.owner[cell] if draw(st.integers(0, 9)) else draw(agents)
        to = draw(agents)
        kind = draw(st.sampled_from(KINDS))
        if kind == "write":
            text.roles[owner].append(self.write(cell))
        elif kind == "read":
            text.roles[owner].append(self.read(cell))
        elif kind == "hand":
            self.hand(owner, to, remote=False)
        elif kind == "meet" and len(text.roles) > 2:
            self.meet(owner, to)
        elif kind == "copy":
            self.copy(cell, owner, to)
        elif kind == "store":
            self.row += 1
            text.roles[owner] += [
                "px.fence.async_proxy()", f"px.tma.store(s[{cell}], Y[rank * {ROWS} + {self.row - 1}, 0:{WIDTH}])",
                "px.tma.commit()", "px.tma.wait(0)",
            ]
        elif kind == "remote" and text.ctas == 2:
            if draw(st.booleans()):
                text.roles[owner].append(self.write(cell, "s.at(rank ^ 1)"))
            self.hand(owner, to, remote=True)

    def hand(self, owner: int, to: int, *, remote: bool) -> None:
        """All that `owner` has goes to `to`."""
        barrier = self.barrier(1, (owner, to, remote))
        mask = "ctas=1 << (rank ^ 1)" if remote else ""
        self.text.roles[owner].append(f"b{barrier}.arrive({mask})")
        self.wait(to, barrier)
        self.owner = [to if o == owner else o for o in self.owner]

    def meet(self, owner: int, to: int) -> None:
        """`to` waits for two others."""
        other = self.draw(st.sampled_from([i for i in range(len(self.text.roles)) if i != owner]))
        barrier = self.barrier(2, (owner, to, False))
        self.text.roles[owner].append(f"b{barrier}.arrive()")
        self.text.roles[other].append(f"b{barrier}.arrive()")
        self.wait(to, barrier)
        self.owner = [to if o in (owner, other) else o for o in self.owner]

    def copy(self, cell: int, owner: int, to: int) -> None:
        """The copy engine writes the cell for `owner`, `to` waits for it."""
        draw, role = self.draw, self.text.roles[owner]
        barrier = self.barrier(1, (owner, to, False))
        source = draw(st.integers(0, ROWS - 1))
        arm = f"b{barrier}.arrive_and_expect_tx({NBYTES})"
        load = f"px.tma.load(X[{source}, 0:{WIDTH}], s[{cell}], b{barrier}"
        multicast = self.text.ctas == 2 and draw(st.booleans())
        if multicast:
            role += [arm, "if rank == 0:", f"    {load}, multicast=3)"]
        else:
            role += [arm, f"{load})"]
        self.wait(to, barrier)
        self.owner[cell] = to

    def damage(self) -> None:
        """Up to two lines are not what they should be."""
        draw = self.draw
        for _ in range(draw(st.sampled_from((0, 0, 1, 1, 2)))):
            lines = [role for role in self.text.roles if role]
            if not lines:
                return
            role = draw(st.sampled_from(lines))
            at = draw(st.integers(0, len(role) - 1))
            line = role[at]
            if line.startswith((" ", "if")):
                continue
            how = draw(st.sampled_from(("remove", "double", "swap", "change")))
            if how == "remove":
                del role[at]
            elif how == "double":
                role.insert(at, line)
            elif how == "swap" and at + 1 < len(role) and not role[at + 1].startswith((" ", "if")):
                if at == 0 or not line.startswith(" "):
                    role[at], role[at + 1] = role[at + 1], line
            elif how == "change" and "expect_tx" in line:
                role[at] = line.replace(f"({NBYTES})", f"({draw(st.sampled_from((0, NBYTES // 2, 2 * NBYTES)))})")
            elif how == "change" and ".wait(" in line and line.startswith("b"):
                role[at] = line.replace("(1)", "(x)").replace("(0)", "(1)").replace("(x)", "(0)")


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
