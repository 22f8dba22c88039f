"""Operators of a user's functions around kernels."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

import phalanx as px  # noqa: E402


@px.kernel(warps=4)
def scale_rows(X, Y, factor, *, BM=8, BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    px.store(Y[m : m + BM, n : n + BN], (px.load(X[m : m + BM, n : n + BN]).to(px.f32) * factor).to(Y.dtype))


def launch(x: Any, y: Any, factor: float) -> None:
    scale_rows[px.cdiv(x.shape[0], 8), px.cdiv(x.shape[1], 64)](x, y, factor)


@px.torch.op("phalanx_tests::scaled", backward=lambda ctx, d: (scaled(d.contiguous(), ctx.inputs[1]), None))
def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    launch(x, y, factor)
    return y


@px.torch.op("phalanx_tests::scaled_into", mutates=("y",))
def scaled_into(x: torch.Tensor, y: torch.Tensor, factor: float) -> None:
    launch(x, y, factor)


def test_called_directly_and_through_torch() -> None:
    x = torch.randn(10, 70)
    assert torch.equal(scaled(x, 3.0), 3 * x)
    assert torch.equal(torch.ops.phalanx_tests.scaled(x), 2 * x)


def test_opcheck() -> None:
    x = torch.randn(10, 70)
    torch.library.opcheck(torch.ops.phalanx_tests.scaled.default, (x.requires_grad_(), 3.0))
    torch.library.opcheck(torch.ops.phalanx_tests.scaled_into.default, (x.detach(), torch.zeros(10, 70), 3.0))


def test_gradient() -> None:
    x = torch.randn(10, 70, requires_grad=True)
    d = torch.randn(10, 70)
    (gradient,) = torch.autograd.grad(scaled(x, 3.0), x, d)
    assert torch.equal(gradient, 3 * d)


def test_compiled_with_two_dynamic_sizes() -> None:
    torch._dynamo.reset()
    run = torch.compile(lambda x: scaled(x + 1, 3.0), fullgraph=True, dynamic=True, backend="aot_eager")
    for shape in ((10, 70), (3, 200)):
        x = torch.randn(*shape)
        assert torch.equal(run(x), 3 * (x + 1))


def test_what_it_writes_is_written_in_a_graph() -> None:
    def both(x: Any) -> Any:
        y = torch.zeros_like(x)
        scaled_into(x, y, 2.0)
        return y + 1

    torch._dynamo.reset()
    x = torch.randn(9, 40)
    assert torch.equal(torch.compile(both, fullgraph=True, backend="aot_eager")(x), both(x))


def test_without_backward_a_gradient_is_refused() -> None:
    x = torch.randn(9, 40, requires_grad=True)
    with pytest.raises(px.Error) as caught:
        scaled_into(x, torch.zeros(9, 40), 2.0)
    assert "x requires grad, and phalanx_tests::scaled_into has no gradient: this one would be lost" in str(caught.value)
    assert "scaled_into(x, torch.zeros(9, 40), 2.0)" in str(caught.value), "the user's line"
    with torch.no_grad():
        scaled_into(x, torch.zeros(9, 40), 2.0)


def test_a_version_counts_what_is_written() -> None:
    y = torch.zeros(9, 40)
    before = y._version
    torch.ops.phalanx_tests.scaled_into(torch.ones(9, 40), y, 2.0)
    assert y._version == before + 1 and y.eq(2).all()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: px.torch.op("scaled"), "'scaled' is no name of an operator"),
        (lambda: px.torch.op("phalanx_tests::a", mutates=("z",))(lambda x: None), "mutates names 'z', which is no argument"),
        (lambda: px.torch.op("phalanx_tests::b")(lambda x: None), "no schema for <lambda>"),
    ],
)
def test_mistakes(make: Any, message: str) -> None:
    with pytest.raises(px.Error) as caught:
        make()
    assert message in str(caught.value)


def test_a_cell_that_is_run_twice_makes_the_operator_anew() -> None:
    """The second function takes the place of the first, in eager code and in graphs."""
    for factor in (2.0, 3.0):

        @px.torch.op("phalanx_tests::again", backward=lambda ctx, d, factor=factor: (d * factor, None))
        def again(x: torch.Tensor, factor: float = factor) -> torch.Tensor:
            y = torch.empty_like(x)
            launch(x, y, factor)
            return y

        x = torch.ones(9, 40, requires_grad=True)
        again(x, factor).sum().backward()
        assert x.grad.eq(factor).all()
        assert torch.ops.phalanx_tests.again(x).eq(factor).all()
        torch._dynamo.reset()
        assert torch.compile(lambda x: again(x), fullgraph=True, backend="aot_eager")(x.detach()).eq(factor).all()


def test_another_function_does_not_take_a_name() -> None:
    @px.torch.op("phalanx_tests::taken")
    def taken(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    with pytest.raises(px.Error) as caught:

        @px.torch.op("phalanx_tests::taken")
        def other(x: torch.Tensor) -> torch.Tensor:
            return torch.empty_like(x)

    here = f"{__name__}.test_another_function_does_not_take_a_name.<locals>"
    assert caught.value.message == f"there is an operator phalanx_tests::taken already, made of {here}.taken"
    assert caught.value.remedy == "choose another name: an operator is made anew of a function of the same name alone"
