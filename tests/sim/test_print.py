"""`px.print`: who prints, and views of every memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

import phalanx as px
from support.host_cuda import COMPILER, MISSING, run_on_host


def test_lines_name_the_cta_its_rank_and_the_role(capsys: pytest.CaptureFixture[str]) -> None:
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        px.print("all")
        with px.warps(0, 1):
            px.print("one")
        with px.warps(1, 1, copies=2) as c:
            px.print("copy", c)

    kernel[4](np.zeros(4, np.float32))
    expected = [
        f"block ({block}, 0, 0), rank {block % 2}, {said}"
        for block in range(4) for said in ("all warps: all", "warp 0: one", "warp 1: copy 0", "warp 2: copy 1")
    ]
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(expected)


def test_views_of_global_and_shared_memory(capsys: pytest.CaptureFixture[str]) -> None:
    @px.kernel(warps=1)
    def kernel(X):
        s = px.shared((2, 4), px.f32)
        px.store(s, px.load(X[0:2, 0:4]) * 2.0)
        px.print("X", X[0, 1:3], "s", s[1], s[1, 2], s.T[0:2])

    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    kernel[1](x)
    said = "X [1. 2.] s [ 8. 10. 12. 14.] 12.0 [[ 0.  8.]\n [ 2. 10.]]\n"
    assert capsys.readouterr().out == f"block (0, 0, 0), all warps: {said}"


def test_a_view_is_read_as_a_load_reads_it() -> None:
    """One that nothing has written is a finding, at the print's line."""

    @px.kernel(warps=1)
    def kernel(X):
        s = px.shared((4,), px.f32)
        px.print(s)

    report = px.check(kernel[1], np.zeros(4, np.float32))
    assert [finding.kind for finding in report.findings] == ["uninitialised-read"]
    assert report.findings[0].location.text.strip() == "px.print(s)"


def test_a_view_of_tensor_memory(capsys: pytest.CaptureFixture[str]) -> None:
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((128, 32), px.f32)
        px.tcgen05.store(acc, px.load(X[0:128, 0:32]))
        px.print(acc)

    x = np.ones((128, 32), np.float32)
    kernel[1](x)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "block (0, 0, 0), all warps: [[1. 1. 1. ... 1. 1. 1.]"
    made = px.compile(kernel[1], x, arch="sm_100a")
    assert "tcgen05_ld" in made.source and made.cubin


def test_text_for_gpus_names_them_too() -> None:
    @px.kernel(warps=2, cluster=2)
    def kernel(X):
        s = px.shared((8,), px.bf16)
        px.store(s, px.load(X[0:8]))
        px.sync()
        with px.warps(0, 1, copies=2) as c:
            px.print("copy", c, s)

    made = px.compile(kernel[2], px.spec((8,), px.bf16))
    place = "(int)blockIdx.x, (int)blockIdx.y, (int)blockIdx.z, ptx::cluster_ctarank()"
    assert f'printf("block (%d, %d, %d), rank %d, warp %d: copy %d\\n", {place}, px_copy, c);' in made.source
    assert f'printf("block (%d, %d, %d), rank %d, warp %d:" " tile[%d] = " "%g\\n", {place}' in made.source
    assert made.cubin


@pytest.mark.skipif(not COMPILER, reason=MISSING)
def test_the_text_says_what_the_simulator_says(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line by line for numbers; each element of a tile has a line of its own in the text, and one owner."""

    @px.kernel(warps=8, cluster=2)
    def kernel(X, n, *, TILES):
        s = px.shared((2, 4), px.f32)
        px.store(s, px.load(X[0:2, 0:4]) + px.block_id(0))
        px.sync()
        px.print("100%", n, n > 2, s[1, 2])
        with px.warps(1, 1):
            px.print("one")
        with px.warps(2, 2, copies=3) as c:
            px.print("copy", c, "of", px.cluster.rank())
            if TILES:
                px.print(s[1])

    monkeypatch.setenv("PX_HOST_PRINTS", "1")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    kernel[4](x, 7, TILES=False)
    simulated = sorted(capfd.readouterr().out.splitlines())
    run_on_host(kernel, 4, x, 7, TILES=False)
    as_c_writes = [re.sub(r"(\d)\.0$", r"\1", line) for line in simulated]
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(as_c_writes) and len(simulated) == 4 * (1 + 1 + 3)
    run_on_host(kernel, 2, x, 7, TILES=True)
    elements = [line for line in capfd.readouterr().out.splitlines() if "[" in line]
    assert sorted(elements) == sorted(
        f"block ({block}, 0, 0), rank {block}, warps {first}-{first + 1}: tile[{i}] = {4 + i + block}"
        for block in range(2) for first in (2, 4, 6) for i in range(4)
    )
