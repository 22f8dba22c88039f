"""What L2 keeps of weights that are larger than L2, for the next launch: how much, in which products, and how it is told;
rings that are as deep as there is room, and tiles that are stored whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.errors import Error
from phalanx.ir.ops.tma import HINTED_PARTS
from phalanx.kernels.products.keeping import KEPT_PARTS, kept_parts, streaming_hint
from phalanx.kernels.products.matmul_config import MatmulConfig, Problem, choose, require_fits, suited
from phalanx.kernels.products.matmul_cuts import DEEPEST, MAX_STAGES, deepened, possible, stored_whole
from phalanx.kernels.products.matmul_tiles import matmul_tiles
from phalanx.kernels.products.split_config import SplitConfig, best_either_way, choose_split
from phalanx.kernels.products.split_ring import split_ring
from phalanx.kernels.products.tile_model import costs_of, predicted_tiles, tabled
from phalanx.machines.h200 import H200
from phalanx.runtime.device.devices import Device

CARD = Device(H200.name, "sm_90a", H200.sms, H200.l2_bytes, H200.shared_bytes(), None)
TILES = MatmulConfig(64, 32, stages=3, cluster=(2, 1), parts=1, groups=1, streamed="columns", kept=6)
SPLIT = SplitConfig(16, 64, 2, 3, pieces=2, groups=1, kept=6)


def operands(m: int, n: int, k: int) -> tuple[Any, Any]:
    """Small whole numbers: sums of them are exact in whatever order."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, size).astype(ml_dtypes.bfloat16) for size in ((m, k), (n, k)))
    return a, b.T


