"""Gradients in the simulator, against those of a reference in f64, which finite differences verify."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

from torch_gradients import CASES, doubles, verify  # noqa: E402


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
