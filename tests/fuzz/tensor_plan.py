"""What is drawn for a kernel with roles on Blackwell's tensor cores, and the arrays that it works on."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from fuzz.tensor_values import (
    BITS,
    NUMPY,
    PADDED,
    PADDED_COLUMNS,
    PLAIN,
    SCALED,
    Types,
    blocked,
    numbers,
    rounded,
    scales,
    wide,
)

MOST_COLUMNS = 512
MOST_BYTES = 200_000
MOST_WORK = 1 << 22
"""Products of two numbers in one launch, so that a case takes a second or so."""


@dataclass
class Plan:
    """The choices. A pair has `ctas` (1 or 2), a cluster `cm` by `cn` of them; an accumulator is `bm` by `bn`."""

    rng: random.Random
    types: Types
    ctas: int
    cm: int
    cn: int
    bm: int
    bn: int
    bk: int
    steps: int
    rows: int
    """Tiles of C in units of clusters: `rows` by `columns`."""
    columns: int
    clusters: int
    ta: bool = False
    tb: bool = False
    tensor: str = ""
    """A comes from tensor memory: "stored" there by a role, or "copied" from shared memory by the tensor cores."""
    stages: int = 2
    accs: int = 1
    scale_stages: int = 1
    pipe: bool = True
    acc_pipe: bool = True
    counted: bool = False
    """Places in rings are counted, instead of `px.ring`."""
    led: bool = False
    """One CTA fetches all that several need, instead of a share for each."""
    early: bool = False
    """An accumulator is given back right behind the last load from it."""
    loop: str = "one"
    begin: str = "condition"
    """How sums begin: with a run-time condition, a peeled product, or what the epilogue stored before."""
    negate: bool = False
    twice: bool = False
    """A second product of every stage, with its own sign."""
    epilogue: str = "4"
    """Four warps, eight, two roles of two, four of one, or two roles of four with an accumulator each."""
    part: int = 0
    out: str = "store"
    to: str = "f32"
    ragged: tuple[int, int, int] = (0, 0, 0)
    """Rows, columns and depth that the last tiles lack."""
    features: list[str] = field(default_factory=list)

    @property
    def cluster(self) -> int:
        return self.ctas * self.cm * self.cn

    @property
    def scaled(self) -> bool:
        return self.types.scale is not None

    @property
    def count(self) -> int:
        """Scales of a row and step."""
        return self.bk // self.types.block if self.scaled else 0

    @property
    def high(self) -> int:
        """Rows of A that a CTA fetches of those it needs."""
        return self.bm // self.cn

    @property
    def wide(self) -> int:
        """Columns of B that it fetches of its half."""
        return self.bn // self.ctas // self.cm

    def size(self) -> tuple[int, int, int]:
        """M, N and K of the whole product."""
        m = self.rows * self.cm * self.ctas * self.bm - self.ragged[0]
        return m, self.columns * self.cn * self.bn - self.ragged[1], self.steps * self.bk - self.ragged[2]

    @property
    def work(self) -> int:
        m, n, k = self.size()
        return m * n * k * (1 + self.twice)

    @property
    def tensor_columns(self) -> int:
        columns = self.accs * self.bn * -(-self.bm // 128)
        if self.tensor:
            columns += self.stages * self.bk * self.types.bits // 32 * -(-self.bm // 128)
        if self.scaled:
            blocks = -(-self.bm // 128) + -(-self.bn // 128)
            columns += self.scale_stages * blocks * -(-self.count // 4) * 4
        return columns

    @property
    def shared_bytes(self) -> int:
        one = (self.bm * (self.tensor != "stored") + self.bn // self.ctas) * self.bk * self.types.bits // 8
        out = 2 * self.bm * self.part * NUMPY_BYTES[self.to] if self.out == "tma" else 0
        blocks = (-(-self.bm // 128) + -(-self.bn // 128)) * -(-self.count // 4)
        return self.stages * (one + self.scaled * blocks * 512) + out

    @property
    def factor(self) -> int:
        """How often the product is in the result."""
        return (-1 if self.negate else 1) * (1 if not self.twice else 2)

    def arrays(self, rng: np.random.Generator) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The arguments in their order, and what C must hold."""
        m, n, k = self.size()
        most = 1 if self.types.acc == "f16" else 2 if self.types.a == "f4e2m1" else 3
        a, b = numbers(rng, (m, k), self.types.a, most), numbers(rng, (n, k), self.types.b, most)
        arguments = {
            "A": np.ascontiguousarray(a.T if self.ta else a), "B": np.ascontiguousarray(b.T if self.tb else b),
        }  # fmt: skip
        scale = [None, None]
        if self.types.scale is not None:
            counts = self.steps * self.count
            scale = [scales(rng, (rows, counts), self.types.scale) for rows in (m, n)]
            arguments["SFA"] = blocked(scale[0], self.bm, self.count)
            arguments["SFB"] = blocked(scale[1], self.bn, self.count)
        result = self.factor * (wide(a, scale[0], self.types.block) @ wide(b, scale[1], self.types.block).T)
        if self.begin == "stored":
            arguments["D"] = numbers(rng, (m, n), self.types.acc, 4)
            result = result + arguments["D"].astype(np.float64)
        arguments["C"] = np.zeros((m, n), NUMPY[self.to])
        return arguments, {"C": rounded(result, self.types.acc, self.to)}


NUMPY_BYTES = {name: np.dtype(numpy).itemsize for name, numpy in NUMPY.items()}


