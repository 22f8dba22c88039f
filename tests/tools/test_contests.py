"""The contests of benchmarks/drawn/anywhere.py: ours and torch's ways agree, in the simulator and on torch's CPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="contests are beside torch 2.6 or newer")

from benchmarks.drawn import draws, models  # noqa: E402

SIZES: dict[str, dict[str, int]] = {
    "matmul": {"batch": 1, "m": 40, "n": 72, "k": 64},
    "matmul_of_odd_sizes": {"batch": 1, "m": 40, "n": 71, "k": 65},
    "batched": {"batch": 2, "m": 40, "n": 72, "k": 64},
    "few_rows": {"m": 3, "n": 72, "k": 128},
    "fp8": {"m": 48, "n": 64, "k": 64},
    "split_k_matmul": {"m": 3, "n": 72, "k": 128},
    "grouped": {"groups": 2, "rows": 24, "n": 64, "k": 64, "seed": 1},
    **{op: {"groups": 2, "rows": 24, "n": 64, "k": 64, "seed": 1, "tokens": 12} for op in draws.EXPERT_ROWS},
    "attention_decode": {"batch": 2, "tokens": 100, "kv_heads": 2, "group": 2, "dim": 64},
    "sparse_attention": {"queries": 3, "tokens": 200, "named": 64, "heads": 16, "dim": 128, "seed": 1},
    "kv_compact": {"batch": 2, "tokens": 20, "heads": 2, "dim": 64, "kept": 7, "seed": 1},
    "quantize": {"rows": 10, "columns": 64},
    "pack_scales": {"rows": 40, "blocks": 8},
    **{op: {"rows": 30, "moved": 9, "columns": 24, "seed": 1} for op in draws.INDICES},
}
TRAITS = {
    "matmul": {"form": "a @ b.T", "bias": "bias"},
    "matmul_of_odd_sizes": {"form": "a.T @ b", "bias": None},
    "masked_softmax": {"mask": "each"},
    "quantize": {"format": "mxfp8"},
}


@pytest.mark.parametrize("op", list(models.CONTESTS))
def test_both_sides_compute_the_same(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.base, "DEVICE", "cpu")
    torch.manual_seed(5)
    sizes = SIZES.get(op, {"rows": 6, "columns": 77})
    dtype = {"fp8": "f8e4m3", "pack_scales": "f8e8m0"}.get(op, "bf16")
    contest = models.CONTESTS[op](draws.Case(op, sizes, dtype, TRAITS.get(op, {})))
    mine: Any = contest.ours()
    assert contest.nbytes > 0 and torch.isfinite(mine.float()).all()
    for name, theirs in contest.theirs.items():
        try:
            want = theirs()
        except (NotImplementedError, RuntimeError) as problem:
            pytest.skip(f"torch's CPU has no {name}: {str(problem).splitlines()[0][:80]}")
        if not name.startswith("copy"):
            assert (mine.float() - want.float()).abs().max() <= contest.tolerance * want.float().abs().max()


def test_every_draw_has_a_contest() -> None:
    assert set(models.CONTESTS) == set(draws.DRAWS)
