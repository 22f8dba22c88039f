"""What a GPU does not take although the simulator does: misaligned places in shared memory, and notes on the rest."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

I, O = array(256, dtype=np.int32), array(256, dtype=np.int32)
X, Y = array(64, 64), array(64, 64)


@planted("misaligned", args=(I, O))
@px.kernel(warps=4)
def loads_to_byte_eight(I, O, *, BUG):
    v, bar = px.shared((256,), px.i32), px.barrier()
    with bar.transaction():
        px.tma.load(I[0:128], v[2:130] if BUG else v[4:132], bar)  # bug
    bar.wait(0)
    px.store(O[0:128], px.load(v[2:130] if BUG else v[4:132]))


@planted("misaligned", args=(I, O))
@px.kernel(warps=4)
def stores_from_byte_eight(I, O, *, BUG):
    v = px.shared((256,), px.i32)
    px.store(v, px.load(I[0:256]))
    px.fence.async_proxy()
    px.tma.store(v[2:130] if BUG else v[4:132], O[0:128])  # bug
    px.tma.commit()
    px.tma.wait(0)


@planted("misaligned", args=(I, O))
@px.kernel(warps=4)
def adds_from_byte_eight(I, O, *, BUG):
    """One run is added by a plain bulk reduction, which begins at multiples of 16 bytes."""
    v = px.shared((256,), px.i32)
    px.store(v, px.load(I[0:256]))
    px.fence.async_proxy()
    px.tma.reduce(v[2:130] if BUG else v[4:132], O[0:128], "add")  # bug
    px.tma.commit()
    px.tma.wait(0)


@planted("misaligned", args=(X, Y))
@px.kernel(warps=4)
def loads_columns_between_boxes(X, Y, *, BUG):
    s, bar = px.shared((64, 64), X.dtype), px.barrier()
    with bar.transaction():
        px.tma.load(X[0:64, 0:32], s[:, 2:34] if BUG else s[:, 32:64], bar)  # bug
    bar.wait(0)
    px.store(Y[0:64, 0:32], px.load(s[:, 2:34] if BUG else s[:, 32:64]))


@planted("misaligned", args=(X, Y))
@px.kernel(warps=4)
def gathers_to_columns_between_chunks(X, Y, *, BUG):
    s, bar = px.shared((4, 64), X.dtype), px.barrier()
    with bar.transaction():
        px.tma.gather4(X, (0, 3, 5, 9), 0, s[:, 2:34] if BUG else s[:, 32:64], bar)  # bug
    bar.wait(0)
    px.store(Y[0:4, 0:32], px.load(s[:, 2:34] if BUG else s[:, 32:64]))


H, P = array(64, 64, dtype=np.float16), np.zeros((64, 64), np.float32)


@planted("misaligned", args=(H, P), ROW=1, COLUMN=0)
@planted("misaligned", args=(H, P), ROW=0, COLUMN=2)
@px.kernel(warps=4)
def multiplies_from_between(X, Y, *, BUG, ROW, COLUMN):
    a, b, bar = px.shared((128, 128), X.dtype), px.shared((64, 64), X.dtype), px.barrier()
    with bar.transaction():
        px.tma.load(X[0:64, 0:64], a[0:64, 0:64], bar)
        px.tma.load(X[0:64, 0:64], a[64:128, 0:64], bar)
        px.tma.load(X[0:64, 0:64], a[0:64, 64:128], bar)
        px.tma.load(X[0:64, 0:64], a[64:128, 64:128], bar)
        px.tma.load(X[0:64, 0:64], b, bar)
    bar.wait(0)
    acc = px.zeros((64, 64), px.f32)
    row, column = ROW * BUG, COLUMN * BUG
    px.wgmma(a[row : row + 64, column : column + 64], b, acc)  # bug
    px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(Y[0:64, 0:64], acc)


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()
    with pytest.raises(px.Error) as caught:
        px.compile(case.kernel[case.grid], *case.args, BUG=True, **case.constants, arch="sm_90a")
    finding, = case.check(True).findings
    assert caught.value.kind == "misaligned" and finding.message.startswith(caught.value.message)


@px.kernel(warps=1)
def prints_a_part(X, Y):
    x = px.load(X[0:128])
    if px.block_id(0) > 0:
        px.print("the first", x[0:4])
    px.store(Y[0:128], x)


@px.kernel(warps=1)
def starts_anywhere(X, Y, n):
    s, bar = px.shared((256,), X.dtype), px.barrier()
    with bar.transaction():
        px.tma.load(X[0:128], s[n : n + 128], bar)
    bar.wait(0)
    px.store(Y[0:128], px.load(s[n : n + 128]))


@pytest.mark.parametrize(("kernel", "more"), [(prints_a_part, ()), (starts_anywhere, (4,))])
def test_what_no_gpu_takes_is_a_note(kernel, more):
    report = px.check(kernel[1], I, O, *more)
    with pytest.raises(px.Error) as caught:
        px.compile(kernel[1], I, O, *more, arch="sm_90a")
    assert report.ok
    assert report.notes == [f"{caught.value.location.short}: px.compile refuses this: {caught.value.message}"]


def test_a_place_by_rank_that_no_gpu_takes_is_a_finding():
    @px.kernel(warps=1, cluster=4)
    def places_by_rank(X):
        s, bar = px.shared((16, 4), X.dtype), px.barrier(count=1)
        w = px.cluster.rank() * 4
        bar.arrive_and_expect_tx(64)
        px.tma.load(X[w : w + 4, 0:4], s[w : w + 4], bar)
        bar.wait(0)

    finding, = px.check(places_by_rank[4], np.zeros((16, 4), np.float32)).findings
    assert finding.kind == "misaligned" and finding.message.startswith("px.tma.load can't copy this region of X")


def test_a_kernel_for_another_gpu_needs_no_note():
    @px.kernel(warps=1, cluster=16)
    def wide(Y):
        px.store(Y[px.cluster.rank()], 1)

    assert px.check(wide[16], O).notes == []  # sm_120a has clusters of 8 at most