def drawn(rng: random.Random) -> Plan | None:
    """A plan, or None where what was drawn does not fit together."""
    way = rng.random()
    types = rng.choice(PADDED if way < 0.2 else SCALED if way < 0.5 else PLAIN)
    ctas = rng.choice((1, 1, 2))
    cm, cn = rng.choice(((1, 1),) * 4 + ((1, 2), (2, 1), (2, 2) if ctas == 1 else (1, 2)))
    scaled = types.scale is not None
    bm = rng.choice((128, 128, 128, 256) if scaled else (64, 128, 128, 128, 256))
    step = (16 if ctas == 2 else 8) * (2 if types.integer else 1)
    bn = step * rng.choice((*range(1, 9), 12, 16, 20, 24, 32, 40, 48))
    if types.integer and ctas == 1 and rng.random() < 0.2:
        bn = rng.choice((8, 24))
    bk = types.k * rng.choice((1, 1, 2, 2, 3, 4, 5, 8))
    rows, columns = rng.choice(((1, 1), (1, 1), (2, 1), (1, 2), (1, 3), (2, 2), (3, 1), (5, 1)))
    loop = rng.choice(("one", "one", "persistent", "clc"))
    clusters = rng.randint(1, rows * columns) if loop == "persistent" else rows * columns
    steps = rng.randint(1, 5)
    if types.padded:  # steps are deep: fewer of them, and smaller tiles
        bm, bn, bk = min(bm, 128), min(bn, step * rng.choice((4, 4, 8, 16))), PADDED_COLUMNS * rng.choice((1, 1, 1, 2))
        steps, rows, columns = rng.randint(1, 3), 1, min(columns, 2)
        clusters = min(clusters, rows * columns) if loop == "persistent" else rows * columns
    plan = Plan(rng, types, ctas, cm, cn, bm, bn, bk, steps, rows, columns, clusters, loop=loop)
    if plan.bn % (ctas * cm) or 32 % (ctas * cm):
        return None
    turns = not scaled and types.bits in (8, 16, 32)
    plan.ta, plan.tb = (turns and rng.random() < 0.3 for _ in "ab")
    if types.padded:
        plan.ta = plan.ta and (not types.has_room(types.a) or plan.high % PADDED_COLUMNS == 0)
        plan.tb = plan.tb and (not types.has_room(types.b) or plan.wide % PADDED_COLUMNS == 0)
    if not scaled and cn == 1 and rng.random() < 0.25:
        plan.tensor, plan.ta = rng.choice(("stored", "copied")), False
    if (types.padded or scaled) and cn == 1 and rng.random() < (0.4 if types.padded else 0.15):
        plan.tensor, plan.ta = "copied", False
    if plan.tensor == "stored" and BITS[types.a] < 8:
        plan.tensor = "copied"
    plan.stages, plan.accs = rng.randint(1, 4), rng.choice((1, 2))
    plan.scale_stages = rng.choice((1, plan.stages))
    plan.pipe, plan.acc_pipe, plan.counted = (rng.random() < 0.5 for _ in range(3))
    plan.begin = rng.choice(("condition", "condition", "peeled", "stored"))
    plan.negate, plan.twice = not types.integer and rng.random() < 0.2, rng.random() < 0.15
    plan.epilogue = rng.choice(("4", "4", "8", "2+2", "1+1+1+1", "4/4") if bm != 64 else ("4", "8", "4/4"))
    if plan.epilogue == "4/4":
        plan.accs, plan.acc_pipe = 2, False
    plan.part = rng.choice([n for n in range(8, plan.bn + 1, 8) if plan.bn % n == 0 and plan.bn // n <= 6])
    if plan.epilogue in ("4", "8") and rng.random() < 0.3:
        plan.out = "tma"
    plan.early, plan.led = rng.random() < 0.3 and bm <= 128, cm * cn > 1 and rng.random() < 0.3
    plan.to = "i32" if types.integer else rng.choice((types.acc, "bf16", "f16" if types.acc == "f16" else "f32"))
    if not scaled and not plan.tensor and not types.padded and rng.random() < 0.25:
        most = (bm - 1, bn - 1, bk - 1)
        plan.ragged = tuple(8 * rng.randint(0, n // 8) if rng.random() < 0.6 else 0 for n in most)  # type: ignore[assignment]
    most_work = MOST_WORK * (2 if types.padded else 1)
    fits = plan.tensor_columns <= MOST_COLUMNS and plan.shared_bytes <= MOST_BYTES and plan.work <= most_work
    if not fits:
        return None
    plan.features = features(plan)
    return plan


def features(plan: Plan) -> list[str]:
    """What a plan has, in words."""
    said = {
        "pairs": plan.ctas == 2, "multicast": plan.cm * plan.cn > 1, "multicast between pairs": plan.cluster == 4 and
        plan.ctas == 2, "A is M-major": plan.ta, "B is N-major": plan.tb, f"A {plan.tensor} into tensor memory": plan.tensor,
        "a pipe": plan.pipe, "barriers by hand": not plan.pipe, "a pipe of accumulators": plan.acc_pipe and plan.begin !=
        "stored", "two accumulators": plan.accs == 2, "negate": plan.negate, "twice": plan.twice, "led": plan.led,
        "early": plan.early, "parts": plan.part < plan.bn, "scales for each stage": plan.scaled and plan.scale_stages > 1,
        "ragged": any(plan.ragged), "padded": plan.types.padded, "padded with scales": plan.types.padded and plan.scaled,
        "padded A copied": plan.tensor == "copied" and plan.types.has_room(plan.types.a), "padded across K":
        (plan.ta and plan.types.has_room(plan.types.a)) or (plan.tb and plan.types.has_room(plan.types.b)),
    }  # fmt: skip
    return [
        plan.types.text, f"{plan.bm} rows", f"epilogue {plan.epilogue}", f"out {plan.out}", f"loop {plan.loop}",
        f"begin {plan.begin}", *(name for name, is_so in said.items() if is_so),
    ]  # fmt: skip
