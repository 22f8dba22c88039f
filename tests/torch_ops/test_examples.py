"""The examples with torch: both run in the simulator, train as torch does, and say that they are right."""

from __future__ import annotations

import importlib
import sys
from itertools import pairwise
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))


@pytest.mark.long
@pytest.mark.parametrize("experts", (0, 4))
def test_training(experts: int) -> None:
    """The losses of both sides after the first steps are one."""
    found = importlib.import_module("train_gpt").main(
        ["--size", "tiny", "--steps", "2", "--rows", "2", "--timed", "0", "--experts", str(experts), "--eager"]
    )
    ours, theirs = found["ours"]["losses"], found["torch"]["losses"]
    assert ours[1] < ours[0] and ours == pytest.approx(theirs, rel=5e-4)


@pytest.mark.long
def test_serving(capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module("serve").main(["--size", "tiny", "--sequences", "2", "--new", "3"])
    assert "right: all of" in capsys.readouterr().out


@pytest.mark.parametrize(
    "kernel, work, owner",
    [
        ("matmul_tiles", "products", "Phalanx"), ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN", "products", "cuBLAS"),
        ("attention_tiles", "attention, forward", "Phalanx"), ("backward_keys", "attention, backward", "Phalanx"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128", "attention, forward", "cuDNN"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_3_64x64", "attention, backward", "cuDNN"),
        ("norm_backward_rows", "norms, with residual sums where fused", "Phalanx"),
        ("cross_entropy_backward_rows", "loss", "Phalanx"), ("add_rows", "embedding", "Phalanx"),
        ("triton_poi_fused_mul_silu_3", "SwiGLU", "Inductor"), ("triton_poi_fused__to_copy_5", "casts", "Inductor"),
        ("triton_red_fused__to_copy_add_mul_pow_rsqrt_7", "norms, with residual sums where fused", "Inductor"),
        ("void at::native::multi_tensor_apply_kernel<...FusedAdamMathFunctor...>", "optimiser", "torch"),
    ],
)  # fmt: skip
def test_kernels_of_a_step_by_what_they_do(kernel: str, work: str, owner: str) -> None:
    table = importlib.import_module("step_table")
    assert (table.work_of(kernel), table.owner_of(kernel)) == (work, owner)
    rows = table.by_work([(kernel, 1.5, 2), (kernel + "_", 0.5, 1), ("Optimizer.step#AdamW.step", 9.0, 1)])
    assert rows == {work: {"ms": 2.0, "launches": 3, "of": [owner]}}
    shown = table.text_of({"ours": rows, "torch": {}})
    assert work in shown and "2.000" in shown


def test_text() -> None:
    gpt = importlib.import_module("gpt")
    text = gpt.Text(64, seed=1)
    tokens = text.batch(3, 40)
    assert tokens.shape == (3, 40) and all(b in text.next[a] for row in tokens for a, b in pairwise(row))
    assert len(text.words(tokens[0]).split()) == 40 and (gpt.Text(64, seed=1).batch(3, 40) == tokens).all()
