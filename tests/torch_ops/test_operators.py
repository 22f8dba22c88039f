"""Every function of the library is an operator: torch's own checks of one, and outlines that are what a run gives."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

import phalanx as px  # noqa: E402
from phalanx.torch.library import OPERATORS  # noqa: E402
from support.torch_gradients import CASES  # noqa: E402
from support.torch_operators import CALLS  # noqa: E402

TOGETHER = 3


def test_every_operator_is_called_here() -> None:
    assert set(CALLS) == set(OPERATORS)


def test_every_function_of_the_library_is_here() -> None:
    assert set(px.kernels.__all__) <= set(px.torch.__all__)
    assert set(px.kernels.__all__) <= set(OPERATORS)


def need_types(name: str) -> None:
    """Skips what makes elements of a type that this torch does not have."""
    if name == "quantize" and not hasattr(torch, "float8_e8m0fnu"):
        pytest.skip(f"torch {torch.__version__} has no float8_e8m0fnu")


@pytest.mark.share(TOGETHER)
@pytest.mark.parametrize("name", CALLS)
def test_opcheck(name: str) -> None:
    need_types(name)
    args = CALLS[name]()
    checks = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    if any(isinstance(x, torch.Tensor) and x.dtype == torch.float8_e4m3fn for x in args):
        checks.remove("test_schema")  # torch can't compare 8-bit floats on the CPU before and after
    torch.library.opcheck(OPERATORS[name], args, test_utils=checks)


DIFFERENTIABLE = sorted({name.partition(" ")[0] for name in CASES} & set(OPERATORS))
TWINS = ("scattered_rows", "scattered_add_rows", "moe_matmul_scattered", "activated")


@pytest.mark.long
@pytest.mark.parametrize("name", [*DIFFERENTIABLE, *TWINS])
def test_opcheck_with_gradients(name: str) -> None:
    """Forward and backward traced together, with dynamic sizes, give what eager code gives."""
    args = [
        x.clone().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in CALLS[name]()
    ]
    if OPERATORS[name]._schema.is_mutable:
        pytest.skip("it writes its argument: its functional twin is checked")
    near = {"atol": 1e-2, "rtol": 1e-2}  # sums of atomics differ in their last bits
    torch.library.opcheck(OPERATORS[name], tuple(args), test_utils=["test_aot_dispatch_dynamic"], **near)


@pytest.mark.parametrize("name", CALLS)
def test_the_outline_is_what_a_run_gives(name: str) -> None:
    """Shapes, strides and types; opcheck compares no strides of results."""
    need_types(name)
    args = CALLS[name]()
    real = OPERATORS[name](*args)
    mode = torch._subclasses.FakeTensorMode()
    with mode:
        fake = OPERATORS[name](*(mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in args))
    real, fake = (x if isinstance(x, tuple | list) else (x,) for x in (real, fake))
    assert len(real) == len(fake)
    for one, other in zip(real, fake):
        if one is not None:
            assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
