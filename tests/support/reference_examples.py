"""The examples of the reference: the code behind "Example" in docstrings, and kernels around what kernels call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import dedent, indent

from phalanx.ir.types import ArrayType, bf16, f32, i32
from phalanx.tools.reference import sections

SHORT = re.compile(r"Example:\s+(``[^`]+``(?:(?:;| and)\s+``[^`]+``)*)")
LONG = re.compile(r"Examples?:\n\n((?: {4}.*\n|\n)+)")


@dataclass(frozen=True)
class Example:
    """An example of one entry: the page it is on, what is called, and the code."""

    page: str
    call: str
    code: str

    @property
    def name(self) -> str:
        """What is called, without its arguments."""
        return self.call.partition("(")[0]


def examples() -> Iterator[Example]:
    """All of them, in the order of the pages."""
    for section in sections():
        for entry in section.entries:
            text = re.sub(r"::$", ":", entry.text, flags=re.M) + "\n"
            pieces = [piece for found in SHORT.findall(text) for piece in re.findall(r"``([^`]+)``", found)]
            pieces += [dedent(found) for found in LONG.findall(text)]
            if pieces:
                yield Example(section.name, entry.call, "\n".join(map(closed, pieces)))


def closed(code: str) -> str:
    """Code that stops where readers go on has something there."""
    code = code.rstrip()
    if code.endswith(": ..."):
        return code.removesuffix("...") + "pass"
    return code + " pass" if code.endswith(":") else code


HEAD = """
import numpy as np
import phalanx as px


@px.func
def times(a, b):
    return a * b


@px.func
def step(a, b):
    return a[0] * b[0], b[0] * a[1] + b[1]


@px.kernel({options})
def example(A, B, C, X, Y, IDX, M, F, lock, turn, first):
    m, n = px.block_id(0) * 64, px.block_id(1) * 64
    rows = columns = tiles = steps = parts = BM = BN = STAGES = 4
    k = i = s = parity = peer = 0
    x = px.load(Y[m : m + 64, n : n + 64])
{before}
{code}
"""
ARRAYS = {
    "A": (2, bf16), "B": (2, bf16), "C": (2, f32), "X": (2, f32), "Y": (2, f32), "IDX": (1, i32), "M": (1, f32),
    "F": (1, f32), "lock": (1, i32), "turn": (1, i32), "first": (1, i32),
}  # fmt: skip
"""Axes and types of the kernel's arguments."""
OTHERS = {
    "px.atomic_add": {"C": (1, f32)}, "px.launch_dependents": {"X": (1, f32)}, "px.wait_prior": {"X": (1, f32)},
    "X.im2col": {"X": (4, f32)},
}
"""Arguments of single examples that differ."""
STAGE = "bar, s = px.barrier(), px.shared((64, 64), px.f32)"
STAGES = """
full, empty, r = px.barrier(4), px.barrier(4), px.ring(4)
a, b = px.shared((4, 64, 64), A.dtype), px.shared((4, 64, 64), B.dtype)
"""
FRESH = "b = px.barrier(init=False)"
EXCHANGE = "mine, inbox, full, landed = px.shared((64, 64), px.f32), px.shared((64, 64), px.f32), px.barrier(), px.barrier()"
OPERANDS = "As, Bs = px.shared((2, 128, 64), px.bf16), px.shared((2, 128, 64), px.bf16)"
LAUNCH_CONTROL = "full, ring, result = px.barrier(), px.ring(1), px.shared((4,), px.i32)"
TENSOR_MEMORY = OPERANDS + "\nacc, empty = px.tmem((128, 128), px.f32), px.barrier(2)"
FOUR = "bar, s, r0, r1, r2, r3 = px.barrier(), px.shared((4, 64), px.f32), 0, 1, 2, 3"
THIRTY_TWO = "bar, s = px.barrier(), px.shared((32, 64), px.f32)"
BEFORE = {
    # What stands before the examples of a page, or before one of them.
    "control": "K, acc = 64, px.zeros((64, 64), px.f32)", "memory": STAGE, "tma": STAGE, "barriers": STAGES,
    "clusters": EXCHANGE, "products": OPERANDS + "\nacc = px.zeros((128, 128), px.f32)",
    "tiles": "y = scale = bias = o = logits = decay = acc = x\nalpha = px.sum(x, axis=1)",
    "px.block_id": "BM = 64", "px.cdiv": "M, N = 128, 128", "px.persistent": "N, STARTS = 256, IDX",
    "px.launch_dependents": "", "px.wait_prior": "",
    "px.cp_async.commit": STAGES, "px.cp_async.load": STAGES, "px.tma.load": STAGES,
    "px.atomic_add": "done, x = px.counters(4), px.zeros((64,), px.f32)",
    "px.fence.barrier_init": FRESH, "bar.init": FRESH,
    "view.T": OPERANDS + "\nacc = px.zeros((128, 128), px.f32)", "view.at": "s = px.shared((64, 64), px.f32)",
    "view.within": "row, n, at, x = 1, 1000, 1000, px.zeros((1024,), px.f32)", "X.tile": "BM, BN = 64, 64",
    "X.im2col": "c = r = 0\ntile, bar = px.shared((64, 32), px.f32), px.barrier()",
    "px.tma.gather": THIRTY_TWO, "px.tma.scatter": THIRTY_TWO, "px.tma.gather4": FOUR, "px.tma.scatter4": FOUR,
    "px.pipe": "a, pipe = px.shared((4, 64, 64), A.dtype), px.pipe(4, producers=1, consumers=1)",
    "px.clc.query": LAUNCH_CONTROL, "px.clc.try_cancel": LAUNCH_CONTROL, "px.cluster.id": "step = px.cluster.count()",
    "px.cluster.sync": "s = px.shared((64, 64), px.f32)",
    "px.cluster.load": "full, a = px.barrier(4), px.shared((4, 128, 64), A.dtype)",
    "px.tcgen05.commit": TENSOR_MEMORY, "px.tcgen05.mma": TENSOR_MEMORY,
    "px.tcgen05.load": "acc = px.tmem((2, 128, 64), px.f32)",
    "px.tcgen05.copy": "sfa, scales = px.shared((2, 1, 1, 32, 4, 4), px.f8e8m0), px.tmem((128, 4), px.f8e8m0)",
    "px.tcgen05.store": "P, p, ready = px.tmem((128, 64), px.bf16), px.zeros((128, 64), px.f32), px.barrier()",
    "x.permute": "x = px.zeros((8, 8, 8), px.f32)",
}  # fmt: skip
OPTIONS = {
    "clusters": "warps=4, cluster=2", "bar.arrive": "warps=4, cluster=2", "view.at": "warps=4, cluster=2",
    "px.warps": "warps=12",
}  # fmt: skip


def kernel_of(example: Example) -> str:
    """A file with a kernel around the example."""
    options = OPTIONS.get(example.name, OPTIONS.get(example.page, "warps=4"))
    before = BEFORE.get(example.name, BEFORE[example.page])
    return HEAD.format(options=options, before=indent(before, " " * 4), code=indent(example.code, " " * 4))


def types_of(example: Example) -> tuple[ArrayType, ...]:
    """The types of its kernel's arguments."""
    return tuple(ArrayType(*each) for each in {**ARRAYS, **OTHERS.get(example.name, {})}.values())
