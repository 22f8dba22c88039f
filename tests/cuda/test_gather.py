"""Rows by index in CUDA and PTX: four-row instructions on sm_100a, single rows on sm_90a, the same shared image."""

from __future__ import annotations

import re
from typing import Any

import pytest

import phalanx as px

ARCHS = ("sm_90a", "sm_100a")


@px.kernel(warps=4, cluster=lambda CLUSTER: CLUSTER)
def move(X, I, Y, *, R=4, K=64, MASK=None, HINT=None, CLUSTER=1):
    s, bar = px.shared((R, K), X.dtype), px.barrier()
    i = px.block_id(0) * R
    with bar.transaction():
        px.tma.gather(X, I[i : i + R], 0, s, bar, multicast=MASK, cache=HINT)
    bar.wait(0)
    px.tma.scatter(s, I[i : i + R], 0, Y, cache=HINT)
    px.tma.commit()
    px.tma.wait(0)


@px.kernel(warps=1)
def move4(X, I, Y, *, K=64, HINT=None):
    s, bar = px.shared((2, 4, K), X.dtype), px.barrier()
    i = px.block_id(0) * 4
    with bar.transaction():
        px.tma.gather4(X, (I[i], I[i + 1], I[i + 2], I[i + 3]), 0, s[1], bar)
    bar.wait(0)
    px.tma.scatter4(s[1], (I[i], I[i + 1], I[i + 2], I[i + 3]), 0, Y, cache=HINT)
    px.tma.commit()
    px.tma.wait(0)


def compiled(kernel: Any, arch: str, dtype: Any = px.bf16, columns: int = 1024, **constants: Any) -> Any:
    matrix, index = px.spec((4096, columns), dtype), px.spec((4096,), px.i32)
    grid = constants.get("CLUSTER", 1) * 8
    return px.compile(kernel[grid], matrix, index, matrix, arch=arch, **constants)


def copies(made: Any) -> list[str]:
    """The copies of the PTX, registers as `r`, in order and each once in a row."""
    lines = [re.sub(r"%\w+", "r", line.strip()) for line in made.ptx.splitlines() if "cp.async.bulk" in line]
    return [line for i, line in enumerate(lines) if i == 0 or line != lines[i - 1]]


LOAD4 = (
    "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
    "[r], [r, {r, r, r, r, r}], [r];"
)
STORE4 = "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [r, {r, r, r, r, r}], [r];"
LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [r], [r, {r, r}], [r];"
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [r, {r, r}], [r];"
GROUPS = ["cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;"]


@pytest.mark.parametrize("kernel", [move, move4], ids=lambda kernel: kernel.name)
def test_four_rows_are_one_instruction_on_blackwell(kernel: Any) -> None:
    assert copies(compiled(kernel, "sm_100a")) == [LOAD4, STORE4, *GROUPS]


@pytest.mark.parametrize("kernel", [move, move4], ids=lambda kernel: kernel.name)
def test_single_rows_on_hopper(kernel: Any) -> None:
    assert copies(compiled(kernel, "sm_90a")) == [LOAD, STORE, *GROUPS]


def test_one_lane_of_each_warp_asks_for_its_rows_back_to_back() -> None:
    text = compiled(move, "sm_90a", R=64).source
    issue = text[text.index("if (ptx::elect_sync()) {") :]
    block = issue[: issue.index("}")].splitlines()[1:-1]
    assert len(block) == 16 and all("cp_async_bulk_tensor_2d_shared_global(" in line for line in block)
    assert "px_lane" not in "".join(block)


def test_more_rows_than_uniform_registers_come_from_the_lanes_that_hold_their_indices() -> None:
    text = compiled(move, "sm_90a", R=128).source
    assert "if (px_lane % 4 == px_warp_id) {" in text


def test_multicast_and_hint_are_modifiers() -> None:
    wide = compiled(move, "sm_100a", MASK=0b11, HINT="evict_first", CLUSTER=2)
    assert copies(wide)[0] == (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes.multicast::cluster"
        ".L2::cache_hint [r], [r, {r, r, r, r, r}], [r], r, r;"
    )
    rows = compiled(move, "sm_90a", MASK=0b11, HINT="evict_first", CLUSTER=2)
    assert copies(rows)[0] == (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        ".L2::cache_hint [r], [r, {r, r}], [r], r, r;"
    )


@px.kernel(warps=1, cluster=2)
def of_a_pair(X, I, *, K=64):
    s, bar = px.shared((8, K), X.dtype), px.barrier()
    with bar.transaction():
        px.tma.gather(X, I[0:8], 0, s, bar, two_cta=True)
    if px.cluster.rank() == 0:
        bar.wait(0)


@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
def test_a_pairs_rows_are_credited_to_the_even_cta(arch: str) -> None:
    made = px.compile(of_a_pair[2], px.spec((64, 64), px.bf16), px.spec(64, px.i32), arch=arch)
    assert copies(made) == [
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes.cta_group::2"
        " [r], [r, {r, r, r, r, r}], [r];"
    ]
    assert "mapa" in made.source and "& ~1)" in made.source and made.spills == 0
    with pytest.raises(px.Error, match="sm_90a"):
        px.compile(of_a_pair[2], px.spec((64, 64), px.bf16), px.spec(64, px.i32), arch="sm_90a")


