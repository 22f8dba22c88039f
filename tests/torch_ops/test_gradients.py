"""Gradients in the simulator, against those of a reference in f64, which finite differences verify."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

import phalanx as px  # noqa: E402
from phalanx.torch.library import ONCE, REFUSING  # noqa: E402
from support.torch_gradients import CASES, doubles, verify  # noqa: E402


def test_every_function_with_a_gradient_is_here() -> None:
    """The others refuse tensors that require grad, or compute gradients themselves (`test_calls.py`)."""
    without = {"attention_backward", "attention_decode", "kv_compact", "pack_scales", "quantize", "sparse_attention"}
    assert without <= {*REFUSING, *ONCE}
    assert {name.partition(" ")[0] for name in CASES} == set(px.torch.__all__) - {"nn", "op", "replace"} - without


@pytest.mark.share(7)
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    verify(CASES[name])


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_the_reference_has_these_gradients(name: str) -> None:
    """By finite differences in f64, at random directions."""
    case = CASES[name]
    torch.manual_seed(0)
    assert torch.autograd.gradcheck(case.reference, doubles(case.tensors()), fast_mode=True)
