"""Kernels for Blackwell's tensor cores in which one agent does all: it fills shared memory, multiplies in pieces, changes
accumulators in registers in between, multiplies what it took out with a further operand, or says `px.dot`.

Lines are drawn one after the other, and NumPy does at once what each of them does.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from fuzz.choreo_parts import indented
from fuzz.tensor_plan import MOST_BYTES, MOST_COLUMNS, MOST_WORK
from fuzz.tensor_values import NUMPY, PLAIN, Types, numbers, rounded, wide

SECOND = ("bf16", "f16")
"""Types of a second product, whose first operand is the first one's result."""


@dataclass
class Alone:
    """What is drawn, and the lines that are written from it."""

    rng: random.Random
    data: np.random.Generator
    types: Types
    m: int
    n: int
    bk: int
    steps: int
    warps: int
    ta: bool = False
    tb: bool = False
    tensor: bool = False
    by_tma: bool = True
    arguments: dict[str, np.ndarray] = field(default_factory=dict)
    features: list[str] = field(default_factory=list)
    ring: int = 0
    """Stages, where another role fills them."""

    def __post_init__(self) -> None:
        k, most = self.bk * self.steps, 1 if self.types.acc == "f16" else 3
        a, b = numbers(self.data, (self.m, k), self.types.a, most), numbers(self.data, (self.n, k), self.types.b, most)
        self.arguments["A"] = np.ascontiguousarray(a.T if self.ta else a)
        self.arguments["B"] = np.ascontiguousarray(b.T if self.tb else b)
        self.a, self.b = wide(a, None, 0), wide(b, None, 0)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def note(self, feature: str) -> bool:
        self.features.append(feature)
        return True

    # Operands.

    @property
    def shapes(self) -> tuple[str, str]:
        return (
            f"{self.bk}, {self.m}" if self.ta else f"{self.m}, {self.bk}",
            f"{self.bk}, {self.n}" if self.tb else f"{self.n}, {self.bk}",
        )

    def declared(self) -> list[str]:
        a, b = self.shapes
        if self.ring:
            shapes = zip("ab", (a, b), (self.types.a, self.types.b), strict=True)
            return [f"{name} = px.shared(({self.ring}, {shape}), px.{dtype})" for name, shape, dtype in shapes]
        lines = [] if self.tensor else [f"a = px.shared(({a}), px.{self.types.a})"]
        lines.append(f"b = px.shared(({b}), px.{self.types.b})")
        return [*lines, "full = px.barrier()"] if self.by_tma else lines

    def fill(self, k: str) -> list[str]:
        """The operands of step `k`, a number or a name, in shared memory."""
        depth = f"{k} * {self.bk} : {k} * {self.bk} + {self.bk}"
        regions = [("B", "b", f"{depth}, 0:{self.n}" if self.tb else f"0:{self.n}, {depth}")]
        if not self.tensor:
            regions.append(("A", "a", f"{depth}, 0:{self.m}" if self.ta else f"0:{self.m}, {depth}"))
        if self.by_tma:
            copies = [f"px.tma.load({array}[{region}], {buffer}, full)" for array, buffer, region in regions]
            return ["with full.transaction():", *indented(copies), f"full.wait({k} % 2)"]
        return [f"px.store({buffer}, px.load({array}[{region}]))" for array, buffer, region in regions]

    def text(self, title: str, body: list[str]) -> str:
        names = ", ".join(self.arguments)
        head = [f'"""{title}"""', "", "import phalanx as px", "", "", f"@px.kernel(warps={self.warps + bool(self.ring)})"]
        return "\n".join([*head, f"def program({names}):", *indented([*self.declared(), *body])]) + "\n"

    # One agent and px.tcgen05.

    def written(self) -> tuple[list[str], np.ndarray]:
        """The body of a kernel with `px.tcgen05`, and what is left in C."""
        lines = [f"acc = px.tmem(({self.m}, {self.n}), px.{self.types.acc})", "done = px.barrier()"]
        if self.tensor:
            lines.append(f"left = px.tmem(({self.m}, {self.bk}), px.{self.types.a})")
        stored = self.chance(0.4)
        value = np.zeros((self.m, self.n))
        if stored:
            self.note("tcgen05.store")
            self.arguments["D"] = numbers(self.data, (self.m, self.n), self.types.acc, 4)
            value = value + self.arguments["D"].astype(np.float64)
            lines += self.in_parts("px.tcgen05.store(acc{view}, px.load(D[0:{m}, {columns}]))")
        unrolled = self.chance(0.3)
        pieces = self.pieces()
        step = self.fill("k")
        if self.tensor:
            self.note("a in tensor memory")
            step.append(f"px.tcgen05.store(left, px.load(A[0:{self.m}, k * {self.bk} : k * {self.bk} + {self.bk}]))")
        if not self.by_tma:
            step.append("px.fence.async_proxy()")
        step += [self.product(piece, stored) for piece in pieces]
        step += ["px.tcgen05.commit(done)", "done.wait(k % 2)"]
        each = np.zeros_like(value)
        self.features.append(self.types.text)
        for (n0, n1), (k0, k1), sign in pieces:
            for begin in range(0, self.bk * self.steps, self.bk):
                each[:, n0:n1] += sign * self.a[:, begin + k0 : begin + k1] @ self.b[n0:n1, begin + k0 : begin + k1].T
        value = value + each
        lines += self.loop(step, unrolled)
        if self.chance(0.3):
            self.note("changed in registers")
            lines += self.in_parts("px.tcgen05.store(acc{view}, px.tcgen05.load(acc{view}) * 2)")
            value = value * 2
        if self.types.acc == "f32" and self.n % 16 == 0 and self.chance(0.35):
            return self.second(lines, value)
        self.arguments["C"] = np.zeros((self.m, self.n), NUMPY[self.types.acc])
        lines += self.in_parts("px.store(C[0:{m}, {columns}], px.tcgen05.load(acc{view}))")
        return lines, rounded(value, self.types.acc)

    def loop(self, step: list[str], unrolled: bool) -> list[str]:
        """The steps one after the other: unrolled, in a loop, or in one that is left by a break or goes on early."""
        way = self.rng.choice(("", "", "break", "continue", "while"))
        if unrolled or not way:
            return [f"for k in {'px.static_range' if unrolled else 'range'}({self.steps}):", *indented(step)]
        self.note(f"{way} around products")
        if way == "break":
            body = [*step, f"if k == {self.steps - 1}:", "    break"]
            return [f"for k in range({self.steps + 2}):", *indented(body)]
        if way == "continue":
            body = [f"if k >= {self.steps}:", "    continue", *step]
            return [f"for k in range({self.steps + 2}):", *indented(body)]
        return ["k = 0", f"while k < {self.steps}:", *indented([*step, "k += 1"])]

    def in_parts(self, line: str) -> list[str]:
        """A line for all columns, or for some at a time, perhaps the last of them on a way of its own."""
        whole = [n for n in range(8, self.n + 1, 8) if self.n % n == 0 and self.n // n <= 4]
        part = self.rng.choice(whole)
        if part == self.n:
            return [line.format(view="", columns=f"0:{self.n}", m=self.m)]
        columns = f"part * {part} : part * {part} + {part}"
        loop = self.rng.choice(("range", "px.static_range"))
        body = [line.format(view=f"[:, {columns}]", columns=columns, m=self.m)]
        if loop == "range" and self.chance(0.4):
            way = self.rng.choice(("break", "continue"))
            self.note(f"{way} behind a part")
            body = [f"if part == {self.n // part - 1}:", *indented([*body, way]), *body]
        return [f"for part in {loop}({self.n // part}):", *indented(body)]

    def pieces(self) -> list[tuple[tuple[int, int], tuple[int, int], int]]:
        """Which columns, depths and signs the products of a step have, in their order."""
        columns, depths = [(0, self.n)], [(0, self.bk)]
        if self.n % 64 == 0 and self.chance(0.3):
            self.note("columns in pieces")
            columns = [(0, self.n // 2), (self.n // 2, self.n)]
        if self.bk >= 2 * self.types.k and not self.tensor and self.chance(0.3):
            self.note("depths in pieces")
            cut = self.types.k * self.rng.randint(1, self.bk // self.types.k - 1)
            depths = [(0, cut), (cut, self.bk)]
        pieces = [(c, d, self.sign()) for c in columns for d in depths]
        if self.chance(0.2):
            pieces.append((*self.rng.choice(pieces)[:2], self.sign()))
        self.rng.shuffle(pieces)
        return pieces

    def sign(self) -> int:
        return -1 if not self.types.integer and self.chance(0.25) and self.note("negate") else 1

    def product(self, piece: tuple[tuple[int, int], tuple[int, int], int], stored: bool) -> str:
        (n0, n1), (k0, k1), sign = piece
        a, b, acc = "left" if self.tensor else "a.T" if self.ta else "a", "b" if self.tb else "b.T", "acc"
        if (n0, n1) != (0, self.n):
            acc = f"acc[:, {n0}:{n1}]"
        if (n0, n1, k0, k1) != (0, self.n, 0, self.bk):
            b = f"b[{k0}:{k1}, {n0}:{n1}]" if self.tb else f"b[{n0}:{n1}, {k0}:{k1}].T"
        if (k0, k1) != (0, self.bk):
            a = f"a[{k0}:{k1}, :].T" if self.ta else f"a[:, {k0}:{k1}]"
        begun = stored or (n0, n1) in self.seen
        self.seen.add((n0, n1))
        end = (", negate=True" if sign < 0 else "") + ("" if begun else ", accumulate=k > 0")
        return f"px.tcgen05.mma({a}, {b}, {acc}{end})"

    @property
    def seen(self) -> set[tuple[int, int]]:
        return self.__dict__.setdefault("_seen", set())

    def second(self, lines: list[str], value: np.ndarray) -> tuple[list[str], np.ndarray]:
        """The result times a further operand, from the columns where it was."""
        dtype, columns = self.rng.choice(SECOND), 16 * self.rng.randint(1, 4)
        turned, reuse = self.chance(0.5), self.chance(0.7)
        v = numbers(self.data, (columns, self.n), dtype)
        self.arguments["V"] = np.ascontiguousarray(v.T if turned else v)
        self.arguments["C"] = np.zeros((self.m, columns), np.float32)
        shape = f"{self.n}, {columns}" if turned else f"{columns}, {self.n}"
        self.note("reuse=" if reuse else "a second product")
        lines = [
            *lines, f"p = px.tmem(({self.m}, {self.n}), px.{dtype}{', reuse=acc' if reuse else ''})",
            f"last = px.tmem(({self.m}, {columns}), px.f32)", f"v, over = px.shared(({shape}), px.{dtype}), px.barrier()",
            f"px.store(v, px.load(V[{', '.join('0:' + size for size in shape.split(', '))}]))",
            f"tile = px.tcgen05.load(acc).to(px.{dtype})", "px.tcgen05.store(p, tile)", "px.fence.async_proxy()",
            f"px.tcgen05.mma(p, {'v' if turned else 'v.T'}, last, accumulate=False)", "px.tcgen05.commit(over)",
            "over.wait(0)", f"px.store(C[0:{self.m}, 0:{columns}], px.tcgen05.load(last))",
        ]  # fmt: skip
        middle = rounded(value, self.types.acc, dtype).astype(np.float64)
        return lines, rounded(middle @ v.astype(np.float64).T, "f32")

    # One agent and px.dot.

    def dotted(self) -> tuple[list[str], np.ndarray]:
        """The body of a kernel with `px.dot`, and what is left in C."""
        self.note("px.dot")
        value = np.zeros((self.m, self.n))
        lines = [f"acc = px.zeros(({self.m}, {self.n}), px.{self.types.acc})"]
        if self.chance(0.3):
            self.note("px.dot, begun")
            self.arguments["D"] = numbers(self.data, (self.m, self.n), self.types.acc, 4)
            value = value + self.arguments["D"].astype(np.float64)
            lines = [f"acc = px.load(D[0:{self.m}, 0:{self.n}])"]
        if self.chance(0.35):
            return self.dotted_in_a_ring(lines, value)
        times = self.rng.choice((1, 1, 2))
        change, when = self.chance(0.25), self.rng.randint(0, self.steps)
        step = self.fill("k")
        if not self.by_tma and self.chance(0.5):
            step.append("px.fence.async_proxy()")
        step += [self.dot("a", "b")] * times
        skip = self.steps > 1 and self.chance(0.2)
        if skip:
            self.note("px.dot, sometimes")
            step = [*step[:-times], "if k != 1:", *indented(step[-times:])]
        if change:
            self.note("px.dot, changed")
            step += [f"if k == {when}:", "    acc = acc + acc"]
        for k in range(self.steps):
            if not (skip and k == 1):
                value = value + times * self.product_of(k)
            if change and k == when:
                value = value * 2
        lines += [f"for k in range({self.steps}):", *indented(step)]
        return self.finished(lines), rounded(value, self.types.acc)

    def finished(self, lines: list[str]) -> list[str]:
        self.arguments["C"] = np.zeros((self.m, self.n), NUMPY[self.types.acc])
        return [*lines, f"px.store(C[0:{self.m}, 0:{self.n}], acc)"]

    def dot(self, a: str, b: str) -> str:
        return f"acc = px.dot({a}{'.T' * self.ta}, {b}{'.T' * (not self.tb)}, acc)"

    def product_of(self, k: int) -> np.ndarray:
        part = slice(k * self.bk, k * self.bk + self.bk)
        return np.asarray(self.a[:, part] @ self.b[:, part].T)

    def dotted_in_a_ring(self, lines: list[str], value: np.ndarray) -> tuple[list[str], np.ndarray]:
        """A role fills the stages of a ring, the agent multiplies and gives them back."""
        self.note("px.dot in a ring")
        stages, piped, turns = self.rng.randint(1, 3), self.chance(0.5), self.rng.choice((1, 1, 2))
        self.ring = stages
        bar = "pipe.full[s]" if piped else "full[s]"
        depth = f"k * {self.bk} : k * {self.bk} + {self.bk}"
        regions = [
            ("A", f"{depth}, 0:{self.m}" if self.ta else f"0:{self.m}, {depth}"),
            ("B", f"{depth}, 0:{self.n}" if self.tb else f"0:{self.n}, {depth}"),
        ]  # fmt: skip
        copies = [f"px.tma.load({name}[{region}], {name.lower()}[s], {bar})" for name, region in regions]
        product = self.dot("a[s]", "b[s]")
        if piped:
            declared, begin = [f"pipe = px.pipe({stages})"], []
            fill = ["with pipe.produce() as s:", *indented(copies)]
            use = ["with pipe.consume() as s:", *indented([product])]
        else:
            declared = [f"full, empty = px.barrier({stages}), px.barrier({stages})"]
            begin = [f"ring = px.ring({stages})"]
            fill = [
                "s = ring.stage", "empty[s].wait(ring.parity ^ 1)", "with full[s].transaction():", *indented(copies),
                "ring.advance()",
            ]  # fmt: skip
            use = ["s = ring.stage", "full[s].wait(ring.parity)", product, "empty[s].arrive()", "ring.advance()"]
        loop = [f"for i in range({turns}):", f"    for k in range({self.steps}):"]
        consumer = [*begin, *lines, *loop, *indented(use, 2)]
        for k in range(self.steps):
            value = value + turns * self.product_of(k)
        body = [
            *declared, f"with px.warps({self.warps}, 1):", *indented([*begin, *loop, *indented(fill, 2)]),
            f"with px.warps(0, {self.warps}):", *indented(self.finished(consumer)),
        ]  # fmt: skip
        return body, rounded(value, self.types.acc)


def drawn(rng: random.Random, data: np.random.Generator) -> Alone | None:
    """A plan, or None where what was drawn does not fit."""
    types = rng.choice(PLAIN)
    m = rng.choice((64, 128, 128, 256))
    n = (16 if types.integer else 8) * rng.choice((1, 2, 3, 4, 5, 6, 8, 8, 12, 16, 16, 24, 34, 40))
    bk, steps = types.k * rng.choice((1, 2, 2, 3, 4)), rng.randint(1, 4)
    turns = types.bits in (8, 16, 32)
    ta, tb = (turns and rng.random() < 0.3 for _ in "ab")
    tensor = not ta and rng.random() < 0.25
    warps, by_tma = rng.choice((4, 4, 8, 16)), rng.random() < 0.6
    blocks = -(-m // 128)
    if blocks * (n + 64 + tensor * bk * types.bits // 32) > MOST_COLUMNS or m * n * bk * steps > MOST_WORK:
        return None
    if (m + n) * bk * types.bits // 8 + n * 128 > MOST_BYTES:
        return None
    return Alone(rng, data, types, m, n, bk, steps, warps, ta, tb, tensor, by_tma)
