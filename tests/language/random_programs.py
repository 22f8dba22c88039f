"""Random small kernels of scalar control flow, as source text that is also a Python program.

The text runs twice: read by Phalanx into a kernel, and by Python itself with `PlainPx` in the place of `px`. Every
name is used only where Python has surely assigned it, loops end, integers stay small.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np

SLOTS = 6
"""Elements of the output that each CTA writes."""

INPUTS = [(0, 0), (5, -3), (-7, 12), (23, 23), (100, 1)]
"""What `a` and `b` are in each block."""


def plain_result(text: str) -> np.ndarray:
    """What Python writes for a program, one block after the other."""
    out = unwritten()
    code = compile(text.replace("import phalanx as px", ""), "<plain>", "exec")
    a, b = [x for x, _ in INPUTS], [y for _, y in INPUTS]
    for block in range(len(INPUTS)):
        names: dict[str, Any] = {"px": PlainPx(block)}
        exec(code, names)
        names["program"](a, b, Places(out), K=2)
    return out


def unwritten() -> np.ndarray:
    """The output before a program runs."""
    return np.full((len(INPUTS), SLOTS), -1, np.int32)


def inputs() -> tuple[np.ndarray, np.ndarray]:
    """The arrays A and B of a program."""
    return np.array([x for x, _ in INPUTS], np.int32), np.array([y for _, y in INPUTS], np.int32)


def load_program(text: str, folder: Path) -> Any:
    """The kernel of a program, read from a file of its own."""
    name = f"random_program_{abs(hash(text))}"
    file = folder / f"{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


class PlainPx:
    """`px` for plain Python: what the programs use of it, on one block."""

    def __init__(self, block: int) -> None:
        self.block = block

    def kernel(self, **_: Any) -> Any:
        return lambda fn: fn

    def func(self, fn: Any) -> Any:
        return fn

    def struct(self, cls: type) -> Any:
        return dataclasses.dataclass(cls)

    def block_id(self, dim: int) -> int:
        return self.block

    def static_range(self, *bounds: int) -> range:
        return range(*bounds)

    def cdiv(self, a: int, b: int) -> int:
        return -(-a // b)

    def where(self, cond: bool, a: int, b: int) -> int:
        return a if cond else b

    def store(self, place: tuple[Any, tuple[int, int]], value: int) -> None:
        array, index = place
        array.data[index] = int(value)


class Places:
    """An array of which a subscript is a place, not a value."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __getitem__(self, index: tuple[int, int]) -> Any:
        return self, index