@pytest.mark.share(2)
@pytest.mark.parametrize("kernel", [move, move4], ids=lambda kernel: kernel.name)
def test_stores_of_rows_have_hints_too(kernel: Any) -> None:
    for arch, store in (("sm_90a", STORE), ("sm_100a", STORE4)):
        hinted = store.replace(".bulk_group", ".bulk_group.L2::cache_hint").replace(";", ", r;")
        made = compiled(kernel, arch, HINT="evict_first")
        assert copies(made)[1:] == [hinted, *GROUPS]
        assert made.source.count("0x12f0000000000000ull") >= 1
    narrow = compiled(move, "sm_90a", K=8, HINT="evict_last")  # rows of 16 bytes go as plain bulk copies
    assert any("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint" in line for line in copies(narrow))


@pytest.mark.share(9)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    "dtype, k",
    [
        (px.bf16, 64), (px.f32, 64), (px.f16, 768), (px.f8e4m3, 128), (px.i8, 320), (px.bf16, 32), (px.bf16, 24),
        (px.bf16, 16),
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [4, 132])
def test_every_shape_compiles_for_both(dtype: Any, k: int, rows: int, arch: str) -> None:
    made = compiled(move, arch, dtype, R=rows, K=k)
    assert made.cubin[:4] == b"\x7fELF" and made.spills == 0


def test_gathers_alone_have_four_rows_on_sm_120a() -> None:
    """It has no scatter4, and gather4 only into the CTA's own shared memory."""
    for kernel in (move, move4):
        assert copies(compiled(kernel, "sm_120a")) == [LOAD4, STORE, *GROUPS]
    notes = [str(note) for note in compiled(move, "sm_120a").notes]
    assert any("tma.scatter of 4 rows of Y: rows, single rows of a box of 1 x 64" in note for note in notes), notes
    wide = copies(compiled(move, "sm_120a", MASK=0b11, CLUSTER=2))
    assert not any("gather4" in line for line in wide) and any("multicast::cluster" in line for line in wide)


@pytest.mark.share(7)
@pytest.mark.parametrize("k, sm_90, sm_100", [
    (320, "rows, single rows of 5 boxes of 1 x 64", "four rows, gather4 of 5 boxes of 1 x 64"),
    (448, "rows, single rows of 7 boxes of 1 x 64", "four rows, gather4 of 7 boxes of 1 x 64"),
    (640, "rows, single rows of 5 boxes of 1 x 128", "four rows, gather4 of 5 boxes of 1 x 128"),
    (64, "rows, single rows of a box of 1 x 64", "four rows, gather4 of a box of 1 x 64"),
    (512, "rows, single rows of 2 boxes of 1 x 256", "four rows, gather4 of 2 boxes of 1 x 256"),
    (32, "bulk rows, 1 a row, rows of 64 bytes", "four rows, gather4 of a box of 1 x 32"),
    (24, "bulk rows, 1 a row, rows of 48 bytes", "bulk rows, 1 a row, rows of 48 bytes"),
])  # fmt: skip
def test_the_path_is_a_note(k: int, sm_90: str, sm_100: str) -> None:
    for arch, path in (("sm_90a", sm_90), ("sm_100a", sm_100)):
        notes = [str(note) for note in compiled(move, arch, K=k).notes]
        assert any(f"tma.gather of 4 rows of X: {path}" in note for note in notes), notes


@px.kernel(warps=4)
def product(X, I, W, Y, *, M=64, N=64, K=64):
    """A product whose left side is gathered into the swizzled operand, four rows of an eight-row atom at a time."""
    a, b, bar = px.shared((M, K), X.dtype), px.shared((N, K), X.dtype), px.barrier()
    with bar.transaction():
        for m in range(0, M, 4):
            px.tma.gather4(X, (I[m], I[m + 1], I[m + 2], I[m + 3]), 0, a[m : m + 4], bar)
        px.tma.load(W[0:N, 0:K], b, bar)
    bar.wait(0)
    px.store(Y[0:M, 0:N], px.dot(a, b.T, px.zeros((M, N), px.f32)))


@pytest.mark.share(4)
@pytest.mark.parametrize("k, path", [
    (64, "rows, single rows of a box of 1 x 64, 128-byte swizzle"),
    (128, "rows, single rows of 2 boxes of 1 x 64, 128-byte swizzle"),
    (32, "bulk rows, 4 a row, rows of 64 bytes do not start on multiples of 128"),
    (96, "bulk rows, 12 a row, rows of 64 bytes do not start on multiples of 128"),
])  # fmt: skip
def test_gathered_rows_feed_the_tensor_cores(k: int, path: str) -> None:
    matrix, index, result = px.spec((64, k), px.bf16), px.spec((64,), px.i32), px.spec((64, 64), px.f32)
    made = px.compile(product[1], matrix, index, matrix, result, arch="sm_90a", K=k)
    assert f"tma.gather4 of 4 rows of X: {path}" in "\n".join(map(str, made.notes))
    assert made.spills == 0
