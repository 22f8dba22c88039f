"""Two kernels for Blackwell that were written by hand, on the CPU: a product of bf16, and one of scaled e4m3 by pairs of
CTAs that take over each other's tiles. What they compute is NumPy's result; what is left out of them shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from phalanx.cuda.nvrtc import compile_cuda
from support import host_build
from support.blackwell_texts import kernel_text, packed_scales, scaled
from support.host_cuda import COMPILER, MISSING, HostFailure, launch
from support.host_hand import HandWritten, TensorMap
from support.host_program import run_program

needs_compiler = pytest.mark.skipif(COMPILER is None, reason=MISSING)
PLAIN, PAIRS = kernel_text("blackwell_bf16.cu"), kernel_text("blackwell_mxf8.cu")
STAGE = 25600  # bytes of a stage of the second one


@dataclass(frozen=True)
class Launch:
    kernel: HandWritten
    grid: int | tuple[int, int]
    args: list[Any]
    result: np.ndarray
    want: np.ndarray


def plain(text: str, seed: int, m: int = 256, n: int = 128, k: int = 320) -> Launch:
    """A launch of the first kernel."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    c = np.full((m, n), np.nan, np.float32)
    kernel = HandWritten(text, "product", threads=256, shared=3 * 2 * 128 * 64 * 2)
    maps = [TensorMap(x, (128, 64), "128B") for x in (a, b)]
    return Launch(kernel, (m // 128, n // 128), [*maps, c, k, n], c, a.astype(np.float32) @ b.astype(np.float32).T)


def pairs(text: str, seed: int, m: int = 512, n: int = 256, k: int = 384) -> Launch:
    """A launch of the second kernel."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(ml_dtypes.float8_e4m3fn) for rows in (m, n))
    a_scales, b_scales = (rng.integers(125, 130, (rows, k // 32)).astype(np.uint8) for rows in (m, n))
    c = np.full((m, n), np.nan, np.float32)
    kernel = HandWritten(text, "product", threads=256, shared=2 * STAGE, cluster=(2, 1, 1))
    maps = [TensorMap(a.view(np.uint8), (128, 128), "128B"), TensorMap(b.view(np.uint8), (64, 128), "128B")]
    maps += [TensorMap(packed_scales(s), (1, words)) for s, words in ((a_scales, 128), (b_scales, 64))]
    by_block = [np.repeat(2.0 ** (s.astype(int) - 127), 32, axis=1) for s in (a_scales, b_scales)]
    want = scaled(a, by_block[0]) @ scaled(b, by_block[1]).T
    return Launch(kernel, m // 256 * (n // 128) * 2, [*maps, c, k, n], c, want)


def right(case: Launch, seed: int) -> bool:
    launch(case.kernel, case.grid, case.args, seed)
    return np.array_equal(case.result, case.want)


@pytest.mark.share(4)
@pytest.mark.parametrize("text, entry", [(PLAIN, "product"), (PAIRS, "product")], ids=["bf16", "mxf8"])
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
def test_they_compile(text: str, entry: str, arch: str) -> None:
    (resources,) = compile_cuda(text, arch).resources
    assert resources.function == entry and resources.spill_store_bytes == 0


@needs_compiler
@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(4))
def test_bf16(seed: int) -> None:
    assert right(plain(PLAIN, seed), seed)
    if not host_build.RUNNER:  # 2 tiles, 5 steps, 4 products each; a commit for each step and one at the end
        assert host_build.counted("tcgen05.mma") == 2 * 5 * 4
        assert host_build.counted("tcgen05.commit") == 2 * 6
        assert host_build.counted("tcgen05.fence::after_thread_sync") > 0


@needs_compiler
@pytest.mark.share(7)
@pytest.mark.parametrize("seed", range(6))
def test_scaled_pairs(seed: int) -> None:
    """Small integers and powers of two: every order of sums gives the same."""
    for text in (PAIRS, PAIRS.replace("SUMS = 2", "SUMS = 1")):
        assert right(pairs(text, seed), seed)


def without(text: str, statement: str) -> str:
    assert statement in text
    return text.replace(statement, "", 1)


def swapped(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def failures(run: Callable[[str, int], Launch], text: str, seeds: int = 6) -> list[str]:
    """What goes wrong with some of the seeds."""
    told = []
    for seed in range(seeds):
        try:
            told += [] if right(run(text, seed), seed) else ["other numbers"]
        except HostFailure as failure:
            told.append(str(failure))
    return told


ONE_SUM = swapped(PAIRS, "SUMS = 2", "SUMS = 1")
BROKEN = {
    "the sums are read before the products are done": (
        plain, without(PLAIN, "wait_for(done, 0);"), "other numbers|has not waited for its tcgen05.ld"),
    "a stage is filled again too early": (
        plain, without(PLAIN, "wait_for(empty + 8 * stage, i / STAGES % 2 ^ 1);"),
        "other numbers|wait for each other|arrivals"),
    "products do not wait for their operands": (
        plain, without(PLAIN, "wait_for(full + 8 * stage, i / STAGES % 2);"), "other numbers|arrivals"),
    "columns are never freed": (plain, without(PLAIN, "give_back<1>(sums, TILE_N);"), "has not freed 128 columns"),
    "another place in tensor memory": (
        plain, swapped(PLAIN, "*(volatile unsigned*)&where", "0"), "which CTA 0 has not allocated"),
    "warps read each other's lanes": (
        plain, swapped(PLAIN, "(mine << 16)", "(((warp - 3) % 4 * 32) << 16)"), r"by warp \d, which reaches lanes"),
    "a swizzle that there is not": (
        plain, swapped(PLAIN, "1ull << 46 | 2ull << 61", "1ull << 46 | 3ull << 61"), "a descriptor with swizzle 3"),
    "another swizzle than the copies'": (
        plain, swapped(PLAIN, "1ull << 46 | 2ull << 61", "1ull << 46 | 4ull << 61"), "other numbers"),
    "the next tile's products overwrite sums that are being read": (
        pairs, without(ONE_SUM, "wait_for(sums_empty + 8 * sum, turn / SUMS % 2 ^ 1);"),
        "other numbers|has not waited|arrivals"),
    "half of the bytes": (pairs, swapped(PAIRS, "2 * BYTES", "BYTES"), "other numbers|each other|arrivals|differ|lane"),
    "the pair's other CTA is not told": (
        pairs, swapped(PAIRS, "commit_pair(empty + 8 * stage, 3)", "commit_pair(empty + 8 * stage, 1)"),
        "wait for each other"),
    "a mask beyond the cluster": (
        pairs, swapped(PAIRS, "commit_pair(sums_full + 8 * sum, 3)", "commit_pair(sums_full + 8 * sum, 7)"),
        "to CTAs 0x7 of a cluster of 2"),
    "the odd CTA multiplies": (
        pairs, swapped(PAIRS, "rank == 0 && one_lane()", "rank == 1 && one_lane()"),
        "the even CTA of a pair issues it|each other"),
    "each CTA tells its own barrier": (pairs, swapped(PAIRS, "& 0xfeffffffu", "& 0xffffffffu"), "each other"),
    "other scales": (pairs, swapped(PAIRS, "word | j << 4 | j << 29", "word | j << 29"), "other numbers"),
    "memory is freed while the pair works": (
        pairs, swapped(PAIRS, "everyone_in_cluster();\n  after_others();\n  if (warp == 3)", "if (warp == 3)"),
        "has not allocated|which has ended|other numbers|is under way"),
}  # fmt: skip


@pytest.mark.skipif(host_build.why_not_sanitized() is not None, reason=str(host_build.why_not_sanitized()))
@pytest.mark.long
def test_under_the_sanitizers() -> None:
    """The machine itself, too: it is compiled with them."""
    for run, text in ((plain, PLAIN), (pairs, PAIRS)):
        case = run(text, 3)
        [story] = run_program([case.kernel], [(case.grid, case.args, 3)], sanitize=True)
        assert story is None, story
        assert np.array_equal(case.result, case.want)


@pytest.mark.share(4)
@needs_compiler
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (i % 4 > 0)) for i, n in enumerate(BROKEN)])
def test_what_is_left_out_shows(name: str) -> None:
    run, text, expected = BROKEN[name]
    told = failures(run, text)
    assert told and all(re.search(expected, story) for story in told), told
