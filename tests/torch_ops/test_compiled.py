"""Networks under `torch.compile(fullgraph=True)` and `torch.export`, and what Inductor makes of operators."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

import phalanx as px  # noqa: E402
from support.torch_operators import experts, indices, numbers, order  # noqa: E402


def block(x: Any, w1: Any, w2: Any, norm: Any) -> Any:
    """A small network: norm, product with activation, product, and a residual."""
    h = px.torch.matmul(px.torch.rms_norm(x, norm), w1.T, None, "silu")
    return x + px.torch.matmul(h, w2.T)


def test_a_network_is_trained_as_without_compiler() -> None:
    """Forward and backward through AOTAutograd, which traces the gradients' operators, too."""
    tensors = numbers(6, 24), numbers(40, 24), numbers(24, 40), numbers(24)
    gradients = []
    torch._dynamo.reset()
    for run in (block, torch.compile(block, fullgraph=True, backend="aot_eager")):
        own = [x.clone().requires_grad_() for x in tensors]
        run(*own).float().square().sum().backward()
        gradients.append([x.grad for x in own])
    for eager, compiled in zip(*gradients):
        assert torch.equal(eager, compiled)


def test_f32_products_in_a_graph() -> None:
    """What torch allows its own products of f32 is part of what a graph depends on."""
    a, b = numbers(8, 24, dtype=torch.float32), numbers(16, 24, dtype=torch.float32)
    torch._dynamo.reset()
    run = torch.compile(lambda a, b: px.torch.matmul(a, b.T), fullgraph=True, backend="aot_eager")
    former = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        assert torch.equal(run(a, b), px.torch.matmul(a, b.T))
    finally:
        torch.set_float32_matmul_precision(former)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="of which tensor cores read 10 bits of the fraction"):
        run(a, b)


@pytest.mark.long
def test_inductor() -> None:
    tensors = numbers(6, 24), numbers(40, 24), numbers(24, 40), numbers(24)
    torch._dynamo.reset()
    with torch.no_grad():
        assert torch.allclose(torch.compile(block, fullgraph=True)(*tensors), block(*tensors), rtol=2e-2, atol=2e-2)


def test_export() -> None:
    class Block(torch.nn.Module):
        def forward(self, x: Any, w1: Any, w2: Any, norm: Any) -> Any:
            return block(x, w1, w2, norm)

    tensors = numbers(6, 24), numbers(40, 24), numbers(24, 40), numbers(24)
    rows = torch.export.Dim("rows", min=2, max=64)
    made = torch.export.export(Block(), tensors, dynamic_shapes=({0: rows}, None, None, None))
    names = {str(node.target) for node in made.graph.nodes}
    assert {"phalanx.rms_norm.default", "phalanx.matmul.default"} <= names
    others = numbers(9, 24), *tensors[1:]
    assert torch.equal(made.module()(*others), block(*others))


def test_experts_in_a_graph() -> None:
    """A mixture of experts without a break: sizes of groups stay on the device."""

    def mixture(x: Any, w1: Any, w2: Any, gates: Any, counts: Any) -> Any:
        h = px.torch.moe_gather_matmul(x, order(), w1, counts)
        y = torch.zeros(x.shape[0], w2.shape[1])
        return px.torch.moe_matmul_scatter(h, w2, counts, order(), gates, y)

    torch._dynamo.reset()
    args = numbers(5, 24), experts(), experts(24, 16), numbers(12), indices(7, 0, 5, dtype=torch.int32)
    gradients = []
    for run in (mixture, torch.compile(mixture, fullgraph=True, backend="aot_eager")):
        own = [x.clone().requires_grad_() for x in args[:4]]
        run(*own, args[4]).square().sum().backward()
        gradients.append([x.grad for x in own])
    for eager, compiled in zip(*gradients):
        torch.testing.assert_close(eager, compiled, rtol=2e-2, atol=2e-2)