class Program:
    """Writes one program, line by line."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.depth = 0
        self.budget = 26
        self.counter = 0
        self.loops: list[str] = []
        self.in_helper = False
        self.ints: list[str] = []
        self.bools: list[str] = []

    def text(self) -> str:
        self.lines = [
            "import phalanx as px", "", "SHIFT = 3", "", "",
            "@px.struct", "class Pair:", "    left: int", "    right: int = 2", "",
            "    def bump(self, by):", "        if by > 3:", "            self.left = (self.left + by) % 31",
            "            return self.left",
            "        self.right = self.right - by", "        return self.right % 17", "", "",
        ]  # fmt: skip
        self.helper()
        self.lines += [
            "@px.kernel(warps=1)", "def program(A, B, OUT, *, K=2):", "    i = px.block_id(0)",
            "    a = A[i]", "    b = B[i]", "    s = Pair(a)",
        ]  # fmt: skip
        self.ints, self.bools, self.depth = ["a", "b", "K", "SHIFT", "s.left", "s.right"], [], 1
        for name in ("x", "y", "z"):
            self.line(f"{name} = {self.rng.choice(['0', '1', '7', 'a', 'b - 1', 'K'])}")
            self.ints.append(name)
        self.line("p = a < b")
        self.bools.append("p")
        self.statements(6)
        for slot, name in enumerate(("x", "y", "z", "s.left", "s.right + p")):
            self.line(f"px.store(OUT[i, {slot}], {name})")
        return "\n".join(self.lines) + "\n"

    def helper(self) -> None:
        self.lines += ["@px.func", "def helper(u, v=4):"]
        self.ints, self.bools, self.depth, self.in_helper = ["u", "v", "SHIFT"], [], 1, True
        self.line("w = u + 1")
        self.ints.append("w")
        self.statements(3)
        self.line(f"return {self.integer()} % 53")
        self.lines += ["", ""]
        self.in_helper = False

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    # Expressions.

    def integer(self, depth: int = 2) -> str:
        pick = self.rng.randrange(13 if depth else 3)
        if pick == 0:
            return str(self.rng.randrange(-3, 9))
        if pick <= 2:
            return self.rng.choice(self.ints)
        one = self.integer(depth - 1)
        if pick <= 5:
            return f"({one} {self.rng.choice('+-*')} {self.integer(depth - 1)})"
        if pick == 6:
            return f"({one} // {self.rng.choice(['3', '-2', '5'])})"
        if pick == 7:
            return f"({one} % {self.rng.choice(['4', '-3', '(abs(b) + 1)' if not self.in_helper else '9'])})"
        if pick == 8:
            return f"({one} {self.rng.choice('&|^')} {self.integer(depth - 1)})"
        if pick == 9:
            return f"({one} if {self.condition(1)} else {self.integer(depth - 1)})"
        if pick == 10:
            return f"{self.rng.choice(['min', 'max'])}({one}, {self.integer(depth - 1)})"
        if pick == 11:
            forms = [f"abs({one})", f"(-{one})", f"px.cdiv({one}, 4)", f"({one} >> 1)", f"(~({one} + 0))"]
            return self.rng.choice(forms)
        if self.in_helper:
            return f"({self.condition(1)}) * 2"
        calls = [f"helper({one})", f"helper({one}, v=K)", "s.bump(K)", f"helper({one}, 2)", f"s.bump({one} % 7)"]
        return self.rng.choice(calls)

    def condition(self, depth: int = 2) -> str:
        pick = self.rng.randrange(7 if depth else 2)
        if pick <= 2:
            return f"{self.integer(1)} {self.rng.choice(['<', '<=', '>', '>=', '==', '!='])} {self.integer(1)}"
        if pick == 3:
            return f"{self.integer(0)} < {self.integer(1)} <= {self.integer(0)}"
        if pick == 4:
            return f"({self.condition(depth - 1)}) {self.rng.choice(['and', 'or'])} ({self.condition(depth - 1)})"
        if pick == 5:
            return f"not ({self.condition(depth - 1)})"
        return self.rng.choice([*self.bools, "K > 1" if not self.in_helper else "u < 3", "True", "SHIFT == 4"])

    # Statements.

    def statements(self, most: int) -> None:
        """A block. What is assigned first inside it is forgotten by the caller, who restores the lists."""
        for _ in range(self.rng.randrange(1, most + 1)):
            if self.budget <= 0:
                break
            self.budget -= 1
            if self.statement():
                return
        self.line("pass")

    def statement(self) -> bool:
        """One statement; True if nothing can follow it."""
        pick = self.rng.randrange(20)
        if pick <= 6:
            self.assignment()
        elif pick <= 9 and self.depth < 6:
            self.branch()
        elif pick <= 11 and self.depth < 5:
            self.counted_loop()
        elif pick == 12 and self.depth < 5:
            self.while_loop()
        elif pick == 13 and self.depth < 5:
            self.unrolled_loop()
        elif pick == 14 and self.depth < 5:
            self.endless_loop()
        elif pick == 15 and self.loops:
            self.line(self.rng.choice(["break", "continue"]))
            return True
        elif pick == 16 and self.depth > 1:
            self.line(f"return {self.integer()} % 29" if self.in_helper else "return")
            return True
        elif pick == 17 and not self.in_helper:
            self.line(f"px.store(OUT[i, 5], {self.integer()})")
        elif pick == 18:
            name = self.fresh("q")
            self.line(f"{name} = {self.condition()}")
            self.bools.append(name)
        else:
            self.assignment()
        return False

    def targets(self) -> list[str]:
        plain = [n for n in self.ints if n[0] in "xyzwm"]
        return plain if self.in_helper else [*plain, "s.left", "s.right"]

    def assignment(self) -> None:
        target = self.rng.choice(self.targets())
        pick = self.rng.randrange(6)
        if pick == 0:
            self.line(f"{target} {self.rng.choice(['+=', '-='])} {self.integer(1)} % 11")
        elif pick == 1 and len(self.targets()) > 1:
            one, two = self.rng.sample(self.targets(), 2)
            self.line(f"{one}, {two} = {two}, {self.integer(1)} % 19")
        elif pick == 2:
            name = self.fresh("m")
            self.line(f"{name} = {self.integer()} % 97")
            self.ints.append(name)
        elif pick == 3 and not self.in_helper:
            self.line(f"{self.rng.choice(['s.bump', 'helper'])}({self.integer(1)} % 6)")
        else:
            self.line(f"{target} = {self.integer()} % 97")

    def fresh(self, letter: str) -> str:
        self.counter += 1
        return f"{letter}{self.counter}"

    def block(self, most: int, loop: str | None = None) -> tuple[list[str], list[str]]:
        """An indented block; gives the names that are assigned at its end."""
        ints, bools, outer = list(self.ints), list(self.bools), self.loops
        if loop is not None:
            self.loops = [*self.loops, loop]
        self.depth += 1
        self.statements(most)
        self.depth -= 1
        inside = self.ints, self.bools
        self.ints, self.bools, self.loops = ints, bools, outer
        return inside

    def branch(self) -> None:
        self.line(f"if {self.condition()}:")
        self.block(3)
        if self.rng.random() < 0.3:
            self.line(f"elif {self.condition(1)}:")
            self.block(2)
        if self.rng.random() < 0.6:
            self.line("else:")
            self.block(3)

    def counted_loop(self) -> None:
        index = self.fresh("k")
        stepped = "1, 8, K" if not self.in_helper else "4"
        bounds = self.rng.choice(["3", f"(abs({self.rng.choice(self.ints)}) % 5)", stepped, "4, -2, -2"])
        self.line(f"for {index} in range({bounds}):")
        self.ints.append(index)
        self.block(4, "for")
        self.ints.remove(index)

    def unrolled_loop(self) -> None:
        index = self.fresh("k")
        self.line(f"for {index} in {self.rng.choice(['px.static_range(3)', '(2, 5)', 'px.static_range(5, 0, -2)'])}:")
        self.ints.append(index)
        self.block(3, "unrolled")
        self.ints.remove(index)

    def while_loop(self) -> None:
        guard = self.fresh("g")
        self.line(f"{guard} = 0")
        self.line(f"while {guard} < 5 and ({self.condition(1)}):")
        self.lines.append("    " * (self.depth + 1) + f"{guard} += 1")
        self.block(3, "while")

    def endless_loop(self) -> None:
        guard = self.fresh("g")
        self.line(f"{guard} = 0")
        self.line("while True:")
        self.depth += 1
        self.line(f"{guard} = {guard} + 1")
        self.line(f"if {guard} > 3:")
        self.line("    break")
        self.depth -= 1
        self.block(3, "while")