@pytest.mark.parametrize("nbytes", [40_000_000, 45 << 20, 50 << 20, 90 << 20, 141 << 20, 300 << 20, 1 << 32])
def test_what_is_kept_fits_beside_the_stream(nbytes: int) -> None:
    parts = kept_parts(nbytes, nbytes // 4)
    assert parts in (0, *KEPT_PARTS)
    assert parts * nbytes / HINTED_PARTS <= H200.kept_of_stream
    following = [each for each in KEPT_PARTS if each > parts]
    assert not following or min(following) * nbytes / HINTED_PARTS > H200.kept_of_stream


def test_nothing_is_kept_of_what_fits_l2_unless_few_rows_pass_or_beside_a_large_result() -> None:
    assert kept_parts(39_999_999, 0) == 0
    assert kept_parts(39_999_999, 0, passing=True) == H200.passing_kept
    assert kept_parts(50 << 20, 13 << 20) == 0
    assert choose(Problem(14439, 256, 256, batch=3, by_k=(False, False)), CARD).kept == 0


def test_hints() -> None:
    assert streaming_hint(0) == "evict_first"
    assert streaming_hint(6) == "evict_first 10/16"


def test_a_streamed_operand_leaves_a_part_of_itself() -> None:
    middle, fits, large, small = (Problem(112, n, 5120) for n in (5120, 2048, 65536, 1024))
    assert choose(middle, CARD).streamed is not None and choose(middle, CARD).kept == kept_parts(2 * 5120 * 5120, 0) > 0
    assert choose(fits, CARD).streamed is not None and choose(fits, CARD).kept == H200.passing_kept
    assert (choose(small, CARD).streamed, choose(small, CARD).kept) == (None, 0)
    assert choose(large, CARD).streamed is not None and choose(large, CARD).kept == 0
    assert suited(replace(choose(middle, CARD), kept=0), middle, CARD) == choose(middle, CARD)


def test_nothing_leaves_for_a_large_result() -> None:
    """13024 x 440 x 544, of whose rows a part might go first, was at 0.84 of cuBLAS."""
    beside_small, beside_large = Problem(13024, 136, 544), Problem(13024, 440, 544)
    assert choose(beside_small, CARD).kept == H200.passing_kept
    assert (choose(beside_large, CARD).streamed, choose(beside_large, CARD).kept) == (None, 0)


def test_split_products_keep_as_much() -> None:
    assert best_either_way(96, 4096, 11008, True, True, CARD)[0].kept == kept_parts(2 * 4096 * 11008, 0) > 0
    assert best_either_way(96, 2048, 7168, True, True, CARD)[0].kept == 0
    assert choose_split(16, 4096, 11008).kept == kept_parts(2 * 4096 * 11008, 0)


def test_the_model_counts_what_is_kept() -> None:
    problem = Problem(112, 5120, 5120)
    chosen, costs = choose(problem, CARD), costs_of(problem)

    def took(config: MatmulConfig, **options: bool) -> float:
        return float(predicted_tiles(tabled([config], CARD, costs), problem, CARD, costs, **options)[0])

    nothing = replace(chosen, kept=0)
    assert took(chosen) == took(nothing) == took(chosen, keeps=False) < took(nothing, keeps=False)


def test_tiles_of_few_steps_are_stored_whole() -> None:
    """Queries by keys with heads of 128: two steps along K, for which a ring of three stages is enough."""
    short, long = Problem(1024, 1024, 128, 640), Problem(1024, 1024, 256, 640)
    config = MatmulConfig(cluster=(1, 2))
    whole = stored_whole(config, short)
    assert (config.parts, config.stages, whole.parts, whole.stages) == (2, 4, 1, 3)
    assert stored_whole(config, long) == config == stored_whole(config, replace(short, fused=True))
    for each in possible(short.kind()):
        after = stored_whole(each, short)
        assert after.parts in (1, each.parts) and after.stages <= each.stages
        require_fits(after, short)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("by_k", [(True, True), (True, False), (False, True)])
def test_rings_grow_as_far_as_there_is_room(fused: bool, by_k: tuple[bool, bool]) -> None:
    problem = Problem(2048, 2048, 2048, by_k=by_k, fused=fused)
    deep = [(config, deepened(config, problem)) for config in possible(problem)]
    assert {after.stages for _, after in deep} >= {4, 8, 9, DEEPEST}
    for before, after in deep:
        assert after == replace(before, stages=after.stages) and after.stages >= before.stages
        assert after.stages == before.stages or before.stages == MAX_STAGES
        require_fits(after, problem)
    chosen = choose(Problem(112, 5120, 5120), CARD)
    assert chosen == deepened(replace(chosen, stages=MAX_STAGES), Problem(112, 5120, 5120))


@pytest.mark.share(2)
@pytest.mark.parametrize("kept", [0, 6])
def test_results(kept: int) -> None:
    a, b = operands(40, 200, 256)
    want = a.astype(np.float32) @ b.astype(np.float32)
    for swapped, streamed in ((False, "columns"), (True, "rows")):
        config = replace(TILES, swapped=swapped, streamed=streamed, kept=kept)
        assert (px.kernels.matmul(a, b, out_dtype=px.f32, config=config) == want).all()
    out = np.zeros((40, 200), np.float32)
    px.kernels.split_k_matmul(a, b, out=out, config=replace(SPLIT, kept=kept))
    assert (out == want).all()


def test_l2_is_told_of_the_weights_alone() -> None:
    """Ten sixteenths of them may go first; A of the split kernel stays, that of tiles as usual."""
    a, b, c = px.spec((40, 256), px.bf16), px.spec((200, 256), px.bf16), px.spec((40, 200), px.bf16)
    tiles = px.compile(
        matmul_tiles[2, 1], a, b, c, None, None, None, None, None, arch="sm_90a", **TILES.constants(),
    )  # fmt: skip
    split = px.compile(split_ring[SPLIT.grid(40, 200)], a, b, c, c, arch="sm_90a", **SPLIT.constants())
    assert "0x1290000000000000ull" in tiles.source and "0x12f0" not in tiles.source
    assert "0x1290000000000000ull" in split.source and "0x14f0" in split.source and "0x12f0" not in split.source


@pytest.mark.parametrize("wrong", [{"kept": 16}, {"kept": -1}, {"streamed": None}])
def test_what_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Error, match="parts of what is streamed stay"):
        require_fits(replace(TILES, **wrong), Problem(40, 200, 256))
