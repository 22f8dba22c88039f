"""What the compiler writes around tensor memory, left out of the prepared kernel: each is missed, and named."""

from __future__ import annotations

import dataclasses
import re

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.core import Block, rewrite
from sanitizer.leaving_out import called, findings_of, function_of, leave_out
from sanitizer.planted import line_of
from sanitizer.test_tcgen05_clean import CLEAN
from sanitizer.test_tcgen05_clean import A as CLEAN_A
from sanitizer.test_tcgen05_clean import B as CLEAN_B

A = (np.arange(64 * 48) % 7 - 3).reshape(64, 48).astype(ml_dtypes.bfloat16)
B = (np.arange(16 * 48) % 5 - 2).reshape(16, 48).astype(ml_dtypes.bfloat16)
C = np.zeros((64, 16), np.float32)
ARGS = (A, B, C)


@px.kernel(warps=6)
def accumulate_and_drain(A, B, C):
    """An accumulator goes from the tensor cores to an epilogue and back, three times."""
    a, b = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype)
    acc = px.tmem((64, 16), px.f32)  # declared
    full, used, ready, drained = px.barrier(), px.barrier(), px.barrier(), px.barrier()
    with px.warps(4, 1):
        for k in range(3):
            used.wait((k & 1) ^ 1)
            with full.transaction():
                px.tma.load(A[0:64, k * 16 : k * 16 + 16], a, full)
                px.tma.load(B[0:16, k * 16 : k * 16 + 16], b, full)
    with px.warps(5, 1):
        for k in range(3):
            full.wait(k & 1)
            drained.wait((k & 1) ^ 1)
            px.tcgen05.mma(a, b.T, acc, accumulate=False)  # product
            px.tcgen05.commit(used)
            px.tcgen05.commit(ready)
    with px.warps(0, 4):
        for k in range(3):
            ready.wait(k & 1)
            x = px.tcgen05.load(acc)  # load
            drained.arrive()  # signal
            px.store(C[0:64, 0:16], x)  # use


@px.kernel(warps=5)
def left_operand_from_registers(A, B, C):
    """Registers to tensor memory to a product of another role."""
    b, acc = px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    left = px.tmem((64, 16), A.dtype)
    full, ready, done = px.barrier(), px.barrier(), px.barrier()
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(B[0:16, 0:16], b, full)
        full.wait(0)
        ready.wait(0)
        px.tcgen05.mma(left, b.T, acc, accumulate=False)  # product
        px.tcgen05.commit(done)
    with px.warps(0, 4):
        px.tcgen05.store(left, px.load(A[0:64, 0:16]))  # store
        ready.arrive()  # signal
        done.wait(0)
        px.store(C[0:64, 0:16], px.tcgen05.load(acc))


@px.kernel(warps=4)
def left_operand_of_one_role(A, B, C):
    """The same threads store the operand, and one of them multiplies."""
    b, acc = px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    left = px.tmem((64, 16), A.dtype)
    full, done = px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(B[0:16, 0:16], b, full)
    px.tcgen05.store(left, px.load(A[0:64, 0:16]))  # store
    full.wait(0)
    px.tcgen05.mma(left, b.T, acc, accumulate=False)  # product
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[0:64, 0:16], px.tcgen05.load(acc))


KERNELS = [accumulate_and_drain, left_operand_from_registers, left_operand_of_one_role]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_nothing_is_missing_as_the_compiler_writes_it(kernel):
    assert findings_of(function_of(kernel, ARGS), 1, ARGS) == []
    assert px.check(kernel[1], *ARGS, strict=True).ok


LEFT_OUT = [
    # kernel, instruction, its line (None: all), kind of the finding, its line, the other line
    (accumulate_and_drain, "tcgen05.fence.before", "signal", "proxy", "product", "load"),
    (accumulate_and_drain, "tcgen05.fence.after", "product", "proxy", "product", "load"),
    (accumulate_and_drain, "tcgen05.fence.after", "load", "proxy", "load", "product"),
    (accumulate_and_drain, "tcgen05.wait.load", None, "uninitialised-read", "use", "load"),
    (accumulate_and_drain, "tmem.alloc", None, "tmem-lifetime", "product", None),
    (accumulate_and_drain, "tmem.free", None, "tmem-lifetime", "declared", None),
    (left_operand_from_registers, "tcgen05.fence.before", "signal", "proxy", "product", "store"),
    (left_operand_from_registers, "tcgen05.fence.after", "product", "proxy", "product", "store"),
    (left_operand_from_registers, "tcgen05.wait.store", None, "race", "product", "store"),
    (left_operand_of_one_role, "tcgen05.fence.before", None, "proxy", "product", "store"),
    (left_operand_of_one_role, "tcgen05.fence.after", "product", "proxy", "product", "store"),
    (left_operand_of_one_role, "tcgen05.wait.store", None, "race", "product", "store"),
]


