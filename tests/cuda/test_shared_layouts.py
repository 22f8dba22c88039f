"""How shared buffers are arranged: plain unless a swizzle saves bank conflicts, always within what copies allow."""

from __future__ import annotations

import phalanx as px
from phalanx.cuda.lower.copies import plan_copies
from phalanx.cuda.lower.register_layouts import infer_register_layouts
from phalanx.cuda.lower.shared_layouts import choose_shared_layouts
from phalanx.ir.types import bf16
from phalanx.language.kernel import Kernel
from phalanx.layouts import SharedLayout
from support.front import Types, array, prepared


def chosen(kernel: Kernel, types: Types, **constants: object) -> tuple[dict[str, SharedLayout], list[str]]:
    """Layouts by buffer name, and the notes; the copies of the kernel can be planned with them."""
    function, layouts, _ = infer_register_layouts(prepared(kernel, types, **constants))
    shared, notes = choose_shared_layouts(function, layouts)
    plan_copies(function, shared)
    return {buffer.name: layout for buffer, layout in shared.items()}, [str(note) for note in notes]


@px.kernel(warps=4)
def plain(X, Y, *, M=64, N=64):
    s = px.shared((M, N), px.f32)
    px.store(s, px.load(X[0:M, 0:N]))
    px.store(Y[0:M, 0:N], px.load(s))


def test_rows_need_no_swizzle() -> None:
    layouts, notes = chosen(plain, (array(2), array(2)))
    assert layouts["s"] == SharedLayout((64, 64), 4)
    assert not notes


@px.kernel(warps=4)
def transposed(X, Y, *, M=64, N=64):
    s = px.shared((M, N), px.bf16)
    px.store(s, px.load(X[0:M, 0:N]))
    px.store(Y[0:N, 0:M], px.load(s.T))


def test_a_transposed_read_gets_a_swizzle_and_a_note() -> None:
    layouts, notes = chosen(transposed, (array(2, bf16), array(2, bf16)))
    assert layouts["s"].swizzle
    assert "swizzle" in notes[0] and "bank conflicts" in notes[0]


@px.kernel(warps=4)
def stored_by_tma(X, Y, *, M=64, N=144):
    s = px.shared((M, N), px.bf16)
    acc = px.zeros((M, N), px.f32)
    a, b = px.shared((M, 64), px.bf16), px.shared((N, 64), px.bf16)
    px.wgmma(a, b.T, acc)
    px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(s, acc.to(px.bf16))
    px.fence.async_proxy()
    px.tma.store(s, Y[0:M, 0:N])
    px.tma.commit()
    px.tma.wait(0)


def test_rows_of_a_store_are_not_cut_into_narrow_boxes() -> None:
    """Two rows that meet in a bank cost less than nine boxes of 32 bytes a row; boxes of 64 and 128 are wide enough."""
    for width, swizzle in ((80, 0), (112, 0), (144, 0), (176, 0), (16, 32), (96, 64), (160, 64), (128, 128), (192, 128)):
        layouts, _ = chosen(stored_by_tma, (array(2, bf16), array(2, bf16)), N=width)
        assert layouts["s"].swizzle == swizzle, width


@px.kernel(warps=4)
def by_tma(X, Y, *, M=64, N=64, S=2):
    s = px.shared((S, M, N), px.bf16)
    bar = px.barrier(S)
    for i in px.static_range(S):
        with bar[i].transaction():
            px.tma.load(X[0:M, i * N:i * N + N], s[i], bar[i])
        bar[i].wait(0)
        px.store(Y[0:N, 0:M], px.load(s[i].T))


def test_tma_buffers_are_swizzled_in_panels_that_boxes_fill() -> None:
    layouts, _ = chosen(by_tma, (array(2, bf16), array(2, bf16)))
    assert layouts["s"].swizzle == layouts["s"].panel_columns * 2
    wide, _ = chosen(by_tma, (array(2, bf16), array(2, bf16)), N=128)
    assert wide["s"].swizzle == wide["s"].panel_columns * 2
    assert wide["s"].panels == 128 * 2 // wide["s"].swizzle


@px.kernel(warps=4)
def wide_tma(X, Y, *, M=8, N=512):
    s = px.shared((M, N), px.f32)
    bar = px.barrier()
    with bar.transaction():
        px.tma.load(X[0:M, 0:N], s, bar)
    bar.wait(0)
    px.store(Y[0:M, 0:N], px.load(s))


def test_boxes_of_more_than_256_columns_are_cut_into_panels() -> None:
    layouts, _ = chosen(wide_tma, (array(2), array(2)))
    assert not layouts["s"].swizzle
    assert layouts["s"].panel_columns == 256
    narrow, _ = chosen(wide_tma, (array(2), array(2)), N=128)
    assert narrow["s"].panels == 1


@px.kernel(warps=4)
def bulk(X, Y, *, N=1024):
    s = px.shared((4, N), px.f32)
    bar = px.barrier()
    with bar.transaction():
        px.tma.load(X[0:N], s[1], bar)
    bar.wait(0)
    px.store(Y[0:N, 0:4], px.load(s.T))


def test_rows_of_bulk_copies_stay_contiguous() -> None:
    layouts, _ = chosen(bulk, (array(1), array(2)))
    assert not layouts["s"].swizzle and layouts["s"].panels == 1
    assert layouts["s"].is_row_major


@px.kernel(warps=4, cluster=2)
def remote(X, Y, *, M=32, N=32):
    s = px.shared((M, N), px.f32)
    r = px.cluster.rank()
    px.store(s.at(r ^ 1), px.load(X[0:M, 0:N]))
    px.cluster.sync()
    px.store(Y[0:N, 0:M], px.load(s.T))


def test_a_peers_buffer_counts_like_the_own() -> None:
    layouts, _ = chosen(remote, (array(2), array(2)))
    assert set(layouts) == {"s"}
    assert layouts["s"].shape == (32, 32)
