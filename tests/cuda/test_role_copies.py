"""The text of copies: one body, the number of the copy at run time, a barrier of threads and scratch memory for each."""

from __future__ import annotations

import re

import numpy as np
import pytest

import phalanx as px
from phalanx.cuda.nvrtc import compile_cuda
from phalanx.cuda.text.sites import Site
from phalanx.location import NOWHERE
from support.cuda_text import body, module_of
from support.front import array
from support.host_cuda import run_on_host
from support.role_copies import products, products_arguments, turns, turns_arguments


def test_one_body_with_the_number_of_the_copy():
    pair = turns(2, 4)
    module = module_of(pair.copied, pair.types, **pair.constants)
    text = body(module)
    assert "} else if (px_warp_id >= 4) {  // warps 4 to 11, 2 copies" in text
    assert "const int px_copy = (px_warp_id - 4) / 4;" in text
    assert "const int px_warp = (px_warp_id - 4) % 4;" in text
    assert "const bool px_one = (px_warp_id - 4) % 4 == 0 && ptx::elect_sync();" in text
    assert text.count("// warps") == 1
    assert set(re.findall(r"ptx::bar_sync_of<(\d+)>\((.*?)\);", text)) == {("128", "1 + px_copy")}
    (scratch,) = set(re.findall(r"px_smem \+ \d+ \+ (\d+) \* px_copy", text))
    assert int(scratch) % 128 == 0
    assert compile_cuda(module.source, "sm_90a").resources_of(module.entry).spill_store_bytes == 0


def test_copies_of_one_warp_need_no_barrier():
    pair = turns(3, 1)
    text = body(module_of(pair.copied, pair.types, **pair.constants))
    assert "const int px_copy = px_warp_id - 4;" in text
    assert "bar_sync" not in text


def test_an_idle_producer_of_each_copy():
    """Only the first warp of each copy has something to do."""

    @px.kernel(warps=8)
    def kernel(X):
        buf, full = px.shared((2, 32), px.f32), px.barrier(2)
        with px.warps(0, 4, copies=2) as c:
            with full[c].transaction():
                px.tma.load(X[0:32], buf[c], full[c])
            full[c].wait(0)

    text = body(module_of(kernel, (array(1),)))
    assert "if (px_warp < 1) {" in text
    assert "const int px_warp = px_warp_id % 4;" in text


def test_registers_of_a_producer_that_is_one_warp():
    """All four warps of its warpgroup give their registers away; three of them do nothing else."""

    @px.kernel(warps=12)
    def kernel(X):
        full = px.barrier(2)
        with px.warps(0, 1, regs=24):
            for c in px.static_range(2):
                full[c].arrive()
        with px.warps(4, 4, copies=2, regs=240) as c:
            full[c].wait(0)

    text = body(module_of(kernel, (array(1),)))
    head = text[text.index("if (px_warp_id < 4)") :]
    order = ["if (px_warp_id < 4) {  // warp 0", "setmaxnreg_dec<24>", "if (px_warp_id == 0) {", "setmaxnreg_inc<240>"]
    assert [part for part in order if part in head] == order
    assert sorted(order, key=head.index) == order


LONG = pytest.mark.long


@pytest.mark.parametrize(("copies", "count"), [(2, 4), pytest.param(3, 1, marks=LONG), pytest.param(4, 2, marks=LONG)])
def test_on_the_host(copies, count):
    x, y, want = turns_arguments(copies)
    run_on_host(turns(copies, count).copied, 1, x, y, COPIES=copies, COUNT=count)
    np.testing.assert_allclose(y, want, rtol=1e-6)


def test_a_report_from_the_gpu_names_the_copy():
    site = Site("wait", "full", "warps 4-11", NOWHERE, (4, 4))
    assert [site.who(warp) for warp in (4, 7, 8, 11)] == ["warps 4-7", "warps 4-7", "warps 8-11", "warps 8-11"]
    assert Site("wait", "full", "warp 0", NOWHERE).who(0) == "warp 0"
    assert Site("wait", "full", "", NOWHERE).who(0) == "all warps"


@pytest.mark.parametrize("arch", ["sm_90a", pytest.param("sm_100a", marks=LONG)])
def test_products_of_copies(arch):
    """On sm_100a each copy has an accumulator in tensor memory, and a barrier, of its own."""
    a, b, c, want = products_arguments()
    assert px.check(products[1], a, b, c, arch=arch).ok
    c = np.zeros_like(want)
    module = run_on_host(products, 1, a, b, c, arch=arch)
    np.testing.assert_array_equal(c, want)
    text = body(module)
    assert text.count("_descriptor(a_addr + c * 8192") == 1  # once a use
    if arch == "sm_100a":
        assert "px_tmem + copy * 64" in text and "dot_done + 8 * copy" in text