@pytest.mark.parametrize(
    ("kernel", "what", "where", "kind", "line", "other"), LEFT_OUT, ids=lambda part: getattr(part, "name", str(part))
)
def test_left_out(kernel, what, where, kind, line, other):
    function = leave_out(function_of(kernel, ARGS), called(what, where and line_of(kernel, where)))
    found = findings_of(function, 1, ARGS)
    lines = [(f.kind, f.location.line, f.other and f.other.line) for f in found]
    assert (kind, line_of(kernel, line), other and line_of(kernel, other)) in lines
    if kind == "proxy":
        assert len(found) == 1 and re.search(rf"only with {what} between", found[0].message)


def test_a_wait_for_loads_behind_the_signal():
    """Who hears it may overwrite what is still being read, though the tile is there when it is used."""
    function = function_of(accumulate_and_drain, ARGS)
    waits = []

    def visit(op):
        if op.mnemonic == "tcgen05.wait.load":
            waits.append(op)
            return []
        return [op, *waits] if op.mnemonic == "mbarrier.arrive" and waits else None

    late = dataclasses.replace(function, body=rewrite(function.body, visit))
    found = [(f.kind, f.location.line, f.other and f.other.line) for f in findings_of(late, 1, ARGS)]
    assert found[0] == ("race", *(line_of(accumulate_and_drain, mark) for mark in ("product", "load")))


def test_used_after_it_was_freed():
    """The release moves up to where the address is taken: before every use."""
    function = function_of(accumulate_and_drain, ARGS)
    ops = [op for op in function.body.ops if op.mnemonic != "tmem.free"]
    free, = (op for op in function.body.ops if op.mnemonic == "tmem.free")
    taken = next(n for n, op in enumerate(ops) if op.mnemonic == "tmem.take")
    early = dataclasses.replace(function, body=Block((*ops[: taken + 1], free, *ops[taken + 1 :])))
    found = {(f.kind, f.location.line) for f in findings_of(early, 1, ARGS)}
    uses = {("tmem-lifetime", line_of(accumulate_and_drain, mark)) for mark in ("product", "load")}
    assert uses <= found


@px.kernel(warps=6, cluster=2)
def the_peer_only_lends_its_memory(A, B, C):
    """The even CTA multiplies for both and stores its half; the odd one waits for nothing but the sync at the end."""
    rank = px.cluster.rank()
    a, b = px.shared((64, 16), A.dtype), px.shared((8, 16), B.dtype)
    acc = px.tmem((64, 16), px.f32)  # declared
    full, done = px.barrier(), px.barrier(count=1, checked=False)
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(A[0:64, 0:16], a, full, two_cta=True)
            px.tma.load(B[rank * 8 : rank * 8 + 8, 0:16], b, full, two_cta=True)
    with px.warps(5, 1):
        if rank == 0:
            full.wait(0)
            px.tcgen05.mma(a, b.T, acc, accumulate=False, two_cta=True)  # product
            px.tcgen05.commit(done, two_cta=True)
    with px.warps(0, 4):
        if rank == 0:
            done.wait(0)
            px.store(C[0:64, 0:16], px.tcgen05.load(acc))


def test_the_peer_frees_and_exits_while_the_pair_multiplies():
    kernel = the_peer_only_lends_its_memory
    function = function_of(kernel, ARGS)
    assert findings_of(function, 2, ARGS) == []
    ends = [op for op in function.walk() if op.mnemonic == "cluster.sync"]
    found = findings_of(leave_out(function, lambda op: op is ends[-1]), 2, ARGS)
    lines = {(f.kind, f.location.line) for f in found}
    assert ("tmem-lifetime", line_of(kernel, "product")) in lines


ALWAYS_NEEDED = ("tcgen05.wait.load", "tcgen05.wait.store", "tmem.alloc", "tmem.free")


@pytest.mark.parametrize(
    ("kernel", "grid", "shape", "constants"),
    [case[:4] for case in CLEAN if case[3] not in ({"TILES": 8}, {"TIMES": 1})], ids=lambda part: getattr(part, "name", ""),
)
def test_each_one_alone_is_missed(kernel, grid, shape, constants):
    """No wait that the compiler writes is superfluous, wherever it stands."""
    args = (CLEAN_A, CLEAN_B, np.zeros(shape, np.float32))
    function = function_of(kernel, args, **constants)
    needed = [op for op in function.walk() if op.mnemonic in ALWAYS_NEEDED]
    assert len(needed) >= 3
    for op in needed:
        assert findings_of(leave_out(function, lambda other, op=op: other is op), grid, args), (op.mnemonic, op.loc.line)
