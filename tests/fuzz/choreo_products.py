"""Products of tiles: wgmma with groups in flight, and `px.dot` of random shapes, types and majors."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fuzz.choreo_parts import TYPES, Draft, Flow, Type, indented
from fuzz.choreo_rings import Ring

OPERANDS = (
    ("bf16", "bf16", "f32"), ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("f32", "f32", "f32"),
    ("f8e4m3", "f8e4m3", "f32"), ("f8e4m3", "f8e5m2", "f32"), ("f8e5m2", "f8e4m3", "f16"),
    ("i8", "i8", "i32"), ("u8", "i8", "i32"), ("u8", "u8", "i32"), ("i8", "u8", "i32"),
)  # fmt: skip


@dataclass
class Product:
    """A (M, K) times a (K, N) for each step, summed over the steps of a tile."""

    draft: Draft
    m: int
    n: int
    k: int
    left: Type
    right: Type
    sums: Type
    a_by_m: bool
    b_by_n: bool
    parts: int
    how: str
    """"wgmma" with a lag of one group, "wgmma at once", or "dot"."""
    negate: bool
    a_in_registers: bool
    b_in_registers: bool
    along: str
    pieces: int = 1
    """Into how many products along K a step is cut."""
    lag: int = 1
    """How many groups stay in flight behind the newest."""
    extra: random.Random = field(default_factory=lambda: random.Random(0))
    """What is drawn from it changes nothing of the rest of the kernel."""
    computed: str = "{}"
    """The left operand in registers, by the text of what was loaded."""
    change: Callable[[np.ndarray], np.ndarray] = lambda x: x
    promoted: bool = False
    """Whether the sum of each step is added to the whole by the threads."""
    ahead: bool = False
    """Whether a step's left operand is computed while the product before runs, whose stage is released behind it."""

    @property
    def a_shape(self) -> tuple[int, int]:
        return (self.k, self.m) if self.a_by_m else (self.m, self.k)

    @property
    def b_shape(self) -> tuple[int, int]:
        return (self.k, self.n) if self.b_by_n else (self.n, self.k)

    def flow(self, flows: list[Flow], steps: int) -> Flow:
        a, b = flows
        sign = -1 if self.negate else 1
        low, high = self.compute_left(a.low, a.high) if self.a_in_registers else (a.low, a.high)

        def at(t: int) -> list[np.ndarray]:
            found = []
            for rank in range(self.draft.cluster.size):
                total = np.zeros((self.m, self.n))
                for k in range(steps):
                    left, right = self.change(a.at(t * steps + k)[rank]), b.at(t * steps + k)[rank]
                    total += (left.T if self.a_by_m else left) @ (right if self.b_by_n else right.T)
                found.append(sign * total + 0.0)
            return found

        most = max(abs(low), abs(high)) * max(abs(b.low), abs(b.high)) * self.k * steps
        return Flow((self.m, self.n), self.sums.computed, -most, most, at)

    def compute_left(self, low: int, high: int) -> tuple[int, int]:
        """Draws what is done with the left operand in registers; the interval of the result."""
        rng, work = self.extra, self.left.computed
        dot = ".0" if work.floating else ""
        how = rng.choice(("loaded", "affine", "affine", "masked", "round trip"))
        if how == "affine":
            a, b = rng.choice((-1, 1, 2)), rng.randrange(3)
            ends = sorted((low * a + b, high * a + b))
            if not self.left.holds(*ends):
                return low, high
            self.computed = f"({{}}.to({work.px}) * {a}{dot} + {b}{dot}).to({self.left.px})"
            self.change = lambda x: x * a + b
        elif how == "masked":
            ends = [min(low, 0), max(high, 0)]
            loaded = f"{{}}.to({work.px})"
            self.computed = f"px.where({loaded} > 0{dot}, {loaded}, 0{dot}).to({self.left.px})"
            self.change = lambda x: np.where(x > 0, x, 0)
        else:
            ends = [low, high]
            self.computed = f"{{}}.to({work.px}).to({self.left.px})" if how == "round trip" else "{}"
        self.draft.note(f"operand {how}")
        return ends[0], ends[1]

    def operands(self, ring: Ring, stage: str, part: int, piece: int = 0, pieces: int = 1) -> tuple[str, str]:
        """The texts of both factors: the rows of a part, and of the piece along K."""
        a, b = (f"{name}[{stage}]" for name in ring.buffers)
        rows, depth = self.m // self.parts, self.k // pieces
        along_m = f"{part * rows}:{part * rows + rows}" if self.parts > 1 else ":"
        along_k = f"{piece * depth}:{piece * depth + depth}" if pieces > 1 else ":"
        if self.parts > 1 or pieces > 1:
            a += f"[{along_k}, {along_m}]" if self.a_by_m else f"[{along_m}, {along_k}]"
        if pieces > 1:
            b += f"[{along_k}]" if self.b_by_n else f"[:, {along_k}]"
        left, right = a + (".T" if self.a_by_m else ""), b + ("" if self.b_by_n else ".T")
        return (
            self.computed.format(*[f"px.load({left})"] * 2) if self.a_in_registers else left,
            f"px.load({right})" if self.b_in_registers else right,
        )

    def lines(self, ring: Ring, steps: int, part: int, feed: list[str] | None) -> list[str]:
        """From the first step of a tile to `y`; with `feed` each stage is filled first by the same agent."""
        fed = feed or []
        shape = (self.m // self.parts, self.n)
        acc = "acc" if self.sums.name in ("f32", "i32") else "acc.to(px.f32)"
        along = ', along="n"' if self.along == "n" else ""
        if self.how == "dot":
            def dot(stage: str) -> list[str]:
                a, b = self.operands(ring, stage, part)
                return [f"acc = px.dot({a}, {b}, acc{along})"]

            return [
                f"acc = px.zeros({shape}, {self.sums.px})",
                *self.repeated(steps, [*fed, *ring.consume(dot)]), f"y = {acc}",
            ]  # fmt: skip
        negate = ", negate=True" if self.negate else ""
        empty = self.draft.chance(0.5)
        start = f"acc = px.{'empty' if empty else 'zeros'}({shape}, {self.sums.px})"
        kept = ("False" if steps == 1 else "k > 0") if empty else "True"

        def wgmma(stage: str) -> list[str]:
            lines = []
            for piece in range(self.pieces):
                a, b = self.operands(ring, stage, part, piece, self.pieces)
                lines.append(f"px.wgmma({a}, {b}, acc, accumulate={kept if piece == 0 else True}{negate}{along})")
            return [*lines, "px.wgmma_commit()"]

        if self.ahead and not feed and steps > 1 and ring.style == "pipe by hand":
            return self.computed_ahead(ring, steps, start, kept, f"{negate}{along}", acc)
        if self.promoted and (self.how == "wgmma at once" or ring.is_pipe):
            return self.added_up(ring, steps, shape, wgmma, fed)
        if self.how == "wgmma at once" or ring.is_pipe:
            done = "px.wgmma_wait(0)  # needed: before the stage is released"
            body = [*fed, *ring.consume(lambda stage: [*wgmma(stage), done])]
            return [start, *self.repeated(steps, body), f"y = {acc}"]
        stage = ring.stage("take")
        if self.ahead and not feed and steps > 1:
            return self.computed_ahead(ring, steps, start, kept, f"{negate}{along}", acc)
        if self.lag > 1 and steps > self.lag:
            return self.lagging(ring, steps, start, fed, wgmma, acc)
        body = [
            *fed, *ring.acquire(), *wgmma(stage), "px.wgmma_wait(1)",
            "if k > 0:", *indented(ring.release("last")), f"last = {stage}", *ring.advance("take"),
        ]  # fmt: skip
        if steps == 1:
            body = [*fed, *ring.acquire(), *wgmma(stage), f"last = {stage}", *ring.advance("take")]
        return [
            start, "last = 0", *self.repeated(steps, body),
            "px.wgmma_wait(0)  # needed: before the stage is released", *ring.release("last", steps - 1), f"y = {acc}",
        ]  # fmt: skip

    def lagging(self, ring: Ring, steps: int, start: str, fed: list[str], wgmma: Callable, acc: str) -> list[str]:
        """With several groups in flight: a place of its own in the ring says which stage is released next."""
        self.draft.note("several groups in flight")
        n, stages = ring.number, ring.stages
        done = f"done{n}.stage" if ring.style == "ring" else f"done{n} % {stages}"
        move = f"done{n}.advance()" if ring.style == "ring" else f"done{n} += 1"
        body = [
            *fed, *ring.acquire(), *wgmma(ring.stage("take")), f"px.wgmma_wait({self.lag})",
            f"if k >= {self.lag}:", *indented([*ring.release(done), move]), *ring.advance("take"),
        ]  # fmt: skip
        last = [line for i in range(self.lag) for line in (*ring.release(done, steps - self.lag + i), move)]
        return [
            start, *self.repeated(steps, body), "px.wgmma_wait(0)  # needed: before the stage is released", *last,
            f"y = {acc}",
        ]  # fmt: skip

    def added_up(
        self, ring: Ring, steps: int, shape: tuple[int, int], wgmma: Callable[[str], list[str]], fed: list[str]
    ) -> list[str]:
        """Each step has a sum of its own."""
        self.draft.note("promoted")
        work = self.sums.computed

        def one(stage: str) -> list[str]:
            lines = [line.replace(", acc, accumulate=", ", part, accumulate=") for line in wgmma(stage)]
            first = lines[0].partition(", accumulate=")
            lines[0] = f"{first[0]}, accumulate=False{first[2][first[2].index(',') :] if ',' in first[2] else ')'}"
            return [
                *lines, "px.wgmma_wait(0)  # needed: before the stage is released", f"acc = acc + part.to({work.px})"
            ]

        return [
            f"acc = px.zeros({shape}, {work.px})", f"part = px.zeros({shape}, {self.sums.px})",
            *self.repeated(steps, [*fed, *ring.consume(one)]), "y = acc",
        ]  # fmt: skip

    def computed_ahead(self, ring: Ring, steps: int, start: str, kept: str, more: str, acc: str) -> list[str]:
        """A step's left operand is computed under the product of the step before, whose stage is released behind it."""
        self.draft.note("computed under a product")
        stage = ring.stage("take")
        made, products = [], []
        for piece in range(self.pieces):
            a, b = self.operands(ring, stage, 0, piece, self.pieces)
            made.append(f"left{piece} = {a}")
            products.append(f"px.wgmma(left{piece}, {b}, acc, accumulate={kept if piece == 0 else True}{more})")
        products.append("px.wgmma_commit()")
        if ring.is_pipe:
            release, taken, moved = [f"pipe{ring.number}.release()"], [f"{stage} = pipe{ring.number}.wait()"], []
            last = release
        else:
            release, taken = ring.release("last"), ring.acquire()
            moved, last = [f"last = {stage}", *ring.advance("take")], ring.release("last", steps - 1)
        body = [*taken, *made, "px.wgmma_wait(0)", "if k > 0:", *indented(release), *products, *moved]
        return [
            start, "last = 0", *self.repeated(steps, body),
            "px.wgmma_wait(0)  # needed: before the stage is released", *last, f"y = {acc}",
        ]  # fmt: skip

    def declared(self, ring: Ring) -> list[str]:
        """The place in the ring of the stage that is released next."""
        return [f"done{ring.number} = px.ring({ring.stages})" if ring.style == "ring" else f"done{ring.number} = 0"]

    def repeated(self, steps: int, body: list[str]) -> list[str]:
        return body if steps == 1 else [f"for k in range({steps}):", *indented(body)]


def product(draft: Draft, parts: int, warps: int, *, tensor: bool) -> Product:
    """A random product for `parts` agents of `warps` warps each; `tensor`: by wgmma."""
    rng = draft.rng
    left, right, sums = (TYPES[name] for name in rng.choice(OPERANDS))
    narrow = left.nbytes == 2
    a_by_m, b_by_n = narrow and rng.random() < 0.3, narrow and rng.random() < 0.3
    if not tensor:
        draft.note("mma")
        a_by_m, b_by_n = rng.random() < 0.3, rng.random() < 0.3
        wide = 16 // left.nbytes
        k = wide * rng.choice((1, 2, 3, 4, 8))
        m, n = 16 * rng.choice((1, 1, 2, 3)) * parts, 8 * rng.choice((1, 2, 3, 4, 5))
        if a_by_m:
            m = -(-m // (wide * parts)) * wide * parts
            m = m if m // parts % 16 == 0 else 16 * wide * parts // 8
        if b_by_n:
            n = -(-n // wide) * wide
        made = Product(draft, m, n, k, left, right, sums, a_by_m, b_by_n, parts, "dot", False,
                       rng.random() < 0.3, rng.random() < 0.3, "m")  # fmt: skip
        made.extra = random.Random(repr(rng.getstate()))
        return made
    draft.note("wgmma")
    k = 32 // left.nbytes * rng.choice((1, 1, 2, 2, 3, 4))
    n = rng.choice((8, 16, 24, 32, 48, 64, 96, 128))
    if b_by_n:
        n = -(-n // 16) * 16
    along = "m"
    m = 64 * (warps // 4) * parts
    if warps > 4 and parts == 1 and draft.chance(0.3):
        along, m, n = "n", 64, rng.choice((16, 32, 64, 128))
    how = rng.choice(("wgmma", "wgmma", "wgmma at once", "dot"))
    negate = how != "dot" and sums.floating and rng.random() < 0.25
    pieces = rng.choice([p for p in (1, 2, 3, 4) if k * left.nbytes % (32 * p) == 0])
    made = Product(draft, m, n, k, left, right, sums, a_by_m, b_by_n, parts, how, negate, rng.random() < 0.2, False, along,
                   pieces, rng.choice((1, 1, 2, 3)))  # fmt: skip
    made.extra = random.Random(repr(rng.getstate()))
    made.a_in_registers |= how != "dot" and not a_by_m and made.extra.random() < 0.3
    made.promoted = made.extra.random() < 0.3
    made.ahead = made.a_in_registers and parts == 1 and made.extra.random() < 0.6
    return made
