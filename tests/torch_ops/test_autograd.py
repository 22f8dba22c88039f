"""What autograd learns of launches: gradients that would be lost are refused, and versions count what kernels write."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

import phalanx as px  # noqa: E402
from phalanx.errors import display_path  # noqa: E402


@px.kernel(warps=4)
def double(X, Y):
    px.store(Y[0:8, 0:64], px.load(X[0:8, 0:64]) * 2)


def matrix(**options: Any) -> Any:
    return torch.ones(8, 64, **options)


def test_an_input_that_requires_grad() -> None:
    x = matrix(requires_grad=True)
    with pytest.raises(px.Error) as caught:
        double[1](x, matrix())
    here = caught.value.location
    assert str(caught.value) == (
        "argument 'X' of kernel 'double' requires grad, and a launch has no gradient: this one would be lost\n"
        f"   --> {display_path(__file__)}:{here.line}:9\n   |\n"
        f"{here.line} |         double[1](x, matrix())\n   |         ^^^^^^^^^^^^^^^^^^^^^^\n"
        "  = help: px.torch.op(..., backward=...) makes an operator with a gradient of a function that launches it; or "
        "launch under torch.no_grad(), or on x.detach()"
    )


def test_a_leaf_and_what_was_computed_from_one_are_not_written() -> None:
    leaf = matrix(requires_grad=True)
    for y in (leaf, leaf * 1, (leaf * 1)[:, :]):
        with pytest.raises(px.Error, match="argument 'Y' of kernel 'double' requires grad"):
            double[1](matrix(), y)
    assert leaf.eq(1).all()


def test_what_torch_does_not_record_is_launched() -> None:
    leaf, y = matrix(requires_grad=True), matrix()
    with torch.no_grad():
        double[1](leaf, y)
        double[1](y, leaf)
    with torch.inference_mode():
        double[1](leaf, torch.zeros(8, 64))
    double[1](leaf.detach(), y)
    assert y.eq(8).all() and leaf.eq(4).all()


@pytest.mark.parametrize("how", ["itself", "view", "no_grad"])
def test_a_saved_tensor_that_a_kernel_writes_is_noticed(how: str) -> None:
    saved, weight = matrix(), matrix(requires_grad=True)
    loss = (saved * weight).sum()
    if how == "no_grad":
        with torch.no_grad():
            double[1](matrix(), saved)
    else:
        double[1](matrix(), saved[:, :] if how == "view" else saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_saved_tensor_that_a_kernel_reads_is_as_it_was() -> None:
    saved, weight = matrix(), matrix(requires_grad=True)
    loss = (saved * weight).sum()
    double[1](saved, matrix())
    loss.backward()
    assert weight.grad.eq(1).all()


WRITERS = {
    "matmul": lambda out: px.kernels.matmul(matrix(dtype=torch.bfloat16), matrix(dtype=torch.bfloat16).T, out=out),
    "add_rms_norm": lambda out: px.kernels.add_rms_norm(torch.ones(8, 8), out),
    "gather_rows": lambda out: px.kernels.gather_rows(torch.ones(8, 8), torch.arange(8), out=out),
    "scatter_rows": lambda out: px.kernels.scatter_rows(torch.ones(8, 8), torch.arange(8), out),
    "cross_entropy": lambda out: px.kernels.cross_entropy(out, torch.arange(8), gradient=True),
    "kv_compact": lambda out: px.kernels.kv_compact(out, torch.arange(8), inplace=True),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_library_counts_versions_of_what_it_writes(name: str) -> None:
    out = torch.ones(8, 8)
    WRITERS[name](out)
    assert out._version > 0


def test_the_library_counts_no_versions_of_what_it_reads() -> None:
    x = torch.ones(8, 8)
    px.kernels.cross_entropy(x, torch.arange(8))
    px.kernels.kv_compact(x, torch.arange(8))
    px.kernels.gather_rows(x, torch.arange(8))
    assert x._version == 0


def test_a_function_of_autograd_around_launches() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = torch.empty_like(x)
            double[1](x, y)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, d: Any) -> Any:
            (y,) = ctx.saved_tensors
            dx = torch.empty_like(y)
            double[1](d.contiguous(), dx)
            return dx

    x = matrix(requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.eq(2).all()
